//! What the tests need of the system beyond Rust: the tools of the network lab, and a Python that
//! can make virtual environments for peers.

use std::process::{Command, Stdio};

use crate::shell::path_with_system_folders;

/// A program, and where it comes from.
struct Tool {
    name: &'static str,
    /// Arguments with which it fails unless it can do what is wanted.
    asked: &'static [&'static str],
    /// The Debian package that has it.
    package: &'static str,
}

const LAB: [Tool; 4] = [
    Tool { name: "ip", asked: &["-V"], package: "iproute2" },
    Tool { name: "tc", asked: &["-V"], package: "iproute2" },
    Tool { name: "nft", asked: &["-v"], package: "nftables" },
    Tool { name: "iperf3", asked: &["--version"], package: "iperf3" },
];

/// For peers ([`crate::peers`]). Debian has a Python without the parts that install into a virtual
/// environment.
const PYTHON: Tool =
    Tool { name: "python3", asked: &["-c", "import ensurepip, venv"], package: "python3-venv" };

/// Installs what is missing if it may. Where it may not, says what is left out: the tests then
/// skip the network lab by name, so this is not a failure. Whether there are peers is the affair of
/// the step that installs them.
pub fn setup() -> bool {
    if !cfg!(target_os = "linux") {
        println!("setup: the network lab needs Linux; its tests are skipped here");
        return true;
    }
    let missing = missing();
    if missing.is_empty() {
        println!("setup: ip, tc, nft, iperf3 and python3 with venv are here");
        return true;
    }
    let mut packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    packages.dedup();
    let packages_line = packages.join(" ");
    if !is_root() {
        println!("setup: not root, so `apt-get install {packages_line}` is left to you");
    } else if !run("apt-get", &["--version"]) {
        println!("setup: there is no apt-get here; install {packages_line} another way");
    } else {
        println!("setup: apt-get install {packages_line}");
        // The lists may be old or absent, so a first failure is no verdict yet.
        if !install(&packages) {
            run("apt-get", &["update", "-qq"]);
            install(&packages);
        }
    }
    let left: Vec<&str> = missing_of(&LAB).iter().map(|tool| tool.name).collect();
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
    match missing_of(&LAB).first() {
        None => Ok(()),
        Some(tool) => Err(format!("`{}` is missing: run `cargo xtask setup`", tool.name)),
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn missing() -> Vec<&'static Tool> {
    [missing_of(&LAB), missing_of(std::slice::from_ref(&PYTHON))].concat()
}

fn missing_of(tools: &'static [Tool]) -> Vec<&'static Tool> {
    tools.iter().filter(|tool| !run(tool.name, tool.asked)).collect()
}

fn install(packages: &[&str]) -> bool {
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(packages);
    run("apt-get", &arguments)
}

fn run(program: &str, arguments: &[&str]) -> bool {
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
