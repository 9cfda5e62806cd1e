//! The tables of services in a node file: each has a name, and the knobs of its builder under the
//! names that the library and scenarios use.

use std::path::{Path, PathBuf};

use paceline::proto::core::ConfigError;
use paceline::proto::parts::link_share::WEIGHT_MAX;
use paceline::proto::{overlay, slingshot, walk};
use paceline::{
    Algorithm, BroadcastConfig, DetectorConfig, DhtBuilder, MulticastBuilder, ViewsConfig,
};
use paceline_lab::LabError;
use paceline_lab::scenario::{FileTables, Table, TableFile};
use paceline_lab_services::chain::read_broadcast;
use paceline_lab_services::slingshot::read_repairs;

use crate::error::CliError;

/// The tables of a node file.
pub const TABLES: FileTables = FileTables {
    all: &["host", "group", "multicast", "dht", "walks", "named"],
    lists: &["group", "multicast", "dht", "walks"],
    keys: &[("host", HOST_KEYS)],
};

/// The keys of `[host]`.
pub const HOST_KEYS: &[&str] = &[
    "cluster",
    "bind",
    "advertise",
    "id",
    "id_of_address",
    "peers",
    "expect",
    "join_within",
    "leave_within",
    "memory_bytes_max",
    "events_bytes_max",
    "socket_buffer_bytes",
    "datagram_bytes_max",
    "link_rate",
    "ip_multicast",
    "dns_server",
    "key",
    "host_key",
    "insecure_plaintext",
    "detector",
];

/// Most services of a node.
const SERVICES_MAX: usize = 1024;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 64;

/// A service of the node.
#[derive(Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its weight on the host's link.
    pub weight: u32,
    /// Its kind, and how it is configured.
    pub settings: Settings,
}

/// The kind of a service, and how it is configured.
#[derive(Clone, Debug)]
pub enum Settings {
    /// A member of a group, which consumes what the others broadcast.
    Group(ViewsConfig),
    /// A member of a group that multicasts in time, which repairs and consumes.
    Multicast {
        /// How views are agreed on.
        views: ViewsConfig,
        /// How repairs are made.
        repairs: Box<slingshot::Config>,
    },
    /// A host of a table.
    Dht {
        /// How it routes and stores.
        overlay: overlay::Config,
        /// Its file, if it is durable.
        durable: Option<Durable>,
    },
    /// A server of walks.
    Walks(walk::Config),
}

/// The file of a durable table.
#[derive(Clone, Debug)]
pub enum Durable {
    /// Writes are acknowledged once they are on disk.
    OnDisk(PathBuf),
    /// Writes are acknowledged before.
    InMemory(PathBuf),
}

impl Service {
    /// What messages call it: `group orders`.
    pub fn label(&self) -> String {
        let kind = match self.settings {
            Settings::Group(_) => "group",
            Settings::Multicast { .. } => "multicast",
            Settings::Dht { .. } => "dht",
            Settings::Walks(_) => "walks",
        };
        format!("{kind} {}", self.name)
    }

    /// True for a server of walks, which joins no other: clients name it.
    pub fn is_walks(&self) -> bool {
        matches!(self.settings, Settings::Walks(_))
    }
}

impl Settings {
    /// True if its members agree on views.
    pub fn is_group(&self) -> bool {
        matches!(self, Settings::Group(_) | Settings::Multicast { .. })
    }
}

