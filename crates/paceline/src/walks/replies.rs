//! Pending jobs, edits and supplies: hands the node's replies to the callers that wait for them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use paceline_net::{Events, Pending};
use paceline_proto::core::NodeId;
use paceline_proto::graphshare::{EditError, GraphEvent, SupplyFault};
use paceline_proto::walk::{Census, Event, JobId, JobReport, Refusal, Server, Walk};
use smallvec::SmallVec;
use tokio::sync::{mpsc, oneshot};

use crate::lock;

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

/// What the servers last reported.
#[derive(Default)]
struct Servers {
    /// Progress of the latest supply, as in [`GraphEvent::Supplying`].
    supplied: u64,
    silent: BTreeSet<NodeId>,
}

/// The pending jobs, edits and supplies.
#[derive(Default)]
pub struct PendingReplies {
    jobs: Pending<JobId, mpsc::UnboundedSender<JobEvent>>,
    edits: Pending<u64, oneshot::Sender<Edited>>,
    supplies: Pending<u64, oneshot::Sender<Result<(), SupplyFault>>>,
    servers: Mutex<Servers>,
}

impl PendingReplies {
    /// Registers a job, and returns the queue of its results. The queue has no bound of its own:
    /// the owner's credit bounds it.
    pub fn expect_job(&self, job: JobId) -> mpsc::UnboundedReceiver<JobEvent> {
        self.jobs.expect_many(job)
    }

    /// Drops the queue of a job that is no longer read.
    pub fn forget_job(&self, job: JobId) {
        self.jobs.remove(&job);
    }

    pub fn expect_edits(&self, id: u64) -> oneshot::Receiver<Edited> {
        self.edits.expect(id)
    }

    pub fn expect_supply(&self, plan: u64) -> oneshot::Receiver<Result<(), SupplyFault>> {
        lock(&self.servers).supplied = 0;
        self.supplies.expect(plan)
    }

    /// Progress of the latest supply.
    pub fn supplied(&self) -> u64 {
        lock(&self.servers).supplied
    }

    /// Servers that do not answer at present.
    pub fn silent(&self) -> BTreeSet<NodeId> {
        lock(&self.servers).silent.clone()
    }

    /// Delivers the node's events until it stops.
    pub async fn serve(self: Arc<PendingReplies>, mut events: Events<Server>) {
        while let Some(event) = events.recv().await {
            self.hand_out(event);
        }
        self.jobs.close();
        self.edits.close();
        self.supplies.close();
        *lock(&self.servers) = Servers::default();
    }

    fn hand_out(&self, event: Event) {
        match event {
            Event::Walks(job, walks) => self.jobs.send(&job, JobEvent::Walks(walks)),
            Event::Failed(job, walk, attempts) => {
                self.jobs.send(&job, JobEvent::Failed(walk, attempts));
            }
            Event::Ended(job, report, census) => self.end_job(job, JobEvent::Ended(report, census)),
            Event::Refused(job, why) => self.end_job(job, JobEvent::Refused(why)),
            Event::Graph(event) => self.hand_out_of_graph(event),
        }
    }

    fn hand_out_of_graph(&self, event: GraphEvent) {
        match event {
            GraphEvent::Edited(id, results) => _ = self.edits.answer(&id, results),
            GraphEvent::Supplying(_, reached) => lock(&self.servers).supplied = reached,
            GraphEvent::Supplied(plan) => _ = self.supplies.answer(&plan, Ok(())),
            GraphEvent::SupplyFailed(plan, fault) => {
                if !self.supplies.answer(&plan, Err(fault.clone())) {
                    // The servers had the graph, and walks may be under way.
                    for (_, owner) in self.jobs.take_all() {
                        let _ = owner.send(JobEvent::GraphLost(fault.clone()));
                    }
                }
            }
            GraphEvent::ServerSilent(server) => _ = lock(&self.servers).silent.insert(server),
            GraphEvent::ServerBack(server) => _ = lock(&self.servers).silent.remove(&server),
            // All servers were found before this task began.
            GraphEvent::Found(..) => {}
        }
    }

    /// Passes on the last reply of a job.
    fn end_job(&self, job: JobId, event: JobEvent) {
        if let Some(owner) = self.jobs.remove(&job) {
            // The receiver may have stopped waiting.
            let _ = owner.send(event);
        }
    }
}
