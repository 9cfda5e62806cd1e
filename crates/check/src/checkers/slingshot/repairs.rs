use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::NodeId;
use paceline_proto::slingshot::{Code, Names, Rate, Repair};

use super::packets::Packets;
use super::{Broken, Rule};

/// What follows from the repairs that a member was given, if it had dropped none of them.
#[derive(Debug, Default)]
pub(super) struct Solvable {
    known: BTreeSet<u32>,
    /// By exclusive or: what each repair misses, and which repairs miss a packet.
    missing: Vec<BTreeSet<u32>>,
    waiting: BTreeMap<u32, Vec<usize>>,
    /// What repairs named.
    named: BTreeSet<u32>,
    /// Repairs that are combined linearly, and how many packets they gave.
    combinations: u64,
    recovered: u64,
}

impl Solvable {
    /// The member has this packet now.
    pub(super) fn learn(&mut self, packet: u32) {
        let mut found = vec![packet];
        while let Some(packet) = found.pop() {
            if !self.known.insert(packet) {
                continue;
            }
            for repair in self.waiting.remove(&packet).unwrap_or_default() {
                let missing = &mut self.missing[repair];
                missing.remove(&packet);
                if missing.len() == 1 {
                    found.extend(missing.first());
                }
            }
        }
    }

    /// A repair came.
    pub(super) fn add(&mut self, code: Code, named: &[u32]) {
        self.named.extend(named);
        if let Code::Rlc { .. } = code {
            self.combinations += 1;
            return;
        }
        let mut missing = BTreeSet::new();
        for &packet in named {
            // Twice the same packet is nothing.
            if !missing.remove(&packet) {
                missing.insert(packet);
            }
        }
        missing.retain(|packet| !self.known.contains(packet));
        if let (1, Some(&packet)) = (missing.len(), missing.first()) {
            return self.learn(packet);
        }
        let repair = self.missing.len();
        missing.iter().for_each(|&packet| self.waiting.entry(packet).or_default().push(repair));
        self.missing.push(missing);
    }

    /// The member says that it has computed this packet. False if it cannot have.
    pub(super) fn recover(&mut self, packet: u32) -> bool {
        if self.known.contains(&packet) {
            // What was known already, the member may have refused when it came.
            return self.named.contains(&packet);
        }
        // Which packets combinations determine is not computed here, but each gives one at most.
        self.recovered += 1;
        self.named.contains(&packet) && self.recovered <= self.combinations
    }
}

/// What a member was called with, as far as repairs depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Cause {
    /// A packet of another came.
    Data,
    /// The timer for partial bins.
    Flush,
    #[default]
    Other,
}

/// The repairs that a member sent in its present life.
#[derive(Debug, Default)]
pub(super) struct Fires {
    /// Packets that came from their senders, once for each bin that they may go to.
    received: u64,
    /// How many of these were in repairs.
    spent: u64,
    cause: Cause,
    /// The repair that is being sent in this call, and its receivers so far.
    last: Option<(u32, Names)>,
    to: Vec<NodeId>,
}

impl Fires {
    pub(super) fn receive(&mut self, bins: usize) {
        self.received += bins as u64;
    }

    pub(super) fn begin_call(&mut self, cause: Cause) {
        self.cause = cause;
        self.last = None;
        self.to.clear();
    }

    /// A copy of a repair leaves. True if it is the first one.
    pub(super) fn copy(&mut self, to: NodeId, repair: &Repair, c: usize) -> Result<bool, Broken> {
        let is_same = self
            .last
            .as_ref()
            .is_some_and(|(seed, names)| *seed == repair.seed && *names == repair.names);
        if !is_same {
            self.last = Some((repair.seed, repair.names.clone()));
            self.to.clear();
        }
        if self.to.contains(&to) {
            return Err((Rule::Overhead, format!("sent a repair to {to} twice")));
        }
        self.to.push(to);
        if self.to.len() > c {
            let what = format!("sent a repair to {} members, {c} are allowed", self.to.len());
            return Err((Rule::Overhead, what));
        }
        Ok(!is_same)
    }

    /// Checks how often the rate of fire lets repairs be sent.
    pub(super) fn spend(&mut self, repair: &Repair, code: Code, rate: Rate) -> Result<(), Broken> {
        let names = repair.names.len();
        let wrong = match (self.cause, code) {
            (Cause::Other, _) => Some("a repair, though nothing had come".into()),
            (Cause::Data, Code::Xor { .. }) if names < rate.r => {
                Some(format!("a repair of {names} packets before its time, not {}", rate.r))
            }
            _ => None,
        };
        if let Some(wrong) = wrong {
            return Err((Rule::Overhead, format!("sent {wrong}")));
        }
        self.spent += match (code, self.cause) {
            (Code::Xor { .. }, _) => names as u64,
            (Code::Rlc { .. }, Cause::Data) => rate.r as u64,
            (Code::Rlc { .. }, _) => 1,
        };
        if self.spent > self.received {
            let what = format!("repaired {} packets and received {}", self.spent, self.received);
            return Err((Rule::Overhead, what));
        }
        Ok(())
    }
}

/// Checks that a repair by exclusive or is the sum of the packets that it names.
pub(super) fn check_sum(repair: &Repair, named: &[u32], packets: &Packets) -> Result<(), Broken> {
    let (mut lengths, mut sum, mut longest) = (0u16, Vec::new(), 0);
    for &packet in named {
        let Some(payload) = packets.payload(packet) else {
            return Err((Rule::Repair, "sent a repair of what was never sent".into()));
        };
        lengths ^= payload.len() as u16;
        longest = longest.max(payload.len());
        let bytes = payload.to_bytes();
        sum.resize(sum.len().max(bytes.len()), 0u8);
        sum.iter_mut().zip(&bytes).for_each(|(sum, byte)| *sum ^= byte);
    }
    let body = repair.body.to_bytes();
    if repair.lengths != lengths || body.len() != longest || body != sum {
        return Err((Rule::Repair, "sent a repair that is not the sum of its packets".into()));
    }
    Ok(())
}
