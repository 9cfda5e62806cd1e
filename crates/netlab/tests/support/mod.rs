//! What tests on the network lab share. Those of `paceline-net` include this file as well.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use paceline_netlab::{NetlabError, NetworkLab, Plan};

/// Starts this test program again in a node of the lab, to run the one test of this path with a
/// variable set by which it knows its role. What it prints is piped.
pub fn start_test(
    lab: &NetworkLab,
    node: usize,
    test: &str,
    (variable, role): (&str, &str),
) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(variable, role);
    let mut inside = lab.command_in(node, command);
    inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    inside.spawn().expect("a process")
}

/// A lab, or nothing and a line that says why not.
pub fn build(plan: Plan) -> Option<NetworkLab> {
    match NetworkLab::build(plan) {
        Ok(lab) => Some(lab),
        Err(
            error @ (NetlabError::NotLinux
            | NetlabError::NotPermitted { .. }
            | NetlabError::MissingTools { .. }
            | NetlabError::Unsupported { .. }),
        ) => {
            say_skipped(&error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Past the capture of test output, which would swallow it in a test that passes.
pub fn say_skipped(error: &NetlabError) {
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let _ = writeln!(std::io::stderr(), "{test} skipped: {error}");
}
