//! A thousand clients that join, read and write, or walk, and vanish, under new ids or in new
//! incarnations. Afterwards the hosts' tables and state are as before, values that hosts wrote are
//! found, and walks take the same paths.
//!
//! Runs are slow, so only seeds that are multiples of ten are run. `PACELINE_TEST_SEEDS` is the
//! number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the first one.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use overlay_swarm::{Scenario, algorithm_of, at};
use paceline_check::checkers::overlay::Host;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{
    Context, Instant, LinkFaults, MembershipCommand, NodeId, Payload, PeerState, Protocol, Rng,
};
use paceline_proto::graphshare::{GraphCommand, GraphEvent, Supply};
use paceline_proto::overlay::{Command, Event, Item, Key, Operation, Outcome, Overlay, Style};
use paceline_proto::walk::{
    self, Graph, Job, JobId, Kind, Length, Owners, Server, Sources, Trail, Vertex,
};
use paceline_sim::{Codec, Fault, FaultSupport, Observer, Reply, Sim, SimConfig};

const CLIENTS: u32 = 1000;
/// Clients that come before what hosts hold is noted for the first time.
const FIRST_CLIENTS: u32 = 100;
/// After so long nothing of a client is under way, and its address is forgotten.
const QUIET: Duration = Duration::from_secs(45);
/// How often a client comes.
const COMES_EVERY: Duration = Duration::from_millis(10);
/// Longest visit.
const STAYS_MAX: Duration = Duration::from_millis(300);

/// Only some of the seeds are run.
fn is_run(seed: u64) -> bool {
    seed.is_multiple_of(10)
}

/// Who comes when.
struct Visits {
    hosts: u32,
    /// Places of clients. If there are fewer than clients, a place is taken time and again.
    places: u32,
    rng: Rng,
}

impl Visits {
    fn draw(seed: u64, hosts: u32) -> Visits {
        let places = if seed.is_multiple_of(20) { 50 } else { FIRST_CLIENTS + CLIENTS };
        Visits { hosts, places, rng: Rng::new(seed, 0x9e57) }
    }

    fn nodes(&self) -> usize {
        (self.hosts + self.places) as usize
    }

    /// Lets clients come from `begin` on; each is sent commands. When the last is gone.
    fn come<P: Protocol>(
        &mut self,
        sim: &mut Sim<'_, P>,
        clients: std::ops::Range<u32>,
        mut commands: impl FnMut(u32, NodeId, &mut Rng) -> Vec<P::Command>,
    ) -> Instant {
        let mut when = sim.now();
        for client in clients {
            when += COMES_EVERY;
            let node = NodeId::from(self.hosts + client % self.places);
            if client >= self.places {
                sim.fault_at(when, Fault::Restart(node));
            }
            if self.rng.chance(0.3) {
                let (sends, tells) = (self.rng.below(4) as usize, self.rng.chance(0.5));
                sim.fault_at(when, Fault::CrashAmid { node, sends, tells });
            }
            for command in commands(client, node, &mut self.rng) {
                sim.command_at(when, node, command);
            }
            let stays = STAYS_MAX.mul_f64(self.rng.unit() * self.rng.unit());
            sim.fault_at(when + stays, Fault::Crash(node));
        }
        when + STAYS_MAX
    }
}

/// A client's driver finds a host as soon as its application wants to visit.
struct Finds(u32);

impl Tamper<Overlay> for Finds {
    fn commands(
        &mut self,
        node: &mut Overlay,
        cx: &mut Context<'_, Overlay>,
        command: &mut Command,
    ) -> bool {
        if let Command::Visit { .. } = command {
            node.handle_command(cx, command.clone());
            let host = NodeId::from(cx.rng.below(self.0));
            node.handle_peer(cx, host, PeerState::Up { incarnation: 0 });
            return false;
        }
        true
    }
}

/// What a host of an overlay holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    contacts: Vec<NodeId>,
    addresses: usize,
    records: usize,
    heap_bytes: usize,
    in_flight: usize,
    requests: usize,
}

impl Held {
    fn of<P: Host>(node: &P) -> Held {
        let overlay = node.overlay();
        let mut contacts = Vec::new();
        paceline_proto::overlay::Router::contacts(overlay.router(), &mut contacts);
        contacts.sort();
        contacts.dedup();
        Held {
            contacts,
            addresses: overlay.addresses().count(),
            records: overlay.store().map_or(0, |store| store.len()),
            heap_bytes: overlay.heap_bytes(),
            in_flight: overlay.in_flight(),
            requests: overlay.requests_open(),
        }
    }
}

/// Room for what is under way at a time. It grows with how much is at once, and not with how many
/// clients have come.
const HEAP_BYTES_MAX: usize = 16 << 10;
/// Most addresses that a host keeps.
const ADDRESSES_MAX: usize = 64;

