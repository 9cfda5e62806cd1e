//! Repair bins: received packets that the next repairs will combine.

use std::collections::VecDeque;

use super::counters;
use super::interface::Timer;
use super::message::{Ages, Message, Name, Repair};
use super::regions::{Region, regions};
use super::{Code, Config, NamesBuilder, PartialCopies, Rate, RepairBy};
use super::{Cx, Slingshot};
use crate::core::{Instant, Lane, NodeId, Payload, Wire};
use crate::parts::fec::{Coefficients, Sum, Window};

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    name: Name,
    at: Instant,
}

#[derive(Debug)]
enum Packets {
    Xor(Vec<(Name, Payload)>),
    Rlc(Window<Received>),
}

/// The last packets received for one region.
#[derive(Debug)]
struct Bin {
    packets: Packets,
    /// Packets since the last repair.
    fresh: usize,
    /// When the first and the last of these came.
    since: Instant,
    latest: Instant,
    /// How many members a repair would be sent to if it held that many packets of each kind.
    copies: f64,
    /// Repairs so far: distinguishes the deadline of a packet from that of an earlier one.
    repairs: u32,
}

/// A region with its bins.
#[derive(Debug)]
struct RegionBins {
    region: Region,
    bins: Vec<Bin>,
    turn: usize,
}

/// All bins of a member.
#[derive(Debug)]
pub(super) struct Bins {
    regions: Vec<RegionBins>,
    /// By place of the group: its regions, and what share of the group's other members each has.
    by_group: Vec<Vec<(u32, f64)>>,
    pub(super) is_stale: bool,
    /// Bins that have a packet since a time, in order of time.
    waiting: VecDeque<Waiting>,
    names: NamesBuilder,
    sum: Sum,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Instant,
    region: u32,
    bin: u32,
    repairs: u32,
}

impl Bins {
    pub(super) fn new() -> Bins {
        Bins {
            regions: Vec::new(),
            by_group: Vec::new(),
            is_stale: true,
            waiting: VecDeque::new(),
            names: NamesBuilder::default(),
            sum: Sum::default(),
        }
    }

    /// Packets in all bins.
    pub(super) fn packets(&self) -> usize {
        let bins = self.regions.iter().flat_map(|region| &region.bins);
        bins.map(|bin| match &bin.packets {
            Packets::Xor(packets) => packets.len(),
            Packets::Rlc(window) => window.len(),
        })
        .sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_bin = |bin: &Bin| match &bin.packets {
            Packets::Xor(packets) => packets.capacity() * size_of::<(Name, Payload)>(),
            Packets::Rlc(window) => window.len() * size_of::<(Received, Payload)>(),
        };
        let of_region = |RegionBins { region, bins, .. }: &RegionBins| {
            region.groups.capacity() * size_of::<u32>()
                + region.members.capacity() * size_of::<NodeId>()
                + bins.capacity() * size_of::<Bin>()
                + bins.iter().map(of_bin).sum::<usize>()
        };
        let of_group = |regions: &Vec<(u32, f64)>| regions.capacity() * size_of::<(u32, f64)>();
        self.regions.capacity() * size_of::<RegionBins>()
            + self.regions.iter().map(of_region).sum::<usize>()
            + self.by_group.capacity() * size_of::<Vec<(u32, f64)>>()
            + self.by_group.iter().map(of_group).sum::<usize>()
            + self.waiting.capacity() * size_of::<Waiting>()
    }

    /// When the oldest packet came that is in no repair yet.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let bins = self.regions.iter().flat_map(|region| &region.bins);
        bins.filter(|bin| bin.fresh > 0).map(|bin| bin.since).min()
    }

    /// The regions, as the places of their groups and their members.
    pub(super) fn regions(&self) -> impl Iterator<Item = &Region> {
        self.regions.iter().map(|region| &region.region)
    }

    /// The average share of all groups' packets that a region gets.
    pub(super) fn region_share(&self) -> f64 {
        let groups = self.by_group.iter().filter(|regions| !regions.is_empty()).count();
        let places: usize = self.by_group.iter().map(Vec::len).sum();
        if places == 0 { 1.0 } else { places as f64 / (groups * self.regions.len()) as f64 }
    }

    /// When the oldest packet that waits for a full bin has waited long enough.
    fn due(&mut self) -> Option<Instant> {
        while let Some(waiting) = self.waiting.front() {
            if is_current(&self.regions, waiting) {
                return Some(waiting.due);
            }
            self.waiting.pop_front();
        }
        None
    }

    /// Notes that a bin has got its first packet.
    fn wait(&mut self, due: Instant, region: u32, bin: u32) {
        let bins = &self.regions[region as usize].bins;
        let repairs = bins[bin as usize].repairs;
        self.waiting.push_back(Waiting { due, region, bin, repairs });
        // All regions have as many bins.
        if self.waiting.len() > 2 * self.regions.len() * bins.len() + 64 {
            let regions = &self.regions;
            self.waiting.retain(|waiting| is_current(regions, waiting));
        }
    }
}

