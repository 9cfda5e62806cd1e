//! Edges in Parquet files: columns `source`, `target` and perhaps `weight`.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{DataType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnDescriptor;

use super::error::FileError;
use super::ids::{Ids, Loose};
use super::output::{keep, temporary};
use super::{NamedGraph, edges};
use crate::csr;

/// Rows of a group.
const GROUP_ROWS: usize = 1 << 20;

/// Rows read at once.
const BATCH_ROWS: usize = 1 << 16;

pub fn read(
    path: &Path,
    file: impl ChunkReader + 'static,
    options: csr::Options,
) -> Result<NamedGraph, FileError> {
    let at = |error: ParquetError| FileError::content(path, error.to_string());
    let reader = SerializedFileReader::new(file).map_err(at)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let place = |name: &str| columns.iter().position(|column| column.path().string() == name);
    let missing = |name: &str| {
        let found: Vec<String> = columns.iter().map(|column| column.path().string()).collect();
        let found = found.join("`, `");
        FileError::content(path, format!("there is no column `{name}`; the columns are `{found}`"))
    };
    let source = place("source").ok_or_else(|| missing("source"))?;
    let target = place("target").ok_or_else(|| missing("target"))?;
    let weight = place("weight");
    let mut loose = Loose::default();
    let mut row = 0;
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(at)?;
        let ids = |place: usize| -> Result<Vec<u64>, FileError> {
            let values = Values::read(&*group, place).map_err(at)?;
            let name = columns[place].path().string();
            values.ids(&columns[place]).map_err(|(entry, wrong)| {
                let row = row + entry as u64;
                FileError::content(path, format!("row {row}, column `{name}`: {wrong}"))
            })
        };
        let ends: Vec<(u64, u64)> = ids(source)?.into_iter().zip(ids(target)?).collect();
        let weights = match weight {
            Some(place) => {
                Values::read(&*group, place).map_err(at)?.weights().map_err(|(entry, wrong)| {
                    let row = row + entry as u64;
                    FileError::content(path, format!("row {row}, column `weight`: {wrong}"))
                })?
            }
            None => Vec::new(),
        };
        row += ends.len() as u64;
        if weight.is_some() && weights.len() != ends.len() {
            return Err(FileError::content(path, "its columns differ in length"));
        }
        loose.append(ends, &weights, &[]);
    }
    if loose.is_empty() {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    loose.into_graph(path, None, options)
}

/// A column's entries in a group of rows.
enum Values {
    Narrow(Vec<i32>),
    Wide(Vec<i64>),
    Real(Vec<f64>),
}

/// What is wrong with an entry, and which one it is.
type Fault = (usize, String);

impl Values {
    fn read(group: &dyn RowGroupReader, place: usize) -> Result<Values, ParquetError> {
        let rows = group.metadata().num_rows().max(0) as usize;
        Ok(match group.get_column_reader(place)? {
            ColumnReader::Int32ColumnReader(column) => Values::Narrow(all(column, rows)?),
            ColumnReader::Int64ColumnReader(column) => Values::Wide(all(column, rows)?),
            ColumnReader::FloatColumnReader(column) => {
                Values::Real(all(column, rows)?.into_iter().map(f64::from).collect())
            }
            ColumnReader::DoubleColumnReader(column) => Values::Real(all(column, rows)?),
            _ => {
                let name = group.metadata().column(place).column_path().string();
                return Err(ParquetError::General(format!("column `{name}` is not of numbers")));
            }
        })
    }

    fn ids(self, column: &ColumnDescriptor) -> Result<Vec<u64>, Fault> {
        let is_unsigned = match column.logical_type_ref() {
            Some(LogicalType::Integer(integer)) => !integer.is_signed,
            _ => matches!(
                column.converted_type(),
                ConvertedType::UINT_8
                    | ConvertedType::UINT_16
                    | ConvertedType::UINT_32
                    | ConvertedType::UINT_64
            ),
        };
        let id = |entry: usize, number: i64| {
            let wrong =
                || (entry, format!("`{number}` is not an id: expected a whole number from 0"));
            u64::try_from(number).map_err(|_| wrong())
        };
        match self {
            // Unsigned ones are stored as the signed ones of the same bits.
            Values::Narrow(numbers) if is_unsigned => {
                Ok(numbers.into_iter().map(|number| (number as u32).into()).collect())
            }
            Values::Wide(numbers) if is_unsigned => {
                Ok(numbers.into_iter().map(|number| number as u64).collect())
            }
            Values::Narrow(numbers) => {
                numbers.into_iter().enumerate().map(|(e, number)| id(e, number.into())).collect()
            }
            Values::Wide(numbers) => {
                numbers.into_iter().enumerate().map(|(e, number)| id(e, number)).collect()
            }
            Values::Real(_) => Err((0, "expected whole numbers as ids".into())),
        }
    }

