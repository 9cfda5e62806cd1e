use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use paceline_proto::core::{Context, Instant, NodeId};

use crate::lies::Known;
use crate::stranger::{Shared, Spoken, this};
use crate::{Lies, Tamper, Wrapped};

/// What a driver does with a message in the name of another node. Its [name](Verdict::name) is that
/// of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Refused: this run of the receiver has met the node, and gave a tag to that node only.
    Met,
    /// Refused: the name is the receiver's own.
    Own,
    /// Passed: the node has left permanently, and this run of the receiver has not met it.
    Gone,
    /// Refused, although a driver would not: the receiver has not met the node, and the node may
    /// come yet. Without keys the two cannot be told apart.
    Squatted,
}

impl Verdict {
    /// The name of its counter.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Met => "forged_of_met",
            Verdict::Own => "forged_of_own",
            Verdict::Gone => "forged_of_gone",
            Verdict::Squatted => "forged_of_squatted",
        }
    }
}

/// What honest nodes do with messages in the names of others, as drivers on sockets do. By default
/// there is no such message.
#[derive(Clone, Debug, Default)]
pub struct Gate(Option<Arc<Mutex<Names>>>);

#[derive(Debug, Default)]
struct Names {
    /// In whose name a forger, the first of each pair, sends to a node at present.
    forged: BTreeMap<(NodeId, NodeId), NodeId>,
    /// The nodes that this run of each node has met.
    met: BTreeMap<NodeId, BTreeSet<NodeId>>,
    gone: BTreeMap<NodeId, Instant>,
    given: BTreeMap<&'static str, u64>,
    /// The verdict on the message of this call: the name under which the observer sees it, if it
    /// does.
    present: Option<Option<NodeId>>,
}

impl Names {
    fn has_met(&self, node: NodeId, other: NodeId) -> bool {
        self.met.get(&node).is_some_and(|met| met.contains(&other))
    }

    fn is_gone(&self, node: NodeId, now: Instant) -> bool {
        self.gone.get(&node).is_some_and(|&at| at <= now)
    }

    fn judge(&mut self, now: Instant, node: NodeId, from: NodeId) -> Option<NodeId> {
        let Some(&name) = self.forged.get(&(from, node)) else {
            self.met.entry(node).or_default().insert(from);
            return Some(from);
        };
        let verdict = match name {
            _ if name == node => Verdict::Own,
            _ if self.has_met(node, name) => Verdict::Met,
            _ if self.is_gone(name, now) => Verdict::Gone,
            _ => Verdict::Squatted,
        };
        *self.given.entry(verdict.name()).or_default() += 1;
        (verdict == Verdict::Gone).then_some(name)
    }
}

impl Gate {
    fn names(&self) -> Option<MutexGuard<'_, Names>> {
        self.0.as_ref().map(|names| names.lock().expect("no panic under the lock"))
    }

    /// An honest node is called, for a message if it comes from a node. False if it is refused.
    pub(crate) fn admits(&self, now: Instant, node: NodeId, from: Option<NodeId>) -> bool {
        let Some(mut names) = self.names() else { return true };
        names.present = from.map(|from| names.judge(now, node, from));
        names.present != Some(None)
    }

    /// The call is over. True if it was for a message that was refused.
    pub(crate) fn ends_refused(&self) -> bool {
        self.names().is_some_and(|mut names| names.present.take() == Some(None))
    }
}

/// The nodes of a run: `honest` honest ones, then forgers. These are strangers off the path: they
/// send in the names of honest nodes and of nodes that are gone, and see nothing that these are
/// sent.
#[derive(Clone)]
pub struct Forgers {
    honest: u32,
    lies: Lies,
    shared: Arc<Mutex<Shared>>,
    gate: Gate,
}

impl Forgers {
    /// Forgers beside `honest` nodes, that know this at the start. The nodes of `gone` crash or
    /// leave at that time and never come back.
    pub fn new(
        honest: u32,
        known: Known,
        lies: Lies,
        gone: impl IntoIterator<Item = (NodeId, Instant)>,
    ) -> Forgers {
        let names = Names { gone: gone.into_iter().collect(), ..Names::default() };
        let gate = Gate(Some(Arc::new(Mutex::new(names))));
        Forgers { honest, lies, shared: Shared::new(known), gate }
    }

    /// What honest nodes do with forged messages.
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// This node, and what it is: honest or a forger.
    pub fn wrap<P: Spoken>(&self, node: NodeId, protocol: P) -> Wrapped<P> {
        let lies = (node >= NodeId::from(self.honest)).then(|| self.lies.clone());
        let (shared, gate) = (self.shared.clone(), self.gate.clone());
        Wrapped::new(protocol, Some(Forger { shared, gate, lies }))
    }

    /// How often messages of each kind were sent, and each verdict was given.
    pub(crate) fn told(&self) -> BTreeMap<&'static str, u64> {
        let mut told = self.shared.lock().expect("no panic under the lock").told.clone();
        told.extend(self.gate.names().into_iter().flat_map(|names| names.given.clone()));
        told
    }
}

/// An honest node beside forgers, or a forger.
pub struct Forger {
    shared: Arc<Mutex<Shared>>,
    gate: Gate,
    lies: Option<Lies>,
}

impl Forger {
    /// Sends a message to an honest node in the name of another. False if it knows no node yet.
    fn forge<P: Spoken>(&self, cx: &mut Context<'_, P>) -> bool {
        let mut shared = self.shared.lock().expect("no panic under the lock");
        let Some(mut names) = self.gate.names() else { return false };
        let known = shared.known.members.clone();
        let there: Vec<_> = known.iter().filter(|it| !names.is_gone(it.node, cx.now)).collect();
        if there.is_empty() {
            return false;
        }
        let to = there[cx.rng.below(there.len() as u32) as usize].node;
        let class = cx.rng.below(8);
        let is_wanted = |name: NodeId| match class {
            0 => name == to,
            1 | 2 => names.has_met(to, name),
            _ => names.is_gone(name, cx.now) && !names.has_met(to, name),
        };
        let wanted: Vec<_> = known.iter().filter(|it| is_wanted(it.node)).collect();
        let of = if wanted.is_empty() { there } else { wanted };
        let name = *of[cx.rng.below(of.len() as u32) as usize];
        names.forged.insert((cx.node, to), name.node);
        shared.lie_as(name, to, cx);
        true
    }
}

impl<P: Spoken> Tamper<P> for Forger {
    fn starts(&mut self, _: &mut P, cx: &mut Context<'_, P>) -> bool {
        match &self.lies {
            Some(lies) => cx.set_timer(lies.every, P::TICK),
            // A new run has met no node.
            None => _ = self.gate.names().and_then(|mut names| names.met.remove(&cx.node)),
        }
        self.lies.is_none()
    }

    fn name(&mut self, _: &mut Context<'_, P>, _: NodeId) -> Option<NodeId> {
        // The verdict that was reached before observers saw the message. They see its true sender.
        let is_honest = self.lies.is_none();
        self.gate.names().filter(|_| is_honest).and_then(|names| names.present.flatten())
    }

    fn fires(&mut self, _: &mut P, cx: &mut Context<'_, P>, _: P::Timer) -> bool {
        if let Some(lies) = &self.lies {
            lies.tick(cx, |cx| self.forge(cx));
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
        if self.lies.is_none() {
            let known = &mut self.shared.lock().expect("no panic under the lock").known;
            node.publish(this(cx), known);
        }
    }
}
