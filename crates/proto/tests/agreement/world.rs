//! Four nodes and what is under way between them, with the order left open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::chain;
use paceline_proto::core::{
    Backlog, Context, Instant, Lane, MembershipCommand, NodeId, Outbox, Outgoing, PeerState,
    Protocol, Rng,
};
use paceline_proto::group::{Command, Config, Event, Group, Message, Role, Timer};

use super::ledger::Ledger;

/// Three members, and one that joins.
pub const NODES: u32 = 4;
pub const MEMBERS: u32 = 3;
/// The view of the members.
pub const FIRST: u64 = 3;
/// Time that passes without a word of the agreement before nothing more is expected.
const SILENCE: Duration = Duration::from_secs(10);
/// After this long without faults the group is whole again.
const HEAL: Duration = Duration::from_secs(20);

/// A message: who sent it, as which of its messages. The same in every order of the same steps.
pub type Id = (NodeId, u32);

/// One step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// The second node handles this message.
    Deliver(Id, NodeId),
    /// It stops for good.
    Crash(NodeId),
    /// Its detector and its streams reach no other member, nor do the others' reach it: it is
    /// suspected though it lives. Its words of the agreement arrive.
    CutOff(NodeId),
    /// It asks to leave.
    Leave(NodeId),
    /// Time passes until some member sends a new message of the agreement. Detector and streams,
    /// where they are not cut, take no time.
    Pass,
}

impl Step {
    /// True if both orders lead to the same state: each changes one node, and another one.
    pub fn commutes_with(self, other: Step) -> bool {
        match (self.node(), other.node()) {
            (Some(one), Some(two)) => one != two,
            _ => false,
        }
    }

    fn node(self) -> Option<NodeId> {
        match self {
            Step::Deliver(_, node) | Step::Crash(node) | Step::Leave(node) => Some(node),
            Step::CutOff(_) | Step::Pass => None,
        }
    }
}

/// Where in a change of views an execution begins. What comes before happens in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// No member has proposed.
    Before,
    /// All have promised, and a proposal is under way.
    Proposed,
    /// All have accepted, and the next view is under way.
    Decided,
}

/// A defect that is planted: what a message loses on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A promise does not say what was accepted.
    ForgetsAccepted,
    /// A promise does not say what was received.
    ForgetsReceived,
    /// An acceptor that lacks something is not told that it was sent.
    SkipsFlush,
    /// No member learns of a decided view.
    TellsNobody,
}

struct Sent {
    to: NodeId,
    lane: Lane,
    message: Message,
}

struct Node {
    group: Group,
    rng: Rng,
    incarnation: u64,
    sent: u32,
    timers: Vec<(Instant, Timer)>,
    is_up: bool,
}

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// The nodes, and what is under way.
pub struct World<'a> {
    config: &'a Config,
    bug: Option<Bug>,
    nodes: Vec<Node>,
    /// Words of the agreement.
    words: BTreeMap<Id, Sent>,
    /// What detectors and broadcasts say.
    chatter: BTreeMap<Id, Sent>,
    now: Instant,
    cut_off: BTreeSet<NodeId>,
    /// A stream that stands still.
    stalled: Option<(NodeId, NodeId)>,
    pub ledger: Ledger,
}

