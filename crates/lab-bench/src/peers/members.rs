use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paceline_lab::{LabError, Progress};

use super::report::Report;

/// Lines of standard error that are kept for the message about a process that failed.
const STDERR_TAIL_LINES_MAX: usize = 8;
/// How often a wait looks whether the user asked to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The processes of the members. They are killed when it is dropped.
pub(super) struct Members<'a> {
    all: Vec<Process>,
    // By member; none once it closed its output.
    lines: Receiver<(usize, Option<String>)>,
    // Of the peer.
    name: &'static str,
    progress: &'a dyn Progress,
}

struct Process {
    child: Child,
    orders: ChildStdin,
    stderr_tail: Arc<Mutex<VecDeque<String>>>,
    listening: Option<JoinHandle<()>>,
}

impl<'a> Members<'a> {
    /// Starts a process by each command.
    pub(super) fn start(
        name: &'static str,
        commands: impl Iterator<Item = Command>,
        progress: &'a dyn Progress,
    ) -> Result<Members<'a>, LabError> {
        let (sender, lines) = channel();
        let mut members = Members { all: Vec::new(), lines, name, progress };
        for (member, command) in commands.enumerate() {
            members.all.push(Process::start(command, (name, member), sender.clone())?);
        }
        Ok(members)
    }

    /// Gives members an order, a line.
    pub(super) fn order(
        &mut self,
        members: impl Iterator<Item = usize>,
        order: &str,
    ) -> Result<(), LabError> {
        for member in members {
            if writeln!(self.all[member].orders, "{order}").is_err() {
                return Err(self.exit_error(member));
            }
        }
        Ok(())
    }

    /// Hands reports, each with its member, to `take` until it wants no more of them. Where none
    /// comes it is called ten times a second.
    pub(super) fn hear(
        &mut self,
        within: Duration,
        what: &str,
        mut take: impl FnMut(Option<(usize, Report)>) -> Result<Hearing, LabError>,
    ) -> Result<(), LabError> {
        let begun = Instant::now();
        while begun.elapsed() < within {
            if self.progress.stopped() {
                return Err(LabError::StoppedEarly);
            }
            let heard = match self.lines.recv_timeout(LOOK_EVERY) {
                Ok((member, Some(line))) => Some((member, read((self.name, member), &line)?)),
                Ok((member, None)) => return Err(self.exit_error(member)),
                Err(RecvTimeoutError::Timeout) => None,
                // Each process has said before that it closed its output.
                Err(RecvTimeoutError::Disconnected) => return Err(self.exit_error(0)),
            };
            if take(heard)? == Hearing::Done {
                return Ok(());
            }
        }
        let (name, seconds) = (self.name, within.as_secs());
        Err(LabError::Run(format!("{name}: not all members {what} within {seconds} s")))
    }

    /// The error that reports how a member exited.
    fn exit_error(&mut self, member: usize) -> LabError {
        let process = &mut self.all[member];
        // It closed its output, or its input, and has nothing more to do.
        let _ = process.child.kill();
        let status = process.child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        if let Some(listening) = process.listening.take() {
            let _ = listening.join();
        }
        let mut text = format!("{} exited early: {status}", named((self.name, member)));
        let tail = process.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.iter().for_each(|line| text.push_str(&format!("\n  | {line}")));
        LabError::Run(text)
    }
}

impl Drop for Members<'_> {
    fn drop(&mut self) {
        for process in &mut self.all {
            // It may have ended.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Whether more reports are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    More,
    Done,
}

fn read(member: (&str, usize), line: &str) -> Result<Report, LabError> {
    serde_json::from_str(line).map_err(|error| {
        LabError::Run(format!("{} sent no report ({error}): {line}", named(member)))
    })
}

fn named((name, member): (&str, usize)) -> String {
    format!("member {member} of {name}")
}

impl Process {
    fn start(
        mut command: Command,
        (name, member): (&str, usize),
        lines: Sender<(usize, Option<String>)>,
    ) -> Result<Process, LabError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal sends Ctrl-C to the whole group. It is the parent that ends its members.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|error| {
            LabError::Run(format!("cannot start {}: {error}", named((name, member))))
        })?;
        let orders = child.stdin.take().expect("standard input is piped");
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = lines.send((member, Some(line)));
            }
            let _ = lines.send((member, None));
        });
        let stderr_tail = Arc::default();
        let kept = Arc::clone(&stderr_tail);
        let listening = Some(std::thread::spawn(move || keep_tail(stderr, &kept)));
        Ok(Process { child, orders, stderr_tail, listening })
    }
}

fn keep_tail(stderr: impl Read, tail: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == STDERR_TAIL_LINES_MAX {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use paceline_lab::Quiet;

    use super::*;

    const SOON: Duration = Duration::from_secs(40);

    fn shells(scripts: &[&str]) -> Vec<Command> {
        let shell = |script: &&str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        scripts.iter().map(shell).collect()
    }

    fn hear(members: &mut Members<'_>, within: Duration) -> Result<(), LabError> {
        members.hear(within, "joined", |heard| {
            Ok(if heard.is_some() { Hearing::Done } else { Hearing::More })
        })
    }

    #[test]
    fn an_order_is_answered_by_a_report() {
        let echo = r#"read order; echo "{\"report\":\"$order\"}"; read end"#;
        let mut members = Members::start("JGroups", shells(&[echo]).into_iter(), &Quiet).unwrap();
        members.order(0..1, "joined").unwrap();
        let mut reports = Vec::new();
        let listen = |heard| {
            reports.extend(heard);
            Ok(if reports.is_empty() { Hearing::More } else { Hearing::Done })
        };
        members.hear(SOON, "joined", listen).unwrap();
        assert_eq!(reports, [(0, Report::Joined)]);
    }

    #[test]
    fn a_member_that_exits_is_quoted() {
        let scripts = shells(&["exec sleep 100", "echo why >&2; exit 3"]);
        let mut members = Members::start("JGroups", scripts.into_iter(), &Quiet).unwrap();
        let error = hear(&mut members, SOON).unwrap_err().to_string();
        assert!(error.starts_with("member 1 of JGroups exited early: exit status: 3"), "{error}");
        assert!(error.ends_with("| why"), "{error}");
    }

    #[test]
    fn a_line_that_is_no_report_and_a_silent_member_are_errors() {
        let scripts = shells(&["echo hello; exec sleep 100"]);
        let mut members = Members::start("JGroups", scripts.into_iter(), &Quiet).unwrap();
        let error = hear(&mut members, SOON).unwrap_err().to_string();
        assert!(error.contains("sent no report") && error.ends_with("hello"), "{error}");
        let error = hear(&mut members, Duration::from_millis(1)).unwrap_err().to_string();
        assert!(error.contains("not all members joined"), "{error}");
    }

    #[test]
    fn what_the_user_stops_ends_early_and_its_processes_with_it() {
        struct Stopped(AtomicBool);
        impl Progress for Stopped {
            fn stopped(&self) -> bool {
                self.0.load(Ordering::Relaxed)
            }
        }
        let stopped = Stopped(AtomicBool::new(true));
        let scripts = shells(&["exec sleep 100"]);
        let mut members = Members::start("JGroups", scripts.into_iter(), &stopped).unwrap();
        assert!(matches!(hear(&mut members, SOON), Err(LabError::StoppedEarly)));
        let begun = Instant::now();
        drop(members);
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
