use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_proto::core::{
    Context, GroupId, Instant, Lane, NodeId, Outgoing, Protocol, Rng, Wire,
};

use crate::lies::{Draw, Known, damaged};
use crate::stranger::{Shared, Spoken, this};
use crate::{Tamper, Wrapped};

/// What a rogue member does. Its [name](Misdeed::name) is that of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// Sends a drawn message under its own name.
    Lie,
    /// Does not send a message.
    Drop,
    /// Sends a message twice.
    Repeat,
    /// Sends a message later.
    Hold,
    /// Sends a drawn message of the same kind instead.
    Replace,
    /// Sends a message with bits flipped, or cut short, that still decodes.
    Damage,
    /// Sends some of the receivers something else than the others.
    Split,
    /// Does not see a message that came.
    Swallow,
}

impl Misdeed {
    /// All there are.
    pub const ALL: [Misdeed; 8] = [
        Misdeed::Lie,
        Misdeed::Drop,
        Misdeed::Repeat,
        Misdeed::Hold,
        Misdeed::Replace,
        Misdeed::Damage,
        Misdeed::Split,
        Misdeed::Swallow,
    ];

    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Misdeed::Lie => "rogue_lie",
            Misdeed::Drop => "rogue_drop",
            Misdeed::Repeat => "rogue_repeat",
            Misdeed::Hold => "rogue_hold",
            Misdeed::Replace => "rogue_replace",
            Misdeed::Damage => "rogue_damage",
            Misdeed::Split => "rogue_split",
            Misdeed::Swallow => "rogue_swallow",
        }
    }
}

/// Messages that a rogue member holds back at a time.
const HELD_MAX: usize = 1000;
/// The longest time for which it does, microseconds.
const HELD_MICROS_MAX: u32 = 2_000_000;

/// How members are rogue, and when.
#[derive(Clone, Debug)]
pub struct Conduct {
    /// Before this time they are honest,
    pub from: Instant,
    /// and from this time on.
    pub until: Instant,
    /// The least time between two lies.
    pub lie_every: Duration,
    /// How probable each other misdeed is, in the order of [`Misdeed::ALL`].
    pub chances: [f64; 8],
}

impl Conduct {
    /// Draws how members are rogue in this time. Each misdeed is absent in some runs.
    pub fn draw(rng: &mut Rng, from: Instant, until: Instant) -> Conduct {
        let lie_every = Duration::from_millis([1, 10, 100][rng.below(3) as usize]);
        let chances = std::array::from_fn(|_| [0.0, 0.01, 0.1, 0.4][rng.below(4) as usize]);
        Conduct { from, until, lie_every, chances }
    }
}

/// The nodes of a run, some of which are rogue for a while: they take part by their state machine,
/// and besides break the protocol.
#[derive(Clone)]
pub struct Rogues {
    nodes: Vec<NodeId>,
    conduct: Conduct,
    shared: Arc<Mutex<Shared>>,
}

impl Rogues {
    /// These nodes are rogue, and know this at the start.
    pub fn new(nodes: Vec<NodeId>, known: Known, conduct: Conduct) -> Rogues {
        Rogues { nodes, conduct, shared: Shared::new(known) }
    }

    /// True if this node is rogue at some time.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.contains(&node)
    }

    /// This node. If it is rogue, it lies to any other node.
    pub fn wrap<P: Spoken>(&self, node: NodeId, protocol: P) -> Wrapped<P> {
        self.wrap_with(node, protocol, &[])
    }

    /// The same; if it is rogue, it lies only to these nodes.
    pub fn wrap_with<P: Spoken>(&self, node: NodeId, protocol: P, to: &[NodeId]) -> Wrapped<P> {
        let misdeeds = self.has(node).then(|| Misdeeds {
            conduct: self.conduct.clone(),
            to: to.to_vec(),
            lies_at: self.conduct.from,
            held: Vec::new(),
        });
        Wrapped::new(protocol, Some(Rogue { shared: self.shared.clone(), misdeeds }))
    }

    /// Counts of each misdeed, and of lies by kind.
    pub(crate) fn told(&self) -> BTreeMap<&'static str, u64> {
        self.shared.lock().expect("no panic under the lock").told.clone()
    }
}

impl fmt::Display for Rogues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}", self.nodes, self.conduct)
    }
}

/// A node among which some are rogue, perhaps a rogue one.
pub struct Rogue<P: Protocol> {
    shared: Arc<Mutex<Shared>>,
    misdeeds: Option<Misdeeds<P>>,
}

/// The state of a rogue node.
struct Misdeeds<P: Protocol> {
    conduct: Conduct,
    // The nodes that it lies to; if empty, any other node.
    to: Vec<NodeId>,
    lies_at: Instant,
    // Messages that leave later.
    held: Vec<(Instant, Receiver, P::Message)>,
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum Receiver {
    Node(NodeId, Lane),
    Group(GroupId),
}

impl<P: Spoken> Misdeeds<P> {
    fn is_rogue(&self, now: Instant) -> bool {
        self.conduct.from <= now && now < self.conduct.until
    }

    fn chances(&self, misdeed: Misdeed, rng: &mut Rng) -> bool {
        rng.chance(self.conduct.chances[misdeed as usize])
    }

