//! Pending requests, flows and services: hands the node's events to the tasks that wait for them.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use paceline_net::Events;
use paceline_proto::core::NodeId;
use paceline_proto::mircc::{
    Command, Event, FetchError, FlowCounts, Forwarder as Protocol, Report,
};
use paceline_proto::ndn::{Data, Interest, NackReason, Name};
use tokio::sync::{Notify, mpsc, oneshot};

use super::rib::Rib;
use super::{Answer, Shared};

/// Most events handled at once.
const BATCH_MAX: usize = 256;

/// What a flow receives.
#[derive(Debug)]
pub(super) enum News {
    /// A segment.
    Segment(u64, Data),
    /// All segments have come.
    Fetched(FlowCounts),
    /// The flow ended before its last segment.
    Failed(FetchError),
}

/// An answer, or the reason of a Nack, or `None` after the lifetime.
type Outcome = Result<Answer, Option<NackReason>>;

#[derive(Default)]
struct Open {
    is_closed: bool,
    answers: HashMap<u64, oneshot::Sender<Outcome>>,
    reports: HashMap<u64, oneshot::Sender<Report>>,
    flows: HashMap<u64, mpsc::UnboundedSender<News>>,
    services: Vec<(Name, mpsc::Sender<Box<Interest>>)>,
}

/// The pending requests, flows and services.
#[derive(Default)]
pub(super) struct PendingExchanges {
    open: Mutex<Open>,
    /// Signals that the operator has added routes.
    pub(super) routes_added: Notify,
}

impl PendingExchanges {
    pub(super) fn expect_answer(&self, id: u64) -> oneshot::Receiver<Outcome> {
        let (reply_to, answer) = oneshot::channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.answers.insert(id, reply_to);
        }
        answer
    }

    pub(super) fn expect_report(&self, id: u64) -> oneshot::Receiver<Report> {
        let (reply_to, report) = oneshot::channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.reports.insert(id, reply_to);
        }
        report
    }

    /// Registers a flow, and returns the queue of its segments. The flow's credit bounds it.
    pub(super) fn expect_flow(&self, flow: u64) -> mpsc::UnboundedReceiver<News> {
        let (reply_to, news) = mpsc::unbounded_channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.flows.insert(flow, reply_to);
        }
        news
    }

    /// Ends the queue of a flow.
    pub(super) fn end_flow(&self, flow: u64) {
        self.lock().flows.remove(&flow);
    }

    /// The queue of Interests under a prefix, at most `waiting_max`; `None` if the prefix is served
    /// already.
    pub(super) fn open_service(
        &self,
        prefix: &Name,
        waiting_max: usize,
    ) -> Option<mpsc::Receiver<Box<Interest>>> {
        let (reply_to, asked) = mpsc::channel(waiting_max);
        let mut open = self.lock();
        if open.services.iter().any(|(held, _)| held == prefix) {
            return None;
        }
        if !open.is_closed {
            open.services.push((prefix.clone(), reply_to));
        }
        self.routes_added.notify_one();
        Some(asked)
    }

    /// The prefixes that are served.
    pub(super) fn served(&self) -> Vec<Name> {
        self.lock().services.iter().map(|(prefix, _)| prefix.clone()).collect()
    }

    pub(super) fn close_service(&self, prefix: &Name) {
        self.lock().services.retain(|(held, _)| held != prefix);
    }

    /// Delivers the node's events until it has stopped.
    pub(super) async fn serve(
        self: Arc<PendingExchanges>,
        mut events: Events<Protocol>,
        mut rib: Rib,
        shared: Weak<Shared>,
    ) {
        // The end of `serve` closes all channels, even if this future is dropped with its runtime.
        let pending = Closing(&self);
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            tokio::select! {
                count = events.recv_many(&mut batch, BATCH_MAX) => {
                    if count == 0 {
                        return;
                    }
                    for event in batch.drain(..) {
                        pending.0.hand_out(event, &mut rib, &shared);
                    }
                }
                () = rib.expiry() => rib.expire(&shared),
                () = self.routes_added.notified() => rib.yield_to(&shared),
            }
        }
    }

    fn hand_out(&self, event: Event, rib: &mut Rib, shared: &Weak<Shared>) {
        // The receiver may have stopped waiting.
        match event {
            Event::Asked { from, interest } => {
                let Some(shared) = shared.upgrade() else { return };
                let Some(service) = self.service(&interest.name) else {
                    let from = from.and_then(|id| Some((id, shared.node.addr(id)?)));
                    return hear(&shared, rib, from, interest);
                };
                if let Err(unsent) = service.try_send(interest) {
                    let reason = match unsent {
                        mpsc::error::TrySendError::Full(_) => NackReason::Congestion,
                        mpsc::error::TrySendError::Closed(_) => NackReason::NoRoute,
                    };
                    let _ = shared.node.command(Command::Refuse(unsent.into_inner(), reason));
                }
            }
            Event::Segment { flow, number, data, .. } => {
                self.tell_flow(flow, News::Segment(number, data));
            }
            Event::Fetched { flow, counts } => {
                self.tell_flow(flow, News::Fetched(counts));
                self.end_flow(flow);
            }
            Event::Failed { flow, why, .. } => {
                self.tell_flow(flow, News::Failed(why));
                self.end_flow(flow);
            }
            Event::Answered { id, data, path, stamps, round_trip } => {
                self.tell_answer(id, Ok(Answer { data, path, stamps, round_trip }));
            }
            Event::Unanswered { id, nack } => self.tell_answer(id, Err(nack)),
            Event::Report { id, report } => {
                if let Some(reply_to) = self.lock().reports.remove(&id) {
                    let _ = reply_to.send(*report);
                }
            }
        }
    }

    /// The service with the longest prefix of a name.
    fn service(&self, name: &Name) -> Option<mpsc::Sender<Box<Interest>>> {
        let open = self.lock();
        let fitting = open.services.iter().filter(|(prefix, _)| prefix.is_prefix_of(name));
        fitting.max_by_key(|(prefix, _)| prefix.encoded_len()).map(|(_, reply_to)| reply_to.clone())
    }

    fn tell_flow(&self, flow: u64, news: News) {
        if let Some(reply_to) = self.lock().flows.get(&flow) {
            let _ = reply_to.send(news);
        }
    }

    fn tell_answer(&self, id: u64, outcome: Outcome) {
        if let Some(reply_to) = self.lock().answers.remove(&id) {
            let _ = reply_to.send(outcome);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handles an Interest for a name that is not served here: a command to this forwarder, or a Nack.
fn hear(
    shared: &Shared,
    rib: &mut Rib,
    from: Option<(NodeId, SocketAddr)>,
    interest: Box<Interest>,
) {
    if rib.is_crowded() {
        let faces: BTreeMap<NodeId, SocketAddr> = shared.node.faces().into_iter().collect();
        rib.forget_closed(|face| faces.contains_key(&face));
    }
    let done = match rib.hear(from, &interest, || shared.operator_routes()) {
        None => shared.node.command(Command::Refuse(interest, NackReason::NoRoute)),
        Some((data, change)) => {
            let changed = change.map_or(Ok(()), |change| shared.node.command(change));
            changed.and_then(|()| shared.node.command(Command::Answer(data)))
        }
    };
    // After a stop no answer is needed.
    let _ = done;
}

struct Closing<'a>(&'a PendingExchanges);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Open { is_closed: true, ..Open::default() };
    }
}
