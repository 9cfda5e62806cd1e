use std::net::SocketAddr;
use std::time::{Duration, Instant};

use paceline::named::{FaceReport, Forwarder, Name, Report};
use paceline::proto::mircc::Algorithm;
use paceline_lab::scenario::units::{Rate, parse_duration, parse_rate, parse_size};
use paceline_lab::table::table;
use serde::Serialize;

use super::args::{Allowed, Face, Route, StrategyChoice, explain, parse_name, withheld_line};
use super::setup::Setup;
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Forward named data between neighbours, each link at a fair rate, until Ctrl-C
///
/// Interests follow routes, and Data returns on the reverse path. On a link with a known rate the
/// forwarder shapes Interests, and stamps Data with the rate that it grants to each flow. Any
/// sender of a valid packet is a neighbour; with --accept-registrations neighbours register
/// prefixes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  paceline forward --bind 127.0.0.1:7001 --face udp://127.0.0.1:7000=10Mbit \\
      --route /p=127.0.0.1:7000
  paceline forward --bind 127.0.0.1:7001 --face 127.0.0.1:7000 --face 127.0.0.1:7002 \\
      --route /p=127.0.0.1:7000 --route /p=127.0.0.1:7002,10    the second if the first is dead
  paceline forward --accept-registrations /apps  for producers that register what is below /apps
  paceline forward --stats                      a line a second for each face
  paceline forward --stats --json | jq .faces   the same as JSON

The report of a face: its rates R, for the primary and the secondary class; the demand y that it
sees; Interests that wait; Interests pending; packets and drops.")]
pub struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDR", default_value_t = Setup::here())]
    #[arg(value_parser = parse::address)]
    bind: SocketAddr,

    /// A neighbour, and the rate of the link there; may be repeated
    #[arg(long = "face", value_name = "udp://HOST:PORT[=RATE]")]
    faces: Vec<Face>,

    #[command(flatten)]
    allowed: Allowed,

    /// Default link rate, both directions, for faces without their own
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// A prefix, its next hop and the cost of the route [default: 0]; may be repeated, also with
    /// one prefix
    #[arg(long = "route", value_name = "PREFIX=HOST:PORT[,COST]")]
    routes: Vec<Route>,

    /// How names with a prefix choose among several routes: best-route (the cheapest that answers),
    /// multicast (all) or adaptive (the fastest) [default: best-route]; may be repeated
    #[arg(long = "strategy", value_name = "PREFIX=NAME")]
    strategies: Vec<StrategyChoice>,

    /// Bytes of the content store, which keeps Data for later Interests
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    store: u64,

    /// Interests that may be pending
    #[arg(long, value_name = "N", default_value = "65536")]
    pending: usize,

    /// Bytes of memory for pending Interests, names included [default: 1 KiB each, 1 MiB at least]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pending_bytes: Option<u64>,

    /// How links compute their rates
    #[arg(long, value_name = "NAME", default_value = "mircc")]
    controller: Controller,

    /// The share of a link that is granted to flows
    #[arg(long, value_name = "SHARE", default_value = "0.95")]
    headroom: f64,

    /// The name of this forwarder in traceroute [default: its address]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Let neighbours register prefixes below this one, or any; may be repeated. Registrations are
    /// not authenticated, so any node that reaches the port can attract Interests for such names. A
    /// prefix at or below a --route cannot be registered, unless it is named here or the route is
    /// for / [default: no registrations; without PREFIX: /]
    #[arg(long, value_name = "PREFIX", value_parser = parse_name)]
    #[arg(num_args = 0..=1, default_missing_value = "/")]
    accept_registrations: Vec<Name>,

    /// Print the state of each face at this interval [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    #[arg(num_args = 0..=1, default_missing_value = "1s")]
    stats: Option<Duration>,

    /// Allow addresses beyond loopback though nothing is encrypted or authenticated: any node that
    /// reaches the port can read and forge packets, and attract Interests
    #[arg(long)]
    insecure_plaintext: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Controller {
    /// As published in 2016: ready for several paths
    Mircc,
    /// RCP, as published for IP
    Rcp,
}

#[derive(Serialize)]
struct Document {
    address: SocketAddr,
    seconds: f64,
    pending: usize,
    stored: usize,
    stored_bytes: usize,
    store_hits: u64,
    routes: usize,
    /// Interests that went to another next hop after the first had failed.
    failed_over: u64,
    /// How often a next hop of a prefix was considered dead.
    hops_down: u64,
    /// Packets to unproven addresses that were not sent.
    withheld: u64,
    faces: Vec<FaceLine>,
}

#[derive(Serialize)]
struct FaceLine {
    address: SocketAddr,
    primary_bits_per_second: Option<u64>,
    secondary_bits_per_second: Option<u64>,
    demand_bits_per_second: u64,
    interests_waiting: usize,
    bytes_waiting: usize,
    pending: usize,
    answered: f64,
    interests_in: u64,
    interests_out: u64,
    data_in: u64,
    data_out: u64,
    nacks_in: u64,
    nacks_out: u64,
    bytes_in: u64,
    bytes_out: u64,
    dropped: u64,
    refused: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.stats.is_some_and(|every| every.is_zero()) {
        return Err(CliError::Input("--stats 0s: expected an interval above 0".to_owned()));
    }
    runtime()?.block_on(async {
        let forwarder = args.setup().start()?;
        let began = Instant::now();
        ui.note(&format!("forwards at {}", forwarder.local_addr()));
        args.allowed.warn(forwarder.local_addr(), ui);
        let every = args.stats.unwrap_or(Duration::MAX);
        tokio::pin! { let stop = stop_asked(); }
        loop {
            tokio::select! {
                () = &mut stop => break,
                () = tokio::time::sleep(every) => {
                    let document = document(&forwarder, began).await?;
                    ui.line(&document, || lines(&document))?;
                }
            }
        }
        let document = document(&forwarder, began).await?;
        forwarder.stop().await;
        match args.stats {
            Some(_) => ui.record(&document)?,
            None => ui.document(&document)?,
        }
        ui.print(&summary(&document))?;
        Ok(Outcome::Done)
    })
}

