//! MIRCC in the lab: its networks, its flows, and the rates with which it is compared.

mod abilene;
mod figures;
mod fluid;
mod ledger;
mod measured;
mod mix;
pub mod oracle;
mod plan;
mod report;
mod run;
mod settings;
mod settling;
pub mod topology;
mod windows;
mod worked;

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_lab::LabError;
use paceline_lab::reproduce::Reproduction;
use paceline_lab::scenario::Diagnostic;
use paceline_lab::world::{self, Answer, Parts, Service, Workload};
use paceline_proto::core::{Instant, NodeId, Payload};
use paceline_proto::mircc::{Command, Config, Event, FaceConfig, Fetch, Forwarder, Object, Setup};
use paceline_proto::ndn::{Name, Trust};
use paceline_sim::{Codec, Wires};

pub use ledger::{Ledger, Part};
pub use plan::{Plan, Step};
pub use settings::{Measure, Settings};

use topology::{Graph, Port, Routes};

/// The figures of MIRCC as `paceline reproduce mircc` shows them.
pub const REPRODUCTION: Reproduction = Reproduction {
    name: "mircc",
    about: "Named data at a fair rate, over one path or several. Mahdian, Arianfar, Gibson, Oran, \
            MIRCC: Multipath-aware ICN Rate-based Congestion Control, ACM ICN 2016.",
    figures: figures::reproduce,
    sections: report::sections,
};

impl From<oracle::OracleError> for LabError {
    fn from(error: oracle::OracleError) -> LabError {
        LabError::Run(error.to_string())
    }
}

impl From<topology::GraphError> for LabError {
    fn from(error: topology::GraphError) -> LabError {
        Diagnostic::new(error.to_string()).into()
    }
}

/// A scenario of flows that fetch named data, ready to run in either world.
#[derive(Debug)]
pub struct Fetching {
    shared: Arc<Config>,
    settings: Settings,
    setups: BTreeMap<NodeId, Setup>,
    wires: Arc<Wires>,
    ledger: Ledger,
}

impl Fetching {
    /// The scenario that these settings describe.
    ///
    /// # Errors
    /// If no way leads from a consumer to what it fetches.
    pub fn new(settings: Settings) -> Result<Fetching, LabError> {
        Ok(Fetching {
            shared: Arc::new(settings.config.clone()),
            setups: setups(&settings)?,
            wires: Arc::new(wires(&settings.graph)),
            ledger: Ledger::new(settings.plan.steps.len()),
            settings,
        })
    }

    /// What the scenario does and measures.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What was noted of the run.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

/// The name of what a flow fetches.
fn object_name(prefix: &str, flow: u64) -> Name {
    let name: Result<Name, _> = format!("{prefix}/{flow}").parse();
    name.expect("prefixes of networks are names")
}

/// How each node begins: its links, the ways to each prefix, and what it publishes.
fn setups(settings: &Settings) -> Result<BTreeMap<NodeId, Setup>, LabError> {
    let Settings { graph, plan, .. } = settings;
    let mut setups = BTreeMap::new();
    for (node, name) in graph.nodes().iter().enumerate() {
        let faces = graph
            .neighbours(node)
            .iter()
            .map(|neighbour| (NodeId(neighbour.node as u64), face(settings, neighbour.port)));
        let setup = Setup { name: name.clone(), faces: faces.collect(), ..Setup::default() };
        setups.insert(NodeId(node as u64), setup);
    }
    for prefix in graph.prefixes() {
        let routes = Routes::new(graph, &prefix, settings.routing)?;
        let name: Name = prefix.parse().map_err(|error| {
            LabError::from(Diagnostic::new(format!("prefix `{prefix}`: {error}")))
        })?;
        for node in 0..graph.nodes().len() {
            let hops = routes.next_hops(node).iter().zip(0u32..);
            let setup = setups.get_mut(&NodeId(node as u64)).expect("each node has one");
            setup.strategies.push((name.clone(), settings.strategy));
            for (hop, cost) in hops {
                setup.routes.push((name.clone(), NodeId(hop.node as u64), cost));
            }
        }
    }
    for (flow, step) in (0u64..).zip(&plan.steps) {
        let prefix = &graph.consumers()[step.consumer].prefix;
        let bytes = step.segments.unwrap_or(plan.segments_max) as usize * settings.segment_bytes;
        for producer in graph.producers().iter().filter(|producer| producer.prefix == *prefix) {
            let object = Object {
                name: object_name(prefix, flow),
                content: Payload::Zeros(bytes as u32),
                segment_bytes: settings.segment_bytes,
                freshness: None,
            };
            let setup = setups.get_mut(&NodeId(producer.node as u64)).expect("each node has one");
            setup.objects.push(object);
        }
    }
    Ok(setups)
}

/// The face of the node at the sending end of `port`.
fn face(settings: &Settings, port: Port) -> FaceConfig {
    let graph = &settings.graph;
    let queue = graph.links()[port.link].queue_packets;
    let packet_bytes = settings.segment_bytes + settings.config.frame_bytes + 128;
    let of_link = queue.map(|packets| packets as usize * packet_bytes);
    FaceConfig {
        out_bits_per_second: Some(graph.rate(port).bits_per_second()),
        in_bits_per_second: Some(graph.rate(port.reverse()).bits_per_second()),
        queue_bytes_max: of_link.unwrap_or(FaceConfig::default().queue_bytes_max),
    }
}

fn wires(graph: &Graph) -> Wires {
    let mut wires = Wires::new();
    for link in graph.links() {
        let [one, other] = link.ends.map(|node| NodeId(node as u64));
        wires.join(one, other, link.delay);
    }
    wires
}

impl Workload for Fetching {
    fn wires(&self) -> Option<Arc<Wires>> {
        Some(Arc::clone(&self.wires))
    }

