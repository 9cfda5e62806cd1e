use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_lab::{LabError, Progress, Seconds};

use super::members::{Hearing, Members};
use super::report::{MemberPart, Report};

/// From the order to begin until members send: time for it to reach all.
const BEGIN_AFTER: Duration = Duration::from_millis(200);
/// How long members may take to start and to join.
const JOIN_WITHIN: Duration = Duration::from_secs(120);
/// How long they may take to report once the run is over.
const REPORT_WITHIN: Duration = Duration::from_secs(20);

/// How long the parts of a run take, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phases {
    /// Messages do not count: a Java virtual machine compiles what it runs often.
    pub(crate) warmup: Duration,
    /// The measured time.
    pub(crate) measured: Duration,
    /// Members still send, so that what they sent last is not the end of their streams.
    pub(crate) tail: Duration,
    /// Messages that were sent may still arrive.
    pub(crate) drain: Duration,
}

/// The members of a peer that run together.
pub(crate) struct Session<'a> {
    members: Members<'a>,
    count: usize,
    name: &'static str,
    progress: &'a dyn Progress,
}

impl<'a> Session<'a> {
    /// Starts a process by each command.
    pub(crate) fn start(
        name: &'static str,
        commands: impl ExactSizeIterator<Item = Command>,
        progress: &'a dyn Progress,
    ) -> Result<Session<'a>, LabError> {
        let count = commands.len();
        Ok(Session { members: Members::start(name, commands, progress)?, count, name, progress })
    }

    /// Has the first member join, and waits until it has.
    pub(crate) fn join_first(&mut self) -> Result<(), LabError> {
        let name = self.name;
        self.members.order(0..1, "join")?;
        self.members.hear(JOIN_WITHIN, "joined", |heard| match heard {
            None => Ok(Hearing::More),
            Some((_, Report::Joined)) => Ok(Hearing::Done),
            Some((_, other)) => Err(out_of_turn(name, &other)),
        })
    }

    /// Has these members join, and waits until all are ready. Gives the version.
    pub(crate) fn join(&mut self, members: Range<usize>) -> Result<String, LabError> {
        let (name, count) = (self.name, self.count);
        self.members.order(members, "join")?;
        let mut version = String::new();
        let mut ready = 0;
        self.members.hear(JOIN_WITHIN, "joined", |heard| {
            match heard {
                None | Some((_, Report::Joined)) => {}
                Some((_, Report::Ready { version: of, java })) => {
                    version = format!("{name} {of}, Java {java}");
                    ready += 1;
                }
                Some((_, other)) => return Err(out_of_turn(name, &other)),
            }
            Ok(if ready == count { Hearing::Done } else { Hearing::More })
        })?;
        Ok(version)
    }

    /// Has the members send, and collects what they measure; `label` is for the progress.
    pub(crate) fn measure(
        &mut self,
        phases: Phases,
        label: &str,
    ) -> Result<Vec<MemberPart>, LabError> {
        let Phases { warmup, measured, tail, drain } = phases;
        let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + BEGIN_AFTER;
        let (from, until) = (begin + warmup, begin + warmup + measured);
        let (stop, end) = (until + tail, until + tail + drain);
        let times = [begin, from, until, stop, end].map(|at| at.as_nanos().to_string());
        self.members.order(0..self.count, &format!("run {}", times.join(" ")))?;
        let length = BEGIN_AFTER + warmup + measured + tail + drain;
        let started = Instant::now();
        let mut seconds = Seconds::start(self.progress, length, label);
        let mut parts: Vec<Option<MemberPart>> = vec![None; self.count];
        let name = self.name;
        self.members.hear(length + REPORT_WITHIN, "finished", |heard| {
            seconds.reach(started.elapsed());
            match heard {
                // A member may report that it is ready before it has joined.
                None | Some((_, Report::Joined)) => {}
                Some((member, Report::Finished(finished))) => {
                    parts[member] = Some(finished.part(name)?);
                }
                Some((_, other)) => return Err(out_of_turn(name, &other)),
            }
            Ok(if parts.iter().all(Option::is_some) { Hearing::Done } else { Hearing::More })
        })?;
        Ok(parts.into_iter().flatten().collect())
    }
}

fn out_of_turn(name: &str, report: &Report) -> LabError {
    LabError::Run(format!("{name}: report {report:?} out of sequence"))
}

#[cfg(all(test, unix))]
mod tests {
    use paceline_lab::Quiet;

    use super::*;

    #[test]
    fn members_join_send_and_report_as_they_are_ordered() {
        let script = r#"
            read order; [ "$order" = join ] || exit 3
            echo '{"report":"joined"}'
            echo '{"report":"ready","version":"5","java":"17"}'
            read order begin from until stop end
            [ "$order" = run ] && [ $((stop - until)) = 1000000000 ] || exit 4
            [ $((end - from)) = 5000000000 ] && [ $((from - begin)) = 0 ] || exit 5
            measured='"origins":[],"latency_us":[],"send_us":[]'
            echo '{"report":"finished","cpu_seconds":1,"sent":7,'"$measured}"
            read end"#;
        let commands = [script, script].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        });
        let mut session = Session::start("Peer", commands.into_iter(), &Quiet).unwrap();
        assert_eq!(session.join(0..2).unwrap(), "Peer 5, Java 17");
        let phases = Phases {
            warmup: Duration::ZERO,
            measured: Duration::from_secs(2),
            tail: Duration::from_secs(1),
            drain: Duration::from_secs(2),
        };
        let parts = session.measure(phases, "").unwrap();
        assert_eq!(parts.iter().map(|part| part.sent).collect::<Vec<_>>(), [7, 7]);
    }

    #[test]
    fn a_report_out_of_sequence_fails_the_run() {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "read order; echo '{\"report\":\"ready\",\"version\":\"\",\"java\":\"\"}'; read end",
        ]);
        let mut session = Session::start("Peer", [command].into_iter(), &Quiet).unwrap();
        let error = session.join_first().unwrap_err().to_string();
        assert!(error.starts_with("Peer: report Ready"), "{error}");
    }
}
