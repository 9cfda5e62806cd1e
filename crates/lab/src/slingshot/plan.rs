//! Who sends which packet when, and which packets are judged.

use std::ops::Range;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};

/// The packets of a run. They are numbered in the order in which the group sends them; the senders
/// take turns.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Members, of which the first send.
    pub nodes: u32,
    /// How many send.
    pub senders: u32,
    /// Packets a second, of all senders.
    pub packets_per_second: f64,
    /// Bytes of each.
    pub packet_bytes: usize,
    /// When the first is sent.
    pub start: Duration,
    /// Packets, of all senders.
    pub packets: u64,
    /// What comes of these is measured: neither the first, before bins are out of step and all
    /// senders are known, nor the last, whose repairs nobody completes any more.
    pub judged: Range<u64>,
}

impl Plan {
    /// The packet that is this sender's `number`-th.
    pub fn packet(&self, sender: NodeId, number: u64) -> Option<u64> {
        let senders = u64::from(self.senders);
        let packet = number.checked_mul(senders)?.checked_add(u64::from(sender.0))?;
        (sender.0 < self.senders && packet < self.packets).then_some(packet)
    }

    /// Who sends a packet.
    pub fn sender(&self, packet: u64) -> NodeId {
        NodeId((packet % u64::from(self.senders)) as u32)
    }

    /// When a packet is sent.
    pub fn due(&self, packet: u64) -> Instant {
        let after = Duration::from_secs_f64(packet as f64 / self.packets_per_second);
        Instant::ZERO + self.start + after
    }

    /// Packets that a node is to be told of: those of the others.
    pub fn expected_at(&self, node: NodeId) -> u64 {
        let senders = u64::from(self.senders);
        let own = match node.0 < self.senders {
            true => self.packets.saturating_sub(u64::from(node.0)).div_ceil(senders),
            false => 0,
        };
        self.packets - own
    }

    /// Packets that all nodes are to be told of.
    pub fn expected(&self) -> u64 {
        self.packets * u64::from(self.nodes - 1)
    }

    /// The place of a packet at a node, among all packets at all nodes.
    pub fn place(&self, packet: u64, node: NodeId) -> usize {
        packet as usize * self.nodes as usize + node.index()
    }

    /// The judged packets at all nodes but their senders.
    pub fn judged_pairs(&self) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        self.judged.clone().flat_map(move |packet| {
            let nodes = (0..self.nodes).map(NodeId);
            nodes.filter(move |&node| node != self.sender(packet)).map(move |node| (packet, node))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_take_turns_and_each_packet_has_one_place_at_each_other_node() {
        let plan = Plan {
            nodes: 4,
            senders: 3,
            packets_per_second: 1000.0,
            packet_bytes: 100,
            start: Duration::from_millis(5),
            packets: 8,
            judged: 3..7,
        };
        assert_eq!(plan.packet(NodeId(1), 2), Some(7));
        assert_eq!(plan.packet(NodeId(2), 2), None, "there are eight");
        assert_eq!(plan.packet(NodeId(3), 0), None, "it does not send");
        assert_eq!(plan.due(7), Instant::from_nanos(12_000_000));
        let each = (0..4).map(|node| plan.expected_at(NodeId(node)));
        assert_eq!(each.clone().collect::<Vec<_>>(), [5, 5, 6, 8]);
        assert_eq!(each.sum::<u64>(), plan.expected());
        assert_eq!(plan.judged_pairs().count(), 4 * 3);
        assert!(plan.judged_pairs().all(|(packet, node)| plan.sender(packet) != node));
    }
}
