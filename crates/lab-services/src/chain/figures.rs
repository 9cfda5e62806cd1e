//! The published figures of DAISYCHAIN beside what the protocol measures.

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{Figure, Scale, Settings};
use paceline_lab::scenario::{Scenario, Senders};
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::chain::{Frame, Topology};
use paceline_proto::core::{Lane, NodeId};

use super::compare;
use super::measured::Measured;
use super::ring::letter;
use super::setting::{limit_bytes_per_second, setting, topology_name};
use super::{Broadcast, Measure};
use crate::catalog::CATALOG;

/// The figures that a scenario asks for.
pub fn figures(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Vec<Figure> {
    let figure = match broadcast.plan().measure {
        Measure::Deliveries => return Vec::new(),
        Measure::Rounds => rounds(broadcast, scenario, measured),
        Measure::Transmissions => transmissions(broadcast, scenario, measured),
        Measure::Throughput => throughput(broadcast, scenario, measured),
        Measure::Gain => gain(broadcast, scenario, measured),
        Measure::Fairness => fairness(broadcast, scenario, measured),
        Measure::Progress => progress(scenario, measured),
        Measure::Incast => return compare::incast(broadcast, scenario, &measured.compared),
        Measure::Latency => return compare::latency(broadcast, scenario, &measured.compared),
    };
    vec![figure]
}

fn rounds(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Figure {
    let (plan, nodes) = (broadcast.plan(), scenario.topology.nodes as usize);
    let blocks = plan.blocks.or(plan.messages).unwrap_or(0);
    let block_bytes = plan.message_bytes.min(broadcast.shared.block_bytes_max());
    let network = &scenario.topology;
    let charged = network.overhead.charge(Lane::Stream, Frame::HEAD_BYTES + block_bytes);
    let round_s = charged as f64 * 8.0 / network.rate.bits_per_second() as f64;
    let last = measured.ledger().last_delivery().as_secs_f64() - plan.start.as_secs_f64();
    let id = format!("chain/rounds/{}/x{blocks}-n{nodes}", topology_name(broadcast));
    // Instants are whole nanoseconds, so a round count is exact to about a millionth.
    let figure = Figure::new(id, (last / round_s * 1e6).round() / 1e6, "rounds");
    let Some(topology) = plan.topology else {
        return figure.with_note("the planner chose the topology");
    };
    let exact = topology.rounds(nodes, blocks) as f64;
    let formula = match topology {
        Topology::Unicast => "X (N - 1)",
        Topology::Chain => "X + N - 2",
        Topology::Tree => "X ceil(log2 N)",
        Topology::Pipeline => "X + log2 N - 1, or X + floor(log2 N) where N is not a power of two",
    };
    let figure =
        figure.with_band(exact, exact).with_note(format!("closed form {formula}: {exact}"));
    match published_rounds(topology, blocks, nodes) {
        Some(paper) => figure.with_paper(paper),
        None => figure,
    }
}

/// The round counts that Ban 2010 gives as numbers.
fn published_rounds(topology: Topology, blocks: u64, nodes: usize) -> Option<f64> {
    match (topology, blocks, nodes) {
        (Topology::Unicast, 2, 4) => Some(6.0),
        (Topology::Chain, 2, 4) => Some(4.0),
        (Topology::Unicast, 10, 10) => Some(90.0),
        (Topology::Chain, 10, 10) => Some(18.0),
        _ => None,
    }
}

fn transmissions(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Figure {
    let nodes = scenario.topology.nodes;
    let id = format!("chain/transmissions/n{nodes}");
    let Some(hops) = &measured.hops else {
        return Figure::new(id, f64::NAN, "transmissions");
    };
    let expected = f64::from(nodes - 1);
    let origin = broadcast.plan().senders.nodes(nodes)[0];
    let ring = (origin.0..).map(|number| NodeId(number % u64::from(nodes)));
    let ring: Vec<String> = ring.take(hops.path.len() + 1).map(letter).collect();
    let mut path: Vec<String> = hops.path.first().map(|hop| letter(hop.from)).into_iter().collect();
    path.extend(hops.path.iter().map(|hop| letter(hop.to)));
    let mut figure = Figure::new(id, hops.transmissions as f64, "transmissions");
    let mut note = format!("in the order {}", path.join("-"));
    if (nodes, origin) == PUBLISHED_RING {
        // D-E-A-B-C-D.
        figure = figure.with_paper(5.0);
        note.push_str("; as published C also sends it back to D, which has it already");
    }
    figure = figure.with_band(expected, expected).with_note(note);
    figure.pass &= path == ring;
    figure
}

/// The published example of a ring: D broadcasts among A to E.
const PUBLISHED_RING: (u32, NodeId) = (5, NodeId(3));

fn throughput(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Figure {
    let plan = broadcast.plan();
    let limit = limit_bytes_per_second(broadcast, scenario) / 1e6;
    let rate = measured.ledger().bytes_per_node_per_second(measured.outcome.ended) / 1e6;
    let setting = setting(scenario, plan.message_bytes);
    let (topology, senders) =
        (topology_name(broadcast), plan.senders.name(scenario.topology.nodes));
    let id = format!("chain/throughput/{topology}/{senders}/{setting}");
    let share = rate / limit * 100.0;
    let mut note = format!("limit {limit:.1} by link count, {share:.1} % of it");
    let published = match (topology, senders.as_str(), setting.as_str()) {
        ("unicast", "all", "n4-1gbit-8k") => Some(73.0),
        ("chain", "all", "n4-1gbit-8k") => Some(107.0),
        _ => None,
    };
    if published.is_some() {
        note.push_str(
            "; both schemes share this limit: link counts do not explain the published gap",
        );
    }
    if measured.hops.is_none() {
        // Loopback has no links of this rate: neither their limit nor what was published for them
        // says anything of it.
        let note = "on loopback: the processor is the limit, not a link, so there is no band";
        return Figure::new(id, rate, "MB/s").with_note(note);
    }
    let figure =
        Figure::new(id, rate, "MB/s").with_band(0.95 * limit, 1.001 * limit).with_note(note);
    match published {
        Some(paper) => figure.with_paper(paper),
        None => figure,
    }
}

fn gain(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Figure {
    let nodes = scenario.topology.nodes;
    let senders = &broadcast.plan().senders;
    let id = match senders {
        Senders::One => format!("chain/gain/one-sender/n{nodes}"),
        other => format!("chain/gain/{}/n{nodes}", other.name(nodes)),
    };
    let expected = f64::from(nodes - 1) / senders.count(nodes) as f64;
    let rate = measured.ledger().bytes_per_node_per_second(measured.outcome.ended);
    let ratio = rate / measured.baseline.unwrap_or(f64::NAN);
    Figure::new(id, ratio, "times")
        .with_band(0.95 * expected, 1.05 * expected)
        .with_note(format!("throughput over unicast's; (N - 1) / senders is {expected:.2}"))
}

/// The most that a fair group lets the most served sender get over the least served one.
const FAIRNESS_MAX: f64 = 1.1;

fn fairness(broadcast: &Broadcast, scenario: &Scenario, measured: &Measured) -> Figure {
    let nodes = scenario.topology.nodes;
    let topology = match broadcast.plan().topology {
        Some(Topology::Chain) => String::new(),
        _ => format!("{}/", topology_name(broadcast)),
    };
    let senders = broadcast.plan().senders.name(nodes);
    let limit = limit_bytes_per_second(broadcast, scenario);
    let rate = measured.ledger().bytes_per_node_per_second(measured.outcome.ended);
    let starved = measured.ledger().starved();
    let mut note = format!("{:.1} % of what the links carry for these senders", rate / limit * 1e2);
    if !starved.is_empty() {
        note.push_str(&format!("; starved: {starved:?}"));
    }
    let id = format!("chain/fairness/{topology}{senders}/n{nodes}");
    Figure::new(id, measured.ledger().fairness(), "most/least")
        .with_band(1.0, FAIRNESS_MAX)
        .with_note(note)
}

fn progress(scenario: &Scenario, measured: &Measured) -> Figure {
    let silent = measured.ledger().seconds_without_progress(measured.outcome.ended);
    let figure =
        Figure::new(format!("chain/progress/n{}", scenario.topology.nodes), silent as f64, "s");
    figure.with_band(0.0, 0.0).with_note("seconds in which some node delivered nothing")
}

fn runs(scale: Scale) -> Vec<(&'static str, Vec<String>)> {
    let set = |sets: &[(&str, String)]| sets.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let mut runs = Vec::new();
    for topology in Topology::ALL {
        for (blocks, nodes) in [(1, 10), (2, 4), (10, 10), (100, 64)] {
            let sets = [
                ("topology", topology.to_string()),
                ("blocks", blocks.to_string()),
                ("nodes", nodes.to_string()),
            ];
            runs.push(("chain/rounds", set(&sets)));
        }
    }
    runs.push(("chain/six", Vec::new()));
    runs.push(("chain/six", set(&[("nodes", "5".to_owned())])));
    let duration = if scale == Scale::Quick { "250ms" } else { "2s" };
    for topology in ["unicast", "chain"] {
        for senders in ["one", "all"] {
            let sets = [
                ("topology", topology.to_owned()),
                ("senders", senders.to_owned()),
                ("duration", duration.to_owned()),
            ];
            runs.push(("chain/throughput", set(&sets)));
        }
    }
    for nodes in [4, 8, 10] {
        let sets = [("nodes", nodes.to_string()), ("duration", duration.to_owned())];
        runs.push(("chain/gain", set(&sets)));
    }
    for senders in ["2", "3", "5"] {
        let sets = [
            ("nodes", "9".to_owned()),
            ("senders", senders.to_owned()),
            ("duration", duration.to_owned()),
        ];
        runs.push(("chain/gain", set(&sets)));
    }
    // What is counted is what reached all: it takes a while until the queues stand.
    let duration = if scale == Scale::Quick { "1500ms" } else { "3s" };
    for nodes in [4, 8] {
        for senders in [2, 3] {
            let sets = [
                ("nodes", nodes.to_string()),
                ("senders", senders.to_string()),
                ("duration", duration.to_owned()),
            ];
            runs.push(("chain/neighbours", set(&sets)));
        }
        let sets = [
            ("nodes", nodes.to_string()),
            ("senders", format!("[0, \"2-{}\"]", nodes - 1)),
            ("duration", duration.to_owned()),
        ];
        runs.push(("chain/all-but-one", set(&sets)));
    }
    runs.push(("chain/latency", set(&[("duration", duration.to_owned())])));
    let (sizes, duration): (&[&str], _) = match scale {
        Scale::Quick => (&["16KiB"], "600ms"),
        Scale::Full => (&INCAST_BUFFERS, "2s"),
    };
    for size in sizes {
        let sets = [("port_buffer", (*size).to_owned()), ("duration", duration.to_owned())];
        runs.push(("chain/incast", set(&sets)));
    }
    runs
}

/// Port buffers of the sweep over incast: from a few frames to more than a window for each sender.
const INCAST_BUFFERS: [&str; 8] =
    ["8KiB", "16KiB", "24KiB", "32KiB", "64KiB", "128KiB", "1MiB", "4MiB"];

/// A figure of a shorter run: its band, if it is not exact, is wider by a twentieth either way.
fn quick(figure: Figure) -> Figure {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) if low < high => {
            let note = format!("{}; quick: a shorter run, a wider band", figure.note);
            figure.with_band(low * 0.95, high * 1.05).with_note(note)
        }
        _ => figure,
    }
}

pub(super) fn reproduce(
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Figure>, LabError> {
    let runs = runs(settings.scale);
    progress.start(runs.len() as u64, "chain");
    let mut figures: Vec<Figure> = Vec::new();
    for (name, sets) in runs {
        if progress.stopped() {
            break;
        }
        let mut file = CATALOG.load(name)?.with_sets(&sets)?;
        for set in &settings.sets {
            file.set(set)?;
        }
        let scenario = file.resolve()?;
        let seed = settings.seed.unwrap_or(scenario.seed);
        let result = Broadcast::run(&Trial::simulated(&scenario, seed))?;
        for mut figure in result.figures {
            if settings.scale == Scale::Quick {
                figure = quick(figure);
            }
            if !figures.iter().any(|known| known.id == figure.id) {
                figures.push(figure);
            }
        }
        progress.inc(1);
    }
    progress.finish();
    Ok(figures)
}
