//! The tables `[protocol]`, `[workload]` and `[measure]` of a scenario of named data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Rate, Scenario, Table};
use paceline_proto::core::NodeId;
use paceline_proto::mircc::{Algorithm, Config, Multipath, Pace, SEGMENT_BYTES_MAX, Strategy};
use paceline_proto::ndn::Signer;

use super::plan::{Mix, Plan};
use super::topology::{
    self, Abilene, Branch, Defaults, Diamond, Dumbbell, Graph, Random, Routing, Slingshot, Ways,
};

/// What is around the content of a Data, at most: name, signature, and what goes with it for a hop.
const DATA_OVERHEAD_BYTES: usize = 160;

/// Which figures a scenario gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The rates of each flow, compared with the oracles.
    Rates,
    /// How soon rates settle after each change.
    Convergence,
    /// How far rates are off after each change.
    Settling,
    /// The share of a slow link that is used.
    LowRate,
    /// Before, during and after a visit.
    Visit,
    /// Links in use, and times of short flows.
    Mix,
    /// Times of all flows.
    Times,
}

/// Something that a node's application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) at: Duration,
    pub(super) flow: u64,
    pub(super) ends: bool,
}

/// What a scenario does and measures.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The network.
    pub graph: Graph,
    /// How many next hops a node has.
    pub routing: Routing,
    /// What nodes are set to.
    pub config: Config,
    /// How flows decide when to send.
    pub pace: Pace,
    /// What flows do with several paths.
    pub multipath: Multipath,
    /// How forwarders choose among next hops where an Interest has no path label and discovers
    /// none: those of flows with a window.
    pub strategy: Strategy,
    /// Whether each Data carries its digest, and consumers verify it.
    pub is_signed: bool,
    /// Bytes of content in a segment.
    pub segment_bytes: usize,
    /// The flows.
    pub plan: Plan,
    /// Which figures it gives.
    pub measure: Measure,
    /// How long after a change rates count; none for 40 round trips, at least 1 s.
    pub settle: Option<Duration>,
    /// Whether messages pass through their encoding in the simulator.
    pub check_wire: bool,
    /// When it ends.
    pub duration: Duration,
    pub(super) jobs: BTreeMap<NodeId, Vec<Job>>,
}

impl Settings {
    /// Reads a scenario of kind `mircc`; the seed draws what is drawn of network and flows.
    ///
    /// # Errors
    /// If a key is missing, unknown or out of its range.
    pub fn read(scenario: &Scenario, seed: u64) -> Result<Settings, LabError> {
        let mut protocol = scenario.protocol();
        let (config, is_signed) = read_config(&mut protocol)?;
        let paces = [("rates", Pace::Rates), ("aimd", Pace::Aimd), ("cubic", Pace::Cubic)];
        let pace = protocol.choice_or("pace", &paces, "rates")?;
        let ways = [("dual", Multipath::Dual), ("best", Multipath::Best), ("sum", Multipath::Sum)];
        let multipath = protocol.choice_or("multipath", &ways, "dual")?;
        let strategies = [
            ("best-route", Strategy::BestRoute),
            ("multicast", Strategy::Multicast),
            ("adaptive", Strategy::Adaptive),
        ];
        let strategy = protocol.choice_or("strategy", &strategies, "best-route")?;
        let check_wire = protocol.boolean_or("check_wire", false)?;
        protocol.finish()?;
        let mut workload = scenario.workload();
        let graph = read_graph(&mut workload, seed)?;
        let nodes = graph.nodes().len() as u32;
        if scenario.topology.nodes != nodes {
            let accepted = format!("[topology] nodes = {nodes}, as in the network");
            let problem = format!("[topology] nodes is {}", scenario.topology.nodes);
            return Err(workload.error("network", problem, &accepted));
        }
        let routings = [
            ("single", Routing::Single),
            ("multi", Routing::Multi),
            ("alternates", Routing::Alternates),
        ];
        let routing = workload.choice_or("routing", &routings, "multi")?;
        let plan = read_plan(&mut workload, graph.consumers().len(), scenario.duration, seed)?;
        let segment_bytes = workload.size_or("segment", 1_000u64)? as usize;
        if !(1..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            let problem = format!("`segment` is out of range: {segment_bytes} bytes");
            let accepted = format!("\"1B\" to \"{SEGMENT_BYTES_MAX}B\"");
            return Err(workload.error("segment", problem, &accepted));
        }
        if segment_bytes + DATA_OVERHEAD_BYTES > scenario.topology.datagram_bytes_max {
            let problem = format!("a Data of {segment_bytes} bytes does not fit a datagram");
            let accepted = format!(
                "[topology] datagram of {} bytes or more",
                segment_bytes + DATA_OVERHEAD_BYTES
            );
            return Err(workload.error("segment", problem, &accepted));
        }
        workload.finish()?;
        let mut measure = scenario.measure();
        let figures = [
            ("rates", Measure::Rates),
            ("convergence", Measure::Convergence),
            ("settling", Measure::Settling),
            ("low-rate", Measure::LowRate),
            ("visit", Measure::Visit),
            ("mix", Measure::Mix),
            ("times", Measure::Times),
        ];
        let shown = measure.choice_or("figures", &figures, "rates")?;
        let settle = measure.duration_optional("settle")?;
        measure.finish()?;
        Ok(Settings {
            jobs: jobs(&graph, &plan),
            graph,
            routing,
            config,
            pace,
            multipath,
            strategy,
            is_signed,
            segment_bytes,
            plan,
            measure: shown,
            settle,
            check_wire,
            duration: scenario.duration,
        })
    }

