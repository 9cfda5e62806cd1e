//! Links between live members that carry nothing.
//!
//! The failure detector judges members: a member that another cannot reach is alive as long as a
//! third one reaches it. The broadcast needs links: a block that cannot pass a link stops its
//! origin, and so do acknowledgements that do not come back. So each member watches its own links.
//! A link is *dead* if this end has something to carry and the peer acknowledges nothing for
//! `link_dead_after`. This end then reports it to all members ([`Message::Unreachable`]), again and
//! again while it lasts. A peer with a slow application acknowledges what arrives, or answers a
//! probe, so flow control never makes a link look dead.
//!
//! From the reported links, each member computes which members the next view leaves out
//! ([`choose_left_out`]): of each dead link the end with more dead links, then the younger end, as
//! long as a quorum remains. These members count as down. A member proposes to leave another out
//! only if a third member has reported it as well, since an end of a link cannot tell which of the
//! two is at fault. A group of two has no third member; there the detector finds the link.
//!
//! A member that was left out asks to join at once, possibly while the link is still dead. It has
//! to wait, longer each time, and until the member at the other end of the link has had an answer
//! over it ([`Message::Challenge`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::counters;
use super::join::Joiner;
use super::message::{Contact, Message};
use super::{Cx, Group};
use crate::chain::Chain;
use crate::core::{Instant, NodeId, View, ViewId};

/// A member looks at its links this many times in `link_dead_after`.
const LOOKS: u32 = 20;
/// After this many looks without progress it asks the peer for an acknowledgement, which may have
/// got lost.
const ASK_LOOKS: u32 = 5;
/// A report that is not repeated for this many looks is over.
const REPORT_LOOKS: u32 = 8;
/// While at most this many frames are unacknowledged on a hop, a shrinking backlog counts as
/// progress: a slow link carries large blocks. More of them mean that acknowledgements do not
/// arrive.
const SLOW_FRAMES_MAX: u64 = 8;
/// How long a member that was left out is kept out at first. Doubled each time.
const KEPT_OUT_MIN: Duration = Duration::from_secs(5);
/// The most of that. A member that has been back for as long counts as never left out.
const KEPT_OUT_MAX: Duration = Duration::from_secs(600);
/// Nodes that are kept out at the same time.
const KEPT_OUT_NODES_MAX: usize = 256;

/// A block that some members have and others lack, although all links work, is lost for good once
/// no other member has got it for this many `link_dead_after`, and for this many times as long as
/// it took to come so far: a member that should have passed it on lies, or has lost it.
const LOST_BLOCK_WAITS: u32 = 4;

/// A link between two members, by their ranks, the lower one first.
type Edge = (u32, u32);

/// A member's record of dead links.
#[derive(Debug)]
pub(super) struct Links {
    // When to look at the own links; `MAX` while they have nothing to carry.
    pub(super) look_at: Instant,
    // The own links, by the peer's rank.
    watches: Vec<Watch>,
    // Links that were reported in the present view, and until when that holds.
    dead: BTreeMap<Edge, Instant>,
    // The ranks of the members that the next view must leave out.
    left_out: BTreeSet<u32>,
    // Nodes that may not join yet.
    kept_out: BTreeMap<NodeId, KeptOut>,
    // The own block that is awaited longest.
    awaited: Option<AwaitedBlock>,
    /// That block has got lost: the members can have it once the view ends.
    pub(super) has_lost_block: bool,
}

/// A block that some member lacks.
#[derive(Debug)]
struct AwaitedBlock {
    seq: u64,
    since: Instant,
    // Other members that have it, and when their number grew last.
    members: usize,
    got_at: Instant,
}

impl Default for Links {
    fn default() -> Links {
        Links {
            look_at: Instant::MAX,
            watches: Vec::new(),
            dead: BTreeMap::new(),
            left_out: BTreeSet::new(),
            kept_out: BTreeMap::new(),
            awaited: None,
            has_lost_block: false,
        }
    }
}

/// A number that has to change.
#[derive(Debug)]
struct Still {
    mark: Option<u64>,
    since: Instant,
}

impl Still {
    fn new(now: Instant) -> Still {
        Still { mark: None, since: now }
    }

