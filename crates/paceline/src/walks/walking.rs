use std::collections::VecDeque;
use std::sync::Arc;

use paceline_proto::walk::{Census, Command, JobId, JobReport, Walk};
use tokio::sync::mpsc;

use super::Shared;
use super::error::WalksError;
use super::replies::JobEvent;

/// The outcome of a walk.
#[derive(Clone, Debug, PartialEq)]
pub enum Walked {
    /// It is done.
    Done(Walk),
    /// It was given up.
    Failed {
        /// Its number.
        walk: u64,
        /// Number of attempts.
        attempts: u8,
    },
}

/// Walks under way, returned as they finish, in any order. While they are not read, at most 65,536
/// are begun, unless the configuration says otherwise. Dropping it gives them up.
pub struct Walking {
    shared: Arc<Shared>,
    id: JobId,
    events: mpsc::UnboundedReceiver<JobEvent>,
    ready: VecDeque<Walk>,
    /// Walks whose credit the protocol has not got back yet.
    handed_out: usize,
    /// Whether a walk returns its credit when it is handed out.
    is_credited: bool,
    end: Option<(Box<JobReport>, Box<Census>)>,
}

/// Walks after which the protocol gets credit for further ones.
const CREDIT: usize = 256;

impl Walking {
    pub(super) fn new(
        shared: Arc<Shared>,
        id: JobId,
        events: mpsc::UnboundedReceiver<JobEvent>,
    ) -> Walking {
        Walking {
            shared,
            id,
            events,
            ready: VecDeque::new(),
            handed_out: 0,
            is_credited: true,
            end: None,
        }
    }

    /// Walks return their credit not when they are handed out, but by [`Walking::consumed`]: for
    /// callers that keep them for a while.
    pub fn with_own_credit(self) -> Walking {
        let mut walking = self;
        walking.is_credited = false;
        walking
    }

    /// Returns the credit of `walks` walks that were handed out, so that others may begin.
    pub fn consumed(&mut self, walks: usize) {
        self.handed_out += walks;
        self.give_credit();
    }

    /// The outcome of the next walk; `None` at the end, also after [`Walking::cancel`].
    ///
    /// # Errors
    /// If the walks were refused, the servers were given another graph, or the node has stopped.
    pub async fn next(&mut self) -> Result<Option<Walked>, WalksError> {
        loop {
            if let Some(walk) = self.ready.pop_front() {
                self.handed_out += usize::from(self.is_credited);
                if self.handed_out >= CREDIT {
                    self.give_credit();
                }
                return Ok(Some(Walked::Done(walk)));
            }
            if self.end.is_some() {
                return Ok(None);
            }
            if self.events.is_empty() {
                self.give_credit();
            }
            match self.events.recv().await {
                Some(JobEvent::Walks(walks)) => self.ready.extend(walks),
                Some(JobEvent::Failed(walk, attempts)) => {
                    return Ok(Some(Walked::Failed { walk, attempts }));
                }
                Some(JobEvent::Ended(report, census)) => self.end = Some((report, census)),
                Some(JobEvent::Refused(why)) => return Err(why.into()),
                Some(JobEvent::GraphLost(fault)) => return Err(WalksError::GraphLost(fault)),
                None => return Err(WalksError::Closed),
            }
        }
    }

    /// Gives up all walks that are not done. Finished ones that wait here are still returned.
    pub fn cancel(&self) {
        // A node that has stopped has given them up.
        let _ = self.shared.node.command(Command::Cancel(self.id));
    }

    /// The final report, and a census of the client's walkers; `None` before the end.
    pub fn report(&self) -> Option<(&JobReport, &Census)> {
        self.end.as_ref().map(|(report, census)| (&**report, &**census))
    }

    fn give_credit(&mut self) {
        let count = std::mem::take(&mut self.handed_out);
        if count > 0 {
            // A node that has stopped needs no credit.
            let _ = self.shared.node.command(Command::Consumed(self.id, count));
        }
    }
}

impl Drop for Walking {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.shared.replies.forget_job(self.id);
            self.cancel();
        }
    }
}