impl Args {
    fn setup(&self) -> Setup {
        let algorithm = match self.controller {
            Controller::Mircc => Algorithm::Mircc,
            Controller::Rcp => Algorithm::Rcp,
        };
        let mut config = Setup::config();
        config.controller.algorithm = algorithm;
        config.controller.headroom = self.headroom;
        config.store_bytes_max = self.store as usize;
        config.pending_max = self.pending;
        config.pending_bytes_max = self.pending_bytes.map(|bytes| bytes as usize);
        Setup {
            bind: self.bind,
            faces: self.faces.clone(),
            allowed: self.allowed.clone(),
            rate: self.rate,
            routes: self.routes.clone(),
            strategies: self.strategies.clone(),
            registrations: self.accept_registrations.clone(),
            name: self.name.clone(),
            insecure_plaintext: self.insecure_plaintext,
            config,
        }
    }
}

async fn document(forwarder: &Forwarder, began: Instant) -> Result<Document, CliError> {
    let report = forwarder.report().await.map_err(explain)?;
    let (stored, stored_bytes) = report.state.stored;
    Ok(Document {
        address: report.address,
        seconds: began.elapsed().as_secs_f64(),
        pending: report.state.pending,
        stored,
        stored_bytes,
        store_hits: report.stats.counters.count("mircc_stored"),
        routes: report.state.routes,
        failed_over: report.stats.counters.count("mircc_failed_over"),
        hops_down: report.stats.counters.count("mircc_hop_down"),
        withheld: report.withheld(),
        faces: faces(&report),
    })
}

fn faces(report: &Report) -> Vec<FaceLine> {
    let line = |(address, face): (SocketAddr, &FaceReport)| {
        let (counts, rates) = (face.counts, face.rates_bits_per_second);
        FaceLine {
            address,
            primary_bits_per_second: rates.map(|(primary, _)| primary as u64),
            secondary_bits_per_second: rates.map(|(_, secondary)| secondary as u64),
            demand_bits_per_second: face.demand_bits_per_second as u64,
            interests_waiting: face.interests_waiting,
            bytes_waiting: face.bytes_waiting,
            pending: face.pending,
            answered: face.answered,
            interests_in: counts.interests_in,
            interests_out: counts.interests_out,
            data_in: counts.data_in,
            data_out: counts.data_out,
            nacks_in: counts.nacks_in,
            nacks_out: counts.nacks_out,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            dropped: counts.dropped,
            refused: counts.refused,
        }
    };
    report.faces().map(line).collect()
}

/// A line for each face, as it is now.
fn lines(document: &Document) -> String {
    let mbit = |bits: Option<u64>| bits.map_or("-".to_owned(), |bits| mbit(bits as f64));
    let line = |face: &FaceLine| {
        format!(
            "{:.0}s {} R {}/{} y {} Mbit/s, {} wait, {} pending, {} dropped, {} refused",
            document.seconds,
            face.address,
            mbit(face.primary_bits_per_second),
            mbit(face.secondary_bits_per_second),
            mbit(Some(face.demand_bits_per_second)),
            face.interests_waiting,
            face.pending,
            face.dropped,
            face.refused
        )
    };
    let mut lines: Vec<String> = document.faces.iter().map(line).collect();
    if lines.is_empty() {
        lines.push(format!("{:.0}s no faces", document.seconds));
    }
    lines.join("\n")
}

/// What passed, in a table.
fn summary(document: &Document) -> String {
    let row = |face: &FaceLine| {
        let mean = |bytes: u64| mbit(bytes as f64 * 8.0 / document.seconds.max(1e-9));
        [
            face.address.to_string(),
            face.interests_in.to_string(),
            face.interests_out.to_string(),
            face.data_in.to_string(),
            face.data_out.to_string(),
            mean(face.bytes_in),
            mean(face.bytes_out),
            (face.dropped + face.refused).to_string(),
        ]
    };
    let rows: Vec<[String; 8]> = document.faces.iter().map(row).collect();
    let header =
        ["face", "interests in", "out", "data in", "out", "Mbit/s in", "out", "dropped or refused"];
    let Document { stored, stored_bytes, store_hits, failed_over, hops_down, .. } = document;
    let store = format!(
        "{stored} Data stored, {stored_bytes} bytes; {store_hits} served from the content \
            store"
    );
    let routes = match hops_down {
        0 => String::new(),
        _ => format!("next hops considered dead {hops_down} times; {failed_over} fail-overs\n"),
    };
    let withheld = withheld_line(document.withheld);
    format!("{}{store}\n{routes}{withheld}", table(header, &rows))
}

fn mbit(bits: f64) -> String {
    format!("{:.2}", bits / 1e6)
}
