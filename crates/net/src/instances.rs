//! The machine of each protocol, compiled here and not again in each crate that starts a node.
//!
//! What a node runs for every message is generic in its protocol. An optimised build compiles it
//! in each crate that uses it, at the level of optimization of that crate, unless a dependency has
//! an instance and the function is never inlined. [`queued`] is never inlined; this module
//! instantiates it for each protocol of `paceline-proto`. A protocol that is missing here still
//! works: its machine is compiled in the crate that starts its node.

use std::hint::black_box;

use paceline_proto::chain::Chain;
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::multicast::Multicast;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::status::Status;
use paceline_proto::walk::Server;

use crate::chassis::machine::{Hosted, Queued, queued};

fn named<P: Hosted>() {
    black_box::<Queued<P>>(queued);
}

/// Names the machines that are compiled here. Nothing calls it.
#[doc(hidden)]
#[inline(never)]
pub fn named_here() {
    named::<Chain>();
    named::<Group>();
    named::<Overlay>();
    named::<Slingshot>();
    named::<Multicast>();
    named::<Forwarder>();
    named::<Server>();
    named::<Status>();
}
