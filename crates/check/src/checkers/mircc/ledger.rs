use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{Instant, Lane, NodeId, PeerState, Wire};
use paceline_proto::mircc::{Command, Config, Event, FetchError, Object, Setup, Timer};
use paceline_proto::ndn::{Body, Packet, PathLabel};

use super::super::report::{Report, Violation};
use super::flow::{Flow, Share};
use super::link::{Leaving, Link};
use super::measure::LinkUse;
use super::names::{Key, Names};
use super::node::NodeLedger;
use super::{Broken, LIFETIME_MAX, Node, Rule};
use paceline_sim::{Fault, Input, Observer, Reply, Sim};

/// What consumers reported, in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Segments.
    pub segments: u64,
    /// Objects fetched whole.
    pub fetched: u64,
    /// Objects given up.
    pub failed: u64,
    /// Interests that a node saw again after it had forgotten them, and passed on.
    pub forgotten: u64,
}

/// What a handler is called with, as far as its outputs depend on it.
#[derive(Debug, Default)]
struct Call {
    /// The Data that arrived: its sender, path and name, and the bounds of its stamps.
    data: Option<(NodeId, PathLabel, Key, (u64, u64))>,
    lane: Option<(u64, u8)>,
    is_link: bool,
}

/// Watches nodes that start with the same configuration.
///
/// Cost: of each packet logarithmic in what is pending at its node, and linear in its faces.
#[derive(Debug)]
pub struct MirccLedger {
    config: Config,
    setups: Vec<Setup>,
    nodes: Vec<NodeLedger>,
    names: Names,
    /// By the bytes of their names.
    objects: BTreeMap<Bytes, Object>,
    producers: BTreeSet<NodeId>,
    /// Nodes that do what they should not; they promise nothing.
    rogues: BTreeSet<NodeId>,
    call: Call,
    watched: BTreeSet<(NodeId, u64)>,
    totals: Totals,
    report: Report<Rule>,
}

impl MirccLedger {
    /// A ledger for nodes that begin like this, by number, some of which are rogues.
    pub fn new(
        config: &Config,
        setups: Vec<Setup>,
        rogues: impl IntoIterator<Item = NodeId>,
    ) -> MirccLedger {
        let mut ledger = MirccLedger {
            config: config.clone(),
            nodes: setups.iter().map(NodeLedger::new).collect(),
            names: Names::default(),
            objects: BTreeMap::new(),
            producers: BTreeSet::new(),
            rogues: rogues.into_iter().collect(),
            call: Call::default(),
            watched: BTreeSet::new(),
            totals: Totals::default(),
            report: Report::default(),
            setups: Vec::new(),
        };
        for (node, setup) in (0..).map(NodeId).zip(&setups) {
            setup.objects.iter().for_each(|object| ledger.publish(node, object));
        }
        ledger.setups = setups;
        ledger
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        let forgotten = self.nodes.iter().map(|node| node.asks.forgotten).sum();
        Totals { forgotten, ..self.totals }
    }

    /// From now on a flow has something to send and is to have this share.
    pub fn expect_share(&mut self, at: Instant, node: NodeId, flow: u64, share: Share) {
        if let Some(held) = self.nodes[node.index()].flows.get_mut(&flow) {
            held.expect(at, share);
            self.watched.insert((node, flow));
        }
    }

    /// Measures what goes over a link, in steps of this time.
    pub fn measure(&mut self, from: NodeId, to: NodeId, step: Duration) {
        if let Some(link) = self.nodes[from.index()].links.get_mut(&to) {
            link.used = Some(LinkUse::new(step));
        }
    }

    /// What went over a link that is measured.
    pub fn used(&self, from: NodeId, to: NodeId) -> Option<&LinkUse> {
        self.nodes[from.index()].links.get(&to)?.used.as_ref()
    }

    /// Flows that have neither ended nor failed.
    pub fn open(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let honest = (0..).map(NodeId).zip(&self.nodes);
        let honest = honest.filter(|(node, _)| !self.rogues.contains(node));
        honest.flat_map(|(node, held)| held.flows.keys().map(move |&flow| (node, flow)))
    }

