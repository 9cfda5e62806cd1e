//! Who sends which packet when, and which packets are judged.

use std::ops::Range;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, mix};

/// When senders send: each of them as often as the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// They take turns, at even distances.
    Even,
    /// Each begins at a time of its own and then sends at even distances.
    Phases {
        /// Of these times.
        seed: u64,
    },
    /// Each sends its next packet at any time until that of the one after it may come, so that
    /// their order is another one each time.
    Drawn {
        /// Of these times.
        seed: u64,
    },
}

/// The packets of a run. They are numbered by turns in which each sender sends one, and in a turn
/// by senders: in the order in which they are sent, if their spacing is even.
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
    /// When senders send.
    pub spacing: Spacing,
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
        let turn = packet - packet % u64::from(self.senders);
        let at = match self.spacing {
            Spacing::Even => packet as f64,
            Spacing::Phases { seed } => turn as f64 + self.drawn(seed, packet - turn),
            Spacing::Drawn { seed } => turn as f64 + self.drawn(seed, packet),
        };
        let after = Duration::from_secs_f64(at / self.packets_per_second);
        Instant::ZERO + self.start + after
    }

    /// A part of a turn, in packets, by a seed and a number.
    fn drawn(&self, seed: u64, number: u64) -> f64 {
        let bits = mix(mix(seed ^ 0x70ac_e11e) ^ number) >> 11;
        f64::from(self.senders) * bits as f64 / (1u64 << 53) as f64
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
            spacing: Spacing::Even,
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
    #[test]
    fn each_sender_sends_as_often_and_in_order_however_packets_are_spaced() {
        for spacing in [Spacing::Even, Spacing::Phases { seed: 7 }, Spacing::Drawn { seed: 7 }] {
            let plan = Plan {
                nodes: 4,
                senders: 4,
                packets_per_second: 1000.0,
                packet_bytes: 100,
                start: Duration::ZERO,
                spacing,
                packets: 4_000,
                judged: 4..8,
            };
            let after = |packet: u64| plan.due(packet).since(Instant::ZERO);
            let turn = |packet: u64| Duration::from_millis(packet / 4 * 4);
            let phases = (0..4_000).map(|packet| after(packet) - turn(packet));
            let phases: Vec<Duration> = phases.collect();
            assert!(phases.iter().all(|phase| *phase < Duration::from_millis(4)), "{spacing:?}");
            let sum = phases.iter().sum::<Duration>().as_secs_f64() * 1e3;
            match spacing {
                Spacing::Drawn { .. } => assert!((sum / 4_000.0 - 2.0).abs() < 0.1, "{sum}"),
                _ => assert!(phases.chunks(4).all(|turn| turn == &phases[..4]), "{spacing:?}"),
            }
        }
    }
}