fn host_key(node: u32, number: u32) -> Key {
    Key::of(&[&b"host"[..], &node.to_be_bytes(), &number.to_be_bytes()].concat())
}

fn put(keys: impl Iterator<Item = Key>, lifetime: Duration) -> Operation {
    let item = |key: Key| {
        let value = Payload::from(key.to_bytes().repeat(30));
        Item { key, value, lifetime }
    };
    Operation::Put(keys.map(item).collect())
}

/// The events that applications got.
#[derive(Default)]
struct Recorder {
    hosts: u32,
    joined: u64,
    outcomes: u64,
    of_hosts: BTreeMap<(NodeId, u64), BTreeMap<Key, Outcome>>,
    addresses_max: usize,
}

impl<P: Host> Observer<P> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        match event {
            Event::Joined if node >= NodeId::from(self.hosts) => self.joined += 1,
            Event::Outcome { outcomes, .. } if node >= NodeId::from(self.hosts) => {
                self.outcomes += outcomes.len() as u64;
            }
            Event::Outcome { id, outcomes } => {
                self.of_hosts.entry((node, *id)).or_default().extend(outcomes.iter().cloned());
            }
            _ => {}
        }
    }

    fn after_call(&mut self, _: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if node < NodeId::from(self.hosts) {
            let addresses = protocol.overlay().addresses().count();
            self.addresses_max = self.addresses_max.max(addresses);
        }
    }
}

fn overlay_run(seed: u64) -> Result<[u64; 4], String> {
    let mut rng = Rng::new(seed, 0x9057);
    let hosts = 4 + rng.below(4);
    let mut scenario = Scenario::new(seed, algorithm_of(seed / 10), hosts);
    let config = scenario.config.with_copies(1 + rng.below(3) as usize);
    scenario.config = config.with_addresses_max(ADDRESSES_MAX);
    let shared = scenario.config.clone().build().map_err(|error| error.to_string())?;
    let mut visits = Visits::draw(seed, hosts);
    let mut config = SimConfig::new(visits.nodes(), seed);
    config.network = scenario.network.clone();
    config.codec = if rng.chance(0.5) { Codec::CheckWire } else { Codec::Typed };
    config.faults = FaultSupport::Any;
    let overlay = shared.clone();
    let make = move |node| Wrapped::new(Overlay::new(&overlay, node), Some(Finds(hosts)));
    let mut sim = Sim::new(config, Arc::new(shared), make);
    for (when, act) in scenario.acts {
        let overlay_swarm::Act::Command(node, mut command) = act else { continue };
        if let Command::Membership(
            MembershipCommand::Bootstrap { address } | MembershipCommand::Join { address, .. },
        ) = &mut command
        {
            *address = Bytes::from(format!("host {node}"));
        }
        sim.command_at(when, node, command);
    }
    let mut recorded = Recorder { hosts, ..Recorder::default() };
    sim.run_until(at(5_000), &mut recorded);
    let request = |id, operation, style| Command::Request { id, operation, style };
    let keys: Vec<Key> =
        (0..hosts).flat_map(|node| (0..6).map(move |number| host_key(node, number))).collect();
    for node in 0..hosts {
        let operation = put((0..6).map(|number| host_key(node, number)), Duration::from_secs(600));
        sim.command_at(at(5_000), NodeId::from(node), request(1, operation, Style::Recursive));
    }
    sim.run_until(at(8_000), &mut recorded);
    let client = |client: u32, _: NodeId, rng: &mut Rng| {
        let mut commands =
            vec![Command::Visit { address: Bytes::from(format!("client {client}")) }];
        for id in 0..1 + u64::from(rng.below(3)) {
            let own = (0..4).map(|number| Key::of(&[client.to_be_bytes(), [number; 4]].concat()));
            let operation = match rng.below(4) {
                0 => put(own, Duration::from_secs(2)),
                1 => Operation::Locate(keys.clone()),
                _ => Operation::Get(keys.clone()),
            };
            let style = if rng.chance(0.5) { Style::Recursive } else { Style::Iterative };
            commands.push(request(id, operation, style));
        }
        commands
    };
    let held =
        |sim: &Sim<'_, _>| (0..hosts).map(|it| Held::of(sim.node(NodeId::from(it)))).collect();
    // The least that is under way at a time: something always is, for the table.
    let quiet = |sim: &mut Sim<'static, _>, recorded: &mut Recorder| -> Vec<Held> {
        let mut least: Vec<Held> = held(sim);
        for _ in 0..100 {
            sim.run_until(sim.now() + Duration::from_millis(20), recorded);
            for (least, now) in least.iter_mut().zip::<Vec<Held>>(held(sim)) {
                let in_flight = least.in_flight.min(now.in_flight);
                *least = Held { in_flight, ..now };
            }
        }
        least
    };
    let gone_at = visits.come(&mut sim, 0..FIRST_CLIENTS, client);
    sim.run_until(gone_at + QUIET, &mut recorded);
    let before = quiet(&mut sim, &mut recorded);
    let gone_at = visits.come(&mut sim, FIRST_CLIENTS..FIRST_CLIENTS + CLIENTS, client);
    sim.run_until(gone_at + QUIET, &mut recorded);
    let after = quiet(&mut sim, &mut recorded);
    for (node, (before, after)) in before.iter().zip(&after).enumerate() {
        let is_alike = Held { heap_bytes: before.heap_bytes, ..after.clone() } == *before;
        if !is_alike || after.heap_bytes > HEAP_BYTES_MAX {
            return Err(format!("host {node} held {before:?}, now {after:?}"));
        }
    }
    if recorded.addresses_max > ADDRESSES_MAX {
        return Err(format!("a host kept {} addresses", recorded.addresses_max));
    }
    for node in 0..hosts {
        let stored = recorded.of_hosts.remove(&(NodeId::from(node), 1)).unwrap_or_default();
        if stored.len() != 6 || !stored.values().all(|it| matches!(it, Outcome::Stored { .. })) {
            return Err(format!("host {node} wrote {stored:?}"));
        }
        let command = request(2, Operation::Get(keys.clone()), Style::Recursive);
        sim.command_at(sim.now(), NodeId::from(node), command);
    }
    sim.run_until(sim.now() + Duration::from_secs(5), &mut recorded);
    for node in 0..hosts {
        let found = recorded.of_hosts.remove(&(NodeId::from(node), 2)).unwrap_or_default();
        for &key in &keys {
            let outcome = found.get(&key);
            let right = |value: &Payload| value.to_bytes()[..] == key.to_bytes().repeat(30);
            if !matches!(outcome, Some(Outcome::Found { value, .. }) if right(value)) {
                return Err(format!("host {node} read {key}: {outcome:?}"));
            }
        }
    }
    let amid = sim.counters().count(paceline_check::amid::CRASHED_AMID);
    Ok([recorded.joined, recorded.outcomes, amid, recorded.addresses_max as u64])
}