    /// For how long the number has been the same; it need not change while it is `None`.
    fn look(&mut self, now: Instant, mark: Option<u64>) -> Duration {
        if mark.is_none() || mark != self.mark {
            *self = Still { mark, since: now };
        }
        now.since(self.since)
    }
}

/// The link to one member.
#[derive(Debug)]
struct Watch {
    // Frames acknowledged on the hop to it.
    hop: Still,
    // Acknowledgements of own blocks.
    answers: Still,
    // Messages to it alone.
    direct: Still,
    // Bytes that waited for the stream at the last look.
    backlog: usize,
    // Acknowledgements of any kind that have come.
    heard: u64,
    is_dead: bool,
}

impl Watch {
    fn new(now: Instant) -> Watch {
        let still = || Still::new(now);
        let (hop, answers, direct) = (still(), still(), still());
        Watch { hop, answers, direct, backlog: 0, heard: 0, is_dead: false }
    }
}

/// A node that the group went on without because of a dead link.
#[derive(Debug)]
struct KeptOut {
    until: Instant,
    // How often it was left out.
    times: u32,
    // The members at the other ends.
    over: BTreeSet<NodeId>,
    // If this member is one of them: what the node has to send back over the link.
    echo: Option<Echo>,
}

#[derive(Debug)]
struct Echo {
    token: u64,
    nonce: u64,
    is_proven: bool,
}

/// Chooses the members that a view leaves out, by rank, so that no two of the others have a dead
/// link between them: first the ends with the most dead links, then the younger. Keeps every member
/// without which there would be no quorum.
fn choose_left_out(
    dead: impl Iterator<Item = Edge>,
    alive: &[u32],
    is_quorum: impl Fn(&[u32]) -> bool,
) -> BTreeSet<u32> {
    let mut edges: Vec<Edge> =
        dead.filter(|(a, b)| alive.contains(a) && alive.contains(b)).collect();
    let (mut rest, mut left_out) = (alive.to_vec(), BTreeSet::new());
    while !edges.is_empty() {
        let mut links: BTreeMap<u32, u32> = BTreeMap::new();
        edges.iter().for_each(|&(a, b)| {
            *links.entry(a).or_default() += 1;
            *links.entry(b).or_default() += 1;
        });
        let mut ends: Vec<(u32, u32)> = links.iter().map(|(&rank, &links)| (links, rank)).collect();
        ends.sort_unstable();
        let without = |rank: u32| -> Vec<u32> {
            rest.iter().copied().filter(|&other| other != rank).collect()
        };
        let ends = ends.into_iter().rev().map(|(_, rank)| rank);
        let Some(rank) = ends.into_iter().find(|&rank| is_quorum(&without(rank))) else { break };
        rest = without(rank);
        left_out.insert(rank);
        edges.retain(|&(a, b)| a != rank && b != rank);
    }
    left_out
}

impl Links {
    /// A view begins.
    pub(super) fn enter(&mut self, now: Instant, members: usize) {
        self.watches = (0..members).map(|_| Watch::new(now)).collect();
        self.dead.clear();
        self.left_out.clear();
        (self.awaited, self.has_lost_block) = (None, false);
    }

    /// This member was paused for `lost`, which does not count against its peers.
    pub(super) fn make_up(&mut self, lost: Duration) {
        for watch in &mut self.watches {
            for still in [&mut watch.hop, &mut watch.answers, &mut watch.direct] {
                still.since += lost;
            }
        }
        self.dead.values_mut().for_each(|until| *until += lost);
        if let Some(awaited) = &mut self.awaited {
            awaited.since += lost;
            awaited.got_at += lost;
        }
    }

    /// An acknowledgement of any kind has come from the member of this rank.
    pub(super) fn note_heard(&mut self, rank: usize) {
        if let Some(watch) = self.watches.get_mut(rank) {
            watch.heard += 1;
        }
    }

    /// True if the next view must leave out the member of this rank.
    pub(super) fn leaves_out(&self, rank: u32) -> bool {
        self.left_out.contains(&rank)
    }

    /// How many other members the next view must leave out.
    pub(super) fn left_out_but(&self, rank: u32) -> usize {
        self.left_out.len() - usize::from(self.left_out.contains(&rank))
    }