impl<'a> World<'a> {
    /// Three members in one view, a broadcast that one of them lacks, and a node that has asked to
    /// join and has proven its address.
    pub fn new(config: &'a Config, bug: Option<Bug>, start: Start, lacks: NodeId) -> World<'a> {
        let node = |number| Node {
            group: Group::new(config),
            rng: Rng::new(7, number),
            incarnation: 100 + number,
            sent: 0,
            timers: Vec::new(),
            is_up: true,
        };
        let mut world = World {
            config,
            bug,
            nodes: (0..NODES.into()).map(node).collect(),
            words: BTreeMap::new(),
            chatter: BTreeMap::new(),
            now: Instant::ZERO,
            cut_off: BTreeSet::new(),
            stalled: None,
            ledger: Ledger::new(),
        };
        for number in 0..NODES {
            world.call(NodeId::from(number), |group, cx| group.handle_start(cx));
        }
        world.command(NodeId(0), MembershipCommand::Bootstrap { address: Bytes::new() }.into());
        for number in 1..MEMBERS {
            world.command(NodeId::from(number), join());
            world.run_until(Duration::from_secs(1), |world| {
                let views = world.nodes[..=number as usize].iter().map(|node| node.group.view());
                views.map(|view| view.len()).min() == Some(number as usize + 1)
            });
        }
        world.words.clear();
        // Round the ring, where it comes to this node last.
        let [origin, between] = [1, 2].map(|hops| NodeId((lacks.0 + hops) % u64::from(MEMBERS)));
        world.stalled = Some((between, lacks));
        world.command(origin, Command::broadcast(Bytes::from_static(b"news")));
        world.chat();
        let told = [origin, between, lacks].map(|node| world.ledger.told(node));
        assert_eq!(told, [1, 1, 0], "the broadcast has come half way");
        world.command(NodeId::from(MEMBERS), join());
        while let Some((id, sent)) = world.words.pop_first() {
            world.deliver(id.0, sent);
        }
        world.go_to(start);
        world
    }

    fn go_to(&mut self, start: Start) {
        let is_there = |message: &Message| match start {
            Start::Before => true,
            Start::Proposed => matches!(message, Message::Accept { .. }),
            Start::Decided => matches!(message, Message::Install { .. }),
        };
        if start != Start::Before {
            self.pass();
        }
        while !self.words.values().any(|sent| is_there(&sent.message))
            && let Some((id, sent)) = self.words.pop_first()
        {
            self.deliver(id.0, sent);
        }
    }

    /// What may happen next, but for faults.
    pub fn steps(&self) -> impl Iterator<Item = Step> {
        let deliver = |(&id, sent): (&Id, &Sent)| Step::Deliver(id, sent.to);
        self.words.iter().map(deliver).chain([Step::Pass])
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_up
    }

    pub fn is_cut_off(&self, node: NodeId) -> bool {
        self.cut_off.contains(&node)
    }

    pub fn is_member(&self, node: NodeId) -> bool {
        self.is_up(node) && self.nodes[node.index()].group.role() == Role::Member
    }

    /// Takes the step.
    pub fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Deliver(id, _) => {
                let sent = self.words.remove(&id).expect("it is under way");
                self.deliver(id.0, sent);
            }
            Step::Crash(node) => {
                self.nodes[node.index()].is_up = false;
                self.words.retain(|_, sent| sent.to != node);
            }
            Step::CutOff(node) => drop(self.cut_off.insert(node)),
            Step::Leave(node) => self.command(node, MembershipCommand::Leave.into()),
            Step::Pass => self.pass(),
        }
        self.ledger.verdict()
    }

    /// Ends all faults, loses what is under way if told so, and lets time pass: those that are left
    /// are in one view, unless too few are to decide anything.
    pub fn heal(&mut self, loses: bool) -> Result<(), String> {
        if loses {
            self.words.clear();
        }
        self.cut_off.clear();
        self.stalled = None;
        if self.run_until(HEAL, World::is_whole) {
            return self.ledger.verdict();
        }
        self.ledger.verdict()?;
        let (number, members) = self.ledger.last_view();
        let is_up = |node: NodeId| self.is_up(node);
        let up = members.iter().filter(|member| is_up(member.node)).count();
        let has_quorum =
            2 * up > members.len() || (2 * up == members.len() && is_up(members[0].node));
        if !has_quorum {
            return Ok(());
        }
        let states = self.nodes.iter().filter(|node| node.is_up).map(|node| {
            let group = &node.group;
            format!("\n{:?} is {:?} in {:?}", group.member(), group.role(), group.view())
        });
        let states: String = states.collect();
        Err(format!(
            "progress: {HEAL:?} after all faults the group is not whole, though view {number} of \
             {members:?} has a quorum:{states}"
        ))
    }

    /// True if all that are up and have not left are in one view.
    fn is_whole(&self) -> bool {
        let stays = |node: &&Node| node.is_up && node.group.role() != Role::Outside;
        let staying = || self.nodes.iter().filter(stays).map(|node| &node.group);
        let is_in_all = |group: &Group| staying().all(|one| one.view().contains(group.member()));
        staying().all(|group| {
            group.role() == Role::Member
                && group.has_primary()
                && group.view().len() == staying().count()
                && is_in_all(group)
        })
    }

    fn command(&mut self, node: NodeId, command: Command) {
        self.call(node, |group, cx| group.handle_command(cx, command));
    }

    fn call(&mut self, id: NodeId, handler: impl FnOnce(&mut Group, &mut Context<'_, Group>)) {
        let mut outbox = Outbox::default();
        let node = &mut self.nodes[id.index()];
        let mut cx = Context {
            now: self.now,
            node: id,
            incarnation: node.incarnation,
            host: None,
            shared: self.config,
            rng: &mut node.rng,
            outbox: &mut outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: 1_200,
        };
        handler(&mut node.group, &mut cx);
        for Outgoing { to, lane, message } in outbox.sends {
            let node = &mut self.nodes[id.index()];
            let message_id = (id, node.sent);
            node.sent += 1;
            let sent = Sent { to, lane, message };
            match sent.message {
                Message::Detector(_) | Message::Chain(_) => {
                    self.chatter.insert(message_id, sent);
                }
                _ if self.nodes[to.index()].is_up => drop(self.words.insert(message_id, sent)),
                _ => {}
            }
        }
        let refused = outbox.counters.count("group_bad_proposal");
        self.ledger.note_refused(id, refused);
        let node = &mut self.nodes[id.index()];
        node.timers.append(&mut outbox.timers);
        let member = node.group.member();
        for event in outbox.events {
            self.ledger.note(id, member, &event);
            if let Event::Delivered { view, origin, end, .. } = event {
                self.command(id, Command::Consumed { view, origin, end });
            }
        }
        for peer in outbox.links.disconnects {
            self.reconnect(id, peer);
        }
    }

    /// The stream between two nodes breaks and is established again.
    fn reconnect(&mut self, one: NodeId, two: NodeId) {
        let ends = [(one, two), (two, one)];
        self.chatter
            .retain(|id, sent| sent.lane == Lane::Datagram || !ends.contains(&(id.0, sent.to)));
        for (node, peer) in ends {
            let incarnation = self.nodes[peer.index()].incarnation;
            for state in [PeerState::Down, PeerState::Up { incarnation }] {
                if self.is_up(node) && self.is_up(peer) {
                    self.call(node, |group, cx| group.handle_peer(cx, peer, state));
                }
            }
        }
    }

    fn deliver(&mut self, from: NodeId, sent: Sent) {
        let Sent { to, mut message, .. } = sent;
        match (self.bug, &mut message) {
            (Some(Bug::ForgetsAccepted), Message::Promise { accepted, .. }) => *accepted = None,
            (Some(Bug::ForgetsReceived), Message::Promise { received, .. }) => received.clear(),
            (Some(Bug::SkipsFlush), Message::Accept { proposal, .. }) if to == NodeId(2) => {
                Arc::make_mut(proposal).cuts.clear();
            }
            (Some(Bug::TellsNobody), Message::Install { after, .. }) if after.0 >= FIRST => return,
            _ => {}
        }
        self.call(to, |group, cx| group.handle_message(cx, from, message));
    }

    /// All that detectors and broadcasts have to say, and what they answer. What a stalled or cut
    /// stream holds stays.
    fn chat(&mut self) {
        let mut held = BTreeMap::new();
        while let Some((id, sent)) = self.chatter.pop_first() {
            let is_cut = self.is_cut_off(id.0) || self.is_cut_off(sent.to);
            if !self.is_up(sent.to) {
                continue;
            } else if sent.lane == Lane::Datagram && !is_cut {
                self.deliver(id.0, sent);
            } else if sent.lane == Lane::Stream {
                match is_cut || self.stalled == Some((id.0, sent.to)) {
                    true => drop(held.insert(id, sent)),
                    false => self.deliver(id.0, sent),
                }
            }
        }
        self.chatter = held;
    }

    /// The next timer fires. False if there is none before the time.
    fn fire(&mut self, before: Instant) -> bool {
        let up = self.nodes.iter().enumerate().filter(|(_, node)| node.is_up);
        let timers = up.flat_map(|(number, node)| {
            node.timers.iter().enumerate().map(move |(place, &(at, _))| (at, number, place))
        });
        let Some((at, number, place)) = timers.min().filter(|&(at, ..)| at <= before) else {
            return false;
        };
        let (_, timer) = self.nodes[number].timers.remove(place);
        self.now = self.now.max(at);
        self.call(NodeId(number as u64), |group, cx| group.handle_timer(cx, timer));
        true
    }

    /// Time passes until there is a word that is not under way already.
    fn pass(&mut self) {
        let until = self.now + SILENCE;
        let known = self.words.len();
        loop {
            self.chat();
            self.drop_repeated(known);
            if self.words.len() > known || !self.fire(until) {
                return;
            }
        }
    }

    /// What is said again while the same words are still under way changes nothing.
    fn drop_repeated(&mut self, known: usize) {
        if self.words.len() == known {
            return;
        }
        let mut seen: Vec<(NodeId, NodeId, Message)> = Vec::new();
        self.words.retain(|id, sent| {
            let word = (id.0, sent.to, sent.message.clone());
            let is_new = !seen.contains(&word);
            if is_new {
                seen.push(word);
            }
            is_new
        });
    }

    /// Everything arrives at once, in order, until it is as it should be. False if it is not so
    /// within the time.
    fn run_until(&mut self, time: Duration, is_over: impl Fn(&World<'a>) -> bool) -> bool {
        let until = self.now + time;
        loop {
            self.chat();
            while let Some((id, sent)) = self.words.pop_first() {
                if self.is_up(sent.to) {
                    self.deliver(id.0, sent);
                }
                self.chat();
            }
            if is_over(self) {
                return true;
            }
            if !self.fire(until) {
                self.now = until;
                return false;
            }
        }
    }
}

fn join() -> Command {
    MembershipCommand::Join { address: Bytes::new(), peers: vec![NodeId(0), NodeId(1)] }.into()
}

/// A group whose broadcast goes round a ring.
pub fn config() -> Config {
    let chain = chain::Config::for_groups();
    Config::new(chain, paceline_proto::detector::Config::default()).build().expect("the defaults")
}
