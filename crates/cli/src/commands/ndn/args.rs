//! Shared arguments of the commands on named data: faces, and a consumer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use paceline::named::{
    AddressRange, AskError, FaceConfig, Forwarder, ForwarderBuilder, ForwarderError, Name,
    PathReport, Reply, Stamps, Strategy,
};
use paceline_lab::scenario::units::{Rate, parse_rate};
use serde::Serialize;

use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// The UDP port of NDN.
pub const PORT: u16 = 6363;

/// A neighbour: `udp://HOST:PORT=RATE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Face {
    /// Its address.
    pub address: SocketAddr,
    /// The rate of the link, both ways.
    pub rate: Option<Rate>,
}

impl FromStr for Face {
    type Err = String;

    fn from_str(text: &str) -> Result<Face, String> {
        let (address, rate) = match text.split_once('=') {
            None => (text, None),
            Some((address, rate)) => (address, Some(parse_rate(rate)?)),
        };
        Ok(Face { address: address_of(address)?, rate })
    }
}

impl Face {
    /// Default address of a forwarder on this machine.
    pub fn here() -> Face {
        Face { address: SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)), rate: None }
    }

    /// Its link, with this rate where it has none of its own.
    pub fn config(&self, otherwise: Option<Rate>) -> FaceConfig {
        link(self.rate.or(otherwise))
    }
}

/// A link of this rate.
pub fn link(rate: Option<Rate>) -> FaceConfig {
    rate.map_or(FaceConfig::default(), |rate| FaceConfig::of_rate(rate.bits_per_second()))
}

/// A prefix, the neighbour that leads there and what that costs: `/p=HOST:PORT,COST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub prefix: Name,
    pub address: SocketAddr,
    pub cost: u32,
}

impl FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Route, String> {
        // A name may have equal signs of its own.
        let (prefix, hop) = text.rsplit_once('=').ok_or("expected PREFIX=HOST:PORT[,COST]")?;
        let (address, cost) = match hop.split_once(',') {
            None => (hop, 0),
            Some((address, cost)) => {
                let whole = |_| format!("`{cost}` is not a cost: expected a whole number from 0");
                (address, cost.parse().map_err(whole)?)
            }
        };
        Ok(Route { prefix: parse_name(prefix)?, address: address_of(address)?, cost })
    }
}

/// A prefix and its forwarding strategy: `/p=best-route`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    pub prefix: Name,
    pub strategy: Strategy,
}

impl FromStr for StrategyChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<StrategyChoice, String> {
        let names = "expected PREFIX=best-route, multicast or adaptive";
        let (prefix, strategy) = text.rsplit_once('=').ok_or(names)?;
        let strategy = match strategy {
            "best-route" => Strategy::BestRoute,
            "multicast" => Strategy::Multicast,
            "adaptive" => Strategy::Adaptive,
            other => return Err(format!("`{other}` is not a strategy: {names}")),
        };
        Ok(StrategyChoice { prefix: parse_name(prefix)?, strategy })
    }
}

/// Reads a name.
pub fn parse_name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error| format!("{error}; expected a name such as /like/this"))
}

/// Reads `udp://HOST:PORT`; the scheme and the port may be left out.
fn address_of(text: &str) -> Result<SocketAddr, String> {
    let plain = match text.split_once("://") {
        Some(("udp" | "udp4" | "udp6", plain)) => plain,
        Some((scheme, _)) => return Err(format!("`{scheme}` is not a kind of face: expected udp")),
        None => text,
    };
    let unresolved = |error: std::io::Error| format!("`{plain}` cannot be resolved: {error}");
    if let Ok(ip) = plain.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, PORT));
    }
    let has_port = plain.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let mut found = match has_port {
        true => plain.to_socket_addrs().map_err(unresolved)?,
        false => (plain, PORT).to_socket_addrs().map_err(unresolved)?,
    };
    found.next().ok_or_else(|| format!("`{plain}` has no address"))
}

