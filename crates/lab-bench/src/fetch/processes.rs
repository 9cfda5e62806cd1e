//! The processes of the bench: each is this program, and ends with its handle.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use paceline_lab::LabError;
use serde::Deserialize;

/// Lines of standard error that are kept for the message about a process that failed.
const STDERR_TAIL_LINES_MAX: usize = 8;
/// How long a server may take until it listens.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How far a fetch was at some time: totals, as `fetch --stats --json` prints them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) content_bytes: u64,
    pub(super) link_bytes: u64,
    pub(super) secondary_bytes: u64,
    pub(super) timeouts: u64,
    pub(super) nacks: u64,
}

/// What a fetch prints at its end.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Whole {
    pub(super) bytes: u64,
    pub(super) transfer_seconds: f64,
    pub(super) mbit_per_s: f64,
    pub(super) sha256: Option<String>,
    pub(super) timeouts: u64,
    pub(super) nacks: u64,
    pub(super) duplicates: u64,
}

/// A line of standard output. What is only said at the end is looked for first.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Line {
    Whole(Whole),
    Sample(Sample),
}

#[derive(Debug, Default)]
struct Heard {
    samples: Vec<(Instant, Sample)>,
    whole: Option<Whole>,
    stderr_tail: VecDeque<String>,
    has_spoken: bool,
}

/// A process. It is killed when it is dropped.
#[derive(Debug)]
pub(super) struct Running {
    name: &'static str,
    child: Child,
    heard: Arc<(Mutex<Heard>, Condvar)>,
}

impl Running {
    /// Starts it; `name` is for messages.
    pub(super) fn start(name: &'static str, mut command: Command) -> Result<Running, LabError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| LabError::Run(format!("cannot start {name}: {error}")))?;
        let heard = Arc::<(Mutex<Heard>, Condvar)>::default();
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        follow(stdout, Arc::clone(&heard), |heard, line| match serde_json::from_str(&line) {
            Ok(Line::Sample(sample)) => heard.samples.push((Instant::now(), sample)),
            Ok(Line::Whole(whole)) => heard.whole = Some(whole),
            Err(_) => {}
        });
        follow(stderr, Arc::clone(&heard), |heard, line| {
            heard.has_spoken = true;
            if heard.stderr_tail.len() == STDERR_TAIL_LINES_MAX {
                heard.stderr_tail.pop_front();
            }
            heard.stderr_tail.push_back(line);
        });
        Ok(Running { name, child, heard })
    }

