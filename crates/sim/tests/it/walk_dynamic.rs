//! Walks over a graph that a client supplies to servers, while edges change, vertices move between
//! servers, messages get lost and servers restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Rng};
use paceline_proto::graphshare::{Edit, EditError, GraphCommand, GraphEvent, Supply, VertexChange};
use paceline_proto::walk::{
    Chance, Command, Config, Event, Graph, Job, JobId, JobReport, Kind, Length, Node2Vec, Owners,
    Server, Sources, Step, Trail, Walk, Walker,
};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Sim, SimConfig};

const SERVERS: u32 = 4;
const CLIENT: NodeId = NodeId(SERVERS as u64);
const JOB: JobId = JobId(1);
const PLAN: u64 = 77;

/// What is to happen.
#[derive(Clone)]
struct Plan {
    seed: u64,
    vertices: u32,
    kind: Kind,
    walks: u32,
    /// Edits of edges, moves of vertices.
    edits: usize,
    moves: usize,
    /// Edits that are asked for at once.
    batch: usize,
    trail: Trail,
    loss: f64,
    faults: Vec<(Duration, Fault)>,
}

/// The rows of a vertex, from its first version on.
type History = Vec<Vec<u32>>;

/// The client's application: gives the graph, changes it, and checks what walks bring home.
struct Client {
    plan: Plan,
    graph: Arc<Graph>,
    rng: Rng,
    /// Rows by version, of vertices that were edited.
    history: BTreeMap<u32, History>,
    asked: Vec<Edit>,
    edits_left: usize,
    moves_left: usize,
    edited: usize,
    moved: usize,
    supplied: u64,
    told: u64,
    /// Steps over rows that the client had not heard of when they came home.
    early: Vec<(u32, u32, u32)>,
    changed_steps: u64,
    report: Option<JobReport>,
    silent: u32,
    back: u32,
    failed: u64,
}

fn graph(seed: u64, vertices: u32) -> Graph {
    let mut rng = Rng::new(seed, 9);
    let mut edges = Vec::new();
    for vertex in 0..vertices {
        edges.push((vertex, (vertex + 1) % vertices));
        edges.extend((0..5).map(|_| (vertex, rng.below(vertices))));
    }
    Graph::from_edges(vertices, edges).expect("edges lead to vertices")
}

impl Client {
    fn new(plan: Plan) -> Client {
        Client {
            graph: Arc::new(graph(plan.seed, plan.vertices)),
            rng: Rng::new(plan.seed, 3),
            history: BTreeMap::new(),
            asked: Vec::new(),
            edits_left: plan.edits,
            moves_left: plan.moves,
            edited: 0,
            moved: 0,
            told: 0,
            early: Vec::new(),
            changed_steps: 0,
            report: None,
            silent: 0,
            supplied: 0,
            back: 0,
            failed: 0,
            plan,
        }
    }

    fn supply(&self) -> Supply {
        let owners = (0..self.plan.vertices).map(|vertex| (vertex % SERVERS) as u16).collect();
        let owners = Owners::new((0..SERVERS).map(NodeId::from).collect(), owners);
        Supply {
            id: PLAN,
            graph: self.graph.clone(),
            weights: None,
            owners: Arc::new(owners.expect("each vertex has a server")),
            addresses: Vec::new(),
            replaces: false,
            pass: None,
        }
    }

    fn job(&self) -> Job {
        let Plan { kind, walks, trail, seed, vertices, .. } = &self.plan;
        let end = Chance::new(0.2).expect("a chance");
        Job {
            id: JOB,
            seed: *seed,
            kind: kind.clone(),
            length: Length::Geometric { end, steps_max: 100 },
            sources: Sources::Range(0..*vertices),
            walks: *walks,
            trail: *trail,
            // So that changes come all the while.
            first: 0,
            in_flight_max: 4096,
        }
    }

    /// The next edits, if it is time for them: they are spread over the walks.
    fn next_edits(&mut self) -> Option<Vec<Edit>> {
        let all = self.plan.edits + self.plan.moves;
        let left = self.edits_left + self.moves_left;
        let walks = u64::from(self.plan.vertices) * u64::from(self.plan.walks);
        let is_due = (all - left) as u64 * walks <= self.told * all as u64 * 11 / 10;
        if !self.asked.is_empty() || left == 0 || !is_due {
            return None;
        }
        for _ in 0..self.plan.batch.min(left) {
            let left = (self.edits_left + self.moves_left) as u32;
            let vertex = self.rng.below(self.plan.vertices);
            let change = if self.rng.below(left) < self.moves_left as u32 {
                self.moves_left -= 1;
                VertexChange::Move { to: self.rng.below(SERVERS) as u16 }
            } else {
                self.edits_left -= 1;
                self.change(vertex)
            };
            self.asked.push((vertex, change));
        }
        Some(self.asked.clone())
    }

