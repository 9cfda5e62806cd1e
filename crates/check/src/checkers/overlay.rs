//! The ledger of an overlay: the values written under each key, the nodes that hold them, and how
//! bundles were divided.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_proto::core::{Instant, Lane, NodeId, Payload, Protocol, mix};
use paceline_proto::overlay::{
    Algorithm, Body, Command, Config, Event, FailReason, Key, Message, Operation, Oracle, Outcome,
    Overlay, Purpose, Role, Route, Space, Target, Timer, Version,
};

use super::report::{Report, Violation, rules};
use super::tables;
use paceline_sim::{Fault, Input, Nodes, Observer, Reply};

rules! {
    /// What an overlay promises.
    pub enum Rule {
        /// D1: once faults are over, a look-up ends at the node that is responsible.
        Lookup => "D1 lookup",
        /// D2: each hop comes nearer.
        Progress => "D2 progress",
        /// D3: once faults are over, tables are right.
        Table => "D3 table",
        /// D4: some node holds an acknowledged write, unless all its holders failed too soon after
        /// one another.
        Durability => "D4 durability",
        /// D4: once faults are over, exactly the responsible nodes hold it.
        Placement => "D4 placement",
        /// D5: a value that is read was written under that key.
        Value => "D5 value",
        /// D5: once faults are over, a read value is at least as new as the last acknowledged one.
        Freshness => "D5 freshness",
        /// D5: nodes that are cut off from those that hold it do not call it absent.
        Absence => "D5 absence",
        /// D6: the targets of a bundle are those of its parts, each in one.
        Partition => "D6 partition",
        /// D6: each key of a request gets one outcome, and gets it.
        Outcome => "D6 outcome",
        /// A payload is delivered once at a node for a key.
        Delivery => "delivery",
        /// What is held stays within its bounds.
        Bounds => "bounds",
    }
}

/// A protocol in which a node of an overlay can be found: itself, or what wraps it.
pub trait Host:
    Protocol<Message = Message, Timer = Timer, Command = Command, Event = Event, Shared = Config>
{
    /// The node.
    fn overlay(&self) -> &Overlay;
}

impl Host for Overlay {
    fn overlay(&self) -> &Overlay {
        self
    }
}

/// How hard the world of a run is: what holds only if it is not harder.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Crashes of holders farther apart than this are repaired in between; `None` if the network
    /// may be in the way of that.
    pub repaired_within: Option<Duration>,
    /// Some nodes are strangers. A stranger that others took for a member counts as failed once it
    /// stops answering.
    pub has_strangers: bool,
}

#[derive(Clone, Debug)]
struct Write {
    // Of the value; `None` if it removes.
    hash: Option<u64>,
    request: (NodeId, u64),
}

#[derive(Clone, Debug, Default)]
struct Under {
    writes: Vec<Write>,
    // The last write that was acknowledged, when, on how many nodes, and its version.
    acknowledged: Option<(usize, Instant, usize, Version)>,
    // Live nodes that hold something: its age, and the hash of the value.
    holders: BTreeMap<NodeId, (Version, Option<u64>)>,
    losses: Vec<Instant>,
    is_lost: bool,
    // Held, and no node that is watched has asked for that.
    is_foreign: bool,
}

/// The last write under a key, if it was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stable {
    /// The number of the write among those under its key.
    pub write: usize,
    /// The hash of the value; `None` if the write removed it.
    pub hash: Option<u64>,
}

#[derive(Clone, Debug)]
struct Open {
    keys: BTreeSet<Key>,
    is_write: bool,
}

/// A bundle that is being handled, and what became of its targets so far.
#[derive(Clone, Debug, Default)]
struct Dividing {
    node: NodeId0,
    initiator: NodeId0,
    tag: u64,
    is_read: bool,
    targets: BTreeSet<Key>,
    // How far each target had to go when it arrived.
    remaining: BTreeMap<Key, (Key, Key)>,
    parts: Vec<Key>,
    ended: Vec<Key>,
    reads: bool,
}

// A node that is not there by default.
type NodeId0 = Option<NodeId>;

