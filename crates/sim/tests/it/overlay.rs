//! Bundles over overlays with correct tables: the nodes reached, and the number of messages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, LinkFaults, NodeId, Payload, Rng};
use paceline_proto::overlay::{
    Algorithm, Command, Config, Event, Item, Key, Operation, Oracle, Outcome, Overlay, PingPolicy,
    Space, Style,
};
use paceline_sim::{Codec, Fault, FaultSupport, NetworkConfig, Observer, Reply, Sim, SimConfig};

const NODES: u32 = 200;

struct Run {
    algorithm: Algorithm,
    oracle: Oracle,
    sim: Sim<'static, Overlay>,
    recorded: Recorder,
}

#[derive(Default)]
struct Recorder {
    outcomes: BTreeMap<u64, BTreeMap<Key, Outcome>>,
    delivered: Vec<(NodeId, NodeId, Vec<Key>)>,
}

impl Observer<Overlay> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<Overlay>) {
        match event {
            Event::Outcome { id, outcomes } => {
                let recorded = self.outcomes.entry(*id).or_default();
                for (key, outcome) in outcomes {
                    let twice = recorded.insert(*key, outcome.clone());
                    assert_eq!(twice, None, "request {id}, key {key}");
                }
            }
            Event::Delivered { origin, keys, .. } => {
                self.delivered.push((node, *origin, keys.clone()));
            }
            other => panic!("{node}: {other:?}"),
        }
    }
}

fn config(algorithm: Algorithm) -> Config {
    let config = Config::new(Space::new(3)).with_algorithm(algorithm);
    config.with_upkeep_every(None).with_ping(PingPolicy::Off)
}

impl Run {
    fn new(config: Config, codec: Codec) -> Run {
        let (algorithm, space) = (config.algorithm(), config.space());
        let config = config.build().expect("within the ranges");
        let oracle = Oracle::new(space, (0..NODES).map(NodeId::from));
        let ring = oracle.clone();
        let mut sim_config = SimConfig::new(NODES as usize, 7);
        sim_config.codec = codec;
        sim_config.faults = FaultSupport::Any;
        sim_config.network = NetworkConfig {
            link: LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() },
            ..NetworkConfig::default()
        };
        let shared = config.clone();
        let sim = Sim::new(sim_config, Arc::new(config), move |node| {
            let mut router = shared.router(node);
            router.fill(ring.ring());
            Overlay::with_router(&shared, node, router)
        });
        Run { algorithm, oracle, sim, recorded: Recorder::default() }
    }

    fn request(&mut self, node: u32, id: u64, operation: Operation, style: Style) {
        let command = Command::Request { id, operation, style };
        self.sim.command_at(self.sim.now(), NodeId::from(node), command);
    }

    fn finish(&mut self) {
        self.sim.run_until(Instant::MAX, &mut self.recorded);
        for node in (0..NODES).map(NodeId::from) {
            assert_eq!(self.sim.node(node).in_flight(), 0, "{node}");
            assert_eq!(self.sim.node(node).requests_open(), 0, "{node}");
        }
    }

    fn count(&self, name: &str) -> u64 {
        self.sim.counters().count(&format!("overlay_{name}"))
    }
}

fn keys(count: u32, salt: u32) -> Vec<Key> {
    (0..count).map(|n| Key::of(&[n.to_be_bytes(), salt.to_be_bytes()].concat())).collect()
}

fn everything_is_reached(algorithm: Algorithm) {
    for style in [Style::Recursive, Style::Iterative] {
        for codec in [Codec::Typed, Codec::CheckWire] {
            let mut run = Run::new(config(algorithm), codec);
            let mut rng = Rng::new(1, 1);
            let keys = keys(400, 0);
            let node = |rng: &mut Rng| rng.below(NODES);
            for (id, bundle) in (0..).zip(keys.chunks(10)) {
                let bundle = bundle.to_vec();
                run.request(node(&mut rng), id, Operation::Locate(bundle), style);
            }
            run.finish();
            for (id, bundle) in (0..).zip(keys.chunks(10)) {
                let put = bundle.iter().map(|&key| Item {
                    key,
                    value: Payload::from(key.to_bytes().to_vec()),
                    lifetime: Duration::from_secs(60),
                });
                run.request(node(&mut rng), 100 + id, Operation::Put(put.collect()), style);
            }
            run.finish();
            for (id, bundle) in (0..).zip(keys.chunks(10)) {
                run.request(node(&mut rng), 200 + id, Operation::Get(bundle.to_vec()), style);
            }
            let absent = Key::of(b"never put");
            run.request(0, 300, Operation::Get(vec![absent]), style);
            run.finish();
            for (id, bundle) in (0..).zip(keys.chunks(10)) {
                for key in bundle {
                    let located = &run.recorded.outcomes[&id][key];
                    let owner =
                        run.oracle.responsible(run.algorithm, *key).expect("there are nodes");
                    assert_eq!(*located, Outcome::Located(owner), "{} {style:?}", algorithm);
                    assert_eq!(
                        run.recorded.outcomes[&(100 + id)][key],
                        Outcome::Stored { copies: 1 }
                    );
                    match &run.recorded.outcomes[&(200 + id)][key] {
                        Outcome::Found { version, value } => {
                            assert_eq!(*value, Payload::from(key.to_bytes().to_vec()));
                            assert_eq!(version.count, 1);
                        }
                        other => panic!("{key}: {other:?}"),
                    }
                }
            }
            assert_eq!(run.recorded.outcomes[&300][&absent], Outcome::Absent);
            for counter in ["no_progress", "unanswered", "duplicate", "bad_answer", "stale"] {
                assert_eq!(run.count(counter), 0, "{} {style:?} {counter}", algorithm);
            }
        }
    }
}

