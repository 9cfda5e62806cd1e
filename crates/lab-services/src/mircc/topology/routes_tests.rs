use paceline_lab::scenario::Rate;
use paceline_proto::core::Rng;

use super::super::{Abilene, Link, Random, Slingshot};
use super::*;

const EACH: [Routing; 3] = [Routing::Single, Routing::Multi, Routing::Alternates];

/// A network of links `a b milliseconds`, with the producers' nodes and the consumers'.
fn graph(links: &[(&str, &str, u64)], producers: &[&str], consumers: &[&str]) -> Graph {
    let mut graph = Graph::new();
    for &(a, b, delay_ms) in links {
        let ends = [a, b].map(|name| graph.node(name).or_else(|_| graph.add_node(name)).unwrap());
        let rate = Rate::from_bits_per_second(1_000_000);
        graph.add_link(Link::new(ends, rate, Duration::from_millis(delay_ms))).unwrap();
    }
    for node in producers {
        graph.add_producer(*node, node, "/p").unwrap();
    }
    for node in consumers {
        graph.add_consumer(*node, node, "/p").unwrap();
    }
    graph
}

fn hops(graph: &Graph, routing: Routing, node: &str) -> String {
    let routes = Routes::new(graph, "/p", routing).unwrap();
    let hops = routes.next_hops(graph.node(node).unwrap()).iter();
    hops.map(|hop| graph.nodes()[hop.node].as_str()).collect::<Vec<_>>().join(" ")
}

/// Each path as the names of its nodes.
fn paths(graph: &Graph, routing: Routing, from: &str, paths_max: usize) -> Vec<String> {
    let routes = Routes::new(graph, "/p", routing).unwrap();
    let paths = routes.paths(graph, graph.node(from).unwrap(), paths_max);
    let name = |&node: &usize| graph.nodes()[node].as_str();
    paths.iter().map(|path| path.nodes.iter().map(name).collect::<Vec<_>>().join("-")).collect()
}

#[test]
fn single_takes_the_least_delay_and_of_equal_ones_the_first_name() {
    let links =
        [("a", "x", 2), ("a", "w", 2), ("a", "v", 1), ("x", "p", 2), ("w", "p", 2), ("v", "p", 5)];
    let graph = graph(&links, &["p"], &["a"]);
    assert_eq!(hops(&graph, Routing::Single, "a"), "w");
    assert_eq!(hops(&graph, Routing::Single, "p"), "");
    // v is farther from p than a is; its own way does not lead back.
    assert_eq!(hops(&graph, Routing::Multi, "a"), "w x");
    assert_eq!(hops(&graph, Routing::Alternates, "a"), "w x v");
}

#[test]
fn a_short_way_is_preferred_to_one_of_equal_delay_with_more_links() {
    let graph =
        graph(&[("a", "b", 0), ("b", "c", 0), ("a", "c", 0), ("c", "p", 1)], &["p"], &["a"]);
    assert_eq!(hops(&graph, Routing::Single, "a"), "c");
    assert_eq!(hops(&graph, Routing::Multi, "b"), "c");
}

#[test]
fn both_branches_are_used_although_one_is_longer_and_has_a_router_on_it() {
    // For x the producer behind the fork is nearer than its own one: the link is wanted both ways.
    let links = [("e1", "f2", 5), ("f2", "e4", 1), ("f2", "x", 5), ("x", "e3", 20)];
    let graph = graph(&links, &["e3", "e4"], &["e1"]);
    assert_eq!(hops(&graph, Routing::Single, "x"), "f2");
    assert_eq!(hops(&graph, Routing::Multi, "f2"), "e4 x");
    assert_eq!(hops(&graph, Routing::Multi, "x"), "e3");
    assert_eq!(paths(&graph, Routing::Multi, "e1", 16), ["e1-f2-e4", "e1-f2-x-e3"]);
    // Both have the other as an alternate. What an Interest does with that ends by its nonce.
    assert_eq!(hops(&graph, Routing::Alternates, "x"), "f2 e3");
    assert_eq!(paths(&graph, Routing::Alternates, "e1", 16), ["e1-f2-e4", "e1-f2-x-e3"]);
}