/// Watches an overlay from its first node on.
pub struct OverlayLedger {
    algorithm: Algorithm,
    space: Space,
    has_ranges: bool,
    terms: Terms,
    under: BTreeMap<Key, Under>,
    open: BTreeMap<(NodeId, u64), Open>,
    closed: BTreeMap<(NodeId, u64), BTreeSet<Key>>,
    // Hashes of payloads that were sent, and what was delivered of them.
    sent: BTreeSet<u64>,
    delivered: BTreeSet<(NodeId, u64, Key)>,
    // The state of each node's store when it was looked at last.
    changes: BTreeMap<NodeId, u64>,
    held_keys: BTreeMap<NodeId, BTreeSet<Key>>,
    // Acknowledged in the present call.
    acknowledged: Vec<(NodeId, u64, Key, usize)>,
    dividing: Option<Dividing>,
    // Links that are cut permanently, from the first node to the second.
    severed: BTreeSet<(NodeId, NodeId)>,
    members: BTreeSet<NodeId>,
    // Requests that are sent once the overlay is quiet.
    final_from: Option<Instant>,
    outcomes: u64,
    failed: u64,
    report: Report<Rule>,
}

/// The hash of a value.
pub fn hash(payload: &Payload) -> u64 {
    let mut hash = mix(payload.len() as u64);
    payload.for_each_chunk(|chunk| {
        for word in chunk.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            hash = mix(hash ^ u64::from_le_bytes(bytes));
        }
    });
    hash
}

impl OverlayLedger {
    /// An empty ledger.
    pub fn new(config: &Config, terms: Terms) -> OverlayLedger {
        OverlayLedger {
            algorithm: config.algorithm(),
            space: config.space(),
            has_ranges: config.has_ranges(),
            terms,
            under: BTreeMap::new(),
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            sent: BTreeSet::new(),
            delivered: BTreeSet::new(),
            changes: BTreeMap::new(),
            held_keys: BTreeMap::new(),
            acknowledged: Vec::new(),
            dividing: None,
            severed: BTreeSet::new(),
            members: BTreeSet::new(),
            final_from: None,
            outcomes: 0,
            failed: 0,
            report: Report::default(),
        }
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Outcomes so far, and how many of them were failures.
    pub fn outcomes(&self) -> (u64, u64) {
        (self.outcomes, self.failed)
    }

    /// From this time on every request must get the correct answer.
    pub fn expect_quiet_from(&mut self, at: Instant) {
        self.final_from = Some(at);
    }

    /// Every key that was ever written by a node that is watched.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let is_written = |(key, under): (&Key, &Under)| (!under.is_foreign).then_some(*key);
        self.under.iter().filter_map(is_written)
    }

    /// Keys of which the last write that was asked for was acknowledged. Those whose holders all
    /// failed are left out.
    pub fn stable(&self) -> BTreeMap<Key, Stable> {
        let last = |(&key, under): (&Key, &Under)| {
            let (write, ..) = under.acknowledged.filter(|_| !under.is_lost)?;
            let is_last = write + 1 == under.writes.len() && !under.is_foreign;
            is_last.then(|| (key, Stable { write, hash: under.writes[write].hash }))
        };
        self.under.iter().filter_map(last).collect()
    }

    /// True if a value with this hash was written under the key.
    pub fn is_written(&self, key: Key, hash: u64) -> bool {
        let mut writes = self.under.get(&key).into_iter().flat_map(|under| &under.writes);
        writes.any(|write| write.hash == Some(hash))
    }

    /// Live nodes that hold something under the key.
    pub fn holders(&self, key: Key) -> Vec<NodeId> {
        self.under.get(&key).map_or_else(Vec::new, |it| it.holders.keys().copied().collect())
    }

    fn broken(&mut self, rule: Rule, at: Instant, node: NodeId, what: String) {
        self.report.note(at, node, (rule, what));
    }

