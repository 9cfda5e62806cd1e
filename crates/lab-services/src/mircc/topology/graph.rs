use std::collections::BTreeMap;
use std::time::Duration;

use paceline_lab::scenario::{Rate, nearest};
use thiserror::Error;

/// A network: named nodes, links, consumers and producers.
///
/// Nodes, links, consumers and producers go by their index, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    nodes: Vec<String>,
    links: Vec<Link>,
    consumers: Vec<Consumer>,
    producers: Vec<Producer>,
    /// Each node's neighbours, in the order of their names.
    neighbours: Vec<Vec<Neighbour>>,
    by_name: BTreeMap<String, usize>,
}

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// What it is called. Default: the names of its nodes, `E1-F2`.
    pub name: String,
    /// The nodes that it connects.
    pub ends: [usize; 2],
    /// What it carries from each end to the other, above zero. Default: the same both ways.
    pub rates: [Rate; 2],
    /// How long a bit takes from one end to the other, the same both ways.
    pub delay: Duration,
    /// Packets that wait for it at either end before one is dropped, at least 1. Default: left to
    /// who uses it.
    pub queue_packets: Option<u32>,
}

impl Link {
    /// A link of this rate both ways.
    pub fn new(ends: [usize; 2], rate: Rate, delay: Duration) -> Link {
        Link { name: String::new(), ends, rates: [rate; 2], delay, queue_packets: None }
    }

    /// The same link, called so.
    pub fn with_name(mut self, name: impl Into<String>) -> Link {
        self.name = name.into();
        self
    }

    /// The same link, with this rate from its second end to its first.
    pub fn with_reverse_rate(mut self, rate: Rate) -> Link {
        self.rates[1] = rate;
        self
    }

    /// The same link, with a queue of `packets` packets at either end.
    pub fn with_queue(mut self, packets: u32) -> Link {
        self.queue_packets = Some(packets);
        self
    }
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The link.
    pub link: usize,
    /// Which of the link's ends sends, 0 or 1.
    pub end: usize,
}

impl Port {
    /// Its place among the capacities of an oracle's problem: see
    /// [`Flows`](super::Flows).
    pub fn index(self) -> usize {
        2 * self.link + self.end
    }

    /// The other direction.
    pub fn reverse(self) -> Port {
        Port { link: self.link, end: 1 - self.end }
    }
}

/// The node at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The node.
    pub node: usize,
    /// The direction of the link that leads there.
    pub port: Port,
}

/// An application that fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// What it is called in figures.
    pub name: String,
    /// The node on which it runs; several may run on one.
    pub node: usize,
    /// What it fetches: a producer's prefix, letter by letter.
    pub prefix: String,
}

/// An application that answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Producer {
    /// What it is called in figures.
    pub name: String,
    /// The node on which it runs; several may run on one.
    pub node: usize,
    /// What it serves, such as `/p`. Several producers may serve one prefix.
    pub prefix: String,
}

