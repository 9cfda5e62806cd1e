// Checkers find the node of each protocol in what wraps it.

use crate::checkers::{chain, group, mircc, overlay, slingshot, walk};
use paceline_proto::chain::Chain;
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;

use crate::{Tamper, Wrapped};

impl<T: Tamper<Chain>> chain::Member for Wrapped<Chain, T> {
    fn chain(&self) -> &Chain {
        self.node()
    }
}

impl<P: group::Host, T: Tamper<P>> group::Host for Wrapped<P, T> {
    fn group(&self) -> &Group {
        self.node().group()
    }

    fn layers(&self) -> group::Layers {
        self.shown(self.node().layers())
    }
}

impl<T: Tamper<Forwarder>> mircc::Node for Wrapped<Forwarder, T> {
    fn forwarder(&self) -> &Forwarder {
        self.node()
    }
}

impl<T: Tamper<Overlay>> overlay::Host for Wrapped<Overlay, T> {
    fn overlay(&self) -> &Overlay {
        self.node()
    }
}

impl<T: Tamper<Slingshot>> slingshot::Member for Wrapped<Slingshot, T> {
    fn slingshot(&self) -> &Slingshot {
        self.node()
    }
}

impl<T: Tamper<Server>> walk::Node for Wrapped<Server, T> {
    fn server(&self) -> &Server {
        self.node()
    }
}
