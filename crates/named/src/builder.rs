use std::net::SocketAddr;
use std::sync::Arc;

use paceline_net::{AddressRange, BoundFaces, Exposure, FaceError, FacesConfig};
use paceline_proto::core::NodeId;
use paceline_proto::mircc::{Config, FaceConfig, Forwarder as Protocol, Setup, Strategy};
use paceline_proto::ndn::Name;

use super::error::ForwarderError;
use super::pending::PendingExchanges;
use super::rib::Rib;
use super::{Forwarder, Shared};

/// What a forwarder needs to start; made by [`Forwarder::builder`].
#[derive(Debug)]
pub struct ForwarderBuilder {
    bind: SocketAddr,
    exposure: Exposure,
    name: Option<String>,
    faces: Vec<(SocketAddr, FaceConfig)>,
    routes: Vec<(Name, SocketAddr, u32)>,
    strategies: Vec<(Name, Strategy)>,
    strangers: Option<FaceConfig>,
    strangers_max: usize,
    faces_allowed: Option<Vec<AddressRange>>,
    unproven_bytes_per_second: Option<u64>,
    registrations: Vec<Name>,
    config: Config,
}

impl ForwarderBuilder {
    pub(super) fn new() -> ForwarderBuilder {
        ForwarderBuilder {
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            exposure: Exposure::default(),
            name: None,
            faces: Vec::new(),
            routes: Vec::new(),
            strategies: Vec::new(),
            strangers: None,
            strangers_max: 1_024,
            faces_allowed: None,
            unproven_bytes_per_second: None,
            registrations: Vec::new(),
            config: Config::default().on_sockets(),
        }
    }

    /// The UDP address to listen on. Default 127.0.0.1 and any free port.
    pub fn bind(mut self, address: SocketAddr) -> ForwarderBuilder {
        self.bind = address;
        self
    }

    /// What the forwarder calls itself when a path is traced. Default its address.
    pub fn name(mut self, name: impl Into<String>) -> ForwarderBuilder {
        self.name = Some(name.into());
        self
    }

    /// Adds a neighbour, with the rates of the link to and from it. If the rate from it is known,
    /// the hop-by-hop shaper paces Interests to it, and Data is stamped.
    pub fn face(mut self, address: SocketAddr, face: FaceConfig) -> ForwarderBuilder {
        self.faces.push((address, face));
        self
    }

    /// Adds a route: names with this prefix are reached by this neighbour, at no cost. Among
    /// several routes the [`strategy`](ForwarderBuilder::strategy) of the prefix chooses.
    pub fn route(self, prefix: Name, address: SocketAddr) -> ForwarderBuilder {
        self.route_with_cost(prefix, address, 0)
    }

    /// Adds a route at a cost: any unit, lower is preferred; of equals the one that was added
    /// first.
    pub fn route_with_cost(
        mut self,
        prefix: Name,
        address: SocketAddr,
        cost: u32,
    ) -> ForwarderBuilder {
        self.routes.push((prefix, address, cost));
        self
    }

    /// How Interests for names with a prefix choose among next hops, unless they have a path label
    /// or discover paths. The longest prefix counts. Default [`Strategy::BestRoute`].
    pub fn strategy(mut self, prefix: Name, strategy: Strategy) -> ForwarderBuilder {
        self.strategies.push((prefix, strategy));
        self
    }

    /// Accepts the sender of any valid packet as a neighbour, with this link configuration.
    /// Default: only the faces that were named.
    pub fn strangers(mut self, face: FaceConfig) -> ForwarderBuilder {
        self.strangers = Some(face);
        self
    }

    /// How many strangers there may be at once. Default 1,024.
    pub fn strangers_max(mut self, strangers: usize) -> ForwarderBuilder {
        self.strangers_max = strangers;
        self
    }

    /// Replaces the ranges of addresses in which strangers are proven. List only networks that
    /// filter forged source addresses at their border. Default 127.0.0.0/8 and ::1.
    ///
    /// A stranger at any other address is sent at most three times the bytes received from it,
    /// which is seldom a segment, and its face is the first to make room:
    /// [`FacesConfig::with_faces_allowed`]. Neighbours that are named
    /// ([`face`](ForwarderBuilder::face), [`Forwarder::add_face`]) are proven.
    pub fn faces_allowed(
        mut self,
        ranges: impl IntoIterator<Item = AddressRange>,
    ) -> ForwarderBuilder {
        self.faces_allowed = Some(ranges.into_iter().collect());
        self
    }

    /// Rate at which the strangers of one network (a /24 of IPv4, a /48 of IPv6) that are not
    /// proven are answered: bytes a second, IP and UDP headers included. Default 100,000.
    pub fn unproven_bytes_per_second(mut self, bytes: u64) -> ForwarderBuilder {
        self.unproven_bytes_per_second = Some(bytes);
        self
    }

