use clap::CommandFactory;
use clap_complete::Shell;

use super::Outcome;
use crate::Cli;
use crate::error::CliError;
use crate::ui::Ui;

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The shell
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  paceline completions bash > ~/.local/share/bash-completion/completions/paceline
  paceline completions fish > ~/.config/fish/completions/paceline.fish
  paceline completions zsh > ~/.zfunc/_paceline";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "paceline", &mut script);
    ui.output(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}
