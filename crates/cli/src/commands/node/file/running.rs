//! The services of a node at work: each has a task, which joins, consumes, and leaves.

use std::time::Duration;

use paceline::Host;
use paceline::status::HostStatus;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::NodeFile;
use super::host::Start;
use super::tasks::{Done, Founder, Notice, Serving, forward};
use crate::commands::member::{AnsweringHost, explain_host, runtime, stop_asked};
use crate::commands::{Outcome, status};
use crate::error::CliError;
use crate::ui::Ui;

/// Notices of services that wait to be printed.
const NOTICES_MAX: usize = 64;
/// Time beyond `leave_within` for services to stop that could not leave.
const STOP_WITHIN: Duration = Duration::from_secs(2);

/// The tasks of a node.
struct Running<'a> {
    tasks: JoinSet<Result<Done, CliError>>,
    notices: mpsc::Receiver<Notice>,
    stop: watch::Sender<bool>,
    /// Services, and those of them that have started.
    services: usize,
    started: Vec<String>,
    /// What the services have counted that have ended.
    done: Vec<Done>,
    failed: Option<CliError>,
    /// What the host said of itself when it began to leave.
    status: Option<HostStatus>,
    ui: &'a Ui,
}

/// Runs a node until Ctrl-C; then it leaves.
pub fn run(file: NodeFile, ui: &Ui) -> Result<Outcome, CliError> {
    let runtime = runtime()?;
    runtime.block_on(async {
        let host = file.host.builder()?.start().await.map_err(explain_host)?;
        let leave_within = file.host.leave_within;
        let mut running = begin(&file, &host, ui);
        let answering = AnsweringHost::new(host.clone())?;
        let in_time = running.serve(&host, leave_within).await;
        answering.stop().await;
        running.end(in_time)
    })
}

/// Starts a task for each service.
fn begin<'a>(file: &NodeFile, host: &Host, ui: &'a Ui) -> Running<'a> {
    let (stop, stopped) = watch::channel(false);
    let (tell, notices) = mpsc::channel(NOTICES_MAX);
    let mut tasks = JoinSet::new();
    let settings = &file.host;
    // With `expect`, the first member of the first group creates the tables.
    let (founder, founded) = watch::channel(None);
    let mut founder = matches!(settings.start, Start::Expect(_)).then_some(founder);
    for service in &file.services {
        let founder = match (service.settings.is_group(), founder.take()) {
            (true, Some(founder)) => Founder::Tells(founder),
            (_, kept) => {
                founder = kept;
                Founder::Hears(founded.clone())
            }
        };
        let serving = Serving {
            host: host.clone(),
            name: service.name.clone(),
            weight: service.weight,
            label: service.label(),
            start: settings.start.clone(),
            join_within: settings.join_within,
            leave_within: settings.leave_within,
            founder,
            tell: tell.clone(),
            stopped: stopped.clone(),
        };
        tasks.spawn(serving.run(service.settings.clone()));
    }
    if let Some(setup) = &file.named {
        tasks.spawn(forward(setup.clone(), tell, stopped));
    }
    let services = tasks.len();
    let (started, done, failed, status) = (Vec::new(), Vec::new(), None, None);
    Running { tasks, notices, stop, services, started, done, failed, status, ui }
}

impl Running<'_> {
    /// Waits until all tasks have ended: because the user asks to stop, or one has failed. False if
    /// they did not end in time.
    async fn serve(&mut self, host: &Host, leave_within: Duration) -> bool {
        tokio::pin! { let asked = stop_asked(); }
        let title = format!("{} listens on {}", host.id(), host.address());
        let mut deadline: Option<Instant> = None;
        while !self.tasks.is_empty() {
            let late = deadline.unwrap_or_else(Instant::now);
            tokio::select! {
                Some(notice) = self.notices.recv() => self.note(notice, &title),
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(Ok(done)) => self.done.push(done),
                    Ok(Err(error)) => _ = self.failed.get_or_insert(error),
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                },
                () = &mut asked, if deadline.is_none() => {
                    if self.started.len() < self.services {
                        self.failed.get_or_insert(CliError::Stopped);
                    }
                    self.ui.note("leaving; a second Ctrl-C ends it at once");
                    self.status = Some(host.status().await);
                    self.stop.send_replace(true);
                    deadline = Some(Instant::now() + leave_within + STOP_WITHIN);
                }
                () = sleep_until(late), if deadline.is_some() => return false,
            }
            if self.failed.is_some() && deadline.is_none() {
                self.stop.send_replace(true);
                deadline = Some(Instant::now() + leave_within + STOP_WITHIN);
            }
        }
        true
    }

    fn note(&mut self, notice: Notice, title: &str) {
        match notice {
            Notice::Note(text) => self.ui.note(&text),
            Notice::Warning(text) => self.ui.warn(&text),
            Notice::Started(what) => {
                self.started.push(what);
                if self.started.len() == self.services {
                    self.ui.note(&format!("{title}: {}", self.started.join(", ")));
                }
            }
        }
    }

    /// Says how the node ended: its status when it began to leave, and what was consumed.
    fn end(mut self, in_time: bool) -> Result<Outcome, CliError> {
        while let Ok(notice) = self.notices.try_recv() {
            self.note(notice, "");
        }
        if let Some(error) = self.failed {
            return Err(error);
        }
        for Done { label, consumed, .. } in self.done.iter().filter(|it| !it.consumed.is_empty()) {
            self.ui.note(&format!("{label}: {consumed}"));
        }
        if let Some(status) = self.status {
            status::print(status, self.ui)?;
        }
        let late = self.done.iter().filter(|done| !done.has_left);
        let late: Vec<&str> = late.map(|done| &*done.label).collect();
        if !late.is_empty() || !in_time {
            let which = if late.is_empty() { "a service".to_owned() } else { late.join(", ") };
            self.ui.warn(&format!("stopped before it had left: {which}"));
        }
        Ok(Outcome::of(in_time && late.is_empty()))
    }
}