/// What is wrong with a network. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// There are no nodes.
    #[error("the network has no nodes")]
    Empty,
    /// Two nodes have one name, or a node has none.
    #[error("the node name `{name}` is taken or empty; each node needs a name of its own")]
    Name {
        /// The name.
        name: String,
    },
    /// A node that is not there.
    #[error(
        "there is no node `{name}`{}",
        near.as_ref().map_or(String::new(), |near| format!("; did you mean `{near}`?"))
    )]
    UnknownNode {
        /// What was asked for.
        name: String,
        /// What was probably meant.
        near: Option<String>,
    },
    /// A link from a node to itself.
    #[error("a link connects `{name}` with itself; a link has two different ends")]
    SelfLoop {
        /// The node.
        name: String,
    },
    /// A second link between two nodes.
    #[error(
        "`{from}` and `{to}` are connected twice; there can be one link, with the rates together"
    )]
    SecondLink {
        /// One end.
        from: String,
        /// The other end.
        to: String,
    },
    /// A link that carries nothing.
    #[error("the link from `{from}` to `{to}` has the rate zero; it must be above zero")]
    NoRate {
        /// The end that sends.
        from: String,
        /// The other end.
        to: String,
    },
    /// A link that cannot hold a packet.
    #[error("the link `{from}` to `{to}` has a queue of 0 packets; it needs at least 1")]
    NoQueue {
        /// One end.
        from: String,
        /// The other end.
        to: String,
    },
    /// Not every node reaches every other.
    #[error("no path leads from `{from}` to `{to}`; all nodes must be connected")]
    Disconnected {
        /// The first node.
        from: String,
        /// The first node that it does not reach.
        to: String,
    },
    /// A prefix that is not one.
    #[error("the prefix `{prefix}` does not begin with a slash and a letter, such as `/p`")]
    Prefix {
        /// What was given.
        prefix: String,
    },
    /// No producer serves the requested prefix.
    #[error("no producer serves `{prefix}`; {}", served(known))]
    NoProducer {
        /// What is asked for.
        prefix: String,
        /// What is served.
        known: Vec<String>,
    },
    /// Nothing to carry: the answer is where the question is.
    #[error("consumer `{consumer}` runs on the node of its producer; no link would carry traffic")]
    OwnProducer {
        /// The consumer.
        consumer: String,
    },
    /// A built-in or drawn network was asked for in a size that it does not have.
    #[error("cannot generate a network with {asked}; {accepted}")]
    Size {
        /// What was asked for.
        asked: String,
        /// What can be made.
        accepted: &'static str,
    },
}

fn served(known: &[String]) -> String {
    match known {
        [] => "there are no producers".to_owned(),
        known => format!("served are {}", known.join(", ")),
    }
}

impl Graph {
    /// An empty network.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// Adds a node and gives its index.
    pub fn add_node(&mut self, name: impl Into<String>) -> Result<usize, GraphError> {
        let name = name.into();
        if name.is_empty() || self.by_name.contains_key(&name) {
            return Err(GraphError::Name { name });
        }
        let index = self.nodes.len();
        self.by_name.insert(name.clone(), index);
        self.nodes.push(name);
        self.neighbours.push(Vec::new());
        Ok(index)
    }

    /// Adds a link and gives its index.
    ///
    /// # Panics
    ///
    /// If an end is not the index of a node.
    pub fn add_link(&mut self, mut link: Link) -> Result<usize, GraphError> {
        self.check_link(&link)?;
        let [a, b] = link.ends;
        if link.name.is_empty() {
            link.name = format!("{}-{}", self.nodes[a], self.nodes[b]);
        }
        let index = self.links.len();
        for (end, (near, far)) in [(a, b), (b, a)].into_iter().enumerate() {
            let name = &self.nodes[far];
            let before = |other: &Neighbour| self.nodes[other.node] < *name;
            let at = self.neighbours[near].partition_point(before);
            let neighbour = Neighbour { node: far, port: Port { link: index, end } };
            self.neighbours[near].insert(at, neighbour);
        }
        self.links.push(link);
        Ok(index)
    }

    /// Adds an application that fetches what has this prefix.
    pub fn add_consumer(
        &mut self,
        name: impl Into<String>,
        node: &str,
        prefix: impl Into<String>,
    ) -> Result<usize, GraphError> {
        let (node, prefix) = (self.node(node)?, checked(prefix.into())?);
        self.consumers.push(Consumer { name: name.into(), node, prefix });
        Ok(self.consumers.len() - 1)
    }

    /// Adds an application that serves what has this prefix.
    pub fn add_producer(
        &mut self,
        name: impl Into<String>,
        node: &str,
        prefix: impl Into<String>,
    ) -> Result<usize, GraphError> {
        let (node, prefix) = (self.node(node)?, checked(prefix.into())?);
        self.producers.push(Producer { name: name.into(), node, prefix });
        Ok(self.producers.len() - 1)
    }

    /// Whether each node reaches every other, and each consumer a producer on another node.
    pub fn check(&self) -> Result<(), GraphError> {
        if self.nodes.is_empty() {
            return Err(GraphError::Empty);
        }
        let mut reached = vec![false; self.nodes.len()];
        let mut ahead = vec![0];
        while let Some(node) = ahead.pop() {
            if !std::mem::replace(&mut reached[node], true) {
                ahead.extend(self.neighbours[node].iter().map(|neighbour| neighbour.node));
            }
        }
        if let Some(lost) = reached.iter().position(|reached| !reached) {
            let (from, to) = (self.nodes[0].clone(), self.nodes[lost].clone());
            return Err(GraphError::Disconnected { from, to });
        }
        for consumer in &self.consumers {
            if self.producer_nodes(&consumer.prefix)?.contains(&consumer.node) {
                return Err(GraphError::OwnProducer { consumer: consumer.name.clone() });
            }
        }
        Ok(())
    }

