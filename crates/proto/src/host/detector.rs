//! One failure detector for all services of a host.
//!
//! A service names the members that it wants watched ([`WatchList`]), each with the incarnation of
//! its host. Hosts watch hosts: the detector's datagrams depend on the number of hosts and not on
//! the number of services. A member is up while its host is, unless that host has said that the
//! member ended ([`HostMessage::Ended`]).
//!
//! Two lists may name different runs of one host: one of them is out of date, or a member lies. The
//! run that the host itself named last is the present one, and members of other runs are down. A
//! run that was listed shortly before may not have been heard from yet, and is given time.
//!
//! A member of which the others went on is not watched by them, and would not learn it while all
//! hosts are up. So each datagram of the detector carries a hash of what its sender watches the
//! receiver for. If the two ends differ for long, the services are told
//! ([`WatchNews::Differs`]), and ask the member.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use bytes::Bytes;

use super::ServicePlace;
use super::counters;
use crate::core::field::{ToEnd, messages};
use crate::core::{
    Counters, DecodeError, Health, Instant, Member, NodeId, ServiceNumber, WatchList, WatchNews,
    WatchedMember, decode_exact, mix,
};
use crate::detector::{self, Detector};

/// How long two hosts may differ in what they watch each other for. They do not install a view at
/// the same time.
const DIFFER_FOR: Duration = Duration::from_secs(1);
/// How long after a run of a host was first listed a datagram of an earlier run may arrive.
const OVERTAKEN_FOR: Duration = Duration::from_secs(2);

messages! {
    /// What hosts send to each other, by datagram.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum HostMessage {
        /// Of the failure detector.
        0 => Detector {
            /// A hash of what the sender watches the receiver for; 0 if for nothing.
            tie: u32,
            /// The detector's datagram.
            datagram: Bytes as ToEnd,
        } ["detector {} B", datagram.len()],
        /// A service of the sender ended without leaving: its member is down although its host is
        /// up.
        1 => Ended {
            /// The service's number.
            service: u32,
            /// The incarnation by which its members know it.
            incarnation: u64,
        } ["service {service:08x} ended"],
    }
}

/// What follows from the calls of a [`HostDetector`]. Emptied by the driver.
#[derive(Debug, Default)]
pub struct HostOutput {
    /// Datagrams to send, in order.
    pub sends: Vec<(NodeId, HostMessage)>,
    /// News for services, in order.
    pub news: Vec<(ServicePlace, NodeId, WatchNews)>,
    /// Counts since the driver last took them.
    pub counters: Counters,
}

/// The failure detector of a host.
///
/// Every call takes the present, which must not go back, and adds to [`HostDetector::out`]. Its
/// state is bounded by the lists of the services.
pub struct HostDetector {
    /// What follows from the calls until now.
    pub out: HostOutput,
    detector: Detector,
    detected: detector::Output,
    me: NodeId,
    lists: BTreeMap<ServicePlace, Listed>,
    peers: BTreeMap<NodeId, Peer>,
    // No peer's `differs_at` is before it.
    differs_from: Instant,
}

/// What a service has named.
#[derive(Debug)]
struct Listed {
    number: ServiceNumber,
    incarnation: u64,
    nodes: Vec<NodeId>,
}

/// A node that services watch.
#[derive(Debug)]
struct Peer {
    /// The run that the detector watches.
    target: u64,
    /// The run that the node named last, and when.
    heard: Option<(u64, Instant)>,
    /// By service.
    wanted: BTreeMap<ServicePlace, Wanted>,
    /// The hash of what the host watches the node for.
    tie: u32,
    /// The hash that its last datagram carried.
    tie_heard: u32,
    /// When the services are told that the two hosts differ.
    differs_at: Instant,
}

/// A member that a service watches.
#[derive(Debug)]
struct Wanted {
    watched: WatchedMember,
    mark: u32,
    since: Instant,
    /// Its host has named this run.
    was_heard: bool,
    has_ended: bool,
    /// The state that the service knows.
    told: Health,
}

impl Peer {
    /// True if the node runs another incarnation than that of this member's host.
    fn is_gone(&self, wanted: &Wanted) -> bool {
        self.heard.is_some_and(|(run, at)| {
            run != wanted.watched.host && (wanted.was_heard || at >= wanted.since + OVERTAKEN_FOR)
        })
    }

    /// The run to watch. `is_down` if the detector has given up the present one.
    fn choose(&self, is_down: bool) -> u64 {
        let open = || self.wanted.values().filter(|wanted| !self.is_gone(wanted));
        let is_open = |run: u64| open().any(|wanted| wanted.watched.host == run);
        let newest = || open().max_by_key(|wanted| wanted.since);
        let other = open().map(|wanted| wanted.watched.host).find(|&run| run != self.target);
        match other {
            Some(other) if is_down => other,
            _ if is_open(self.target) => self.target,
            _ => newest().map_or(self.target, |wanted| wanted.watched.host),
        }
    }
}