    /// Tampers with what the node sends.
    fn tamper(&mut self, shared: &mut Shared, cx: &mut Context<'_, P>) {
        let groups = std::mem::take(&mut cx.outbox.group_sends).into_iter();
        let nodes = std::mem::take(&mut cx.outbox.sends).into_iter();
        let groups = groups.map(|(group, message)| (Receiver::Group(group), message));
        let nodes = nodes.map(|send| (Receiver::Node(send.to, send.lane), send.message));
        let mut sends: Vec<_> = groups.chain(nodes).collect();
        self.split(&mut sends, shared, cx);
        for (to, message) in sends {
            self.tamper_with(to, message, shared, cx);
        }
        if self.lies_at <= cx.now {
            self.lies_at = cx.now + self.conduct.lie_every;
            if shared.lie(&self.to, cx) {
                shared.count(Misdeed::Lie.name());
            }
        }
    }

    /// Sends some receivers of a kind of message another one than the others.
    fn split(
        &self,
        sends: &mut Vec<(Receiver, P::Message)>,
        shared: &mut Shared,
        cx: &mut Context<'_, P>,
    ) {
        if sends.is_empty() || !self.chances(Misdeed::Split, cx.rng) {
            return;
        }
        let chosen = cx.rng.below(sends.len() as u32) as usize;
        let Some(other) = shared.draw_like(&sends[chosen].1, cx) else { return };
        if let Receiver::Group(_) = sends[chosen].0 {
            // The copies differ, so this node makes them.
            let (_, message) = sends.remove(chosen);
            for to in shared.others(cx.node) {
                let message = if cx.rng.chance(0.5) { message.clone() } else { other.clone() };
                sends.push((Receiver::Node(to, Lane::Datagram), message));
            }
            return shared.count(Misdeed::Split.name());
        }
        let kind = sends[chosen].1.kind();
        let alike: Vec<usize> =
            (0..sends.len()).filter(|&place| sends[place].1.kind() == kind).collect();
        if alike.len() > 1 {
            let some = &alike[..1 + cx.rng.below(alike.len() as u32 - 1) as usize];
            some.iter().for_each(|&place| sends[place].1 = other.clone());
            shared.count(Misdeed::Split.name());
        }
    }

    /// Does at most one misdeed to a message.
    fn tamper_with(
        &mut self,
        to: Receiver,
        message: P::Message,
        shared: &mut Shared,
        cx: &mut Context<'_, P>,
    ) {
        if self.chances(Misdeed::Drop, cx.rng) {
            return shared.count(Misdeed::Drop.name());
        }
        if self.chances(Misdeed::Repeat, cx.rng) {
            shared.count(Misdeed::Repeat.name());
            send(to, message.clone(), cx);
        } else if self.held.len() < HELD_MAX && self.chances(Misdeed::Hold, cx.rng) {
            shared.count(Misdeed::Hold.name());
            let micros = 1 + cx.rng.below(HELD_MICROS_MAX);
            let leaves_at = cx.now + Duration::from_micros(micros.into());
            return self.held.push((leaves_at, to, message));
        } else if self.chances(Misdeed::Replace, cx.rng)
            && let Some(other) = shared.draw_like(&message, cx)
        {
            shared.count(Misdeed::Replace.name());
            return send(to, other, cx);
        } else if self.chances(Misdeed::Damage, cx.rng)
            && let Some(other) = damaged::<P>(&message, cx.shared, cx.rng)
        {
            shared.count(Misdeed::Damage.name());
            return send(to, other, cx);
        }
        send(to, message, cx);
    }

    /// Sends what was held back for long enough; an honest node all.
    fn release(&mut self, cx: &mut Context<'_, P>) {
        let now = if self.is_rogue(cx.now) { cx.now } else { Instant::MAX };
        for (_, to, message) in self.held.extract_if(.., |(at, ..)| *at <= now) {
            send(to, message, cx);
        }
    }
}

fn send<P: Protocol>(to: Receiver, message: P::Message, cx: &mut Context<'_, P>) {
    let fits = message.wire_len() <= cx.datagram_bytes_max;
    match to {
        Receiver::Node(to, lane) => {
            let lane = if fits { lane } else { Lane::Stream };
            cx.outbox.sends.push(Outgoing { to, lane, message });
        }
        Receiver::Group(group) if fits => cx.outbox.group_sends.push((group, message)),
        Receiver::Group(_) => {}
    }
}

impl<P: Spoken> Tamper<P> for Rogue<P> {
    fn admits(
        &mut self,
        _: &mut P,
        cx: &mut Context<'_, P>,
        _: NodeId,
        _: &mut P::Message,
    ) -> usize {
        let Some(misdeeds) = self.misdeeds.as_ref().filter(|it| it.is_rogue(cx.now)) else {
            return 1;
        };
        let swallows = misdeeds.chances(Misdeed::Swallow, cx.rng);
        if swallows {
            self.shared.lock().expect("no panic under the lock").count(Misdeed::Swallow.name());
        }
        usize::from(!swallows)
    }

    fn tamper(&mut self, node: &mut P, cx: &mut Context<'_, P>) {
        let shared = &mut self.shared.lock().expect("no panic under the lock");
        node.publish(this(cx), &mut shared.known);
        let Some(misdeeds) = &mut self.misdeeds else { return };
        if misdeeds.is_rogue(cx.now) {
            misdeeds.tamper(shared, cx);
        }
        misdeeds.release(cx);
    }
}
