//! What was written is read back equal; what is wrong is named; nothing makes a reader panic.

use std::io::Write;
use std::path::PathBuf;

use paceline_proto::walk::Vertex;
use proptest::prelude::*;

use super::*;
use crate::csr::{Edges, Rows};
use crate::files::write as write_to;

fn parse(name: &str, text: &[u8]) -> Result<NamedGraph, String> {
    read_bytes(Path::new(name), text.to_vec(), &Options::default()).map_err(|e| e.to_string())
}

fn edges_of(named: &NamedGraph) -> Vec<(u64, u64)> {
    let graph = &named.graph;
    let row = |from: Vertex| graph.row_of(from).targets.iter().map(move |&to| (from, to));
    let id = |(from, to)| (named.ids.id(from), named.ids.id(to));
    (0..graph.vertices()).flat_map(row).map(id).collect()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn lines_of_every_style_are_edges() {
    let text = b"# SNAP\n% KONECT\n\n 1\t2\r\n2 , 1\n2;2\n1 2\n\t7,1   \n7 1";
    let named = parse("x.txt", text).unwrap();
    assert_eq!(edges_of(&named), [(1, 2), (1, 2), (2, 1), (2, 2), (7, 1), (7, 1)]);
    assert_eq!((named.graph.vertices(), named.weights.as_ref()), (3, None));
    let named = parse("x.csv", b"source,target,weight\n5,6,0.5\n6,5,1e3\n").unwrap();
    assert_eq!((named.weights.unwrap(), named.graph.is_weighted()), (vec![0.5, 1e3], true));
    let named = parse("x.tsv", b"0 1 0.5 9\n0 1 2 8\n").unwrap();
    assert_eq!(named.graph.labels().unwrap(), [8, 9]);
    assert_eq!(named.weights.unwrap(), [2.0, 0.5]);
    assert!(named.ids.is_identity());
}

#[test]
fn columns_can_be_told() {
    let read = |columns| {
        let options = Options { columns: Some(columns), ..Options::default() };
        read_bytes(Path::new("x"), b"0 1 3 999999\n".to_vec(), &options)
    };
    let plain = read(Columns::Ends).unwrap();
    assert!(!plain.graph.is_weighted() && !plain.graph.is_labelled());
    assert_eq!(read(Columns::Weight).unwrap().weights, Some(vec![3.0]));
    assert_eq!(read(Columns::Label).unwrap().graph.labels(), Some(&[3][..]));
    let wrong = read(Columns::WeightLabel).unwrap_err().to_string();
    assert!(wrong.contains("`999999` is not a label: expected 0 to 255"), "{wrong}");
}

#[test]
fn ids_beyond_32_bits_are_kept() {
    let last = u64::MAX;
    let text = format!("{last} 4294967296\n4294967295 {last}\n0 0\n");
    let named = parse("x", text.as_bytes()).unwrap();
    let expected = [(0, 0), (4294967295, last), (last, 4294967296)];
    assert_eq!(edges_of(&named), expected);
    assert_eq!(named.ids.vertex(last), Some(3));
    assert!(named.graph.row_of(2).targets.is_empty(), "a dead end");
}

#[test]
fn a_comment_may_promise_vertices_without_edges() {
    let named = parse("x", b"# Nodes: 5 Edges: 2\n0 3\n3 0\n").unwrap();
    assert_eq!((named.graph.vertices(), named.ids.is_identity()), (5, true));
    let named = parse("x", b"# Nodes: 5 Edges: 2\n0 9\n9 0\n").unwrap();
    assert_eq!(named.graph.vertices(), 2, "an id is beyond what was promised");
    let named = parse("x", b"# Nodes: 4000000000\n0 9\n").unwrap();
    assert_eq!(named.graph.vertices(), 2, "not believed");
    assert_eq!(parse("x", b"# Nodes: 3\n").unwrap().graph.vertices(), 3);
}

#[test]
fn options_are_heeded_in_every_format() {
    let edges = csr::Options { undirected: true, dedupe: true, drop_self_loops: true };
    let options = Options { edges, ..Options::default() };
    let text: &[u8] = b"0 1\n0 1\n1 0\n1 1\n1 2\n";
    let named = read_bytes(Path::new("x"), text.to_vec(), &options).unwrap();
    assert_eq!(edges_of(&named), [(0, 1), (1, 0), (1, 2), (2, 1)]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.npz");
    write_to(&path, &parse("x", text).unwrap()).unwrap();
    assert_eq!(read(&path, &options).unwrap(), named);
}

#[test]
fn wrong_lines_are_named_with_what_would_be_right() {
    let refused = |text: &[u8]| parse("x.txt", text).unwrap_err();
    let id = "is not an id: expected a whole number from 0 to 18446744073709551615";
    assert_eq!(refused(b"0 1\n#\n0 a\n"), format!("x.txt: line 3: `0 a`: `a` {id}"));
    assert!(refused(b"0 1\n-1 0").contains(&format!("line 2: `-1 0`: `-1` {id}")));
    assert!(refused(b"0 18446744073709551616\n").contains(id));
    assert!(refused(b"0 1.5\n").contains(id));
    assert!(refused(b"0 1\n7\n").contains("line 2: `7`: an edge has two ids"));
    assert!(refused(b"0,,1\n").contains(id));
    assert!(refused(b"0 1\n0 1 5\n").contains("line 2: `0 1 5`: it has more fields"));
    assert!(refused(b"0 1 2\n0 1\n").contains("line 2: `0 1`: its weight is missing"));
    let weight = "is not a weight: expected a number from 0 to 3.4028235e38";
    for wrong in ["-1", "NaN", "inf", "1e39", "x"] {
        let found = refused(format!("0 1 2\n0 1 {wrong}\n").as_bytes());
        assert_eq!(found, format!("x.txt: line 2: `0 1 {wrong}`: `{wrong}` {weight}"));
    }
    assert_eq!(refused(b""), "x.txt: the file has no edges");
    assert_eq!(refused(b"# nothing\n\n"), "x.txt: the file has no edges");
    let long = refused(&[b"0 ".as_slice(), &[b'1'; 500]].concat());
    assert!(long.chars().count() < 250, "{long}");
    let missing = read(Path::new("/nonexistent/x"), &Options::default()).unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/x: "));
}

#[test]
fn a_wrong_line_far_into_a_file_of_many_blocks_is_named() {
    let mut text = "1234567 7654321\n".repeat(1_000_000);
    text.push_str("1 x\n");
    text.push_str(&"3 4\n".repeat(10));
    let wrong = parse("x", text.as_bytes()).unwrap_err();
    assert!(wrong.starts_with("x: line 1000001: `1 x`"), "{wrong}");
    let wrong = parse("x", &gzip(text.as_bytes())).unwrap_err();
    assert!(wrong.starts_with("x: line 1000001: `1 x`"), "{wrong}");
    let endless = parse("x", &vec![b'1'; 5 << 20]).unwrap_err();
    assert!(endless.contains("line 1: `..`: a line of more than 4194304 bytes"), "{endless}");
}

#[test]
fn compression_is_seen_from_the_content() {
    let text = "17 4000000000000\n".repeat(300_000);
    let plain = parse("x", text.as_bytes()).unwrap();
    assert_eq!(plain.graph.edges(), 300_000);
    let (gz, zst) = (gzip(text.as_bytes()), zstd(text.as_bytes()));
    // Members and frames one behind the other, and a frame to be skipped.
    let half = text.len() / 34 * 17;
    let gz_parts = [gzip(&text.as_bytes()[..half]), gzip(&text.as_bytes()[half..])].concat();
    let skipped = [0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let (zst_first, zst_rest) = (zstd(&text.as_bytes()[..half]), zstd(&text.as_bytes()[half..]));
    let zst_parts = [&skipped, &zst_first[..], &skipped, &zst_rest].concat();
    for bytes in [gz, zst, gz_parts, zst_parts] {
        assert!(parse("x", &bytes).unwrap() == plain);
    }
}

#[test]
fn compressed_data_cut_off_anywhere_is_an_error() {
    let text: String = (0..2000).map(|edge| format!("{} {}\n", edge * 7919 % 1000, edge)).collect();
    for compressed in [gzip(text.as_bytes()), zstd(text.as_bytes())] {
        for length in (5..compressed.len()).step_by(97).chain([compressed.len() - 1]) {
            let wrong = parse("x.gz", &compressed[..length]).unwrap_err();
            assert!(wrong.starts_with("x.gz: damaged or truncated after line"), "{wrong}");
        }
        let mut damaged = compressed.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x55;
        assert!(parse("x", &damaged).is_err());
    }
}

#[test]
fn metis_files_are_read_by_their_heading() {
    let plain = parse("x.graph", b"% triangle and one alone\n4 3\n2 3\n% again\n1 3\n2 1\n\n");
    let plain = plain.unwrap();
    assert_eq!(edges_of(&plain), [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]);
    assert_eq!(plain.graph.vertices(), 4);
    let weighted = parse("x.metis", b"2 1 001\n2 7\n1 7\n").unwrap();
    assert_eq!(weighted.weights.unwrap(), [7.0, 7.0]);
    // A size and two weights of each vertex come first.
    let full = parse("x.metis", b"2 1 111 2\n9 1 1 2 7\n9 1 1 1 7\n").unwrap();
    assert_eq!((full.graph.edges(), full.weights.unwrap()), (2, vec![7.0, 7.0]));
    let compressed = parse("x.graph.gz", &gzip(b"2 1\n2\n1\n")).unwrap();
    assert_eq!(compressed.graph.edges(), 2);
}

#[test]
fn metis_counts_that_do_not_fit_are_refused() {
    let refused = |text: &[u8]| parse("x.graph", text).unwrap_err();
    assert!(refused(b"two\n").contains("line 1: `two`: expected a METIS header"));
    assert!(refused(b"2 1 2\n").contains("expected a METIS header"));
    assert!(refused(b"3 1\n2\n1\n").contains("2 rows, where the header declares 3 vertices"));
    assert!(refused(b"2 2\n2\n1\n").contains(
        "the header declares 2 edges, each listed at both \
        ends, and the rows have 2"
    ));
    assert!(refused(b"2 1\n2\n1\n1\n").contains("line 4: `1`: a row after those of all 2"));
    assert!(refused(b"2 1\n3\n1\n").contains("line 2: `3`: `3` is not a vertex: expected 1 to 2"));
    assert!(refused(b"2 1\n0\n1\n").contains("`0` is not a vertex"));
    assert!(refused(b"2 1 1\n2\n1 7\n").contains("line 2: `2`: the last edge's weight is missing"));
    assert!(refused(b"2 1 1\n2 -1\n1 7\n").contains("`-1` is not a weight"));
    assert!(refused(b"2 1 10\n\n1 2\n").contains("expected 1 vertex numbers before the edges"));
    assert!(refused(b"9999999999 1\n").contains("more than the maximum of 4294967295"));
    assert_eq!(refused(b"% only\n"), "x.graph: the file has no edges");
}

fn npz(arrays: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, descr, shape, entries) in arrays {
        let stored = zip::CompressionMethod::Stored;
        let options = zip::write::SimpleFileOptions::default().compression_method(stored);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
        archive.write_all(b"\x93NUMPY\x01\x00").unwrap();
        archive.write_all(&(header.len() as u16).to_le_bytes()).unwrap();
        archive.write_all(header.as_bytes()).unwrap();
        archive.write_all(entries).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn an_npz_that_is_no_graph_is_refused() {
    let format = ("format", "<U3", "()", &b"c\0\0\0s\0\0\0r\0\0\0"[..]);
    let shape = ("shape", "|u1", "(2,)", &[2, 2][..]);
    let indptr = ("indptr", "|i1", "(3,)", &[0, 2, 2][..]);
    let indices = ("indices", "|i1", "(2,)", &[1, 0][..]);
    let data = ("data", "|i1", "(2,)", &[1, 3][..]);
    // Indices in any order, as SciPy allows.
    let right = parse("x.npz", &npz(&[format, shape, indptr, indices, data])).unwrap();
    assert_eq!((edges_of(&right), right.weights), (vec![(0, 0), (0, 1)], Some(vec![3.0, 1.0])));
    let refused = |arrays: &[(&str, &str, &str, &[u8])]| parse("x.npz", &npz(arrays)).unwrap_err();
    assert_eq!(refused(&[format, indptr]), "x.npz: the archive has no array `shape`");
    assert!(refused(&[shape, indptr, data]).contains("no array `indices`"));
    assert!(refused(&[shape, indptr, indices]).contains("no array `data`"));
    let csc = ("format", "|S3", "()", &b"csc"[..]);
    assert!(refused(&[csc, shape]).contains("in the format `csc`, expected `csr`"));
    let wide = ("shape", "|u1", "(2,)", &[2, 3][..]);
    assert!(
        refused(&[wide, indptr, indices, data]).contains("shape [2, 3], expected a square matrix")
    );
    let short = ("indptr", "|i1", "(2,)", &[0, 2][..]);
    assert!(refused(&[shape, short, indices, data]).contains("2 entries for 2 rows"));
    let falling = ("indptr", "|i1", "(3,)", &[0, 3, 2][..]);
    assert!(refused(&[shape, falling, indices, data]).contains("does not ascend"));
    let one = ("data", "|i1", "(1,)", &[1][..]);
    assert!(refused(&[shape, indptr, indices, one]).contains("`data` has 1 entries, expected 2"));
    let far = ("indices", "|i1", "(2,)", &[1, 2][..]);
    assert!(refused(&[shape, indptr, far, data]).contains("has an edge to 2"));
    let negative = ("data", "|i1", "(2,)", &[1, 0xff][..]);
    assert!(refused(&[shape, indptr, indices, negative]).contains("weighs -1"));
    let lying = ("indices", "|i1", "(3,)", &[1, 0][..]);
    assert!(refused(&[shape, indptr, lying, data]).contains("array `indices`: "));
    assert!(parse("x.npz", b"PK").unwrap_err().contains("not an archive of arrays"));
    let ids = ("ids", "|u1", "(2,)", &[7, 7][..]);
    assert!(
        refused(&[shape, indptr, indices, data, ids]).contains("`ids` are not 2 ascending numbers")
    );
}

#[test]
fn what_metis_cannot_hold_is_refused() {
    let refused = |text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.metis");
        let named = parse("x", text.as_bytes()).unwrap();
        let wrong = write_to(&path, &named).unwrap_err().to_string();
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 0, "a file is left behind");
        wrong
    };
    assert!(refused("0 1\n").contains("the edge from 0 to 1 has no reverse edge"));
    assert!(refused("0 1\n1 0\n1 1\n").contains("vertex 1 has one"));
    assert!(refused("0 1\n0 1\n1 0\n1 0\n").contains("0 to 1 is one"));
    assert!(refused("0 1 2\n1 0 3\n").contains("0 to 1 has 2 and 3"));
    assert!(refused("0 1 0.5\n1 0 0.5\n").contains("weights are whole numbers"));
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.metis");
    std::fs::write(&path, "old").unwrap();
    write_to(&path, &parse("x", b"0 1\n").unwrap()).unwrap_err();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    write_to(&path, &parse("x", b"0 1\n1 0\n").unwrap()).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"2 1\n2\n1\n");
    let zst = write_to(&folder.path().join("x.zst"), &parse("x", b"0 1\n").unwrap()).unwrap_err();
    assert!(zst.to_string().contains("zstd can be read, not written"));
}

/// Graphs with ids: every one that edges lead from or to.
fn graphs() -> impl Strategy<Value = NamedGraph> {
    let id = prop_oneof![0..6u64, 0..100u64, any::<u64>()];
    let edge = (id.clone(), id, 0..1000u16, any::<u8>());
    (prop::collection::vec(edge, 1..60), any::<bool>(), any::<bool>()).prop_map(
        |(edges, is_weighted, is_labelled)| {
            let mut ids: Vec<u64> = edges.iter().flat_map(|edge| [edge.0, edge.1]).collect();
            ids.sort_unstable();
            ids.dedup();
            let place = |id| ids.binary_search(&id).unwrap() as u32;
            let ends = edges.iter().map(|edge| (place(edge.0), place(edge.1))).collect();
            let weights = edges.iter().map(|edge| f32::from(edge.2) / 7.0).collect();
            let labels = edges.iter().map(|edge| edge.3).collect();
            let edges = Edges {
                ends,
                weights: (is_weighted || is_labelled).then_some(weights),
                labels: is_labelled.then_some(labels),
            };
            let rows = Rows::new(ids.len() as u32, edges, csr::Options::default());
            let (graph, weights) = rows.into_graph().unwrap();
            NamedGraph { graph, ids: Ids::sorted(ids).unwrap(), weights }
        },
    )
}

fn written_and_read(named: &NamedGraph, name: &str) -> NamedGraph {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    write_to(&path, named).unwrap();
    read(&path, &Options::default()).unwrap()
}

/// As METIS has them: undirected, weights are whole numbers, names from 0.
fn undirected(named: &NamedGraph) -> NamedGraph {
    let edges = csr::Options { undirected: true, dedupe: true, drop_self_loops: true };
    let graph = &named.graph;
    let row = |from: Vertex| graph.row_of(from).targets.iter().map(move |&to| (from, to));
    let ends: Vec<_> = (0..graph.vertices()).flat_map(row).collect();
    let weights = named
        .weights
        .as_ref()
        .map(|weights| weights.iter().map(|weight| (weight * 7.0).round()).collect::<Vec<f32>>());
    let rows = Rows::new(graph.vertices(), Edges { ends, weights, labels: None }, edges);
    let (graph, weights) = rows.into_graph().unwrap();
    NamedGraph { weights, ..NamedGraph::from(graph) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn written_edges_are_read_back_equal(named in graphs()) {
        prop_assert_eq!(&written_and_read(&named, "x.tsv"), &named);
        prop_assert_eq!(&written_and_read(&named, "x.csv.gz"), &named);
    }

    #[test]
    fn a_written_npz_is_read_back_equal(named in graphs()) {
        prop_assume!(named.weights.as_ref().is_none_or(|w| w.iter().any(|&w| w != 1.0)));
        prop_assert_eq!(&written_and_read(&named, "x.npz"), &named);
    }

    #[test]
    fn written_metis_is_read_back_equal(named in graphs()) {
        let named = undirected(&named);
        prop_assert_eq!(&written_and_read(&named, "x.graph"), &named);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for name in ["x", "x.graph", "x.npz"] {
            let _ = parse(name, &bytes);
        }
        for head in [&[0x1f, 0x8b, 8, 0][..], &[0x28, 0xb5, 0x2f, 0xfd], b"PK\x03\x04"] {
            let _ = parse("x", &[head, &bytes].concat());
            let _ = parse("x.npz", &[head, &bytes].concat());
        }
    }

    #[test]
    fn damaged_files_never_panic(
        named in graphs(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.npz", "x.tsv", "x.tsv.gz"] {
            let path = folder.path().join(name);
            write_to(&path, &named).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            for (place, byte) in &damage {
                let place = place.index(bytes.len());
                bytes[place] = *byte;
            }
            let _ = parse(name, &bytes);
        }
    }

    #[test]
    fn random_lines_are_edges_or_errors(text in "[0-9 ,;#%.e\\-\\n\\t]{0,80}") {
        for name in ["x", "x.graph"] {
            if let Ok(named) = parse(name, text.as_bytes()) {
                prop_assert_eq!(named.ids.len() as u32, named.graph.vertices());
            }
        }
    }
}
