//! `paceline graph`: files of every format, their errors, and the statistics of small graphs.

use crate::support;

use std::fs;

use support::{Place, keys};

/// A dead end (4), an isolated vertex (7), a self-loop (3), a duplicate (1 to 2), an id beyond
/// 2^32.
const SMALL: &str = "# Nodes: 12\n1 2\n2 1\n1 2\n3 3\n2 4\n5000000000 1\n";

fn place() -> Place {
    let place = Place::new();
    place.write("small.tsv", SMALL);
    place
}

fn done(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.status, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

#[test]
fn a_graph_goes_through_every_format_and_comes_back() {
    let place = place();
    for format in ["npz", "txt.gz", "csv"] {
        let (there, back) = (format!("there.{format}"), format!("back-{format}.tsv"));
        let said = done(&place, &["graph", "convert", "small.tsv", &there]);
        assert!(said.contains("5 vertices, 6 edges"), "{said}");
        done(&place, &["graph", "convert", &there, &back]);
        let text = fs::read_to_string(place.path().join(back)).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["1\t2", "1\t2", "2\t1", "2\t4", "3\t3", "5000000000\t1"]);
    }
    let options = ["--undirected", "--dedupe", "--drop-self-loops"];
    let convert = ["graph", "convert", "small.tsv", "small.metis"];
    let ran = place.run(&[&convert[..], &options].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("the file has no ids"), "{}", ran.stderr);
    let metis = fs::read_to_string(place.path().join("small.metis")).unwrap();
    assert_eq!(metis, "5 3\n2 5\n1 4\n\n2\n1\n");
    // The same bytes under a name that says nothing, forced both ways.
    done(&place, &["graph", "convert", "small.tsv", "data.bin", "--to", "npz"]);
    let (_, stat) = place.json(&["graph", "stat", "data.bin", "--from", "npz"]);
    assert_eq!(stat["id_max"], 5_000_000_000u64);
}

