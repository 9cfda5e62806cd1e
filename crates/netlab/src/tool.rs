//! The programs that the lab runs, and the privileges that the process needs.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::NetlabError;

/// Capabilities by bit number in `/proc/self/status`.
const CAPABILITIES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];

/// Messages of the kernel or a tool for a missing feature.
const UNSUPPORTED: [&str; 6] = [
    "not supported",
    "not permitted",
    "Unknown device type",
    "qdisc kind is unknown",
    "Could not process rule: No such file or directory",
    "Protocol not available",
];

/// Checks whether a lab can be built here: Linux, root with its capabilities, `ip` and `tc`.
///
/// The first fault checks for `nft`. A kernel without bridges, veth pairs or tbf is only detected
/// when a lab is built, as [`NetlabError::Unsupported`].
pub fn available() -> Result<(), NetlabError> {
    if !cfg!(target_os = "linux") {
        return Err(NetlabError::NotLinux);
    }
    permitted()?;
    require(&["ip", "tc"])
}

fn permitted() -> Result<(), NetlabError> {
    // SAFETY: geteuid has no precondition and cannot fail.
    let mut missing = match unsafe { libc::geteuid() } {
        0 => Vec::new(),
        user => vec![format!("user id 0 (this is {user})")],
    };
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    if let Some(effective) = effective {
        let lacks = |bit: u32| effective & (1 << bit) == 0;
        missing.extend(
            CAPABILITIES.iter().filter(|(_, bit)| lacks(*bit)).map(|(name, _)| name.to_string()),
        );
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(NetlabError::NotPermitted { missing: missing.join(", ") })
}

/// Checks that these tools exist, and names missing ones.
pub(super) fn require(tools: &[&'static str]) -> Result<(), NetlabError> {
    let missing: Vec<_> = tools.iter().copied().filter(|tool| find(tool).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<_> = missing.iter().map(|tool| package_of(tool)).collect();
    packages.dedup();
    Err(NetlabError::MissingTools { tools: missing, packages })
}

fn package_of(tool: &str) -> &'static str {
    if tool == "nft" { "nftables" } else { "iproute2" }
}

/// Looks in `PATH`, and in the folders of system programs that users often lack in theirs.
fn find(tool: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|folder| folder.join(tool))
        .find(|file| file.is_file())
}

/// The full path of a tool, or its name where it was not found.
pub(super) fn path(tool: &str) -> String {
    find(tool).map_or_else(|| tool.to_string(), |file| file.display().to_string())
}

/// A command for one of the tools, by its full path.
pub(super) fn command(tool: &str) -> Command {
    Command::new(path(tool))
}

/// Runs a tool and returns what it printed.
pub(super) fn run(tool: &str, arguments: &[&str]) -> Result<String, NetlabError> {
    run_with_input(tool, arguments, "")
}

/// Runs a tool with `input` on its standard input.
pub(super) fn run_with_input(
    tool: &str,
    arguments: &[&str],
    input: &str,
) -> Result<String, NetlabError> {
    let line = || format!("{tool} {}", arguments.join(" "));
    let output = exchange(command(tool).args(arguments), input)
        .map_err(|source| NetlabError::Run { command: line(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut reason = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    if reason.is_empty() {
        reason = output.status.to_string();
    }
    if UNSUPPORTED.iter().any(|phrase| reason.contains(phrase)) {
        return Err(NetlabError::Unsupported { command: line(), reason });
    }
    Err(NetlabError::Failed { command: line(), reason })
}

fn exchange(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().expect("standard input was piped");
    // A tool that fails early closes its input; its own message is more useful than the broken
    // pipe.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tools_are_named_with_their_package() {
        let error = require(&["no-such-tool-a", "sh"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the network lab needs no-such-tool-a (Debian: iproute2); run `cargo xtask setup` as \
             root, or run on loopback, without --lab"
        );
    }

    #[test]
    fn a_failing_tool_reports_its_own_words() {
        let error = run("sh", &["-c", "echo broken >&2; exit 3"]).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c echo broken >&2; exit 3` failed: broken");
    }
}
