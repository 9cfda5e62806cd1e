//! The table `[host]`, below the variables and options of the command.

use std::path::PathBuf;
use std::time::Duration;

use paceline::net::Multicast as IpMulticast;
use paceline::{DetectorConfig, HostBuilder};
use paceline_lab::LabError;
use paceline_lab::scenario::{Table, TableFile};

use crate::commands::member::{HostArgs, peer, peers_or_environment};
use crate::error::CliError;
use crate::parse;
use crate::service_tables::{Service, Settings};

/// Keys, each with its variable. Those of `cluster`, `bind`, `advertise`, `peers`, `key` and
/// `host_key` are variables of the options.
const VARIABLES: [(&str, &str); 13] = [
    ("id", "PACELINE_ID"),
    ("id_of_address", "PACELINE_ID_OF_ADDRESS"),
    ("expect", "PACELINE_EXPECT"),
    ("join_within", "PACELINE_JOIN_WITHIN"),
    ("leave_within", "PACELINE_LEAVE_WITHIN"),
    ("memory_bytes_max", "PACELINE_MEMORY_BYTES_MAX"),
    ("events_bytes_max", "PACELINE_EVENTS_BYTES_MAX"),
    ("socket_buffer_bytes", "PACELINE_SOCKET_BUFFER_BYTES"),
    ("datagram_bytes_max", "PACELINE_DATAGRAM_BYTES_MAX"),
    ("link_rate", "PACELINE_LINK_RATE"),
    ("ip_multicast", "PACELINE_IP_MULTICAST"),
    ("dns_server", "PACELINE_DNS_SERVER"),
    ("insecure_plaintext", "PACELINE_INSECURE_PLAINTEXT"),
];

/// The variable of `bind` of `[named]`.
const NAMED_BIND: &str = "PACELINE_NAMED_BIND";
/// How long leaving may take, unless the file says otherwise.
const LEAVE_WITHIN: Duration = Duration::from_secs(15);
/// The least rate of a link, bits a second.
const LINK_RATE_MIN: u64 = 64_000;
/// What a key of an address takes.
const ADDRESS: &str = "an address, such as \"127.0.0.1:7001\"";
/// What a list of peers takes.
const PEERS: &str = "a list of \"HOST:PORT\", \"dns:NAME:PORT\", \"dns:_SERVICE._PROTOCOL.NAME\", \
                     \"file:PATH\" or \"env:VARIABLE\"";

/// How the services of a node begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// This host creates them.
    Bootstrap,
    /// It joins them.
    Join,
    /// It joins them, or creates them with this many hosts.
    Expect(u32),
}

/// `[host]`, with the variables and options that stand above it.
#[derive(Debug)]
pub struct HostSettings {
    /// What the command line can set as well.
    args: HostArgs,
    /// How groups and tables begin.
    pub start: Start,
    /// Where to find the other hosts.
    pub peers: Vec<String>,
    /// How long joining a service may take.
    pub join_within: Duration,
    /// How long leaving all services may take.
    pub leave_within: Duration,
    id_of_address: bool,
    events_bytes_max: Option<usize>,
    socket_buffer_bytes: Option<u32>,
    datagram_bytes_max: Option<usize>,
    link_rate: Option<u64>,
    ip_multicast: Option<u16>,
    dns_server: Option<std::net::SocketAddr>,
    detector: DetectorConfig,
}

/// Puts the variables that are set in the place of keys.
pub fn set_by_variables(
    file: &mut TableFile,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), LabError> {
    for (key, name) in VARIABLES {
        if let Some(text) = variable(name) {
            file.set_by_variable("host", key, name, &text)?;
        }
    }
    match variable(NAMED_BIND).filter(|_| file.has("named")) {
        Some(text) => file.set_by_variable("named", "bind", NAMED_BIND, &text),
        None => Ok(()),
    }
}

impl HostSettings {
    /// Reads `[host]` of a node with these services.
    ///
    /// # Errors
    /// If a value is not accepted, or it is not said how the services begin.
    pub fn read(
        file: &TableFile,
        options: &HostArgs,
        services: &[Service],
    ) -> Result<HostSettings, CliError> {
        let mut table = file.table("host");
        refuse_bootstrap(&table)?;
        let mut args = options.clone();
        let cluster = table.text_optional("cluster")?;
        args.cluster = args.cluster.or(cluster);
        let bind = table.parsed_optional("bind", ADDRESS, parse::address)?;
        args.bind = args.bind.or(bind);
        let advertise = table.parsed_optional("advertise", ADDRESS, parse::address)?;
        args.advertise = args.advertise.or(advertise);
        let id = table.integer_optional("id", 0..=u64::MAX)?;
        let id_of_address = table.boolean_optional("id_of_address")?;
        if id.is_some() && id_of_address == Some(true) {
            let problem = "`id` and `id_of_address` both set the id";
            return Err(table.error("id_of_address", problem, "only one of them").into());
        }
        args.id = args.id.or(id);
        let peers = table
            .parsed_list("peers", PEERS, |text| peer(text).map_err(|error| error.to_string()))?;
        let expect = table.integer_optional("expect", 2..=64u32)?;
        let join_within = table.duration_optional("join_within")?;
        args.join_within = args.join_within.or(join_within);
        let leave_within = table.duration_or("leave_within", LEAVE_WITHIN)?;
        let memory = size_within(&mut table, "memory_bytes_max", 1 << 20, usize::MAX)?;
        args.peer_memory = args.peer_memory.or(memory);
        let events_bytes_max = size_within(&mut table, "events_bytes_max", 1, usize::MAX)?;
        let socket = size_within(&mut table, "socket_buffer_bytes", 1, i32::MAX as usize)?;
        let datagram_bytes_max = size_within(&mut table, "datagram_bytes_max", 200, 65_000)?;
        let link_rate = link_rate(&mut table)?;
        let ip_multicast = table.integer_optional("ip_multicast", 1..=u16::MAX)?;
        let dns_server = table.parsed_optional("dns_server", ADDRESS, parse::address)?;
        let sealing = &mut args.sealing;
        let key = table.text_optional("key")?;
        sealing.key = sealing.key.take().or(key.map(PathBuf::from));
        let host_key = table.text_optional("host_key")?;
        sealing.host_key = sealing.host_key.take().or(host_key.map(PathBuf::from));
        sealing.insecure_plaintext |= table.boolean_or("insecure_plaintext", false)?;
        let mut detector = DetectorConfig::new();
        let knobs = table.nested("detector", |table| {
            table.knobs(&mut detector)?;
            detector.clone().build().map_err(|error| table.refused(&error))
        })?;
        table.finish()?;
        let mut host = HostSettings {
            start: Start::Join,
            peers: Vec::new(),
            join_within: args.join_within(),
            leave_within,
            // A client recognises a restarted server of walks by its id.
            id_of_address: id_of_address.unwrap_or_else(|| services.iter().any(Service::is_walks)),
            events_bytes_max,
            socket_buffer_bytes: socket.map(|bytes| bytes as u32),
            datagram_bytes_max,
            link_rate,
            ip_multicast,
            dns_server,
            detector: knobs.unwrap_or_default(),
            args,
        };
        host.begin(file, expect, peers, services)?;
        Ok(host)
    }

