use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, NodeId};
use paceline_proto::slingshot::{Config, How, Order};

use super::messages::Messages;
use super::packets::{Packets, Source};
use super::repairs::{Fires, Solvable};
use super::{Broken, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Delivered,
    Lost,
}

/// When numbers up to an end were first known of. Both grow.
#[derive(Debug, Default)]
struct Signs(Vec<(u64, Instant)>);

impl Signs {
    fn note(&mut self, end: u64, at: Instant) {
        if self.0.last().is_none_or(|&(last, _)| end > last) {
            self.0.push((end, at));
        }
    }

    /// When a number was first known of.
    fn of(&self, seq: u64) -> Option<Instant> {
        let place = self.0.partition_point(|&(end, _)| end <= seq);
        self.0.get(place).map(|&(_, at)| at)
    }
}

/// What the node reported to the application about a sender's packets.
#[derive(Debug, Default)]
struct Reports {
    outcomes: BTreeMap<u64, Outcome>,
    /// The number after the last one reported, and the number of overruns reported by then.
    next: Option<(u64, u64)>,
    /// Packets that came directly and were reported so at once.
    direct: Signs,
    /// Numbers that need no report: they were sent while the sender and the node were not both in
    /// the group. The last absence extends to the next number reported.
    absences: Vec<(u64, u64)>,
    left_at: Option<u64>,
}

impl Reports {
    /// Past reports stay valid, and the next one may be of any later number.
    fn leave(&mut self) {
        let after_last = self.outcomes.last_key_value().map(|(&last, _)| last + 1);
        self.left_at = self.left_at.or(after_last);
        self.direct = Signs::default();
        // This differs from every reported number of overruns, so a gap is allowed.
        self.next = self.next.map(|(next, _)| (next, u64::MAX));
    }

    /// Notes a reported outcome.
    fn note(&mut self, seq: u64, outcome: Outcome) -> Option<Outcome> {
        if let Some(left_at) = self.left_at.take() {
            self.absences.push((left_at, seq));
        }
        self.outcomes.insert(seq, outcome)
    }
}

/// A delivery, as reported to the application.
pub(super) struct Delivery {
    pub(super) at: Instant,
    pub(super) source: Source,
    pub(super) seq: u64,
    /// The number after that of its last packet.
    pub(super) end: u64,
    /// Its packets.
    pub(super) packets: Vec<u32>,
    pub(super) how: How,
    pub(super) is_late: bool,
}

/// What one node received and reported since it started.
#[derive(Debug, Default)]
pub(super) struct Life {
    reports: BTreeMap<Source, Reports>,
    signs: BTreeMap<(GroupId, NodeId), Signs>,
    /// When others say that they had a packet, at the earliest.
    claims: BTreeMap<(GroupId, NodeId, u64), Instant>,
    /// The first number from which the node must report all packets of a sender, and whether the
    /// sender itself announced it.
    heard: BTreeMap<Source, (u64, bool)>,
    /// What came from its sender, and when.
    direct: BTreeMap<u32, Instant>,
    supplied: BTreeSet<u32>,
    /// Messages of several packets of which some came from the sender before they were reported.
    parts: BTreeSet<(Source, u64)>,
    pub(super) solvable: Solvable,
    pub(super) fires: Fires,
    /// Packets that must be reported by a time.
    due: VecDeque<(Instant, Source, u64)>,
    /// Members of groups since the last command that changed them.
    members: BTreeMap<GroupId, Arc<[NodeId]>>,
    /// A group changed in this call: the packets given up for it are reported during the call.
    regrouped: Option<GroupId>,
    pub(super) unread: usize,
    pub(super) overruns: u64,
}

impl Life {
    /// These are the members of a group from now on.
    pub(super) fn regroup(&mut self, group: GroupId, members: Arc<[NodeId]>) {
        self.members.insert(group, members);
        self.regrouped = Some(group);
    }

    /// True if this node hears the other one in the group.
    pub(super) fn are_together(&self, group: GroupId, node: NodeId, other: NodeId) -> bool {
        let listed = self.members.get(&group);
        listed.is_none_or(|listed| listed.contains(&node) && listed.contains(&other))
    }

