//! The iterative style: the requester asks each hop for the next.

use std::sync::Arc;

use super::bundle::{pieces, split, target_bytes};
use super::config::CANDIDATES;
use super::counters;
use super::exchange::{Cause, Exchange, Trail};
use super::message::{Body, Found, Purpose, Route, Segment, Target};
use super::record::{Answer, CANDIDATES_MAX, ITEMS_MAX};
use super::relay::{count_ended, count_lookups, counter_for};
use super::request::tag;
use super::{Cx, Overlay};
use super::{Hop, Key};
use crate::core::NodeId;

/// Maximum bytes of a request besides its targets.
const FIND_HEAD_BYTES: usize = 18;

/// Targets that one node is asked about, and other nodes that may be asked.
struct Group {
    next: NodeId,
    targets: Vec<Target>,
    others: Vec<NodeId>,
}

impl Overlay {
    /// Goes on at this node's own table, where each look-up begins.
    pub(super) fn find(&mut self, cx: &mut Cx<'_>, name: u32, route: Route, tries: u8) {
        let hops = cx.shared.ttl - route.ttl;
        let split = split(&*self.router, &route.targets);
        count_lookups(cx, &route.purpose, split.lookups);
        for (next, targets) in split.onward {
            let trail = Trail { hops: hops + 1, named_by: None, others: Vec::new() };
            let parallel = self.parallel(cx, &route.purpose, targets.len());
            if parallel == 1 {
                self.find_at(cx, name, next, &route.purpose, targets, trail, tries);
                continue;
            }
            let (mut walk, mut nodes) = (route.targets[0].walk, Vec::new());
            self.router.candidates(targets[0].key, &mut walk, parallel, &mut nodes);
            for node in self.choose(name, parallel, nodes.into_iter()) {
                let (targets, trail) = (targets.clone(), trail.clone());
                self.find_at(cx, name, node, &route.purpose, targets, trail, tries);
            }
        }
        if let Some(here) = split.here {
            count_ended(cx, &route.purpose, hops.into(), here.len());
            let keys = here.iter().map(|target| target.key);
            let answers = match route.purpose {
                Purpose::Get => self.read(cx, cx.node, route.tag, keys),
                _ => keys.map(|key| (key, Answer::Here)).collect(),
            };
            self.receive_answers(cx, cx.node, route.tag, answers, None);
        }
    }

    /// Begins at another node, because this one's table would not do.
    pub(super) fn find_by(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        node: NodeId,
        purpose: &Purpose,
        targets: Arc<[Target]>,
    ) {
        let trail = Trail { hops: 1, named_by: None, others: Vec::new() };
        self.find_at(cx, name, node, purpose, targets, trail, 0);
    }