    /// Decides how the services begin: by the options first.
    fn begin(
        &mut self,
        file: &TableFile,
        expect: Option<u32>,
        peers: Vec<String>,
        services: &[Service],
    ) -> Result<(), CliError> {
        if self.args.bootstrap {
            self.start = Start::Bootstrap;
            return Ok(());
        }
        let given = peers_or_environment(&self.args.peers)?;
        self.peers = if given.is_empty() { peers } else { given };
        if let Some(hosts) = self.args.expect.or(expect) {
            self.start = Start::Expect(hosts);
        }
        let joins = services.iter().any(|service| !service.is_walks());
        if joins && self.peers.is_empty() {
            let accepted = "`peers` in [host], PACELINE_PEERS or --peer; --bootstrap at the very \
                            first host";
            let problem = "no peer is named to join the services";
            return Err(file.table("host").error("peers", problem, accepted).into());
        }
        let has = |wanted: fn(&Settings) -> bool| services.iter().any(|it| wanted(&it.settings));
        let has_table = has(|settings| matches!(settings, Settings::Dht { .. }));
        if matches!(self.start, Start::Expect(_)) && has_table && !has(Settings::is_group) {
            let problem = "`expect` creates groups, and the file has a [[dht]] without a group";
            let accepted = "a [[group]] or [[multicast]], whose first member creates the tables; \
                            or --bootstrap at the very first host in the place of `expect`";
            return Err(file.table("host").error("expect", problem, accepted).into());
        }
        Ok(())
    }

    /// What the host needs to start.
    ///
    /// # Errors
    /// If a file of keys cannot be used.
    pub fn builder(&self) -> Result<HostBuilder, CliError> {
        let mut builder = match self.id_of_address {
            true => self.args.builder_by_address(),
            false => self.args.builder(),
        }?;
        if let Some(bytes) = self.events_bytes_max {
            builder = builder.events_bytes_max(bytes);
        }
        if let Some(bytes) = self.socket_buffer_bytes {
            builder = builder.socket_buffer_bytes(bytes);
        }
        if let Some(bytes) = self.datagram_bytes_max {
            builder = builder.datagram_bytes_max(bytes);
        }
        if let Some(bits_per_second) = self.link_rate {
            builder = builder.link_rate(bits_per_second);
        }
        if let Some(port) = self.ip_multicast {
            builder = builder.ip_multicast(IpMulticast::native(port));
        }
        if let Some(address) = self.dns_server {
            builder = builder.dns_server(address);
        }
        Ok(builder.peers(&self.peers).detector(|_| self.detector.clone()))
    }

    /// True if it may listen beyond loopback.
    pub fn insecure_plaintext(&self) -> bool {
        self.args.sealing.insecure_plaintext
    }
}

/// A node that is started again must not create everything a second time.
fn refuse_bootstrap(table: &Table<'_>) -> Result<(), LabError> {
    if !table.has("bootstrap") {
        return Ok(());
    }
    let problem = "`bootstrap` in a file would create all services again at each start";
    let accepted = "--bootstrap at the first start of the first host, or `expect`";
    Err(table.error("bootstrap", problem, accepted))
}

/// The rate that the services of the host share, bits a second.
fn link_rate(table: &mut Table<'_>) -> Result<Option<u64>, LabError> {
    let rate = table.rate_optional("link_rate")?.map(|rate| rate.bits_per_second());
    match rate {
        Some(bits @ ..LINK_RATE_MIN) => {
            let problem = format!("`link_rate` is out of range: {bits} bits a second");
            Err(table.error("link_rate", problem, "at least \"64kbit\""))
        }
        rate => Ok(rate),
    }
}

fn size_within<'a>(
    table: &mut Table<'a>,
    key: &'a str,
    least: usize,
    most: usize,
) -> Result<Option<usize>, LabError> {
    let Some(bytes) = table.size_optional(key)? else { return Ok(None) };
    match usize::try_from(bytes) {
        Ok(bytes) if (least..=most).contains(&bytes) => Ok(Some(bytes)),
        _ => {
            let accepted = match most {
                usize::MAX => format!("at least {least} bytes"),
                most => format!("{least} to {most} bytes"),
            };
            Err(table.error(key, format!("`{key}` is out of range: {bytes} bytes"), &accepted))
        }
    }
}
