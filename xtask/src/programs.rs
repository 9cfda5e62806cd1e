//! All tests of the workspace: the test programs, then the examples in the docs.
//!
//! `cargo test` runs one program after the other. Those that exchange messages wait for timers most
//! of the time, the simulator's never does. So it runs beside the others, and at the lowest
//! priority: what waits for a message, a disk or a timer gets the processor first, and no host
//! counts as failed because a simulation is in its way.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use crate::shell::{Priority, cargo};
use crate::tally::{Tally, result_line, run_tests};

/// The package whose test programs run beside those of all others, at the lowest priority.
const SIMULATOR: &str = "paceline-sim";

const TEST: &[&str] = &["test", "--release", "--workspace"];

/// A program that cargo built of tests.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    package: String,
    /// Its kind, and the name of the target.
    target: String,
    executable: PathBuf,
    /// Where cargo runs it: the folder of its package.
    folder: PathBuf,
}

/// Runs all tests, with these variables besides those of this process. `begun` is called before the
/// first of them.
pub fn run_all(variables: &[(&str, OsString)], begun: impl FnOnce()) -> Tally {
    let programs = match built() {
        Ok(programs) => programs,
        Err(why) => {
            println!("{why}");
            return Tally::one(false);
        }
    };
    begun();
    let (simulator, others): (Vec<Program>, Vec<Program>) =
        programs.into_iter().partition(|program| program.package == SIMULATOR);
    let run = |programs: &[Program], priority| {
        let mut total = Tally::default();
        programs.iter().for_each(|program| total.add(program.run(variables, priority)));
        total
    };
    let mut total = thread::scope(|scope| {
        let simulator = scope.spawn(|| run(&simulator, Priority::Lowest));
        let mut total = run(&others, Priority::Usual);
        total.add(simulator.join().expect("a run of test programs does not panic"));
        total
    });
    let mut docs = cargo(TEST);
    docs.args(["--doc", "--no-fail-fast"]);
    total.add(run_tests(docs));
    total
}

impl Program {
    /// Runs it, and prints at the end what it printed.
    fn run(&self, variables: &[(&str, OsString)], priority: Priority) -> Tally {
        let title = format!("{}, {}", self.package, self.target);
        println!("-- {title}");
        let started = Instant::now();
        let mut command = priority.command(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.envs(variables.iter().map(|(name, value)| (name, value))).stdin(Stdio::null());
        let output = match captured(command) {
            Ok(output) => output,
            Err(error) => {
                println!("cannot run {}: {error}", self.executable.display());
                return Tally::one(false);
            }
        };
        let mut tally = Tally::default();
        output.text.lines().filter_map(result_line).for_each(|line| tally.add(line));
        tally.note_end(output.succeeded);
        let seconds = started.elapsed().as_secs_f64();
        // One call, so that what the other program prints does not come between.
        println!("{}-- {title}: {seconds:.1} s\n", output.text);
        tally
    }
}

/// What a program printed, on standard output and standard error in the order of its lines.
struct Captured {
    text: String,
    succeeded: bool,
}

fn captured(mut command: Command) -> io::Result<Captured> {
    let (mut read, write) = io::pipe()?;
    let mut child = command.stdout(write.try_clone()?).stderr(write).spawn()?;
    // The text ends when the program has ended and the command has dropped its writing ends.
    drop(command);
    let mut text = Vec::new();
    io::Read::read_to_end(&mut read, &mut text)?;
    let succeeded = child.wait()?.success();
    Ok(Captured { text: String::from_utf8_lossy(&text).into_owned(), succeeded })
}

/// The test programs. Builds what is not built.
fn built() -> Result<Vec<Program>, String> {
    let mut command = cargo(TEST);
    command.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot run cargo test: {error}"))?;
    if !output.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    Ok(messages.lines().filter_map(program).collect())
}

/// Reads one of cargo's messages, if it says that a test program is built.
fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    // Of `path+file://FOLDER#NAME@VERSION`, or `..#VERSION` if the folder has the name.
    let id = message["package_id"].as_str()?.split_once('#')?.1;
    let package = match id.split_once('@') {
        Some((name, _)) => name,
        None => folder.file_name()?.to_str()?,
    };
    let target = &message["target"];
    let kind = target["kind"][0].as_str()?;
    let target = format!("{kind} {}", target["name"].as_str()?);
    Some(Program { package: package.to_owned(), target, executable, folder })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILT: &str = r#"{"reason":"compiler-artifact",
        "package_id":"path+file:///w/crates/sim#paceline-sim@0.1.0",
        "manifest_path":"/w/crates/sim/Cargo.toml","target":{"kind":["test"],"name":"it"},
        "profile":{"test":true},"executable":"/w/target/release/deps/it-1"}"#;

    #[test]
    fn test_programs_are_read_from_messages_of_cargo_and_others_are_not() {
        let one_line = BUILT.replace('\n', "");
        let expected = Program {
            package: SIMULATOR.to_owned(),
            target: "test it".to_owned(),
            executable: "/w/target/release/deps/it-1".into(),
            folder: "/w/crates/sim".into(),
        };
        assert_eq!(program(&one_line), Some(expected));
        let named_by_folder = one_line.replace("#paceline-sim@0.1.0", "#0.1.0");
        assert_eq!(program(&named_by_folder).map(|it| it.package), Some("sim".to_owned()));
        for (from, to) in [
            (r#""test":true"#, r#""test":false"#),
            (r#""/w/target/release/deps/it-1""#, "null"),
            ("compiler-artifact", "build-finished"),
        ] {
            assert_eq!(program(&one_line.replace(from, to)), None, "{to}");
        }
        assert_eq!(program("not a message"), None);
    }

    #[test]
    fn a_program_that_fails_without_a_result_counts_as_one_failure() {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            captured(command).unwrap()
        };
        let output = run("echo one; echo two >&2; exit 3");
        assert_eq!((output.text.as_str(), output.succeeded), ("one\ntwo\n", false));
        assert!(run("true").succeeded);
    }
}
