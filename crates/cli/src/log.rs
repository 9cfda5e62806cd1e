//! Logs of drivers and protocols, on standard error.

use clap::ValueEnum;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

use crate::error::CliError;

/// The flags that concern logs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to log: a level, or levels by module, such as `info,paceline_net=debug`
    #[arg(
        long,
        global = true,
        env = "PACELINE_LOG",
        value_name = "FILTER",
        default_value = "warn"
    )]
    #[arg(hide_default_value = true, help_heading = "Logs")]
    log: String,

    /// How logs look
    #[arg(long, global = true, env = "PACELINE_LOG_FORMAT", value_name = "FORMAT")]
    #[arg(default_value = "text", hide_default_value = true, help_heading = "Logs")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// A line for a reader
    Text,
    /// A JSON object a line
    Json,
}

impl Args {
    /// Starts logging for the rest of the process.
    pub fn start(&self) -> Result<(), CliError> {
        let filter: Targets = self.log.parse().map_err(|error| {
            CliError::Input(format!(
                "--log {}: {error}\n  = accepted: a level (error, warn, info, debug, trace, off), \
                 or module=level, several with commas",
                self.log
            ))
        })?;
        let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let layer = match self.log_format {
            Format::Text => layer.boxed(),
            Format::Json => layer.json().boxed(),
        };
        tracing_subscriber::registry().with(layer.with_filter(filter)).init();
        Ok(())
    }
}
