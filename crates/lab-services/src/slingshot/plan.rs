//! The plan of packets: the sender and time of each, and which are judged.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, NodeId, Rng, mix};

use super::overlap::Overlap;

/// How senders and times are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spacing {
    /// Senders take turns, at even distances.
    Even,
    /// Each begins at a time of its own and then sends at even distances.
    Phases {
        /// Of these times.
        seed: u64,
    },
    /// Packets come at even distances, each of any sender: senders know nothing of each other, nor
    /// of what they sent last.
    Drawn {
        /// Of the senders.
        seed: u64,
    },
}

/// The senders of packets that come from any of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Senders {
    /// By packet.
    of: Vec<u32>,
    /// The packets of each.
    packets: Vec<Vec<u64>>,
}

/// The packets of a run, numbered in the order in which the group sends them. With phases those of
/// a turn, in which each sender sends one, are numbered by senders.
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
    /// Datagrams of each: what the plan calls a packet is a message, which may take several.
    pub datagrams: u64,
    /// When the first is sent.
    pub start: Duration,
    /// How senders and times are chosen.
    pub spacing: Spacing,
    /// Unless they take turns: of [`Plan::new`].
    pub(super) senders_drawn: Option<Arc<Senders>>,
    /// Where there are several groups: of [`Plan::with_overlap`].
    pub(super) overlap: Option<Arc<Overlap>>,
    // With several groups: by node, the packets that it must receive; then the sum.
    pub(super) expected: Arc<[u64]>,
    /// Packets, of all senders.
    pub packets: u64,
    /// The packets that are measured. They exclude the first, sent before bins are out of step and
    /// all senders are known, and the last, whose repairs stay incomplete.
    pub judged: Range<u64>,
    /// How long a packet may take to be in time; none if that is not measured.
    pub in_time: Option<Duration>,
}

impl Plan {
    /// A plan of `packets` packets, of which `senders` members together send `packets_per_second`.
    /// None is judged.
    pub fn new(
        nodes: u32,
        senders: u32,
        packets_per_second: f64,
        packets: u64,
        spacing: Spacing,
    ) -> Plan {
        let senders_drawn = match spacing {
            Spacing::Drawn { seed } => {
                let mut rng = Rng::new(seed, 0x70ac_e11e);
                let of = (0..packets).map(|_| rng.below(senders));
                let of: Vec<u32> = of.collect();
                let mut by_sender = vec![Vec::new(); senders as usize];
                for (packet, &sender) in (0..).zip(&of) {
                    by_sender[sender as usize].push(packet);
                }
                Some(Arc::new(Senders { of, packets: by_sender }))
            }
            Spacing::Even | Spacing::Phases { .. } => None,
        };
        Plan {
            nodes,
            senders,
            packets_per_second,
            packet_bytes: 0,
            datagrams: 1,
            start: Duration::ZERO,
            spacing,
            senders_drawn,
            overlap: None,
            expected: Arc::default(),
            packets,
            judged: 0..0,
            in_time: None,
        }
    }

    /// The same packets, each to one of several groups.
    pub fn with_overlap(mut self, overlap: Overlap) -> Plan {
        self.overlap = Some(Arc::new(overlap));
        let mut expected = vec![0; self.nodes as usize];
        for packet in 0..self.packets {
            self.receivers(packet).for_each(|node| expected[node.index()] += 1);
        }
        expected.push(expected.iter().sum());
        self.expected = expected.into();
        self
    }

    /// The groups, if there are several.
    pub fn overlap(&self) -> Option<&Overlap> {
        self.overlap.as_deref()
    }

    /// The group to which a sender sends its `number`-th packet.
    pub fn group(&self, sender: NodeId, number: u64) -> GroupId {
        self.overlap().map_or(GroupId(0), |overlap| overlap.group(sender, number))
    }

    /// The packet that a sender's `seq`-th datagram to a group is of.
    pub fn packet_to(&self, group: GroupId, sender: NodeId, seq: u64) -> Option<u64> {
        let seq = seq / self.datagrams;
        let number = match self.overlap() {
            Some(overlap) => overlap.number(group, sender, seq)?,
            None => seq,
        };
        self.packet(sender, number)
    }

    /// How many members get a packet, or a repair, that this one sends to a group.
    pub fn others_in(&self, group: GroupId) -> u64 {
        let members = self.overlap().map(|overlap| overlap.members(group).len() as u64);
        members.unwrap_or(self.nodes.into()).saturating_sub(1)
    }

    /// True if this node is a receiver of a packet.
    pub fn is_receiver(&self, packet: u64, node: NodeId) -> bool {
        let sender = self.sender(packet);
        let is_member = || match self.overlap() {
            Some(overlap) => {
                let group = overlap.group(sender, self.number(packet));
                overlap.members(group).binary_search(&node).is_ok()
            }
            None => true,
        };
        sender != node && is_member()
    }

