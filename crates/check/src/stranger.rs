use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use paceline_proto::chain::{self, Chain};
use paceline_proto::core::{Context, Instant, Lane, Member, NodeId, Protocol, Rng, Wire};
use paceline_proto::group::{self, Group};
use paceline_proto::mircc::{self, Forwarder};
use paceline_proto::overlay::{self, Overlay};
use paceline_proto::slingshot::{self, Slingshot};
use paceline_proto::walk::{self, Server};

use crate::lies::{Draw, Known, Source};
use crate::{Forgers, Misdeed, Rogues, Tamper, Verdict, Wrapped, seeds};

paceline_proto::counters! {
    /// What strangers count.
    pub COUNTERS = "stranger" {
        /// Sent.
        LIES = "stranger_lies", [messages];
    }
}

/// A protocol that strangers may speak.
pub trait Spoken: Protocol<Message: Draw> + 'static {
    /// What a stranger, which has no other timers, is woken by.
    const TICK: Self::Timer;

    /// Notes what this node tells any that asks.
    fn publish(&self, node: Member, known: &mut Known) {
        known.note(node);
    }
}

impl Spoken for Chain {
    const TICK: chain::Timer = chain::Timer::Ack;
}

impl Spoken for Group {
    const TICK: group::Timer = group::Timer::Group;

    fn publish(&self, _: Member, known: &mut Known) {
        if self.view().id().0 >= known.view {
            (known.view, known.digest) = (self.view().id().0, self.view().digest());
        }
        known.note(self.member());
    }
}

impl Spoken for Slingshot {
    const TICK: slingshot::Timer = slingshot::Timer::Gap;
}

impl Spoken for Forwarder {
    const TICK: mircc::Timer = mircc::Timer::Local;
}

impl Spoken for Server {
    const TICK: walk::Timer = walk::Timer::Work;
}

impl Spoken for Overlay {
    const TICK: overlay::Timer = overlay::Timer::Upkeep;

    fn publish(&self, node: Member, known: &mut Known) {
        known.algorithm = self.router().algorithm();
        known.note(node);
    }
}

/// How strangers lie.
#[derive(Clone, Debug)]
pub struct Lies {
    /// Time between two lies of a stranger.
    pub every: Duration,
    /// After this there are none.
    pub until: Instant,
}

impl Lies {
    /// Draws the time between two lies from these, in microseconds. There are none after `until`.
    pub fn draw(rng: &mut Rng, every_micros: [u64; 3], until: Instant) -> Lies {
        let every = Duration::from_micros(every_micros[rng.below(3) as usize]);
        Lies { every, until }
    }

    /// A liar's timer fires: lets it lie, counts that if `lie` returns true, and sets the next one.
    pub(crate) fn tick<P: Spoken>(
        &self,
        cx: &mut Context<'_, P>,
        lie: impl FnOnce(&mut Context<'_, P>) -> bool,
    ) {
        if cx.now < self.until {
            if lie(cx) {
                cx.count(LIES, 1);
            }
            cx.set_timer(self.every, P::TICK);
        }
    }
}

/// The nodes of a run: `honest` honest ones, then strangers.
#[derive(Clone)]
pub struct Strangers {
    honest: u32,
    lies: Lies,
    shared: Arc<Mutex<Shared>>,
}

/// What the nodes of a run that lie have in common.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) known: Known,
    /// How often a message of each kind was sent, and anything else that is counted was done.
    pub(crate) told: BTreeMap<&'static str, u64>,
}

impl Shared {
    pub(crate) fn new(known: Known) -> Arc<Mutex<Shared>> {
        Arc::new(Mutex::new(Shared { known, ..Shared::default() }))
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.told.entry(what).or_default() += 1;
    }

    /// All nodes that take part, but this one.
    pub(crate) fn others(&self, me: NodeId) -> Vec<NodeId> {
        let nodes = self.known.members.iter().map(|member| member.node);
        nodes.filter(|&node| node != me).collect()
    }