    #[allow(clippy::too_many_arguments, reason = "all that a question is made of")]
    fn find_at(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        node: NodeId,
        purpose: &Purpose,
        targets: Arc<[Target]>,
        trail: Trail,
        tries: u8,
    ) {
        let is_member = self.is_member();
        let tag = tag(cx, name);
        let head = FIND_HEAD_BYTES + self.address_bytes();
        let room = cx.datagram_bytes_max.saturating_sub(head);
        let mut send = |this: &mut Self, targets: Arc<[Target]>, trail: Trail| {
            let purpose = purpose.clone();
            let body = Body::Find { exchange: 0, is_member, tag, purpose, targets };
            this.ask(cx, node, Cause::Request(name), tries, Some(Box::new(trail)), body);
        };
        let total: usize = targets.iter().map(target_bytes).sum();
        if total <= room {
            return send(self, targets, trail);
        }
        for piece in pieces(&targets, ITEMS_MAX, room, target_bytes) {
            send(self, targets[piece].into(), trail.clone());
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of the message")]
    pub(super) fn receive_find(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        is_member: bool,
        exchange: u32,
        tag: u64,
        purpose: &Purpose,
        targets: &[Target],
    ) {
        if is_member {
            self.heard(cx, from);
            self.mentioned(cx, from, 1);
        } else {
            // It was a member before, perhaps: it has lost its memory since.
            self.router.forget(from);
        }
        let mut found = Found {
            exchange,
            segments: Vec::new(),
            ended: Vec::new(),
            nodes: Vec::new(),
            walks: Vec::new(),
            range: None,
        };
        let mut ended: Vec<Key> = Vec::new();
        let mut lookups = 0;
        let mut candidates = Vec::new();
        let mut rest = targets;
        while let Some(first) = rest.first() {
            let mut walk = first.walk;
            let step = self.router.next_hop(first.key, &mut walk);
            lookups += 1;
            let alike = |target: &Target| target.key <= step.until && target.walk == first.walk;
            // The step always applies to the first target, even if it applies to no other.
            let count = 1 + rest[1..].iter().take_while(|target| alike(target)).count();
            let (these, others) = rest.split_at(count);
            rest = others;
            candidates.clear();
            if let Hop::Via(next) = step.hop {
                let mut unused = first.walk;
                let max = CANDIDATES_MAX;
                self.router.candidates(first.key, &mut unused, max, &mut candidates);
                candidates.retain(|&node| node != next);
                candidates.insert(0, next);
                candidates.truncate(max);
                found.walks.extend(these.iter().map(|_| walk));
            } else {
                ended.extend(these.iter().map(|target| target.key));
                if cx.shared.has_ranges {
                    found.range = Some(Box::new((first.key, step.until)));
                }
            }
            // Targets that go the same way are one segment, whatever look-ups it took.
            let before = found.nodes.len().saturating_sub(candidates.len());
            match found.segments.last_mut() {
                Some(last)
                    if usize::from(last.nodes) == candidates.len()
                        && found.nodes[before..] == candidates =>
                {
                    last.targets += count as u16;
                }
                _ => {
                    found.nodes.extend_from_slice(&candidates);
                    let (targets, nodes) = (count as u16, candidates.len() as u8);
                    found.segments.push(Segment { targets, nodes });
                }
            }
        }
        count_lookups(cx, purpose, lookups);
        if !ended.is_empty() {
            let answers = match purpose {
                Purpose::Get => self.read(cx, from, tag, ended.iter().copied()),
                _ => Vec::new(),
            };
            // Keys that are not read yet follow as a result.
            found.ended = match purpose {
                Purpose::Get => {
                    let mut answers = answers.into_iter().peekable();
                    let answer = |key: &Key| {
                        let next = answers.next_if(|(read, _)| read == key);
                        next.map_or(Answer::Later, |(_, answer)| answer)
                    };
                    ended.iter().map(answer).collect()
                }
                _ => ended.iter().map(|_| Answer::Here).collect(),
            };
        }
        cx.count(counter_for(purpose, counters::FOUND), 1);
        self.send_uncounted(cx, from, Body::Found(Box::new(found)));
    }

    pub(super) fn receive_found(&mut self, cx: &mut Cx<'_>, from: NodeId, found: Found) {
        let Some(exchange) = self.answered(cx, from, found.exchange) else {
            return;
        };
        let (Cause::Request(name), Body::Find { tag, purpose, targets, .. }) =
            (exchange.cause, &exchange.body)
        else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        if !found.covers(targets.len()) {
            cx.count(counters::BAD_ANSWER, 1);
            return self.find_elsewhere(cx, name, exchange);
        }
        if self.is_member() || self.is_client() {
            self.note_answer(cx, from);
        }
        let parallel = self.parallel(cx, purpose, targets.len());
        if parallel > 1 && self.is_late(name) {
            return cx.count(counters::LATE, 1);
        }
        let trail = exchange.trail.unwrap_or_default();
        let all = targets.clone();
        let space = cx.shared.space;
        let asked = space.key(from);
        let (may_go_on, is_member) = (trail.hops < cx.shared.ttl, self.is_member());
        let mut groups: Vec<Group> = Vec::new();
        let mut answers: Vec<(Key, Answer)> = Vec::new();
        let (mut nodes, mut walks) = (&found.nodes[..], &found.walks[..]);
        let mut ended = found.ended.into_iter();
        let mut targets = &targets[..];
        let (mut forged, mut count_here) = (0, 0);
        for segment in &found.segments {
            let (these, others) = targets.split_at(segment.targets.into());
            targets = others;
            if segment.nodes == 0 {
                count_here += these.len();
                let here = these.iter().map(|target| target.key);
                answers.extend(here.zip(ended.by_ref()));
                continue;
            }
            let (named, others) = nodes.split_at(segment.nodes.into());
            nodes = others;
            let (walked, others) = walks.split_at(these.len());
            walks = others;
            for (target, &walk) in these.iter().zip(walked) {
                // A named node must be nearer than the node that named it. The path may lead
                // through this node itself if it is a member.
                let is_nearer = |&&node: &&NodeId| {
                    let (from, to) = ((asked, target.walk), (space.key(node), walk));
                    (node != cx.node || is_member) && self.router.advances(target.key, from, to)
                };
                let Some(&next) = named.iter().find(is_nearer).filter(|_| may_go_on) else {
                    forged += 1;
                    answers.push((target.key, Answer::NoRoute));
                    continue;
                };
                let target = Target { key: target.key, walk };
                if parallel > 1 {
                    let nearer: Vec<NodeId> =
                        named.iter().copied().filter(|n| is_nearer(&n)).collect();
                    for next in self.choose(name, parallel, nearer.iter().copied()) {
                        groups.push(Group { next, targets: vec![target], others: nearer.clone() });
                    }
                    continue;
                }
                let group = match groups.iter_mut().find(|group| group.next == next) {
                    Some(group) => group,
                    None => {
                        groups.push(Group { next, targets: Vec::new(), others: Vec::new() });
                        groups.last_mut().expect("pushed just now")
                    }
                };
                group.targets.push(target);
                for &other in named.iter().filter(is_nearer) {
                    if other != next
                        && group.others.len() < CANDIDATES_MAX
                        && !group.others.contains(&other)
                    {
                        group.others.push(other);
                    }
                }
            }
        }
        if forged > 0 {
            cx.count(counters::NO_PROGRESS, forged);
        }
        let is_stuck = groups.is_empty() && answers.is_empty() && self.questions_open(name) == 0;
        if parallel > 1 && is_stuck {
            // All nodes that were named were asked, and none of them answered.
            answers.extend(all.iter().map(|target| (target.key, Answer::NoRoute)));
        }
        count_ended(cx, purpose, trail.hops.into(), count_here);
        for group in groups {
            if group.next == cx.node {
                let route = Route {
                    exchange: 0,
                    ttl: cx.shared.ttl - trail.hops,
                    initiator: cx.node,
                    is_member,
                    tag: *tag,
                    purpose: purpose.clone(),
                    targets: group.targets.into(),
                };
                self.find(cx, name, route, 0);
                continue;
            }
            let trail = Trail { hops: trail.hops + 1, named_by: Some(from), others: group.others };
            self.find_at(cx, name, group.next, purpose, group.targets.into(), trail, 0);
        }
        if !answers.is_empty() {
            let range = found.range.as_deref().copied();
            self.receive_answers(cx, from, *tag, answers, range);
        }
    }

    /// A node that was asked for the next hop does not answer: asks others in its place.
    pub(super) fn find_elsewhere(&mut self, cx: &mut Cx<'_>, name: u32, exchange: Exchange) {
        let Body::Find { tag, purpose, targets, .. } = exchange.body else {
            return;
        };
        let trail = exchange.trail.unwrap_or_default();
        let tries = exchange.tries + 1;
        let is_over = tries >= CANDIDATES;
        let no_route = |targets: &[Target]| {
            targets.iter().map(|target| (target.key, Answer::NoRoute)).collect::<Vec<_>>()
        };
        let Some(named_by) = trail.named_by else {
            if is_over || !self.is_member() {
                let answers = no_route(&targets);
                return self.receive_answers(cx, cx.node, tag, answers, None);
            }
            let walk = cx.shared.algorithm.first_walk();
            let targets = targets.iter().map(|target| Target { walk, ..*target }).collect();
            let route = Route {
                exchange: 0,
                ttl: cx.shared.ttl,
                initiator: cx.node,
                is_member: true,
                tag,
                purpose,
                targets,
            };
            return self.find(cx, name, route, tries);
        };
        let space = cx.shared.space;
        let asked = space.key(named_by);
        let mut groups: Vec<(NodeId, Vec<Target>)> = Vec::new();
        let mut stuck: Vec<Target> = Vec::new();
        for target in targets.iter() {
            // What the target carried to the node that named others is not kept: they were
            // compared with that when they were named.
            let is_nearer = |&&node: &&NodeId| {
                let (from, to) =
                    ((asked, cx.shared.algorithm.first_walk()), (space.key(node), target.walk));
                node != cx.node && self.router.advances(target.key, from, to)
            };
            match trail.others.iter().find(is_nearer).filter(|_| !is_over) {
                None => stuck.push(*target),
                Some(&next) => {
                    let target = *target;
                    match groups.iter_mut().find(|(node, _)| *node == next) {
                        Some((_, targets)) => targets.push(target),
                        None => groups.push((next, vec![target])),
                    }
                }
            }
        }
        for (next, targets) in groups {
            let mut trail = (*trail).clone();
            trail.others.retain(|&node| node != next);
            self.find_at(cx, name, next, &purpose, targets.into(), trail, tries);
        }
        if !stuck.is_empty() {
            cx.count(counters::NO_ROUTE, stuck.len() as u64);
            self.receive_answers(cx, cx.node, tag, no_route(&stuck), None);
        }
    }
}
