use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use super::catalog::Keys;
use super::diagnostic::{Diagnostic, Origin, Source};
use super::document::{Entries, Entry, Kind, Value};
use super::form::{Described, Form};
use super::knobs::note_renamed;
use super::units::Rate;
use super::values::{
    BooleanValue, DurationValue, FrequencyValue, ProbabilityValue, RateValue, Read, SizeValue,
    TextValue,
};
use super::{KNOWN_KEYS, KnownKeys, LISTS, Resolved};
use crate::LabError;

/// A typed reader of one table of a scenario.
///
/// Read each key once, then call [`Table::finish`], which refuses keys that were not read and
/// suggests known ones. Each kind of value has three methods: `rate(key)` requires the key,
/// `rate_or(key, default)` falls back, and `rate_optional(key)` is `None` without it. The values
/// read, defaults included, go to the run's `run.toml`.
///
/// ```
/// use paceline_lab::scenario::{Catalog, Keys, ServiceKind};
///
/// static CATALOG: Catalog = Catalog {
///     kinds: &[ServiceKind::of_streams("chain", Keys::NONE)],
///     scenarios: &[],
///     counters: &[],
/// };
/// let text = "[topology]\nnodes = 10\n[protocol]\nkind = \"chain\"\n[workload]\nmessages = 100";
/// let file = CATALOG.parse("ten.toml", text)?.with_sets(["protocol.window_bytes=64KiB"])?;
/// let scenario = file.resolve()?;
/// let mut table = scenario.protocol();
/// let chained = table.choice_or("topology", &[("chain", true), ("unicast", false)], "chain")?;
/// let window_bytes = table.size_or("window_bytes", 256u64 << 10)?;
/// table.finish()?;
/// let mut table = scenario.workload();
/// let messages = table.integer("messages", 1..=1_000_000u64)?;
/// assert!(chained && window_bytes == 64 << 10 && messages == 100);
/// # Ok::<(), paceline_lab::LabError>(())
/// ```
#[must_use = "a table that is not finished accepts unknown keys"]
pub struct Table<'a> {
    name: String,
    source: &'a Source,
    origin: &'a Origin,
    entries: &'a Entries,
    asked: Vec<&'a str>,
    resolved: Resolved,
    record: Option<&'a Record>,
    keys: Keys,
    is_of_list: bool,
    known: KnownKeys,
}

/// What the tables of a scenario were asked for, and what was read.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Tables that were read, each with its keys and values.
    pub(super) read: Mutex<Vec<(String, Resolved)>>,
    /// Keys that were asked for, whether the file has them or not.
    pub(super) described: Mutex<Vec<Described>>,
}

const HELD: &str = "no reader panics with the record held";

impl Record {
    fn note(&self, described: Described) {
        self.described.lock().expect(HELD).push(described);
    }
}

macro_rules! three_ways {
    ($($what:literal, $type:ty, $value:ident: $required:ident $or:ident $optional:ident;)*) => {$(
        #[doc = concat!("Reads ", $what, "; an error without it.")]
        pub fn $required(&mut self, key: &'a str) -> Result<$type, LabError> {
            let value = self.typed::<$value>(key)?.map(|value| value.0);
            value.ok_or_else(|| self.missing(key, $value::ACCEPTED))
        }

        #[doc = concat!("Reads ", $what, ", or takes `default`.")]
        pub fn $or(&mut self, key: &'a str, default: impl Into<$type>) -> Result<$type, LabError> {
            match self.typed::<$value>(key)? {
                Some(value) => Ok(value.0),
                None => {
                    let value = $value(default.into());
                    self.keep_default(key, value.write());
                    Ok(value.0)
                }
            }
        }

        #[doc = concat!("Reads ", $what, " if present.")]
        pub fn $optional(&mut self, key: &'a str) -> Result<Option<$type>, LabError> {
            Ok(self.typed::<$value>(key)?.map(|value| value.0))
        }
    )*};
}

