//! Paths in Parquet files: `walk`, `source` and `path`, a list of vertices.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tempfile::NamedTempFile;

use crate::files::parquet::{declare, id_type, properties};
use crate::files::{FileError, Ids, keep, temporary};
use crate::walk::Paths;

/// A file that is being written; a group of rows for each block of paths.
pub struct Columns {
    path: PathBuf,
    writer: SerializedFileWriter<NamedTempFile>,
    values: Vec<i64>,
    /// Definition level: 1 for an entry, 0 for an empty list. Repetition level: 1 within a list, 0
    /// at its beginning.
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl Columns {
    pub fn create(path: &Path, ids: &Ids) -> Result<Columns, FileError> {
        let ids = id_type(ids);
        let schema = format!(
            "message walks {{ required int64 walk; {} required group path (LIST) {{ repeated group \
             list {{ {} }} }} }}",
            declare(ids, "source"),
            declare(ids, "element")
        );
        let at = |error: ParquetError| FileError::content(path, error.to_string());
        let schema = Arc::new(parse_message_type(&schema).map_err(at)?);
        let file = temporary(path)?;
        let writer = SerializedFileWriter::new(file, schema, properties()).map_err(at)?;
        let path = path.to_owned();
        let (values, definitions, repetitions) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Columns { path, writer, values, definitions, repetitions })
    }

    pub fn append(&mut self, paths: &Paths, ids: &Ids) -> Result<(), FileError> {
        self.append_group(paths, ids)
            .map_err(|error| FileError::content(&self.path, error.to_string()))
    }

    fn append_group(&mut self, paths: &Paths, ids: &Ids) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let walks = paths.iter().map(|(walk, _)| walk as i64).collect();
        let id = |vertex: &u32| ids.id(*vertex) as i64;
        // A path without a source was not walked; such paths are never handed out.
        let sources = paths.iter().map(|(_, path)| path.first().map_or(-1, id)).collect();
        for column in [walks, sources] as [Vec<i64>; 2] {
            if let Some(mut out) = group.next_column()? {
                out.typed::<Int64Type>().write_batch(&column, None, None)?;
                out.close()?;
            }
        }
        let Columns { values, definitions, repetitions, .. } = self;
        values.clear();
        definitions.clear();
        repetitions.clear();
        for (_, path) in paths.iter() {
            values.extend(path.iter().map(id));
            definitions.resize(definitions.len() + path.len().max(1), i16::from(!path.is_empty()));
            repetitions.push(0);
            repetitions.resize(definitions.len(), 1);
        }
        if let Some(mut out) = group.next_column()? {
            let typed = out.typed::<Int64Type>();
            typed.write_batch(values, Some(definitions), Some(repetitions))?;
            out.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub fn finish(self) -> Result<(), FileError> {
        let at = |error: ParquetError| FileError::content(&self.path, error.to_string());
        keep(&self.path, self.writer.into_inner().map_err(at)?)
    }
}
