//! Scenario files: the protocol, the network, the load, and the faults.
//!
//! A [`Catalog`] lists the services that a scenario can name. It loads a [`ScenarioFile`]: the
//! text, parsed, with the user's overrides applied. Resolving it gives a [`Scenario`]: the tables
//! that all services share are typed, and `[protocol]`, `[workload]` and `[measure]` wait for the
//! service, which reads them through a [`Table`]. Every error names the file, the line, and the
//! accepted values.

mod catalog;
mod diagnostic;
mod document;
mod faults;
mod form;
mod knobs;
mod overrides;
mod reader;
#[cfg(test)]
pub(crate) mod sample;
mod senders;
mod services;
mod tables;
mod topology;
pub mod units;
mod values;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use catalog::{Catalog, Keys, ServiceKind};
pub use diagnostic::{Diagnostic, Origin, Source, nearest};
pub use faults::{Fault, TimedFault};
pub use form::{Described, Form};
use reader::Record;
pub use reader::{Integer, Table};
pub use senders::Senders;
pub use tables::{FileTables, TableFile};
pub use topology::{NODES_MAX, Topology};
pub use units::Rate;

use crate::LabError;
pub(crate) use document::{Entries, Kind, Value};

/// Keys and values as a table resolved them, defaults included, in the order they were asked for.
pub(crate) type Resolved = Vec<(String, toml::Value)>;

pub(crate) const TABLES: &[&str] =
    &["topology", "protocol", "workload", "service", "faults", "measure", "sweep"];
pub(crate) const TOP_KEYS: &[&str] = &["name", "about", "seed", "duration"];
/// Tables of which there may be any number.
const LISTS: [&str; 2] = ["service", "faults"];
/// [`Scenario::service`] of a scenario with `[[service]]` tables.
pub const SEVERAL: &str = "several";
/// Tables, each with keys that it accepts.
pub(crate) type KnownKeys = &'static [(&'static str, &'static [&'static str])];
pub(crate) const KNOWN_KEYS: KnownKeys = &[("topology", topology::KEYS)];

/// The largest seed: the largest number that TOML has, so that every run can be written down.
pub const SEED_MAX: u64 = i64::MAX as u64;

/// A scenario as it was written, with the overrides applied so far.
#[derive(Clone)]
pub struct ScenarioFile {
    catalog: &'static Catalog,
    source: Arc<Source>,
    entries: Entries,
}

impl ScenarioFile {
    /// Applies an override, `key=value`.
    ///
    /// The value is TOML, or text if it is not. A key without a dot stands for the one table that
    /// has it: `nodes=8` is `topology.nodes=8`.
    pub fn set(&mut self, set: &str) -> Result<(), LabError> {
        let service = match self.find("protocol").map(|(_, entries)| entries) {
            Some(entries) => entries.iter().find(|entry| entry.key == "kind"),
            None => None,
        };
        let service_keys = match service.map(|entry| &entry.value.kind) {
            Some(Kind::Text(name)) => self.catalog.keys(name),
            _ => Keys::NONE,
        };
        Ok(overrides::apply(&mut self.entries, set, KNOWN_KEYS, service_keys)?)
    }

