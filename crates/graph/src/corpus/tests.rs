//! Files of walks, read back by hand.

use std::path::PathBuf;

use paceline_proto::walk::{Chance, Graph, Kind, Length};

use super::*;
use crate::files::NamedGraph;
use crate::walk::Job;

/// 10 -> 20 -> 30 and back, 30 -> 40, a dead end; 50 leads nowhere.
fn graph() -> NamedGraph {
    let ids = Ids::sorted(vec![10, 20, 30, 40, 50]).unwrap();
    let graph = Graph::from_edges(5, [(0, 1), (1, 2), (2, 1), (1, 0), (2, 3)]).unwrap();
    NamedGraph { graph, ids, weights: None }
}

struct Written {
    /// Is removed with it.
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn written(job: &Job<'_>, name: &str, ids: &Ids) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let mut corpus = Corpus::create(&path, Format::of(&path), ids).unwrap();
    job.paths(|paths| corpus.append(paths)).unwrap();
    assert!(!path.exists(), "it has its name before it is whole");
    corpus.finish().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    Written { _folder: folder, path }
}

fn paths(job: &Job<'_>, ids: &Ids) -> Vec<Vec<u64>> {
    let (kept, _) = job.keep().unwrap();
    kept.iter().map(|(_, path)| path.iter().map(|&vertex| ids.id(vertex)).collect()).collect()
}

#[test]
fn a_corpus_has_a_walk_a_line() {
    let NamedGraph { graph, ids, .. } = graph();
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(40), 1).unwrap();
    let job = job.with_walks_per_source(1000);
    let expected = paths(&job, &ids);
    let file = written(&job, "walks.txt", &ids);
    let text = std::fs::read_to_string(&file.path).unwrap();
    let lines = text.lines();
    let found: Vec<Vec<u64>> =
        lines.map(|line| line.split(' ').map(|id| id.parse().unwrap()).collect()).collect();
    assert!(found == expected);
    assert!(text.ends_with("50\n"));

    let file = written(&job, "walks.txt.gz", &ids);
    let compressed = std::fs::File::open(&file.path).unwrap();
    let unpacked = std::io::read_to_string(flate2::read::GzDecoder::new(compressed)).unwrap();
    assert!(unpacked == text);
}

#[test]
fn a_csv_has_a_vertex_a_line() {
    let NamedGraph { graph, ids, .. } = graph();
    let end = Chance::new(0.3).unwrap();
    let length = Length::Geometric { end, steps_max: 9 };
    let job = Job::new(&graph, &Kind::Uniform, length, 1).unwrap().with_walks_per_source(700);
    let file = written(&job, "walks.csv", &ids);
    let text = std::fs::read_to_string(&file.path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("walk,step,vertex"));
    for (walk, path) in paths(&job, &ids).iter().enumerate() {
        for (step, vertex) in path.iter().enumerate() {
            assert_eq!(lines.next(), Some(&*format!("{walk},{step},{vertex}")));
        }
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn what_is_not_finished_leaves_nothing() {
    let NamedGraph { graph, ids, .. } = graph();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walks.csv");
    let mut corpus = Corpus::create(&path, Format::of(&path), &ids).unwrap();
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(4), 1).unwrap();
    job.paths(|paths| corpus.append(paths)).unwrap();
    drop(corpus);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let nowhere = Corpus::create(Path::new("/nonexistent/x.txt"), Format::Text, &ids);
    assert!(nowhere.err().unwrap().to_string().starts_with("/nonexistent/x.txt: "));
}

#[test]
fn tops_and_visits_are_tables() {
    let NamedGraph { graph, ids, .. } = graph();
    let sources = [3, 0];
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(1), 1).unwrap();
    let job = job.with_sources(&sources).unwrap().with_walks_per_source(8);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.csv");
    let mut tops = Tops::create(&path, 8, 2, &ids).unwrap();
    job.paths(|paths| tops.append(paths)).unwrap();
    tops.finish().unwrap();
    let top = "source,rank,vertex,walks,share\n40,1,40,8,1\n10,1,20,8,1\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), top);
    let mut counted = Visits::create(&path, &ids).unwrap();
    counted.append(&job.keep().unwrap().0);
    counted.finish().unwrap();
    let visits = "vertex,visits\n10,8\n20,8\n30,0\n40,8\n50,0\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), visits);
}

