//! Files of tables that are no scenarios, such as the configuration of a node: the same readers
//! and messages.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use super::catalog::no_such_file;
use super::diagnostic::{Diagnostic, Origin, Source};
use super::document::{self, Entries, Entry, Kind, Value};
use super::reader::Table;
use crate::LabError;

/// The longest file, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The tables of a kind of file.
#[derive(Clone, Copy, Debug)]
pub struct FileTables {
    /// All tables, in the order in which messages list them.
    pub all: &'static [&'static str],
    /// Those of which there may be any number, such as `[[group]]`.
    pub lists: &'static [&'static str],
    /// Keys, each with its table: a message says where a misplaced key belongs.
    pub keys: &'static [(&'static str, &'static [&'static str])],
}

/// A file of tables: TOML, parsed, its tables known.
pub struct TableFile {
    tables: FileTables,
    source: Arc<Source>,
    entries: Entries,
}

impl TableFile {
    /// Reads a file of these tables, of 1 MiB at most.
    ///
    /// # Errors
    /// If it cannot be read, is not TOML, or has other tables.
    pub fn load(path: &Path, tables: FileTables) -> Result<TableFile, LabError> {
        let mut text = String::new();
        let read = File::open(path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
        match read {
            Ok(read) if read as u64 > FILE_BYTES_MAX => {
                let source = io::Error::other("the file is longer than 1 MiB");
                Err(LabError::read(path)(source))
            }
            Ok(_) => TableFile::parse(&path.display().to_string(), &text, tables),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(no_such_file(path).into()),
            Err(error) => Err(LabError::read(path)(error)),
        }
    }

    /// Parses the text of such a file; `name` stands in messages where a file's would.
    ///
    /// # Errors
    /// If it is not TOML, or has other tables.
    pub fn parse(name: &str, text: &str, tables: FileTables) -> Result<TableFile, LabError> {
        let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
        let entries = document::parse(&source)?;
        refuse_unknown(&entries, &source, tables.all, tables.lists)?;
        let file = TableFile { tables, source, entries };
        file.refuse_keys_outside()?;
        Ok(file)
    }

    /// Puts the value of an environment variable in the place of a key of a single table. The value
    /// is TOML, or text if it is not.
    ///
    /// # Errors
    /// If it is TOML that no key can have.
    pub fn set_by_variable(
        &mut self,
        table: &'static str,
        key: &str,
        variable: &'static str,
        text: &str,
    ) -> Result<(), LabError> {
        let origin = Origin::Variable(variable);
        let mut value = document::parse_override(&Arc::from(variable), text)?;
        value.origin = origin.clone();
        let empty = || Entry {
            key: table.to_owned(),
            key_origin: Origin::Nowhere,
            value: Value { kind: Kind::Table(Vec::new()), origin: Origin::Nowhere },
        };
        let place = self.entries.iter().position(|entry| entry.key == table);
        let place = place.unwrap_or_else(|| {
            self.entries.push(empty());
            self.entries.len() - 1
        });
        if let Kind::Table(inside) = &mut self.entries[place].value.kind {
            inside.retain(|entry| entry.key != key);
            inside.push(Entry { key: key.to_owned(), key_origin: origin, value });
        }
        Ok(())
    }

    /// True if the file has this table.
    pub fn has(&self, table: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == table)
    }

    /// The single table of this name; one without keys if the file does not have it.
    pub fn table(&self, name: &'static str) -> Table<'_> {
        static NOWHERE: Origin = Origin::Nowhere;
        static EMPTY: Entries = Vec::new();
        let entry = self.entries.iter().find(|entry| entry.key == name);
        let (origin, entries) = match entry.map(|entry| (&entry.value.origin, &entry.value.kind)) {
            Some((origin, Kind::Table(entries))) => (origin, entries),
            _ => (&NOWHERE, &EMPTY),
        };
        Table::new(name, &self.source, origin, entries).of_file(false, self.tables.keys)
    }

    /// The tables of a list of tables, in the order of the file.
    pub fn list(&self, name: &'static str) -> Vec<Table<'_>> {
        let tables = of_list(&self.entries, name).into_iter();
        let table = |(origin, entries)| Table::new(name, &self.source, origin, entries);
        tables.map(table).map(|table| table.of_file(true, self.tables.keys)).collect()
    }

    /// An error of the whole file: the problem, and what would do.
    pub fn error(&self, problem: impl Into<String>, note: impl Into<String>) -> LabError {
        Diagnostic::at(&self.source, &Origin::Nowhere, problem).with_note(note).into()
    }

    fn refuse_keys_outside(&self) -> Result<(), LabError> {
        let outside =
            self.entries.iter().find(|entry| !self.tables.all.contains(&entry.key.as_str()));
        let Some(Entry { key, key_origin, .. }) = outside else { return Ok(()) };
        let problem = format!("`{key}` stands outside all tables");
        let diagnostic = Diagnostic::at(&self.source, key_origin, problem);
        let of = self.tables.keys.iter().find(|(_, keys)| keys.contains(&key.as_str()));
        Err(match of {
            Some((table, _)) => diagnostic.with_note(format!("`{key}` belongs in [{table}]")),
            None => diagnostic.with_note(format!("tables: {}", self.tables.all.join(", "))),
        }
        .into())
    }
}

impl fmt::Debug for TableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TableFile").field(&self.source.name).finish()
    }
}