    /// The same for sockets, whose timers are late.
    pub fn on_sockets(mut self) -> Settings {
        self.config = self.config.on_sockets();
        self
    }
}

fn read_config(table: &mut Table<'_>) -> Result<(Config, bool), LabError> {
    let mut config = Config::default();
    let algorithms = [("mircc", Algorithm::Mircc), ("rcp", Algorithm::Rcp)];
    config.controller.algorithm = table.choice_or("controller", &algorithms, "mircc")?;
    table.knobs(&mut config.controller)?;
    table.knobs(&mut config.shaper)?;
    table.knobs(&mut config)?;
    let signatures = [("none", false), ("digest", true)];
    let is_signed = table.choice_or("signature", &signatures, "none")?;
    config.signer = if is_signed { Signer::Digest } else { Signer::Null };
    config.check().map_err(|error| table.refused(&error))?;
    Ok((config, is_signed))
}

#[derive(Clone, Copy)]
enum Network {
    Dumbbell,
    Slingshot,
    Diamond,
    Abilene,
    Random,
    File,
}

fn read_graph(table: &mut Table<'_>, seed: u64) -> Result<Graph, LabError> {
    let networks = [
        ("dumbbell", Network::Dumbbell),
        ("slingshot", Network::Slingshot),
        ("diamond", Network::Diamond),
        ("abilene", Network::Abilene),
        ("random", Network::Random),
        ("file", Network::File),
    ];
    fn rate<'a>(table: &mut Table<'a>, key: &'a str, default: Rate) -> Result<Rate, LabError> {
        let rate = table.rate_or(key, default)?;
        match rate.bits_per_second() {
            0 => Err(table.error(key, format!("`{key}` is zero"), "a rate above zero")),
            _ => Ok(rate),
        }
    }
    let graph = match table.choice("network", &networks)? {
        Network::Dumbbell => {
            let flows = table.integer_or("flows", 1..=1_000, 4u32)? as usize;
            let defaults = Dumbbell::default();
            Dumbbell {
                consumers: flows,
                producers: flows,
                rate: rate(table, "bottleneck", defaults.rate)?,
                delay: table.duration_or("hop_delay", defaults.delay)?,
                host_rate: rate(table, "host_rate", defaults.host_rate)?,
                host_delay: table.duration_or("host_delay", defaults.host_delay)?,
            }
            .build()?
        }
        Network::Slingshot => {
            let defaults = Slingshot::default();
            let delay = table.duration_or("hop_delay", defaults.joint_delay)?;
            let branches = [("left", Branch::Left), ("right", Branch::Right)];
            Slingshot {
                joint_rate: rate(table, "joint", defaults.joint_rate)?,
                left_rate: rate(table, "left", defaults.left_rate)?,
                right_rate: rate(table, "right", defaults.right_rate)?,
                joint_delay: delay,
                left_delay: delay,
                right_delay: delay,
                second: table.choice_or("second", &branches, "left")?,
            }
            .build()?
        }
        Network::Diamond => {
            let defaults = Diamond::default();
            Diamond {
                rate: rate(table, "bottleneck", defaults.rate)?,
                upper_rate: rate(table, "upper", defaults.upper_rate)?,
                lower_rate: rate(table, "lower", defaults.lower_rate)?,
                delay: table.duration_or("hop_delay", defaults.delay)?,
            }
            .build()?
        }
        Network::Abilene => {
            let defaults = Abilene::default();
            Abilene {
                rate: rate(table, "bottleneck", defaults.rate)?,
                host_rate: rate(table, "host_rate", defaults.host_rate)?,
                host_delay: table.duration_or("host_delay", defaults.host_delay)?,
                seed,
            }
            .build()?
        }
        Network::Random => {
            let ways = [("one", Ways::One), ("several", Ways::Several)];
            Random { seed, ways: table.choice_or("ways", &ways, "several")?, ..Random::default() }
                .build()?
        }
        Network::File => {
            let path = PathBuf::from(table.text("file")?);
            let defaults = Defaults {
                rate: table.rate_optional("bottleneck")?,
                delay: table.duration_optional("hop_delay")?,
                queue_packets: None,
            };
            let graph = topology::load(&path, &defaults)?;
            read_hosts(table, graph)?
        }
    };
    graph.check()?;
    Ok(graph)
}

