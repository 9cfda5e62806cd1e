use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::graph::{Graph, GraphError, Neighbour, Port};

/// How many next hops a node has towards a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// One: the neighbour on the path of least delay.
    Single,
    /// Each neighbour that is closer, see [`Routes`]. No loops.
    Multi,
    /// Each neighbour whose own way does not lead back, see [`Routes`]. More paths, and now and
    /// then a loop, which an Interest's nonce ends.
    Alternates,
}

/// The next hops of each node towards the producers of one prefix.
///
/// A node's distance from a producer is the least delay, and among equal delays the fewest links.
///
/// - [`Routing::Single`]: the neighbour on the path of least distance to the nearest producer; of
///   several the one whose name comes first.
/// - [`Routing::Multi`] with one producer: every neighbour that is strictly closer to it. Distance
///   falls with each hop, so there is no loop.
/// - [`Routing::Multi`] with several producers: every neighbour that is strictly closer to *any* of
///   them, except where that would make a loop. So both branches of a slingshot are used although
///   one may be much longer. Next hops are taken in this order, each unless it closes a loop with
///   those before:
///   1. the nearest producer's, on the way of each consumer of the prefix (of each node, if there
///      is no consumer): so each consumer always has a path;
///   2. those that are closer to some producer and farther from none: these alone never make a
///      loop;
///   3. those that are closer to one and farther from another: first those that lead away from the
///      consumers, then by the length of the way, then by name.
///
///   A node that is left with nothing (it is reached only by such ways, and all of its own would
///   close loops) is not used, and has the next hop of [`Routing::Single`] for itself.
///
/// - [`Routing::Alternates`]: every neighbour whose least way to some producer is not through the
///   node itself: the loop-free alternates of RFC 5286, section 3.1, inequality 1. All of `Multi`
///   with one producer is in it. Two neighbours may be alternates of each other, so a forwarder
///   must not send an Interest back where it came from; longer loops are ended by its nonce.
///
/// A producer's own node has no next hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// The closest first.
    next_hops: Vec<Vec<Neighbour>>,
    is_producer: Vec<bool>,
}

/// One way from a consumer to a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The nodes that an Interest visits, from the consumer's to the producer's.
    pub nodes: Vec<usize>,
    /// The directions of links that Data takes, the one nearest to the consumer first.
    pub ports: Vec<Port>,
    /// How long a bit takes, one way.
    pub delay: Duration,
}

/// Partial ways that are looked at before a search for paths ends with those it has: alternates may
/// lead to many that close up.
const LOOKS_MAX: u32 = 100_000;

/// Nanoseconds, then links.
type Distance = (u64, u32);

impl Routes {
    /// Finds the next hops of a network that [`Graph::check`] accepts.
    pub fn new(graph: &Graph, prefix: &str, routing: Routing) -> Result<Routes, GraphError> {
        let producers = graph.producer_nodes(prefix)?;
        let mut is_producer = vec![false; graph.nodes().len()];
        producers.iter().for_each(|&node| is_producer[node] = true);
        let near = distances(graph, &producers);
        let single = nearest_hops(graph, &near, &is_producer);
        let next_hops = match routing {
            Routing::Single => single.iter().map(|hop| hop.iter().copied().collect()).collect(),
            Routing::Multi => {
                let ways = Ways { graph, is_producer: &is_producer, single: &single };
                ways.multi(prefix, &producers, &near)
            }
            Routing::Alternates => {
                let ways = Ways { graph, is_producer: &is_producer, single: &single };
                ways.alternates(&producers, &near)
            }
        };
        Ok(Routes { next_hops, is_producer })
    }

    /// Where a node sends Interests, the closest to a producer first.
    pub fn next_hops(&self, node: usize) -> &[Neighbour] {
        &self.next_hops[node]
    }

    /// Whether a producer of the prefix runs on this node.
    pub fn is_producer(&self, node: usize) -> bool {
        self.is_producer[node]
    }