    /// All that must hold once faults are over for long enough: tables, placement, open requests.
    pub fn check_quiet<P: Host>(&mut self, sim: &impl Nodes<P>, nodes: u32) {
        let now = sim.now();
        let all = (0..nodes).map(NodeId::from).filter(|&node| sim.is_alive(node));
        let members: Vec<NodeId> =
            all.clone().filter(|&node| sim.node(node).overlay().is_member()).collect();
        let oracle = Oracle::new(self.space, members.iter().copied());
        for &node in &members {
            let router = sim.node(node).overlay().router();
            if let Some(fault) = tables::fault(router, self.space, node, oracle.ring()) {
                return self.broken(Rule::Table, now, node, fault);
            }
        }
        for node in all {
            let overlay = sim.node(node).overlay();
            if overlay.requests_open() > 0 || overlay.role() == Role::Joining {
                let what = format!("{:?}, {} open", overlay.role(), overlay.requests_open());
                return self.broken(Rule::Outcome, now, node, what);
            }
        }
        if let Some((&(node, id), open)) = self.open.iter().next() {
            let what = format!("request {id} has no outcome for {:?}", open.keys);
            return self.broken(Rule::Outcome, now, node, what);
        }
        let copies = sim.shared().copies();
        for (key, under) in &self.under {
            let Some((_, _, _, version)) = under.acknowledged.filter(|_| !under.is_lost) else {
                continue;
            };
            let wanted: BTreeSet<NodeId> =
                oracle.holders(self.algorithm, *key, copies).into_iter().collect();
            let held = under.holders.iter().filter(|(_, (held, _))| *held >= version);
            let held: BTreeSet<NodeId> = held.map(|(&node, _)| node).collect();
            if held != wanted {
                let what = format!("{key} is held by {held:?}, not {wanted:?}");
                let node = wanted.first().copied().unwrap_or(NodeId(0));
                return self.broken(Rule::Placement, now, node, what);
            }
        }
    }

    /// What this outcome must be, now that all is quiet.
    pub fn check_answer<P: Host>(
        &mut self,
        sim: &impl Nodes<P>,
        nodes: u32,
        at: Instant,
        node: NodeId,
        key: Key,
        outcome: &Outcome,
    ) {
        let members = (0..nodes).map(NodeId::from).filter(|&node| sim.is_alive(node));
        let members = members.filter(|&node| sim.node(node).overlay().is_member());
        let oracle = Oracle::new(self.space, members);
        let owner = oracle.responsible(self.algorithm, key);
        match outcome {
            Outcome::Located(found) if Some(*found) == owner => {}
            Outcome::Located(found) => {
                let what = format!("{key} is {owner:?}'s, not {found}'s");
                self.broken(Rule::Lookup, at, node, what);
            }
            Outcome::Found { value, .. } => {
                let under = self.under.entry(key).or_default();
                let hash = hash(value);
                let place = under.writes.iter().rposition(|write| write.hash == Some(hash));
                let last = under.acknowledged.map(|(write, ..)| write);
                if !under.is_lost && last.is_some_and(|last| place < Some(last)) {
                    let what = format!("{key}: write {place:?}, but {last:?} was acknowledged");
                    self.broken(Rule::Freshness, at, node, what);
                }
            }
            Outcome::Absent => self.check_absent(at, node, key),
            // A node that failed permanently may have held a value: the remaining nodes cannot
            // know.
            Outcome::Failed(FailReason::Unsettled)
                if self.newest_value(key).is_none()
                    && (self.terms.has_strangers
                        || (0..nodes).any(|node| !sim.is_alive(NodeId::from(node)))) => {}
            other => {
                let what = format!("{key}: {other:?} though all is quiet");
                self.broken(Rule::Lookup, at, node, what);
            }
        }
    }

    /// A node says that nothing is under a key: nothing that was acknowledged is.
    pub fn check_absent(&mut self, at: Instant, node: NodeId, key: Key) {
        let under = self.under.entry(key).or_default();
        let last = under.acknowledged.map_or(0, |(write, ..)| write);
        let removed = under.writes.iter().skip(last).any(|write| write.hash.is_none());
        if under.acknowledged.is_some() && !removed && !under.is_lost {
            let holders: Vec<NodeId> = under.holders.keys().copied().collect();
            let what = format!(
                "{key} is absent, but write {last} was acknowledged and is held by {holders:?}"
            );
            self.broken(Rule::Freshness, at, node, what);
        }
    }

    /// The newest that a node holds under the key, unless it is the mark of a removal.
    fn newest_value(&self, key: Key) -> Option<(Version, u64)> {
        let under = self.under.get(&key)?;
        let &(version, hash) = under.holders.values().max_by_key(|(version, _)| *version)?;
        Some((version, hash?))
    }

    /// Checks the outcome at a node that is permanently cut off from others: a key that others hold
    /// must not be absent.
    pub fn check_cut_off(&mut self, at: Instant, node: NodeId, key: Key, outcome: &Outcome) {
        if *outcome == Outcome::Absent
            && let Some((version, _)) = self.newest_value(key)
        {
            let what = format!("{key} is called absent, and others hold {version}");
            self.broken(Rule::Absence, at, node, what);
        }
    }