    /// True if the member of this rank may propose a view that leaves others out: it is not left
    /// out itself, and a link to one of them is dead at a member other than this one.
    pub(super) fn may_propose(&self, rank: u32) -> bool {
        let mut dead = self.dead.keys();
        !self.leaves_out(rank)
            && dead
                .any(|&(a, b)| (self.leaves_out(a) || self.leaves_out(b)) && a != rank && b != rank)
    }

    /// The place of a member in the order in which members propose: first those that may leave
    /// others out, then their accusers, then those that the view will leave out; within each class
    /// the oldest first.
    pub(super) fn place(&self, rank: u32) -> (bool, bool, u32) {
        if self.left_out.is_empty() {
            return (false, false, rank);
        }
        (self.leaves_out(rank), !self.may_propose(rank), rank)
    }

    /// Notes that a node was left out because of its links to `over`.
    fn keep_out(&mut self, now: Instant, node: NodeId, over: BTreeSet<NodeId>) {
        self.kept_out.retain(|_, kept| now < kept.until + KEPT_OUT_MAX);
        let times = self.kept_out.get(&node).map_or(0, |kept| kept.times);
        let pause = KEPT_OUT_MIN.saturating_mul(1 << times.min(16)).min(KEPT_OUT_MAX);
        if self.kept_out.len() >= KEPT_OUT_NODES_MAX && !self.kept_out.contains_key(&node) {
            let first = self.kept_out.iter().min_by_key(|(_, kept)| kept.until);
            if let Some(first) = first.map(|(&node, _)| node) {
                self.kept_out.remove(&first);
            }
        }
        let kept = KeptOut { until: now + pause, times: times + 1, over, echo: None };
        self.kept_out.insert(node, kept);
    }

    /// True if the node is kept out because of its link to `member`.
    pub(super) fn is_kept_out_over(&self, node: NodeId, member: NodeId) -> bool {
        self.kept_out.get(&node).is_some_and(|kept| kept.over.contains(&member))
    }

    /// The member because of whose link the joiner may not join yet, and whether it is time for
    /// that link to be proven.
    pub(super) fn bar(
        &self,
        now: Instant,
        me: NodeId,
        view: &View,
        joiner: &Joiner,
    ) -> Option<(NodeId, bool)> {
        let kept = self.kept_out.get(&joiner.contact.member.node)?;
        // A member that is gone needs no link.
        let mut over = kept.over.iter().copied().filter(|&peer| view.rank(peer).is_some());
        if now < kept.until {
            return Some((over.next()?, false));
        }
        let is_proven = |peer: NodeId| match peer == me {
            true => joiner.is_proven,
            false => joiner.vouched.contains(&peer),
        };
        Some((over.find(|&peer| !is_proven(peer))?, true))
    }

    /// Bytes of what is known of links and of nodes that are kept out.
    pub(super) fn memory_bytes(&self) -> usize {
        let over: usize = self.kept_out.values().map(|kept| kept.over.len()).sum();
        self.watches.len() * size_of::<Watch>()
            + self.dead.len() * size_of::<(Edge, Instant)>()
            + self.kept_out.len() * size_of::<(NodeId, KeptOut)>()
            + over * size_of::<NodeId>()
    }

    /// The nonce that a node must return if it is kept out because of its link to this member;
    /// `None` if it has returned it, or is not kept out for that.
    pub(super) fn echo(&mut self, contact: &Contact, draw: impl FnOnce() -> u64) -> Option<u64> {
        let kept = self.kept_out.get_mut(&contact.member.node)?;
        if kept.echo.as_ref().is_none_or(|echo| echo.token != contact.token) {
            kept.echo = Some(Echo { token: contact.token, nonce: draw(), is_proven: false });
        }
        kept.echo.as_ref().filter(|echo| !echo.is_proven).map(|echo| echo.nonce)
    }

    /// The node sent this back. False if it was not what it was sent.
    pub(super) fn take_echo(&mut self, node: NodeId, nonce: u64) -> bool {
        let echo = self.kept_out.get_mut(&node).and_then(|kept| kept.echo.as_mut());
        let echo = echo.filter(|echo| echo.nonce == nonce);
        echo.is_some_and(|echo| {
            echo.is_proven = true;
            true
        })
    }
}