    /// Checks that every fetch is complete. Call it after the faults and enough time to recover.
    pub fn check_complete(&mut self, at: Instant) -> Result<(), Violation<Rule>> {
        let open = self.open().next();
        if let Some((node, flow)) = open {
            let held = &self.nodes[node.index()].flows[&flow];
            let what = format!("flow {flow} has only {} of {}", held.told(), held.fetch.name);
            self.fail(at, node, (Rule::Completion, what));
        }
        self.report.verdict()
    }

    /// Checks that no Interest is pending and no work is left. Call it when no event is left, or
    /// should be.
    pub fn check_rest<P: Node>(&mut self, sim: &Sim<'_, P>) -> Result<(), Violation<Rule>> {
        let at = sim.now();
        // Without events nothing changes however much time passes, and lifetimes do.
        let until = if sim.events_pending() == 0 { at + LIFETIME_MAX * 3 } else { at };
        for node in (0..self.nodes.len() as u64).map(NodeId) {
            if sim.is_alive(node)
                && let Err(broken) = self.check_node(until, node, sim.node(node))
            {
                self.fail(at, node, broken);
            }
        }
        if sim.events_pending() > 0 {
            let what = format!("{} events are pending", sim.events_pending());
            self.fail(at, NodeId(0), (Rule::Quiescence, what));
        }
        for node in (0..self.nodes.len() as u64).map(NodeId) {
            if !sim.is_alive(node) {
                continue;
            }
            let pending = sim.node(node).forwarder().pending();
            if pending > 0 {
                self.fail(at, node, (Rule::Quiescence, format!("{pending} Interests are pending")));
            }
        }
        self.report.verdict()
    }

    fn fail(&mut self, at: Instant, node: NodeId, broken: Broken) {
        if !self.rogues.contains(&node) {
            self.report.note(at, node, broken);
        }
    }

    fn publish(&mut self, node: NodeId, object: &Object) {
        self.producers.insert(node);
        // A consumer must not deliver an object that only a rogue published.
        if !self.rogues.contains(&node) {
            self.objects.insert(object.name.prefix_bytes().clone(), object.clone());
        }
    }

    fn receive(&mut self, at: Instant, node: NodeId, from: NodeId, packet: &Packet) {
        let held = &mut self.nodes[node.index()];
        let Some(link) = held.links.get_mut(&from) else { return };
        let bytes = packet.wire_len() + self.config.frame_bytes;
        match packet.body {
            Body::Fragment(_) => link.note_fragment(bytes),
            _ => link.note_arrival(bytes),
        }
        match &packet.body {
            Body::Interest(interest) => {
                let key = self.names.key(&interest.name);
                let expires_at = at + interest.lifetime().min(LIFETIME_MAX);
                let wait_max = link.wait_max();
                held.asks.ask(at, (key, interest.nonce, from), expires_at, wait_max);
                if interest.can_be_prefix {
                    held.note_prefix(key);
                }
            }
            Body::Data(data) => {
                link.note_data(bytes);
                let bound = link.bound(packet.header.stamps);
                let key = self.names.key(data.name());
                let keys = held.keys(&self.names, data.name(), key);
                keys.into_iter().for_each(|key| held.asks.note_bound(key, bound));
                self.call.data = Some((from, packet.header.label, key, bound));
            }
            Body::Nack(..) | Body::Fragment(_) => {}
        }
    }

    fn command(&mut self, at: Instant, node: NodeId, command: &Command) {
        let held = &mut self.nodes[node.index()];
        match command {
            Command::AddFace(peer, face) => held.add_face(at, *peer, *face),
            Command::RemoveFace(peer) => held.remove_face(at, *peer),
            Command::Publish(object) => self.publish(node, object),
            Command::Fetch(fetch) => {
                let object = self.names.key(&fetch.name).0;
                let mut flow = Flow::new(at, fetch.clone(), object);
                for other in held.flows.values_mut().filter(|other| other.object == object) {
                    (flow.is_shared, other.is_shared) = (true, true);
                }
                held.flows.insert(fetch.flow, flow);
            }
            Command::Stop { flow } => _ = held.flows.remove(flow),
            Command::Ask(_) => held.note_own(at),
            _ => {}
        }
    }

