//! Coming in, keeping the table right, and going.

use std::time::Duration;

use bytes::Bytes;

use super::command::{Event, JoinFailure, Outcome, Role, Style};
use super::config::REQUESTS_MAX;
use super::counters;
use super::exchange::{Cause, Exchange};
use super::message::Body;
use super::record::NODES_MAX;
use super::request::{Kind, Owner};
use super::storage::Storage;
use super::{Cx, Overlay, Timer};
use super::{Key, RouterAction, TableQuery};
use crate::core::{Instant, NodeId, mix};
use crate::parts::deadline::Deadline;

/// Maximum number of lost nodes that are looked for.
const LOST_MAX: usize = 64;
/// Tries before a lost node is no longer looked for.
const LOST_TRIES_MAX: u8 = 10;
/// Lost nodes that a node without other contacts looks for in one turn.
const LOST_IF_ALONE: usize = 8;

/// Turns without a change after which turns become rarer.
const QUIET_TURNS: u32 = 8;
/// Maximum number of nodes to which a leaving node says goodbye.
const GOODBYES_MAX: usize = 1024;

/// The state of table upkeep.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    turn: u64,
    // Turns in a row that found nothing changed, and timers until the next turn.
    quiet: u32,
    skip: u32,
    timer: Deadline,
    // A hash of the table at the last turn.
    table: u64,
    // Nodes that did not answer, how often they were tried, and when they are tried next: a network
    // split may heal.
    lost: Vec<(NodeId, u8, Instant)>,
}

impl Upkeep {
    /// A node does not answer. It will be looked for.
    pub(super) fn add_lost(&mut self, node: NodeId, now: Instant) {
        if self.is_looking_for(node) {
            return;
        }
        if self.lost.len() >= LOST_MAX {
            self.lost.remove(0);
        }
        self.lost.push((node, 0, now + Duration::from_secs(1)));
    }

    /// A node answers again, or is known to be gone for good.
    pub(super) fn find_again(&mut self, node: NodeId) {
        self.lost.retain(|(known, ..)| *known != node);
    }

    /// True if the node did not answer and is looked for.
    pub(super) fn is_looking_for(&self, node: NodeId) -> bool {
        self.lost.iter().any(|(lost, ..)| *lost == node)
    }

    /// The lost node that has been due for longest. It is given up after `LOST_TRIES_MAX` tries,
    /// unless this node has no other contacts or the lost node may hold the only copies of records.
    fn next_lost(&mut self, now: Instant, is_alone: bool, storage: &Storage) -> Option<NodeId> {
        let due = self.lost.iter_mut().filter(|(.., at)| *at <= now);
        let (node, tries, next_at) = due.min_by_key(|(.., at)| *at)?;
        *tries = tries.saturating_add(1);
        *next_at = now + Duration::from_secs(1 << (*tries).min(if is_alone { 2 } else { 6 }));
        let node = *node;
        self.lost.retain(|(node, tries, _)| {
            *tries < LOST_TRIES_MAX || is_alone || storage.is_missed(*node)
        });
        Some(node)
    }

    /// Something changed: the next timer is a turn.
    pub(super) fn hurry(&mut self) {
        (self.quiet, self.skip) = (0, 0);
    }
}

/// A node on its way in.
#[derive(Debug)]
pub(super) struct Joining {
    peers: Vec<NodeId>,
    next_peer: usize,
    give_up_at: Instant,
    retry_at: Instant,
    // True once a member has answered.
    is_answered: bool,
    // Nodes to notify once this node is a member: it may be their neighbour.
    notices: Vec<NodeId>,
}

impl Overlay {
    pub(super) fn bootstrap(&mut self, cx: &mut Cx<'_>, address: Bytes) {
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        self.state().address = address;
        self.begin_membership(cx);
        self.storage.forget_losses();
        self.trust_neighbours(cx);
    }