fn look_every(cx: &Cx<'_>) -> Duration {
    cx.shared.link_dead_after / LOOKS
}

impl Group {
    /// Something may be on its way: looks at the links soon.
    pub(super) fn watch_links(&mut self, cx: &Cx<'_>) {
        if self.links.look_at == Instant::MAX && self.is_member() && self.view.len() > 1 {
            self.links.look_at = cx.now + look_every(cx);
        }
    }

    /// Looks at the own links, if it is time. Asks peers that acknowledge nothing, and reports
    /// those that have not for too long.
    pub(super) fn look_at_links(&mut self, cx: &mut Cx<'_>) {
        if cx.now < self.links.look_at {
            return;
        }
        self.links.look_at = Instant::MAX;
        let Some(me) = self.rank_of_me().filter(|_| self.is_member()) else { return };
        let (now, every) = (cx.now, look_every(cx));
        let mut awaits = vec![false; self.view.len()];
        self.chain.awaited().for_each(|rank| awaits[rank] = true);
        let (mut has_load, mut asked, mut dead) = (false, Vec::new(), Vec::new());
        for (rank, awaits) in awaits.into_iter().enumerate().filter(|&(rank, _)| rank != me) {
            let node = self.view.node(rank);
            // While the view ends nothing passes, and a member that is down is not waited for.
            let is_watched = !self.is_ending() && self.is_alive(node);
            let backlog = cx.backlog_bytes(node);
            let hop = self.chain.hop_progress(&cx.shared.chain, node, backlog);
            let hop = hop.filter(|_| is_watched);
            let direct = self.post.progress(node).filter(|_| is_watched);
            let watch = &mut self.links.watches[rank];
            // Bytes that leave for the peer show that its host accepts them, before the block is
            // complete.
            if std::mem::replace(&mut watch.backlog, backlog) > backlog
                && hop.is_none_or(|hop| hop.is_open && hop.unacknowledged <= SLOW_FRAMES_MAX)
            {
                (watch.hop.mark, watch.direct.mark) = (None, None);
            }
            let chain = [
                watch.hop.look(now, hop.map(|hop| hop.acknowledged)),
                watch.answers.look(now, (awaits && is_watched).then_some(watch.heard)),
            ];
            // Blocks that arrived may wait for the application, which may be slow.
            let mark = direct.map(|direct| match direct.is_under_way {
                true => direct.received << 1,
                false => watch.heard << 1 | 1,
            });
            let direct_still = watch.direct.look(now, mark);
            has_load |= hop.is_some() || direct.is_some() || awaits;
            let still = chain.into_iter().max().unwrap_or_default();
            if still >= every * ASK_LOOKS {
                asked.push(node);
            }
            let is_dead = still.max(direct_still) >= cx.shared.link_dead_after;
            let was_dead = std::mem::replace(&mut watch.is_dead, is_dead);
            if is_dead && !was_dead {
                cx.count(counters::LINK_DEAD, 1);
            }
            dead.extend(is_dead.then_some(rank as u32));
        }
        if has_load || self.is_ending() {
            self.links.look_at = now + every;
        }
        self.look_for_lost_block(cx);
        for node in asked {
            self.with_chain(cx, |chain: &mut Chain, cx| chain.ask(cx, node));
        }
        if !dead.is_empty() {
            self.report_dead(cx, me as u32, &dead);
        }
    }

    /// Looks how long the own block is under way that some member has lacked longest.
    fn look_for_lost_block(&mut self, cx: &mut Cx<'_>) {
        let links = &mut self.links;
        let first = self.chain.first_unstable().filter(|_| self.acceptor.promised.is_none());
        let Some((seq, members)) = first else {
            (links.awaited, links.has_lost_block) = (None, false);
            return;
        };
        let new = AwaitedBlock { seq, since: cx.now, members: 0, got_at: cx.now };
        let awaited = match &mut links.awaited {
            Some(awaited) if awaited.seq == seq => awaited,
            awaited => {
                links.has_lost_block = false;
                awaited.insert(new)
            }
        };
        if members > awaited.members {
            (awaited.members, awaited.got_at) = (members, cx.now);
        }
        let wait = cx.shared.link_dead_after.max(awaited.got_at.since(awaited.since));
        let is_lost =
            awaited.members > 0 && cx.now.since(awaited.got_at) >= wait * LOST_BLOCK_WAITS;
        if is_lost && !std::mem::replace(&mut links.has_lost_block, true) {
            cx.count(counters::BLOCK_LOST, 1);
        }
    }