    /// The ways from a node to a producer, at most `paths_max`: those of least delay, the shortest
    /// first. Those of equal delay come in an order that is the same each time. None visits a node
    /// twice.
    pub fn paths(&self, graph: &Graph, from: usize, paths_max: usize) -> Vec<Path> {
        let ahead = self.ahead(graph);
        let mut found = Vec::new();
        // Among equal costs the longest partial path comes first, so that the heap holds at most
        // one partial path for each next hop that branches off a path found.
        let mut heap = BinaryHeap::new();
        let (mut pushed, mut looks) = (0u64, 0);
        heap.push((Reverse((ahead[from], Reverse(1), pushed)), (0, 0), vec![from]));
        while let Some((_, behind, nodes)) = heap.pop() {
            if found.len() >= paths_max {
                break;
            }
            let last = *nodes.last().expect("a way has at least its first node");
            if self.is_producer[last] {
                found.push(path(graph, nodes));
                continue;
            }
            // Without loops each way that is taken from the heap is part of one that is found.
            looks += 1;
            if looks > LOOKS_MAX {
                break;
            }
            let fresh = self.next_hops[last].iter().filter(|hop| !nodes.contains(&hop.node));
            for hop in fresh {
                pushed += 1;
                let behind = plus(behind, weight(graph, hop.port));
                let mut nodes = nodes.clone();
                nodes.push(hop.node);
                let whole = (behind.0.saturating_add(ahead[hop.node].0), 0);
                let order = (whole, Reverse(nodes.len()), pushed);
                heap.push((Reverse(order), behind, nodes));
            }
        }
        found
    }

    /// Each node's distance from a producer along next hops.
    fn ahead(&self, graph: &Graph) -> Vec<Distance> {
        let mut back = vec![Vec::new(); self.next_hops.len()];
        for (node, hops) in self.next_hops.iter().enumerate() {
            for hop in hops {
                back[hop.node].push((node, weight(graph, hop.port)));
            }
        }
        let producers = (0..back.len()).filter(|&node| self.is_producer[node]);
        spread(producers, back.len(), |node| back[node].iter().copied())
    }
}

/// What next hops are chosen from.
struct Ways<'a> {
    graph: &'a Graph,
    is_producer: &'a [bool],
    single: &'a [Option<Neighbour>],
}

impl Ways<'_> {
    fn multi(&self, prefix: &str, producers: &[usize], near: &[Distance]) -> Vec<Vec<Neighbour>> {
        let mut chosen = self.kept(prefix);
        for (node, hop) in self.candidates(prefix, producers) {
            let known = chosen[node].iter().any(|other: &Neighbour| other.node == hop.node);
            if !known && !reaches(&chosen, hop.node, node) {
                chosen[node].push(hop);
            }
        }
        self.drop_dead_ends(&mut chosen);
        self.closest_first(&mut chosen, near);
        chosen
    }

    fn alternates(&self, producers: &[usize], near: &[Distance]) -> Vec<Vec<Neighbour>> {
        let graph = self.graph;
        let far: Vec<Vec<Distance>> =
            producers.iter().map(|&node| distances(graph, &[node])).collect();
        let mut chosen = vec![Vec::new(); near.len()];
        for next in 0..near.len() {
            let from_next = distances(graph, &[next]);
            for hop in graph.neighbours(next).iter().filter(|hop| !self.is_producer[hop.node]) {
                // The neighbour that may use `next` as its next hop.
                let node = hop.node;
                if far.iter().any(|far| far[next] < plus(from_next[node], far[node])) {
                    chosen[node].push(Neighbour { node: next, port: hop.port.reverse() });
                }
            }
        }
        self.closest_first(&mut chosen, near);
        chosen
    }

    fn closest_first(&self, chosen: &mut [Vec<Neighbour>], near: &[Distance]) {
        for hops in chosen {
            hops.sort_by_key(|hop| {
                let way = plus(near[hop.node], weight(self.graph, hop.port));
                (way, &self.graph.nodes()[hop.node])
            });
        }
    }

    /// The ways that are never given up.
    fn kept(&self, prefix: &str) -> Vec<Vec<Neighbour>> {
        let mut starts = self.consumer_nodes(prefix);
        if starts.is_empty() {
            starts = (0..self.single.len()).collect();
        }
        let mut kept: Vec<Vec<Neighbour>> = vec![Vec::new(); self.single.len()];
        for mut node in starts {
            while let (Some(hop), []) = (self.single[node], &kept[node][..]) {
                kept[node].push(hop);
                node = hop.node;
            }
        }
        kept
    }

    /// Every hop that comes closer to a producer, in the order in which they are taken.
    fn candidates(&self, prefix: &str, producers: &[usize]) -> Vec<(usize, Neighbour)> {
        let graph = self.graph;
        let far: Vec<Vec<Distance>> =
            producers.iter().map(|&node| distances(graph, &[node])).collect();
        let consumers = self.consumer_nodes(prefix);
        let behind = distances(graph, &consumers);
        let mut found = Vec::new();
        for node in (0..graph.nodes().len()).filter(|&node| !self.is_producer[node]) {
            for &hop in graph.neighbours(node) {
                let closer = far.iter().filter(|far| far[hop.node] < far[node]);
                let Some(way) = closer.map(|far| far[hop.node]).min() else {
                    continue;
                };
                let contested = far.iter().any(|far| far[hop.node] > far[node]);
                let order = if contested {
                    let back = behind[hop.node] <= behind[node];
                    (true, back, plus(way, weight(graph, hop.port)))
                } else {
                    (false, false, (0, 0))
                };
                let names = (&graph.nodes()[node], &graph.nodes()[hop.node]);
                found.push(((order, names), (node, hop)));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|(_, hop)| hop).collect()
    }

    /// Takes back hops to nodes that lead nowhere. Such a node then has no way in, so the next hop
    /// that it is given for itself cannot close a loop.
    fn drop_dead_ends(&self, chosen: &mut [Vec<Neighbour>]) {
        loop {
            let dead: Vec<bool> = (0..chosen.len())
                .map(|node| chosen[node].is_empty() && !self.is_producer[node])
                .collect();
            let before: usize = chosen.iter().map(Vec::len).sum();
            chosen.iter_mut().for_each(|hops| hops.retain(|hop| !dead[hop.node]));
            if chosen.iter().map(Vec::len).sum::<usize>() == before {
                break;
            }
        }
        for (hops, single) in chosen.iter_mut().zip(self.single) {
            if hops.is_empty() {
                hops.extend(*single);
            }
        }
    }

    fn consumer_nodes(&self, prefix: &str) -> Vec<usize> {
        let consumers = self.graph.consumers().iter();
        consumers.filter(|one| one.prefix == prefix).map(|one| one.node).collect()
    }
}

