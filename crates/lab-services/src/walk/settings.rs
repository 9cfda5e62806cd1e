//! The tables `[protocol]`, `[workload]` and `[measure]` of a walk scenario.

use std::sync::Arc;
use std::time::Duration;

use paceline_graph::generate::Blocks;
use paceline_lab::LabError;
use paceline_lab::scenario::{Scenario, Table};
use paceline_proto::core::NodeId;
use paceline_proto::walk::{
    Chance, Config, Control, Discipline, Generation, Graph, Kind, Length, Node2Vec, Owners,
    PacedConfig, QueueConfig, StepConfig, Trail, WindowConfig,
};

/// How queues and sources behave: the paper's methods, the synchronous engine that it compares
/// with, and three of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RED drops, sources pause after losses.
    RqRg,
    /// RED drops, sources never pause.
    RqSleep0,
    /// RED drops, sources always pause.
    RqSleep1,
    /// A full queue drops, sources pause after losses.
    TailRg,
    /// As `RqRg`; no source hears at once of a drop at its own server.
    RqRgNoDirect,
    /// RED marks, sources pause at marks, and what is lost is done again.
    MarkExact,
    /// All servers take a step with all their walkers, exchange them, and wait for each other.
    Synchronous,
    /// RED marks, a window of walks under way, in batches.
    Window,
    /// As servers on networks are set by default: as `Window` with longer queues, hops that take
    /// what they take, and walkers that travel together.
    Network,
}

impl Method {
    /// All of them, with the names of scenarios and figures.
    pub const ALL: [(&'static str, Method); 9] = [
        ("rq-rg", Method::RqRg),
        ("rq-sleep0", Method::RqSleep0),
        ("rq-sleep1", Method::RqSleep1),
        ("tail-rg", Method::TailRg),
        ("rq-rg-nodirect", Method::RqRgNoDirect),
        ("mark-exact", Method::MarkExact),
        ("synchronous", Method::Synchronous),
        ("window", Method::Window),
        ("network", Method::Network),
    ];

    /// True of the methods that experiments 1 to 3 are done with.
    pub fn is_of_experiments(self) -> bool {
        !matches!(self, Method::Window | Method::Network)
    }

    /// True if every requested walk is completed, on the path that its number determines.
    pub fn is_exact(self) -> bool {
        use Method::{MarkExact, Network, Synchronous, Window};
        matches!(self, MarkExact | Synchronous | Window | Network)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Method::ALL.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }

    /// The configuration that is meant by it, on the paper's servers.
    pub fn config(self) -> Config {
        let paced = |paced| Config { generation: Generation::Paced(paced), ..Config::paper() };
        let paper = PacedConfig::default();
        match self {
            Method::RqRg => paced(paper),
            Method::RqSleep0 => paced(PacedConfig { control: Control::Never, ..paper }),
            Method::RqSleep1 => paced(PacedConfig { control: Control::Always, ..paper }),
            Method::TailRg => {
                let config = paced(paper);
                let discipline = Discipline::TailDrop;
                Config { queue: QueueConfig { discipline, ..config.queue }, ..config }
            }
            Method::RqRgNoDirect => paced(PacedConfig { is_direct: false, ..paper }),
            Method::MarkExact => Config::exact(),
            Method::Synchronous => Config {
                generation: Generation::Supersteps(StepConfig::default()),
                ..Config::paper()
            },
            Method::Window => Config {
                generation: Generation::Window(WindowConfig::default()),
                ..Config::exact()
            },
            Method::Network => Config::default(),
        }
    }
}

/// Which figures a scenario gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Experiment 1: time, additional walks, the queue of the last server, mean hops.
    E1,
    /// Experiment 2: the queue of the last server.
    E2,
    /// Experiment 3: additional walks.
    E3,
}

/// What a scenario does and measures.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The graph.
    pub graph: Arc<Graph>,
    /// The owner of each vertex: each server has a block.
    pub owners: Arc<Owners>,
    /// How queues and sources behave.
    pub method: Method,
    /// What servers are set to.
    pub config: Config,
    /// What a hop takes at the last server.
    pub last_service: Duration,
    /// One-way delay between two servers in the simulator.
    pub delay: Duration,
    /// Vertices of a server.
    pub block: u32,
    /// How walks choose.
    pub kind: Kind,
    /// When they end.
    pub length: Length,
    /// Walks from each vertex.
    pub walks: u32,
    /// What walkers carry of their way.
    pub trail: Trail,
    /// Which figures it gives.
    pub measure: Measure,
    /// Whether messages pass through their encoding in the simulator.
    pub check_wire: bool,
    /// The seed of graph and walks.
    pub seed: u64,
}