    fn report_dead(&mut self, cx: &mut Cx<'_>, me: u32, dead: &[u32]) {
        for &rank in dead {
            self.note_dead(cx, me, rank);
        }
        let message = Message::Unreachable { view: self.view.id(), members: dead.to_vec() };
        for rank in (0..self.view.len()).filter(|&rank| rank != me as usize) {
            self.send(cx, self.view.node(rank), message.clone());
        }
    }

    fn note_dead(&mut self, cx: &Cx<'_>, one: u32, other: u32) {
        let until = cx.now + look_every(cx) * REPORT_LOOKS;
        self.links.dead.insert((one.min(other), one.max(other)), until);
    }

    pub(super) fn receive_unreachable(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        members: &[u32],
    ) {
        let rank = self.view.rank(from).filter(|_| self.is_member() && view == self.view.id());
        let Some(rank) = rank else { return cx.count(counters::FOREIGN_REPORT, 1) };
        self.tell_that_view_ends(cx, from);
        let (rank, len) = (rank as u32, self.view.len() as u32);
        for &member in members {
            if member >= len || member == rank {
                return cx.count(counters::BAD_REPORT, 1);
            }
            self.note_dead(cx, rank, member);
        }
    }

    /// Recomputes which members the next view must leave out.
    pub(super) fn judge_links(&mut self, cx: &Cx<'_>) {
        if self.links.dead.is_empty() && self.links.left_out.is_empty() {
            return;
        }
        self.links.dead.retain(|_, until| cx.now < *until);
        self.links.left_out.clear();
        let alive = self.alive_ranks();
        let dead = self.links.dead.keys().copied();
        self.links.left_out = choose_left_out(dead, &alive, |ranks| self.is_quorum(ranks));
    }

    /// The next view begins, without the members that it was to go on without: they do not come
    /// back before their links work.
    pub(super) fn keep_out_unreachable(&mut self, cx: &mut Cx<'_>, next: &[Contact]) {
        let is_in_next = |node: NodeId| next.iter().any(|contact| contact.member.node == node);
        let mut gone: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
        for &(a, b) in self.links.dead.keys() {
            let (a, b) = (self.view.node(a as usize), self.view.node(b as usize));
            for (node, peer) in [(a, b), (b, a)] {
                if !is_in_next(node) && is_in_next(peer) && self.is_alive(node) {
                    gone.entry(node).or_default().insert(peer);
                }
            }
        }
        let me = self.me.member.node;
        for (node, over) in gone {
            cx.count(counters::LEFT_OUT, 1);
            if over.contains(&me) {
                // A stream that waits for a lost packet tries again only after a while, which is
                // longer the longer the link was dead: a new one is up as soon as that works.
                cx.disconnect(node);
            }
            self.links.keep_out(cx.now, node, over);
        }
    }