    /// Ends the call that changed a group. Members that left may come back with later numbers, but
    /// a packet that was reported is not reported again.
    pub(super) fn part(&mut self, node: NodeId) {
        let Some(group) = self.regrouped.take() else { return };
        let gone: Vec<Source> = self.reports.keys().chain(self.heard.keys()).copied().collect();
        for source in gone {
            if source.0 == group && !self.are_together(group, node, source.1) {
                self.heard.remove(&source);
                self.parts.retain(|&(of, _)| of != source);
                if let Some(reports) = self.reports.get_mut(&source) {
                    reports.leave();
                }
            }
        }
    }

    /// Something says that a sender has sent all packets below `end`.
    pub(super) fn note_sign(&mut self, at: Instant, group: GroupId, sender: NodeId, end: u64) {
        self.signs.entry((group, sender)).or_default().note(end, at);
    }

    /// A repair says that its sender had this packet at this time.
    pub(super) fn note_claim(&mut self, name: (GroupId, NodeId, u64), since: Instant) {
        let earliest = self.claims.entry(name).or_insert(since);
        *earliest = since.min(*earliest);
    }

    /// A sign of a sender's packets, by its own word or another's: the first word of its own says
    /// where they begin, unless an answer of another has been taken for the beginning.
    pub(super) fn hear(&mut self, source: Source, seq: u64, is_own_word: bool) {
        let (begin, is_known) = self.heard.entry(source).or_default();
        if !*is_known {
            *begin = (*begin).max(begin_of(seq));
            *is_known = is_own_word;
        }
    }

    /// A packet came from its sender. True if it is the first time.
    pub(super) fn receive(&mut self, at: Instant, packet: u32) -> bool {
        self.solvable.learn(packet);
        let is_first = !self.direct.contains_key(&packet);
        self.direct.entry(packet).or_insert(at);
        is_first
    }

    /// A packet of a message came from its sender for the first time.
    pub(super) fn receive_part(&mut self, source: Source, first: u64, seq: u64) {
        let is_told = |seq| self.outcome(source, seq).is_some();
        let begins = self.heard.get(&source).is_some_and(|&(begin, _)| first >= begin);
        if begins && !is_told(first) && !is_told(seq) {
            self.parts.insert((source, first));
        }
    }

    /// A packet came from a member that was asked.
    pub(super) fn supply(&mut self, packet: u32) {
        self.solvable.learn(packet);
        self.supplied.insert(packet);
    }

    pub(super) fn has_received(&self, packet: u32) -> bool {
        self.direct.contains_key(&packet)
    }

    /// When a packet came from its sender.
    pub(super) fn received_at(&self, packet: u32) -> Instant {
        self.direct.get(&packet).copied().unwrap_or_default()
    }

    /// The node must report this packet by then, unless it precedes the first one expected.
    pub(super) fn expect(&mut self, by: Instant, source: Source, seq: u64) {
        if self.heard.get(&source).is_some_and(|&(begin, _)| seq >= begin) {
            self.due.push_back((by, source, seq));
        }
    }

    fn outcome(&self, source: Source, seq: u64) -> Option<Outcome> {
        self.reports.get(&source)?.outcomes.get(&seq).copied()
    }

    /// True if the packet, or the message that it is of, was reported, or needs no report since the
    /// message began before its sender was heard.
    fn is_told(&self, source: Source, seq: u64, messages: &Messages) -> bool {
        let first = messages.of(source, seq).map_or(seq, |(first, _)| first);
        let begin = self.heard.get(&source).map_or(0, |&(begin, _)| begin);
        let is_reported = |seq| self.outcome(source, seq).is_some();
        is_reported(seq) || first != seq && (first < begin || is_reported(first))
    }

