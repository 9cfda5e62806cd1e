//! Files of walks, read back by hand.

use std::path::PathBuf;

use paceline_proto::walk::{Chance, Graph, Kind, Length};

use super::*;
use crate::files::NamedGraph;

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
    write_top(&path, &job, &job.ends().0, 2, &ids).unwrap();
    let top = "source,rank,vertex,walks,share\n40,1,40,8,1\n10,1,20,8,1\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), top);
    write_visits(&path, &job.visits().0, &ids).unwrap();
    let visits = "vertex,visits\n10,8\n20,8\n30,0\n40,8\n50,0\n";
    assert_eq!(std::fs::read_to_string(&path).unwrap(), visits);
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