/// Refuses tables that are not among `all`, and tables and lists in each other's place.
pub(super) fn refuse_unknown(
    entries: &Entries,
    source: &Source,
    all: &[&'static str],
    lists: &[&str],
) -> Result<(), Diagnostic> {
    for entry in entries {
        let known = all.contains(&entry.key.as_str());
        let here = |problem| Diagnostic::at(source, &entry.key_origin, problem);
        let is_table = |item: &Value| matches!(item.kind, Kind::Table(_));
        let is_list = lists.contains(&entry.key.as_str());
        match &entry.value.kind {
            Kind::Array(items) if is_list && items.iter().all(is_table) => {}
            _ if is_list => {
                let key = &entry.key;
                return Err(here(format!("`{key}` is a list of tables"))
                    .with_note(format!("tables that begin with [[{key}]], in double brackets")));
            }
            Kind::Table(_) if !known => {
                return Err(here(format!("unknown table [{}]", entry.key))
                    .with_suggestion(&entry.key, all.iter().copied())
                    .with_note(format!("accepted tables: {}", all.join(", "))));
            }
            Kind::Array(items) if !known && items.first().is_some_and(is_table) => {
                return Err(here(format!("unknown tables [[{}]]", entry.key))
                    .with_suggestion(&entry.key, all.iter().copied())
                    .with_note(format!("accepted tables: {}", all.join(", "))));
            }
            Kind::Table(_) => {}
            _ if known => {
                return Err(here(format!("`{}` is a table", entry.key))
                    .with_note(format!("it begins with [{}]", entry.key)));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The tables of a list of tables.
pub(super) fn of_list<'a>(entries: &'a Entries, name: &str) -> Vec<(&'a Origin, &'a Entries)> {
    let items = entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value.kind);
    let Some(Kind::Array(items)) = items else {
        return Vec::new();
    };
    let tables = items.iter().filter_map(|item| match &item.kind {
        Kind::Table(entries) => Some((&item.origin, entries)),
        _ => None,
    });
    tables.collect()
}

impl<'a> Table<'a> {
    /// Reads text that `parse` turns into a value, if present. `accepted` says what it takes.
    pub fn parsed_optional<T>(
        &mut self,
        key: &'a str,
        accepted: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, LabError> {
        let Some(text) = self.text_of(key, accepted)? else { return Ok(None) };
        let entry = self.ask(key).expect("the key has a text");
        parse(text).map(Some).map_err(|problem| self.wrong(entry, accepted, Some(problem)))
    }

    /// Reads a list of texts, each of which `parse` turns into a value; a single text is a list of
    /// one. Empty without the key.
    pub fn parsed_list<T>(
        &mut self,
        key: &'a str,
        accepted: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, LabError> {
        let Some(entry) = self.ask(key) else { return Ok(Vec::new()) };
        let items = match &entry.value.kind {
            Kind::Array(items) => &items[..],
            _ => std::slice::from_ref(&entry.value),
        };
        let item = |item: &Value| {
            let at = Entry { value: item.clone(), ..entry.clone() };
            match &item.kind {
                Kind::Text(text) => {
                    parse(text).map_err(|problem| self.wrong(&at, accepted, Some(problem)))
                }
                _ => Err(self.wrong(&at, accepted, None)),
            }
        };
        items.iter().map(item).collect()
    }

    fn text_of(&mut self, key: &'a str, accepted: &str) -> Result<Option<&'a str>, LabError> {
        match self.ask(key) {
            None => Ok(None),
            Some(Entry { value: Value { kind: Kind::Text(text), .. }, .. }) => Ok(Some(text)),
            Some(entry) => Err(self.wrong(entry, accepted, None)),
        }
    }
}
