//! Nodes as processes that die, say what is no report, or do not answer.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use paceline_lab::world::{Launch, Sockets, Trial, run_processes};
use paceline_lab::{LabError, Progress, Quiet};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::chain::Broadcast;

/// Runs `chain/ten` with this shell script in the place of each node.
fn run_with(script: &str, progress: &dyn Progress) -> LabError {
    let scenario = CATALOG.load("chain/ten").unwrap().resolve().unwrap();
    let mut broadcast = Broadcast::read(&scenario).unwrap();
    let command = |_| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    let launch = Launch { command: &command, sockets: &|_| Sockets::default() };
    let trial = Trial { progress, ..Trial::simulated(&scenario, 1) };
    match run_processes(&mut broadcast, &trial, &launch) {
        Ok(_) => panic!("a shell is no node"),
        Err(error) => error,
    }
}

#[test]
fn the_error_of_a_node_that_exits_ends_with_its_standard_error() {
    let said = run_with("echo first >&2; echo last >&2; exit 3", &Quiet).to_string();
    let (what, words) = said.split_once('\n').unwrap();
    assert!(what.starts_with("the process of n"), "{said}");
    assert!(what.ends_with(" exited early: exit status 3"), "{said}");
    assert_eq!(words, "  | first\n  | last");
    let said = run_with("read order; kill -9 $$", &Quiet).to_string();
    assert!(said.contains("signal: 9"), "{said}");
}

#[test]
fn a_node_that_speaks_another_language_is_quoted() {
    let said = run_with("read order; echo hello; read order", &Quiet).to_string();
    assert!(said.ends_with(": hello"), "{said}");
}

#[test]
fn a_stop_does_not_wait_for_a_node_that_does_not_answer() {
    /// Stops when it is asked for the third time.
    struct Impatient(AtomicUsize);
    impl Progress for Impatient {
        fn stopped(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) >= 2
        }
    }
    let error = run_with("while read order; do :; done", &Impatient(AtomicUsize::new(0)));
    assert!(matches!(error, LabError::StoppedEarly), "{error}");
}
