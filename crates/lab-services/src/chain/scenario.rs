//! The tables `[protocol]`, `[workload]` and `[measure]` of a broadcast scenario.

use std::sync::Arc;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Scenario, Senders, Table};
use paceline_proto::chain::{Config, Topology};
use paceline_proto::core::{Instant, NodeId, Rng, View};

use super::content::{Content, Messages};
use super::ledger::Window;
use super::{Attendance, Broadcast, Ledger};

/// Which figures a scenario gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// None but the summary: what was delivered, how fast, how late.
    Deliveries,
    /// Rounds until everybody has everything.
    Rounds,
    /// Transmissions of one message, and their order.
    Transmissions,
    /// MB a node and second, own included.
    Throughput,
    /// Throughput over that of sending to each in turn.
    Gain,
    /// Bytes of the sender that got most through over those of the one that got least.
    Fairness,
    /// Seconds in which some node delivered nothing.
    Progress,
    /// Throughput of the configured topology beside unicast's, over several seeds: for streams that
    /// lose segments at shallow ports.
    Incast,
    /// Median and 99th percentile of the delay beside unicast's.
    Latency,
}

/// What a broadcast scenario does and measures.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The topology, or none if the planner chooses.
    pub topology: Option<Topology>,
    /// Who sends.
    pub senders: Senders,
    /// What messages hold.
    pub content: Content,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// Blocks of all messages of one sender; none without an end.
    pub blocks: Option<u64>,
    /// Messages of each sender; none without an end.
    pub messages: Option<u64>,
    /// Time between two messages of a sender; none for as fast as accepted.
    pub interval: Option<Duration>,
    /// Members that send seldom, whether they are among `senders` or not. Their latencies are
    /// measured apart.
    pub quiet: Vec<NodeId>,
    /// Time between two messages of these.
    pub quiet_interval: Duration,
    /// When the first is sent.
    pub start: Duration,
    /// In the simulator each sender begins later than `start` by a time of its own, drawn from the
    /// run's seed below this. Real hosts never begin at one instant. Default 0.
    pub spread: Duration,
    /// How fast applications read, bytes a second; none for at once.
    pub read_bytes_per_second: Option<f64>,
    /// The measured time. Nothing is sent after it.
    pub window: Window,
    /// Which figures.
    pub measure: Measure,
    /// Whether messages pass through their encoding in the simulator.
    pub check_wire: bool,
}

impl Broadcast {
    /// The same with another topology.
    pub fn with_topology(&self, topology: Topology) -> Broadcast {
        self.with_topology_of(Some(topology))
    }

    fn with_topology_of(&self, topology: Option<Topology>) -> Broadcast {
        let config = Config::clone(&self.shared).with_topology(topology);
        let plan = Plan { topology, ..self.plan.clone() };
        Broadcast::new(config, View::clone(&self.view), plan)
    }

    /// Reads a scenario of kind `chain`.
    pub fn read(scenario: &Scenario) -> Result<Broadcast, LabError> {
        let view = View::roster((0..scenario.topology.nodes).map(NodeId::from));
        let mut protocol = scenario.protocol();
        let config = Config::new(view.clone());
        let (config, topology, check_wire) = read_protocol(&mut protocol, config)?;
        protocol.finish()?;
        let mut workload = scenario.workload();
        let plan = read_workload(&mut workload, scenario, &config)?;
        workload.finish()?;
        let mut measure = scenario.measure();
        let kind = measure.choice_or("figures", &MEASURES, "deliveries")?;
        let window = read_window(&mut measure, scenario)?;
        measure.finish()?;
        let plan = Plan { topology, measure: kind, window, check_wire, ..plan };
        Ok(Broadcast::new(config, view, plan))
    }

    /// A broadcast among the members of this view.
    pub(crate) fn new(config: Config, view: View, plan: Plan) -> Broadcast {
        let messages = Messages::new(plan.content, plan.message_bytes);
        let ledger = Ledger::new(view.len() as u32, plan.window, Attendance::Full);
        let (shared, view, starts) = (Arc::new(config), Arc::new(view), Vec::new());
        let broadcast = Broadcast { shared, view, plan, messages, starts, ledger };
        broadcast.attended(Attendance::Full)
    }

