//! What the tests need of the system beyond Rust: the tools of the network lab.

use std::process::{Command, Stdio};

use crate::shell::path_with_system_folders;

/// A tool, how to ask whether it is there, and the Debian package that has it.
const TOOLS: [(&str, &str, &str); 3] =
    [("ip", "-V", "iproute2"), ("tc", "-V", "iproute2"), ("nft", "-v", "nftables")];

/// Installs what is missing if it may. Where it may not, says what is left out: the tests then
/// skip the network lab by name, so this is not a failure.
pub fn setup() -> bool {
    if !cfg!(target_os = "linux") {
        println!("setup: the network lab needs Linux; its tests are skipped here");
        return true;
    }
    let missing = missing();
    if missing.is_empty() {
        println!("setup: ip, tc and nft are here");
        return true;
    }
    let mut packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    packages.dedup();
    let packages_line = packages.join(" ");
    if !is_root() {
        println!("setup: not root, so `apt-get install {packages_line}` is left to you");
    } else if !tool("apt-get", &["--version"]) {
        println!("setup: there is no apt-get here; install {packages_line} another way");
    } else {
        println!("setup: apt-get install {packages_line}");
        // The lists may be old or absent, so a first failure is no verdict yet.
        if !install(&packages) {
            tool("apt-get", &["update", "-qq"]);
            install(&packages);
        }
    }
    let left: Vec<&str> = self::missing().iter().map(|(tool, _)| *tool).collect();
    if !left.is_empty() {
        println!("setup: left out: {}; tests of the network lab are skipped", left.join(", "));
    }
    true
}

/// Says why a check that needs the network lab cannot run here.
pub fn lab_possible() -> Result<(), String> {
    if !cfg!(target_os = "linux") {
        return Err("the network lab needs Linux".into());
    }
    if !is_root() {
        return Err("the network lab needs root".into());
    }
    match missing().first() {
        None => Ok(()),
        Some((tool, _)) => Err(format!("`{tool}` is missing: run `cargo xtask setup`")),
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no precondition and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn missing() -> Vec<(&'static str, &'static str)> {
    let absent = TOOLS.iter().filter(|(name, version, _)| !tool(name, &[version]));
    absent.map(|(name, _, package)| (*name, *package)).collect()
}

fn install(packages: &[&str]) -> bool {
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    tool("apt-get", &arguments)
}

fn tool(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program)
        .args(arguments)
        .env("PATH", path_with_system_folders())
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