    fn weights(self) -> Result<Vec<f32>, Fault> {
        let numbers: Vec<f32> = match self {
            Values::Narrow(numbers) => numbers.into_iter().map(|number| number as f32).collect(),
            Values::Wide(numbers) => numbers.into_iter().map(|number| number as f32).collect(),
            Values::Real(numbers) => numbers.into_iter().map(|number| number as f32).collect(),
        };
        match numbers.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
            Some(entry) => Err((entry, edges::no_weight(&numbers[entry].to_string()))),
            None => Ok(numbers),
        }
    }
}

/// All entries of a column, which must have one in each of `rows` rows.
fn all<T: DataType>(
    mut column: ColumnReaderImpl<T>,
    rows: usize,
) -> Result<Vec<T::T>, ParquetError> {
    let mut values = Vec::new();
    let (mut definitions, mut repetitions) = (Vec::new(), Vec::new());
    let mut records = 0;
    loop {
        definitions.clear();
        repetitions.clear();
        let (some, ..) = column.read_records(
            BATCH_ROWS,
            Some(&mut definitions),
            Some(&mut repetitions),
            &mut values,
        )?;
        records += some;
        if some == 0 {
            break;
        }
    }
    if values.len() != records || records != rows {
        let found = values.len();
        return Err(ParquetError::General(format!("a column has {found} entries in {rows} rows")));
    }
    Ok(values)
}

/// How ids are written: signed, which other programs take best, if none is too large for that.
pub fn id_type(ids: &Ids) -> &'static str {
    let last = (ids.len() as u32).checked_sub(1).map_or(0, |last| ids.id(last));
    if i64::try_from(last).is_ok() { "int64" } else { "int64 %(INTEGER(64,false))" }
}

/// A column's declaration, where the type of ids may say more behind the name.
pub fn declare(id_type: &str, name: &str) -> String {
    match id_type.split_once(" %") {
        Some((stored, meant)) => format!("required {stored} {name} {meant};"),
        None => format!("required {id_type} {name};"),
    }
}

/// How columns are compressed.
pub fn properties() -> Arc<WriterProperties> {
    let level = ZstdLevel::try_new(1).unwrap_or_default();
    // What mostly differs gains nothing from a dictionary.
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
    Arc::new(properties.set_dictionary_enabled(false).build())
}

