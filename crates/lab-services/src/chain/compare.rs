//! Compares the configured topology with unicast under the same load.

use paceline_lab::figure::{Figure, number};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::chain::Topology;
use paceline_sim::Streams;
use rayon::prelude::*;

use super::setting::{limit_bytes_per_second, setting, topology_name};
use super::simulated::simulate_one;
use super::{Broadcast, Measure};

/// Runs of each topology behind a figure of incast, with seeds that follow one another.
const SEEDS: u64 = 3;

/// What was published for four members on 1 Gbit that all send 8 KB, MB/s: N-1 and the chain.
const PUBLISHED: (f64, f64) = (73.0, 107.0);

/// One run of one topology.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The configured topology, and not the baseline.
    is_configured: bool,
    /// MB a second that a member delivered, own included.
    rate: f64,
    /// Median and 99th percentile from acceptance to each remote delivery, ms.
    latency_ms: [f64; 2],
    /// Packets that found a port full, a second.
    dropped: f64,
    /// Expiries of retransmission timers, a second.
    time_outs: f64,
}

impl Compared {
    /// The runs that a scenario's figures compare; none if they compare none.
    pub fn runs(
        broadcast: &Broadcast,
        scenario: &Scenario,
        seed: u64,
        progress: &dyn Progress,
    ) -> Result<Vec<Compared>, LabError> {
        let seeds = match broadcast.plan().measure {
            Measure::Incast => SEEDS,
            Measure::Latency => 1,
            _ => return Ok(Vec::new()),
        };
        let baseline = broadcast.with_topology(Topology::Unicast);
        let runs: Vec<(bool, u64)> =
            (0..seeds).flat_map(|n| [true, false].map(|is_own| (is_own, seed + n))).collect();
        let one = |&(is_configured, seed): &(bool, u64)| {
            let broadcast = if is_configured { broadcast } else { &baseline };
            if progress.stopped() {
                return Err(LabError::StoppedEarly);
            }
            let trial = Trial::simulated(scenario, seed);
            let (broadcast, outcome, _) = simulate_one(broadcast, &trial)?;
            let ledger = broadcast.ledger();
            let seconds = outcome.ended.as_secs_f64();
            let ms = |share| ledger.latency().value_at_quantile(share) as f64 / 1e6;
            Ok(Compared {
                is_configured,
                rate: ledger.bytes_per_node_per_second(outcome.ended) / 1e6,
                latency_ms: [ms(0.5), ms(0.99)],
                dropped: outcome.counters.count("sim_port_full") as f64 / seconds,
                time_outs: outcome.counters.count("sim_tcp_time_outs") as f64 / seconds,
            })
        };
        runs.par_iter().map(one).collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Least and most.
fn range(values: &[f64]) -> (f64, f64) {
    let fold = |(low, high): (f64, f64), &value: &f64| (low.min(value), high.max(value));
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), fold)
}

/// Throughput of both at ports of this size, and the gap between them.
pub(super) fn incast(broadcast: &Broadcast, scenario: &Scenario, runs: &[Compared]) -> Vec<Figure> {
    let buffer = match scenario.topology.streams {
        Streams::Lossless => "lossless".to_owned(),
        Streams::Tcp(tcp) if tcp.port_bytes_max % 1024 == 0 => {
            format!("{}kib", tcp.port_bytes_max / 1024)
        }
        Streams::Tcp(tcp) => format!("{}b", tcp.port_bytes_max),
    };
    let plan = broadcast.plan();
    let is_published = plan.senders.name(scenario.topology.nodes) == "all"
        && setting(scenario, plan.message_bytes) == "n4-1gbit-8k"
        && plan.topology == Some(Topology::Chain);
    let limit = limit_bytes_per_second(broadcast, scenario) / 1e6;
    let of = |is_configured: bool, value: fn(&Compared) -> f64| -> Vec<f64> {
        let runs = runs.iter().filter(|run| run.is_configured == is_configured);
        runs.map(value).collect()
    };
    let throughput = |topology: &str, is_configured, paper| {
        let rates = of(is_configured, |run| run.rate);
        let (low, high) = range(&rates);
        let dropped = mean(&of(is_configured, |run| run.dropped));
        let time_outs = mean(&of(is_configured, |run| run.time_outs));
        let note = format!(
            "{} seeds: {} to {}; {} packets dropped and {} time-outs a second",
            rates.len(),
            number(low),
            number(high),
            number(dropped),
            number(time_outs),
        );
        let id = format!("chain/incast/{topology}/{buffer}");
        // No link carries more than the limit by link count. Where ports hold whatever the windows
        // of all other members let into the network, nothing is lost, and acknowledgements take
        // 3 % of each link.
        let windows = broadcast.shared.window_bytes() as u64 * (broadcast.nodes() - 1);
        let least = match scenario.topology.streams {
            Streams::Tcp(tcp) if tcp.port_bytes_max < windows => f64::NEG_INFINITY,
            _ => 0.9 * limit,
        };
        let figure = Figure::new(id, mean(&rates), "MB/s").with_band(least, 1.001 * limit);
        let figure = figure.with_note(note);
        if is_published { figure.with_paper(paper) } else { figure }
    };
    let ratio = mean(&of(true, |run| run.rate)) / mean(&of(false, |run| run.rate));
    let (unicast, chain) = PUBLISHED;
    let share = (ratio - 1.0) / (chain / unicast - 1.0);
    let note = format!(
        "the chain over N-1; published {unicast} against {chain} is {}: {:.0} % of that gap",
        number(chain / unicast),
        100.0 * share,
    );
    let gap = Figure::new(format!("chain/incast/gap/{buffer}"), ratio, "times").with_note(note);
    vec![
        throughput("unicast", false, unicast),
        throughput(topology_name(broadcast), true, chain),
        if is_published { gap.with_paper(chain / unicast) } else { gap },
    ]
}

/// Median and 99th percentile of the delay, of both.
pub(super) fn latency(
    broadcast: &Broadcast,
    scenario: &Scenario,
    runs: &[Compared],
) -> Vec<Figure> {
    let plan = broadcast.plan();
    let load = if plan.interval.is_some() { "paced" } else { "full" };
    let setting = setting(scenario, plan.message_bytes);
    let name = topology_name(broadcast);
    let own = runs.iter().find(|run| run.is_configured);
    let unicast = runs.iter().find(|run| !run.is_configured);
    let (Some(own), Some(unicast)) = (own, unicast) else { return Vec::new() };
    let mut figures = Vec::new();
    for (place, quantile) in ["p50", "p99"].into_iter().enumerate() {
        for (topology, run) in [("unicast", unicast), (name, own)] {
            let id = format!("chain/latency/{topology}/{load}/{setting}-{quantile}-ms");
            let note = format!("{} MB/s delivered at each member", number(run.rate));
            figures.push(Figure::new(id, run.latency_ms[place], "ms").with_note(note));
        }
    }
    figures
}