    fn change(&mut self, vertex: u32) -> VertexChange {
        let row = self.row(vertex);
        match self.rng.below(16) {
            // A vertex that was not there before.
            0 => VertexChange::Set { to: self.plan.vertices + vertex, weight: 1.0, label: 0 },
            1..8 if row.len() > 1 => {
                VertexChange::Cut { to: row[self.rng.below(row.len() as u32) as usize] }
            }
            _ => {
                let to = self.rng.below(self.plan.vertices);
                VertexChange::Set { to, weight: 1.0, label: 0 }
            }
        }
    }

    fn row(&self, vertex: u32) -> Vec<u32> {
        match self.history.get(&vertex).and_then(|history| history.last()) {
            Some(row) => row.clone(),
            None => self.graph.row_of(vertex).targets.to_vec(),
        }
    }

    fn on_edited(&mut self, results: &[Result<u32, EditError>]) {
        let asked = std::mem::take(&mut self.asked);
        assert_eq!(asked.len(), results.len());
        for (&(vertex, change), result) in asked.iter().zip(results) {
            let version = result.unwrap_or_else(|error| panic!("{change:?} of {vertex}: {error}"));
            let mut row = self.row(vertex);
            match change {
                VertexChange::Move { .. } => {
                    self.moved += 1;
                    continue;
                }
                VertexChange::Set { to, .. } if !row.contains(&to) => row.push(to),
                VertexChange::Cut { to } => row.retain(|&other| other != to),
                _ => {}
            }
            self.edited += 1;
            let first = self.graph.row_of(vertex).targets.to_vec();
            let history = self.history.entry(vertex).or_insert_with(|| vec![first]);
            row.sort_unstable();
            if history.last() != Some(&row) {
                history.push(row);
            }
            assert_eq!(version as usize, history.len() - 1, "{change:?} of {vertex}");
        }
    }

    /// Checks that each step was an edge of the row of its version.
    fn check(&mut self, walk: &Walk) {
        assert_eq!((walk.path.len(), walk.versions.len()), (walk.steps as usize, walk.path.len()));
        let mut at = walk.source;
        for (&to, &version) in walk.path.iter().zip(&walk.versions) {
            self.check_step(at, to, version, true);
            at = to;
        }
    }

    fn check_step(&mut self, at: u32, to: u32, version: u32, may_be_early: bool) {
        let was_there = match self.history.get(&at) {
            None if version == 0 => self.graph.row_of(at).leads_to(to),
            Some(history) if (version as usize) < history.len() => {
                self.changed_steps += u64::from(version > 0);
                history[version as usize].binary_search(&to).is_ok()
            }
            _ if may_be_early => return self.early.push((at, to, version)),
            _ => panic!("{at} has never had version {version}"),
        };
        assert!(was_there, "no edge from {at} to {to} in version {version}");
    }
}

impl Observer<Server> for Client {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<Server>) {
        assert_eq!(node, CLIENT, "only the client is told anything");
        let mut say = |command| reply.command(Duration::ZERO, CLIENT, command);
        match event {
            Event::Graph(GraphEvent::Supplying(plan, reached)) => {
                assert_eq!(*plan, PLAN);
                assert!(*reached > self.supplied, "{reached} after {}", self.supplied);
                self.supplied = *reached;
            }
            Event::Graph(GraphEvent::Supplied(plan)) => {
                assert_eq!(*plan, PLAN);
                assert_eq!(self.supplied, u64::from(self.plan.vertices * SERVERS));
                say(Command::Run(Box::new(self.job())));
            }
            Event::Walks(job, walks) => {
                say(Command::Consumed(*job, walks.len()));
                self.told += walks.len() as u64;
                if self.plan.trail == Trail::Versions {
                    walks.iter().for_each(|walk| self.check(walk));
                } else {
                    walks.iter().for_each(|walk| self.check_path(walk));
                }
            }
            Event::Graph(GraphEvent::Edited(_, results)) => self.on_edited(results),
            Event::Ended(_, report, _) => self.report = Some(**report),
            Event::Failed(..) => self.failed += 1,
            Event::Graph(GraphEvent::ServerSilent(_)) => self.silent += 1,
            Event::Graph(GraphEvent::ServerBack(_)) => self.back += 1,
            other => panic!("{other:?}"),
        }
        if let Some(edits) = self.next_edits() {
            say(Command::Graph(GraphCommand::Edit(1, edits)));
        }
    }
}

impl Client {
    /// Where rows do not change, a walk takes the path that it takes in memory.
    fn check_path(&mut self, walk: &Walk) {
        let job = self.job();
        let mut walker = Walker::new(job.seed, walk.walk, walk.source, job.length);
        let mut path = Vec::new();
        while let Step::To(vertex) = job.kind.step(&mut walker, &*self.graph) {
            path.push(vertex);
        }
        assert_eq!(walk.path, path, "walk {}", walk.walk);
    }
}

