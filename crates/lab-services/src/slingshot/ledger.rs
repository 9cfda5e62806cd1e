//! The ledger of a run: what each member reported to its application about each packet, and when.

use std::collections::BTreeSet;

use paceline_lab::world;
use paceline_proto::core::{GroupId, Instant, NodeId, mix};
use paceline_proto::slingshot::flow::Way;
use serde::{Deserialize, Serialize};

use super::delays::{Delays, DelaysPart};
use super::plan::Plan;

/// The outcome of a packet at a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Fate {
    /// No report yet.
    Unreported,
    /// It came from its sender.
    Direct,
    /// It was computed from repairs.
    Recovered,
    /// It came from a member that was asked.
    Pulled,
    /// It was reported lost.
    Lost,
}

/// A packet that did not come from its sender, and came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Again {
    /// Which.
    pub packet: u64,
    /// The receiver.
    pub node: NodeId,
    /// How long after it was sent, nanoseconds.
    pub nanos: u64,
}

/// The ledger of a run.
#[derive(Debug)]
pub struct Ledger {
    plan: Plan,
    // By packet, then node.
    fates: Vec<Fate>,
    reported: u64,
    reported_at: Vec<u64>,
    again: Vec<Again>,
    // Packets at nodes that came from their senders after they had come by another way.
    overtaken: BTreeSet<(u64, NodeId)>,
    // Packets at nodes that came after [`Plan::in_time`].
    slow: Vec<(u64, NodeId)>,
    direct: Delays,
    delivered: Delays,
    // By node and sender, where order is promised: the number that may come next.
    next: Option<Vec<u64>>,
    /// Packets that came after their deadline, as the protocol says.
    pub late: u64,
    /// Packets that were delivered otherwise than as sent, or twice.
    pub corrupt: u64,
    /// The first promise that was broken.
    pub broken: Option<String>,
}

/// What one node's process noted.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part {
    // What did not come from its sender, with how long it took.
    others: Vec<(u64, Fate, u64)>,
    // What did, after it had come by another way.
    overtaken: Vec<u64>,
    // What came after the plan's time.
    slow: Vec<u64>,
    direct: DelaysPart,
    delivered: DelaysPart,
    late: u64,
    corrupt: u64,
    broken: Option<String>,
}

impl Ledger {
    /// An empty ledger. `is_ordered` if packets of one sender must come in order.
    pub fn new(plan: &Plan, is_ordered: bool) -> Ledger {
        let nodes = plan.nodes as usize;
        let pairs = nodes * plan.senders as usize;
        Ledger {
            plan: plan.clone(),
            fates: vec![Fate::Unreported; nodes * plan.packets as usize],
            reported: 0,
            reported_at: vec![0; nodes],
            again: Vec::new(),
            overtaken: BTreeSet::new(),
            slow: Vec::new(),
            direct: Delays::default(),
            delivered: Delays::default(),
            next: is_ordered.then(|| vec![0; pairs]),
            late: 0,
            corrupt: 0,
            broken: None,
        }
    }

    /// A node delivers a packet of this sender that was sent at `sent`.
    pub fn delivered(
        &mut self,
        at: Instant,
        node: NodeId,
        (sender, number): (NodeId, u64),
        sent: Instant,
        way: Way,
    ) {
        let Some(packet) = self.packet_for(node, self.plan.packet(sender, number)) else {
            return self
                .breaks(format!("{node} delivered {sender}.{number}, which does not exist"));
        };
        let fate = match way {
            Way::Direct => Fate::Direct,
            Way::Recovered => Fate::Recovered,
            Way::Pulled => Fate::Pulled,
        };
        if let Some(next) = &mut self.next {
            let next = &mut next[node.index() * self.plan.senders as usize + sender.index()];
            if number < *next {
                let next = *next;
                self.breaks(format!("{node} delivered {sender}.{number} after {}", next - 1));
            } else {
                *next = number + 1;
            }
        }
        let nanos = at.since(sent).as_nanos() as u64;
        if !self.note(packet, node, fate) {
            return;
        }
        if self.plan.in_time.is_some_and(|within| u128::from(nanos) > within.as_nanos()) {
            self.slow.push((packet, node));
        }
        if self.plan.judged.contains(&packet) {
            self.delivered.record(nanos);
        }
        if way == Way::Direct {
            self.direct.record(nanos);
        } else {
            self.again.push(Again { packet, node, nanos });
        }
    }

    /// The packet, if this node is one of its receivers.
    fn packet_for(&self, node: NodeId, packet: Option<u64>) -> Option<u64> {
        packet.filter(|&packet| self.plan.is_receiver(packet, node))
    }