    /// Applies several overrides in turn.
    pub fn with_sets<S: AsRef<str>>(
        mut self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<ScenarioFile, LabError> {
        for set in sets {
            self.set(set.as_ref())?;
        }
        Ok(self)
    }

    /// Checks the tables that all services share and fills in their defaults.
    pub fn resolve(&self) -> Result<Scenario, LabError> {
        self.refuse_unknown_tables()?;
        let (top, origin) = (self.top_entries(), Origin::Nowhere);
        let record = Record::default();
        let mut table = Table::new("", &self.source, &origin, &top).recorded(&record);
        let name = table.text_or("name", self.stem())?;
        let about = table.text_or("about", "")?;
        let seed = table.integer_or("seed", 0..=SEED_MAX, 1)?;
        let duration = table.duration_or("duration", topology::DURATION_DEFAULT)?;
        let mut resolved = vec![(String::new(), table.into_resolved()?)];

        let mut table = self.table("topology").recorded(&record);
        let topology = Topology::read(&mut table)?;
        resolved.push(("topology".to_owned(), table.into_resolved()?));

        let mut faults = Vec::new();
        for (origin, entries) in self.tables_of("faults")? {
            let table = Table::new("faults", &self.source, origin, entries);
            let mut table = table.recorded(&record);
            faults::read(&mut table, &topology, duration, &mut faults)?;
            resolved.push(("faults".to_owned(), table.into_resolved()?));
        }
        faults.sort_by_key(|fault| fault.at);

        let services = self.services()?;
        let service = if services.is_empty() {
            let service = self.service(&mut self.table("protocol"))?;
            self.refuse_lost_streams(service, &topology)?;
            service
        } else {
            SEVERAL
        };
        let file = self.clone();
        Ok(Scenario {
            name,
            about,
            seed,
            duration,
            topology,
            faults,
            service,
            services,
            weight: 1,
            file,
            resolved,
            record,
        })
    }

    /// Puts a value at a dotted path, as the sweep does; messages point at where it came from.
    pub(crate) fn put(&mut self, path: &str, value: Value) -> Result<(), LabError> {
        Ok(overrides::put_path(&mut self.entries, path, value, &self.source)?)
    }

    /// The entries of a table, and where it stands.
    pub(crate) fn find(&self, name: &str) -> Option<(&Origin, &Entries)> {
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        match &entry.value.kind {
            Kind::Table(entries) => Some((&entry.value.origin, entries)),
            _ => None,
        }
    }

    /// The override that set the value at a dotted path, if one did.
    pub(crate) fn set_by(&self, path: &str) -> Option<&str> {
        let mut segments = path.split('.');
        let mut entries = &self.entries;
        loop {
            let segment = segments.next()?;
            let entry = entries.iter().find(|entry| entry.key == segment)?;
            match (&entry.value.kind, &entry.value.origin) {
                (_, Origin::Set(set)) => return Some(set),
                (Kind::Table(inside), _) => entries = inside,
                _ => return None,
            }
        }
    }

    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// The scenario as TOML, as it was given, without `[sweep]`.
    pub(crate) fn canonical(&self) -> String {
        self.as_given(|table| table != "sweep")
    }

    /// The scenario as TOML, as it was given, overrides applied.
    pub(crate) fn to_toml_as_given(&self) -> String {
        self.as_given(|_| true)
    }

    fn as_given(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let as_given = |entries: &Entries| {
            entries.iter().map(|entry| (entry.key.clone(), entry.value.to_toml())).collect()
        };
        let mut out = vec![(String::new(), as_given(&self.top_entries()))];
        for entry in self.entries.iter().filter(|entry| is_wanted(&entry.key)) {
            match &entry.value.kind {
                Kind::Table(entries) => out.push((entry.key.clone(), as_given(entries))),
                Kind::Array(items) => {
                    out.extend(items.iter().filter_map(|item| match &item.kind {
                        Kind::Table(entries) => Some((entry.key.clone(), as_given(entries))),
                        _ => None,
                    }))
                }
                _ => {}
            }
        }
        write_tables(&out)
    }

    fn table(&self, name: &'static str) -> Table<'_> {
        static NOWHERE: Origin = Origin::Nowhere;
        static EMPTY: Entries = Vec::new();
        let (origin, entries) = self.find(name).unwrap_or((&NOWHERE, &EMPTY));
        Table::new(name, &self.source, origin, entries)
    }

    fn service(&self, table: &mut Table<'_>) -> Result<&'static str, LabError> {
        let kinds = self.catalog.kind_names();
        let choices: Vec<(&str, &'static str)> = kinds.map(|kind| (kind, kind)).collect();
        table.choice("kind", &choices)
    }

    fn top_entries(&self) -> Entries {
        self.entries.iter().filter(|entry| !TABLES.contains(&entry.key.as_str())).cloned().collect()
    }

    fn stem(&self) -> String {
        let path = Path::new(&self.source.name);
        path.file_stem().map_or("scenario".into(), |stem| stem.to_string_lossy().into_owned())
    }

    fn refuse_unknown_tables(&self) -> Result<(), LabError> {
        Ok(tables::refuse_unknown(&self.entries, &self.source, TABLES, &LISTS)?)
    }

    /// Streams are resent until they arrive: where a link loses all, none ever does.
    fn refuse_lost_streams(&self, service: &str, topology: &Topology) -> Result<(), LabError> {
        if !self.catalog.kind(service).is_some_and(|kind| kind.sends_streams) {
            return Ok(());
        }
        let refused = |table: &Table<'_>| {
            let key = if table.has("burst") { "burst" } else { "loss" };
            let problem =
                format!("`{service}` sends streams, and a link that loses every packet is a cut");
            let accepted = "less than 100 %, or [[faults]] kind = \"partition\" with a duration";
            table.error(key, problem, accepted)
        };
        if topology.link.loss.mean() >= 1.0 {
            return Err(refused(&self.table("topology")));
        }
        for (origin, entries) in self.tables_of("faults")? {
            let mut table = Table::new("faults", &self.source, origin, entries);
            let is_given = table.has("loss") || table.has("burst");
            if is_given && topology::read_link(&mut table, &topology.link)?.loss.mean() >= 1.0 {
                return Err(refused(&table));
            }
        }
        Ok(())
    }

    /// The tables of a list of tables.
    fn tables_of(&self, name: &str) -> Result<Vec<(&Origin, &Entries)>, LabError> {
        Ok(tables::of_list(&self.entries, name))
    }
}

impl fmt::Debug for ScenarioFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ScenarioFile").field(&self.source.name).finish()
    }
}

/// A scenario whose shared tables are checked and complete.
#[derive(Debug)]
pub struct Scenario {
    /// What it is called. Default: the file's name.
    pub name: String,
    /// One sentence for the reader of a list. Default: empty.
    pub about: String,
    /// The root of all randomness, unless the caller brings another; at most
    /// [`SEED_MAX`]. Default 1.
    pub seed: u64,
    /// When the run ends at the latest. Default 60 s.
    pub duration: Duration,
    /// The network.
    pub topology: Topology,
    /// What goes wrong, in order of time.
    pub faults: Vec<TimedFault>,
    /// Which protocol runs: `[protocol] kind`, one of the catalog's kinds; [`SEVERAL`] where the
    /// nodes run several services.
    pub service: &'static str,
    /// The services of a scenario with `[[service]]` tables, each as a scenario of its own with the
    /// service's name.
    pub services: Vec<Scenario>,
    /// The service's weight among those of its host: while several have something to send, each
    /// gets a share of the host's link in proportion. Default 1.
    pub weight: u32,
    file: ScenarioFile,
    resolved: Vec<(String, Resolved)>,
    record: Record,
}

impl Scenario {
    /// The services that it was read with.
    pub fn catalog(&self) -> &'static Catalog {
        self.file.catalog
    }