/// Runs it to its end.
fn run(plan: &Plan) -> (Client, Sim<'static, Server>) {
    let mut config = SimConfig::new(SERVERS as usize + 1, plan.seed);
    let loss = if plan.loss > 0.0 { Loss::Independent(plan.loss) } else { Loss::None };
    config.network.link =
        LinkFaults { delay: Duration::from_micros(50), loss, ..LinkFaults::default() };
    config.faults = FaultSupport::Any;
    let mut sim = Sim::new(config, Arc::new(()), |node| {
        // A walk of node2vec takes dozens of messages: it is lost often.
        let walk_time_max = Duration::from_secs(3_600);
        let config = Config { walk_time_max, ..Config::default() };
        let made = match node {
            CLIENT => Server::client(config, node),
            _ => Server::awaiting(config, node),
        };
        made.expect("within the ranges")
    });
    let mut client = Client::new(plan.clone());
    let supply = Command::Graph(GraphCommand::Supply(Box::new(client.supply())));
    sim.command_at(Instant::ZERO, CLIENT, supply);
    for (after, fault) in &plan.faults {
        sim.fault_at(Instant::ZERO + *after, fault.clone());
    }
    let until = Instant::ZERO + Duration::from_secs(600);
    while (client.report.is_none() || !client.asked.is_empty()) && sim.now() < until {
        assert!(sim.step(&mut client), "all stands still after {} walks", client.told);
    }
    for (at, to, version) in std::mem::take(&mut client.early) {
        client.check_step(at, to, version, false);
    }
    (client, sim)
}

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        vertices: 1000,
        kind: Kind::Uniform,
        walks: 10,
        edits: 0,
        moves: 0,
        batch: 50,
        trail: Trail::Versions,
        loss: 0.0,
        faults: Vec::new(),
    }
}

fn assert_complete(client: &Client) {
    let report = client.report.expect("the job has ended");
    let walks = u64::from(client.plan.vertices) * u64::from(client.plan.walks);
    assert_eq!((report.finished, report.failed, client.told), (walks, 0, walks), "{report:?}");
    assert_eq!((client.edited, client.moved), (client.plan.edits, client.plan.moves));
}

#[test]
fn a_million_walks_pass_while_edges_change_and_vertices_move() {
    let plan =
        Plan { vertices: 20_000, walks: 50, edits: 100_000, moves: 2_000, batch: 1000, ..plan(1) };
    let (client, sim) = run(&plan);
    assert_complete(&client);
    assert!(client.changed_steps > 500_000, "{} steps over changed rows", client.changed_steps);
    assert_eq!(sim.counters().count("walker_lost"), 0);
}

#[test]
fn each_kind_sees_the_row_of_its_server_and_loses_nothing_by_loss() {
    let node2vec = Kind::Node2Vec(Node2Vec::new(0.5, 2.0).expect("in range"));
    let back = Kind::Weighted;
    for (seed, kind) in (1..).zip([Kind::Uniform, node2vec, back]) {
        let plan = Plan {
            kind,
            walks: 30,
            edits: 4_000,
            moves: 400,
            batch: 100,
            loss: 0.01,
            ..plan(seed)
        };
        let (client, _) = run(&plan);
        assert_complete(&client);
        assert!(client.changed_steps > 5_000, "{}", client.changed_steps);
    }
}

#[test]
fn paths_are_those_in_memory_however_vertices_move_and_messages_get_lost() {
    let node2vec = Kind::Node2Vec(Node2Vec::new(0.25, 4.0).expect("in range"));
    // A step of node2vec takes many messages: a candidate is judged where the walk came from.
    for (seed, kind, loss) in [(1, Kind::Uniform, 0.02), (2, node2vec, 0.001)] {
        let plan =
            Plan { kind, moves: 2_000, batch: 20, loss, trail: Trail::Vertices, ..plan(seed) };
        let (client, _) = run(&plan);
        assert_complete(&client);
    }
}

#[test]
fn a_server_that_begins_anew_is_given_its_part_again() {
    for seed in 1..4 {
        let at = Duration::from_millis;
        let faults = vec![
            (at(4), Fault::Crash(NodeId(1))),
            (at(5_000), Fault::Restart(NodeId(1))),
            (at(5_025), Fault::Crash(NodeId(2))),
            (at(5_100), Fault::Restart(NodeId(2))),
        ];
        let plan = Plan { walks: 40, moves: 500, trail: Trail::Vertices, faults, ..plan(seed) };
        let (client, _) = run(&plan);
        assert_complete(&client);
        assert!(client.silent >= 1 && client.silent == client.back, "{}", client.silent);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let plan = Plan { edits: 500, moves: 100, loss: 0.01, ..plan(5) };
    assert_eq!(run(&plan).1.digest(), run(&plan).1.digest());
}
