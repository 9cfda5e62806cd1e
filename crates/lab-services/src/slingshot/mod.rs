//! Time-critical multicast in the lab: packets that receivers lose, and their recovery.
//!
//! The service is generic over the protocol ([`Timely`]), so Slingshot's rivals run the same
//! scenarios and the same ledger measures them.

mod ask;
mod closed;
mod delays;
mod figures;
mod jobs;
mod ledger;
mod measures;
mod overlap;
mod peer;
mod plan;
mod report;
mod reproduce;
mod run;
mod scenario;
mod search;
mod setup;
mod throughput;
mod watch;
mod watched;

use std::sync::Arc;

use paceline_lab::reproduce::Reproduction;
use paceline_lab::world::{Answer, Parts, Service, Workload};
use paceline_proto::core::{Instant, NodeId, Protocol};
use paceline_sim::Codec;

pub use delays::{Delays, DelaysPart};
pub use ledger::{Again, Fate, Ledger, Part};
pub use measures::Measures;
pub use overlap::Overlap;
pub use peer::{Kind, PacketEvent, Timely};
pub use plan::{Plan, Spacing};
pub use run::{hosted, run, serve};
pub use scenario::Settings;
pub use search::Search;
pub use setup::{Setup, read_repairs};
pub use watch::Watch;

use crate::chain::{Content, Messages, Verdict};

/// The kinds of `[protocol]` that run here.
pub(crate) const KINDS: &[&str] =
    &["slingshot", "srm", "nak", "digest-pull", "sender-fec", "ack", "gossip"];

/// The figures of repairs by receivers as `paceline reproduce slingshot` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "slingshot",
    about: "Multicast in time: the share of lost packets that repairs from other receivers \
            recover, and how soon. Balakrishnan, Pleisch, Birman, Slingshot, NCA 2005.",
    figures: reproduce::reproduce,
    sections: report::sections,
};

/// A scenario of multicast in time for one protocol, ready to run in either world.
#[derive(Debug)]
pub struct Timed<P: Timely> {
    shared: Arc<P::Shared>,
    settings: Settings,
    packets: Messages,
    ledger: Ledger,
}

impl<P: Timely> Timed<P> {
    /// The scenario that these settings describe, for members that share this.
    pub fn new(settings: Settings, shared: P::Shared) -> Timed<P> {
        let shared = Arc::new(shared);
        let packets = Messages::new(Content::Numbered, settings.plan.packet_bytes);
        let ledger = Ledger::new(&settings.plan, settings.is_ordered());
        Timed { shared, settings, packets, ledger }
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl<P: Timely> Workload for Timed<P> {
    fn codec(&self) -> Codec {
        if self.settings.check_wire { Codec::CheckWire } else { Codec::Typed }
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        (0..self.settings.plan.senders).map(NodeId::from).collect()
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        let plan = &self.settings.plan;
        Some(plan.due(plan.packet(node, number)?))
    }

    fn work_bytes(&self, _node: NodeId, _number: u64) -> usize {
        self.settings.plan.packet_bytes
    }

    fn is_done(&self) -> bool {
        self.ledger.is_done()
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        self.ledger.is_done_at(node)
    }

    fn parts(&self) -> &dyn Parts {
        &self.ledger
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        &mut self.ledger
    }
}

impl<P: Timely> Service for Timed<P> {
    type Protocol = P;

    fn shared(&self) -> &Arc<P::Shared> {
        &self.shared
    }

    fn protocol(&self, _node: NodeId) -> P {
        P::member(&self.shared)
    }

    fn submit(&mut self, at: Instant, node: NodeId, number: u64) -> P::Command {
        let group = self.settings.plan.group(node, number);
        peer::multicast(group, self.packets.make(node, number, at))
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<P as Protocol>::Event,
        _answers: &mut Vec<Answer<Self>>,
    ) {
        let ledger = &mut self.ledger;
        match P::packet_event(event) {
            PacketEvent::Packet { sender, payload, way, is_late } => {
                let number = self.packets.number(payload).unwrap_or(u64::MAX);
                let reading = self.packets.read(sender, number, payload);
                match reading.accepted.filter(|_| reading.verdict == Verdict::Intact) {
                    Some(sent) => ledger.delivered(at, node, (sender, number), sent, way),
                    None => {
                        ledger.corrupt(format!("{node} delivered an altered packet of {sender}"))
                    }
                }
                ledger.late += u64::from(is_late);
            }
            PacketEvent::Lost { group, sender, seqs } => ledger.lost(node, (group, sender), seqs),
            PacketEvent::Overtaken { group, sender, seq } => {
                ledger.overtaken(node, (group, sender), seq);
            }
            PacketEvent::Rejected(reason) => {
                ledger.breaks(format!("{node} could not send: {reason}"))
            }
            PacketEvent::Other => {}
        }
    }
}
