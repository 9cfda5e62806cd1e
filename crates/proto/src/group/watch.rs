//! The states of the members of the view: from the failure detector of the host, or from one of the
//! group's own where the driver has none.

use std::collections::BTreeMap;
use std::time::Duration;

use super::counters;
use super::message::Message;
use super::{Cx, Group};
use crate::core::{Health, Instant, Lane, Member, NodeId, WatchList, WatchNews, WatchedMember};
use crate::detector::{self, Detector};

/// A member whose host differs from this one, and that is asked this many times in a row without
/// saying that it is in the present view, counts as down: it is no member any more, or hears
/// nothing.
const QUESTIONS_MAX: u32 = 4;

/// What tells the states of members.
#[derive(Default)]
pub(super) enum Watch {
    /// The node has not begun.
    #[default]
    Nothing,
    /// The group's own detector.
    Own(Box<Own>),
    /// The detector of the host.
    Host(HostWatch),
}

/// A failure detector of the group's own.
pub(super) struct Own {
    detector: Detector,
    detected: detector::Output,
}

/// What the host's detector says.
#[derive(Default)]
pub(super) struct HostWatch {
    // The other members that the host is to watch, by node.
    listed: Vec<Member>,
    // Members that are not up.
    healths: BTreeMap<NodeId, Health>,
    // Members whose hosts differ: how often each was asked, and when it may be asked again.
    questions: BTreeMap<NodeId, (u32, Instant)>,
}

impl HostWatch {
    fn lists(&self, node: NodeId) -> bool {
        self.listed.binary_search_by_key(&node, |member| member.node).is_ok()
    }
}

impl Watch {
    /// The group's own detector, if it has one.
    pub(super) fn detector(&self) -> Option<&Detector> {
        match self {
            Watch::Own(own) => Some(&own.detector),
            Watch::Nothing | Watch::Host(_) => None,
        }
    }

    /// The members that are watched, by node.
    pub(super) fn watched(&self) -> Vec<Member> {
        match self {
            Watch::Nothing => Vec::new(),
            Watch::Own(own) => own.detector.watched().collect(),
            Watch::Host(host) => host.listed.clone(),
        }
    }

    /// When [`Group::poll_detector`] is due.
    pub(super) fn deadline(&self) -> Instant {
        self.detector().map_or(Instant::MAX, Detector::deadline)
    }

    /// Nodes of which something is kept besides the view.
    pub(super) fn noted(&self) -> impl Iterator<Item = NodeId> {
        let host = match self {
            Watch::Host(host) => Some(host),
            Watch::Nothing | Watch::Own(_) => None,
        };
        host.into_iter().flat_map(|host| host.healths.keys().chain(host.questions.keys()).copied())
    }

    /// A member has said that it is in the present view.
    pub(super) fn note_present(&mut self, node: NodeId) {
        if let Watch::Host(host) = self {
            host.questions.remove(&node);
        }
    }

    /// This member was paused for this time, which does not count.
    pub(super) fn make_up(&mut self, lost: Duration) {
        if let Watch::Host(host) = self {
            host.questions.values_mut().for_each(|(_, after)| *after += lost);
        }
    }
}

impl Group {
    /// The state of another member of the view, as the failure detector sees it. `None` of any
    /// other node, and before this one joins for the first time.
    pub fn health(&self, node: NodeId) -> Option<Health> {
        match &self.watch {
            Watch::Nothing => None,
            Watch::Own(own) => own.detector.health(node),
            Watch::Host(host) => {
                let health = host.healths.get(&node).copied().unwrap_or(Health::Up);
                host.lists(node).then_some(health)
            }
        }
    }

    /// True unless the detector has given the member up.
    pub(super) fn is_alive(&self, node: NodeId) -> bool {
        node == self.me.member.node
            || (self.health(node) != Some(Health::Down) && !self.expelled.contains(&node))
    }

    /// True if the detector has nothing against the member.
    pub(super) fn is_trusted(&self, node: NodeId) -> bool {
        node == self.me.member.node || self.health(node) == Some(Health::Up)
    }

    /// A node begins, or begins again as another incarnation: it watches nothing.
    pub(super) fn begin_watch(&mut self, cx: &mut Cx<'_>) {
        // Drawn in any case, so that the numbers that follow do not depend on the driver.
        let seed = cx.rng.next_u64();
        self.watch = match cx.host {
            Some(_) => {
                cx.watch(WatchList::default());
                Watch::Host(HostWatch::default())
            }
            None => {
                let detector = Detector::new(cx.shared.detector.clone(), self.me.member, seed);
                Watch::Own(Box::new(Own { detector, detected: detector::Output::default() }))
            }
        };
    }