/// Reads the services, in this order: groups, multicasts, tables, servers of walks.
///
/// # Errors
/// If a table has an unknown key or a value that is not accepted, or two services of a kind have
/// one name.
pub fn read(file: &TableFile) -> Result<Vec<Service>, LabError> {
    let mut services = Vec::new();
    let kinds: [(&'static str, Reader); 4] =
        [("group", group), ("multicast", multicast), ("dht", dht), ("walks", walks)];
    for (kind, read) in kinds {
        let first = services.len();
        for mut table in file.list(kind) {
            let name = name(&mut table, &services[first..])?;
            if services.len() == SERVICES_MAX {
                let problem = format!("more than {SERVICES_MAX} services");
                return Err(table.error("name", problem, "fewer tables"));
            }
            let weight = table.integer_or("weight", 1..=WEIGHT_MAX, 1)?;
            let settings = read(&mut table)?;
            table.finish()?;
            services.push(Service { name, weight, settings });
        }
    }
    Ok(services)
}

/// Reads the table of a kind of service.
type Reader = fn(&mut Table<'_>) -> Result<Settings, LabError>;

fn name(table: &mut Table<'_>, others: &[Service]) -> Result<String, LabError> {
    let name = table.text("name")?;
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
        let problem = format!("{name:?} is not the name of a service");
        let accepted = format!("1 to {NAME_BYTES_MAX} bytes without spaces, such as \"orders\"");
        return Err(table.error("name", problem, &accepted));
    }
    if others.iter().any(|other| other.name == name) {
        let problem = format!("there is a service `{name}` of this kind already");
        return Err(table.error("name", problem, "a name of its own"));
    }
    Ok(name)
}

fn group(table: &mut Table<'_>) -> Result<Settings, LabError> {
    let (broadcast, _) = read_broadcast(table, BroadcastConfig::for_groups())?;
    Ok(Settings::Group(views(table, broadcast)?))
}

fn multicast(table: &mut Table<'_>) -> Result<Settings, LabError> {
    let mut repairs = MulticastBuilder::repairs();
    table.knobs_without(&mut repairs, &["overlap"])?;
    let repairs = Box::new(read_repairs(table, repairs)?);
    let views = views(table, BroadcastConfig::for_groups())?;
    Ok(Settings::Multicast { views, repairs })
}

fn views(table: &mut Table<'_>, broadcast: BroadcastConfig) -> Result<ViewsConfig, LabError> {
    let mut views = ViewsConfig::new(broadcast, DetectorConfig::new());
    table.knobs_without(&mut views, &[])?;
    views.build().map_err(|error| table.refused(&error))
}

/// Knobs of the overlay that the node sets itself.
const OVERLAY_WITHOUT: &[&str] = &["durable", "awaits_disk", "join_within", "leave_within"];

fn dht(table: &mut Table<'_>) -> Result<Settings, LabError> {
    let mut overlay = DhtBuilder::overlay();
    let algorithms = Algorithm::ALL.map(|algorithm| (algorithm.name(), algorithm));
    let algorithm = table.choice_or("algorithm", &algorithms, Algorithm::default().name())?;
    table.knobs_without(&mut overlay, OVERLAY_WITHOUT)?;
    let mut shape = overlay.shape();
    table.knobs_without(&mut shape, &[])?;
    let overlay = overlay.with_algorithm(algorithm).with_shape(shape);
    let overlay = overlay.build().map_err(|error| table.refused(&error))?;
    let on_disk = file(table, "durable")?;
    let in_memory = file(table, "durable_async")?;
    let durable = match (on_disk, in_memory) {
        (Some(_), Some(_)) => {
            let problem = "`durable` and `durable_async` both name a file";
            return Err(table.error("durable_async", problem, "only one of them"));
        }
        (Some(path), None) => Some(Durable::OnDisk(path)),
        (None, path) => path.map(Durable::InMemory),
    };
    Ok(Settings::Dht { overlay, durable })
}

fn file<'a>(table: &mut Table<'a>, key: &'a str) -> Result<Option<PathBuf>, LabError> {
    table.parsed_optional(key, "the name of a file", |text| match text {
        "" => Err("the name is empty".to_owned()),
        text => Ok(PathBuf::from(text)),
    })
}

fn walks(table: &mut Table<'_>) -> Result<Settings, LabError> {
    let mut config = walk::Config::default();
    table.knobs_without(&mut config.queue, &[])?;
    table.knobs_without(&mut config.bundle, &[])?;
    // The time of a hop is emulated in scenarios only.
    table.knobs_without(&mut config, &["service"])?;
    config.check().map_err(|error: ConfigError| table.refused(&error))?;
    Ok(Settings::Walks(config))
}

/// How a node file configures the group of this name.
///
/// # Errors
/// If the file cannot be read, its services are wrong, or it has no such group.
pub fn group_of(path: &Path, name: &str) -> Result<ViewsConfig, CliError> {
    service(path, "group", name, |settings| match settings {
        Settings::Group(views) => Some(views),
        _ => None,
    })
}

/// How a node file configures the multicast of this name: its views, and its repairs.
///
/// # Errors
/// If the file cannot be read, its services are wrong, or it has no such multicast.
pub fn multicast_of(path: &Path, name: &str) -> Result<(ViewsConfig, slingshot::Config), CliError> {
    service(path, "multicast", name, |settings| match settings {
        Settings::Multicast { views, repairs } => Some((views, *repairs)),
        _ => None,
    })
}

fn service<T>(
    path: &Path,
    kind: &str,
    name: &str,
    pick: impl Fn(Settings) -> Option<T>,
) -> Result<T, CliError> {
    let file = TableFile::load(path, TABLES)?;
    let services = read(&file)?;
    let mut named = services.into_iter().filter(|service| service.name == name);
    named.find_map(|service| pick(service.settings)).ok_or_else(|| {
        let problem = format!("the file has no [[{kind}]] named `{name}`");
        file.error(problem, "`--group` names the one that is meant").into()
    })
}
