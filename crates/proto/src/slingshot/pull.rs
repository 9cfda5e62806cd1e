//! Missing packets: requested, and given up in the end.

use std::cmp::Reverse;
use std::time::Duration;

use super::counters;
use super::flow::{Missing, Slot};
use super::interface::Timer;
use super::message::{Data, Message, Name, Names, Supply};
use super::{Config, Pull, PullFrom};
use super::{Cx, PacketId, Slingshot};
use crate::core::{Instant, Lane, NodeId, ViewId};
use crate::parts::token_bucket::{TokenBucket, time_for};

/// Maximum number of packets in one request.
const ASKED_AT_ONCE: usize = 32;
/// Other members that [`PullFrom::Holders`] asks before the sender.
const ASKED_BEFORE_SENDER: u8 = 2;
/// Draws for a member that is neither this one nor the sender.
const DRAWS_MAX: usize = 4;

/// A missing packet, and when it is due to be requested or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gap {
    due: Instant,
    flow: u32,
    seq: u64,
    generation: u32,
}

/// How long a member waits for repairs: the 99th percentile of past repair times.
///
/// A step up for each that took longer and a step of 1/99 down for each that did not balance where
/// one in a hundred took longer (Ma, Muthukrishnan, Sandler, *Frugal Streaming for Estimating
/// Quantiles*, 2013).
#[derive(Debug)]
pub(super) struct Patience {
    p99: Duration,
    least: Duration,
    most: Duration,
}

impl Patience {
    pub(super) fn new(config: &Config) -> Patience {
        let least = config.pull.map_or(config.lost_after, |pull| pull.after_min);
        // Half of the time is left for requests and answers.
        Patience { p99: least, least, most: (config.lost_after / 2).max(least) }
    }

    /// A repair took so long.
    pub(super) fn note(&mut self, took: Duration) {
        let step = (self.p99 / 32).max(Duration::from_micros(10));
        let moved =
            if took > self.p99 { self.p99 + step } else { self.p99.saturating_sub(step / 99) };
        self.p99 = moved.clamp(self.least, self.most);
    }

    fn after(&self) -> Duration {
        self.p99
    }
}

/// Tokens for packets sent to requesters: the depth is a tenth of a second's, at least one.
pub fn allowance(per_second: u32) -> TokenBucket {
    let most = Duration::from_millis(100);
    TokenBucket::full(most.saturating_sub(time_for(1.0, per_second.into())))
}

impl Slingshot {
    /// A packet is missing from now on.
    pub(super) fn watch_gap(&mut self, cx: &mut Cx<'_>, flow: u32, generation: u32, seq: u64) {
        if self.flows[flow as usize].missing(seq).is_none() {
            return;
        }
        let after = match cx.shared.pull {
            Some(_) => self.patience.after().min(cx.shared.lost_after),
            None => cx.shared.lost_after,
        };
        self.gaps.push(Reverse(Gap { due: cx.now + after, flow, seq, generation }));
        if self.gaps.len() > 2 * self.ledger.missing + 64 {
            let flows = &self.flows;
            self.gaps.retain(|Reverse(gap)| {
                let flow = &flows[gap.flow as usize];
                flow.generation == gap.generation && flow.missing(gap.seq).is_some()
            });
        }
    }

