//! `paceline walk run` on one machine: what it writes, what it counts, what it refuses.

use crate::support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use support::{Place, keys};

/// 1 and 2 lead to each other, 2 also to 4, a dead end; 1 twice to 2; 3 to itself; 5 leads nowhere
/// and nothing leads there, but it is named; 5000000000 leads to 1.
const SMALL: &str = "1 2\n2 1\n1 2\n3 3\n2 4\n5000000000 1\n";

fn place() -> Place {
    let place = Place::new();
    place.write("small.tsv", SMALL);
    // The vertex 5 is isolated: ids without gaps, as many as the heading promises.
    place.write("isolated.tsv", "# Nodes: 6\n0 1\n1 0\n2 3\n4 4\n");
    place
}

fn edges(text: &str) -> BTreeSet<(u64, u64)> {
    let edge = |line: &str| {
        let mut ids = line.split_whitespace().map(|id| id.parse().unwrap());
        (ids.next().unwrap(), ids.next().unwrap())
    };
    text.lines().filter(|line| !line.starts_with('#')).map(edge).collect()
}

fn walks(place: &Place, name: &str) -> Vec<Vec<u64>> {
    let text = fs::read_to_string(place.path().join(name)).unwrap();
    text.lines().map(|line| line.split(' ').map(|id| id.parse().unwrap()).collect()).collect()
}

fn run<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    [&["walk", "run"], rest].concat()
}

#[test]
fn walks_follow_edges_under_the_ids_of_the_file_and_end_at_dead_ends() {
    let place = place();
    let arguments = ["small.tsv", "--length", "6", "--walks", "50", "--out", "w.txt"];
    let (ran, summary) = place.json(&run(&arguments));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let walks = walks(&place, "w.txt");
    let edges = edges(SMALL);
    let sources = walks.chunks(50).map(|walks| walks[0][0]).collect::<Vec<_>>();
    assert_eq!(sources, [1, 2, 3, 4, 5_000_000_000]);
    let mut dead_ends = 0;
    for walk in &walks {
        assert!(walk.windows(2).all(|pair| edges.contains(&(pair[0], pair[1]))), "{walk:?}");
        let is_cut = walk.len() < 7;
        assert!(!is_cut || walk.last() == Some(&4), "{walk:?}");
        dead_ends += u64::from(is_cut);
    }
    assert!(walks[100..150].iter().all(|walk| walk == &[3; 7]), "a self-loop leads on");
    assert!(walks[150..200].iter().all(|walk| walk == &[4]), "nothing leads away from 4");
    let steps: usize = walks.iter().map(|walk| walk.len() - 1).sum();
    assert_eq!((&summary["walks"], &summary["steps"]), (&250.into(), &steps.into()));
    assert_eq!((&summary["dead_ends"], &summary["is_complete"]), (&dead_ends.into(), &true.into()));
    assert!(dead_ends > 50);
    let shape = [
        "dead_ends",
        "edges",
        "graph",
        "is_complete",
        "kind",
        "mean_hops",
        "resumed_after_walks",
        "seconds",
        "seed",
        "sources",
        "steps",
        "steps_per_s",
        "vertices",
        "walks",
        "walks_per_source",
    ];
    assert_eq!(keys(&summary), shape, "nothing of losses and attempts: nothing is lost here");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "only the file itself is left");
}

#[test]
fn sources_are_named_by_id_and_an_isolated_one_stays_where_it_is() {
    let place = place();
    let out = ["isolated.tsv", "--walks", "2", "--out", "w.txt", "--length", "3"];
    let sources = ["--source", "5", "--source", "4", "--source", "5"];
    assert_eq!(place.run(&[run(&out), sources.to_vec()].concat()).status, 0);
    let expected = [&[5][..], &[5], &[4; 4], &[4; 4], &[5], &[5]];
    assert_eq!(walks(&place, "w.txt"), expected);
    place.write("some.txt", "# two of them\n4\n\n5\n");
    let from_file = [run(&out), vec!["--sources", "some.txt"]].concat();
    assert_eq!(place.run(&from_file).status, 0);
    assert_eq!(walks(&place, "w.txt"), [&[4; 4][..], &[4; 4], &[5], &[5]]);
}