#[test]
fn every_key_of_every_bundle_is_reached_in_both_styles() {
    Algorithm::ALL.into_iter().for_each(everything_is_reached);
}

/// Messages, without those of writing, for keys in bundles of this many.
fn messages(algorithm: Algorithm, keys: &[Key], bundle: usize, style: Style) -> u64 {
    let mut run = Run::new(config(algorithm), Codec::Typed);
    for (id, keys) in (0..).zip(keys.chunks(bundle)) {
        run.request(id as u32 % NODES, id, Operation::Locate(keys.to_vec()), style);
    }
    run.finish();
    let names = ["route", "ack", "result", "find", "found"];
    names.iter().map(|name| run.count(name)).sum()
}

fn bundles_save_messages(algorithm: Algorithm) {
    let mut sorted = keys(500, 1);
    let random = sorted.clone();
    sorted.sort_unstable();
    for style in [Style::Recursive, Style::Iterative] {
        // Each bundle's keys from the node that asks for the bundle.
        let serial = |keys: &[Key]| {
            let mut run = Run::new(config(algorithm), Codec::Typed);
            for (number, key) in (0..).zip(keys) {
                let node = (number / 10) as u32 % NODES;
                run.request(node, number, Operation::Locate(vec![*key]), style);
            }
            run.finish();
            let hops = run.count("hops");
            let names = ["route", "ack", "result", "find", "found"];
            let messages: u64 = names.iter().map(|name| run.count(name)).sum();
            // A bundle of one key is a message: there and back each hop, and a result.
            let results = if style == Style::Recursive { run.count("result") } else { 0 };
            assert_eq!(messages, 2 * hops + results, "{} {style:?}", algorithm);
            messages
        };
        let (random_serial, sorted_serial) = (serial(&random), serial(&sorted));
        let (random, sorted) =
            (messages(algorithm, &random, 10, style), messages(algorithm, &sorted, 10, style));
        assert!(random < random_serial, "{} {style:?}: {random} {random_serial}", algorithm);
        assert!(2 * sorted < sorted_serial, "{} {style:?}: {sorted} {sorted_serial}", algorithm);
    }
}

#[test]
fn bundles_take_fewer_messages_than_their_keys_one_by_one() {
    Algorithm::ALL.into_iter().for_each(bundles_save_messages);
}

#[test]
fn an_idle_node_is_small() {
    let config = config(Algorithm::Chord).build().expect("within the ranges");
    let node = Overlay::with_router(&config, NodeId(1), config.router(NodeId(1)));
    assert_eq!(node.heap_bytes(), 0);
    let bytes = size_of::<Overlay>();
    assert!(bytes <= 144, "{bytes} bytes beside the table");
}

#[test]
fn a_get_that_asks_several_nodes_at_once_does_not_wait_for_one_that_is_gone() {
    // Two nodes named on the way are gone; tables do not know it yet.
    let get = |parallel: u8| {
        let mut config = config(Algorithm::Kademlia).with_parallel(parallel);
        config = config.with_ack_after(Some(Duration::from_millis(500)));
        let mut run = Run::new(config, Codec::CheckWire);
        let keys = keys(60, 9);
        for (id, &key) in (0..).zip(&keys) {
            run.request(1, id, Operation::Locate(vec![key]), Style::Iterative);
        }
        run.finish();
        let asked = run.count("find");
        let faults = (2..32).map(NodeId);
        let begin = run.sim.now();
        for node in faults.clone() {
            run.sim.fault_at(begin, Fault::Crash(node));
        }
        let gone = |key: &Key| {
            let owner = run.oracle.responsible(run.algorithm, *key).expect("there are nodes");
            faults.clone().any(|node| node == owner)
        };
        let live: Vec<Key> = keys.iter().copied().filter(|key| !gone(key)).collect();
        for (id, &key) in (100..).zip(&live) {
            run.request(1, id, Operation::Locate(vec![key]), Style::Iterative);
        }
        let until = begin + Duration::from_millis(400);
        run.sim.run_until(until, &mut run.recorded);
        let recorded =
            (100..).zip(&live).filter(|(id, _)| run.recorded.outcomes.contains_key(id)).count();
        run.sim.run_until(begin + Duration::from_secs(60), &mut run.recorded);
        for (id, key) in (100..).zip(&live) {
            let owner = run.oracle.responsible(run.algorithm, *key).expect("there are nodes");
            assert_eq!(run.recorded.outcomes[&id][key], Outcome::Located(owner), "{parallel}");
        }
        (asked, recorded, live.len())
    };
    let (one, three) = (get(1), get(3));
    assert!(three.0 > one.0, "three are asked where one was: {one:?}, {three:?}");
    assert!(one.1 < one.2, "a request waits for a node that is gone: {one:?}");
    assert!(three.1 > one.1, "others answer meanwhile: {one:?}, {three:?}");
}
