use std::io;

use paceline_lab::LabError;
use thiserror::Error;

/// Why a command did not come to its end.
#[derive(Debug, Error)]
pub enum CliError {
    /// The lab says why.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// An argument is at fault. Nothing ran.
    #[error("{0}")]
    Input(String),
    /// What was to be printed could not be.
    #[error("cannot print: {0}")]
    Output(io::Error),
    /// The command ran and failed.
    #[error("{0}")]
    Failed(String),
    /// The user stopped it before it had done what was asked for.
    #[error("stopped")]
    Stopped,
    /// The command ran, and the answer is not certain.
    #[error("{0}")]
    Unsure(String),
}

impl CliError {
    /// 2 if the input is at fault, 1 if what ran failed, 3 if it is not certain.
    pub fn exit_status(&self) -> u8 {
        match self {
            CliError::Lab(error) => error.exit_status(),
            CliError::Input(_) => 2,
            CliError::Output(_) | CliError::Failed(_) | CliError::Stopped => 1,
            CliError::Unsure(_) => 3,
        }
    }
}

/// A panic is a bug of ours: it is reported in a line, without a trace of the stack.
pub fn report_bugs_in_a_line() {
    if std::env::var_os("RUST_BACKTRACE").is_some() {
        return;
    }
    std::panic::set_hook(Box::new(|panic| {
        // That becomes an error which names the file.
        if std::thread::current().name() == Some(paceline::dht::FILE_THREAD) {
            return;
        }
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let message = text.unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        eprintln!("error: a bug in Paceline, at {place}: {message}");
        eprintln!("  = please report it; RUST_BACKTRACE=1 shows the call stack");
    }));
}