    /// The group went on without this member: gives up the streams over its dead links.
    pub(super) fn disconnect_dead(&mut self, cx: &mut Cx<'_>) {
        let Some(me) = self.rank_of_me().map(|rank| rank as u32) else { return };
        for &(a, b) in self.links.dead.keys().filter(|&&(a, b)| a == me || b == me) {
            cx.disconnect(self.view.node(if a == me { b } else { a } as usize));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than half of `members`, or half with the oldest.
    fn is_quorum(members: usize) -> impl Fn(&[u32]) -> bool {
        move |ranks| 2 * ranks.len() > members || (2 * ranks.len() == members && ranks.contains(&0))
    }

    fn left_out(members: u32, dead: &[Edge]) -> Vec<u32> {
        let alive: Vec<u32> = (0..members).collect();
        let left_out = choose_left_out(dead.iter().copied(), &alive, is_quorum(members as usize));
        left_out.into_iter().collect()
    }

    #[test]
    fn of_a_dead_link_the_end_with_more_of_them_goes_then_the_younger_one() {
        assert_eq!(left_out(5, &[(1, 3)]), [3]);
        assert_eq!(left_out(5, &[(0, 2), (0, 4)]), [0]);
        assert_eq!(left_out(5, &[(0, 1), (2, 3)]), [1, 3]);
        assert_eq!(left_out(3, &[]), [0; 0]);
    }

    #[test]
    fn nobody_goes_whose_absence_would_cost_the_quorum() {
        // Of three two are needed, of four three, or two with the oldest.
        assert_eq!(left_out(3, &[(0, 1), (0, 2), (1, 2)]), [2]);
        // Two of the links are 2's, then one is left; 0 and 3 stay, half with the oldest.
        assert_eq!(left_out(4, &[(0, 1), (1, 2), (2, 3)]), [1, 2]);
        assert_eq!(left_out(4, &[(0, 1), (0, 2), (0, 3)]), [0]);
        let alive = [0, 1, 2];
        let none = choose_left_out([(1, 2)].into_iter(), &alive, is_quorum(5));
        assert!(none.is_empty(), "two of five are down already");
        // One that is down has no say.
        let other = choose_left_out([(1, 2), (0, 3)].into_iter(), &alive, is_quorum(3));
        assert_eq!(other.into_iter().collect::<Vec<_>>(), [2]);
    }

    fn accused(members: u32, dead: &[Edge]) -> Links {
        let left_out = left_out(members, dead).into_iter().collect();
        let dead = dead.iter().map(|&edge| (edge, Instant::MAX)).collect();
        Links { dead, left_out, ..Links::default() }
    }

    #[test]
    fn only_a_member_that_is_no_end_of_a_dead_link_proposes_to_leave_an_end_out() {
        let proposers = |links: &Links, members: u32| -> Vec<u32> {
            (0..members).filter(|&rank| links.may_propose(rank)).collect()
        };
        assert_eq!(proposers(&accused(4, &[(0, 1)]), 4), [2, 3]);
        assert_eq!(proposers(&accused(2, &[(0, 1)]), 2), [0; 0], "no member can");
        // Two say that they cannot reach it: each has the other's word.
        assert_eq!(proposers(&accused(3, &[(0, 1), (0, 2)]), 3), [1, 2]);
        assert_eq!(proposers(&accused(4, &[(0, 1), (2, 3)]), 4), [0, 2]);
        let links = accused(4, &[(0, 1)]);
        let mut order = [0, 1, 2, 3];
        order.sort_by_key(|&rank| links.place(rank));
        assert_eq!(order, [2, 3, 0, 1]);
    }

    #[test]
    fn each_time_a_node_is_kept_out_for_twice_as_long_up_to_ten_minutes() {
        let (mut links, node) = (Links::default(), NodeId(7));
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..9 {
            links.keep_out(now, node, BTreeSet::from([NodeId(1)]));
            pauses.push((links.kept_out[&node].until - now).as_secs());
            now = links.kept_out[&node].until + Duration::from_secs(6);
        }
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        now += KEPT_OUT_MAX;
        links.keep_out(now, node, BTreeSet::from([NodeId(1)]));
        assert_eq!(links.kept_out[&node].until - now, KEPT_OUT_MIN, "it was back for long");
        for other in 0..1000 {
            links.keep_out(now, NodeId(other), BTreeSet::new());
        }
        assert_eq!(links.kept_out.len(), KEPT_OUT_NODES_MAX);
    }

    #[test]
    fn a_number_that_need_not_change_is_never_still() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut still = Still::new(at(0));
        assert_eq!(still.look(at(9), None), Duration::ZERO);
        assert_eq!(still.look(at(10), Some(3)), Duration::ZERO);
        assert_eq!(still.look(at(14), Some(3)), Duration::from_secs(4));
        assert_eq!(still.look(at(15), Some(4)), Duration::ZERO);
        assert_eq!(still.look(at(19), None), Duration::ZERO);
    }
}