    /// The table `[protocol]`, for the service to read; its `kind` is read already.
    pub fn protocol(&self) -> Table<'_> {
        let keys = self.catalog().keys(self.service);
        let mut table = self.file.table("protocol").recorded(&self.record).of_service(keys);
        self.file.service(&mut table).expect("the kind was read when the scenario was resolved");
        table
    }

    /// The keys that readers have requested from tables so far, with their descriptions.
    pub fn described(&self) -> Vec<Described> {
        self.record.described.lock().expect("no reader panics with the record held").clone()
    }

    /// The table `[workload]`, for the service to read.
    pub fn workload(&self) -> Table<'_> {
        self.file.table("workload").recorded(&self.record)
    }

    /// The table `[measure]`, for the service to read.
    pub fn measure(&self) -> Table<'_> {
        self.file.table("measure").recorded(&self.record)
    }

    /// The same scenario with overrides, `key=value`.
    ///
    /// # Errors
    /// If one of them is wrong.
    pub fn with_sets<S: AsRef<str>>(
        &self,
        sets: impl IntoIterator<Item = S>,
    ) -> Result<Scenario, LabError> {
        self.file.clone().with_sets(sets)?.resolve()
    }

    /// The scenario as a file in which every default is written out. Running that file repeats
    /// the run. Tables that no service has read yet stand as they were given.
    pub fn to_toml(&self) -> String {
        self.to_toml_with_seed(self.seed)
    }

    /// [`Scenario::to_toml`] with another seed.
    pub fn to_toml_with_seed(&self, seed: u64) -> String {
        let mut tables: Vec<(String, Resolved)> = Vec::new();
        let (faults, shared): (Vec<_>, Vec<_>) =
            self.resolved.iter().cloned().partition(|(name, _)| name == "faults");
        tables.extend(shared);
        for (key, value) in tables.iter_mut().flat_map(|(_, entries)| entries) {
            if key == "seed" {
                *value = toml::Value::Integer(seed.try_into().unwrap_or(i64::MAX));
            }
        }
        tables.extend(self.own_tables());
        for service in &self.services {
            let name = toml::Value::from(service.name.as_str());
            let weight = toml::Value::from(service.weight);
            let own = vec![("name".to_owned(), name), ("weight".to_owned(), weight)];
            tables.push(("service".to_owned(), own));
            let own = service.own_tables().into_iter();
            tables.extend(own.map(|(name, entries)| (format!("service.{name}"), entries)));
        }
        tables.extend(faults);
        write_tables(&tables)
    }

    /// The tables of the service, as it read them, or as they were given.
    fn own_tables(&self) -> Vec<(String, Resolved)> {
        let read = self.record.read.lock().expect("no reader panics with the record held");
        let own = services::OWN.iter().filter_map(|&name| {
            if let Some(found) = read.iter().find(|(known, _)| known == name) {
                return Some(found.clone());
            }
            let (_, entries) = self.file.find(name)?;
            let as_given = entries.iter().map(|e| (e.key.clone(), e.value.to_toml()));
            Some((name.to_owned(), as_given.collect()))
        });
        own.collect()
    }
}

fn write_tables(tables: &[(String, Resolved)]) -> String {
    let mut text = String::new();
    for (name, entries) in tables {
        match name.as_str() {
            "" => {}
            name if LISTS.contains(&name) => text.push_str(&format!("\n[[{name}]]\n")),
            name => text.push_str(&format!("\n[{name}]\n")),
        }
        for (key, value) in entries {
            let bare = key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
            let key = if bare { key.clone() } else { toml::Value::from(key.as_str()).to_string() };
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests;