pub fn write(path: &Path, named: &NamedGraph) -> Result<(), FileError> {
    let at = |error: ParquetError| FileError::content(path, error.to_string());
    let ids = id_type(&named.ids);
    let weight = if named.weights.is_some() { "required float weight;" } else { "" };
    let schema = format!(
        "message edges {{ {} {} {weight} }}",
        declare(ids, "source"),
        declare(ids, "target")
    );
    let schema = Arc::new(parse_message_type(&schema).map_err(at)?);
    let file = temporary(path)?;
    let mut writer = SerializedFileWriter::new(file, schema, properties()).map_err(at)?;
    let graph = &named.graph;
    let sources = (0..graph.vertices())
        .flat_map(|from| std::iter::repeat_n(from, graph.row_of(from).targets.len()));
    let sources: Vec<i64> = sources.map(|from| named.ids.id(from) as i64).collect();
    let targets: Vec<i64> = graph.targets().iter().map(|&to| named.ids.id(to) as i64).collect();
    let mut begin = 0;
    while begin < targets.len() {
        let rows = begin..(begin + GROUP_ROWS).min(targets.len());
        let mut group = writer.next_row_group().map_err(at)?;
        for column in [&sources, &targets] {
            if let Some(mut out) = group.next_column().map_err(at)? {
                let typed = out.typed::<Int64Type>();
                typed.write_batch(&column[rows.clone()], None, None).map_err(at)?;
                out.close().map_err(at)?;
            }
        }
        if let (Some(weights), Some(mut out)) = (&named.weights, group.next_column().map_err(at)?) {
            let typed = out.typed::<FloatType>();
            typed.write_batch(&weights[rows.clone()], None, None).map_err(at)?;
            out.close().map_err(at)?;
        }
        group.close().map_err(at)?;
        begin = rows.end;
    }
    keep(path, writer.into_inner().map_err(at)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{self, Options};

    fn parse(text: &[u8]) -> NamedGraph {
        files::read_bytes(Path::new("x"), text.to_vec(), &Options::default()).unwrap()
    }

    #[test]
    fn what_is_written_is_read_back_equal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.parquet");
        let many: String = (0..1_200_000).map(|edge| format!("{} {edge}\n", edge % 977)).collect();
        let texts = [
            &b"5 7\n7 5\n5 5\n"[..],
            b"0 1 0.5\n0 1 7\n",
            b"0 18446744073709551615\n",
            many.as_bytes(),
        ];
        for text in texts {
            let named = parse(text);
            files::write(&path, &named).unwrap();
            assert!(files::read(&path, &Options::default()).unwrap() == named);
        }
    }

    /// A file of one row group with one column of each of these declarations.
    fn file(columns: &[(&str, Option<i64>)]) -> Vec<u8> {
        let declared: String = columns.iter().map(|(declared, _)| format!("{declared};")).collect();
        let schema = parse_message_type(&format!("message x {{ {declared} }}")).unwrap();
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for (declared, entry) in columns {
            let mut out = group.next_column().unwrap().unwrap();
            let levels = declared.starts_with("optional").then(|| [i16::from(entry.is_some())]);
            let levels = levels.as_ref().map(|levels| &levels[..]);
            if declared.contains("double") {
                let entries: Vec<f64> = entry.iter().map(|&entry| entry as f64).collect();
                let typed = out.typed::<parquet::data_type::DoubleType>();
                typed.write_batch(&entries, levels, None).unwrap();
            } else {
                let entries: Vec<i64> = entry.iter().copied().collect();
                out.typed::<Int64Type>().write_batch(&entries, levels, None).unwrap();
            }
            out.close().unwrap();
        }
        group.close().unwrap();
        writer.into_inner().unwrap()
    }

    fn read_file(columns: &[(&str, Option<i64>)]) -> Result<NamedGraph, String> {
        let options = Options::default();
        let read = files::read_bytes(Path::new("x.parquet"), file(columns), &options);
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_found_by_name_and_mistakes_in_them_named() {
        let (source, target) = ("optional int64 source", "required int64 target");
        let named = read_file(&[
            ("required int64 other", Some(9)),
            (target, Some(4)),
            ("optional double weight", Some(3)),
            (source, Some(2)),
        ]);
        let named = named.unwrap();
        assert_eq!((named.ids.id(0), named.ids.id(1)), (2, 4));
        assert_eq!((named.graph.targets(), named.weights), (&[1][..], Some(vec![3.0])));
        let wrong = read_file(&[(source, Some(1))]).unwrap_err();
        assert_eq!(wrong, "x.parquet: there is no column `target`; the columns are `source`");
        let wrong = read_file(&[(source, None), (target, Some(1))]).unwrap_err();
        assert!(wrong.contains("a column has 0 entries in 1 rows"), "{wrong}");
        let wrong = read_file(&[(source, Some(-5)), (target, Some(1))]).unwrap_err();
        assert!(wrong.contains("row 0, column `source`: `-5` is not an id"), "{wrong}");
        let weight = ("required int64 weight", Some(-2));
        let wrong = read_file(&[(source, Some(5)), (target, Some(1)), weight]).unwrap_err();
        assert!(wrong.contains("row 0, column `weight`: `-2` is not a weight"), "{wrong}");
        let real = ("required double target", Some(1));
        assert!(read_file(&[(source, Some(5)), real]).unwrap_err().contains(
            "expected whole \
            numbers as ids"
        ));
    }

    #[test]
    fn bytes_that_are_no_parquet_are_refused() {
        let mut cut =
            file(&[("required int64 source", Some(1)), ("required int64 target", Some(1))]);
        cut.truncate(cut.len() - 9);
        for bytes in [vec![], b"PAR1".to_vec(), cut] {
            assert!(files::read_bytes(Path::new("x.parquet"), bytes, &Options::default()).is_err());
        }
    }
}