#[test]
fn a_path_lists_the_links_that_data_takes_from_the_consumer_on() {
    let graph = Slingshot::default().build().unwrap();
    let routes = Routes::new(&graph, "/one", Routing::Multi).unwrap();
    let found = routes.paths(&graph, graph.node("E1").unwrap(), 16);
    assert_eq!(found.len(), 2);
    for path in found {
        assert_eq!(path.delay, Duration::from_millis(10));
        let names = |node: usize| graph.nodes()[node].as_str();
        let ends: Vec<_> = path
            .ports
            .iter()
            .map(|&port| (names(graph.sender(port)), names(graph.receiver(port))))
            .collect();
        let producer = names(path.nodes[2]);
        assert_eq!(ends, [("F2", "E1"), (producer, "F2")]);
    }
    let unserved = Routes::new(&graph, "/three", Routing::Multi).unwrap_err();
    assert_eq!(unserved.to_string(), "no producer serves `/three`; served are /one, /two");
}

#[test]
fn paths_come_by_delay_and_at_most_so_many() {
    // A ladder of 12 rungs: 4,096 ways and more, many of them equal.
    let mut links = Vec::new();
    let name = |side: char, rung: usize| format!("{side}{rung:02}");
    for rung in 0..12 {
        for (from, to) in [('l', 'l'), ('l', 'r'), ('r', 'l'), ('r', 'r')] {
            links.push((name(from, rung), name(to, rung + 1), 1 + u64::from(from != to)));
        }
    }
    let borrowed: Vec<(&str, &str, u64)> =
        links.iter().map(|(a, b, delay)| (a.as_str(), b.as_str(), *delay)).collect();
    let graph = graph(&borrowed, &["l12"], &["l00"]);
    for routing in [Routing::Multi, Routing::Alternates] {
        let routes = Routes::new(&graph, "/p", routing).unwrap();
        let from = graph.node("l00").unwrap();
        let found = routes.paths(&graph, from, 16);
        assert_eq!(found.len(), 16);
        assert_eq!(found[0].delay, Duration::from_millis(12));
        assert!(found.is_sorted_by_key(|path| path.delay));
        let more = routes.paths(&graph, from, 1_000);
        assert_eq!(found, more[..16]);
        let mut nodes: Vec<_> = more.iter().map(|path| &path.nodes).collect();
        nodes.sort();
        nodes.dedup();
        assert_eq!(nodes.len(), 1_000, "no path is listed twice");
        assert_eq!(routes.paths(&graph, from, 0), []);
    }
}

/// Random networks whose prefix is served at several nodes.
fn anycast(seed: u64) -> Graph {
    let random = Random { seed, ..Random::default() }.build().unwrap();
    let mut graph = Graph::new();
    for name in random.nodes() {
        graph.add_node(name).unwrap();
    }
    for link in random.links() {
        graph.add_link(link.clone()).unwrap();
    }
    let mut rng = Rng::new(seed, 7);
    let nodes = graph.nodes().len() as u32;
    for number in 0..=rng.below(3) {
        let node = graph.nodes()[rng.below(nodes) as usize].clone();
        graph.add_producer(format!("p{number}"), &node, "/p").unwrap();
    }
    for number in 0..rng.below(4) {
        let node = graph.nodes()[rng.below(nodes) as usize].clone();
        graph.add_consumer(format!("c{number}"), &node, "/p").unwrap();
    }
    graph
}