    /// The names of the nodes.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The consumers.
    pub fn consumers(&self) -> &[Consumer] {
        &self.consumers
    }

    /// The producers.
    pub fn producers(&self) -> &[Producer] {
        &self.producers
    }

    /// The prefixes that are served, each once, in their order.
    pub fn prefixes(&self) -> Vec<String> {
        let mut prefixes: Vec<String> =
            self.producers.iter().map(|producer| producer.prefix.clone()).collect();
        prefixes.sort();
        prefixes.dedup();
        prefixes
    }

    /// A node's neighbours, in the order of their names.
    pub fn neighbours(&self, node: usize) -> &[Neighbour] {
        &self.neighbours[node]
    }

    /// The node of this name.
    pub fn node(&self, name: &str) -> Result<usize, GraphError> {
        self.by_name.get(name).copied().ok_or_else(|| {
            let near = nearest(name, self.nodes.iter().map(String::as_str)).map(str::to_owned);
            GraphError::UnknownNode { name: name.to_owned(), near }
        })
    }

    /// The direction from a node to a neighbour; none if they are not neighbours.
    pub fn port(&self, from: usize, to: usize) -> Option<Port> {
        let mut neighbours = self.neighbours[from].iter();
        neighbours.find(|neighbour| neighbour.node == to).map(|neighbour| neighbour.port)
    }

    /// The node that sends on this direction of a link.
    pub fn sender(&self, port: Port) -> usize {
        self.links[port.link].ends[port.end]
    }

    /// The node that receives on this direction of a link.
    pub fn receiver(&self, port: Port) -> usize {
        self.sender(port.reverse())
    }

    /// What this direction of a link carries.
    pub fn rate(&self, port: Port) -> Rate {
        self.links[port.link].rates[port.end]
    }

    /// Whether this link can be added.
    pub(super) fn check_link(&self, link: &Link) -> Result<(), GraphError> {
        let [a, b] = link.ends;
        let (from, to) = (self.nodes[a].clone(), self.nodes[b].clone());
        let [there, back] = link.rates.map(Rate::bits_per_second);
        if a == b {
            return Err(GraphError::SelfLoop { name: from });
        }
        if self.port(a, b).is_some() {
            return Err(GraphError::SecondLink { from, to });
        }
        if there == 0 {
            return Err(GraphError::NoRate { from, to });
        }
        if back == 0 {
            return Err(GraphError::NoRate { from: to, to: from });
        }
        if link.queue_packets == Some(0) {
            return Err(GraphError::NoQueue { from, to });
        }
        Ok(())
    }