    /// Checks a delivery to the application.
    pub(super) fn deliver(
        &mut self,
        delivery: &Delivery,
        config: &Config,
        messages: &Messages,
    ) -> Result<(), Broken> {
        let &Delivery { at, source, seq, end, ref packets, how, .. } = delivery;
        let name = format!("{}/{}.{seq}", source.0, source.1);
        let came = match packets[..] {
            [packet] => match how {
                How::Direct => self.direct.contains_key(&packet),
                How::Recovered { .. } => self.solvable.recover(packet),
                How::Pulled { .. } => self.supplied.contains(&packet),
            },
            _ => packets.iter().all(|packet| {
                self.direct.contains_key(packet)
                    || how != How::Direct
                        && (self.supplied.contains(packet) || self.solvable.recover(*packet))
            }),
        };
        let reports = self.reports.entry(source).or_default();
        for seq in seq..end {
            match reports.note(seq, Outcome::Delivered) {
                Some(Outcome::Delivered) => return Err((Rule::Once, format!("told {name} again"))),
                Some(Outcome::Lost) => {
                    return Err((
                        Rule::Time,
                        format!("delivered {name} after it had reported it lost"),
                    ));
                }
                None => {}
            }
        }
        if !came {
            return Err((Rule::Repair, format!("told {name}, which did not come so: {how:?}")));
        }
        packets.iter().for_each(|&packet| self.solvable.learn(packet));
        // After an absence the member knows the life that a repair's packets are of: the first that
        // is computed may be where they begin again.
        self.heard.entry(source).or_insert((begin_of(seq), true));
        self.check_time(delivery, &name, config)?;
        self.check_order(source, seq, end, config.order(), messages)?;
        if how == How::Direct && config.order() == Order::Unordered {
            self.note_direct(at, source, end - 1, config.lost_after());
        }
        Ok(())
    }

    fn check_time(&self, delivery: &Delivery, name: &str, config: &Config) -> Result<(), Broken> {
        let &Delivery { at, source, seq, end, how, is_late, .. } = delivery;
        let deadline = config.deadline();
        let signs = self.signs.get(&(source.0, source.1));
        let known = signs.and_then(|signs| signs.of(seq)).unwrap_or(at);
        let is_message = end > seq + 1;
        // The time of a message counts from the first sign of it here, whatever others claim.
        let claimed = self.claims.get(&(source.0, source.1, seq)).filter(|_| !is_message);
        let since = claimed.map_or(known, |&claimed| claimed.min(known));
        let longest = at.since(since);
        if let How::Recovered { after } | How::Pulled { after } = how
            && (after > longest || is_late != (after > deadline))
        {
            let what = format!("told {name} after {after:?} of {longest:?}, late: {is_late}");
            return Err((Rule::Time, what));
        }
        if is_late && longest <= deadline {
            return Err((Rule::Time, format!("flagged {name} late after {longest:?}")));
        }
        let first_came = self.first_came(delivery);
        if let Some(first_came) = first_came.filter(|_| !is_late && is_message)
            && at.since(first_came) > deadline
        {
            let what = format!("told {name} after {:?}, not flagged late", at.since(first_came));
            return Err((Rule::Time, what));
        }
        let certain = self.reports.get(&source).and_then(|reports| reports.direct.of(seq));
        if let Some(since) = certain.filter(|_| !is_late)
            && config.order() == Order::Unordered
            && at.since(since) > deadline
        {
            let what = format!("told {name} after {:?}, not flagged late", at.since(since));
            return Err((Rule::Time, what));
        }
        Ok(())
    }

    /// When the first of the packets of a delivery came from its sender.
    fn first_came(&self, delivery: &Delivery) -> Option<Instant> {
        delivery.packets.iter().filter_map(|packet| self.direct.get(packet)).min().copied()
    }

    fn check_order(
        &mut self,
        source: Source,
        first: u64,
        end: u64,
        order: Order,
        messages: &Messages,
    ) -> Result<(), Broken> {
        let overruns = self.overruns;
        let reports = self.reports.entry(source).or_default();
        let before = reports.next.replace((end, overruns));
        let is_told = |seq| self.is_told(source, seq, messages);
        if let Some((next, overruns_then)) = before
            && order == Order::Fifo
            && (first < next || (overruns == overruns_then && !(next..first).all(is_told)))
        {
            let what = format!("told {}/{}.{first}, not {next}", source.0, source.1);
            return Err((Rule::Accounting, what));
        }
        Ok(())
    }

    /// What came directly shows what is missing before it.
    fn note_direct(&mut self, at: Instant, source: Source, seq: u64, lost_after: Duration) {
        let reports = self.reports.entry(source).or_default();
        let known = reports.direct.0.last().map_or_else(|| first_of(reports), |&(end, _)| end);
        reports.direct.note(seq + 1, at);
        let is_gap = |seq: &u64| !reports.outcomes.contains_key(seq);
        let gaps: Vec<u64> = (known..seq).filter(is_gap).collect();
        gaps.into_iter().for_each(|gap| self.expect(at + lost_after, source, gap));
    }