fn is_current(regions: &[RegionBins], waiting: &Waiting) -> bool {
    regions[waiting.region as usize].bins[waiting.bin as usize].repairs == waiting.repairs
}

impl Bin {
    fn new(config: &Config) -> Bin {
        let packets = match config.code {
            Code::Xor { .. } => Packets::Xor(Vec::new()),
            Code::Rlc { window } => Packets::Rlc(Window::new(window)),
        };
        Bin {
            packets,
            fresh: 0,
            since: Instant::ZERO,
            latest: Instant::ZERO,
            copies: 0.0,
            repairs: 0,
        }
    }
}

impl Slingshot {
    /// Sorts the other members by the groups that they share with this one. What lay in bins is
    /// dropped: it was meant for others.
    fn plan_bins(&mut self, cx: &mut Cx<'_>) {
        let dropped = self.bins.packets() as u64;
        if dropped > 0 {
            cx.count(counters::UNPROTECTED, dropped);
        }
        let groups = (0..).zip(&self.groups).filter(|(_, group)| group.is_joined);
        let groups = groups.map(|(place, group)| (place, &group.members[..]));
        let regions = regions(cx.node, groups, cx.shared.regions_max);
        self.bins.by_group.clear();
        self.bins.by_group.resize(self.groups.len(), Vec::new());
        for (place, region) in (0..).zip(&regions) {
            for &group in &region.groups {
                let others = self.groups[group as usize].members.len() - 1;
                let share = region.members.len() as f64 / others as f64;
                self.bins.by_group[group as usize].push((place, share));
            }
        }
        let bins = |_| Bin::new(cx.shared);
        let with_bins = |region| RegionBins {
            region,
            bins: (0..cx.shared.code.bins()).map(bins).collect(),
            turn: 0,
        };
        self.bins.regions = regions.into_iter().map(with_bins).collect();
        self.bins.waiting.clear();
        self.bins.is_stale = false;
    }

    /// A packet came from its sender: puts it into the bins of its group's regions, but for a
    /// region whose only member is the sender, which has the packet.
    pub(super) fn protect(
        &mut self,
        cx: &mut Cx<'_>,
        group: usize,
        sender: NodeId,
        name: Name,
        payload: &Payload,
    ) {
        if !cx.shared.has_repairs {
            return;
        }
        if payload.len() > cx.shared.payload_bytes_max(cx.datagram_bytes_max) {
            return cx.count(counters::UNPROTECTED, 1);
        }
        if self.bins.is_stale {
            self.plan_bins(cx);
        }
        for number in 0..self.bins.by_group[group].len() {
            let (place, share) = self.bins.by_group[group][number];
            let region = &mut self.bins.regions[place as usize];
            if region.region.members == [sender] {
                continue;
            }
            let turn = region.turn;
            region.turn = if turn + 1 == region.bins.len() { 0 } else { turn + 1 };
            let bin = &mut region.bins[turn];
            if bin.fresh == 0 {
                bin.since = cx.now;
            }
            bin.latest = cx.now;
            bin.fresh += 1;
            bin.copies += share * self.rate.c as f64;
            match &mut bin.packets {
                Packets::Xor(packets) => packets.push((name, payload.clone())),
                Packets::Rlc(window) => {
                    window.push(Received { name, at: cx.now }, payload.clone());
                }
            }
            if bin.fresh >= self.rate.r {
                self.fire(cx, place as usize, turn);
            } else if bin.fresh == 1
                && let Some(after) = cx.shared.flush_after
            {
                self.bins.wait(cx.now + after, place, turn as u32);
            }
        }
    }

    /// Empties a bin into repairs: one for members of its region drawn at random or, where senders
    /// repair, `c` for all of them.
    fn fire(&mut self, cx: &mut Cx<'_>, place: usize, turn: usize) {
        let bin = &mut self.bins.regions[place].bins[turn];
        let fresh = std::mem::take(&mut bin.fresh);
        let of_region = std::mem::take(&mut bin.copies) / fresh.max(1) as f64;
        let mut copies = match cx.shared.repair_by {
            RepairBy::Receivers => of_region,
            RepairBy::Sender => self.rate.c as f64,
        };
        bin.repairs = bin.repairs.wrapping_add(1);
        let is_partial = fresh < self.rate.r;
        if is_partial && cx.shared.partial_copies == PartialCopies::Scaled {
            copies *= fresh as f64 / self.rate.r as f64;
        }
        let wanted = whole(cx, copies);
        let sent = match cx.shared.repair_by {
            RepairBy::Receivers => self.fire_at_some(cx, place, turn, wanted),
            RepairBy::Sender => self.fire_at_all(cx, place, turn, wanted),
        };
        if let Packets::Xor(packets) = &mut self.bins.regions[place].bins[turn].packets {
            packets.clear();
        }
        if sent == 0 {
            return;
        }
        cx.count(counters::REPAIRS, sent as u64);
        if is_partial {
            cx.count(counters::REPAIRS_PARTIAL, sent as u64);
        }
    }