    fn source<'a, P: Spoken>(&'a self, me: Member, cx: &'a mut Context<'_, P>) -> Source<'a> {
        let is_member = me == this(cx) && self.known.members.contains(&me);
        Source { rng: &mut *cx.rng, known: &self.known, me, is_member }
    }

    /// Another message of the same kind, if the draw finds one.
    pub(crate) fn draw_like<P: Spoken>(
        &self,
        message: &P::Message,
        cx: &mut Context<'_, P>,
    ) -> Option<P::Message> {
        message.draw_alike(&mut self.source(this(cx), cx))
    }

    /// Sends a drawn message to one of these nodes, to any other if there are none. False if there
    /// is no other.
    pub(crate) fn lie<P: Spoken>(&mut self, to: &[NodeId], cx: &mut Context<'_, P>) -> bool {
        let others = if to.is_empty() { self.others(cx.node) } else { Vec::new() };
        let to = if to.is_empty() { &others } else { to };
        if self.known.members.is_empty() || to.is_empty() {
            return false;
        }
        let to = self.source(this(cx), cx).one_of(to);
        self.lie_as(this(cx), to, cx);
        true
    }

    /// Sends a message that is drawn as this node would draw it.
    pub(crate) fn lie_as<P: Spoken>(&mut self, me: Member, to: NodeId, cx: &mut Context<'_, P>) {
        let message = P::Message::draw(&mut self.source(me, cx));
        self.count(message.kind());
        let fits = message.wire_len() <= cx.datagram_bytes_max;
        let lane = if fits { message.lane() } else { Lane::Stream };
        cx.send(to, lane, message);
    }
}

/// The node that is called.
pub(crate) fn this<P: Protocol>(cx: &Context<'_, P>) -> Member {
    Member { node: cx.node, incarnation: cx.incarnation }
}

impl Strangers {
    /// Strangers beside `honest` nodes, that know this at the start.
    pub fn new(honest: u32, known: Known, lies: Lies) -> Strangers {
        Strangers { honest, lies, shared: Shared::new(known) }
    }

    /// This node, and what it is: honest or a stranger. A stranger sends to any honest node.
    pub fn wrap<P: Spoken>(&self, node: NodeId, protocol: P) -> Wrapped<P> {
        self.wrap_with(node, protocol, &[])
    }

    /// The same; if it is a stranger, it sends only to these nodes.
    pub fn wrap_with<P: Spoken>(&self, node: NodeId, protocol: P, to: &[NodeId]) -> Wrapped<P> {
        let lies = (node >= NodeId::from(self.honest)).then(|| (self.lies.clone(), to.to_vec()));
        Wrapped::new(protocol, Some(Stranger { shared: self.shared.clone(), lies }))
    }
}