    fn codec(&self) -> Codec {
        if self.settings.check_wire { Codec::CheckWire } else { Codec::Typed }
    }

    fn active_nodes(&self) -> Vec<NodeId> {
        let mut nodes: Vec<NodeId> = self.settings.jobs.keys().copied().collect();
        nodes.dedup();
        nodes
    }

    fn due(&self, node: NodeId, number: u64) -> Option<Instant> {
        let job = self.settings.jobs.get(&node)?.get(number as usize)?;
        Some(Instant::ZERO + job.at)
    }

    fn is_done(&self) -> bool {
        self.ledger.is_done(self.settings.plan.is_open_ended())
    }

    fn is_done_at(&self, node: NodeId) -> bool {
        let Some(jobs) = self.settings.jobs.get(&node) else { return true };
        jobs.iter().all(|job| self.ledger.has_ended(job.flow))
    }

    fn parts(&self) -> &dyn Parts {
        self
    }

    fn parts_mut(&mut self) -> &mut dyn Parts {
        self
    }
}

/// A node's flows are those of its jobs.
impl world::Ledger for Fetching {
    type Part = Part;

    fn part(&self, node: NodeId) -> Part {
        let jobs = self.settings.jobs.get(&node).into_iter().flatten();
        self.ledger.part(jobs.map(|job| job.flow))
    }

    fn merge(&mut self, _node: NodeId, part: Part) {
        self.ledger.merge(part);
    }
}

impl Service for Fetching {
    type Protocol = Forwarder;

    fn shared(&self) -> &Arc<Config> {
        &self.shared
    }

    fn protocol(&self, node: NodeId) -> Forwarder {
        Forwarder::new(self.setups.get(&node).cloned().unwrap_or_default(), &self.shared)
    }

    fn submit(&mut self, at: Instant, node: NodeId, number: u64) -> Command {
        let job = self.settings.jobs[&node][number as usize];
        let flow = job.flow;
        if job.ends {
            self.ledger.stopped(flow, at);
            return Command::Stop { flow };
        }
        self.ledger.began(flow, at);
        let step = &self.settings.plan.steps[flow as usize];
        let prefix = &self.settings.graph.consumers()[step.consumer].prefix;
        Command::Fetch(Fetch {
            segments: step.segments,
            pace: self.settings.pace,
            multipath: self.settings.multipath,
            trust: if self.settings.is_signed { Trust::Digest } else { Trust::Anything },
            ..Fetch::new(flow, object_name(prefix, flow))
        })
    }

    fn observe(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &Event,
        _answers: &mut Vec<Answer<Self>>,
    ) {
        match event {
            Event::Segment { flow, number, class, data, link_bytes, stamps } => {
                let bytes = (*link_bytes, data.content().len());
                self.ledger.received(*flow, at, (*number, *class, bytes), stamps.primary());
            }
            Event::Fetched { flow, counts } => self.ledger.ended(*flow, at, counts),
            Event::Failed { flow, why, .. } => {
                self.ledger.breaks(format!("{node} abandoned flow {flow}: {why}"));
            }
            Event::Asked { interest, .. } => {
                self.ledger.breaks(format!("{node} received an Interest for {}", interest.name));
            }
            Event::Answered { .. } | Event::Unanswered { .. } | Event::Report { .. } => {}
        }
    }
}
