//! Output to the user: tables and documents on standard output, everything else on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use console::Term;
use paceline_graph::Printable;
use paceline_lab::figure::{self, Figure};
use serde::Serialize;

use crate::error::CliError;
use crate::progress::Bars;
use crate::signals::{self, Ending};

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
    /// work to stop, as `ending` says, and a second one ends the process.
    pub fn new(json: bool, ending: Ending) -> Ui {
        let stop = Arc::new(AtomicBool::new(false));
        if let Err(error) = signals::heed(stop.clone(), ending) {
            tracing::warn!("cannot handle Ctrl-C: {error}");
        }
        Ui { json, stop }
    }

    /// True if standard output is kept for JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// True once the user asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// True once the user asked to stop, for work that looks at it itself.
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// What the first Ctrl-C says, where work takes a while to stop.
    pub fn say_when_stopped(&self, text: &'static str) {
        signals::say_when_stopped(text);
    }

    /// A progress bar for long work, which also hears of Ctrl-C.
    pub fn progress(&self) -> Bars {
        Bars::new(self.stop.clone())
    }

    /// Columns of the terminal that shows the output; without a terminal, those that the variable
    /// `COLUMNS` states, if any.
    pub fn columns(&self) -> Option<usize> {
        let terminal = if self.json { Term::stderr() } else { Term::stdout() };
        let stated = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
        terminal.size_checked().map(|(_, columns)| columns.into()).or_else(stated)
    }

    /// Prints text for a reader: on standard output, or beside the JSON document.
    pub fn print(&self, text: &str) -> Result<(), CliError> {
        if self.json { show(&mut io::stderr(), text) } else { show(&mut io::stdout(), text) }
    }

    /// Prints figures as a table that fits the terminal; without one, a line for each figure.
    pub fn figures(&self, figures: &[Figure]) -> Result<(), CliError> {
        self.print(&figure::table_within(figures, self.columns().unwrap_or(usize::MAX)))
    }

    /// Prints a finding beside the output.
    pub fn note(&self, text: &str) {
        // Nothing is lost that standard output does not have.
        let _ = show(&mut io::stderr(), &format!("{text}\n"));
    }

    /// Warns the user.
    pub fn warn(&self, text: &str) {
        let text = shown(&io::stderr(), text);
        let _ = writeln!(anstream::stderr(), "{WARNING}warning:{WARNING:#} {text}");
    }

    /// Warns the user, who stopped it, that the numbers are of a part.
    pub fn warn_if_stopped(&self) {
        if self.is_stopped() {
            self.warn("stopped early; the numbers cover the run until then");
        }
    }

    /// Says why the command failed.
    pub fn error(&self, error: &CliError) {
        let text = cut(&Printable::text(error.to_string().as_bytes()).to_string());
        let _ = writeln!(anstream::stderr(), "{ERROR}error:{ERROR:#} {text}");
    }

    /// Prints the JSON document, if that is what the user wants; call it once.
    pub fn document(&self, document: &impl Serialize) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(document)
            .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?;
        show(&mut io::stdout(), &(text + "\n"))
    }

    /// Prints a JSON document in a line, if that is what the user wants.
    pub fn record(&self, document: &impl Serialize) -> Result<(), CliError> {
        if self.json { self.line(document, String::new) } else { Ok(()) }
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
        show(&mut io::stdout(), &(line + "\n"))
    }

    /// The same where the text has bytes of another node in it. They are printed as they are, and
    /// with escapes where standard output is a terminal: in one line, which no content can break.
    pub fn line_of_bytes(
        &self,
        document: &impl Serialize,
        bytes: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), CliError> {
        if self.json {
            return self.line(document, String::new);
        }
        let (mut line, mut out) = (bytes(), io::stdout());
        if out.is_terminal() {
            line = Printable::line(&line).to_string().into_bytes();
        }
        line.push(b'\n');
        write(&mut out, &line)
    }

    /// Prints bytes that are the command's whole output: as they are, or as lines of text with
    /// escapes where standard output is a terminal.
    pub fn content(&self, bytes: &[u8]) -> Result<(), CliError> {
        let mut out = io::stdout();
        match out.is_terminal() {
            true => write(&mut out, format!("{}\n", Printable::text(bytes)).as_bytes()),
            false => write(&mut out, bytes),
        }
    }

    /// Prints bytes as they are, whatever takes them.
    pub fn raw(&self, bytes: &[u8]) -> Result<(), CliError> {
        write(&mut io::stdout(), bytes)
    }

    /// Prints text that is the command's whole output, such as a completion script.
    pub fn output(&self, text: &str) -> Result<(), CliError> {
        show(&mut io::stdout(), text)
    }
}

/// Longest line of an error, characters; it may quote a file that is no text.
const ERROR_LINE_MAX: usize = 1000;

/// Text in lines of some length.
fn cut(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let mut short: String = line.chars().take(ERROR_LINE_MAX).collect();
        if line.chars().nth(ERROR_LINE_MAX).is_some() {
            short.push('\u{2026}');
        }
        short
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Text as it is, or with escapes where a terminal would obey it: it may quote what others sent.
fn shown<'a>(out: &impl IsTerminal, text: &'a str) -> Cow<'a, str> {
    match out.is_terminal() {
        true => Printable::text(text.as_bytes()).to_string().into(),
        false => text.into(),
    }
}

fn show(out: &mut (impl Write + IsTerminal), text: &str) -> Result<(), CliError> {
    let text = shown(out, text);
    write(out, text.as_bytes())
}

/// A reader that closed the pipe has what it wanted.
fn write(out: &mut impl Write, bytes: &[u8]) -> Result<(), CliError> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CliError::Output(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_of_an_error_is_cut() {
        let long = cut(&format!("short\n{}", "x".repeat(5000)));
        assert_eq!(long.chars().count(), "short\n".len() + ERROR_LINE_MAX + 1);
    }
}
