//! What a forwarder starts with, whether options or a file name it.

use std::net::{Ipv4Addr, SocketAddr};

use paceline::named::{Forwarder, Name};
use paceline::proto::mircc::Config;
use paceline_lab::scenario::Rate;

use super::args::{Allowed, Face, PORT, Route, StrategyChoice, explain, link};
use crate::error::CliError;

/// Default bytes of the content store.
const STORE_BYTES: usize = 64 << 20;

/// What a forwarder starts with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where it listens.
    pub bind: SocketAddr,
    /// Its neighbours.
    pub faces: Vec<Face>,
    /// Whose addresses are believed.
    pub allowed: Allowed,
    /// The rate of links that have none of their own.
    pub rate: Option<Rate>,
    /// Prefixes and their next hops.
    pub routes: Vec<Route>,
    /// How prefixes choose among next hops.
    pub strategies: Vec<StrategyChoice>,
    /// Prefixes below which neighbours may register.
    pub registrations: Vec<Name>,
    /// What it calls itself. Default its address.
    pub name: Option<String>,
    /// Whether it may listen beyond loopback.
    pub insecure_plaintext: bool,
    /// Controller, shaper, content store, tables.
    pub config: Config,
}

impl Setup {
    /// Where a forwarder listens by default.
    pub fn here() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
    }

    /// The configuration that a forwarder begins with.
    pub fn config() -> Config {
        Config { store_bytes_max: STORE_BYTES, ..Config::default().on_sockets() }
    }

    /// Starts it; call it inside the runtime.
    pub fn start(&self) -> Result<Forwarder, CliError> {
        let mut builder = Forwarder::builder()
            .bind(self.bind)
            .strangers(link(self.rate))
            .with_config(|_| self.config.clone());
        builder = self.allowed.apply(builder);
        for face in &self.faces {
            builder = builder.face(face.address, face.config(self.rate));
        }
        for Route { prefix, address, cost } in &self.routes {
            builder = builder.route_with_cost(prefix.clone(), *address, *cost);
        }
        for StrategyChoice { prefix, strategy } in &self.strategies {
            builder = builder.strategy(prefix.clone(), *strategy);
        }
        for prefix in &self.registrations {
            builder = builder.accept_registrations(prefix.clone());
        }
        if let Some(name) = &self.name {
            builder = builder.name(name);
        }
        if self.insecure_plaintext {
            builder = builder.insecure_plaintext();
        }
        builder.start().map_err(explain)
    }
}
