use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Print the JSON Schema of scenario files, by which editors complete and check keys
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {}

const AFTER_HELP: &str = "\
Examples:
  paceline schema > scenario.schema.json

An editor with taplo (Even Better TOML) uses it for a file that begins with
  #:schema ./scenario.schema.json";

/// Does it.
pub fn run(Args {}: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let schema = format!("{:#}\n", paceline_lab_services::schema::schema());
    ui.output(&schema)?;
    Ok(Outcome::Done)
}