    fn check_send(
        &mut self,
        at: Instant,
        from: NodeId,
        to: NodeId,
        packet: &Packet,
    ) -> Result<(), Broken> {
        let held = &mut self.nodes[from.index()];
        if !held.links.contains_key(&to) {
            return Err((Rule::Link, format!("sends to {to}, to whom it has no face")));
        }
        let bytes = packet.wire_len() + self.config.frame_bytes;
        let leaving = Leaving { at, bytes, is_direct: !self.call.is_link };
        let mut own = None;
        let mut came_at = None;
        match &packet.body {
            Body::Interest(interest) => {
                let key = self.names.key(&interest.name);
                let left = held
                    .asks
                    .leave(at, (key, interest.nonce), to)
                    .map_err(|(rule, what)| (rule, format!("{what}: {}", interest.name)))?;
                // One that a next hop refused waits for another one only from then on.
                came_at = left.came_at.filter(|_| left.is_first);
                // What a next hop refused goes to another: the flow has asked once.
                own = (left.came_at.is_none() && left.is_first).then_some(key.0);
            }
            Body::Data(data) => {
                let key = self.names.key(data.name());
                let may_be_here = self.config.store_bytes_max > 0 || self.producers.contains(&from);
                let stamps = packet.header.stamps;
                held.give_data(&self.names, (data, key), to, stamps, may_be_here)?;
            }
            Body::Nack(_, interest) => {
                let key = self.names.key(&interest.name);
                held.asks.answer((key, to), "a refusal")?;
            }
            // A node passes on whole packets only; one that sends others is a rogue.
            Body::Fragment(_) => {}
        }
        let link = held.links.get_mut(&to).expect("it was looked for");
        let handed_at = link.send(&leaving)?;
        match &packet.body {
            Body::Interest(_) => {
                let class = packet.header.class;
                link.send_interest(&leaving, (class, came_at), &self.config)?;
            }
            Body::Data(_) => {
                if let Some(used) = &mut link.used {
                    used.note(at, bytes);
                }
            }
            Body::Nack(..) | Body::Fragment(_) => {}
        }
        match own {
            Some(object) => self.check_own((at, handed_at), from, to, packet, object),
            None => Ok(()),
        }
    }

    /// An Interest of a consumer's own leaves, which the node handed to the link at `handed_at`.
    fn check_own(
        &mut self,
        (at, handed_at): (Instant, Instant),
        from: NodeId,
        to: NodeId,
        packet: &Packet,
        object: u32,
    ) -> Result<(), Broken> {
        let NodeLedger { links, flows, .. } = &mut self.nodes[from.index()];
        if let Some((flow, lane)) = self.call.lane
            && let Some(flow) = flows.get_mut(&flow).filter(|flow| flow.object == object)
        {
            let header = &packet.header;
            flow.check_lane(at, lane, (header.class, to, header.label), &self.config)?;
        }
        let flow = flows.values_mut().find(|flow| flow.object == object && !flow.is_shared);
        // What was handed over before this has left.
        let left_until = links.values().filter_map(Link::waits_since).min().unwrap_or(at);
        flow.map_or(Ok(()), |flow| flow.check_limit(handed_at, left_until, &self.config))
    }