    /// The same, its senders beginning at the times that this seed draws.
    pub(crate) fn spread_by(&self, seed: u64) -> Broadcast {
        let mut broadcast = self.with_topology_of(self.plan.topology);
        let mut rng = Rng::new(seed, 0x57a7);
        let nodes = 0..self.view.len();
        broadcast.starts = nodes.map(|_| self.plan.spread.mul_f64(rng.unit())).collect();
        broadcast
    }
}

/// Messages a second of a quiet member.
const QUIET_RATE: f64 = 10.0;

const TOPOLOGIES: [(&str, Option<Topology>); 5] = [
    ("unicast", Some(Topology::Unicast)),
    ("chain", Some(Topology::Chain)),
    ("tree", Some(Topology::Tree)),
    ("pipeline", Some(Topology::Pipeline)),
    ("auto", None),
];

/// Reads the topology and the knobs of a broadcast, onto this configuration: of `[protocol]`, or of
/// a table of another file that names them as scenarios do.
///
/// # Errors
/// If a value is not accepted.
pub fn read_broadcast(
    table: &mut Table<'_>,
    config: Config,
) -> Result<(Config, Option<Topology>), LabError> {
    let topology = table.choice_or("topology", &TOPOLOGIES, "chain")?;
    let mut config = config.with_topology(topology);
    table.knobs(&mut config)?;
    let config = config.build().map_err(|error| table.refused(&error))?;
    Ok((config, topology))
}

/// Reads what the broadcast has of `[protocol]`, onto this configuration.
pub(crate) fn read_protocol(
    table: &mut Table<'_>,
    config: Config,
) -> Result<(Config, Option<Topology>, bool), LabError> {
    let (config, topology) = read_broadcast(table, config)?;
    Ok((config, topology, table.boolean_or("check_wire", false)?))
}

/// Reads what the broadcast has of `[workload]`.
pub(crate) fn read_workload(
    table: &mut Table<'_>,
    scenario: &Scenario,
    config: &Config,
) -> Result<Plan, LabError> {
    let nodes = scenario.topology.nodes;
    let senders = Senders::read(table, "senders", nodes)?;
    let bytes = usize::try_from(table.size_or("size", 8000u64)?).unwrap_or(usize::MAX);
    if bytes > config.message_bytes_max() {
        let problem = format!("a message of {bytes} bytes is larger than `message_bytes_max`");
        let accepted = "a size up to message_bytes_max (16MiB by default)";
        return Err(table.error("size", problem, accepted));
    }
    let blocks: Option<u64> = table.integer_optional("blocks", 1..=1u64 << 32)?;
    let messages: Option<u64> = table.integer_optional("messages", 1..=1u64 << 40)?;
    if blocks.is_some() && messages.is_some() {
        let problem = "`blocks` and `messages` both set the amount to send";
        return Err(table.error("blocks", problem, "only one of them"));
    }
    // `blocks` makes one message of whole blocks, as far as a message may be that large.
    let (message_bytes, messages) = match blocks {
        None => (bytes, messages),
        Some(blocks) => {
            let whole = config.block_bytes_max() as u64 * blocks;
            if whole <= config.message_bytes_max() as u64 && blocks <= config.window_blocks() as u64
            {
                (whole as usize, Some(1))
            } else {
                (config.block_bytes_max(), Some(blocks))
            }
        }
    };
    let interval =
        table.frequency_optional("rate")?.map(|rate| Duration::from_secs_f64(1.0 / rate));
    let quiet = Senders::read_optional(table, "quiet", nodes)?;
    let quiet_rate = table.frequency_optional("quiet_rate")?.unwrap_or(QUIET_RATE);
    let start = table.duration_or("start", Duration::ZERO)?;
    let spread = table.duration_or("spread", Duration::ZERO)?;
    let read = table.rate_optional("read_rate")?.map(|rate| rate.bits_per_second() as f64 / 8.0);
    let contents = [("numbered", Content::Numbered), ("zeros", Content::Zeros)];
    Ok(Plan {
        topology: None,
        senders,
        content: table.choice_or("content", &contents, "numbered")?,
        message_bytes,
        blocks,
        messages,
        interval,
        quiet: quiet.map_or(Vec::new(), |quiet| quiet.nodes(nodes)),
        quiet_interval: Duration::from_secs_f64(1.0 / quiet_rate),
        start,
        spread,
        read_bytes_per_second: read,
        window: Window { from: Instant::ZERO, until: Instant::MAX },
        measure: Measure::Deliveries,
        check_wire: false,
    })
}