    /// A node reports packets of this sender to a group as lost.
    pub fn lost(
        &mut self,
        node: NodeId,
        (group, sender): (GroupId, NodeId),
        seqs: std::ops::Range<u64>,
    ) {
        // A message is lost if its first packet is: that of a part is not reported by itself.
        let datagrams = self.plan.datagrams;
        for seq in seqs.filter(|seq| seq.is_multiple_of(datagrams)) {
            match self.packet_for(node, self.plan.packet_to(group, sender, seq)) {
                Some(packet) => _ = self.note(packet, node, Fate::Lost),
                None => {
                    return self.breaks(format!(
                        "{node} reported the loss of {group}/{sender}.{seq}, which does not exist"
                    ));
                }
            }
        }
    }

    /// A packet has reached a node from its sender after the node reported it by another way.
    pub fn overtaken(&mut self, node: NodeId, (group, sender): (GroupId, NodeId), seq: u64) {
        // Which parts of a message came how is not told.
        let packet = self.plan.packet_to(group, sender, seq);
        if let Some(packet) = packet.filter(|_| self.plan.datagrams == 1) {
            self.overtaken.insert((packet, node));
        }
    }

    /// True if it did.
    pub fn was_overtaken(&self, packet: u64, node: NodeId) -> bool {
        self.overtaken.contains(&(packet, node))
    }

    /// A packet was delivered otherwise than as it was sent, or twice.
    pub fn corrupt(&mut self, problem: String) {
        self.corrupt += 1;
        self.breaks(problem);
    }

    /// A promise was broken.
    pub fn breaks(&mut self, problem: String) {
        self.broken.get_or_insert(problem);
    }

    fn note(&mut self, packet: u64, node: NodeId, fate: Fate) -> bool {
        let place = &mut self.fates[self.plan.place(packet, node)];
        if *place != Fate::Unreported {
            let sender = self.plan.sender(packet);
            let before = *place;
            let problem = format!(
                "{node} reported packet {packet} of {sender} twice: {before:?}, then {fate:?}"
            );
            match fate {
                Fate::Lost | Fate::Unreported => self.breaks(problem),
                Fate::Direct | Fate::Recovered | Fate::Pulled => self.corrupt(problem),
            }
            return false;
        }
        *place = fate;
        self.reported += 1;
        self.reported_at[node.index()] += 1;
        true
    }

    /// The packets of the run.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The outcome of a packet at a node.
    pub fn fate(&self, packet: u64, node: NodeId) -> Fate {
        self.fates[self.plan.place(packet, node)]
    }

    /// Packets that came by repair or request, in the order of their reports.
    pub fn again(&self) -> &[Again] {
        &self.again
    }

    /// Packets at nodes that came after [`Plan::in_time`], in the order in which they came.
    pub fn slow(&self) -> &[(u64, NodeId)] {
        &self.slow
    }

    /// How long packets from their senders took.
    pub fn direct(&self) -> &Delays {
        &self.direct
    }

    /// How long judged packets took that were delivered, in whichever way they came.
    pub fn delays(&self) -> &Delays {
        &self.delivered
    }

    /// True once every node has an outcome for every packet.
    pub fn is_done(&self) -> bool {
        self.reported == self.plan.expected()
    }

    /// The same of one node.
    pub fn is_done_at(&self, node: NodeId) -> bool {
        self.reported_at[node.index()] == self.plan.expected_at(node)
    }

    /// A digest of the packets that each node delivered. It is the same in both worlds if every
    /// lost packet was recovered.
    pub fn deliveries(&self) -> String {
        let came = |fate: &Fate| !matches!(fate, Fate::Unreported | Fate::Lost);
        let places = self.fates.iter().enumerate().filter(|(_, fate)| came(fate));
        let sum = places.fold(0u64, |sum, (place, _)| sum.wrapping_add(mix(place as u64)));
        format!("{sum:016x}")
    }
}

impl world::Ledger for Ledger {
    type Part = Part;

    fn part(&self, node: NodeId) -> Part {
        let packets = (0..self.plan.packets).filter(|&packet| self.plan.is_receiver(packet, node));
        let mut took: Vec<(u64, u64)> = self.again.iter().map(|a| (a.packet, a.nanos)).collect();
        took.sort_unstable();
        let others = packets.filter_map(|packet| {
            let fate = self.fate(packet, node);
            let nanos = took.binary_search_by_key(&packet, |&(packet, _)| packet);
            let nanos = nanos.map_or(0, |place| took[place].1);
            (fate != Fate::Direct).then_some((packet, fate, nanos))
        });
        Part {
            others: others.collect(),
            overtaken: self.overtaken.iter().map(|&(packet, _)| packet).collect(),
            slow: self.slow.iter().map(|&(packet, _)| packet).collect(),
            direct: self.direct.part(),
            delivered: self.delivered.part(),
            late: self.late,
            corrupt: self.corrupt,
            broken: self.broken.clone(),
        }
    }