#[test]
fn what_cannot_be_written_is_refused_before_anything_is_read() {
    let place = place();
    let said = place.error(&["graph", "convert", "missing.tsv", "out.dat"], 2);
    assert!(
        said.contains("out.dat: the name has no known ending") && said.contains(".npz"),
        "{said}"
    );
    let said = place.error(&["graph", "convert", "missing.tsv", "no/such/out.npz"], 2);
    assert!(said.contains("there is no folder no/such"), "{said}");
    let said = place.error(&["graph", "convert", "missing.tsv", "out.npz"], 2);
    assert!(said.contains("missing.tsv"), "{said}");
    let said = place.error(&["graph", "convert", "small.tsv", "out.metis"], 2);
    assert!(said.contains("METIS "), "{said}");
    let said = place.error(&["graph", "convert", "small.tsv", "out.tsv.zst"], 2);
    assert!(said.contains("zstd can be read, not written"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "nothing is left of them");
}

#[test]
fn mistakes_in_files_are_named_with_their_line() {
    let place = place();
    place.write("bad.tsv", "1 2\n2 3\nthree 4\n");
    let said = place.error(&["graph", "stat", "bad.tsv"], 2);
    assert!(said.contains("bad.tsv: line 3: `three 4`"), "{said}");
    place.write("empty.tsv", "");
    assert!(place.error(&["graph", "stat", "empty.tsv"], 2).contains(
        "empty.tsv: the file has no \
        edges"
    ));
    let said = place.error(&["graph", "stat", "small.npz", "--columns", "label"], 2);
    assert!(said.contains("--columns applies only to edge lists"), "{said}");
    done(&place, &["graph", "gen", "rmat", "--scale", "8", "--out", "cut.tsv.gz"]);
    let path = place.path().join("cut.tsv.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let said = place.error(&["graph", "stat", "cut.tsv.gz"], 2);
    assert!(said.contains("cut.tsv.gz: damaged or truncated after line"), "{said}");
}

#[test]
fn the_numbers_of_a_small_graph_are_those_counted_by_hand() {
    let place = place();
    let (_, stat) = place.json(&["graph", "stat", "small.tsv", "--parts", "2", "--by", "range"]);
    for (key, value) in [
        ("vertices", 5),
        ("edges", 6),
        ("id_min", 1),
        ("id_max", 5_000_000_000u64),
        ("degree_min", 0),
        ("degree_median", 1),
        ("degree_max", 2),
        ("dead_ends", 1),
        ("isolated", 0),
        ("self_loops", 1),
        ("duplicates", 1),
        ("components", 2),
        ("component_vertices_max", 4),
    ] {
        assert_eq!(stat[key], value, "{key}");
    }
    assert_eq!((&stat["is_weighted"], &stat["is_labelled"]), (&false.into(), &false.into()));
    // 1, 2, 3 | 4, 5000000000: 2 to 4 and 5000000000 to 1 cross.
    assert_eq!(stat["partition"]["edges_cut"], 2);
    assert_eq!(stat["partition"]["vertices"], serde_json::json!([3, 2]));
    assert_eq!(stat["partition"]["edges"], serde_json::json!([5, 1]));
    place.write("labelled.tsv", "1 2 7\n2 1 8\n");
    let (_, stat) = place.json(&["graph", "stat", "labelled.tsv", "--columns", "label"]);
    assert_eq!((&stat["is_weighted"], &stat["is_labelled"]), (&false.into(), &true.into()));
    // An isolated vertex is one if the file promises it and ids have no gaps.
    place.write("isolated.tsv", "# Nodes: 4\n0 1\n1 2\n");
    let (_, stat) = place.json(&["graph", "stat", "isolated.tsv"]);
    assert_eq!((&stat["vertices"], &stat["isolated"]), (&4.into(), &1.into()));
    let text = done(&place, &["graph", "stat", "small.tsv"]);
    assert!(text.contains("dead ends") && text.contains("5000000000"), "{text}");
}

#[test]
fn drawn_graphs_are_the_same_for_the_same_seed() {
    let place = Place::new();
    let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
    let rmat = ["graph", "gen", "rmat", "--scale", "10", "--edges-per-vertex", "4"];
    for (name, seed) in [("a.tsv", "5"), ("b.tsv", "5"), ("c.tsv", "6")] {
        done(&place, &[&rmat[..], &["--seed", seed, "--out", name]].concat());
    }
    assert!(bytes("a.tsv") == bytes("b.tsv") && bytes("a.tsv") != bytes("c.tsv"));
    let (_, stat) = place.json(&["graph", "stat", "a.tsv"]);
    assert_eq!((&stat["vertices"], &stat["edges"]), (&1024.into(), &4096.into()));

    // Only the last block has edges within.
    let sbm = ["graph", "gen", "sbm", "--sizes", "20,30", "--a", "0", "--b", "0", "--c", "1"];
    let (_, drawn) = place.json(&[&sbm[..], &["--out", "sbm.npz"]].concat());
    assert_eq!((&drawn["vertices"], &drawn["edges"]), (&50.into(), &(30 * 29).into()));
    let matrix = ["graph", "gen", "sbm", "--sizes", "20,30", "--matrix", "1,0;0,0"];
    let (_, drawn) = place.json(&[&matrix[..], &["--out", "matrix.npz"]].concat());
    assert_eq!(drawn["edges"], 20 * 19);
    for (arguments, wrong) in [
        (&["sbm", "--sizes", "5,5", "--matrix", "1,0"][..], "symmetric matrix of 2 x 2"),
        (&["sbm", "--sizes", "5", "--matrix", "x"], "`x` is not a number"),
        (&["sbm", "--sizes", "0"], "0 vertices"),
        (&["sbm", "--sizes", "5", "--a", "2"], "not between 0 and 1"),
        (&["rmat", "--scale", "32"], "0..=31"),
        (&["rmat", "--scale", "4", "--quadrants", "1,0"], "2 probabilities, expected 4"),
        (&["rmat", "--scale", "4", "--quadrants", "1,1,0,0"], "add up to 2"),
    ] {
        let said = place.error(&[&["graph", "gen"], arguments, &["--out", "x.tsv"]].concat(), 2);
        assert!(said.contains(wrong), "{said}");
    }
    assert!(!place.path().join("x.tsv").exists());
}

#[test]
fn parts_are_written_read_and_judged() {
    let place = place();
    let partition = ["graph", "partition", "small.tsv"];
    let run = |rest: &[&str]| place.json(&[&partition[..], rest].concat()).1;
    let range = run(&["--parts", "2", "--by", "range", "--out", "small.part"]);
    let shape = ["cut", "edges", "edges_balance", "edges_cut", "parts", "vertices"];
    assert_eq!(keys(&range)[..6], shape);
    let text = fs::read_to_string(place.path().join("small.part")).unwrap();
    assert_eq!(text, "0\n0\n0\n1\n1\n");
    assert_eq!(run(&["--read", "small.part"]), range);
    let (_, stat) = place.json(&["graph", "stat", "small.tsv", "--partition", "small.part"]);
    assert_eq!(stat["partition"], range);
    let text = done(&place, &[&partition[..], &["--parts", "3"]].concat());
    assert!(text.contains("edges that cross") && text.contains("part  vertices"), "{text}");

    place.write("bad.part", "0\n1\nx\n0\n1\n");
    place.write("short.part", "0\n1\n");
    for (arguments, wrong) in [
        (&["--read", "bad.part"][..], "bad.part: line 3: `x` is not a part"),
        (&["--read", "short.part"], "short.part: 2 lines for 5 vertices"),
        (&["--parts", "0"], "1..=65535"),
        (&["--parts", "2", "--out", "no/part"], "there is no folder no"),
        (&[], "--parts"),
    ] {
        let said = place.error(&[&partition[..], arguments].concat(), 2);
        assert!(said.contains(wrong), "{said}");
    }
}

#[test]
fn every_command_shows_how_it_is_used() {
    let place = Place::new();
    for command in [
        "graph",
        "graph convert",
        "graph stat",
        "graph gen",
        "graph gen sbm",
        "graph gen rmat",
        "graph partition",
        "walk",
        "walk run",
    ] {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = done(&place, &words);
        let example = format!("  paceline {command} ");
        assert!(help.contains("Example") && help.contains(&example), "{command}: {help}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_parquet_graph_is_refused_where_it_is_not_built_in() {
    let place = place();
    place.write("x.parquet", "PAR1");
    for arguments in [["stat", "x.parquet"].as_slice(), &["convert", "small.tsv", "y.parquet"]] {
        let said = place.error(&[&["graph"], arguments].concat(), 2);
        assert!(said.contains("built without Parquet"), "{said}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_graph_comes_back() {
    let place = place();
    done(&place, &["graph", "convert", "small.tsv", "small.parquet"]);
    done(&place, &["graph", "convert", "small.parquet", "back.tsv"]);
    let text = fs::read_to_string(place.path().join("back.tsv")).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(lines, ["1\t2", "1\t2", "2\t1", "2\t4", "3\t3", "5000000000\t1"]);
}