    /// Waits until it says, on standard error, that it listens.
    pub(super) fn wait_until_ready(&mut self) -> Result<(), LabError> {
        let (heard, changed) = &*self.heard;
        let is_silent = |heard: &mut Heard| !heard.has_spoken;
        let held = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, _) = changed
            .wait_timeout_while(held, READY_WITHIN, is_silent)
            .unwrap_or_else(PoisonError::into_inner);
        let has_spoken = held.has_spoken;
        drop(held);
        match self.is_over()? {
            None if has_spoken => Ok(()),
            None => Err(LabError::Run(format!("{} did not report that it listens", self.name))),
            Some(status) => Err(self.exit_error(status)),
        }
    }

    /// Fails if it has ended.
    pub(super) fn check(&mut self) -> Result<(), LabError> {
        self.is_over()?.map_or(Ok(()), |status| Err(self.exit_error(status)))
    }

    /// True if it has ended well.
    pub(super) fn has_ended(&mut self) -> Result<bool, LabError> {
        match self.is_over()? {
            None => Ok(false),
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(self.exit_error(status)),
        }
    }

    /// Traffic between two instants: the difference of two reported samples. `None` with fewer than
    /// two samples in between.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Option<Sample> {
        difference(&self.heard().samples, from, to)
    }

    /// True once something has come.
    pub(super) fn has_begun(&self) -> bool {
        self.heard().samples.last().is_some_and(|(_, sample)| sample.content_bytes > 0)
    }

    /// What it said at its end, for which the end of its output is waited a moment.
    pub(super) fn whole(&self) -> Option<Whole> {
        let (heard, changed) = &*self.heard;
        let held = heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, _) = changed
            .wait_timeout_while(held, Duration::from_secs(1), |heard| heard.whole.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        held.whole.clone()
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&mut self) -> Result<Option<ExitStatus>, LabError> {
        let failed = |error| LabError::Run(format!("cannot wait for {}: {error}", self.name));
        self.child.try_wait().map_err(failed)
    }

    fn exit_error(&self, status: ExitStatus) -> LabError {
        // Its last lines may still be on their way.
        std::thread::sleep(Duration::from_millis(100));
        let mut text = format!("{} exited early: {status}", self.name);
        for line in &self.heard().stderr_tail {
            text.push_str(&format!("\n  | {line}"));
        }
        LabError::Run(text)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads lines to their end, on a thread of its own.
fn follow(
    lines: impl Read + Send + 'static,
    heard: Arc<(Mutex<Heard>, Condvar)>,
    take: impl Fn(&mut Heard, String) + Send + 'static,
) {
    std::thread::spawn(move || {
        for line in BufReader::new(lines).lines().map_while(Result::ok) {
            take(&mut heard.0.lock().unwrap_or_else(PoisonError::into_inner), line);
            heard.1.notify_all();
        }
    });
}

fn difference(samples: &[(Instant, Sample)], from: Instant, to: Instant) -> Option<Sample> {
    let within = || samples.iter().filter(|(at, _)| (from..=to).contains(at));
    let (first, last) = (within().next()?.1, within().next_back()?.1);
    (last.seconds > first.seconds).then(|| Sample {
        seconds: last.seconds - first.seconds,
        content_bytes: last.content_bytes - first.content_bytes,
        link_bytes: last.link_bytes - first.link_bytes,
        secondary_bytes: last.secondary_bytes - first.secondary_bytes,
        timeouts: last.timeouts - first.timeouts,
        nacks: last.nacks - first.nacks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seconds: f64) -> Sample {
        let bytes = (seconds * 1_000.0) as u64;
        Sample { seconds, content_bytes: bytes, link_bytes: 2 * bytes, ..Sample::default() }
    }

    #[test]
    fn what_passed_is_told_by_the_samples_inside() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let samples: Vec<_> =
            [0.5, 1.5, 2.5, 3.5].map(|second| (at(second), sample(second))).to_vec();
        let passed = difference(&samples, at(1.0), at(3.0)).unwrap();
        assert_eq!((passed.seconds, passed.content_bytes, passed.link_bytes), (1.0, 1_000, 2_000));
        assert_eq!(difference(&samples, at(1.0), at(2.0)), None, "one sample says no rate");
        assert_eq!(difference(&[], at(0.0), at(9.0)), None);
    }

    #[test]
    fn lines_of_a_fetch_and_its_end_are_told_apart() {
        let sample = r#"{"seconds":1.0,"segments":2,"content_bytes":2000,"link_bytes":2300,
            "secondary_bytes":0,"interests":3,"timeouts":0,"nacks":0,"paths":[]}"#;
        assert!(matches!(serde_json::from_str(sample), Ok(Line::Sample(_))));
        let whole = r#"{"name":"/p","bytes":2000,"seconds":1.1,"transfer_seconds":1.0,
            "mbit_per_s":0.016,"link_mbit_per_s":0.02,"sha256":null,"segments":2,"timeouts":0,
            "nacks":0,"duplicates":0,"link_bytes":2300,"content_bytes":2000,"secondary_bytes":0}"#;
        assert!(matches!(serde_json::from_str(whole), Ok(Line::Whole(_))));
        assert!(serde_json::from_str::<Line>(r#"{"seconds":1.0}"#).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_process_that_fails_is_quoted_and_one_that_is_dropped_is_gone() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Running::start("a shell", command).unwrap()
        };
        let mut failing = shell("echo why >&2; exit 3");
        let error = loop {
            if let Err(error) = failing.has_ended() {
                break error.to_string();
            }
        };
        assert!(error.contains("a shell exited early: exit status: 3"), "{error}");
        assert!(error.ends_with("| why"), "{error}");
        let mut lasting = shell("echo ready >&2; exec sleep 100");
        lasting.wait_until_ready().unwrap();
        lasting.check().unwrap();
        let begun = Instant::now();
        drop(lasting);
        assert!(begun.elapsed() < Duration::from_secs(50));
    }
}
