//! What comes into the build from elsewhere: licences, sources and versions, as `deny.toml` says,
//! and what is known against it. `cargo-deny` is built from its locked source, once.

use std::process::{Command, Output};

use crate::shell::{root, tool};
use crate::tally::Outcome;

const VERSION: &str = "0.20.2";

/// Licences, sources and versions.
pub fn check() -> bool {
    match deny(&["bans", "licenses", "sources"]) {
        Ok(output) => {
            print(&output);
            output.status.success()
        }
        Err(error) => {
            println!("{error}");
            false
        }
    }
}

/// The same, and the advisories of RustSec, where they can be reached.
pub fn with_advisories() -> Result<Outcome, String> {
    if !check() {
        return Ok(Outcome::Failed);
    }
    let output = deny(&["advisories"])?;
    print(&output);
    if output.status.success() {
        return Ok(Outcome::Passed);
    }
    let is_unreached = String::from_utf8_lossy(&output.stderr).contains("failed to fetch");
    match is_unreached {
        true => Ok(Outcome::LeftOut("the database of advisories cannot be reached".into())),
        false => Ok(Outcome::Failed),
    }
}

fn deny(checks: &[&str]) -> Result<Output, String> {
    let tool = tool("cargo-deny", VERSION)?;
    let mut command = Command::new(&tool);
    command.args(["--locked", "--log-level", "error", "check"]).args(checks).current_dir(root());
    command.output().map_err(|error| format!("cannot run {}: {error}", tool.display()))
}

fn print(output: &Output) {
    print!(
        "{}{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
}