    pub(super) fn join(&mut self, cx: &mut Cx<'_>, address: Bytes, peers: Vec<NodeId>) {
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        let peers: Vec<NodeId> = peers.into_iter().filter(|&peer| peer != cx.node).collect();
        // The driver may still find peers by their addresses.
        if peers.is_empty() && address.is_empty() {
            return cx.deliver(Event::JoinFailed { reason: JoinFailure::NoPeers });
        }
        self.role = Role::Joining;
        self.storage.begin_join();
        let give_up_at = cx.now + cx.shared.join_within;
        let state = self.state();
        state.address = address;
        state.joining = Some(Joining {
            peers,
            next_peer: 0,
            give_up_at,
            retry_at: Instant::ZERO,
            is_answered: false,
            notices: Vec::new(),
        });
        if state.joining.as_ref().is_some_and(|joining| joining.peers.is_empty()) {
            return self.arm(cx);
        }
        self.find_place(cx);
    }

    /// Adds a peer: a node to ask.
    pub(super) fn add_peer(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if self.is_client() {
            return self.add_guide(cx, node);
        }
        if self.role != Role::Joining {
            return;
        }
        let Some(joining) = &mut self.state().joining else {
            return;
        };
        if joining.peers.contains(&node) {
            return;
        }
        joining.peers.push(node);
        if joining.peers.len() == 1 {
            self.find_place(cx);
        }
    }

    /// The peer that is asked next.
    pub(super) fn next_peer(&mut self) -> Option<NodeId> {
        let joining = self.state().joining.as_mut()?;
        let count = joining.peers.len().max(1);
        let peer = joining.peers.get(joining.next_peer % count).copied()?;
        joining.next_peer += 1;
        Some(peer)
    }

    /// Some node of the table.
    pub(super) fn any_contact(&mut self, cx: &mut Cx<'_>) -> Option<NodeId> {
        let mut nodes = Vec::new();
        self.router.contacts(&mut nodes);
        nodes.get(cx.rng.below(nodes.len() as u32) as usize).copied()
    }

    /// True if the node did not answer, or said goodbye, and has not answered since.
    pub(super) fn is_lost(&self, node: NodeId) -> bool {
        self.storage.is_silent(node)
    }

    /// A node that did not answer was heard from: pings it at once. If messages of this node do not
    /// reach it, it still counts as lost.
    pub(super) fn look_for(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let is_open = |(_, open): (u32, &Exchange)| open.to == node && open.cause == Cause::Lost;
        if !self.exchanges.iter().any(is_open) && self.has_room(cx) {
            self.ask(cx, node, Cause::Lost, 0, None, Body::Ping { exchange: 0 });
        }
    }

    pub(super) fn receive_pong(&mut self, cx: &mut Cx<'_>, from: NodeId, exchange: u32) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        self.router.learn(from);
        if exchange.cause == Cause::Lost {
            cx.count(counters::FOUND_AGAIN, 1);
            self.storage.note_found(cx, from);
            let state = self.state();
            state.upkeep.find_again(from);
            state.upkeep.hurry();
            self.run(cx, &[RouterAction::Ask(from, TableQuery::Neighbours)]);
            // It may know nodes that this one does not know, and that do not know this one.
            let keys = vec![cx.shared.space.key(cx.node)];
            let owner = Owner::Merge(from);
            self.begin_request(cx, owner, keys, Vec::new(), Kind::Locate, Style::Iterative);
        }
    }

    /// Takes the node that others consider this one's neighbour; the table decides.
    pub(super) fn merge_found(&mut self, cx: &mut Cx<'_>, outcomes: &[(Key, Outcome)]) {
        if let Some((_, Outcome::Located(node))) = outcomes.first()
            && *node != cx.node
        {
            self.run(cx, &[RouterAction::Ask(*node, TableQuery::Neighbours)]);
            self.table_found(cx, outcomes);
        }
    }

    /// Looks up the node responsible for this node's own key: that is its neighbour.
    fn find_place(&mut self, cx: &mut Cx<'_>) {
        let retry_at = cx.now + 2 * self.patience(cx.shared);
        self.router = cx.shared.router(cx.node);
        if let Some(joining) = &mut self.state().joining {
            joining.retry_at = retry_at;
            joining.is_answered = false;
            joining.notices.clear();
        }
        let keys = vec![cx.shared.space.key(cx.node)];
        self.begin_request(cx, Owner::Join, keys, Vec::new(), Kind::Locate, Style::Iterative);
    }

