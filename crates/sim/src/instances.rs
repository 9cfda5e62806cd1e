//! The simulator of each protocol, compiled here and not again in each crate that runs it.
//!
//! An optimised build compiles a generic function again in each crate that calls it, unless a
//! dependency has an instance and the function is never inlined. [`Sim`]'s entry points are never
//! inlined; this module instantiates them for each protocol. A protocol that is missing here still
//! works: its simulator is compiled in the crate that runs it.

use std::hint::black_box;
use std::sync::Arc;

use paceline_baselines::ack::Ack;
use paceline_baselines::gossip::Gossip;
use paceline_baselines::nak::Nak;
use paceline_baselines::srm::Srm;
use paceline_proto::chain::Chain;
use paceline_proto::core::{Instant, NodeId, Protocol};
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;

use crate::{Observer, Sim, SimConfig};

type Boxed<P> =
    fn(SimConfig, Arc<<P as Protocol>::Shared>, Box<dyn FnMut(NodeId) -> P>) -> Sim<'static, P>;
type RunUntil<P> = fn(&mut Sim<'static, P>, Instant, &mut dyn Observer<P>) -> u64;
type CommandAt<P> = fn(&mut Sim<'static, P>, Instant, NodeId, <P as Protocol>::Command);

fn named<P: Protocol>() {
    black_box::<(Boxed<P>, RunUntil<P>, CommandAt<P>)>((
        Sim::boxed,
        Sim::run_until,
        Sim::command_at,
    ));
}

/// What is put around a protocol to make another one of it.
#[doc(hidden)]
pub trait Around {
    /// The protocol that is made of this one.
    type Protocol<P: Protocol + 'static>: Protocol;
}

/// Nothing: the protocol itself.
enum Bare {}

impl Around for Bare {
    type Protocol<P: Protocol + 'static> = P;
}

/// Names the simulator of each protocol with this around it, for a crate that is to compile them.
#[doc(hidden)]
pub fn named_around<A: Around>() {
    named::<A::Protocol<Chain>>();
    named::<A::Protocol<Group>>();
    named::<A::Protocol<Overlay>>();
    named::<A::Protocol<Slingshot>>();
    named::<A::Protocol<Ack>>();
    named::<A::Protocol<Gossip>>();
    named::<A::Protocol<Nak>>();
    named::<A::Protocol<Srm>>();
    named::<A::Protocol<Forwarder>>();
    named::<A::Protocol<Server>>();
}

/// Names the simulators that are compiled here. Nothing calls it; a function that may be inlined
/// is compiled where it is called only.
#[doc(hidden)]
#[inline(never)]
pub fn named_here() {
    named_around::<Bare>();
}