impl HostDetector {
    /// The detector of a host, which watches nothing. `me` names the host by its own incarnation;
    /// `config` is what [`Config::build`](detector::Config::build) returned.
    pub fn new(config: detector::Config, me: Member, seed: u64) -> HostDetector {
        HostDetector {
            out: HostOutput::default(),
            detector: Detector::new(config, me, seed),
            detected: detector::Output::default(),
            me: me.node,
            lists: BTreeMap::new(),
            peers: BTreeMap::new(),
            differs_from: Instant::MAX,
        }
    }

    /// A service watches these members, in place of those that it named before.
    pub fn watch(
        &mut self,
        now: Instant,
        (service, number): (ServicePlace, ServiceNumber),
        list: &WatchList,
    ) {
        let mark = mix(u64::from(number.0) ^ mix(list.mark)) as u32;
        let nodes: Vec<NodeId> = list.others(self.me).map(|watched| watched.member.node).collect();
        let listed = Listed { number, incarnation: list.incarnation, nodes };
        let before = self.lists.insert(service, listed);
        let mut touched = before.map_or(Vec::new(), |before| before.nodes);
        for node in &touched {
            self.unlist(*node, service, |wanted| !list.members.contains(&wanted.watched));
        }
        for &watched in list.others(self.me) {
            let (node, host) = (watched.member.node, watched.host);
            let new = Peer {
                target: host,
                heard: None,
                wanted: BTreeMap::new(),
                tie: 0,
                tie_heard: 0,
                differs_at: Instant::MAX,
            };
            let peer = self.peers.entry(node).or_insert(new);
            let wanted = peer.wanted.entry(service).or_insert_with(|| Wanted {
                watched,
                mark: 0,
                since: now,
                was_heard: peer.heard.is_some_and(|(run, _)| run == host),
                has_ended: false,
                told: Health::Up,
            });
            peer.tie ^= std::mem::replace(&mut wanted.mark, mark) ^ mark;
            touched.push(node);
        }
        if list.members.is_empty() {
            self.lists.remove(&service);
        }
        for &node in &touched {
            self.choose_target(node);
        }
        self.update_watched(now);
        for node in touched {
            self.judge(node, Some(service));
        }
        self.settle(now, Vec::new());
    }

    /// A service has ended. If it watched members, they are told.
    pub fn end(&mut self, now: Instant, service: ServicePlace) {
        let Some(Listed { number, incarnation, nodes }) = self.lists.remove(&service) else {
            return;
        };
        for node in nodes {
            let ended = HostMessage::Ended { service: number.0, incarnation };
            self.out.sends.push((node, ended));
            self.unlist(node, service, |_| true);
        }
        self.update_watched(now);
        self.settle(now, Vec::new());
    }

    /// Looks at a watched node at once ([`Detector::probe`]).
    pub fn probe(&mut self, now: Instant, node: NodeId) {
        self.detector.probe(now, node, &mut self.detected);
        self.settle(now, Vec::new());
    }