    pub(super) fn join_found(&mut self, cx: &mut Cx<'_>, outcomes: &[(Key, Outcome)]) {
        if self.role != Role::Joining {
            return;
        }
        self.table_found(cx, outcomes);
    }

    /// Goes on with joining if nothing is under way, from the beginning if need be.
    pub(super) fn handle_join_due(&mut self, cx: &mut Cx<'_>) {
        self.end_join(cx);
        let Some(joining) = self.state_if_any().and_then(|state| state.joining.as_ref()) else {
            return;
        };
        let (give_up_at, retry_at) = (joining.give_up_at, joining.retry_at);
        let has_peers = !joining.peers.is_empty();
        if give_up_at <= cx.now {
            self.go_outside(cx);
            cx.deliver(Event::JoinFailed { reason: JoinFailure::Unreachable });
        } else if has_peers && retry_at <= cx.now && self.is_table_idle() {
            self.find_place(cx);
        }
    }

    /// True if no request for the table is open.
    fn is_table_idle(&self) -> bool {
        let asks = self.exchanges.iter().any(|(_, exchange)| exchange.cause == Cause::Table);
        let is_own = |owner| matches!(owner, Owner::Table | Owner::Join);
        let finds = self
            .state_if_any()
            .is_some_and(|state| state.requests.iter().any(|(_, request)| is_own(request.owner)));
        !asks && !finds
    }

    /// The node is a member once its neighbours have answered all requests of its table.
    fn end_join(&mut self, cx: &mut Cx<'_>) {
        if self.role != Role::Joining || !self.is_table_idle() {
            return;
        }
        let has_joined = self.router.has_joined();
        let joining = &mut self.state().joining;
        let Some(ended) = joining.take_if(|joining| joining.is_answered && has_joined) else {
            return;
        };
        self.begin_membership(cx);
        for node in ended.notices {
            self.send(cx, node, Body::Notify);
        }
        self.turn(cx);
    }

    fn begin_membership(&mut self, cx: &mut Cx<'_>) {
        self.role = Role::Member;
        self.state().upkeep.turn = 0;
        self.with_storage(cx, |storage, cx, routing| storage.begin_membership(cx, routing));
        cx.deliver(Event::Joined);
        self.begin_upkeep(cx);
    }

    /// Arms the timer of upkeep, somewhere in its period.
    pub(super) fn begin_upkeep(&mut self, cx: &mut Cx<'_>) {
        let Some(every) = cx.shared.upkeep_every else {
            return;
        };
        let upkeep = &mut self.state().upkeep;
        upkeep.hurry();
        if !upkeep.timer.is_armed() {
            let after = every.mul_f64(cx.rng.unit());
            upkeep.timer.set_after(cx, after, Timer::Upkeep);
        }
    }

    pub(super) fn handle_upkeep(&mut self, cx: &mut Cx<'_>) {
        let Some(every) = cx.shared.upkeep_every else {
            return;
        };
        if !self.state().upkeep.timer.fired(cx.now) || !self.is_member() {
            return;
        }
        // A tenth more or less, so that nodes that began together do not go on together.
        let after = every.mul_f64(0.9 + 0.2 * cx.rng.unit());
        let upkeep = &mut self.state().upkeep;
        upkeep.timer.set_after(cx, after, Timer::Upkeep);
        if upkeep.skip > 0 {
            upkeep.skip -= 1;
        } else {
            self.turn(cx);
        }
        self.sync(cx);
        self.review_losses(cx);
    }

