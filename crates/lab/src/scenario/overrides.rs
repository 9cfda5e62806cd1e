//! `--set a.b=v`: overrides, applied to the parsed file before anything is resolved.

use std::sync::Arc;

use super::catalog::Keys;
use super::diagnostic::{Diagnostic, Origin, Source, nearest};
use super::document::{Entries, Entry, Kind, Value, parse_override};
use super::knobs::note_renamed;
use super::{KnownKeys, TABLES, TOP_KEYS, services};

/// Applies one override, `key=value`, to a document.
///
/// A dotted key names its table. A key without a dot stands for the one table that has it in the
/// file, or that is known to accept it.
pub(crate) fn apply(
    document: &mut Entries,
    set: &str,
    known: KnownKeys,
    of_service: Keys,
) -> Result<(), Diagnostic> {
    let origin: Arc<str> = set.into();
    let Some((key, text)) = set.split_once('=') else {
        return Err(Diagnostic::of_set(set, "an override is `key=value`")
            .with_note("such as `--set topology.nodes=8`"));
    };
    let (key, text) = (key.trim(), text.trim());
    let path = full_path(document, set, key, known, of_service)?;
    let value = parse_override(&origin, text)?;
    let segments: Vec<&str> = path.split('.').collect();
    if segments.iter().any(|segment| segment.is_empty()) {
        return Err(Diagnostic::of_set(set, format!("`{key}` is not a key")));
    }
    if segments.len() > 1 && !TABLES.contains(&segments[0]) {
        return Err(Diagnostic::of_set(set, format!("there is no table [{}]", segments[0]))
            .with_suggestion(segments[0], TABLES.iter().copied())
            .with_note(format!("tables: {}", TABLES.join(", "))));
    }
    put(document, &segments, value, &origin)
}

fn full_path(
    document: &Entries,
    set: &str,
    key: &str,
    known: KnownKeys,
    of_service: Keys,
) -> Result<String, Diagnostic> {
    if key.contains('.') || TOP_KEYS.contains(&key) {
        return Ok(key.to_owned());
    }
    // Neither faults nor the sweep have settings of their own that a bare key could mean.
    let in_file = document.iter().filter(|entry| entry.key != "sweep").filter_map(|entry| {
        let Kind::Table(inside) = &entry.value.kind else {
            return None;
        };
        inside.iter().any(|inner| inner.key == key).then_some(entry.key.as_str())
    });
    let accepted = known.iter().filter(|(_, keys)| keys.contains(&key)).map(|&(table, _)| table);
    let mut tables: Vec<&str> = in_file.chain(accepted).collect();
    if tables.is_empty() {
        tables.extend(of_service.all().filter(|&(_, known)| known == key).map(|(table, _)| table));
    }
    tables.sort_unstable();
    tables.dedup();
    match tables.as_slice() {
        [table] => Ok(format!("{table}.{key}")),
        [] => {
            let mut candidates: Vec<&str> =
                known.iter().flat_map(|(_, keys)| *keys).copied().collect();
            candidates.extend(of_service.all().map(|(_, key)| key));
            candidates.extend(TOP_KEYS);
            for entry in document {
                if let Kind::Table(inside) = &entry.value.kind {
                    candidates.extend(inside.iter().map(|inner| inner.key.as_str()));
                }
            }
            let problem =
                Diagnostic::of_set(set, format!("no table of the scenario has a key `{key}`"));
            if let Some(present) = of_service.renamed(key) {
                return Err(note_renamed(problem, key, present));
            }
            Err(match nearest(key, candidates) {
                Some(near) => problem.with_note(format!("did you mean `{near}`?")),
                None => problem.with_note(format!(
                    "the key with its table, where the file does not mention it: `protocol.{key}`"
                )),
            })
        }
        several => {
            let paths: Vec<String> =
                several.iter().map(|table| format!("`{table}.{key}`")).collect();
            Err(Diagnostic::of_set(set, format!("`{key}` could be {}", paths.join(" or ")))
                .with_note("say which table is meant"))
        }
    }
}

/// Puts a value of the file itself at a dotted path, as a sweep does.
pub(crate) fn put_path(
    entries: &mut Entries,
    path: &str,
    value: Value,
    source: &Source,
) -> Result<(), Diagnostic> {
    let origin = value.origin.clone();
    let segments: Vec<&str> = path.split('.').collect();
    let known = match segments.as_slice() {
        [key] => TOP_KEYS.contains(key),
        [table, ..] => TABLES.contains(table) && *table != "sweep" && !segments.contains(&""),
        [] => false,
    };
    if !known {
        return Err(Diagnostic::at(source, &origin, format!("`{path}` is not a setting"))
            .with_note("accepted: a table and a key, such as \"topology.nodes\""));
    }
    let blame = match &origin {
        Origin::Set(set) => set.clone(),
        _ => path.into(),
    };
    put(entries, &segments, value, &blame)
}

fn put(
    entries: &mut Entries,
    segments: &[&str],
    value: Value,
    set: &Arc<str>,
) -> Result<(), Diagnostic> {
    let origin = Origin::Set(set.clone());
    let (first, rest) = segments.split_first().expect("a path has a segment");
    // `[sweep]` has quoted keys with dots in them.
    let quoted = segments.join(".");
    if let Some(entry) = entries.iter_mut().find(|entry| entry.key == quoted) {
        entry.key_origin = value.origin.clone();
        entry.value = value;
        return Ok(());
    }
    let place = match entries.iter().position(|entry| entry.key == *first) {
        Some(place) => place,
        None => {
            let empty = Value { kind: Kind::Table(Vec::new()), origin: origin.clone() };
            entries.push(Entry {
                key: (*first).to_owned(),
                key_origin: origin.clone(),
                value: empty,
            });
            entries.len() - 1
        }
    };
    let entry = &mut entries[place];
    if rest.is_empty() {
        entry.value = value;
        return Ok(());
    }
    match &mut entry.value.kind {
        Kind::Table(inside) => put(inside, rest, value, set),
        Kind::Array(items) => {
            let count = items.len();
            let is_named = |item: &Value| match &item.kind {
                Kind::Table(table) => services::name_of(table) == Some(rest[0]),
                _ => false,
            };
            let named = || items.iter().position(is_named);
            let index = rest[0].parse().ok().or_else(named);
            let item = index.and_then(|index: usize| items.get_mut(index));
            match item.map(|item| (&mut item.kind, &rest[1..])) {
                Some((Kind::Table(inside), rest)) if !rest.is_empty() => {
                    put(inside, rest, value, set)
                }
                _ => Err(Diagnostic::of_set(
                    set,
                    format!(
                        "`{first}` is a list of {count}; say `{first}.0.key=value` and so on{}",
                        if *first == "service" { ", or a service's name instead of 0" } else { "" },
                    ),
                )),
            }
        }
        _ => Err(Diagnostic::of_set(set, format!("`{first}` is a value, not a table"))),
    }
}
