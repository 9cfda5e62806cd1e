//! Parquet files with a column of keys and a column of values.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Type as Physical;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

/// Bytes at the end of a file that tell it from others: with the places and sizes of all columns.
const TAIL_BYTES: u64 = 64 << 10;

/// The rows of a file, read as they are taken.
pub struct Rows {
    rows: RowIter<'static>,
    /// How many there are.
    pub total: u64,
    /// Checksum of the end of the file.
    pub crc32: u32,
}

impl Rows {
    /// Opens a file that has columns `key` and `value`, of text or bytes; the words of the error
    /// say what was expected.
    pub fn open(mut file: File) -> Result<Rows, String> {
        let crc32 = tail(&mut file).map_err(|error| error.to_string())?;
        let named = |error: ParquetError| format!("{error}: expected a Parquet file");
        let reader = SerializedFileReader::new(file).map_err(named)?;
        let metadata = reader.metadata().file_metadata();
        let total = metadata.num_rows().max(0) as u64;
        let schema = metadata.schema();
        let column = |name: &str| {
            let found = schema.get_fields().iter().find(|field| field.name() == name);
            let is_text = |field: &&Arc<Type>| {
                field.is_primitive()
                    && matches!(
                        field.get_physical_type(),
                        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY
                    )
            };
            found.filter(is_text).cloned().ok_or_else(|| {
                let fields = schema.get_fields().iter().map(|field| field.name());
                let fields: Vec<&str> = fields.collect();
                let columns = fields.join(", ");
                let missing = format!("no column `{name}` of text or bytes among {columns}");
                missing + ": expected `key` and `value`"
            })
        };
        let fields = vec![column("key")?, column("value")?];
        let wanted = Type::group_type_builder(schema.name()).with_fields(fields).build();
        let rows = RowIter::from_file_into(Box::new(reader));
        let rows = rows.project(Some(wanted.map_err(named)?)).map_err(named)?;
        Ok(Rows { rows, total, crc32 })
    }

    /// The next row's key and value; what was expected if it has none.
    pub fn next(&mut self) -> Option<Result<(Bytes, Bytes), String>> {
        Some(match self.rows.next()? {
            Ok(row) => entry(&row),
            Err(error) => Err(format!("{error}: expected a readable row")),
        })
    }

    /// Leaves out the first rows.
    pub fn skip(&mut self, count: u64) {
        for _ in 0..count {
            if self.rows.next().is_none() {
                return;
            }
        }
    }
}

fn entry(row: &Row) -> Result<(Bytes, Bytes), String> {
    let (mut key, mut value) = (None, None);
    // A file may have its columns in either order.
    for (name, field) in row.get_column_iter() {
        let bytes = match field {
            Field::Str(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
            Field::Bytes(bytes) => Some(Bytes::copy_from_slice(bytes.data())),
            _ => None,
        };
        *(if name == "key" { &mut key } else { &mut value }) = bytes;
    }
    match (key, value) {
        (Some(key), Some(value)) => Ok((key, value)),
        (None, _) => Err("no key: expected text or bytes".to_owned()),
        (_, None) => Err("no value: expected text or bytes".to_owned()),
    }
}

fn tail(file: &mut File) -> io::Result<u32> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    file.seek(SeekFrom::Start(0))?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_be_bytes());
    hasher.update(&bytes);
    Ok(hasher.finalize())
}
