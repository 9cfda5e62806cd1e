//! What comes into the build from elsewhere: licences, sources and versions, as `deny.toml` says,
//! and what is known against it. `cargo-deny` is built from its locked source, once.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::checks::Outcome;
use crate::shell::{cargo, root, target_folder};

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
    let tool = tool()?;
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

/// The tool, which is built first if it is not there. Quickly built is better than fast: it runs
/// for a second.
fn tool() -> Result<PathBuf, String> {
    let folder = target_folder()?.join("tools").join(format!("cargo-deny-{VERSION}"));
    let tool = folder.join("bin").join("cargo-deny");
    if tool.exists() {
        return Ok(tool);
    }
    let package = format!("cargo-deny@{VERSION}");
    let arguments = ["install", "--quiet", "--debug", "--locked", &package, "--root"];
    println!("cargo {} {}", arguments.join(" "), folder.display());
    let mut install = cargo(&arguments);
    // A target folder of its own, which is removed afterwards.
    install.arg(&folder).args(["--config", "profile.dev.debug=false"]);
    install.env_remove("CARGO_TARGET_DIR");
    match install.status() {
        Ok(status) if status.success() => Ok(tool),
        Ok(status) => Err(format!("{package} cannot be installed: {status}; it needs crates.io")),
        Err(error) => Err(format!("cannot run cargo install: {error}")),
    }
}