/// Whose addresses are believed.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Allowed {
    /// Addresses that are believed, in place of the default; may be repeated. Any other address may
    /// be forged: unless --face names it, it is sent at most three times the bytes received from
    /// it, which is seldom a segment, and 100 kB a second with its network (/24, /48). List only
    /// networks that drop forged source addresses at their border
    /// [default: 127.0.0.0/8 and ::1]
    #[arg(long = "face-allow", value_name = "CIDR")]
    ranges: Vec<AddressRange>,
}

impl Allowed {
    /// These ranges; the default if there are none.
    pub fn new(ranges: Vec<AddressRange>) -> Allowed {
        Allowed { ranges }
    }

    /// A forwarder that believes them.
    pub fn apply(&self, builder: ForwarderBuilder) -> ForwarderBuilder {
        match self.ranges.is_empty() {
            true => builder,
            false => builder.faces_allowed(self.ranges.iter().copied()),
        }
    }

    /// Warns if a forwarder at this address limits its answers to other hosts because no range is
    /// configured.
    pub fn warn(&self, address: SocketAddr, ui: &Ui) {
        if self.ranges.is_empty() && !address.ip().to_canonical().is_loopback() {
            ui.warn(
                "senders on other hosts receive at most three times the bytes that they send: name \
                 their ranges with --face-allow",
            );
        }
    }
}

/// A line on packets that were withheld from unproven addresses; nothing if there were none.
pub fn withheld_line(packets: u64) -> String {
    match packets {
        0 => String::new(),
        _ => format!("{packets} packets to unproven addresses withheld: see --face-allow\n"),
    }
}

/// The forwarders that a command sends Interests to.
#[derive(Debug, clap::Args)]
pub struct Consumer {
    /// A forwarder or producer to send Interests to, and the rate of the link there if known; with
    /// several, Interests use all of these paths [default: udp://127.0.0.1:6363]
    #[arg(long = "face", visible_alias = "path", value_name = "udp://HOST:PORT[=RATE]")]
    pub faces: Vec<Face>,

    /// The address to send from [default: loopback, or any address if a face is elsewhere; a free
    /// port]
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    bind: Option<SocketAddr>,

    /// Allow addresses beyond loopback though nothing is encrypted: any node on the path can read
    /// the Data, and change Data that no key signs
    #[arg(long)]
    insecure_plaintext: bool,
}

impl Consumer {
    /// A node with these faces, all of which may lead anywhere; call it inside the runtime.
    pub fn start(
        &self,
        change: impl FnOnce(ForwarderBuilder) -> ForwarderBuilder,
    ) -> Result<Forwarder, CliError> {
        let here = [Face::here()];
        let faces = if self.faces.is_empty() { &here[..] } else { &self.faces };
        let mut builder = Forwarder::builder().bind(self.bind.unwrap_or(source_for(faces)));
        for face in faces {
            builder = builder.face(face.address, face.config(None));
            builder = builder.route(Name::root(), face.address);
        }
        if self.insecure_plaintext {
            builder = builder.insecure_plaintext();
        }
        change(builder).start().map_err(explain)
    }
}

/// The address to send from: one from which all of these can be reached.
pub fn source_for(faces: &[Face]) -> SocketAddr {
    let is_here = |face: &Face| face.address.ip().to_canonical().is_loopback();
    let is_v6 = faces.iter().any(|face| face.address.is_ipv6());
    let ip: IpAddr = match (is_v6, faces.iter().all(is_here)) {
        (false, true) => Ipv4Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::UNSPECIFIED.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
        (true, false) => Ipv6Addr::UNSPECIFIED.into(),
    };
    SocketAddr::new(ip, 0)
}

/// Maps a failed start of a forwarder to its exit status and message.
pub fn explain(error: ForwarderError) -> CliError {
    match error {
        ForwarderError::Closed => CliError::Failed(error.to_string()),
        error => CliError::Input(error.to_string()),
    }
}

/// Maps an unanswered Interest to its exit status and message.
pub fn explain_ask(error: AskError) -> CliError {
    match error {
        AskError::Name(_) => CliError::Input(error.to_string()),
        error => CliError::Failed(error.to_string()),
    }
}

/// A path and what may be sent on it.
#[derive(Clone, Debug, Serialize)]
pub struct PathLine {
    pub path: String,
    pub primary_bits_per_second: Option<u64>,
    pub secondary_bits_per_second: Option<u64>,
    pub round_trip_ms: Option<f64>,
}

