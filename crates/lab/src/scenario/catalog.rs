use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use paceline_proto::core::CounterSet;
use paceline_proto::core::knobs::Knob;

use super::diagnostic::{Diagnostic, Source};
use super::{ScenarioFile, document};
use crate::LabError;

/// The services of a laboratory as data, for the readers of scenarios and for the worlds, which
/// know no service by themselves.
///
/// A scenario keeps the catalog that it was read with: overrides, sweeps and child processes use
/// the same one.
pub struct Catalog {
    /// The values of `[protocol] kind`, in the order in which messages list them.
    pub kinds: &'static [ServiceKind],
    /// Built-in scenarios, sorted by name, each with its text.
    pub scenarios: &'static [(&'static str, &'static str)],
    /// Every set of counters that a node can report.
    pub counters: &'static [&'static CounterSet],
}

impl Catalog {
    /// Loads a built-in scenario by its name (`chain/ten`), or a file: whatever ends in `.toml` or
    /// exists.
    ///
    /// # Errors
    /// If there is no such scenario or file, or it is not TOML.
    pub fn load(&'static self, name_or_path: &str) -> Result<ScenarioFile, LabError> {
        if let Some(text) = self.scenario_text(name_or_path) {
            return self.parse(&format!("{name_or_path}.toml"), text);
        }
        let path = Path::new(name_or_path);
        if name_or_path.ends_with(".toml") || path.is_file() {
            return match std::fs::read_to_string(path) {
                Ok(text) => self.parse(name_or_path, &text),
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    Err(self.no_such_file(path).into())
                }
                Err(error) => Err(LabError::read(path)(error)),
            };
        }
        Err(self.no_such_scenario(name_or_path).into())
    }

    /// Parses the text of a scenario; `name` stands in messages where a file's would.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn parse(&'static self, name: &str, text: &str) -> Result<ScenarioFile, LabError> {
        let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
        let entries = document::parse(&source)?;
        Ok(ScenarioFile { catalog: self, source, entries })
    }

    /// The names of the built-in scenarios, sorted.
    pub fn scenario_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.scenarios.iter().map(|(name, _)| *name)
    }

    /// The text of a built-in scenario.
    pub fn scenario_text(&self, name: &str) -> Option<&'static str> {
        self.scenarios.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }

    /// The kind of this name.
    pub fn kind(&self, name: &str) -> Option<&'static ServiceKind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }

    /// The values of `[protocol] kind`.
    pub fn kind_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.kinds.iter().map(|kind| kind.name)
    }

    /// The keys that the own tables of this kind accept; none if there is no such kind.
    pub fn keys(&self, name: &str) -> Keys {
        self.kind(name).map_or(Keys::NONE, |kind| kind.keys)
    }

    fn no_such_scenario(&self, name: &str) -> Diagnostic {
        let known: Vec<&str> = self.scenario_names().collect();
        let by_last_part = known.iter().find(|known| known.rsplit('/').next() == Some(name));
        let diagnostic = Diagnostic::new(format!("there is no scenario `{name}`"));
        let diagnostic = match by_last_part {
            Some(near) => diagnostic.with_note(format!("did you mean `{near}`?")),
            None => diagnostic.with_suggestion(name, known.iter().copied()),
        };
        diagnostic
            .with_note(format!("scenarios: {}", known.join(", ")))
            .with_note("or a file whose name ends in .toml")
    }

    fn no_such_file(&self, path: &Path) -> Diagnostic {
        let diagnostic = no_such_file(path);
        let plain = path.with_extension("");
        match plain.to_str().filter(|name| self.scenario_text(name).is_some()) {
            Some(name) => {
                diagnostic.with_note(format!("`{name}` without .toml is a built-in scenario"))
            }
            None => diagnostic,
        }
    }
}

/// There is no such file; perhaps another one beside it is meant.
pub(super) fn no_such_file(path: &Path) -> Diagnostic {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten();
    let beside = beside.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut beside: Vec<String> = beside.filter(|name| name.ends_with(".toml")).collect();
    beside.sort();
    let name = path.file_name().map_or("".into(), |name| name.to_string_lossy());
    Diagnostic::new(format!("there is no file {}", path.display()))
        .with_suggestion(&name, beside.iter().map(String::as_str))
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kind_names()).finish()
    }
}

/// A value of `[protocol] kind`.
#[derive(Clone, Copy, Debug)]
pub struct ServiceKind {
    /// The value.
    pub name: &'static str,
    /// The keys that its own tables accept, so that an override may leave out the table's name.
    pub keys: Keys,
    /// True if its nodes send each other streams.
    pub sends_streams: bool,
}

impl ServiceKind {
    /// A kind whose nodes send each other streams.
    pub const fn of_streams(name: &'static str, keys: Keys) -> ServiceKind {
        ServiceKind { name, keys, sends_streams: true }
    }

    /// A kind whose nodes send each other datagrams only.
    pub const fn of_datagrams(name: &'static str, keys: Keys) -> ServiceKind {
        ServiceKind { name, keys, sends_streams: false }
    }
}

/// The keys that the tables of a service accept.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Tables, each with keys that the service reads by name.
    pub named: &'static [(&'static str, &'static [&'static str])],
    /// Knobs, which are keys of `[protocol]`.
    pub knobs: &'static [&'static [Knob]],
    /// Former names of keys of `[protocol]`, each with its present one.
    pub renamed: &'static [(&'static str, &'static str)],
}

impl Keys {
    /// No key.
    pub const NONE: Keys = Keys { named: &[], knobs: &[], renamed: &[] };

    /// Each key with its table.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let named =
            self.named.iter().flat_map(|&(table, keys)| keys.iter().map(move |&key| (table, key)));
        let knobs = self.knobs.iter().flat_map(|knobs| knobs.iter());
        named.chain(knobs.filter(|knob| knob.is_key).map(|knob| ("protocol", knob.name)))
    }

    /// The present name of a key, if it had another one.
    pub fn renamed(&self, key: &str) -> Option<&'static str> {
        self.renamed.iter().find(|(former, _)| *former == key).map(|&(_, present)| present)
    }
}
