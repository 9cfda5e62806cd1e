//! stub
use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;
/// stub
#[derive(Debug, clap::Args)]
pub struct Args {}
pub fn run(_args: Args, _ui: &Ui) -> Result<Outcome, CliError> { Ok(Outcome::Done) }