    /// A message of another host has arrived. An error means that it was damaged, or that its
    /// sender misbehaves.
    pub fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        message: Bytes,
    ) -> Result<(), DecodeError> {
        match decode_exact(message)? {
            HostMessage::Detector { tie, datagram } => {
                let run = self.detector.receive(now, from, &datagram, &mut self.detected);
                if let Ok(Some(run)) = run {
                    self.hear(now, from, run, tie);
                }
                self.settle(now, vec![from]);
                run.map(drop)
            }
            HostMessage::Ended { service, incarnation } => {
                let is_it = |(place, wanted): &(&ServicePlace, &mut Wanted)| {
                    let listed = self.lists.get(place);
                    let is_service = listed.is_some_and(|listed| listed.number.0 == service);
                    is_service && wanted.watched.member.incarnation == incarnation
                };
                let peer = self.peers.get_mut(&from);
                match peer.and_then(|peer| peer.wanted.iter_mut().find(is_it)) {
                    Some((_, wanted)) => {
                        wanted.has_ended = true;
                        self.settle(now, vec![from]);
                    }
                    None => self.out.counters.add(counters::ENDED_UNWATCHED, 1),
                }
                Ok(())
            }
        }
    }

    /// Advances time. The driver must call it at [`HostDetector::deadline`].
    pub fn poll(&mut self, now: Instant) {
        if self.detector.deadline() <= now {
            self.detector.poll(now, &mut self.detected);
        }
        let is_due = self.differs_from <= now;
        for (&node, peer) in self.peers.iter_mut().filter(|_| is_due) {
            if peer.differs_at <= now {
                peer.differs_at = Instant::MAX;
                if peer.tie_heard != peer.tie {
                    self.out.counters.add(counters::PEER_DIFFERS, 1);
                    let services = peer.wanted.keys();
                    let news = services.map(|&service| (service, node, WatchNews::Differs));
                    self.out.news.extend(news);
                }
            }
        }
        if is_due {
            let first = self.peers.values().map(|peer| peer.differs_at).min();
            self.differs_from = first.unwrap_or(Instant::MAX);
        }
        self.settle(now, Vec::new());
    }

    /// When the driver must call [`HostDetector::poll`]; [`Instant::MAX`] while no service watches
    /// a member.
    pub fn deadline(&self) -> Instant {
        self.detector.deadline().min(self.differs_from)
    }

    /// The hosts that are watched, each in the run that the detector takes for the present one.
    pub fn watched(&self) -> impl Iterator<Item = Member> {
        self.detector.watched()
    }

    /// The other hosts that a service watches; `None` if it has named none, as one with a fixed
    /// roster.
    pub fn listed(&self, service: ServicePlace) -> Option<&[NodeId]> {
        self.lists.get(&service).map(|listed| &listed.nodes[..])
    }

    /// Bytes of what services have named.
    pub fn memory_bytes(&self) -> usize {
        let of_list = |listed: &Listed| size_of::<Listed>() + size_of_val(&listed.nodes[..]);
        let of_peer = |peer: &Peer| size_of::<Peer>() + peer.wanted.len() * size_of::<Wanted>();
        self.lists.values().map(of_list).sum::<usize>()
            + self.peers.values().map(of_peer).sum::<usize>()
    }

    /// A service does not watch the node any more, if that is so of its member there.
    fn unlist(&mut self, node: NodeId, service: ServicePlace, is_so: impl Fn(&Wanted) -> bool) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if let Entry::Occupied(wanted) = peer.wanted.entry(service)
            && is_so(wanted.get())
        {
            peer.tie ^= wanted.remove().mark;
        }
        if peer.wanted.is_empty() {
            self.peers.remove(&node);
        }
    }

    /// A node has named its run, and what it watches this host for.
    fn hear(&mut self, now: Instant, node: NodeId, run: u64, tie: u32) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.heard = Some((run, now));
        for wanted in peer.wanted.values_mut() {
            if wanted.watched.host == run {
                wanted.was_heard = true;
                peer.target = run;
            }
        }
        peer.tie_heard = tie;
        peer.differs_at = match tie == peer.tie {
            true => Instant::MAX,
            false => peer.differs_at.min(now + DIFFER_FOR),
        };
        self.differs_from = self.differs_from.min(peer.differs_at);
    }

    /// Has the detector watch the chosen run of each node.
    fn update_watched(&mut self, now: Instant) {
        let target = |(&node, peer): (&NodeId, &Peer)| Member { node, incarnation: peer.target };
        if !self.detector.watched().eq(self.peers.iter().map(target)) {
            let targets: Vec<Member> = self.peers.iter().map(target).collect();
            self.detector.watch(now, &targets, &mut self.detected);
        }
    }

    /// After an input: takes the detector's output, and tells services what has changed of these
    /// nodes and of those of which the detector has news.
    fn settle(&mut self, now: Instant, mut touched: Vec<NodeId>) {
        loop {
            touched.extend(self.detected.changes.drain(..).map(|change| change.member.node));
            touched.sort_unstable();
            touched.dedup();
            for &node in &touched {
                self.choose_target(node);
            }
            if !touched.is_empty() {
                self.update_watched(now);
            }
            touched.drain(..).for_each(|node| self.judge(node, None));
            if self.detected.changes.is_empty() {
                break;
            }
        }
        if !self.detected.sends.is_empty() {
            self.out.counters.add(counters::DETECTOR_SENT, self.detected.sends.len() as u64);
        }
        for (to, datagram) in self.detected.sends.drain(..) {
            let tie = self.peers.get(&to).map_or(0, |peer| peer.tie);
            self.out.sends.push((to, HostMessage::Detector { tie, datagram }));
        }
        self.detected.counters.drain_into(&mut self.out.counters);
    }

    fn choose_target(&mut self, node: NodeId) {
        let is_down = self.detector.health(node) == Some(Health::Down);
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.target = peer.choose(is_down);
        }
    }

    /// Tells services what has changed of a node: this one, or all.
    fn judge(&mut self, node: NodeId, service: Option<ServicePlace>) {
        let of_host = self.detector.health(node).unwrap_or(Health::Up);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let mut all = std::mem::take(&mut peer.wanted);
        let judged = match service {
            Some(service) => all.range_mut(service..=service),
            None => all.range_mut(..),
        };
        for (&service, wanted) in judged {
            let health = match wanted.watched.host == peer.target {
                _ if wanted.has_ended => Health::Down,
                true => of_host,
                false if peer.is_gone(wanted) => Health::Down,
                false => Health::Up,
            };
            if std::mem::replace(&mut wanted.told, health) != health {
                self.out.news.push((service, node, WatchNews::Health(health)));
            }
        }
        peer.wanted = all;
    }
}

#[cfg(test)]
mod tests;