impl PathLine {
    pub fn of_reply(reply: &Reply) -> PathLine {
        let trip = Some(reply.round_trip);
        PathLine::new(reply.path.to_string(), &reply.stamps, trip)
    }

    pub fn of_report(report: &PathReport) -> PathLine {
        PathLine::new(report.label.to_string(), &report.stamps, report.round_trip)
    }

    fn new(path: String, stamps: &Stamps, trip: Option<std::time::Duration>) -> PathLine {
        PathLine {
            path,
            primary_bits_per_second: stamps.primary(),
            secondary_bits_per_second: stamps.secondary(),
            round_trip_ms: trip.map(|trip| trip.as_secs_f64() * 1e3),
        }
    }

    /// The rate in Mbit/s, if one was stamped.
    pub fn rate(&self) -> String {
        let bits = self.primary_bits_per_second;
        bits.map_or("no rate".to_owned(), |bits| format!("{:.2} Mbit/s", bits as f64 / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_addresses_with_or_without_scheme_port_and_rate() {
        let face = |text: &str| {
            let face: Face = text.parse()?;
            Ok::<_, String>((face.address.to_string(), face.rate.map(Rate::bits_per_second)))
        };
        let here = |port: u16| format!("127.0.0.1:{port}");
        assert_eq!(face("udp://127.0.0.1:7000=10Mbit"), Ok((here(7000), Some(10_000_000))));
        assert_eq!(face("127.0.0.1:7000"), Ok((here(7000), None)));
        assert_eq!(face("udp4://127.0.0.1"), Ok((here(6363), None)));
        assert_eq!(face("[::1]:7000=1Gbit").unwrap().0, "[::1]:7000");
        assert_eq!(face("[::1]").unwrap().0, "[::1]:6363");
        assert!(face("tcp://127.0.0.1:1").unwrap_err().contains("expected udp"));
        assert!(face("127.0.0.1:1=10mbit").unwrap_err().contains("Mbit"));
        assert!(face("127.0.0.1:99999").is_err() && face("").is_err());
    }

    #[test]
    fn routes_are_prefixes_and_addresses() {
        let route: Route = "/p/v=7=127.0.0.1:7000".parse().unwrap();
        assert_eq!((route.prefix.to_string(), route.address.port()), ("/p/v=7".to_owned(), 7000));
        assert_eq!(route.cost, 0);
        let costly: Route = "/p,q=127.0.0.1:7000,10".parse().unwrap();
        assert_eq!((costly.prefix.to_string(), costly.cost), ("/p%2Cq".to_owned(), 10));
        assert!("/p=127.0.0.1:7000,x".parse::<Route>().unwrap_err().contains("not a cost"));
        assert!("/p".parse::<Route>().unwrap_err().contains("PREFIX=HOST:PORT"));
        assert!("p=127.0.0.1:1".parse::<Route>().unwrap_err().contains("/like/this"));
    }

    #[test]
    fn strategies_are_prefixes_and_names() {
        let choice: StrategyChoice = "/p/v=7=multicast".parse().unwrap();
        assert_eq!(choice.prefix.to_string(), "/p/v=7");
        assert_eq!(choice.strategy, Strategy::Multicast);
        assert!("/p=asf".parse::<StrategyChoice>().unwrap_err().contains("adaptive"));
    }

    #[test]
    fn who_asks_elsewhere_does_not_ask_from_loopback() {
        let from = |texts: &[&str]| {
            let faces: Vec<Face> = texts.iter().map(|text| text.parse().unwrap()).collect();
            source_for(&faces).to_string()
        };
        assert_eq!(from(&["127.0.0.1:1", "127.0.0.2:1"]), "127.0.0.1:0");
        assert_eq!(from(&["127.0.0.1:1", "192.0.2.1:1"]), "0.0.0.0:0");
        assert_eq!(
            (from(&["[::1]:1"]), from(&["[2001:db8::1]:1"])),
            ("[::1]:0".into(), "[::]:0".into())
        );
    }
}