/// The next hop of each node on the least way; none at a producer.
fn nearest_hops(graph: &Graph, near: &[Distance], is_producer: &[bool]) -> Vec<Option<Neighbour>> {
    let of_node = |node: usize| {
        // Neighbours are in the order of their names, so the first one is taken.
        let on_way = |hop: &&Neighbour| plus(near[hop.node], weight(graph, hop.port)) == near[node];
        if is_producer[node] { None } else { graph.neighbours(node).iter().find(on_way).copied() }
    };
    (0..near.len()).map(of_node).collect()
}

fn weight(graph: &Graph, port: Port) -> Distance {
    let nanos = graph.links()[port.link].delay.as_nanos();
    (u64::try_from(nanos).unwrap_or(u64::MAX), 1)
}

fn plus(a: Distance, b: Distance) -> Distance {
    (a.0.saturating_add(b.0), a.1.saturating_add(b.1))
}

/// Each node's distance from the nearest of these.
fn distances(graph: &Graph, from: &[usize]) -> Vec<Distance> {
    spread(from.iter().copied(), graph.nodes().len(), |node| {
        graph.neighbours(node).iter().map(|next| (next.node, weight(graph, next.port)))
    })
}

/// Dijkstra's algorithm. What cannot be reached is at the greatest distance.
fn spread<I: Iterator<Item = (usize, Distance)>>(
    from: impl Iterator<Item = usize>,
    nodes: usize,
    next: impl Fn(usize) -> I,
) -> Vec<Distance> {
    let mut distance = vec![(u64::MAX, u32::MAX); nodes];
    let mut heap = BinaryHeap::new();
    for node in from {
        distance[node] = (0, 0);
        heap.push(Reverse(((0, 0), node)));
    }
    while let Some(Reverse((reached, node))) = heap.pop() {
        if reached > distance[node] {
            continue;
        }
        for (other, weight) in next(node) {
            let way = plus(reached, weight);
            if way < distance[other] {
                distance[other] = way;
                heap.push(Reverse((way, other)));
            }
        }
    }
    distance
}

/// Whether next hops lead from one node to another.
fn reaches(hops: &[Vec<Neighbour>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; hops.len()];
    let mut ahead = vec![from];
    while let Some(node) = ahead.pop() {
        if node == to {
            return true;
        }
        if !std::mem::replace(&mut seen[node], true) {
            ahead.extend(hops[node].iter().map(|hop| hop.node));
        }
    }
    false
}

fn path(graph: &Graph, nodes: Vec<usize>) -> Path {
    let hop = |pair: &[usize]| graph.port(pair[1], pair[0]).expect("next hops are neighbours");
    let ports: Vec<Port> = nodes.windows(2).map(hop).collect();
    let delays = ports.iter().map(|port| graph.links()[port.link].delay);
    let delay = delays.fold(Duration::ZERO, Duration::saturating_add);
    Path { nodes, ports, delay }
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