const MEASURES: [(&str, Measure); 9] = [
    ("deliveries", Measure::Deliveries),
    ("rounds", Measure::Rounds),
    ("transmissions", Measure::Transmissions),
    ("throughput", Measure::Throughput),
    ("gain", Measure::Gain),
    ("fairness", Measure::Fairness),
    ("progress", Measure::Progress),
    ("incast", Measure::Incast),
    ("latency", Measure::Latency),
];

/// Reads the time whose numbers count.
pub(crate) fn read_window(table: &mut Table<'_>, scenario: &Scenario) -> Result<Window, LabError> {
    let from = table.duration_or("warmup", Duration::ZERO)?;
    if from >= scenario.duration {
        let problem = "the warm-up lasts as long as the run or longer";
        return Err(table.error("warmup", problem, "a duration below `duration`"));
    }
    let until = Instant::ZERO + scenario.duration;
    Ok(Window { from: Instant::ZERO + from, until })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::CATALOG;

    #[test]
    fn quiet_members_send_seldom_and_are_measured_apart() {
        let text = "duration = \"600ms\"\n[topology]\nnodes = 4\nrate = \"100Mbit\"\n\
                    [protocol]\nkind = \"chain\"\n[workload]\nsenders = \"all\"\nquiet = [1]\n\
                    quiet_rate = \"50/s\"\n[measure]\nwarmup = \"100ms\"\n";
        let scenario = CATALOG.parse("t.toml", text).unwrap().resolve().unwrap();
        let broadcast = Broadcast::read(&scenario).unwrap();
        let saturating: Vec<u64> = broadcast.saturating_nodes().iter().map(|node| node.0).collect();
        assert_eq!((saturating, broadcast.limit(1.0)), (vec![0, 2, 3], 1.0));
        let result = crate::simulate(&scenario, 1).unwrap();
        let value = |name: &str| {
            let metric = result.summary.iter().find(|metric| metric.metric == name);
            metric.map(|metric| metric.value).unwrap_or_else(|| panic!("no {name}"))
        };
        // With it the ratio would be that of thousands to 25.
        assert!(value("fairness") < 1.1, "{}", value("fairness"));
        assert!(value("quiet_latency_p99") < value("latency_p99"));
    }

    #[test]
    fn every_key_can_be_set_without_its_table_and_is_read() {
        for (table, key) in crate::catalog::CATALOG.keys("chain").all() {
            let text = "[topology]\nnodes = 3\n[protocol]\nkind = \"chain\"";
            let scenario = CATALOG.parse("t.toml", text).unwrap();
            // No key accepts a value of this type, so the code that reads the key reports an error.
            let path = format!("{table}.{key}=1979-05-27");
            let set = scenario.with_sets([&path]).unwrap();
            let error = Broadcast::read(&set.resolve().unwrap()).unwrap_err().to_string();
            assert!(error.contains(&format!("`{key}`")), "{path}: {error}");
            assert!(!error.contains("unknown key"), "{path}: {error}");
        }
        let file = CATALOG.load("chain/ten").unwrap().with_sets(["check_wire=true"]).unwrap();
        assert!(Broadcast::read(&file.resolve().unwrap()).unwrap().plan().check_wire);
    }
}