    /// The receivers of a packet.
    fn receivers(&self, packet: u64) -> impl Iterator<Item = NodeId> + '_ {
        let sender = self.sender(packet);
        let group = self
            .overlap()
            .map(|overlap| overlap.members(overlap.group(sender, self.number(packet))));
        let all = if group.is_none() { self.nodes } else { 0 };
        let members = group.unwrap_or_default().iter().copied();
        (0..all).map(NodeId::from).chain(members).filter(move |&node| node != sender)
    }

    /// A packet's number among those of its sender.
    fn number(&self, packet: u64) -> u64 {
        match &self.senders_drawn {
            Some(drawn) => {
                let own = &drawn.packets[drawn.of[packet as usize] as usize];
                own.binary_search(&packet).expect("it is a packet of its sender") as u64
            }
            None => packet / u64::from(self.senders),
        }
    }

    /// The packet that is this sender's `number`-th.
    pub fn packet(&self, sender: NodeId, number: u64) -> Option<u64> {
        if let Some(drawn) = &self.senders_drawn {
            return drawn.packets.get(sender.index())?.get(number as usize).copied();
        }
        let senders = u64::from(self.senders);
        let packet = number.checked_mul(senders)?.checked_add(sender.0)?;
        (sender.0 < senders && packet < self.packets).then_some(packet)
    }

    /// The sender of a packet.
    pub fn sender(&self, packet: u64) -> NodeId {
        match &self.senders_drawn {
            Some(drawn) => NodeId::from(drawn.of[packet as usize]),
            None => NodeId(packet % u64::from(self.senders)),
        }
    }

    /// When a packet is sent.
    pub fn due(&self, packet: u64) -> Instant {
        let at = match self.spacing {
            Spacing::Even | Spacing::Drawn { .. } => packet as f64,
            Spacing::Phases { seed } => {
                let sender = packet % u64::from(self.senders);
                let bits = mix(mix(seed ^ 0x70ac_e11e) ^ sender) >> 11;
                let phase = bits as f64 / (1u64 << 53) as f64;
                (packet - sender) as f64 + phase * f64::from(self.senders)
            }
        };
        let after = Duration::from_secs_f64(at / self.packets_per_second);
        Instant::ZERO + self.start + after
    }

    /// Packets that a node must receive: those of the others.
    pub fn expected_at(&self, node: NodeId) -> u64 {
        if self.overlap.is_some() {
            return self.expected[node.index()];
        }
        let senders = u64::from(self.senders);
        let own = match &self.senders_drawn {
            Some(drawn) => drawn.packets.get(node.index()).map_or(0, |own| own.len() as u64),
            None if node.0 < senders => self.packets.saturating_sub(node.0).div_ceil(senders),
            None => 0,
        };
        self.packets - own
    }

    /// Packets that all nodes together must receive, counted at each receiver.
    pub fn expected(&self) -> u64 {
        match self.overlap {
            Some(_) => self.expected[self.nodes as usize],
            None => self.packets * u64::from(self.nodes - 1),
        }
    }

    /// The place of a packet at a node, among all packets at all nodes.
    pub fn place(&self, packet: u64, node: NodeId) -> usize {
        packet as usize * self.nodes as usize + node.index()
    }

    /// The judged packets, each with all its receivers.
    pub fn judged_pairs(&self) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        let packets = self.judged.clone();
        packets.flat_map(move |packet| self.receivers(packet).map(move |node| (packet, node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_take_turns_and_each_packet_has_one_place_at_each_other_node() {
        let plan = Plan {
            start: Duration::from_millis(5),
            judged: 3..7,
            ..Plan::new(4, 3, 1000.0, 8, Spacing::Even)
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
    fn with_several_groups_a_packet_is_for_the_members_of_one() {
        for spacing in [Spacing::Phases { seed: 7 }, Spacing::Drawn { seed: 7 }] {
            let overlap = Overlap::drawn(6, 5, 3, 1);
            let plan = Plan { judged: 0..200, ..Plan::new(6, 4, 1000.0, 200, spacing) };
            let plan = plan.with_overlap(overlap);
            let mut reported = [0; 6];
            for (packet, node) in plan.judged_pairs() {
                assert!(plan.is_receiver(packet, node));
                reported[node.index()] += 1;
            }
            let expected = [0, 1, 2, 3, 4, 5].map(|node| plan.expected_at(NodeId(node)));
            assert_eq!(reported, expected);
            assert_eq!(reported.iter().sum::<u64>(), plan.expected());
            let sender = NodeId(2);
            let group = plan.group(sender, 3);
            let before = (0..3).filter(|&number| plan.group(sender, number) == group).count();
            assert_eq!(plan.packet_to(group, sender, before as u64), plan.packet(sender, 3));
        }
    }

    #[test]
    fn each_sender_sends_in_order_however_packets_are_spaced() {
        for spacing in [Spacing::Even, Spacing::Phases { seed: 7 }, Spacing::Drawn { seed: 7 }] {
            let plan = Plan::new(5, 4, 1000.0, 4_000, spacing);
            let mut packets = 0;
            for sender in (0..4).map(NodeId) {
                let own = (0..).map_while(|number| plan.packet(sender, number));
                let own: Vec<u64> = own.collect();
                assert!(own.iter().all(|&packet| plan.sender(packet) == sender), "{spacing:?}");
                assert!(own.is_sorted_by_key(|&packet| plan.due(packet)), "{spacing:?}");
                assert!((900..1_100).contains(&own.len()), "{spacing:?}: {}", own.len());
                assert_eq!(plan.expected_at(sender), 4_000 - own.len() as u64);
                packets += own.len();
            }
            assert_eq!((packets, plan.expected_at(NodeId(4))), (4_000, 4_000), "{spacing:?}");
            let last = plan.due(3_999).since(Instant::ZERO);
            assert!(last < Duration::from_secs(4), "{spacing:?}: {last:?}");
        }
    }
}
