use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use paceline_net::Events;
use paceline_proto::core::NodeId;
use paceline_proto::walk::{
    Census, EditError, Event, JobId, JobReport, Refusal, Server, SupplyFault, Walk,
};
use smallvec::SmallVec;
use tokio::sync::{mpsc, oneshot};

/// What the owner of a job receives.
pub enum JobEvent {
    Walks(SmallVec<[Walk; 1]>),
    Failed(u64, u8),
    Ended(Box<JobReport>, Box<Census>),
    Refused(Refusal),
    /// The servers no longer have the graph.
    GraphLost(SupplyFault),
}

/// The result of each edit.
pub type Edited = Vec<Result<u32, EditError>>;

#[derive(Default)]
struct Open {
    is_closed: bool,
    jobs: HashMap<JobId, mpsc::UnboundedSender<JobEvent>>,
    edits: HashMap<u64, oneshot::Sender<Edited>>,
    supplies: HashMap<u64, oneshot::Sender<Result<(), SupplyFault>>>,
    /// Progress of the latest supply, as in [`Event::Supplying`].
    supplied: u64,
    silent: BTreeSet<NodeId>,
}

/// The pending jobs, edits and supplies.
#[derive(Default)]
pub struct PendingJobs {
    open: Mutex<Open>,
}

impl PendingJobs {
    /// Registers a job, and returns the queue of its results. The queue has no bound of its own:
    /// the owner's credit bounds it.
    pub fn expect_job(&self, job: JobId) -> mpsc::UnboundedReceiver<JobEvent> {
        let (reply_to, receiver) = mpsc::unbounded_channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.jobs.insert(job, reply_to);
        }
        receiver
    }

    /// Drops the queue of a job that is no longer read.
    pub fn forget_job(&self, job: JobId) {
        self.lock().jobs.remove(&job);
    }

    pub fn expect_edits(&self, id: u64) -> oneshot::Receiver<Edited> {
        let (reply_to, receiver) = oneshot::channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.edits.insert(id, reply_to);
        }
        receiver
    }

    pub fn expect_supply(&self, plan: u64) -> oneshot::Receiver<Result<(), SupplyFault>> {
        let (reply_to, receiver) = oneshot::channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.supplied = 0;
            open.supplies.insert(plan, reply_to);
        }
        receiver
    }

    /// Progress of the latest supply.
    pub fn supplied(&self) -> u64 {
        self.lock().supplied
    }

    /// Servers that do not answer at present.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        self.lock().silent.clone()
    }

    /// Delivers the node's events until it stops.
    pub async fn serve(self: Arc<PendingJobs>, mut events: Events<Server>) {
        while let Some(event) = events.recv().await {
            self.hand_out(event);
        }
        // The end of its channel notifies each receiver.
        *self.lock() = Open { is_closed: true, ..Open::default() };
    }

    fn hand_out(&self, event: Event) {
        let mut open = self.lock();
        // The receiver may have stopped waiting.
        let mut notify = |job: JobId, event: JobEvent| {
            let is_last = matches!(event, JobEvent::Ended(..) | JobEvent::Refused(_));
            if let Some(owner) = open.jobs.get(&job) {
                let _ = owner.send(event);
            }
            if is_last {
                open.jobs.remove(&job);
            }
        };
        match event {
            Event::Walks(job, walks) => notify(job, JobEvent::Walks(walks)),
            Event::Failed(job, walk, attempts) => notify(job, JobEvent::Failed(walk, attempts)),
            Event::Ended(job, report, census) => notify(job, JobEvent::Ended(report, census)),
            Event::Refused(job, why) => notify(job, JobEvent::Refused(why)),
            Event::Edited(id, results) => {
                if let Some(reply_to) = open.edits.remove(&id) {
                    let _ = reply_to.send(results);
                }
            }
            Event::Supplying(_, reached) => open.supplied = reached,
            Event::Supplied(plan) => {
                if let Some(reply_to) = open.supplies.remove(&plan) {
                    let _ = reply_to.send(Ok(()));
                }
            }
            Event::SupplyFailed(plan, fault) => match open.supplies.remove(&plan) {
                Some(reply_to) => _ = reply_to.send(Err(fault)),
                // The servers had the graph, and walks may be under way.
                None => {
                    for (_, owner) in open.jobs.drain() {
                        let _ = owner.send(JobEvent::GraphLost(fault.clone()));
                    }
                }
            },
            Event::ServerSilent(server) => _ = open.silent.insert(server),
            Event::ServerBack(server) => _ = open.silent.remove(&server),
            // All servers were found before this task began.
            Event::Found(..) => {}
        }
    }

    // A panic while the lock is held leaves the state intact.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
