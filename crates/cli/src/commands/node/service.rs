//! The services that a node can run, one row each.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{dht, group, walk};
use crate::commands::{Outcome, member};
use crate::error::CliError;
use crate::signals::Ending;
use crate::ui::Ui;

/// What a process is part of: a row of [`SERVICES`].
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// The value of `--service`.
    pub name: &'static str,
    /// What `--help` says of it.
    about: &'static str,
    /// How a node of it ends after the first Ctrl-C.
    pub ending: Ending,
    /// True if its nodes join each other, by `--bootstrap` and `--peer`; else a client names them.
    pub joins: bool,
    /// True if its nodes store values: they say what they hold, and may keep it in a file.
    pub stores: bool,
    /// The options by which another node is of the same service.
    pub arguments: fn(&Shared) -> Vec<String>,
    /// Is a node of it until Ctrl-C.
    pub run: fn(&member::Args, &Args, &Ui) -> Result<Outcome, CliError>,
}

/// All of them; the first is the default.
pub static SERVICES: [Service; 3] = [
    Service {
        name: "group",
        about: "A group whose members broadcast",
        ending: Ending::Soon,
        joins: true,
        stores: false,
        arguments: |_| Vec::new(),
        run: |member, _, ui| group::run(member, ui),
    },
    Service {
        name: "dht",
        about: "A distributed hash table",
        // A host hands its values over first.
        ending: Ending::AfterItsPart,
        joins: true,
        stores: true,
        arguments: |shared| shared.table.arguments(),
        run: |member, args, ui| dht::host(&member.host, &args.shared.table, &args.host, ui),
    },
    Service {
        name: "walk",
        about: "Servers of random walks, which `walk run --servers` supplies with their parts of a \
            graph",
        ending: Ending::Soon,
        joins: false,
        stores: false,
        arguments: |_| Vec::new(),
        run: |member, args, ui| walk::serve(&member.host, args.servers.workers, ui),
    },
];

/// What all nodes of a service must agree on.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Shared {
    /// The service to be part of
    #[arg(long, value_name = "SERVICE", default_value = "group")]
    pub service: Service,

    #[command(flatten)]
    pub table: dht::TableArgs,
}

/// How to be a node of a service.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub shared: Shared,

    #[command(flatten)]
    pub host: dht::HostOptions,

    #[command(flatten)]
    pub servers: walk::ServerArgs,
}

impl Shared {
    /// The same for another process.
    pub fn arguments(&self) -> Vec<String> {
        let name = ["--service", self.service.name].map(str::to_owned);
        name.into_iter().chain((self.service.arguments)(self)).collect()
    }
}

impl Service {
    /// The service of this name.
    pub fn named(name: &str) -> Option<Service> {
        SERVICES.iter().find(|service| service.name == name).copied()
    }
}

impl Default for Service {
    fn default() -> Service {
        SERVICES[0]
    }
}

impl PartialEq for Service {
    fn eq(&self, other: &Service) -> bool {
        self.name == other.name
    }
}

impl ValueEnum for Service {
    fn value_variants<'a>() -> &'a [Service] {
        &SERVICES
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name).help(self.about))
    }
}

impl Serialize for Service {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
    }
}

impl<'de> Deserialize<'de> for Service {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Service, D::Error> {
        let name = String::deserialize(deserializer)?;
        let unknown = || serde::de::Error::custom(format!("there is no service `{name}`"));
        Service::named(&name).ok_or_else(unknown)
    }
}
