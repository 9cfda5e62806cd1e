//! Multicast in time in the lab: packets that get lost at receivers, and what brings them back.
//!
//! The service is generic over the protocol ([`Timely`]), so that what Slingshot is compared with
//! runs the same scenarios and is measured by the same ledger.

mod ask;
mod closed;
mod figures;
mod jobs;
mod ledger;
mod measures;
mod overlap;
mod peer;
mod plan;
mod report;
mod run;
mod scenario;
mod search;
mod setup;
mod throughput;
mod watch;
mod watched;

use std::sync::Arc;

use paceline_proto::core::{Instant, NodeId, Protocol, View};

pub use figures::REPRODUCTION;
pub use ledger::{Again, Fate, Ledger, Part};
pub use measures::Measures;
pub use overlap::Overlap;
pub use peer::{Kind, Timely, Told, Way};
pub use plan::{Plan, Spacing};
pub(crate) use run::run_on_processes;
pub use run::{run, run_on_sockets, serve};
pub use scenario::Settings;
pub use search::Search;
pub use setup::Setup;
pub(crate) use setup::{ACK_KEYS, DIGEST_KEYS, FEC_KEYS, KEYS, NAK_KEYS, SRM_KEYS};
pub use watch::Watch;

use crate::chain::{Content, Messages, Verdict};
use crate::world::{Answer, Service};

/// A scenario of multicast in time for one protocol, ready to run in either world.
#[derive(Debug)]
pub struct Timed<P: Timely> {
    shared: Arc<P::Shared>,
    settings: Settings,
    packets: Messages,
}

impl<P: Timely> Timed<P> {
    /// The scenario that these settings describe, for members that share this.
    pub fn new(settings: Settings, shared: P::Shared) -> Timed<P> {
        let shared = Arc::new(shared);
        let packets = Messages::new(Content::Numbered, settings.plan.packet_bytes);
        Timed { shared, settings, packets }
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl<P: Timely + Send + 'static> Service for Timed<P>
where
    P::Shared: Send + Sync,
{
    type Protocol = P;
    type Ledger = Ledger;

    fn shared(&self) -> &Arc<P::Shared> {
        &self.shared
    }

    fn protocol(&self, _node: NodeId) -> P {
        P::member(&self.shared)
    }

    // Members know each other from the start.
    fn view(&self) -> Option<Arc<View>> {
        None
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(&self.settings.plan, self.settings.is_ordered())
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        (0..self.settings.plan.senders).map(NodeId).collect()
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        let plan = &self.settings.plan;
        Some(plan.due(plan.packet(node, number)?))
    }

    fn submit(&self, _: &mut Ledger, at: Instant, node: NodeId, number: u64) -> P::Command {
        let group = self.settings.plan.group(node, number);
        peer::multicast(group, self.packets.make(node, number, at))
    }

    fn observe(
        &self,
        ledger: &mut Ledger,
        at: Instant,
        node: NodeId,
        event: &<P as Protocol>::Event,
        _answers: &mut Vec<Answer<Self>>,
    ) {
        match P::told(event) {
            Told::Packet { sender, payload, way, is_late } => {
                let number = self.packets.number(payload).unwrap_or(u64::MAX);
                let reading = self.packets.read(sender, number, payload);
                match reading.accepted.filter(|_| reading.verdict == Verdict::Intact) {
                    Some(sent) => ledger.delivered(at, node, (sender, number), sent, way),
                    None => ledger.corrupt(format!(
                        "{node} was told a packet of {sender} that is not as it was sent"
                    )),
                }
                ledger.late += u64::from(is_late);
            }
            Told::Lost { group, sender, seqs } => ledger.lost(node, (group, sender), seqs),
            Told::Overtaken { group, sender, seq } => {
                ledger.overtaken(node, (group, sender), seq);
            }
            Told::Rejected(reason) => ledger.breaks(format!("{node} could not send: {reason}")),
            Told::Other => {}
        }
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        self.settings.plan.packet_bytes
    }

    fn is_done(&self, ledger: &Ledger) -> bool {
        ledger.is_done()
    }

    fn is_done_at(&self, ledger: &Ledger, node: NodeId) -> bool {
        ledger.is_done_at(node)
    }

    fn export(&self, ledger: &Ledger, node: NodeId) -> serde_json::Value {
        serde_json::to_value(ledger.part(node)).expect("a part has text keys only")
    }

    fn import(
        &self,
        ledger: &mut Ledger,
        node: NodeId,
        part: serde_json::Value,
    ) -> Result<(), serde_json::Error> {
        ledger.merge(node, serde_json::from_value(part)?);
        Ok(())
    }
}