/// The same as [`WalkEnds::top`], whatever the blocks.
#[test]
fn tops_do_not_hang_on_how_walks_come() {
    let NamedGraph { graph, ids, .. } = graph();
    let end = Chance::new(0.4).unwrap();
    let length = Length::Geometric { end, steps_max: 20 };
    let job = Job::new(&graph, &Kind::Uniform, length, 5).unwrap().with_walks_per_source(50);
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str, portion: usize| {
        let path = folder.path().join(name);
        let mut tops = Tops::create(&path, 50, 3, &ids).unwrap();
        let kept = job.keep().unwrap().0;
        let mut some = Paths::empty(0);
        for (walk, path) in kept.iter() {
            some.push(path);
            if some.len() == portion {
                tops.append(&some).unwrap();
                some.clear(walk + 1);
            }
        }
        tops.append(&some).unwrap();
        tops.finish().unwrap();
        std::fs::read_to_string(path).unwrap()
    };
    let whole = text("a.csv", 250);
    assert_eq!(text("b.csv", 7), whole);
    let mut expected = "source,rank,vertex,walks,share\n".to_owned();
    for (source, ranked) in job.ends().0.top(3).enumerate() {
        let source = ids.id(source as u32);
        for (rank, ranked) in (1..).zip(ranked) {
            let (vertex, walks) = (ids.id(ranked.vertex), ranked.walks);
            expected += &format!("{source},{rank},{vertex},{walks},{}\n", f64::from(walks) / 50.0);
        }
    }
    assert_eq!(whole, expected);
}

fn origin(seed: &str) -> Origin {
    [("seed", seed), ("graph", "abc")].map(|(key, value)| (key.into(), value.into())).into()
}