/// Reads the hosts if the topology file names none. By default the first node serves and all others
/// fetch.
fn read_hosts(table: &mut Table<'_>, mut graph: Graph) -> Result<Graph, LabError> {
    if !graph.producers().is_empty() {
        return Ok(graph);
    }
    let names = graph.nodes().to_vec();
    let known = |name: &str| names.iter().any(|node| node == name);
    let producer = table.text_or("producer", names.first().map_or("", String::as_str))?;
    let consumers = table.text_or("consumers", "")?;
    let consumers: Vec<String> = match consumers.trim() {
        "" => names.iter().filter(|&name| *name != producer).cloned().collect(),
        some => some.split(',').map(|name| name.trim().to_owned()).collect(),
    };
    for (key, name) in
        consumers.iter().map(|name| ("consumers", name)).chain([("producer", &producer)])
    {
        if !known(name) {
            let problem = format!("no node is called `{name}`");
            return Err(table.error(key, problem, &format!("nodes: {}", names.join(", "))));
        }
    }
    graph.add_producer("producer", &producer, "/p")?;
    for name in &consumers {
        graph.add_consumer(name, name, "/p")?;
    }
    Ok(graph)
}

#[derive(Clone, Copy)]
enum Kind {
    Steady,
    Arrivals,
    Visit,
    Mix,
    Drawn,
}

fn read_plan(
    table: &mut Table<'_>,
    consumers: usize,
    duration: Duration,
    seed: u64,
) -> Result<Plan, LabError> {
    let kinds = [
        ("steady", Kind::Steady),
        ("arrivals", Kind::Arrivals),
        ("visit", Kind::Visit),
        ("mix", Kind::Mix),
        ("drawn", Kind::Drawn),
    ];
    let kind = table.choice_or("plan", &kinds, "steady")?;
    let seconds = Duration::from_secs;
    Ok(match kind {
        Kind::Steady => Plan::steady(consumers),
        Kind::Arrivals => Plan::arrivals(consumers, table.duration_or("step", seconds(3))?),
        Kind::Visit => Plan::visit(consumers, table.duration_or("step", seconds(10))?),
        Kind::Mix => {
            let every = table.duration_or("step", Duration::from_millis(500))?;
            if every.is_zero() {
                return Err(table.error("step", "`step` is zero", "a time above zero"));
            }
            let mix = Mix {
                every,
                short: table.integer_or("short", 1..=1 << 21, 200u64)?,
                long: table.integer_or("long", 1..=1 << 21, 20_000u64)?,
                long_share: table.probability_or("long_share", 0.3)?,
            };
            Plan::mix(consumers, &mix, duration, seed)
        }
        Kind::Drawn => {
            let flows = table.integer_or("flows", 1..=1_000, 1u32)? as usize;
            let sizes = table.counts_optional("segments", 1 << 21)?;
            let sizes = sizes.unwrap_or_else(|| vec![2_000, 8_000, 30_000]);
            let sizes: Vec<u64> = sizes.into_iter().map(u64::from).collect();
            Plan::drawn(consumers, flows, &sizes, seed)
        }
    })
}

fn jobs(graph: &Graph, plan: &Plan) -> BTreeMap<NodeId, Vec<Job>> {
    let mut jobs: BTreeMap<NodeId, Vec<Job>> = BTreeMap::new();
    for (flow, step) in (0u64..).zip(&plan.steps) {
        let node = NodeId::from(graph.consumers()[step.consumer].node as u32);
        let jobs = jobs.entry(node).or_default();
        jobs.push(Job { at: step.begins, flow, ends: false });
        if let Some(at) = step.stops {
            jobs.push(Job { at, flow, ends: true });
        }
    }
    jobs.values_mut().for_each(|jobs| jobs.sort_by_key(|job| job.at));
    jobs
}
