//! What the simulator sees of packets: which nodes they reached, and the cost of repairs.

use paceline_proto::core::{GroupId, Instant, Lane, NodeId, Wire};
use paceline_sim::{Input, Observer};

use super::peer::{Kind, Timely};
use super::plan::Plan;

/// Counts packets on the network, and notes each that arrives from its sender. What was sent and
/// is not noted was dropped.
#[derive(Debug)]
pub struct Watch {
    plan: Plan,
    // A bit for each packet at each node.
    arrived: Vec<u64>,
    /// Packets that reached a member from their senders.
    pub data_received: u64,
    /// Their bytes.
    pub data_bytes: u64,
    /// Repairs that were sent; one to a group counts for each member that it goes to.
    pub repairs_sent: u64,
    /// Their bytes.
    pub repair_bytes: u64,
    /// All else that was sent, counted in the same way.
    pub others_sent: u64,
}

impl Watch {
    /// Nothing seen yet.
    pub fn new(plan: &Plan) -> Watch {
        let places = plan.packets as usize * plan.nodes as usize;
        Watch {
            plan: plan.clone(),
            arrived: vec![0; places.div_ceil(64)],
            data_received: 0,
            data_bytes: 0,
            repairs_sent: 0,
            repair_bytes: 0,
            others_sent: 0,
        }
    }

    /// True if this packet reached the node from its sender.
    pub fn has_arrived(&self, packet: u64, node: NodeId) -> bool {
        let place = self.plan.place(packet, node);
        self.arrived[place / 64] >> (place % 64) & 1 == 1
    }

    /// Repairs sent, as a share of them and of the packets that members received: of r packets a
    /// member makes c repairs.
    pub fn overhead(&self) -> f64 {
        share(self.repairs_sent, self.data_received)
    }

    /// Repairs and all else, for each packet that members received.
    pub fn extra(&self) -> f64 {
        (self.repairs_sent + self.others_sent) as f64 / self.data_received.max(1) as f64
    }

    /// The overhead in bytes.
    pub fn overhead_bytes(&self) -> f64 {
        share(self.repair_bytes, self.data_bytes)
    }

    fn sent<P: Timely>(&mut self, message: &P::Message, copies: u64) {
        match P::kind(message) {
            Kind::Data(..) => {}
            Kind::Repair => {
                self.repairs_sent += copies;
                self.repair_bytes += copies * message.wire_len() as u64;
            }
            Kind::Other => self.others_sent += copies,
        }
    }
}

/// Of repairs, beside data.
fn share(repairs: u64, data: u64) -> f64 {
    repairs as f64 / (repairs + data).max(1) as f64
}

impl<P: Timely> Observer<P> for Watch {
    fn before_call(&mut self, _: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        let Input::Message { from, message } = input else { return };
        let Kind::Data(group, seq) = P::kind(message) else { return };
        let Some(packet) = self.plan.packet_to(group, *from, seq) else { return };
        let place = self.plan.place(packet, node);
        self.arrived[place / 64] |= 1 << (place % 64);
        self.data_received += 1;
        self.data_bytes += message.wire_len() as u64;
    }

    fn on_send(&mut self, _: Instant, _: NodeId, _: NodeId, _: Lane, message: &P::Message) {
        self.sent::<P>(message, 1);
    }

    fn on_send_group(&mut self, _: Instant, _: NodeId, group: GroupId, message: &P::Message) {
        self.sent::<P>(message, self.plan.others_in(group));
    }
}
