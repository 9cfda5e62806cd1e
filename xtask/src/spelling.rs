//! Spelling of sources and docs, by the tool `typos`. `typos.toml` has the exceptions.

use std::process::Command;

use crate::shell::root;
use crate::venv::Venv;

/// The tool, as it is built for the Python package index.
pub static TYPOS: Venv = Venv::new("tools/typos", "xtask/typos/requirements.txt");

/// Whether no word is misspelled. Those that are, it prints.
pub fn check() -> bool {
    let status = TYPOS.program("typos").and_then(|typos| {
        let status = Command::new(&typos).current_dir(root()).status();
        status.map_err(|error| format!("cannot run {}: {error}", typos.display()))
    });
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            println!("{error}");
            false
        }
    }
}