    fn note_request(&mut self, at: Instant, node: NodeId, id: u64, operation: &Operation) {
        let mut write = |key: Key, hash: Option<u64>| {
            let write = Write { hash, request: (node, id) };
            let under = self.under.entry(key).or_default();
            under.is_foreign = false;
            under.writes.push(write);
        };
        let is_write = match operation {
            Operation::Put(items) => {
                items.iter().for_each(|item| write(item.key, Some(hash(&item.value))));
                true
            }
            // Several nodes write one key: `conditional` knows which of their writes count.
            Operation::PutIf(items) => {
                for (_, item) in items {
                    let write = Write { hash: Some(hash(&item.value)), request: (node, id) };
                    let foreign = Under { is_foreign: true, ..Under::default() };
                    self.under.entry(item.key).or_insert(foreign).writes.push(write);
                }
                true
            }
            Operation::Remove(keys) => {
                keys.iter().for_each(|&key| write(key, None));
                true
            }
            Operation::Send { payload, .. } => {
                self.sent.insert(hash(payload));
                false
            }
            _ => false,
        };
        let open = Open { keys: operation.keys().collect(), is_write };
        if self.open.insert((node, id), open).is_some() || self.closed.contains_key(&(node, id)) {
            self.broken(Rule::Outcome, at, node, format!("request {id} was used twice"));
        }
    }

    fn note_outcomes(&mut self, at: Instant, node: NodeId, id: u64, outcomes: &[(Key, Outcome)]) {
        for (key, outcome) in outcomes {
            self.outcomes += 1;
            self.failed += u64::from(matches!(outcome, Outcome::Failed(_)));
            let open = self.open.get_mut(&(node, id));
            let is_known = open.is_some_and(|open| open.keys.remove(key));
            if !is_known {
                let what = format!("request {id}, {key}: {outcome:?}, not asked for");
                return self.broken(Rule::Outcome, at, node, what);
            }
            match outcome {
                Outcome::Stored { copies } => self.acknowledged.push((node, id, *key, *copies)),
                Outcome::Removed => self.acknowledged.push((node, id, *key, 1)),
                Outcome::Found { value, .. } => {
                    let hash = Some(hash(value));
                    let under = self.under.entry(*key).or_default();
                    if !under.writes.iter().any(|write| write.hash == hash) {
                        let what = format!("{key}: a value that no node wrote there");
                        return self.broken(Rule::Value, at, node, what);
                    }
                }
                _ => {}
            }
        }
        if self.open.get(&(node, id)).is_some_and(|open| open.keys.is_empty()) {
            self.open.remove(&(node, id));
            self.closed.insert((node, id), BTreeSet::new());
        }
    }

    /// Looks at a node's store again if it changed.
    fn mirror<P: Host>(&mut self, at: Instant, node: NodeId, protocol: &P) {
        let store = protocol.overlay().store();
        let changes = store.map_or(0, |store| store.changes());
        if self.changes.insert(node, changes) == Some(changes) {
            return;
        }
        let mut keys = BTreeSet::new();
        for (key, held) in store.into_iter().flat_map(|store| store.iter()) {
            keys.insert(key);
            let hash = held.value.as_ref().map(hash);
            let foreign = || Under { is_foreign: true, ..Under::default() };
            let under = self.under.entry(key).or_insert_with(foreign);
            let old = under.holders.insert(node, (held.stamp.version, hash));
            let is_older = old.is_some_and(|(version, _)| version > held.stamp.version);
            if is_older && !under.is_foreign {
                let what = format!("{key} went back to {}", held.stamp.version);
                return self.broken(Rule::Durability, at, node, what);
            }
        }
        let gone = self.held_keys.insert(node, keys.clone()).unwrap_or_default();
        for key in gone.difference(&keys).copied().collect::<Vec<_>>() {
            if let Some(under) = self.under.get_mut(&key) {
                under.holders.remove(&node);
            }
            self.check_held(at, node, key, usize::MAX);
        }
    }