/// Counts over many runs how often a message of each kind was sent by nodes that lie, and what
/// else they did.
#[derive(Default)]
pub struct LieTally(Mutex<BTreeMap<&'static str, u64>>);

impl LieTally {
    /// Adds what the strangers of a run sent.
    pub fn add(&self, strangers: &Strangers) {
        self.add_all(&strangers.shared.lock().expect("no panic under the lock").told);
    }

    /// Adds what the forgers of a run sent, and what became of it.
    pub fn add_forgers(&self, forgers: &Forgers) {
        self.add_all(&forgers.told());
    }

    /// Runs a scenario with rogue nodes, and adds what they did. What goes wrong, a panic among it,
    /// comes with the command that runs the seed of the suite again.
    pub fn run_rogues<T>(
        &self,
        (suite, seed): (&str, u64),
        rogues: &Rogues,
        scenario: &dyn fmt::Debug,
        run: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, String> {
        let result = seeds::caught(run).map_err(|what| {
            let replay = seeds::replay(suite, seed);
            format!("{what}\nreplay: {replay}\nrogue: {rogues}\n{scenario:#?}")
        })?;
        self.add_all(&rogues.told());
        Ok(result)
    }

    fn add_all(&self, told: &BTreeMap<&'static str, u64>) {
        let mut tally = self.0.lock().expect("no panic under the lock");
        for (kind, count) in told {
            *tally.entry(kind).or_default() += count;
        }
    }

    /// Sees to it that the strangers of `seeds` runs acted: that they sent more than `least`
    /// messages a run, as many as the runs counted (`lies`), and in 100 runs every kind of message.
    ///
    /// # Panics
    /// If they did not.
    pub fn assert_acted<M: Draw>(&self, seeds: u64, lies: u64, least: u64) {
        let tally = self.0.lock().expect("no panic under the lock");
        let total: u64 = M::kinds().iter().filter_map(|kind| tally.get(kind)).sum();
        assert!(lies > least * seeds && lies == total, "{lies} lies, {total} of known kinds");
        let missing: Vec<_> =
            M::kinds().into_iter().filter(|kind| !tally.contains_key(kind)).collect();
        assert!(seeds < 100 || missing.is_empty(), "no stranger sent {missing:?}");
    }

    /// Sees to it that the forgers of `seeds` runs acted: that they sent more than `least` messages
    /// a run, as many as the runs counted (`lies`), and in 100 runs that each verdict was given.
    ///
    /// # Panics
    /// If they did not.
    pub fn assert_forged<M: Draw>(&self, seeds: u64, lies: u64, least: u64, verdicts: &[Verdict]) {
        self.assert_acted::<M>(seeds, lies, least);
        let tally = self.0.lock().expect("no panic under the lock");
        let given: Vec<_> = verdicts.iter().map(|it| (it.name(), tally.get(it.name()))).collect();
        println!("{given:?}");
        let is_given = |(_, count): &(_, Option<&u64>)| count.is_some_and(|&count| count > seeds);
        assert!(seeds < 100 || given.iter().all(is_given), "{given:?}");
    }

    /// Sees to it that the rogue nodes of `seeds` runs sent more than `least` lies a run, and in
    /// 100 runs did each of these misdeeds and sent every kind of message.
    ///
    /// # Panics
    /// If they did not.
    pub fn assert_rogue<M: Draw>(&self, seeds: u64, least: u64, misdeeds: &[Misdeed]) {
        let tally = self.0.lock().expect("no panic under the lock");
        let done: Vec<_> = misdeeds.iter().map(|it| (it.name(), tally.get(it.name()))).collect();
        println!("{done:?}");
        let lies = tally.get(Misdeed::Lie.name()).copied().unwrap_or_default();
        assert!(lies > least * seeds, "{lies} lies");
        let names = misdeeds.iter().map(|it| it.name()).chain(M::kinds());
        let missing: Vec<_> = names.filter(|name| !tally.contains_key(name)).collect();
        assert!(seeds < 100 || missing.is_empty(), "no rogue node did {missing:?}");
    }
}

/// An honest node beside strangers, or a stranger: a node under its own name that sends false
/// messages and never answers.
pub struct Stranger {
    shared: Arc<Mutex<Shared>>,
    /// For a stranger: how it lies, and to which nodes; if empty, to any honest node.
    lies: Option<(Lies, Vec<NodeId>)>,
}

impl<P: Spoken> Tamper<P> for Stranger {
    fn starts(&mut self, _: &mut P, cx: &mut Context<'_, P>) -> bool {
        if let Some((lies, _)) = &self.lies {
            cx.set_timer(lies.every, P::TICK);
        }
        self.lies.is_none()
    }

    fn admits(
        &mut self,
        _: &mut P,
        _: &mut Context<'_, P>,
        _: NodeId,
        _: &mut P::Message,
    ) -> usize {
        usize::from(self.lies.is_none())
    }

    fn fires(&mut self, _: &mut P, cx: &mut Context<'_, P>, _: P::Timer) -> bool {
        if let Some((lies, to)) = &self.lies {
            let lie = |cx: &mut Context<'_, P>| {
                self.shared.lock().expect("no panic under the lock").lie(to, cx)
            };
            lies.tick(cx, lie);
        }
        self.lies.is_none()
    }

    fn commands(&mut self, _: &mut P, _: &mut Context<'_, P>, _: &mut P::Command) -> bool {
        self.lies.is_none()
    }

    fn hears(&self) -> bool {
        self.lies.is_none()
    }

    fn tamper(&mut self, node: &mut P, cx: &mut Context<'_, P>) {
        let known = &mut self.shared.lock().expect("no panic under the lock").known;
        node.publish(this(cx), known);
    }
}
