//! Runs the binary in a folder of its own.

#[cfg(unix)]
pub mod running;

use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// A folder to run in.
pub struct Place {
    folder: tempfile::TempDir,
}

/// What a run of the binary gave.
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Place {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
        command.args(arguments).current_dir(self.path());
        command.env_remove("PACELINE_LOG").env_remove("PACELINE_LOG_FORMAT");
        command.env_remove("PACELINE_PEERS");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        Ran {
            status: status.code().unwrap_or(-1),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Runs it with `--json`: one document, and nothing else, on standard output.
    pub fn json(&self, arguments: &[&str]) -> (Ran, Value) {
        let ran = self.run(&[arguments, &["--json"]].concat());
        let document = serde_json::from_str(&ran.stdout);
        let document = document.unwrap_or_else(|error| {
            panic!("{arguments:?}: {error}\n{}\n{}", ran.stdout, ran.stderr);
        });
        (ran, document)
    }

    /// Runs it and expects an error: the message, without trace or panic.
    pub fn error(&self, arguments: &[&str], status: i32) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran.stderr
    }
}

/// A port of loopback that was free a moment ago, for TCP and UDP.
pub fn free_port() -> u16 {
    free_ports(1)
}

/// The first of `count` consecutive free ports.
pub fn free_ports(count: u16) -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let is_free = |port: u16| {
            TcpListener::bind(("127.0.0.1", port)).is_ok()
                && UdpSocket::bind(("127.0.0.1", port)).is_ok()
        };
        if first < 60_000 && (first..first + count).all(is_free) {
            return first;
        }
    }
}

/// The keys of an object, sorted.
pub fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// True if a report needs nothing from elsewhere.
pub fn is_self_contained(html: &str) -> bool {
    let foreign = ["src=", "<link", "<script", "@import", "url("];
    html.contains("</html>") && foreign.iter().all(|needle| !html.contains(needle))
}