    fn merge(&mut self, node: NodeId, part: Part) {
        let mut others = part.others.into_iter().peekable();
        for packet in 0..self.plan.packets {
            if !self.plan.is_receiver(packet, node) {
                continue;
            }
            match others.next_if(|&(other, ..)| other == packet) {
                None => _ = self.note(packet, node, Fate::Direct),
                Some((_, Fate::Unreported, _)) => {}
                Some((_, fate, nanos)) => {
                    self.note(packet, node, fate);
                    if fate != Fate::Lost {
                        self.again.push(Again { packet, node, nanos });
                    }
                }
            }
        }
        self.overtaken.extend(part.overtaken.into_iter().map(|packet| (packet, node)));
        self.slow.extend(part.slow.into_iter().map(|packet| (packet, node)));
        self.direct.merge(part.direct);
        self.delivered.merge(part.delivered);
        self.late += part.late;
        self.corrupt += part.corrupt;
        if let Some(problem) = part.broken {
            self.breaks(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::plan::Spacing;
    use super::*;
    use paceline_lab::world::Ledger as _;

    fn plan() -> Plan {
        Plan { packet_bytes: 64, judged: 0..4, ..Plan::new(3, 2, 100.0, 4, Spacing::Even) }
    }

    fn reported(ledger: &mut Ledger, node: u32, sender: u32, number: u64, way: Way) {
        let sent = Instant::from_nanos(1_000);
        let at = sent + Duration::from_nanos(500);
        ledger.delivered(at, NodeId::from(node), (NodeId::from(sender), number), sent, way);
    }

    #[test]
    fn what_is_told_twice_or_does_not_exist_breaks_a_promise() {
        let cases: [&dyn Fn(&mut Ledger); 5] = [
            &|ledger| (0..2).for_each(|_| reported(ledger, 2, 0, 1, Way::Direct)),
            &|ledger| reported(ledger, 2, 0, 2, Way::Direct),
            &|ledger| reported(ledger, 1, 1, 0, Way::Direct),
            &|ledger| {
                ledger.lost(NodeId(2), (GroupId(0), NodeId(0)), 0..1);
                reported(ledger, 2, 0, 0, Way::Pulled);
            },
            &|ledger| {
                (0..2).rev().for_each(|number| reported(ledger, 2, 0, number, Way::Recovered))
            },
        ];
        for (number, case) in cases.iter().enumerate() {
            let mut ledger = Ledger::new(&plan(), true);
            case(&mut ledger);
            assert!(ledger.broken.is_some(), "case {number}");
        }
        let mut ledger = Ledger::new(&plan(), true);
        (0..2).for_each(|number| reported(&mut ledger, 2, 0, number, Way::Recovered));
        assert_eq!(ledger.broken, None);
    }

    #[test]
    fn corrupt_packets_are_counted_at_each_node_and_in_the_whole() {
        let mut whole = Ledger::new(&plan(), false);
        for node in 1..3 {
            let mut own = Ledger::new(&plan(), false);
            (0..3).for_each(|_| reported(&mut own, node, 0, 1, Way::Direct));
            own.corrupt(format!("{node} delivered other bytes"));
            // That a packet that came is said to be lost is wrong, and nothing was corrupt.
            own.lost(NodeId::from(node), (GroupId(0), NodeId(0)), 1..2);
            assert_eq!(own.corrupt, 3);
            whole.merge(NodeId::from(node), own.part(NodeId::from(node)));
        }
        assert_eq!(whole.corrupt, 6);
        assert!(whole.broken.is_some());
    }

    #[test]
    fn parts_of_all_nodes_are_the_whole() {
        let mut whole = Ledger::new(&plan(), false);
        let mut merged = Ledger::new(&plan(), false);
        for node in 0..3 {
            let mut own = Ledger::new(&plan(), false);
            for ledger in [&mut whole, &mut own] {
                for (sender, number, way) in
                    [(0, 0, Way::Direct), (1, 0, Way::Recovered), (0, 1, Way::Pulled)]
                {
                    if sender != node {
                        reported(ledger, node, sender, number, way);
                    }
                }
                if node == 2 {
                    ledger.lost(NodeId::from(node), (GroupId(0), NodeId(1)), 1..2);
                }
            }
            let text = serde_json::to_string(&own.part(NodeId::from(node))).unwrap();
            merged.merge(NodeId::from(node), serde_json::from_str(&text).unwrap());
        }
        assert_eq!(merged.fates, whole.fates);
        assert_eq!(merged.again, whole.again);
        assert_eq!(merged.deliveries(), whole.deliveries());
        assert_eq!((merged.reported, merged.is_done()), (whole.reported, false));
        assert!(merged.is_done_at(NodeId(2)) && !merged.is_done_at(NodeId(0)));
        assert_eq!(merged.direct().mean_nanos(), 500.0);
        // Each of the two ways by which packets came to other nodes than their senders.
        assert_eq!((merged.direct().count(), merged.delays().count()), (2, 6));
        assert_eq!(merged.delays().mean_nanos(), 500.0);
        assert_eq!(merged.delays().count_within(Duration::from_nanos(499)), 0);
        assert_eq!(merged.delays().count_within(Duration::from_nanos(501)), 6);
    }
}