#[test]
fn a_file_written_in_several_runs_is_that_of_one() {
    let NamedGraph { graph, ids, .. } = graph();
    let end = Chance::new(0.2).unwrap();
    let length = Length::Geometric { end, steps_max: 90 };
    let job = Job::new(&graph, &Kind::Uniform, length, 8).unwrap().with_walks_per_source(30_000);
    for name in ["walks.txt", "walks.csv"] {
        let whole = std::fs::read(&written(&job, name, &ids).path).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let open = |earlier| {
            let format = Format::of(&path);
            Corpus::resumable(&path, format, &ids, &origin("8"), earlier)
        };
        // Each run does two blocks more; the first is killed, the second repeats what there is.
        let mut corpus = open(Earlier::Refuse).unwrap();
        let mut runs = 0;
        loop {
            let begun = corpus.walks();
            assert!(!path.exists());
            let first = if runs % 2 == 1 { 0 } else { begun };
            let enough = begun + 2 * 65_536;
            let summary = job.paths_from(first, |paths| {
                corpus.append(paths)?;
                let is_enough = corpus.walks() > enough;
                if is_enough { Err(FileError::content(&path, "stopped")) } else { Ok(()) }
            });
            runs += 1;
            if summary.is_ok() {
                break;
            }
            if runs == 1 {
                // As if killed: nothing of it is noted yet but that it was begun.
                drop(corpus);
            } else {
                let kept = corpus.suspend().unwrap().unwrap();
                assert_eq!(kept, folder.path().join(format!("{name}.partial")));
            }
            let refused = open(Earlier::Refuse).err().unwrap().to_string();
            assert!(refused.contains("an earlier run left the file unfinished"), "{refused}");
            corpus = open(Earlier::Resume).unwrap();
            assert!(corpus.walks() > begun || runs == 1);
        }
        assert!(runs >= 3, "{runs}");
        corpus.finish().unwrap();
        assert!(std::fs::read(&path).unwrap() == whole, "{name}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_goes_on_with_its_own_walks_only() {
    let ids = Ids::identity(3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.txt");
    let open = |path: &Path, seed: &str| {
        Corpus::resumable(path, Format::of(path), &ids, &origin(seed), Earlier::Resume)
    };
    let mut corpus = open(&path, "1").unwrap();
    let mut paths = Paths::empty(0);
    paths.push(&[0, 1, 2]);
    paths.push(&[2]);
    corpus.append(&paths).unwrap();
    let said = |path: &Path, seed: &str| open(path, seed).err().unwrap().to_string();
    assert!(said(&path, "1").ends_with("x.txt.partial: another process is writing to the file"));
    let again = Corpus::resumable(&path, Format::Text, &ids, &origin("1"), Earlier::Refuse);
    assert!(again.err().unwrap().to_string().ends_with("another process is writing to the file"));
    corpus.suspend().unwrap();
    assert!(
        said(&path, "2").contains("seed: the journal has 1, this job 2"),
        "{}",
        said(&path, "2")
    );
    assert_eq!(open(&path, "1").unwrap().walks(), 2);
    let partial = folder.path().join("x.txt.partial");
    assert_eq!(std::fs::read_to_string(&partial).unwrap(), "0 1 2\n2\n");
    std::fs::write(&partial, "0 1").unwrap();
    assert!(said(&path, "1").contains("the file has 3 bytes, and its journal says 8"));
    std::fs::remove_file(&partial).unwrap();
    assert_eq!(open(&path, "2").unwrap().walks(), 0, "a journal without a file is of no use");
    std::fs::write(folder.path().join("x.txt.partial.json"), "{}").unwrap();
    assert!(said(&path, "1").contains("not a journal of a file of walks (missing field"));
    for name in ["x.txt.gz", "x.parquet"] {
        let said = said(Path::new(name), "1");
        assert!(said.contains("only uncompressed text and CSV"), "{said}");
    }
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_a_list_for_each_walk() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    let NamedGraph { graph, ids, .. } = graph();
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(40), 1).unwrap();
    let job = job.with_walks_per_source(9000);
    let file = written(&job, "walks.parquet", &ids);
    let reader = SerializedFileReader::new(std::fs::File::open(&file.path).unwrap()).unwrap();
    assert!(reader.num_row_groups() > 1);
    let mut rows = reader.get_row_iter(None).unwrap();
    for (walk, path) in paths(&job, &ids).iter().enumerate() {
        let row = rows.next().unwrap().unwrap();
        let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
        assert_eq!(fields[0], &Field::Long(walk as i64));
        assert_eq!(fields[1], &Field::Long(path[0] as i64));
        let Field::ListInternal(list) = fields[2] else { panic!("{:?} is no list", fields[2]) };
        let vertices: Vec<Field> = path.iter().map(|&vertex| Field::Long(vertex as i64)).collect();
        assert_eq!(list.elements(), &vertices[..]);
    }
    assert!(rows.next().is_none());
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_where_it_is_not_built_in() {
    let ids = Ids::identity(1);
    let refused = Corpus::create(Path::new("x.parquet"), Format::Parquet, &ids).err().unwrap();
    assert!(refused.to_string().contains("built without Parquet"));
}

#[test]
fn an_array_has_a_row_for_each_walk_filled_up_behind_the_shorter_ones() {
    let NamedGraph { graph, ids, .. } = graph();
    let end = Chance::new(0.3).unwrap();
    let drawn = Length::Geometric { end, steps_max: 1000 };
    for length in [Length::Steps(4), Length::Steps(0), drawn] {
        let job = Job::new(&graph, &Kind::Uniform, length, 1).unwrap().with_walks_per_source(200);
        let expected = paths(&job, &ids);
        let width = expected.iter().map(Vec::len).max().unwrap();
        let file = written(&job, "walks.npy", &ids);
        let bytes = std::fs::read(&file.path).unwrap();
        let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
        let text = String::from_utf8_lossy(&bytes[10..10 + header]);
        let shape = format!("'shape': ({}, {width}), ", expected.len());
        assert!(text.contains("'descr': '<i8', 'fortran_order': False") && text.contains(&shape));
        let entries = bytes[10 + header..].chunks_exact(8);
        let entries: Vec<i64> =
            entries.map(|entry| i64::from_le_bytes(entry.try_into().unwrap())).collect();
        assert_eq!(entries.len(), expected.len() * width);
        for (row, path) in entries.chunks(width).zip(&expected) {
            let (there, rest) = row.split_at(path.len());
            assert!(there.iter().zip(path).all(|(&found, &id)| found == id as i64), "{row:?}");
            assert!(rest.iter().all(|&rest| rest == -1), "{row:?}");
        }
    }
    let large = Ids::sorted(vec![1, 1 << 63]).unwrap();
    let error = Corpus::create(&PathBuf::from("w.npy"), Format::Npy, &large).err().unwrap();
    assert!(error.to_string().contains("does not fit the int64"), "{error}");
}