#[test]
fn next_hops_lead_every_node_to_a_producer_and_never_in_a_circle() {
    for seed in 0..1_000 {
        let graph = anycast(seed);
        for routing in EACH {
            let routes = Routes::new(&graph, "/p", routing).unwrap();
            for node in 0..graph.nodes().len() {
                let hops = routes.next_hops(node);
                assert_eq!(hops.is_empty(), routes.is_producer(node), "seed {seed}, {routing:?}");
                for hop in hops {
                    assert_eq!(graph.port(node, hop.node), Some(hop.port));
                    let back = reaches(&routes.next_hops, hop.node, node);
                    assert!(!back || routing == Routing::Alternates, "seed {seed}, {routing:?}");
                }
                if !hops.is_empty() {
                    let found = routes.paths(&graph, node, 4);
                    assert!(!found.is_empty(), "seed {seed}, {routing:?}");
                    assert!(routing != Routing::Single || found.len() == 1);
                    for path in found {
                        let last = path.nodes[path.nodes.len() - 1];
                        assert!(routes.is_producer(last) && path.nodes[0] == node);
                    }
                }
            }
        }
    }
}

#[test]
fn with_one_producer_multi_is_every_closer_neighbour() {
    for seed in 0..300 {
        let graph = Random { seed, ..Random::default() }.build().unwrap();
        for producer in graph.producers() {
            let far = distances(&graph, &[producer.node]);
            let routes = Routes::new(&graph, &producer.prefix, Routing::Multi).unwrap();
            let alternates = Routes::new(&graph, &producer.prefix, Routing::Alternates).unwrap();
            for node in 0..graph.nodes().len() {
                let mut hops: Vec<usize> =
                    routes.next_hops(node).iter().map(|hop| hop.node).collect();
                hops.sort_unstable();
                let neighbours = graph.neighbours(node).iter().map(|next| next.node);
                let mut closer: Vec<usize> =
                    neighbours.filter(|&next| far[next] < far[node]).collect();
                closer.sort_unstable();
                assert_eq!(hops, closer, "seed {seed}");
                let all = alternates.next_hops(node);
                assert!(routes.next_hops(node).iter().all(|hop| all.contains(hop)), "seed {seed}");
            }
        }
    }
}

#[test]
fn the_least_way_is_the_same_in_every_routing() {
    for graph in (0..200).map(anycast).chain([Abilene::default().build().unwrap()]) {
        for consumer in graph.consumers() {
            let least = EACH.map(|routing| {
                let routes = Routes::new(&graph, &consumer.prefix, routing).unwrap();
                routes.paths(&graph, consumer.node, 1)[0].delay
            });
            assert!(least[0] == least[1] && least[0] == least[2], "{least:?}");
        }
    }
}

#[test]
fn several_producers_are_reached_by_more_paths_than_the_nearest_one() {
    // Against the simplest rule without loops: whatever is closer to the nearest producer.
    let (mut any, mut nearest) = (0, 0);
    let (mut any_producers, mut nearest_producers) = (0, 0);
    for graph in (0..500).map(anycast) {
        let multi = Routes::new(&graph, "/p", Routing::Multi).unwrap();
        let near = distances(&graph, &graph.producer_nodes("/p").unwrap());
        let closer = |node: usize| -> Vec<Neighbour> {
            let neighbours = graph.neighbours(node).iter().copied();
            neighbours.filter(|hop| near[hop.node] < near[node]).collect()
        };
        let next_hops = (0..near.len()).map(closer).collect();
        let simple = Routes { next_hops, is_producer: multi.is_producer.clone() };
        for consumer in graph.consumers() {
            let count = |routes: &Routes| {
                let found = routes.paths(&graph, consumer.node, 64);
                let mut ends: Vec<usize> =
                    found.iter().map(|path| path.nodes[path.nodes.len() - 1]).collect();
                ends.sort_unstable();
                ends.dedup();
                (found.len(), ends.len())
            };
            let (multi, simple) = (count(&multi), count(&simple));
            any += multi.0;
            any_producers += multi.1;
            nearest += simple.0;
            nearest_producers += simple.1;
        }
    }
    assert!(any * 10 > nearest * 11, "{any} paths, {nearest} by the nearest");
    assert!(any_producers > nearest_producers, "{any_producers}, {nearest_producers}");
}