    fn turn(&mut self, cx: &mut Cx<'_>) {
        let mut nodes = Vec::new();
        self.router.contacts(&mut nodes);
        // In whatever order they come.
        let sum =
            |nodes: &[NodeId]| nodes.iter().fold(0u64, |sum, node| sum.wrapping_add(mix(node.0)));
        let table = sum(&nodes);
        let slowest = cx.shared.upkeep_every.map_or(1, |every| {
            (cx.shared.upkeep_every_max.as_nanos() / every.as_nanos().max(1)).clamp(1, 1 << 16)
        });
        let now = cx.now;
        let is_alone = !self.router.has_joined();
        let upkeep = &mut self.state.get_or_insert_default().upkeep;
        let count = if is_alone { LOST_IF_ALONE } else { 1 };
        let lost: Vec<NodeId> =
            (0..count).map_while(|_| upkeep.next_lost(now, is_alone, &self.storage)).collect();
        upkeep.quiet = if upkeep.table == table { upkeep.quiet + 1 } else { 0 };
        upkeep.table = table;
        let slow = 1u32 << upkeep.quiet.saturating_sub(QUIET_TURNS).min(16);
        upkeep.skip = slow.min(slowest as u32) - 1;
        let turn = upkeep.turn;
        upkeep.turn += 1;
        for node in lost {
            self.ask(cx, node, Cause::Lost, 0, None, Body::Ping { exchange: 0 });
        }
        let mut actions = Vec::new();
        self.router.upkeep(turn, &mut actions);
        self.run(cx, &actions);
        self.review_addresses(cx, nodes);
    }

    /// Carries out the actions of the table.
    pub(super) fn run(&mut self, cx: &mut Cx<'_>, actions: &[RouterAction]) {
        if actions.is_empty() {
            return;
        }
        let is_member = self.is_member();
        let (mut asked, mut queries) = self.asked();
        for &action in actions {
            if !self.has_room(cx) {
                return;
            }
            match action {
                RouterAction::Ask(node, _) | RouterAction::Notify(node) if node == cx.node => {}
                RouterAction::Ask(node, query) => {
                    let mut places = asked.iter().zip(&queries);
                    if places.any(|(&other, of)| other == node && *of == query) {
                        continue;
                    }
                    asked.push(node);
                    queries.push(query);
                    let body = Body::Ask { exchange: 0, is_member, query };
                    self.tell_missing(cx, node);
                    self.ask(cx, node, Cause::Table, 0, None, body);
                }
                RouterAction::Notify(node) if is_member => self.send(cx, node, Body::Notify),
                // Defer the notice: no node may take this one for a member before it is one.
                RouterAction::Notify(node) => {
                    if let Some(joining) = &mut self.state().joining
                        && !joining.notices.contains(&node)
                    {
                        joining.notices.push(node);
                    }
                }
                RouterAction::Find(key) if self.is_finding(key) => {}
                RouterAction::Find(key) => {
                    if self.state().requests.len() >= REQUESTS_MAX {
                        cx.count(counters::REQUESTS_FULL, 1);
                        continue;
                    }
                    let style = if is_member { Style::Recursive } else { Style::Iterative };
                    let (owner, kind) = (Owner::Table, Kind::Locate);
                    self.begin_request(cx, owner, vec![key], Vec::new(), kind, style);
                }
            }
        }
    }

    /// The open requests for the table: nodes and queries.
    fn asked(&self) -> (Vec<NodeId>, Vec<TableQuery>) {
        let asks = self.exchanges.iter().filter_map(|(_, exchange)| match exchange.body {
            Body::Ask { query, .. } => Some((exchange.to, query)),
            _ => None,
        });
        asks.unzip()
    }

    /// True if a look-up of this key alone is open for the table.
    fn is_finding(&self, key: Key) -> bool {
        self.state_if_any().is_some_and(|state| {
            state.requests.iter().any(|(_, request)| {
                request.owner == Owner::Table && request.slots.iter().all(|slot| slot.key == key)
            })
        })
    }

    pub(super) fn table_found(&mut self, cx: &mut Cx<'_>, outcomes: &[(Key, Outcome)]) {
        let mut actions = Vec::new();
        for (key, outcome) in outcomes {
            if let Outcome::Located(node) = outcome {
                self.router.on_found(*key, *node, &mut actions);
            }
        }
        self.run(cx, &actions);
        self.end_join(cx);
    }