impl<'a> Table<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        source: &'a Source,
        origin: &'a Origin,
        entries: &'a Entries,
    ) -> Table<'a> {
        let (asked, resolved) = (Vec::new(), Vec::new());
        let name = name.into();
        let is_of_list = LISTS.contains(&name.as_str());
        let (record, keys, known) = (None, Keys::NONE, KNOWN_KEYS);
        Table { name, source, origin, entries, asked, resolved, record, keys, is_of_list, known }
    }

    /// The same in a file that is no scenario: whether it is one of a list, and the keys of other
    /// tables.
    pub(super) fn of_file(mut self, is_of_list: bool, known: KnownKeys) -> Table<'a> {
        (self.is_of_list, self.known) = (is_of_list, known);
        self
    }

    /// The same of a service whose keys these are.
    pub(super) fn of_service(mut self, keys: Keys) -> Table<'a> {
        self.keys = keys;
        self
    }

    /// Keeps the value of a key that the table does not have.
    pub(super) fn keep_default(&mut self, key: &str, value: toml::Value) {
        self.describe(key, None, Some(&value), "");
        self.resolved.push((key.to_owned(), value));
    }

    /// Notes what a key accepts, for the schema of scenario files.
    pub(super) fn describe(
        &self,
        key: &str,
        form: Option<Form>,
        default: Option<&toml::Value>,
        about: &'static str,
    ) {
        if let Some(record) = self.record {
            let (table, key) = (self.name.clone(), key.to_owned());
            record.note(Described { table, key, form, default: default.cloned(), about });
        }
    }

    pub(super) fn recorded(mut self, record: &'a Record) -> Table<'a> {
        self.record = Some(record);
        self
    }

    three_ways! {
        "a rate, such as `\"10Mbit\"`", Rate, RateValue: rate rate_or rate_optional;
        "a duration, such as `\"5ms\"`", Duration, DurationValue:
            duration duration_or duration_optional;
        "a size in bytes, such as `\"8KiB\"`", u64, SizeValue: size size_or size_optional;
        "a frequency, events a second, such as `\"1000/s\"`", f64, FrequencyValue:
            frequency frequency_or frequency_optional;
        "a probability, such as `0.01` or `\"1%\"`", f64, ProbabilityValue:
            probability probability_or probability_optional;
        "`true` or `false`", bool, BooleanValue: boolean boolean_or boolean_optional;
        "text", String, TextValue: text text_or text_optional;
    }

    /// Reads a whole number within `range`; an error without it.
    pub fn integer<T: Integer>(
        &mut self,
        key: &'a str,
        range: RangeInclusive<T>,
    ) -> Result<T, LabError> {
        let accepted = whole_number(&range);
        let value = self.integer_optional(key, range)?;
        value.ok_or_else(|| self.missing(key, &accepted))
    }

    /// Reads a whole number within `range`, or takes `default`.
    pub fn integer_or<T: Integer>(
        &mut self,
        key: &'a str,
        range: RangeInclusive<T>,
        default: T,
    ) -> Result<T, LabError> {
        if let Some(value) = self.integer_optional(key, range)? {
            return Ok(value);
        }
        self.keep_default(key, default.to_i64().into());
        Ok(default)
    }

    /// Reads a whole number within `range` if present.
    pub fn integer_optional<T: Integer>(
        &mut self,
        key: &'a str,
        range: RangeInclusive<T>,
    ) -> Result<Option<T>, LabError> {
        let (least, most) = (range.start().to_i64(), range.end().to_i64());
        self.describe(key, Some(Form::Integer(least, most)), None, "");
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        let accepted = whole_number(&range);
        let Kind::Integer(number) = entry.value.kind else {
            return Err(self.wrong(entry, &accepted, None));
        };
        let value = T::from_i64(number).filter(|value| range.contains(value));
        let value = value.ok_or_else(|| {
            let problem = format!("`{key}` is out of range: {number}");
            Diagnostic::at(self.source, &entry.value.origin, problem)
                .with_note(format!("accepted: {accepted}"))
        })?;
        self.resolved.push((key.to_owned(), number.into()));
        Ok(Some(value))
    }

    /// Reads a number within `range`, or takes `default`. A whole number counts.
    pub fn number_or(
        &mut self,
        key: &'a str,
        range: RangeInclusive<f64>,
        default: f64,
    ) -> Result<f64, LabError> {
        if let Some(number) = self.number_optional(key, range)? {
            return Ok(number);
        }
        self.keep_default(key, default.into());
        Ok(default)
    }

    /// Reads a number within `range` if present. A whole number counts.
    pub fn number_optional(
        &mut self,
        key: &'a str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, LabError> {
        let accepted = format!("a number from {} to {}", range.start(), range.end());
        self.describe(key, Some(Form::Number(*range.start(), *range.end())), None, "");
        self.number_accepted(key, |number| range.contains(&number), &accepted)
    }

    pub(super) fn number_accepted(
        &mut self,
        key: &'a str,
        is_accepted: impl FnOnce(f64) -> bool,
        accepted: &str,
    ) -> Result<Option<f64>, LabError> {
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        let number = match entry.value.kind {
            Kind::Integer(number) => number as f64,
            Kind::Float(number) => number,
            _ => return Err(self.wrong(entry, accepted, None)),
        };
        if !is_accepted(number) {
            let problem = format!("`{key}` is out of range: {number}");
            return Err(Diagnostic::at(self.source, &entry.value.origin, problem)
                .with_note(format!("accepted: {accepted}"))
                .into());
        }
        self.resolved.push((key.to_owned(), number.into()));
        Ok(Some(number))
    }

    /// Reads one of a few words; an error without it.
    pub fn choice<T: Copy>(&mut self, key: &'a str, choices: &[(&str, T)]) -> Result<T, LabError> {
        let value = self.choice_optional(key, choices)?;
        value.ok_or_else(|| self.missing(key, &one_of(choices)))
    }

    /// Reads one of a few words, or takes the word `default`.
    ///
    /// # Panics
    /// If `default` is not among the choices.
    pub fn choice_or<T: Copy>(
        &mut self,
        key: &'a str,
        choices: &[(&str, T)],
        default: &str,
    ) -> Result<T, LabError> {
        if let Some(value) = self.choice_optional(key, choices)? {
            return Ok(value);
        }
        self.keep_default(key, default.into());
        let (_, value) =
            choices.iter().find(|(word, _)| *word == default).expect("the default is a choice");
        Ok(*value)
    }

    /// Reads one of a few words if present.
    pub fn choice_optional<T: Copy>(
        &mut self,
        key: &'a str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, LabError> {
        let words = choices.iter().map(|(word, _)| (*word).to_owned()).collect();
        self.describe(key, Some(Form::Word(words)), None, "");
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        let Kind::Text(text) = &entry.value.kind else {
            return Err(self.wrong(entry, &one_of(choices), None));
        };
        match choices.iter().find(|(word, _)| word == text) {
            Some(&(_, value)) => {
                self.resolved.push((key.to_owned(), text.as_str().into()));
                Ok(Some(value))
            }
            None => {
                let problem = format!("`{key}` cannot be {text:?}");
                Err(Diagnostic::at(self.source, &entry.value.origin, problem)
                    .with_suggestion(text, choices.iter().map(|(word, _)| *word))
                    .with_note(format!("accepted: {}", one_of(choices)))
                    .into())
            }
        }
    }

    /// Reads nodes if the key is there: `3`, `[1, 2]`, `"4-9"` or a list of these.
    /// Each must be below `nodes`.
    pub fn nodes_optional(
        &mut self,
        key: &'a str,
        nodes: u32,
    ) -> Result<Option<Vec<u32>>, LabError> {
        self.describe(key, Some(Form::Nodes), None, "");
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        let mut set = Vec::new();
        self.collect_nodes(entry, &entry.value, nodes, &mut set)?;
        self.resolved.push((key.to_owned(), entry.value.to_toml()));
        Ok(Some(set))
    }

    /// Reads numbers of nodes if the key is there, from 1 to `nodes`: `1`, or `[1, 10]`.
    pub fn counts_optional(
        &mut self,
        key: &'a str,
        nodes: u32,
    ) -> Result<Option<Vec<u32>>, LabError> {
        let counts = self.nodes_optional(key, nodes.saturating_add(1))?;
        match counts {
            Some(counts) if counts.contains(&0) => Err(self.error(
                key,
                "the number of nodes is 0",
                "a number of nodes, or a list of numbers",
            )),
            counts => Ok(counts),
        }
    }

    /// Reads a list of groups of nodes, each as [`Table::nodes_optional`]; an error without it.
    pub fn groups(&mut self, key: &'a str, nodes: u32) -> Result<Vec<Vec<u32>>, LabError> {
        const ACCEPTED: &str = "a list of groups: [[0, 1], [2, 3]] or [\"0-4\", \"5-9\"]";
        self.describe(key, Some(Form::Groups), None, "");
        let Some(entry) = self.ask(key) else {
            return Err(self.missing(key, ACCEPTED));
        };
        let Kind::Array(items) = &entry.value.kind else {
            return Err(self.wrong(entry, ACCEPTED, None));
        };
        let mut groups = Vec::new();
        for item in items {
            let mut group = Vec::new();
            self.collect_nodes(entry, item, nodes, &mut group)?;
            groups.push(group);
        }
        self.resolved.push((key.to_owned(), entry.value.to_toml()));
        Ok(groups)
    }

    /// Reads a table inside this one, such as `burst = { .. }`, if present.
    pub fn nested<T>(
        &mut self,
        key: &'a str,
        read: impl FnOnce(&mut Table<'a>) -> Result<T, LabError>,
    ) -> Result<Option<T>, LabError> {
        self.describe(key, Some(Form::Table), None, "");
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        let Kind::Table(entries) = &entry.value.kind else {
            return Err(self.wrong(entry, "a table: { key = value }", None));
        };
        let name = format!("{}.{key}", self.name);
        let inner = Table::new(name, self.source, &entry.value.origin, entries);
        let mut inner = inner.of_file(false, self.known);
        let value = read(&mut inner)?;
        inner.refuse_unread()?;
        let table: toml::Table = inner.resolved.into_iter().collect();
        self.resolved.push((key.to_owned(), toml::Value::Table(table)));
        Ok(Some(value))
    }

    /// The value of this key as it stands; does not count as reading it.
    pub(super) fn kind(&self, key: &str) -> Option<&'a Kind> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value.kind)
    }

    /// True if the table has this key; does not count as reading it.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// An error at the value of `key` (at the table, if it has none), for a check of the caller's
    /// own: the problem, and what would be accepted.
    pub fn error(&self, key: &str, problem: impl Into<String>, accepted: &str) -> LabError {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        let origin = entry.map_or(self.origin, |entry| &entry.value.origin);
        let note = format!("accepted: {accepted}");
        Diagnostic::at(self.source, origin, problem).with_note(note).into()
    }

    /// Another reader reads this key.
    pub(super) fn pass_over(&mut self, key: &'a str) {
        self.asked.push(key);
    }

    /// Refuses keys that were not read, and keeps the values read for `run.toml`.
    pub fn finish(self) -> Result<(), LabError> {
        self.refuse_unread()?;
        if let Some(record) = self.record {
            let mut record = record.read.lock().expect(HELD);
            record.retain(|(name, _)| *name != self.name);
            record.push((self.name, self.resolved));
        }
        Ok(())
    }

    pub(crate) fn into_resolved(self) -> Result<Resolved, LabError> {
        self.refuse_unread()?;
        Ok(self.resolved)
    }

    fn refuse_unread(&self) -> Result<(), LabError> {
        match self.entries.iter().find(|entry| !self.asked.contains(&entry.key.as_str())) {
            Some(entry) => Err(self.unknown(entry, &self.asked).into()),
            None => Ok(()),
        }
    }

    fn unknown(&self, entry: &Entry, known: &[&str]) -> Diagnostic {
        let problem = format!("unknown key `{}` in {}", entry.key, self.title());
        let mut diagnostic = Diagnostic::at(self.source, &entry.key_origin, problem);
        diagnostic = match self.keys.renamed(&entry.key) {
            Some(present) => note_renamed(diagnostic, &entry.key, present),
            None => diagnostic.with_suggestion(&entry.key, known.iter().copied()),
        };
        let elsewhere = self
            .known
            .iter()
            .find(|(table, keys)| *table != self.name && keys.contains(&entry.key.as_str()));
        if let Some((table, _)) = elsewhere {
            diagnostic = diagnostic.with_note(format!("`{}` belongs in [{table}]", entry.key));
        }
        diagnostic.with_note(format!("accepted keys: {}", known.join(", ")))
    }

    fn title(&self) -> String {
        match self.name.as_str() {
            "" => "the scenario".to_owned(),
            name if self.is_of_list => format!("[[{name}]]"),
            name => format!("[{name}]"),
        }
    }

    pub(super) fn ask(&mut self, key: &'a str) -> Option<&'a Entry> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
        }
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn typed<T: Read>(&mut self, key: &'a str) -> Result<Option<T>, LabError> {
        self.describe(key, Some(T::FORM), None, "");
        let Some(entry) = self.ask(key) else {
            return Ok(None);
        };
        match T::read(&entry.value) {
            Ok(value) => {
                self.resolved.push((key.to_owned(), value.write()));
                Ok(Some(value))
            }
            Err(problem) => Err(self.wrong(entry, T::ACCEPTED, problem)),
        }
    }

    pub(super) fn wrong(&self, entry: &Entry, accepted: &str, problem: Option<String>) -> LabError {
        let problem = match problem {
            Some(problem) => format!("bad value for `{}`: {problem}", entry.key),
            None => format!("`{}` cannot be {}", entry.key, entry.value.describe()),
        };
        Diagnostic::at(self.source, &entry.value.origin, problem)
            .with_note(format!("accepted: {accepted}"))
            .into()
    }

    fn missing(&self, key: &str, accepted: &str) -> LabError {
        // A misspelt key is the likelier slip, and the better thing to point at.
        let unread = self.entries.iter().filter(|entry| !self.asked.contains(&entry.key.as_str()));
        for entry in unread {
            if super::diagnostic::nearest(&entry.key, [key]).is_some() {
                let problem = format!("unknown key `{}` in {}", entry.key, self.title());
                return Diagnostic::at(self.source, &entry.key_origin, problem)
                    .with_suggestion(&entry.key, [key])
                    .into();
            }
        }
        let problem = format!("missing key `{key}` in {}", self.title());
        Diagnostic::at(self.source, self.origin, problem)
            .with_note(format!("accepted: {accepted}"))
            .into()
    }

    fn collect_nodes(
        &self,
        entry: &Entry,
        value: &Value,
        nodes: u32,
        out: &mut Vec<u32>,
    ) -> Result<(), LabError> {
        const ACCEPTED: &str = "nodes: 3, [1, 2], \"4-9\" or [1, \"4-9\"]";
        let range = match &value.kind {
            Kind::Array(items) => {
                return items
                    .iter()
                    .try_for_each(|item| self.collect_nodes(entry, item, nodes, out));
            }
            Kind::Integer(node) => u32::try_from(*node).ok().map(|node| node..=node),
            Kind::Text(text) => text.split_once('-').and_then(|(first, last)| {
                Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
            }),
            _ => None,
        };
        let problem = match range {
            None => format!("bad value for `{}`: {}", entry.key, value.describe()),
            Some(range) if range.is_empty() => {
                format!("`{}`: the range {}-{} is empty", entry.key, range.start(), range.end())
            }
            Some(range) if *range.end() >= nodes => format!(
                "`{}`: there is no node {}; nodes are 0 to {}",
                entry.key,
                range.end(),
                nodes - 1
            ),
            Some(range) => {
                out.extend(range);
                return Ok(());
            }
        };
        Err(Diagnostic::at(self.source, &value.origin, problem)
            .with_note(format!("accepted: {ACCEPTED}"))
            .into())
    }
}

/// A whole number that a key can hold.
pub trait Integer: Copy + PartialOrd + Display {
    /// The number, if it fits.
    fn from_i64(number: i64) -> Option<Self>;
    /// The number as TOML has it; the largest there is, if it does not fit.
    fn to_i64(self) -> i64;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            fn from_i64(number: i64) -> Option<Self> {
                number.try_into().ok()
            }
            fn to_i64(self) -> i64 {
                self.try_into().unwrap_or(i64::MAX)
            }
        }
    )*};
}
integers!(u8 u16 u32 u64 usize i64);

fn whole_number<T: Integer>(range: &RangeInclusive<T>) -> String {
    if range.end().to_i64() == i64::MAX {
        format!("a whole number from {}", range.start())
    } else {
        format!("a whole number from {} to {}", range.start(), range.end())
    }
}

fn one_of<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<String> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
    words.join(", ")
}
