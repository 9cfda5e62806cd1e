//! Running programs: cargo, the tools of the system, and `paceline` itself.

use std::ffi::{OsStr, OsString};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// How much of the processor a program gets while others want it too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// An equal part.
    Usual,
    /// What the others leave.
    Lowest,
}

impl Priority {
    /// A command that runs the program at this priority, and all that it starts.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        match self {
            Priority::Usual => Command::new(program),
            Priority::Lowest => {
                let mut command = Command::new("nice");
                command.args(["-n", "19"]).arg(program);
                command
            }
        }
    }
}

/// A cargo command at the root of the workspace.
pub fn cargo(arguments: &[&str]) -> Command {
    cargo_at(Priority::Usual, arguments)
}

/// A cargo command at the root of the workspace, at this priority.
pub fn cargo_at(priority: Priority, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = priority.command(cargo);
    command.args(arguments).current_dir(root());
    command
}

/// Whether the program starts and says its version.
pub fn answers(program: &str, arguments: &[&str]) -> bool {
    let mut command = match program {
        "cargo" => cargo(arguments),
        _ => {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        }
    };
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// `PATH` with the folders of system programs, which users often lack in theirs.
pub fn path_with_system_folders() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin");
    path
}

/// Which build of the binary to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Build {
    /// The dev profile: debug assertions on.
    Debug,
    /// The release profile.
    Release,
}

impl Build {
    /// The folder in the target folder that cargo puts it into.
    pub fn folder(self) -> &'static str {
        match self {
            Build::Debug => "debug",
            Build::Release => "release",
        }
    }

    /// Builds the binary `paceline`.
    pub fn build(self) -> Result<(), String> {
        let mut arguments = vec!["build", "--quiet", "--package", "paceline-cli"];
        if self == Build::Release {
            arguments.push("--release");
        }
        let line = format!("cargo {}", arguments.join(" "));
        match cargo(&arguments).status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{line}` failed: {status}")),
            Err(error) => Err(format!("cannot run `{line}`: {error}")),
        }
    }

    /// The path of the binary.
    pub fn binary(self) -> Result<PathBuf, String> {
        Ok(target_folder()?.join(self.folder()).join("paceline"))
    }
}

/// Runs it to its end. What it has to say goes to standard error.
pub fn succeed(command: &mut Command, otherwise: &str) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{otherwise} ({status}; its own words are above)")),
        Err(error) => Err(format!("{otherwise}: cannot run {program}: {error}")),
    }
}

/// Where cargo puts what it builds.
pub fn target_folder() -> Result<&'static Path, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let output = cargo(&["metadata", "--format-version", "1", "--no-deps"])
            .output()
            .map_err(|error| format!("cannot run `cargo metadata`: {error}"))?;
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("`cargo metadata` gave no JSON: {error}"))?;
        let folder = metadata["target_directory"].as_str();
        Ok(folder.ok_or("`cargo metadata` names no target folder")?.into())
    });
    folder.as_deref().map_err(Clone::clone)
}

/// A program of crates.io, which is built first if it is not there, once a target folder. Quickly
/// built is better than fast.
pub fn tool(name: &str, version: &str) -> Result<PathBuf, String> {
    let folder = target_folder()?.join("tools").join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    let package = format!("{name}@{version}");
    let arguments = ["install", "--quiet", "--debug", "--locked", &package, "--root"];
    println!("cargo {} {}", arguments.join(" "), folder.display());
    let mut install = cargo(&arguments);
    install.arg(&folder).args(["--config", "profile.dev.debug=false"]);
    // A target folder of its own, which is removed afterwards.
    install.env_remove("CARGO_TARGET_DIR");
    match install.status() {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("{package} cannot be installed: {status}; it needs crates.io")),
        Err(error) => Err(format!("cannot run cargo install: {error}")),
    }
}

/// The first of `count` consecutive loopback ports that were just free, for TCP and UDP.
pub fn free_ports(count: u16) -> Result<u16, String> {
    let failed = |error: std::io::Error| format!("no free port: {error}");
    loop {
        let socket = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let first = socket.local_addr().map_err(failed)?.port();
        drop(socket);
        let is_free = |port: u16| {
            TcpListener::bind(("127.0.0.1", port)).is_ok()
                && UdpSocket::bind(("127.0.0.1", port)).is_ok()
        };
        if first < u16::MAX - count && (first..first + count).all(is_free) {
            return Ok(first);
        }
    }
}

/// What one run of `paceline` gave.
pub struct Ran {
    /// The JSON document on standard output.
    pub json: Value,
    /// Whether the exit status was 0. Status 1, a run that failed, still has its document.
    pub succeeded: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Runs `paceline ARGUMENTS --json` and reads what it prints.
///
/// Progress and logs go through to standard error. The process is killed after `at_most`.
pub fn paceline(
    build: Build,
    arguments: &[&str],
    environment: &[(&str, &str)],
    at_most: Duration,
) -> Result<Ran, String> {
    paceline_of(&build.binary()?, root(), arguments, environment, at_most)
}

/// The same with this binary, started in this folder.
pub fn paceline_of(
    program: &Path,
    folder: &Path,
    arguments: &[&str],
    environment: &[(&str, &str)],
    at_most: Duration,
) -> Result<Ran, String> {
    let line = format!("paceline {} --json", arguments.join(" "));
    let started = Instant::now();
    let child = Command::new(program)
        .args(arguments)
        .arg("--json")
        .envs(environment.iter().copied())
        .env("PATH", path_with_system_folders())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot run `{line}`: {error}"))?;
    let output = wait(child, at_most)
        .map_err(|error| format!("cannot wait for `{line}`: {error}"))?
        .ok_or_else(|| format!("`{line}` did not end in {} s", at_most.as_secs()))?;
    let elapsed = started.elapsed();
    match serde_json::from_slice(&output.stdout) {
        Ok(json) => Ok(Ran { json, succeeded: output.status.success(), elapsed }),
        Err(error) => Err(format!("`{line}` ({}) gave no JSON: {error}", output.status)),
    }
}

/// Waits for the process and its output, or kills it and returns nothing.
fn wait(child: Child, at_most: Duration) -> std::io::Result<Option<Output>> {
    let pid = Pid::from_child(&child);
    let (done, ended) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let output = child.wait_with_output();
        // The receiver is gone only after the deadline, and then the output is not needed.
        let _ = done.send(output);
    });
    match ended.recv_timeout(at_most) {
        Ok(output) => output.map(Some),
        Err(_) => {
            // The lab removes its network on SIGTERM; what does not end by it is killed.
            for (signal, grace) in [(Signal::TERM, 5), (Signal::KILL, 5)] {
                // The waiting thread has not reported, so the child is at most a zombie about to
                // be reaped; the id cannot have been reused in that moment.
                let _ = kill_process(pid, signal);
                if ended.recv_timeout(Duration::from_secs(grace)).is_ok() {
                    let _ = waiting.join();
                    break;
                }
            }
            Ok(None)
        }
    }
}