    /// Requests packets that have been missing for long, and gives up those that are too late.
    pub(super) fn gap_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.gap.fired(cx.now) {
            return;
        }
        let mut asks_left = cx.shared.pull.map_or(0, |pull| pull.asks_max);
        while let Some(Reverse(gap)) = self.gaps.peek().copied().filter(|gap| gap.0.due <= cx.now) {
            self.gaps.pop();
            let flow = &mut self.flows[gap.flow as usize];
            if flow.generation != gap.generation {
                continue;
            }
            let Some(missing) = flow.missing(gap.seq).copied() else { continue };
            let lost_at = missing.since + cx.shared.lost_after;
            if lost_at <= cx.now || flow.is_moot(gap.seq) {
                if let Some(checksum) = missing.checksum {
                    self.decoder.forget(PacketId { flow: gap.flow, checksum, seq: gap.seq });
                }
                flow.abandon(cx, &mut self.ledger, gap.seq);
                continue;
            }
            let mut due = lost_at;
            if let Some(Pull { from, retry_after, .. }) = cx.shared.pull {
                due = due.min(cx.now + retry_after);
                if asks_left > 0 {
                    asks_left -= 1;
                    self.ask_for(cx, from, gap, missing);
                } else {
                    cx.count(counters::ASK_DEFERRED, 1);
                }
            }
            self.gaps.push(Reverse(Gap { due, ..gap }));
        }
        // Packets that were given up need no verification. They would stay forever if their sender
        // is never heard.
        let flows = &self.flows;
        self.unverified.retain(|(id, _)| flows[id.flow as usize].missing(id.seq).is_some());
        self.send_asks(cx);
    }

    /// Notes a packet to request, and the member to ask.
    fn ask_for(&mut self, cx: &mut Cx<'_>, from: PullFrom, gap: Gap, missing: Missing) {
        let flow = &mut self.flows[gap.flow as usize];
        let (group, sender) = (flow.source.group, flow.source.sender);
        let Some(rank) = self.view.rank(sender) else { return };
        if let Some(missing) = flow.missing_mut(gap.seq) {
            missing.asked = missing.asked.saturating_add(1);
        }
        let Some(group_place) = self.group_place(group) else { return };
        let members = &self.groups[group_place].members;
        let to = match from {
            PullFrom::Sender => sender,
            PullFrom::Holders => holder(cx, members, sender, missing),
        };
        let checksum = missing.checksum.unwrap_or(0);
        self.asks.push((to, Name { group, rank: rank as u16, seq: gap.seq as u32, checksum }));
    }

    fn send_asks(&mut self, cx: &mut Cx<'_>) {
        let mut asks = std::mem::take(&mut self.asks);
        if asks.is_empty() {
            return self.asks = asks;
        }
        asks.sort_by_key(|&(to, _)| to);
        cx.count(counters::ASKED, asks.len() as u64);
        // What another name of another group takes at most.
        let bytes_max = cx.datagram_bytes_max.saturating_sub(9 + 15);
        let mut asks_left = asks.drain(..).peekable();
        while let Some((to, name)) = asks_left.next() {
            self.ask_names.push(name);
            let is_last = asks_left.peek().is_none_or(|&(next, _)| next != to);
            let is_full = self.ask_names.len() >= ASKED_AT_ONCE
                || self.ask_names.bytes() + self.ask_names.len() > bytes_max;
            if is_last || is_full {
                let names = self.ask_names.build();
                cx.send(to, Lane::Datagram, Message::Ask { view: self.view.id(), names });
            }
        }
        drop(asks_left);
        self.asks = asks;
    }

    /// Sends a member the requested packets that are held here.
    pub(super) fn receive_ask(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        names: &Names,
    ) {
        let Some(pull) = cx.shared.pull else {
            return cx.count(counters::ASK_REFUSED, names.len() as u64);
        };
        let Some(named_view) = self.view_named(view) else {
            return cx.count(counters::FOREIGN_VIEW, 1);
        };
        for name in names.iter() {
            let found = match self.find_named(cx, &named_view, name) {
                Ok(found) => found,
                Err(counter) => {
                    cx.count(counter, 1);
                    continue;
                }
            };
            let group = &self.groups[found.group];
            if group.place(from).is_none() {
                cx.count(counters::FOREIGN_SENDER, 1);
                continue;
            }
            let flow = self.flows.get(group.flows[found.member] as usize);
            let Some(Slot::Held(held)) = flow.and_then(|flow| flow.slot(found.seq)) else {
                cx.count(counters::ASK_UNKNOWN, 1);
                continue;
            };
            let source = flow.expect("it has a slot").source;
            let (Some(rank), Some(incarnation)) =
                (self.view.rank(source.sender), source.incarnation)
            else {
                continue;
            };
            if !self.allowance.try_take(cx.now, 1.0, pull.supplies_per_second.into()) {
                cx.count(counters::ASK_REFUSED, 1);
                continue;
            }
            let data = Data {
                group: source.group,
                incarnation,
                seq: found.seq,
                framing: held.framing(),
                checksum: held.checksum,
                payload: held.payload.clone(),
            };
            let supply = Supply { view: self.view.id(), rank: rank as u16, data };
            cx.count(counters::SUPPLIED, 1);
            cx.send(from, Lane::Datagram, Message::Supply(supply));
        }
    }

    /// Sets the timer for the next missing packet.
    pub(super) fn arm_gap(&mut self, cx: &mut Cx<'_>) {
        if self.ledger.missing == 0 {
            self.gaps.clear();
        }
        let Some(Reverse(gap)) = self.gaps.peek().filter(|_| !self.gap.is_armed()) else { return };
        // A packet missed later is due after this at the earliest.
        let least = cx
            .shared
            .pull
            .map_or(cx.shared.lost_after, |pull| pull.after_min.min(pull.retry_after));
        self.gap.set(cx, gap.due.min(cx.now + least), Timer::Gap);
    }
}

/// The member that [`PullFrom::Holders`] asks next.
fn holder(cx: &mut Cx<'_>, members: &[NodeId], sender: NodeId, missing: Missing) -> NodeId {
    let named = missing.holder.filter(|_| missing.asked == 0);
    if let Some(named) = named.filter(|named| members.binary_search(named).is_ok()) {
        return named;
    }
    if missing.asked >= ASKED_BEFORE_SENDER {
        return sender;
    }
    let is_other = |node: &NodeId| *node != cx.node && *node != sender;
    let draw = |_| members[cx.rng.below(members.len() as u32) as usize];
    (0..DRAWS_MAX).map(draw).find(is_other).unwrap_or(sender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Rng, View};

    #[test]
    fn patience_finds_the_time_that_one_repair_in_a_hundred_exceeds() {
        let config = Config::new(View::roster([])).with_lost_after(Duration::from_secs(10));
        let mut patience = Patience::new(&config);
        let mut rng = Rng::new(1, 1);
        let mut longer = 0;
        for turn in 0..60_000 {
            // Uniform over a fifth of a second: the 99th percentile is 198 ms.
            let took = Duration::from_secs_f64(0.2 * rng.unit());
            longer += u32::from(turn >= 30_000 && took > patience.after());
            patience.note(took);
        }
        assert!((200..400).contains(&longer), "{longer} of 30,000 took longer");
        (0..1_000_000).for_each(|_| patience.note(Duration::ZERO));
        assert_eq!(patience.after(), Duration::from_millis(5), "never less than configured");
    }

    #[test]
    fn an_allowance_gathers_for_a_tenth_of_a_second_and_no_longer() {
        let mut bucket = allowance(500);
        let mut granted = |at_ms: u64| {
            let now = Instant::from_nanos(at_ms * 1_000_000);
            (0..1000).filter(|_| bucket.try_take(now, 1.0, 500.0)).count()
        };
        assert_eq!([granted(0), granted(0), granted(10), granted(9_000)], [50, 0, 5, 50]);
        assert!(!allowance(0).try_take(Instant::ZERO, 1.0, 0.0));
        assert!(allowance(1).try_take(Instant::ZERO, 1.0, 1.0), "one is always enough for one");
    }
}