    fn take_acknowledged(&mut self, at: Instant) {
        for (node, id, key, copies) in std::mem::take(&mut self.acknowledged) {
            let Some(under) = self.under.get_mut(&key) else {
                continue;
            };
            let place = under.writes.iter().rposition(|write| write.request == (node, id));
            let Some(place) = place else {
                continue;
            };
            if under.acknowledged.is_some_and(|(last, ..)| last > place) {
                continue;
            }
            let hash = under.writes[place].hash;
            let mine = under.holders.values().filter(|(_, held)| *held == hash);
            let version = mine.map(|&(version, _)| version).max();
            let newest = under.holders.values().map(|&(version, _)| version).max();
            // A later write may have replaced it before the answer was here.
            let Some(version) = version.or(newest) else {
                let what = format!("{key}: acknowledged, and no node holds it");
                // All that held it may have gone while the answer was on its way.
                if under.losses.iter().all(|&loss| loss + ANSWER < at) {
                    self.broken(Rule::Durability, at, node, what);
                }
                continue;
            };
            under.acknowledged = Some((place, at, copies, version));
            under.is_lost = false;
            let held = under.holders.values().filter(|(held, _)| *held >= version).count();
            let losses = under.losses.iter().filter(|&&loss| loss + ANSWER >= at).count();
            // Where nodes are taken for gone that are not, replicas are others in a moment.
            let is_sure = self.terms.repaired_within.is_some();
            if is_sure && held + losses < copies {
                let what = format!("{key}: {copies} copies acknowledged, {held} held");
                self.broken(Rule::Durability, at, node, what);
            }
        }
    }

    /// A node lost what it held.
    fn forget_records(&mut self, at: Instant, node: NodeId) {
        self.members.remove(&node);
        let is_reached = |other: &&NodeId| {
            !self.severed.contains(&(node, **other)) && !self.severed.contains(&(**other, node))
        };
        let could_hold = if self.severed.is_empty() {
            usize::MAX
        } else {
            1 + self.members.iter().filter(is_reached).count()
        };
        self.changes.remove(&node);
        for key in self.held_keys.remove(&node).unwrap_or_default() {
            if let Some(under) = self.under.get_mut(&key)
                && under.holders.remove(&node).is_some()
            {
                under.losses.push(at);
            }
            self.check_held(at, node, key, could_hold);
        }
    }

    /// A node no longer holds the key. `could_hold`: the number of nodes that could hold it where
    /// links are cut permanently: this node and those with working links to and from it.
    fn check_held(&mut self, at: Instant, node: NodeId, key: Key, could_hold: usize) {
        let window = self.terms.repaired_within;
        let Some(under) = self.under.get_mut(&key) else {
            return;
        };
        let Some((_, since, copies, version)) = under.acknowledged.filter(|_| !under.is_lost)
        else {
            return;
        };
        if under.holders.values().any(|(held, _)| *held >= version) {
            return;
        }
        let from = window.map_or(since, |window| {
            let start = at.as_nanos().saturating_sub(window.as_nanos() as u64);
            Instant::from_nanos(start).max(since)
        });
        // Those that failed while the answer was on its way count too.
        let from = Instant::from_nanos(from.as_nanos().saturating_sub(ANSWER.as_nanos() as u64));
        let losses = under.losses.iter().filter(|&&loss| loss >= from).count();
        if losses >= copies.min(could_hold) {
            under.is_lost = true;
        } else {
            let what = format!("{key}: the last of {copies} copies is gone after {losses} losses");
            self.broken(Rule::Durability, at, node, what);
        }
    }

    fn begin_dividing(&mut self, node: NodeId, route: &Route) {
        let here = self.space.key(node);
        let remaining = route
            .targets
            .iter()
            .map(|&Target { key, walk }| (key, self.algorithm.remaining(key, here, walk)));
        self.dividing = Some(Dividing {
            remaining: remaining.collect(),
            node: Some(node),
            initiator: Some(route.initiator),
            tag: route.tag,
            is_read: route.purpose == Purpose::Get,
            targets: route.targets.iter().map(|target| target.key).collect(),
            ..Dividing::default()
        });
    }