#[test]
fn overlay_hosts_hold_after_a_thousand_clients_what_they_held_before() {
    let run = |seed| {
        if !is_run(seed) {
            return Ok([0; 5]);
        }
        let run = || overlay_run(seed);
        let [joined, outcomes, amid, addresses] = seeds::caught(run)
            .map_err(|what| format!("{what}\nreplay: {}", seeds::replay("client_seeds", seed)))?;
        Ok([1, joined, outcomes, amid, addresses])
    };
    let (_, [runs, joined, outcomes, amid, addresses]) = seeds::run_all(run);
    println!(
        "{runs} runs: {joined} clients came, {outcomes} outcomes, {amid} went in the midst of a \
         call, {addresses} addresses kept"
    );
    // Some crash before they learn that they have joined.
    assert!(joined * 10 > runs * u64::from(CLIENTS) * 7, "{joined} clients");
    assert!(outcomes > joined && amid > 50 * runs, "the clients did nothing");
    assert!(addresses > runs * ADDRESSES_MAX as u64 / 2, "hosts learned the address of no client");
}

const SERVERS: u32 = 3;
const VERTICES: u32 = 60;
/// What a server may keep for a client: its name, and room for walkers of it.
const HOME_BYTES_MAX: usize = 1024;

fn supply() -> Supply {
    let mut rng = Rng::new(5, 9);
    let edges: Vec<_> = (0..VERTICES * 5).map(|edge| (edge / 5, rng.below(VERTICES))).collect();
    let owners = (0..VERTICES).map(|vertex| (vertex % SERVERS) as u16).collect();
    let owners = Owners::new((0..SERVERS).map(NodeId::from).collect(), owners);
    Supply {
        id: 77,
        graph: Arc::new(Graph::from_edges(VERTICES, edges).expect("edges lead to vertices")),
        weights: None,
        owners: Arc::new(owners.expect("each vertex has a server")),
        addresses: Vec::new(),
        replaces: false,
        pass: None,
    }
}

fn job(id: u64, seed: u64, sources: u32, walks: u32, steps: u32) -> walk::Command {
    walk::Command::Run(Box::new(Job {
        id: JobId(id),
        seed,
        kind: Kind::Uniform,
        length: Length::Steps(steps),
        sources: Sources::Range(0..sources),
        walks,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }))
}

/// The honest client.
const HONEST_CLIENT: NodeId = NodeId(SERVERS as u64);

/// The events that clients got.
#[derive(Default)]
struct Walked {
    paths: BTreeMap<u64, Vec<Vertex>>,
    ended: u64,
    supplied: u64,
    of_clients: u64,
}