    /// Watches the members of the view.
    pub(super) fn watch_view(&mut self, cx: &mut Cx<'_>) {
        let (contacts, view) = (&self.contacts, &self.view);
        match &mut self.watch {
            Watch::Nothing => {}
            Watch::Own(_) => {
                let members: Vec<Member> = contacts.iter().map(|contact| contact.member).collect();
                self.with_detector(cx, |detector, now, out| detector.watch(now, &members, out));
            }
            Watch::Host(host) => {
                let me = self.me.member;
                let mut listed = view.members().to_vec();
                listed.retain(|member| member.node != me.node);
                listed.sort_unstable_by_key(|member| member.node);
                // News of members that stay holds; the host repeats none.
                let stays = |node: &NodeId| {
                    host.listed.iter().any(|before| before.node == *node && listed.contains(before))
                };
                host.healths.retain(|node, _| stays(node));
                host.questions.clear();
                host.listed = listed;
                let watched = contacts
                    .iter()
                    .map(|contact| WatchedMember { member: contact.member, host: contact.host });
                let (incarnation, mark) = (me.incarnation, view.digest());
                cx.watch(WatchList { incarnation, mark, members: watched.collect() });
            }
        }
    }

    /// Watches no member.
    pub(super) fn end_watch(&mut self, cx: &mut Cx<'_>) {
        if let Watch::Host(host) = &mut self.watch {
            *host = HostWatch::default();
            cx.watch(WatchList::default());
        }
    }

    /// Has the detector look at a member at once.
    pub(super) fn probe_member(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        match self.watch {
            Watch::Nothing => {}
            Watch::Own(_) => {
                self.with_detector(cx, |detector, now, out| detector.probe(now, node, out));
            }
            Watch::Host(ref host) if host.lists(node) => cx.probe(node),
            Watch::Host(_) => {}
        }
    }

    /// The group's own detector has got a datagram.
    pub(super) fn receive_detector(&mut self, cx: &mut Cx<'_>, from: NodeId, datagram: &[u8]) {
        if self.is_member() && self.view.rank(from).is_none() {
            self.tell_excluded(cx, from);
        } else if self.is_member() {
            self.with_detector(cx, |detector, now, out| {
                // The detector counts malformed datagrams.
                let _ = detector.receive(now, from, datagram, out);
            });
        }
    }

    /// What is due of the group's own detector.
    pub(super) fn poll_detector(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() {
            self.with_detector(cx, |detector, now, out| detector.poll(now, out));
        }
    }

    /// The host's detector has news of a member.
    pub(super) fn note_news(&mut self, cx: &mut Cx<'_>, node: NodeId, news: WatchNews) {
        let Watch::Host(host) = &mut self.watch else { return };
        // News may have been under way when the member left the view.
        if !host.lists(node) {
            return;
        }
        match news {
            WatchNews::Health(health) => {
                match health {
                    Health::Up => host.healths.remove(&node),
                    Health::Suspect | Health::Down => host.healths.insert(node, health),
                };
                self.note_change(cx, health);
            }
            WatchNews::Differs => self.ask_whether_present(cx, node),
        }
    }

    /// The host of a member differs from this one in what they watch each other for: one of them
    /// may have missed a view, or is no member any more. The answer says which.
    fn ask_whether_present(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let (view, is_ending) = (self.view.id(), self.is_ending());
        let Watch::Host(host) = &mut self.watch else { return };
        let (asked, after) = host.questions.entry(node).or_insert((0, cx.now));
        // While a view ends members do not say that they are in it.
        if !is_ending && cx.now >= *after {
            *asked += 1;
            *after = cx.now + cx.shared.answer_within / QUESTIONS_MAX;
        }
        if *asked > QUESTIONS_MAX && self.expelled.insert(node) {
            cx.count(counters::MEMBER_ABSENT, 1);
        }
        cx.count(counters::HOSTS_DIFFER, 1);
        self.send(cx, node, Message::Installed { view });
    }

    /// Calls the group's own detector and carries out what it asks for.
    fn with_detector(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Detector, Instant, &mut detector::Output),
    ) {
        let Watch::Own(own) = &mut self.watch else { return };
        call(&mut own.detector, cx.now, &mut own.detected);
        for (to, bytes) in own.detected.sends.drain(..) {
            cx.send(to, Lane::Datagram, Message::Detector(bytes));
        }
        own.detected.counters.drain_into(&mut cx.outbox.counters);
        for change in std::mem::take(&mut own.detected.changes) {
            self.note_change(cx, change.health);
        }
    }

    fn note_change(&mut self, cx: &mut Cx<'_>, health: Health) {
        let counter = match health {
            Health::Up => counters::MEMBER_UP,
            Health::Suspect => counters::MEMBER_SUSPECTED,
            Health::Down => counters::MEMBER_DOWN,
        };
        cx.count(counter, 1);
        if health == Health::Up {
            self.note_progress(cx);
        }
    }
}