    /// Lets neighbours register prefixes below this one, as NFD does: at `/localhost/nfd` those on
    /// this machine, at `/localhop/nfd` any. Their routes end with their faces. Default none; may
    /// be called for several prefixes, and [`Name::root`] is all.
    ///
    /// Requires no signature: any host that reaches the forwarder may draw such names to itself. A
    /// prefix that has a route of the operator, or is served here, cannot be registered, nor one
    /// below it. There are two exceptions: a route for `/` keeps no prefix, and a prefix that is
    /// accepted here can be registered although a shorter one has a route.
    pub fn accept_registrations(mut self, prefix: Name) -> ForwarderBuilder {
        self.registrations.push(prefix);
        self
    }

    /// Bytes of Data kept in the content store, to answer later Interests. Default 0.
    pub fn store_bytes(mut self, bytes: usize) -> ForwarderBuilder {
        self.config.store_bytes_max = bytes;
        self
    }

    /// Interests that may be pending. Default 65,536.
    pub fn pending_max(mut self, interests: usize) -> ForwarderBuilder {
        self.config.pending_max = interests;
        self
    }

    /// Bytes of memory that pending Interests may take, names included. Default 1 KiB for each that
    /// there may be, 1 MiB at least.
    pub fn pending_bytes_max(mut self, bytes: usize) -> ForwarderBuilder {
        self.config.pending_bytes_max = Some(bytes);
        self
    }

    /// Changes the rest: rate controller, shaper, windows and times.
    pub fn with_config(mut self, change: impl FnOnce(Config) -> Config) -> ForwarderBuilder {
        self.config = change(self.config);
        self
    }

    /// Allows addresses beyond loopback although nothing is encrypted, and rates, paths and
    /// registrations are believed: any host that reaches the port can read and forge them.
    pub fn insecure_plaintext(mut self) -> ForwarderBuilder {
        self.exposure = Exposure::InsecurePlaintext;
        self
    }

    /// Binds the socket and starts, on the current tokio runtime.
    ///
    /// # Errors
    /// If a knob is out of range, the address cannot be bound, a face cannot have its address or
    /// a route leads to none, or there is no runtime.
    pub fn start(self) -> Result<Forwarder, ForwarderError> {
        self.config.check()?;
        let mut config = FacesConfig::new(self.bind)
            .with_exposure(self.exposure)
            .with_accepts_unknown(self.strangers.is_some())
            .with_faces_max(self.strangers_max);
        if let Some(ranges) = self.faces_allowed {
            config = config.with_faces_allowed(ranges);
        }
        if let Some(bytes) = self.unproven_bytes_per_second {
            config = config.with_unproven_bytes_per_second(bytes);
        }
        let bound = BoundFaces::bind(config)?;
        // The node knows its first faces by their places.
        let id_of = |address: SocketAddr| {
            let place = self.faces.iter().position(|&(face, _)| is_same(face, address));
            place.map(|place| NodeId(place as u64))
        };
        let mut routes = Vec::with_capacity(self.routes.len());
        for (prefix, address, cost) in self.routes {
            match id_of(address) {
                Some(id) => routes.push((prefix, id, cost)),
                None => return Err(ForwarderError::NoFace { prefix, address }),
            }
        }
        let addresses: Vec<SocketAddr> = self.faces.iter().map(|&(address, _)| address).collect();
        for (place, &address) in addresses.iter().enumerate() {
            if addresses[..place].iter().any(|&other| is_same(other, address)) {
                return Err(FaceError::Twice { addr: address }.into());
            }
        }
        let led = routes.iter().map(|(prefix, id, _)| (prefix.clone(), *id)).collect();
        let setup = Setup {
            name: self.name.unwrap_or_else(|| bound.local_addr().to_string()),
            faces: (0..).map(NodeId).zip(self.faces.iter().map(|&(_, face)| face)).collect(),
            stranger: self.strangers.unwrap_or_default(),
            routes,
            strategies: self.strategies,
            objects: Vec::new(),
        };
        let protocol = Protocol::new(setup, &self.config);
        let (node, events) = bound.start(&addresses, protocol, Arc::new(self.config))?;
        let pending = Arc::new(PendingExchanges::default());
        let shared = Arc::new(Shared::new(node, pending.clone(), led));
        let rib = Rib::new(self.registrations);
        rib.begin(&shared);
        tokio::spawn(pending.serve(events, rib, Arc::downgrade(&shared)));
        Ok(Forwarder::new(shared))
    }
}

/// True if both are one address, however IPv4 is written.
pub(super) fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}