    /// The nodes on which a producer of this prefix runs, each once; an error without such a node.
    pub(super) fn producer_nodes(&self, prefix: &str) -> Result<Vec<usize>, GraphError> {
        let serving = self.producers.iter().filter(|producer| producer.prefix == prefix);
        let mut nodes: Vec<usize> = serving.map(|producer| producer.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() {
            return Err(GraphError::NoProducer {
                prefix: prefix.to_owned(),
                known: self.prefixes(),
            });
        }
        Ok(nodes)
    }
}

fn checked(prefix: String) -> Result<String, GraphError> {
    let named = prefix.strip_prefix('/').is_some_and(|rest| {
        !rest.starts_with('/') && !rest.is_empty() && !rest.contains(char::is_whitespace)
    });
    if named { Ok(prefix) } else { Err(GraphError::Prefix { prefix }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(1);

    fn rate() -> Rate {
        Rate::from_bits_per_second(10_000_000)
    }

    fn pair() -> Graph {
        let mut graph = Graph::new();
        graph.add_node("Paris").unwrap();
        graph.add_node("Oslo").unwrap();
        graph
    }

    #[test]
    fn a_link_has_a_rate_for_each_direction() {
        let mut graph = pair();
        let slow = Rate::from_bits_per_second(1_000);
        graph.add_link(Link::new([0, 1], rate(), DELAY).with_reverse_rate(slow)).unwrap();
        let there = graph.port(0, 1).unwrap();
        let back = graph.port(1, 0).unwrap();
        assert_eq!((there.index(), back.index(), there.reverse()), (0, 1, back));
        assert_eq!((graph.rate(there), graph.rate(back)), (rate(), slow));
        assert_eq!((graph.sender(back), graph.receiver(back)), (1, 0));
        assert_eq!(graph.links()[0].name, "Paris-Oslo");
        assert_eq!(graph.port(0, 0), None);
    }

    #[test]
    fn neighbours_are_in_the_order_of_their_names() {
        let mut graph = pair();
        let bern = graph.add_node("Bern").unwrap();
        graph.add_link(Link::new([1, 0], rate(), DELAY)).unwrap();
        graph.add_link(Link::new([1, bern], rate(), DELAY)).unwrap();
        let names = graph.neighbours(1).iter().map(|next| graph.nodes()[next.node].as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["Bern", "Paris"]);
    }

    #[test]
    fn what_cannot_be_is_refused_and_changes_nothing() {
        let mut graph = pair();
        graph.add_link(Link::new([0, 1], rate(), DELAY)).unwrap();
        let before = graph.clone();
        let none = Rate::from_bits_per_second(0);
        let said = |result: Result<usize, GraphError>| result.unwrap_err().to_string();
        assert_eq!(
            said(graph.add_node("Paris")),
            "the node name `Paris` is taken or empty; each node needs a name of its own"
        );
        assert!(said(graph.add_node("")).contains("is taken or empty"));
        assert_eq!(
            said(graph.add_link(Link::new([1, 1], rate(), DELAY))),
            "a link connects `Oslo` with itself; a link has two different ends"
        );
        assert!(said(graph.add_link(Link::new([1, 0], rate(), DELAY))).contains("twice"));
        let third = graph.clone().add_node("Rome").unwrap();
        assert_eq!(third, 2);
        let mut larger = graph.clone();
        larger.add_node("Rome").unwrap();
        assert_eq!(
            said(larger.add_link(Link::new([0, 2], none, DELAY))),
            "the link from `Paris` to `Rome` has the rate zero; it must be above zero"
        );
        let one_way = Link::new([0, 2], rate(), DELAY).with_reverse_rate(none);
        assert!(said(larger.add_link(one_way)).contains("from `Rome` to `Paris`"));
        let cramped = Link::new([0, 2], rate(), DELAY).with_queue(0);
        assert!(said(larger.add_link(cramped)).contains("a queue of 0 packets"));
        assert_eq!(
            said(graph.add_consumer("c", "Osla", "/p")),
            "there is no node `Osla`; did you mean `Oslo`?"
        );
        assert!(said(graph.add_producer("p", "Oslo", "p")).contains("`p` does not begin"));
        assert!(said(graph.add_producer("p", "Oslo", "/a b")).contains("does not begin"));
        assert_eq!(graph, before);
    }

    #[test]
    fn a_network_is_checked_as_a_whole() {
        let said = |graph: &Graph| graph.check().unwrap_err().to_string();
        assert_eq!(said(&Graph::new()), "the network has no nodes");
        let mut graph = pair();
        assert_eq!(
            said(&graph),
            "no path leads from `Paris` to `Oslo`; all nodes must be connected"
        );
        graph.add_link(Link::new([0, 1], rate(), DELAY)).unwrap();
        assert_eq!(graph.check(), Ok(()));
        graph.add_consumer("c", "Paris", "/p").unwrap();
        assert_eq!(said(&graph), "no producer serves `/p`; there are no producers");
        graph.add_producer("q", "Oslo", "/q").unwrap();
        assert_eq!(said(&graph), "no producer serves `/p`; served are /q");
        graph.add_producer("p", "Oslo", "/p").unwrap();
        assert_eq!(graph.check(), Ok(()));
        graph.add_consumer("d", "Oslo", "/p").unwrap();
        assert!(said(&graph).starts_with("consumer `d` runs on the node of its producer"));
    }
}
