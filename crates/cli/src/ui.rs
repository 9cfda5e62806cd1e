//! What the user sees: tables and documents on standard output, everything else beside it.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use crate::error::CliError;
use crate::progress::Bars;

/// The terminal, or what stands in for it.
#[derive(Debug)]
pub struct Ui {
    json: bool,
    stop: Arc<AtomicBool>,
}

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();

impl Ui {
    /// With `json`, standard output is kept for one document. From here on Ctrl-C asks running
    /// work to stop, and a second one ends the process.
    pub fn new(json: bool) -> Ui {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // In this order: the second signal finds the flag that the first one set.
            let ends = signal_hook::flag::register_conditional_shutdown(signal, 130, stop.clone());
            let flags = signal_hook::flag::register(signal, stop.clone());
            if let Err(error) = ends.and(flags) {
                tracing::warn!("signal {signal} is not handled: {error}");
            }
        }
        Ui { json, stop }
    }

    /// True once the user asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// A progress bar for long work, which also hears of Ctrl-C.
    pub fn progress(&self) -> Bars {
        Bars::new(self.stop.clone())
    }

    /// Prints text for a reader: on standard output, or beside the JSON document.
    pub fn print(&self, text: &str) -> Result<(), CliError> {
        if self.json { write(&mut io::stderr(), text) } else { write(&mut io::stdout(), text) }
    }

    /// Prints a finding beside the output.
    pub fn note(&self, text: &str) {
        // Nothing is lost that standard output does not have.
        let _ = writeln!(io::stderr(), "{text}");
    }

    /// Warns the user.
    pub fn warn(&self, text: &str) {
        let _ = writeln!(anstream::stderr(), "{WARNING}warning:{WARNING:#} {text}");
    }

    /// Says why the command failed.
    pub fn error(&self, error: &CliError) {
        let _ = writeln!(anstream::stderr(), "{ERROR}error:{ERROR:#} {error}");
    }

    /// Prints the JSON document, if that is what the user wants; call it once.
    pub fn document(&self, document: &impl Serialize) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?;
        write(&mut io::stdout(), &(text + "\n"))
    }

    /// Prints one of many findings, as they come: a JSON document in a line, or text.
    pub fn line(
        &self,
        document: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        let line = match self.json {
            false => text(),
            true => serde_json::to_string(document)
                .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?,
        };
        write(&mut io::stdout(), &(line + "\n"))
    }

    /// Prints text that is the command's whole output, such as a completion script.
    pub fn output(&self, text: &str) -> Result<(), CliError> {
        write(&mut io::stdout(), text)
    }
}

/// A reader that closed the pipe has what it wanted.
fn write(out: &mut impl Write, text: &str) -> Result<(), CliError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

/// True if a person looks at standard error.
pub fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Rows below a header, aligned; columns whose cells are numbers to the right.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut widths = header.map(|cell| cell.chars().count());
    let mut is_number = [true; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            widths[column] = widths[column].max(cell.chars().count());
            let first = cell.trim_start_matches('-').chars().next();
            is_number[column] &= first.is_none_or(|first| first.is_ascii_digit());
        }
    }
    let line = |cells: [&str; N]| {
        let mut text = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            match is_number[column] {
                true => text.push_str(&format!("{gap}{cell:>width$}")),
                false => text.push_str(&format!("{gap}{cell:<width$}")),
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| line(row.each_ref().map(String::as_str)));
    line(header) + &rows.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_puts_numbers_to_the_right() {
        let rows = [["a".to_owned(), "1.5".to_owned()], ["long".to_owned(), "1200".to_owned()]];
        assert_eq!(table(["name", "n"], &rows), "name     n\na      1.5\nlong  1200\n");
    }
}
