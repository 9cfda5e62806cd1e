use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, Origin, Source};

/// A parsed TOML value that knows where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) origin: Origin,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Text(String),
    Integer(i64),
    Float(f64),
    Boolean(bool),
    Datetime(String),
    Array(Vec<Value>),
    Table(Entries),
}

/// The keys of a table, in the order of the file.
pub(crate) type Entries = Vec<Entry>;

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_origin: Origin,
    pub(crate) value: Value,
}

impl Value {
    /// What the value is, for `must be a duration, not a whole number`.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Text(text) => format!("the text {text:?}"),
            Kind::Integer(number) => format!("the plain number {number}"),
            Kind::Float(number) => format!("the plain number {number}"),
            Kind::Boolean(truth) => format!("{truth}"),
            Kind::Datetime(date) => format!("the date {date}"),
            Kind::Array(_) => "a list".to_owned(),
            Kind::Table(_) => "a table".to_owned(),
        }
    }

    /// The value as TOML, as it was given.
    pub(crate) fn to_toml(&self) -> toml::Value {
        match &self.kind {
            Kind::Text(text) | Kind::Datetime(text) => toml::Value::String(text.clone()),
            Kind::Integer(number) => toml::Value::Integer(*number),
            Kind::Float(number) => toml::Value::Float(*number),
            Kind::Boolean(truth) => toml::Value::Boolean(*truth),
            Kind::Array(items) => items.iter().map(Value::to_toml).collect::<Vec<_>>().into(),
            Kind::Table(entries) => toml::Value::Table(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.to_toml())).collect(),
            ),
        }
    }
}

/// Parses the text of a scenario file.
pub(crate) fn parse(source: &Source) -> Result<Entries, Diagnostic> {
    let table = DeTable::parse(&source.text).map_err(|error| {
        let origin = error.span().map_or(Origin::Nowhere, Origin::File);
        // The commonest slip is a value with a unit that lacks its quotes.
        let unquoted = error.message().starts_with("string values must be quoted");
        let diagnostic = Diagnostic::at(source, &origin, format!("not TOML: {}", error.message()));
        if unquoted {
            diagnostic.with_note("quote text and values with a unit: \"10Mbit\"")
        } else {
            diagnostic
        }
    })?;
    entries(source, table.get_ref(), &Origin::File)
}

/// Parses the value of an override: a TOML value or, failing that, text.
pub(crate) fn parse_override(set: &Arc<str>, text: &str) -> Result<Value, Diagnostic> {
    let origin = |_| Origin::Set(set.clone());
    match DeValue::parse(text) {
        Ok(value) => {
            let source = Source { name: String::new(), text: text.to_owned() };
            convert(&source, value.get_ref(), origin(0..0), &origin)
        }
        Err(_) => Ok(Value { kind: Kind::Text(text.to_owned()), origin: origin(0..0) }),
    }
}

type MakeOrigin<'a> = &'a dyn Fn(std::ops::Range<usize>) -> Origin;

fn entries(
    source: &Source,
    table: &DeTable<'_>,
    origin: MakeOrigin<'_>,
) -> Result<Entries, Diagnostic> {
    let mut pairs: Vec<_> = table.iter().collect();
    pairs.sort_by_key(|(key, _)| key.span().start);
    pairs
        .into_iter()
        .map(|(key, value)| {
            Ok(Entry {
                key: key.get_ref().to_string(),
                key_origin: origin(key.span()),
                value: convert(source, value.get_ref(), origin(value.span()), origin)?,
            })
        })
        .collect()
}

fn convert(
    source: &Source,
    value: &DeValue<'_>,
    here: Origin,
    origin: MakeOrigin<'_>,
) -> Result<Value, Diagnostic> {
    let kind = match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Kind::Integer(number),
            Err(_) => return Err(Diagnostic::at(source, &here, "the number is too large")),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(number) => Kind::Float(number),
            Err(_) => return Err(Diagnostic::at(source, &here, "not a number")),
        },
        DeValue::Boolean(truth) => Kind::Boolean(*truth),
        DeValue::Datetime(date) => Kind::Datetime(date.to_string()),
        DeValue::Array(items) => Kind::Array(
            items
                .iter()
                .map(|item| convert(source, item.get_ref(), origin(item.span()), origin))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => Kind::Table(entries(source, table, origin)?),
    };
    Ok(Value { kind, origin: here })
}
