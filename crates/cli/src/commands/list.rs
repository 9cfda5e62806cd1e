use paceline_lab::table::table_within;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::services::reproductions;
use serde::Serialize;

use super::{COLUMNS_UNKNOWN, Outcome};
use crate::error::CliError;
use crate::ui::Ui;

/// List the built-in scenarios, and the papers' figures that can be reproduced
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline list
  paceline list --json")]
pub struct Args {}

#[derive(Serialize)]
struct Entry {
    name: String,
    about: String,
}

#[derive(Serialize)]
struct Document {
    scenarios: Vec<Entry>,
    reproductions: Vec<Entry>,
}

/// Does it.
pub fn run(_args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let mut document = Document { scenarios: Vec::new(), reproductions: Vec::new() };
    for name in CATALOG.scenario_names() {
        let about = CATALOG.load(name)?.resolve()?.about;
        document.scenarios.push(Entry { name: name.to_owned(), about });
    }
    for reproduction in reproductions() {
        let (name, about) = (reproduction.name.to_owned(), reproduction.about.to_owned());
        document.reproductions.push(Entry { name, about });
    }
    ui.document(&document)?;
    let rows = |entries: Vec<Entry>| -> Vec<[String; 2]> {
        entries.into_iter().map(|entry| [entry.name, entry.about]).collect()
    };
    let columns = ui.columns().unwrap_or(COLUMNS_UNKNOWN);
    ui.print(&table_within(["paceline run", ""], &rows(document.scenarios), columns))?;
    ui.print("\n")?;
    let reproductions = rows(document.reproductions);
    ui.print(&table_within(["paceline reproduce", ""], &reproductions, columns))?;
    Ok(Outcome::Done)
}
