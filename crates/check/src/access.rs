// Checkers find the node of each protocol in what wraps it.

use crate::checkers::{chain, group, mircc, overlay, slingshot, walk};
use paceline_proto::chain::Chain;
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;

use crate::Wrapped;

impl chain::Member for Wrapped<Chain> {
    fn chain(&self) -> &Chain {
        self.node()
    }
}

impl<P: group::Host> group::Host for Wrapped<P> {
    fn group(&self) -> &Group {
        self.node().group()
    }

    fn layers(&self) -> group::Layers {
        self.shown(self.node().layers())
    }
}

impl mircc::Node for Wrapped<Forwarder> {
    fn forwarder(&self) -> &Forwarder {
        self.node()
    }
}

impl overlay::Host for Wrapped<Overlay> {
    fn overlay(&self) -> &Overlay {
        self.node()
    }
}

impl slingshot::Member for Wrapped<Slingshot> {
    fn slingshot(&self) -> &Slingshot {
        self.node()
    }
}

impl walk::Node for Wrapped<Server> {
    fn server(&self) -> &Server {
        self.node()
    }
}