    /// Checks a report that a packet is lost.
    pub(super) fn check_loss(
        &mut self,
        source: Source,
        seq: u64,
        order: Order,
        packets: &Packets,
        messages: &Messages,
    ) -> Result<(), Broken> {
        let name = format!("{}/{}.{seq}", source.0, source.1);
        // Of a message that its sender did not finish, all packets are lost.
        if packets.sent(source, seq).is_none() && messages.of(source, seq).is_none() {
            return Err((Rule::Accounting, format!("reported {name} lost, which was never sent")));
        }
        let reports = self.reports.entry(source).or_default();
        if reports.note(seq, Outcome::Lost).is_some() {
            return Err((
                Rule::Accounting,
                format!(
                    "reported {name} lost after an earlier report of \
                it"
                ),
            ));
        }
        self.check_order(source, seq, seq + 1, order, messages)
    }

    /// Checks a report of losses against the messages of several packets: one of which packets came
    /// is reported by itself, and whole.
    pub(super) fn check_lost_messages(
        &mut self,
        source: Source,
        lost: Range<u64>,
        came: u32,
        messages: &Messages,
    ) -> Result<(), Broken> {
        let name = format!("{}/{}.{}", source.0, source.1, lost.start);
        let begin = self.heard.get(&source).map_or(0, |&(begin, _)| begin);
        let among = messages.among(source, lost.start, lost.end);
        let (of, end) = among.first().copied().unwrap_or((u64::MAX, 0));
        if came > 0 && (of != lost.start || lost.end > end || u64::from(came) >= end - of) {
            let what =
                format!("reported {came} packets of a message from {name} on: none begins there");
            return Err((Rule::Accounting, what));
        }
        for (first, _) in among {
            let is_told = self.outcome(source, first).is_some();
            if came == 0 && !is_told && self.parts.contains(&(source, first)) {
                let what = format!("reported {name} lost, and not the message from {first} on");
                return Err((Rule::Accounting, what));
            }
            if came > 0 && first < begin {
                let what = format!("reported {name} lost, which began before its sender was heard");
                return Err((Rule::Accounting, what));
            }
        }
        Ok(())
    }

    /// Checks that every packet due by now was reported. `has_overrun`: some may be dropped.
    pub(super) fn check_due(
        &mut self,
        now: Instant,
        has_overrun: bool,
        messages: &Messages,
    ) -> Result<(), Broken> {
        while let Some(&(by, source, seq)) = self.due.front() {
            if by >= now {
                break;
            }
            self.due.pop_front();
            if !has_overrun && !self.is_told(source, seq, messages) {
                let what = format!("{}/{}.{seq} neither delivered nor lost", source.0, source.1);
                return Err((Rule::Accounting, what));
            }
        }
        Ok(())
    }

    /// The number of packets without a report between the first and the last reported packet of
    /// each sender, and the name of one.
    pub(super) fn holes(&self, messages: &Messages) -> (u64, Option<String>) {
        let (mut holes, mut example) = (0, None);
        for (&source, reports) in &self.reports {
            let last = reports.outcomes.last_key_value().map_or(0, |(&last, _)| last);
            let is_absent = |seq: u64| {
                reports.absences.iter().any(|&(from, until)| (from..until).contains(&seq))
            };
            let of_all = (first_of(reports)..last).filter(|&seq| !is_absent(seq));
            for seq in of_all.filter(|&seq| !self.is_told(source, seq, messages)) {
                holes += 1;
                example.get_or_insert_with(|| format!("{}/{}.{seq}", source.0, source.1));
            }
        }
        (holes, example)
    }
}

/// The first packet that was reported, or that had to be.
fn first_of(reports: &Reports) -> u64 {
    reports.outcomes.first_key_value().map_or(0, |(&first, _)| begin_of(first))
}

/// Where the packets of a sender begin of which this one is the first that is heard of: one below
/// 16 is taken for one of a sender that began just now.
fn begin_of(seq: u64) -> u64 {
    if seq < 16 { 0 } else { seq }
}