/// A graph of a few thousand vertices with hubs, dead ends, self-loops and duplicates.
fn drawn(place: &Place, rest: &[&str]) {
    let arguments = ["graph", "gen", "rmat", "--edges-per-vertex", "6", "--out", "g.npz"];
    let ran = place.run(&[&arguments, rest].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_threads() {
    let place = Place::new();
    drawn(&place, &["--scale", "12"]);
    let bytes = |name: &str, rest: &[&str]| {
        let ran = place.run(&[run(&["g.npz", "--out", name]), rest.to_vec()].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        fs::read(place.path().join(name)).unwrap()
    };
    for name in ["w.txt", "w.csv", "w.txt.gz"] {
        let one = bytes(name, &["--threads", "1"]);
        assert!(one.len() > 100_000 && bytes(name, &["--threads", "3"]) == one, "{name}");
        assert!(bytes(name, &["--seed", "2"]) != one, "{name}");
    }
    // A walk is the same in all formats.
    let csv = String::from_utf8(bytes("w.csv", &[])).unwrap();
    let mut paths: Vec<Vec<u64>> = Vec::new();
    for line in csv.lines().skip(1) {
        let row: Vec<u64> = line.split(',').map(|cell| cell.parse().unwrap()).collect();
        if row[1] == 0 {
            assert_eq!(row[0], paths.len() as u64);
            paths.push(Vec::new());
        }
        paths.last_mut().unwrap().push(row[2]);
    }
    bytes("w.txt", &[]);
    assert!(walks(&place, "w.txt") == paths);
}

#[test]
fn every_kind_walks_and_arguments_of_another_are_refused() {
    let place = place();
    place.write("labels.tsv", "1 2 1\n2 3 2\n2 1 1\n3 1 1\n");
    let label = ["labels.tsv", "--columns", "label", "--kind", "metapath", "--labels", "1,2"];
    let out = ["--walks", "4", "--out", "w.txt", "--length", "9"];
    assert_eq!(place.run(&run(&[&label[..], &out].concat())).status, 0);
    // Labels 1, 2, 1, 2: from 1 to 2, to 3, to 1, where no edge of label 2 leads on.
    let found = walks(&place, "w.txt");
    assert!(found[..4].iter().all(|walk| walk == &[1, 2, 3, 1]), "{found:?}");
    for kind in [
        &["uniform"][..],
        &["deepwalk"],
        &["weighted"],
        &["ppr", "--end", "0.5", "--steps-max", "7"],
        &["node2vec", "--p", "0.25", "--q", "4"],
        &["restart", "--restart", "0.5"],
    ] {
        let arguments = [run(&["small.tsv", "--walks", "9", "--kind"]), kind.to_vec()].concat();
        let (ran, summary) = place.json(&arguments);
        assert_eq!((ran.status, &summary["walks"]), (0, &45.into()), "{}", ran.stderr);
    }
    for (arguments, wrong) in [
        (&["--kind", "metapath"][..], "needs --labels"),
        (&["--kind", "metapath", "--labels", "1"], "have no labels"),
        (&["--kind", "ppr", "--length", "3"], "--length has no effect"),
        (&["--end", "0.1"], "--end has no effect on these walks: it applies only to --kind ppr"),
        (&["--p", "2"], "--p has no effect"),
        (&["--kind", "node2vec", "--q", "0"], "node2vec's q is 0: 0.01 to 100"),
        (&["--restart", "0.1"], "--restart has no effect"),
        (&["--kind", "ppr", "--end", "1.5"], "not between 0 and 1"),
        (&["--length", "0"], "1..=1048576"),
    ] {
        let said = place.error(&[run(&["small.tsv"]), arguments.to_vec()].concat(), 2);
        assert!(said.contains(wrong), "{arguments:?}: {said}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing() {
    let place = place();
    place.write("bad.tsv", "1 2\n2 3\n3 x\n");
    place.write("empty.tsv", "");
    place.write("nothing.metis", "0 0\n");
    place.write("some.txt", "1\n77\n");
    place.write("none.txt", "# none\n");
    place.write("word.txt", "1\ntwo\n");
    drawn(&place, &["--scale", "8"]);
    let ran = place.run(&["graph", "convert", "g.npz", "cut.tsv.gz"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let path = place.path().join("cut.tsv.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let files = || fs::read_dir(place.path()).unwrap().count();
    let before = files();
    for (arguments, wrong) in [
        (&["bad.tsv"][..], "bad.tsv: line 3: `3 x`"),
        (&["cut.tsv.gz"], "cut.tsv.gz: damaged or truncated after line"),
        (&["empty.tsv"], "empty.tsv: the file has no edges"),
        (&["nothing.metis"], "nothing.metis: the graph has no vertices"),
        (&["missing.tsv"], "missing.tsv: "),
        (&["small.tsv", "--walks", "0"], "0 is not in 1.."),
        (&["small.tsv", "--source", "77"], "--source 77: the graph has no vertex of this id"),
        (&["small.tsv", "--sources", "some.txt"], "some.txt: line 2: `77` is not a vertex"),
        (&["small.tsv", "--sources", "word.txt"], "word.txt: line 2: `two` is not an id"),
        (&["small.tsv", "--sources", "none.txt"], "none.txt: the file has no source"),
        (&["small.tsv", "--sources", "gone.txt"], "gone.txt: "),
        (&["small.tsv", "--out", "w.dat"], "w.dat: the name has no known ending"),
        (&["small.tsv", "--out", "no/w.txt"], "no/w.txt: there is no folder no"),
        (&["small.tsv", "--visits", "no/v.csv"], "no/v.csv: there is no folder no"),
        (&["small.tsv", "--visits", "v.csv", "--ends", "v.csv"], "two outputs cannot use the same"),
        (&["small.tsv", "--top-k", "3"], "--ends"),
        (&["small.tsv", "--resume"], "--out"),
        (&["small.tsv", "--out", "w.txt.gz", "--resume"], "only uncompressed .txt and .csv"),
        (&["small.tsv", "--threads", "0"], "1..=1024"),
    ] {
        let said = place.error(&run(arguments), 2);
        assert!(said.contains(wrong), "{arguments:?}: {said}");
    }
    assert_eq!(files(), before);
}

#[cfg(unix)]
#[test]
fn walks_are_not_written_through_a_symbolic_link() {
    let place = place();
    place.write("victim", "precious");
    let link = place.path().join("walks.txt.partial");
    std::os::unix::fs::symlink("victim", &link).unwrap();
    let said = place.error(&run(&["small.tsv", "--out", "walks.txt"]), 2);
    assert!(said.contains("walks.txt.partial") && said.contains("symbolic link"), "{said}");
    assert_eq!(fs::read_to_string(place.path().join("victim")).unwrap(), "precious");
    assert!(!place.path().join("walks.txt").exists());
}

#[test]
fn ends_and_visits_are_those_of_the_walks() {
    let place = Place::new();
    drawn(&place, &["--scale", "9"]);
    let outputs = ["--out", "w.txt", "--ends", "e.csv", "--visits", "v.csv", "--top-k", "3"];
    let ppr = ["g.npz", "--kind", "ppr", "--walks", "40"];
    let (ran, summary) = place.json(&run(&[&ppr[..], &outputs].concat()));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let (mut visits, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for walk in walks(&place, "w.txt") {
        walk.iter().for_each(|&vertex| *visits.entry(vertex).or_insert(0u64) += 1);
        *ends.entry((walk[0], walk[walk.len() - 1])).or_insert(0u64) += 1;
    }
    let rows = |name: &str| -> Vec<Vec<f64>> {
        let text = fs::read_to_string(place.path().join(name)).unwrap();
        let row = |line: &str| line.split(',').map(|cell| cell.parse().unwrap()).collect();
        text.lines().skip(1).map(row).collect()
    };
    for row in rows("v.csv") {
        assert_eq!(visits.get(&(row[0] as u64)).copied().unwrap_or(0), row[1] as u64);
    }
    let ranks = rows("e.csv");
    let mut last = vec![0.0; 5];
    for row in &ranks {
        let walks = ends[&(row[0] as u64, row[2] as u64)];
        assert_eq!((walks, row[4]), (row[3] as u64, row[3] / 40.0));
        assert!(row[1] == 1.0 || row[1] == last[1] + 1.0 && row[3] <= last[3], "{row:?}");
        last = row.clone();
    }
    let firsts = ranks.iter().filter(|row| row[1] == 1.0).count();
    assert_eq!((firsts, ranks.iter().all(|row| row[1] <= 3.0)), (512, true));

    let bias = &summary["bias"];
    assert_eq!(keys(bias), ["mean_hops_exact", "p"]);
    assert!(bias["p"].as_f64().unwrap() > 1e-3, "{bias}");
    let (mean, exact) = (&summary["mean_hops"], &bias["mean_hops_exact"]);
    assert!((mean.as_f64().unwrap() / exact.as_f64().unwrap() - 1.0).abs() < 0.05, "{summary}");
    assert!(exact.as_f64().unwrap() < 3.9, "dead ends count: {exact}");
    let (_, summary) = place.json(&run(&[&ppr[..], &["--no-bias-test"]].concat()));
    assert!(summary.get("bias").is_none(), "{summary}");
}

#[cfg(unix)]
mod resumed {
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;

    const JOB: [&str; 6] = ["g.npz", "--walks", "12", "--threads", "2", "--out"];

    fn start(place: &Place, arguments: &[&str]) -> Child {
        let mut command = place.command(&run(arguments));
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it until there is some of the file, and ends it by a signal.
    fn stopped(place: &Place, arguments: &[&str], name: &str, signal: &str) -> String {
        let mut child = start(place, arguments);
        let partial = place.path().join(format!("{name}.partial"));
        let length = || fs::metadata(&partial).map_or(0, |metadata| metadata.len());
        let before = length();
        while length() < before + 1_000_000 {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), (signal == "-INT").then_some(1), "by {signal}");
        String::from_utf8(output.stderr).unwrap()
    }

    #[test]
    fn a_file_that_was_stopped_and_killed_goes_on_to_the_bytes_of_one_run() {
        let place = Place::new();
        drawn(&place, &["--scale", "15", "--undirected"]);
        for name in ["w.txt", "w.csv"] {
            let whole = format!("whole.{name}");
            assert_eq!(place.run(&run(&[&JOB[..], &[&whole]].concat())).status, 0);
            let job = [&JOB[..], &[name]].concat();
            let said = stopped(&place, &job, name, "-INT");
            assert!(said.contains(".partial has the complete walks: --resume continues"), "{said}");
            assert!(!place.path().join(name).exists());

            let said = place.error(&run(&job), 2);
            assert!(said.contains("an earlier run left the file unfinished"), "{said}");
            assert!(said.contains("--resume continues it"), "{said}");
            let resume = [&job[..], &["--resume"]].concat();
            let other = [&resume[..], &["--seed", "9", "--length", "7"]].concat();
            let said = place.error(&run(&other), 2);
            assert!(said.contains("seed: the journal has 1, this job 9"), "{said}");
            assert!(
                said.contains("the journal has uniform, 80 steps, this job uniform, 7 steps"),
                "{said}"
            );

            stopped(&place, &resume, name, "-KILL");
            // What is counted over all walks is, though most of them were written before.
            let (ends, visits) = (format!("{name}.ends.csv"), format!("{name}.visits.csv"));
            let counts = ["--ends", &ends, "--visits", &visits];
            let (ran, summary) = place.json(&run(&[&resume[..], &counts].concat()));
            assert_eq!(ran.status, 0, "{}", ran.stderr);
            assert!(summary["resumed_after_walks"].as_u64().unwrap() > 0, "{summary}");
            let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
            assert!(bytes(name) == bytes(&whole), "{name}");
            assert!(!place.path().join(format!("{name}.partial.json")).exists());
            assert!(bytes(&ends).len() > 1000 && bytes(&visits).len() > 1000);
        }
        let read = |name: &str| fs::read(place.path().join(name)).unwrap();
        assert!(read("w.txt.ends.csv") == read("w.csv.ends.csv"));
        assert!(read("w.txt.visits.csv") == read("w.csv.visits.csv"));
        let arguments = [&JOB[..5], &["--ends", "e.csv", "--visits", "v.csv"]].concat();
        assert_eq!(place.run(&run(&arguments)).status, 0);
        assert!(
            read("e.csv") == read("w.txt.ends.csv") && read("v.csv") == read("w.csv.visits.csv")
        );
    }

    #[test]
    fn a_disk_that_is_full_ends_a_run_that_goes_on_once_there_is_room() {
        let place = Place::new();
        drawn(&place, &["--scale", "13", "--undirected"]);
        let whole = [&JOB[..], &["whole.txt"]].concat();
        assert_eq!(place.run(&run(&whole)).status, 0);
        let job = run(&[&JOB[..], &["w.txt"]].concat());
        // A limit of the size of files stands in for the disk.
        let script = "trap '' XFSZ; ulimit -f 4000; exec \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_paceline")]).args(&job);
        let output = command.current_dir(place.path()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("w.txt: ") && said.contains("--resume continues once"), "{said}");
        let ran = place.run(&[&job[..], &["--resume"]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
        assert!(bytes("w.txt").len() > 5_000_000 && bytes("w.txt") == bytes("whole.txt"));
    }

    #[test]
    fn what_cannot_be_resumed_leaves_nothing_when_stopped() {
        let place = Place::new();
        drawn(&place, &["--scale", "15", "--undirected"]);
        let mut child = start(&place, &["g.npz", "--walks", "100000", "--visits", "v.csv"]);
        let begun = || fs::read_dir(place.path()).unwrap().count() > 1;
        while !begun() {
            assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
            std::thread::sleep(Duration::from_millis(1));
        }
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("stopped; no file was written"), "{said}");
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_walks_are_refused_by_a_build_without_it_and_what_would_do_is_named() {
    let place = place();
    let said = place.error(&run(&["small.tsv", "--out", "w.parquet"]), 2);
    assert!(said.contains("w.parquet: this build cannot write Parquet"), "{said}");
    assert!(said.contains("--features paceline-cli/parquet"), "{said}");
}

#[test]
fn help_and_errors_offer_the_formats_that_this_build_writes() {
    let place = place();
    let writes_parquet = cfg!(feature = "parquet");
    let said = place.error(&run(&["small.tsv", "--out", "w.dat"]), 2);
    assert_eq!(said.contains(".parquet"), writes_parquet, "{said}");
    let help = place.run(&["walk", "run", "--help"]).stdout;
    let out = help.split("--out").nth(1).unwrap().split("--resume").next().unwrap();
    assert!(out.contains(".npy"), "{out}");
    assert_eq!(out.contains(".parquet"), writes_parquet, "{out}");
    let convert = place.run(&["graph", "convert", "--help"]).stdout;
    assert_eq!(convert.contains("parquet"), writes_parquet, "{convert}");
}

#[test]
fn an_array_of_walks_is_that_of_the_text() {
    let place = place();
    let job = ["small.tsv", "--walks", "30", "--length", "5", "--out"];
    for name in ["w.txt", "w.npy"] {
        let ran = place.run(&run(&[&job[..], &[name]].concat()));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let array = fs::read(place.path().join("w.npy")).unwrap();
    let begin = 10 + u16::from_le_bytes([array[8], array[9]]) as usize;
    let ids = array[begin..].chunks_exact(8).map(|id| i64::from_le_bytes(id.try_into().unwrap()));
    let rows: Vec<i64> = ids.collect();
    let found: Vec<Vec<u64>> = rows
        .chunks(6)
        .map(|row| row.iter().filter(|&&id| id >= 0).map(|&id| id as u64).collect())
        .collect();
    assert_eq!(found, walks(&place, "w.txt"));
    let resume = [&job[..], &["w.npy", "--resume"]].concat();
    assert!(place.error(&run(&resume), 2).contains("only uncompressed .txt and .csv"));
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_walks_are_those_of_the_text() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let place = place();
    let job = ["small.tsv", "--walks", "30", "--length", "5", "--out"];
    for name in ["w.txt", "w.parquet"] {
        assert_eq!(place.run(&run(&[&job[..], &[name]].concat())).status, 0);
    }
    let file = fs::File::open(place.path().join("w.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let found: Vec<Vec<u64>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| {
            let row = row.unwrap();
            let (_, path) = row.get_column_iter().nth(2).unwrap();
            let Field::ListInternal(list) = path else { panic!("{path:?} is no list") };
            let id = |field: &Field| match field {
                Field::Long(id) => *id as u64,
                other => panic!("{other:?} is not an id"),
            };
            list.elements().iter().map(id).collect()
        })
        .collect();
    assert_eq!(found, walks(&place, "w.txt"));
    let resume = [&job[..], &["w.parquet", "--resume"]].concat();
    assert!(place.error(&run(&resume), 2).contains("only uncompressed .txt and .csv"));
}