impl Settings {
    /// Reads a scenario of kind `walk`; the seed draws the graph and the walks.
    ///
    /// # Errors
    /// If a key is missing, unknown or out of its range.
    pub fn read(scenario: &Scenario, seed: u64) -> Result<Settings, LabError> {
        let mut protocol = scenario.protocol();
        let method = protocol.choice_or("method", &Method::ALL, "rq-rg")?;
        let config = read_config(&mut protocol, method)?;
        let ratio = Duration::from_nanos((config.service.as_nanos() * 9 / 8) as u64);
        let last_service = protocol.duration_or("last_service", ratio)?;
        let check_wire = protocol.boolean_or("check_wire", false)?;
        config.check().map_err(|error| protocol.refused(&error))?;
        protocol.finish()?;

        let mut workload = scenario.workload();
        let nodes = scenario.topology.nodes;
        let block = workload.integer_or("block", 1..=1_000_000u32, 100)?;
        let share =
            |workload: &mut Table<'_>, key, default| workload.number_or(key, 0.0..=1.0, default);
        let (a, b, c) = (
            share(&mut workload, "A", 0.01)?,
            share(&mut workload, "B", 0.05)?,
            share(&mut workload, "C", 0.2)?,
        );
        let walks = workload.integer_or("walks", 1..=10_000_000u32, 10_000)?;
        let kind = read_kind(&mut workload)?;
        let length = match workload.integer_optional("length", 0..=Length::STEPS_MAX)? {
            Some(steps) => Length::Steps(steps),
            None => {
                let end = workload.number_or("alpha", 0.0001..=1.0, 0.2)?;
                let end = Chance::new(end).expect("the table has checked it");
                Length::Geometric { end, steps_max: 10_000 }
            }
        };
        let trail = match workload.boolean_or("paths", true)? {
            true => Trail::Vertices,
            false => Trail::None,
        };
        if !(2..=256).contains(&nodes) {
            let problem = format!("[topology] nodes is {nodes}");
            return Err(workload.error("block", problem, "2 to 256 servers"));
        }
        let servers = nodes as usize;
        let chance = |one: usize, other: usize| match (one == servers - 1, other == servers - 1) {
            (true, true) => c,
            (false, false) => a,
            _ => b,
        };
        let rows = (0..servers).map(|one| (0..servers).map(|other| chance(one, other)).collect());
        let blocks = Blocks::new(vec![block; servers], rows.collect())
            .map_err(|error| workload.error("block", error.to_string(), "fewer vertices"))?;
        let drawn = blocks.generate(seed);
        workload.finish()?;
        let mut measure = scenario.measure();
        let figures = [("e1", Measure::E1), ("e2", Measure::E2), ("e3", Measure::E3)];
        let shown = measure.choice_or("figures", &figures, "e1")?;
        measure.finish()?;

        let owner = |vertex: u32| (vertex / block) as u16;
        let vertices = block * nodes;
        let owners =
            Owners::new((0..nodes).map(NodeId::from).collect(), (0..vertices).map(owner).collect());
        Ok(Settings {
            graph: Arc::new(drawn),
            owners: Arc::new(owners.expect("each block has a server")),
            method,
            config,
            last_service,
            delay: scenario.topology.link.delay,
            block,
            kind,
            length,
            walks,
            trail,
            measure: shown,
            check_wire,
            seed,
        })
    }

    /// What a server is set to.
    pub fn config_of(&self, node: NodeId) -> Config {
        let servers = self.owners.servers();
        let is_last = servers.last() == Some(&node);
        let service = if is_last { self.last_service } else { self.config.service };
        Config { service, ..self.config }
    }
}

fn read_config(table: &mut Table<'_>, method: Method) -> Result<Config, LabError> {
    let mut config = method.config();
    table.knobs(&mut config.queue)?;
    table.knobs(&mut config.bundle)?;
    // All keys are taken with every method, so that methods can be swept beside them.
    let (mut paced, mut window, mut steps) = match config.generation {
        Generation::Paced(paced) => (paced, WindowConfig::default(), StepConfig::default()),
        Generation::Window(window) => (PacedConfig::exact(), window, StepConfig::default()),
        Generation::Supersteps(steps) => (PacedConfig::default(), WindowConfig::default(), steps),
    };
    table.knobs(&mut paced)?;
    table.knobs(&mut window)?;
    table.knobs(&mut steps)?;
    table.knobs(&mut config)?;
    config.generation = match config.generation {
        Generation::Paced(_) => Generation::Paced(paced),
        Generation::Window(_) => Generation::Window(window),
        Generation::Supersteps(_) => Generation::Supersteps(steps),
    };
    Ok(config)
}

fn read_kind(workload: &mut Table<'_>) -> Result<Kind, LabError> {
    #[derive(Clone, Copy)]
    enum Named {
        Uniform,
        Node2Vec,
        Restart,
    }
    let named =
        [("uniform", Named::Uniform), ("node2vec", Named::Node2Vec), ("restart", Named::Restart)];
    let named = workload.choice_or("walk", &named, "uniform")?;
    Ok(match named {
        Named::Uniform => Kind::Uniform,
        Named::Node2Vec => {
            let p = workload.number_or("p", Node2Vec::RANGE, 1.0)?;
            let q = workload.number_or("q", Node2Vec::RANGE, 1.0)?;
            Kind::Node2Vec(Node2Vec::new(p, q).expect("the table has checked it"))
        }
        Named::Restart => {
            let back = workload.number_or("p", 0.0..=1.0, 0.15)?;
            Kind::Restart(Chance::new(back).expect("the table has checked it"))
        }
    })
}
