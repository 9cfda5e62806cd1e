//! `[[service]]` tables: several services on the same nodes.
//!
//! Each has a name, a weight, and the tables that a scenario of that service alone has:
//! `[service.protocol]`, `[service.workload]` and `[service.measure]`. Its service reads them as
//! such a scenario, with the network and the faults that all share.

use paceline_proto::parts::link_share::WEIGHT_MAX;

use super::diagnostic::Diagnostic;
use super::document::{Entries, Entry, Kind};
use super::reader::Table;
use super::{Scenario, ScenarioFile, TABLES};
use crate::LabError;

/// The tables of a service.
pub(super) const OWN: [&str; 3] = ["protocol", "workload", "measure"];

/// The most services of a scenario.
const SERVICES_MAX: usize = 64;

impl ScenarioFile {
    /// The services of a scenario with `[[service]]` tables; none if it is of one service.
    pub(super) fn services(&self) -> Result<Vec<Scenario>, LabError> {
        let tables = self.tables_of("service")?;
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let own = self.entries.iter().find(|entry| OWN.contains(&entry.key.as_str()));
        if let Some(Entry { key, key_origin, .. }) = own {
            let problem = format!("[{key}] stands beside [[service]]");
            let note = format!("each service has a table of its own: [service.{key}]");
            return Err(Diagnostic::at(&self.source, key_origin, problem).with_note(note).into());
        }
        let mut services: Vec<Scenario> = Vec::new();
        for (origin, entries) in tables {
            let mut table = Table::new("service", &self.source, origin, entries);
            let name = table.text("name")?;
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if name.is_empty() || !name.chars().all(is_plain) {
                let problem = format!("`{name}` is not the name of a service");
                return Err(table.error("name", problem, "letters, digits, `-` and `_`"));
            }
            if services.iter().any(|known| known.name == name) {
                let problem = format!("there is a service `{name}` already");
                return Err(table.error("name", problem, "a name of its own"));
            }
            if services.len() == SERVICES_MAX {
                let problem = format!("more than {SERVICES_MAX} services");
                return Err(table.error("name", problem, "fewer [[service]] tables"));
            }
            let weight = table.integer_or("weight", 1..=WEIGHT_MAX, 1)?;
            OWN.iter().for_each(|own| table.pass_over(own));
            table.finish()?;
            let scenario = self.of_service(entries).resolve()?;
            services.push(Scenario { name, weight, ..scenario });
        }
        Ok(services)
    }

    /// The scenario of one service: what all share, and its tables.
    fn of_service(&self, own: &Entries) -> ScenarioFile {
        let is_shared =
            |entry: &&Entry| entry.key != "service" && !OWN.contains(&entry.key.as_str());
        let own = own.iter().filter(|entry| TABLES.contains(&entry.key.as_str()));
        let entries = self.entries.iter().filter(is_shared).chain(own).cloned().collect();
        ScenarioFile { catalog: self.catalog, source: self.source.clone(), entries }
    }
}

/// The name of a `[[service]]` table.
pub(super) fn name_of(table: &Entries) -> Option<&str> {
    let name = table.iter().find(|entry| entry.key == "name")?;
    match &name.value.kind {
        Kind::Text(name) => Some(name),
        _ => None,
    }
}
