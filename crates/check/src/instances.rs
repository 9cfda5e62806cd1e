//! The simulator of each wrapped protocol, compiled here and not again in each test program that
//! runs it, as in `paceline_sim`'s module of this name.

use paceline_baselines::ack::Ack;
use paceline_baselines::gossip::Gossip;
use paceline_baselines::nak::Nak;
use paceline_baselines::srm::Srm;
use paceline_proto::chain::Chain;
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;
use paceline_sim::named;

use crate::Wrapped;

/// Names the simulators that are compiled here. Nothing calls it.
#[doc(hidden)]
#[inline(never)]
pub fn named_here() {
    named::<Wrapped<Chain>>();
    named::<Wrapped<Group>>();
    named::<Wrapped<Overlay>>();
    named::<Wrapped<Slingshot>>();
    named::<Wrapped<Ack>>();
    named::<Wrapped<Gossip>>();
    named::<Wrapped<Nak>>();
    named::<Wrapped<Srm>>();
    named::<Wrapped<Forwarder>>();
    named::<Wrapped<Server>>();
}