    fn check_event(&mut self, node: NodeId, event: &Event) -> Result<(), Broken> {
        let held = &mut self.nodes[node.index()];
        match event {
            Event::Segment { flow: number, number: segment, data, link_bytes, .. } => {
                held.asks.note_own_ended();
                let Some(flow) = held.flows.get_mut(number) else {
                    return Err((
                        Rule::Content,
                        format!("event of flow {number}, which has ended"),
                    ));
                };
                let object = self.objects.get(flow.fetch.name.prefix_bytes());
                flow.tell(*segment, (data, *link_bytes), object)?;
                self.totals.segments += 1;
                match self.call.data {
                    Some((from, label, (object, of), rates))
                        if (object, of) == (flow.object, *segment) =>
                    {
                        flow.note_path(Some((from, label)), rates);
                    }
                    _ => flow.note_path(None, (u64::MAX, u64::MAX)),
                }
                Ok(())
            }
            Event::Fetched { flow, counts } => {
                self.totals.fetched += 1;
                self.watched.remove(&(node, *flow));
                let Some(flow) = held.flows.remove(flow) else {
                    return Err((Rule::Content, format!("flow {flow} ended twice")));
                };
                let object = self.objects.get(flow.fetch.name.prefix_bytes());
                flow.check_complete(counts, object)
            }
            Event::Failed { flow, why, .. } => {
                self.totals.failed += 1;
                self.watched.remove(&(node, *flow));
                let ended = held.flows.remove(flow);
                // Where everybody is honest, all is signed as it should be.
                if matches!(why, FetchError::Unverified(_)) && self.rogues.is_empty() {
                    return Err((Rule::Content, format!("flow {flow}: {why}")));
                }
                match ended {
                    Some(_) => Ok(()),
                    None => Err((Rule::Content, format!("flow {flow} ended twice"))),
                }
            }
            Event::Answered { .. } | Event::Unanswered { .. } => {
                held.asks.note_own_ended();
                Ok(())
            }
            Event::Asked { .. } | Event::Report { .. } => Ok(()),
        }
    }

    fn check_node<P: Node>(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &P,
    ) -> Result<(), Broken> {
        let held = &mut self.nodes[node.index()];
        held.asks.pass(at);
        held.check(at, protocol, &self.config)
    }

    fn check_shares(&mut self, at: Instant) {
        let starved = self.watched.iter().find_map(|&(node, flow)| {
            let flow = self.nodes[node.index()].flows.get_mut(&flow)?;
            Some((node, flow.check_share(at).err()?))
        });
        if let Some((node, broken)) = starved {
            self.fail(at, node, broken);
        }
    }
}

impl<P: Node> Observer<P> for MirccLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        self.call = Call::default();
        self.nodes[node.index()].asks.pass(at);
        match input {
            Input::Message { from, message } => self.receive(at, node, *from, message),
            Input::Timer(Timer::Link(_)) => self.call.is_link = true,
            Input::Timer(Timer::Lane { flow, lane, .. }) => self.call.lane = Some((*flow, *lane)),
            Input::Command(command) => self.command(at, node, command),
            Input::Peer { peer, state } => {
                let stranger = self.setups[node.index()].stranger;
                let held = &mut self.nodes[node.index()];
                match state {
                    PeerState::Up { .. } if !held.links.contains_key(peer) => {
                        held.add_face(at, *peer, stranger);
                    }
                    PeerState::Down => held.remove_face(at, *peer),
                    PeerState::Up { .. } | PeerState::Suspect => {}
                }
            }
            _ => {}
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Err(broken) = self.check_event(node, event) {
            self.fail(at, node, broken);
            reply.stop();
        }
    }

    fn on_send(
        &mut self,
        at: Instant,
        from: NodeId,
        to: NodeId,
        lane: Lane,
        message: &Box<Packet>,
    ) {
        let checked = match lane {
            Lane::Datagram => self.check_send(at, from, to, message),
            Lane::Stream => Err((Rule::Link, "sent a packet by stream".into())),
        };
        if let Err(broken) = checked {
            self.fail(at, from, broken);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        if let Err(broken) = self.check_node(at, node, protocol) {
            self.fail(at, node, broken);
        }
        self.check_shares(at);
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        match fault {
            Fault::Crash(node) => {
                let held = &mut self.nodes[node.index()];
                *held = NodeLedger::default();
                held.is_down = true;
                self.watched.retain(|(of, _)| of != node);
            }
            Fault::Restart(node) if self.nodes[node.index()].is_down => {
                let setup = &self.setups[node.index()];
                self.nodes[node.index()] = NodeLedger::new(setup);
            }
            Fault::Pause(node, time) => {
                let until = &mut self.nodes[node.index()].stood_until;
                *until = (*until).max(at + *time);
            }
            _ => {}
        }
    }
}