impl Observer<Server> for Walked {
    fn on_event(
        &mut self,
        _: Instant,
        node: NodeId,
        event: &walk::Event,
        reply: &mut Reply<Server>,
    ) {
        match event {
            walk::Event::Graph(GraphEvent::Supplied(_)) if node != HONEST_CLIENT => {
                self.supplied += 1
            }
            walk::Event::Walks(job, walks) => {
                reply.command(Duration::ZERO, node, walk::Command::Consumed(*job, walks.len()));
                if node == HONEST_CLIENT {
                    self.paths.extend(walks.iter().map(|walk| (walk.walk, walk.path.clone())));
                } else {
                    self.of_clients += walks.len() as u64;
                }
            }
            walk::Event::Ended(..) if node == HONEST_CLIENT => self.ended += 1,
            _ => {}
        }
    }
}

fn walk_run(seed: u64) -> Result<[u64; 3], String> {
    let mut visits = Visits::draw(seed, SERVERS + 1);
    let mut config = SimConfig::new(visits.nodes(), seed);
    config.network.link = LinkFaults { delay: Duration::from_micros(500), ..LinkFaults::default() };
    config.faults = FaultSupport::Any;
    let mut sim = Sim::new(config, Arc::new(()), |node| {
        let server = match node < HONEST_CLIENT {
            true => Server::awaiting(walk::Config::default(), node),
            false => Server::client(walk::Config::default(), node),
        };
        server.expect("within the ranges")
    });
    let mut walked = Walked::default();
    sim.command_at(
        Instant::ZERO,
        HONEST_CLIENT,
        walk::Command::Graph(GraphCommand::Supply(Box::new(supply()))),
    );
    let run_job = |sim: &mut Sim<'_, Server>, walked: &mut Walked, id: u64| {
        walked.paths.clear();
        sim.command_at(
            sim.now() + Duration::from_secs(1),
            HONEST_CLIENT,
            job(id, 7, VERTICES, 5, 40),
        );
        sim.run_until(sim.now() + Duration::from_secs(5), walked);
        (walked.ended == id).then(|| walked.paths.clone()).ok_or(format!("job {id} has not ended"))
    };
    let paths = run_job(&mut sim, &mut walked, 1)?;
    let client = |client: u32, _: NodeId, rng: &mut Rng| {
        let steps = [10, 50, 400][rng.below(3) as usize];
        let supply = walk::Command::Graph(GraphCommand::Supply(Box::new(supply())));
        vec![supply, job(u64::from(client), rng.next_u64(), 1 + rng.below(8), 1, steps)]
    };
    let gone_at = visits.come(&mut sim, 0..FIRST_CLIENTS, client);
    sim.run_until(gone_at + QUIET, &mut walked);
    run_job(&mut sim, &mut walked, 2)?;
    let held = |sim: &Sim<'_, Server>| -> Vec<(usize, usize, usize)> {
        let servers = (0..SERVERS).map(|it| sim.node(NodeId::from(it)));
        servers.map(|it| (it.held(), it.leaving().count(), it.memory_bytes())).collect()
    };
    let before = held(&sim);
    let gone_at = visits.come(&mut sim, FIRST_CLIENTS..FIRST_CLIENTS + CLIENTS, client);
    sim.run_until(gone_at + QUIET, &mut walked);
    if run_job(&mut sim, &mut walked, 3)? != paths {
        return Err("walks went elsewhere".into());
    }
    let after = held(&sim);
    let homes = visits.places.min(CLIENTS) as usize * HOME_BYTES_MAX;
    for (server, (before, after)) in before.iter().zip(&after).enumerate() {
        if (after.0, after.1) != (0, 0) || after.2 > before.2 + homes {
            return Err(format!("server {server} held {before:?}, now {after:?}"));
        }
    }
    let amid = sim.counters().count(paceline_check::amid::CRASHED_AMID);
    Ok([walked.supplied, walked.of_clients, amid])
}

#[test]
fn servers_of_walks_hold_after_a_thousand_clients_what_they_held_before() {
    let run = |seed| {
        if !is_run(seed) {
            return Ok([0; 4]);
        }
        let [supplied, walks, amid] = seeds::caught(|| walk_run(seed))
            .map_err(|what| format!("{what}\nreplay: {}", seeds::replay("client_seeds", seed)))?;
        Ok([1, supplied, walks, amid])
    };
    let (_, [runs, supplied, walks, amid]) = seeds::run_all(run);
    println!(
        "{runs} runs: {supplied} clients had the graph, {walks} walks told, {amid} went in the \
         midst of a call"
    );
    assert!(supplied > 500 * runs && walks > 1000 * runs, "the clients did nothing");
    assert!(amid > 50 * runs, "{amid} went in the midst of a call");
}