    pub(super) fn receive_ask(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        query: TableQuery,
    ) {
        if is_member {
            self.heard(cx, from);
        } else {
            self.router.forget(from);
            self.storage.note_empty(cx, from);
        }
        let mut nodes = Vec::new();
        self.router.answer_query(query, &mut nodes);
        nodes.truncate(NODES_MAX);
        self.tell_missing(cx, from);
        self.send(cx, from, Body::Answer { exchange, nodes });
    }

    pub(super) fn receive_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        nodes: &[NodeId],
    ) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        let Body::Ask { query, .. } = exchange.body else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        let mut actions = Vec::new();
        self.note_answer(cx, from);
        self.storage.note_named(cx, nodes);
        match query {
            // The first is the predecessor, or none.
            TableQuery::Neighbours => self.router.on_answer(from, query, nodes, &mut actions),
            // Nodes that do not answer must not return by hearsay: nodes that name them to each
            // other would never forget them.
            TableQuery::Nearest(_) | TableQuery::Row(..) => {
                let (lost, nodes): (Vec<NodeId>, Vec<NodeId>) =
                    nodes.iter().partition(|&&node| self.is_lost(node));
                self.router.on_answer(from, query, &nodes, &mut actions);
                for node in lost {
                    self.look_for(cx, node);
                }
            }
        }
        if let Some(joining) = &mut self.state().joining {
            joining.is_answered = true;
        }
        self.run(cx, &actions);
        self.end_join(cx);
    }

    /// A node that the table asked does not answer, and was forgotten.
    pub(super) fn ask_unanswered(&mut self, cx: &mut Cx<'_>) {
        self.end_join(cx);
    }

    pub(super) fn receive_notify(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        if self.is_lost(from) {
            return self.look_for(cx, from);
        }
        let mut actions = Vec::new();
        self.router.on_notify(from, &mut actions);
        self.run(cx, &actions);
    }

    pub(super) fn leave(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Outside | Role::Leaving => {}
            Role::Joining | Role::Client => {
                self.go_outside(cx);
                cx.deliver(Event::Left);
            }
            Role::Member => {
                // The others then count this node as gone, and take over its records.
                let mut nodes = Vec::new();
                self.router.contacts(&mut nodes);
                for &node in nodes.iter().take(GOODBYES_MAX) {
                    self.send(cx, node, Body::Goodbye);
                }
                self.fail_requests(cx);
                self.role = Role::Leaving;
                let leave_by = cx.now + cx.shared.leave_within;
                self.state().leave_by = leave_by;
                self.hand_over(cx);
                self.arm(cx);
            }
        }
    }

    pub(super) fn handle_leave_due(&mut self, cx: &mut Cx<'_>) {
        if self.role != Role::Leaving {
            return;
        }
        self.hand_over(cx);
        let is_empty = self.storage.is_empty();
        let is_alone = self.any_contact(cx).is_none();
        let is_done = (is_empty || is_alone) && self.storage.jobs_open() == 0;
        if is_done || cx.now >= self.state().leave_by {
            self.go_outside(cx);
            cx.deliver(Event::Left);
        }
    }

    /// Drops all state of the membership. Records that were not handed over are lost here.
    fn go_outside(&mut self, cx: &mut Cx<'_>) {
        self.fail_requests(cx);
        // Records restored before a failed join are still good for the next one.
        if self.role != Role::Joining {
            let left = self.storage.drop_records();
            if left > 0 {
                cx.count(counters::LEFT_BEHIND, left as u64);
            }
        }
        self.role = Role::Outside;
        self.router = cx.shared.router(cx.node);
        let exchanges = std::mem::take(&mut self.exchanges);
        // Late answers to earlier exchanges must not match later ones.
        self.exchanges.set_first_generation(exchanges.unused_generation());
        let state = self.state();
        state.joining = None;
        state.guides.clear();
        self.storage.end_membership();
    }
}