    fn end_dividing(&mut self, at: Instant) {
        let Some(dividing) = self.dividing.take() else {
            return;
        };
        let node = dividing.node.unwrap_or(NodeId(0));
        let nothing_done = dividing.parts.is_empty() && dividing.ended.is_empty();
        // A duplicate, or a node that is no member; and results for itself send nothing.
        if (nothing_done && !dividing.reads) || dividing.initiator == dividing.node {
            return;
        }
        let mut seen = BTreeSet::new();
        for key in dividing.parts.iter().chain(&dividing.ended) {
            if !seen.insert(*key) || !dividing.targets.contains(key) {
                let what = format!("{key} is in two parts of a bundle, or was not in it");
                return self.broken(Rule::Partition, at, node, what);
            }
        }
        if seen != dividing.targets && !(dividing.is_read && dividing.reads) {
            let lost: Vec<_> = dividing.targets.difference(&seen).collect();
            let what = format!("{lost:?} are in no part of their bundle");
            self.broken(Rule::Partition, at, node, what);
        }
    }
}

/// How long an answer may be on its way.
const ANSWER: Duration = Duration::from_secs(4);

impl<P: Host> Observer<P> for OverlayLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        match input {
            Input::Command(Command::Request { id, operation, .. }) => {
                self.note_request(at, node, *id, operation);
            }
            Input::Message { message, .. } => {
                if let Body::Route(route) = &message.body {
                    self.begin_dividing(node, route);
                }
            }
            _ => {}
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &P::Message) {
        if let Body::Route(route) = &message.body {
            let divided = self.dividing.as_ref().filter(|dividing| dividing.tag == route.tag);
            let (here, there) = (self.space.key(from), self.space.key(to));
            // A requester that learned of ranges from results may go to any node; and a payload
            // goes straight to the nodes that were located for it.
            let is_direct = self.has_ranges || matches!(route.purpose, Purpose::Send(_));
            let is_guess = is_direct && from == route.initiator;
            for target in route.targets.iter().filter(|_| !is_guess) {
                // A hop that is tried in the place of one that is gone begins the way again.
                let algorithm = self.algorithm;
                let from_start = || algorithm.remaining(target.key, here, algorithm.first_walk());
                let before = divided.and_then(|dividing| dividing.remaining.get(&target.key));
                let before = before.copied().unwrap_or_else(from_start);
                if algorithm.remaining(target.key, there, target.walk) >= before {
                    let what = format!("{} goes to {to}, which is no nearer", target.key);
                    return self.broken(Rule::Progress, at, from, what);
                }
            }
            if route.targets.len() > 1024 {
                self.broken(Rule::Bounds, at, from, format!("{} targets", route.targets.len()));
            }
        }
        let _ = lane;
        let Some(dividing) = &mut self.dividing else {
            return;
        };
        match &message.body {
            Body::Route(route) if route.tag == dividing.tag => {
                dividing.parts.extend(route.targets.iter().map(|target| target.key));
            }
            Body::Result { tag, answers, .. } if *tag == dividing.tag => {
                dividing.ended.extend(answers.iter().map(|(key, _)| *key));
            }
            Body::Fetch { .. } => dividing.reads = true,
            _ => {}
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        match event {
            Event::Outcome { id, outcomes } => self.note_outcomes(at, node, *id, outcomes),
            Event::Rejected { id, .. } => {
                if let Some(open) = self.open.remove(&(node, *id))
                    && open.is_write
                {
                    for under in self.under.values_mut() {
                        under.writes.retain(|write| write.request != (node, *id));
                    }
                }
            }
            Event::Delivered { keys, payload, .. } => {
                let hash = hash(payload);
                // What strangers send may be the same twice.
                let is_known = self.sent.contains(&hash);
                for &key in keys.iter().filter(|_| is_known) {
                    if !self.delivered.insert((node, hash, key)) {
                        let what = format!("{key}: a payload was delivered twice");
                        self.broken(Rule::Delivery, at, node, what);
                    }
                }
            }
            Event::Left => self.forget_records(at, node),
            _ => {}
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.end_dividing(at);
        if protocol.overlay().is_member() {
            self.members.insert(node);
        } else {
            self.members.remove(&node);
        }
        self.mirror(at, node, protocol);
        if !self.acknowledged.is_empty() {
            self.take_acknowledged(at);
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        if let Fault::Sever(from, to) = *fault {
            self.severed.insert((from, to));
        }
        if let Fault::Crash(node) = fault {
            self.forget_records(at, *node);
            // It may have crashed while it divided a bundle.
            self.dividing = None;
            // The node no longer reports results, and has forgotten those that it reported.
            self.open.retain(|(by, _), _| by != node);
            self.delivered.retain(|(to, ..)| to != node);
        }
    }
}