    /// Sends one repair to `wanted` members. Returns to how many it was sent.
    fn fire_at_some(&mut self, cx: &mut Cx<'_>, place: usize, turn: usize, wanted: usize) -> usize {
        // Common where a region is a small part of its groups.
        if wanted == 0 {
            return 0;
        }
        let Some(message) = self.repair_of(cx, place, turn) else { return 0 };
        let members = &mut self.bins.regions[place].region.members;
        let copies = wanted.min(members.len());
        if copies < wanted {
            cx.count(counters::COPIES_TOO_MANY, (wanted - copies) as u64);
        }
        // The first places of a shuffle that goes on where the last one stopped.
        for chosen in 0..copies {
            let other = chosen + cx.rng.below((members.len() - chosen) as u32) as usize;
            members.swap(chosen, other);
            cx.send(members[chosen], Lane::Datagram, message.clone());
        }
        copies
    }

    /// Sends `wanted` repairs, each a different combination, to every member of a region. Returns
    /// the number of repairs sent, counted per receiver.
    fn fire_at_all(&mut self, cx: &mut Cx<'_>, place: usize, turn: usize, wanted: usize) -> usize {
        let mut sent = 0;
        for _ in 0..wanted {
            let Some(message) = self.repair_of(cx, place, turn) else { break };
            let region = &self.bins.regions[place].region;
            sent += region.members.len();
            let group = &self.groups[region.groups[0] as usize];
            if region.groups.len() == 1 && region.members.len() + 1 == group.members.len() {
                cx.send_group(group.id, message);
            } else {
                let send = |&to: &NodeId| cx.send(to, Lane::Datagram, message.clone());
                region.members.iter().for_each(send);
            }
        }
        sent
    }

    /// A repair of the packets in a bin. `None`, and counted, if it does not fit a datagram.
    fn repair_of(&mut self, cx: &mut Cx<'_>, place: usize, turn: usize) -> Option<Message> {
        let Bins { regions, names, sum, .. } = &mut self.bins;
        let bin = &mut regions[place].bins[turn];
        let (mut first, last) = (bin.since, bin.latest);
        let seed = match &mut bin.packets {
            Packets::Xor(packets) => {
                for (name, payload) in packets.iter() {
                    names.push(*name);
                    sum.add(payload);
                }
                Coefficients::XOR
            }
            Packets::Rlc(window) => {
                // Other members may have dropped older packets, which would count as missing there.
                let until = cx.shared.keep / 2;
                let is_old = |received: Received| cx.now.since(received.at) > until;
                while window.ids().next().is_some_and(is_old) {
                    window.pop();
                }
                first = window.ids().next().map_or(first, |received| received.at);
                window.ids().for_each(|received| names.push(received.name));
                let seed = cx.rng.next_u32().max(1);
                window.add_to(sum, seed);
                seed
            }
        };
        if names.is_empty() {
            return None;
        }
        let ages = Ages::new(cx.now.since(first), cx.now.since(last));
        let repair = Repair::new(self.view.id(), seed, ages, names.build(), sum.take_coded());
        let message = Message::Repair(repair);
        if message.wire_len() > cx.datagram_bytes_max {
            cx.count(counters::REPAIR_OVERSIZED, 1);
            return None;
        }
        Some(message)
    }

    /// Sends the bins whose packets have waited long enough as they are.
    pub(super) fn flush_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.flush.fired(cx.now) {
            return;
        }
        if self.bins.is_stale {
            self.plan_bins(cx);
        }
        while self.bins.due().is_some_and(|due| due <= cx.now) {
            let Some(waiting) = self.bins.waiting.pop_front() else { return };
            self.fire(cx, waiting.region as usize, waiting.bin as usize);
        }
    }

    /// Sees to it that the member is woken for the next partial bin.
    pub(super) fn arm_flush(&mut self, cx: &mut Cx<'_>) {
        if self.flush.is_armed() {
            return;
        }
        if let Some(due) = self.bins.due() {
            self.flush.set(cx, due, Timer::Flush);
        }
    }

    /// Changes the rate of fire; bins that hold as much already go with the next packet.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }
}

/// A whole number whose mean is `x`.
fn whole(cx: &mut Cx<'_>, x: f64) -> usize {
    let whole = x.floor();
    let rest = x - whole;
    // Sums of equal shares are not always exact.
    let is_one_more = if rest < 1e-9 { false } else { rest > 1.0 - 1e-9 || cx.rng.chance(rest) };
    whole as usize + usize::from(is_one_more)
}
