use std::time::Duration;

use paceline_lab::scenario::Rate;
use paceline_proto::core::Rng;

use super::graph::{Graph, GraphError, Link};

const fn mbit(rate: u64) -> Rate {
    Rate::from_bits_per_second(rate * 1_000_000)
}

const fn ms(delay: u64) -> Duration {
    Duration::from_millis(delay)
}

/// Consumers on one side, producers on the other, and one link between them.
///
/// Hosts `c1`, `c2`.. hang on router `left`, hosts `p1`, `p2`.. on router `right`; producer `p1`
/// serves `/p1`. Consumers take producers in turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumbbell {
    /// Consumers, each on a host of its own; at least 1. Default 4.
    pub consumers: usize,
    /// Producers, each on a host of its own; at least 1. Default: as many.
    pub producers: usize,
    /// Rate of the link in the middle. Default 100 Mbit/s.
    pub rate: Rate,
    /// Delay of the link in the middle. Default 10 ms.
    pub delay: Duration,
    /// Rate of each host's link. Default 1 Gbit/s.
    pub host_rate: Rate,
    /// Delay of each host's link. Default 2 ms: with the link in the middle 28 ms there and back.
    pub host_delay: Duration,
}

impl Default for Dumbbell {
    fn default() -> Dumbbell {
        Dumbbell {
            consumers: 4,
            producers: 4,
            rate: mbit(100),
            delay: ms(10),
            host_rate: mbit(1_000),
            host_delay: ms(2),
        }
    }
}

impl Dumbbell {
    /// The network, with its consumers and producers.
    pub fn build(&self) -> Result<Graph, GraphError> {
        if self.consumers == 0 || self.producers == 0 {
            let asked = format!("{} consumers, {} producers", self.consumers, self.producers);
            let accepted = "a dumbbell has at least 1 of each";
            return Err(GraphError::Size { asked, accepted });
        }
        let mut graph = Graph::new();
        let left = graph.add_node("left")?;
        let right = graph.add_node("right")?;
        graph.add_link(Link::new([left, right], self.rate, self.delay).with_name("middle"))?;
        let consumers = (1..=self.consumers).map(|number| (format!("c{number}"), left));
        let producers = (1..=self.producers).map(|number| (format!("p{number}"), right));
        for (name, router) in consumers.chain(producers) {
            let host = graph.add_node(name)?;
            graph.add_link(Link::new([router, host], self.host_rate, self.host_delay))?;
        }
        for number in 1..=self.producers {
            let name = format!("p{number}");
            graph.add_producer(&name, &name, format!("/{name}"))?;
        }
        for number in 1..=self.consumers {
            let name = format!("c{number}");
            let prefix = format!("/p{}", (number - 1) % self.producers + 1);
            graph.add_consumer(&name, &name, prefix)?;
        }
        Ok(graph)
    }
}

/// A branch of the [`Slingshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Branch {
    /// To E4, with link lb.
    Left,
    /// To E3, with link lc.
    Right,
}

/// Two consumers behind one link that forks: Mahdian et al. 2016, slides 16 and 25.
///
/// Consumers 1 and 2 are at E1; link la leads to F2, from there lb to E4 and lc to E3. `/one` is
/// served at both ends, by producers 1b (E4) and 1a (E3); `/two` at one of them, by producer 2.
#[derive(Clone, Debug, PartialEq)]
pub struct Slingshot {
    /// Rate of la. Default 15 Mbit/s.
    pub joint_rate: Rate,
    /// Rate of lb. Default 12 Mbit/s.
    pub left_rate: Rate,
    /// Rate of lc. Default 9 Mbit/s.
    pub right_rate: Rate,
    /// Delay of la. The slides give none. Default 5 ms.
    pub joint_delay: Duration,
    /// Delay of lb. Default 5 ms.
    pub left_delay: Duration,
    /// Delay of lc. Default 5 ms.
    pub right_delay: Duration,
    /// Where producer 2 is. Default: left, as on the slides.
    pub second: Branch,
}

impl Default for Slingshot {
    fn default() -> Slingshot {
        Slingshot {
            joint_rate: mbit(15),
            left_rate: mbit(12),
            right_rate: mbit(9),
            joint_delay: ms(5),
            left_delay: ms(5),
            right_delay: ms(5),
            second: Branch::Left,
        }
    }
}

impl Slingshot {
    /// Slide 25: both branches at 10 Mbit/s.
    pub fn symmetric() -> Slingshot {
        Slingshot { left_rate: mbit(10), right_rate: mbit(10), ..Slingshot::default() }
    }

    /// The network, with its consumers and producers.
    pub fn build(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let [e1, f2, e3, e4] = add_nodes(&mut graph, ["E1", "F2", "E3", "E4"])?;
        let joint = Link::new([e1, f2], self.joint_rate, self.joint_delay);
        graph.add_link(joint.with_name("la"))?;
        graph.add_link(Link::new([f2, e4], self.left_rate, self.left_delay).with_name("lb"))?;
        graph.add_link(Link::new([f2, e3], self.right_rate, self.right_delay).with_name("lc"))?;
        graph.add_producer("1a", "E3", "/one")?;
        graph.add_producer("1b", "E4", "/one")?;
        let second = match self.second {
            Branch::Left => "E4",
            Branch::Right => "E3",
        };
        graph.add_producer("2", second, "/two")?;
        graph.add_consumer("1", "E1", "/one")?;
        graph.add_consumer("2", "E1", "/two")?;
        Ok(graph)
    }
}

/// Two ways between two routers: Mahdian et al. 2016, slide 17.
///
/// E0 (consumers A to D) and E1 (consumer E) join at F2; F2-F3-F5 and F2-F4-F5 are the branches;
/// behind F5 is E6, where each consumer has a producer of its own. Links are la (E0-F2), lb
/// (E1-F2), lc and le (through F3), ld and lf (through F4), lg (F5-E6).
#[derive(Clone, Debug, PartialEq)]
pub struct Diamond {
    /// Rate of la, lb and lg. Default 100 Mbit/s.
    pub rate: Rate,
    /// Rate of both links through F3. Default 100 Mbit/s.
    pub upper_rate: Rate,
    /// Rate of both links through F4. Default 100 Mbit/s.
    pub lower_rate: Rate,
    /// Delay of each link. The slides give none. Default 5 ms.
    pub delay: Duration,
}

impl Default for Diamond {
    fn default() -> Diamond {
        let rate = mbit(100);
        Diamond { rate, upper_rate: rate, lower_rate: rate, delay: ms(5) }
    }
}

impl Diamond {
    /// The slide's second scenario: branches at 15 and 10 Mbit/s.
    pub fn narrow() -> Diamond {
        Diamond { upper_rate: mbit(15), lower_rate: mbit(10), ..Diamond::default() }
    }

    /// The network, with its consumers and producers.
    pub fn build(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let names = ["E0", "E1", "F2", "F3", "F4", "F5", "E6"];
        let [e0, e1, f2, f3, f4, f5, e6] = add_nodes(&mut graph, names)?;
        let links = [
            ("la", [e0, f2], self.rate),
            ("lb", [e1, f2], self.rate),
            ("lc", [f2, f3], self.upper_rate),
            ("ld", [f2, f4], self.lower_rate),
            ("le", [f3, f5], self.upper_rate),
            ("lf", [f4, f5], self.lower_rate),
            ("lg", [f5, e6], self.rate),
        ];
        for (name, ends, rate) in links {
            graph.add_link(Link::new(ends, rate, self.delay).with_name(name))?;
        }
        for (name, node) in [("A", "E0"), ("B", "E0"), ("C", "E0"), ("D", "E0"), ("E", "E1")] {
            graph.add_producer(name, "E6", format!("/{name}"))?;
            graph.add_consumer(name, node, format!("/{name}"))?;
        }
        Ok(graph)
    }
}

/// The backbone of slide 18, by its cities; node 0 is the first one.
const ABILENE_CITIES: [&str; 11] = [
    "NewYork",
    "Chicago",
    "Washington",
    "Seattle",
    "Sunnyvale",
    "LosAngeles",
    "Denver",
    "KansasCity",
    "Houston",
    "Atlanta",
    "Indianapolis",
];

/// Its links, with delays in microseconds.
const ABILENE_LINKS: [(usize, usize, u64); 14] = [
    (0, 1, 6_000),
    (0, 2, 2_000),
    (1, 10, 1_500),
    (2, 9, 5_000),
    (3, 4, 6_000),
    (3, 6, 9_000),
    (4, 5, 3_000),
    (4, 6, 9_000),
    (5, 8, 12_000),
    (6, 7, 5_000),
    (7, 8, 6_000),
    (7, 10, 4_000),
    (8, 9, 7_000),
    (9, 10, 4_500),
];

/// The hosts that serve, and what.
const ABILENE_PRODUCERS: [(&str, &str); 3] =
    [("12", "/Amazon"), ("16", "/Google"), ("19", "/Warner")];
const ABILENE_CONSUMERS: [&str; 8] = ["11", "13", "14", "15", "17", "18", "20", "21"];
/// The stream from which consumers draw their producers.
const ABILENE_STREAM: u64 = 0x61_6269;

/// The Abilene backbone: Mahdian et al. 2016, slide 18.
///
/// Eleven routers by the names of their cities, and a host on each: host `11` on the first one.
/// Hosts 12, 16 and 19 serve `/Amazon`, `/Google` and `/Warner`; each of the eight others fetches
/// from one of them, drawn by the seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Abilene {
    /// Rate of the links between routers. Default 10 Mbit/s.
    pub rate: Rate,
    /// Rate of each host's link. Default 100 Mbit/s.
    pub host_rate: Rate,
    /// Delay of each host's link. Default 0.1 ms.
    pub host_delay: Duration,
    /// Seed that pairs consumers with producers. Default 1.
    pub seed: u64,
}

impl Default for Abilene {
    fn default() -> Abilene {
        Abilene {
            rate: mbit(10),
            host_rate: mbit(100),
            host_delay: Duration::from_micros(100),
            seed: 1,
        }
    }
}

impl Abilene {
    /// The network, with its consumers and producers.
    pub fn build(&self) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let routers = add_nodes(&mut graph, ABILENE_CITIES)?;
        for (a, b, micros) in ABILENE_LINKS {
            let ends = [routers[a], routers[b]];
            graph.add_link(Link::new(ends, self.rate, Duration::from_micros(micros)))?;
        }
        for (index, router) in routers.into_iter().enumerate() {
            let host = graph.add_node((ABILENE_CITIES.len() + index).to_string())?;
            graph.add_link(Link::new([router, host], self.host_rate, self.host_delay))?;
        }
        for (host, prefix) in ABILENE_PRODUCERS {
            graph.add_producer(host, host, prefix)?;
        }
        let mut rng = Rng::new(self.seed, ABILENE_STREAM);
        for host in ABILENE_CONSUMERS {
            let drawn = rng.below(ABILENE_PRODUCERS.len() as u32) as usize;
            graph.add_consumer(host, host, ABILENE_PRODUCERS[drawn].1)?;
        }
        Ok(graph)
    }
}

fn add_nodes<const N: usize>(
    graph: &mut Graph,
    names: [&str; N],
) -> Result<[usize; N], GraphError> {
    let mut nodes = [0; N];
    for (node, name) in nodes.iter_mut().zip(names) {
        *node = graph.add_node(name)?;
    }
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::super::{Flows, Routes, Routing};
    use super::*;

    fn flows(graph: &Graph, routing: Routing) -> Flows {
        Flows::new(graph, routing, 0.95, 16).unwrap()
    }

    fn assert_mbit(found: &[f64], expected: &[f64]) {
        let near = |(found, expected): (&f64, &f64)| (found / 1e6 - expected).abs() < 1e-4;
        assert!(found.iter().zip(expected).all(near), "{found:?} instead of {expected:?}");
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn dumbbell_shares_the_middle_and_takes_28_ms_there_and_back() {
        let dumbbell = Dumbbell { consumers: 5, producers: 2, ..Dumbbell::default() };
        let graph = dumbbell.build().unwrap();
        assert_eq!((graph.nodes().len(), graph.links().len()), (9, 8));
        let prefixes: Vec<&str> = graph.consumers().iter().map(|one| &one.prefix[..]).collect();
        assert_eq!(prefixes, ["/p1", "/p2", "/p1", "/p2", "/p1"]);
        let flows = flows(&graph, Routing::Multi);
        assert_mbit(&flows.problem.single_path(&[0; 5]).unwrap(), &[19.0; 5]);
        assert!(flows.paths.iter().flatten().all(|path| path.delay == ms(14)));
        let no_consumers = Dumbbell { consumers: 0, ..Dumbbell::default() };
        assert!(no_consumers.build().unwrap_err().to_string().contains("0 consumers, 4 producers"));
        let silent = Dumbbell { rate: Rate::from_bits_per_second(0), ..Dumbbell::default() };
        assert!(matches!(silent.build(), Err(GraphError::NoRate { .. })));
    }

    #[test]
    fn slingshot_gives_the_slides_rates_wherever_producer_2_is() {
        for second in [Branch::Left, Branch::Right] {
            let graph = Slingshot { second, ..Slingshot::default() }.build().unwrap();
            let flows = flows(&graph, Routing::Multi);
            let counts: Vec<usize> = flows.paths.iter().map(Vec::len).collect();
            assert_eq!(counts, [2, 1]);
            let shares = flows.problem.dual_class(1.1);
            assert_mbit(&shares.totals(), &[7.125, 7.125]);
            assert_mbit(&shares.secondary_totals(), &[0.0, 0.0]);
        }
        for (slingshot, primary, secondary) in
            [(Slingshot::default(), 11.4, 2.85), (Slingshot::symmetric(), 9.5, 4.75)]
        {
            let graph = slingshot.build().unwrap();
            let flows = flows(&graph, Routing::Multi);
            let alone = vec![flows.problem.flows()[0].clone()];
            let capacities = flows.problem.capacities().to_vec();
            let problem = crate::mircc::oracle::Problem::new(capacities, alone).unwrap();
            let shares = problem.dual_class(1.1);
            assert_mbit(&shares.primary, &[primary]);
            assert_mbit(&shares.secondary_totals(), &[secondary]);
        }
    }

    #[test]
    fn slingshot_uses_both_branches_however_long_one_is() {
        let slingshot = Slingshot { right_delay: ms(200), ..Slingshot::default() };
        let flows = flows(&slingshot.build().unwrap(), Routing::Multi);
        assert_eq!(flows.paths[0].len(), 2);
    }

    #[test]
    fn diamond_has_two_ways_for_each_consumer_and_its_branches_hold_the_narrow_one() {
        let graph = Diamond::narrow().build().unwrap();
        let flows = flows(&graph, Routing::Multi);
        assert!(flows.paths.iter().all(|paths| paths.len() == 2));
        let allocation = flows.problem.multipath().unwrap();
        assert_mbit(&allocation.totals, &[25.0 * 0.95 / 5.0; 5]);
        let wide = Diamond::default().build().unwrap();
        let flows = Flows::new(&wide, Routing::Multi, 1.0, 16).unwrap();
        assert_mbit(&flows.problem.multipath().unwrap().totals, &[20.0; 5]);
    }

    #[test]
    fn abilene_is_the_one_of_the_slide() {
        let graph = Abilene::default().build().unwrap();
        graph.check().unwrap();
        assert_eq!((graph.nodes().len(), graph.links().len()), (22, 25));
        assert_eq!((graph.consumers().len(), graph.producers().len()), (8, 3));
        let degree = |name: &str| graph.neighbours(graph.node(name).unwrap()).len() - 1;
        assert_eq!((degree("NewYork"), degree("Houston"), degree("Denver")), (2, 3, 3));
        let host = graph.node("18").unwrap();
        assert_eq!(graph.nodes()[graph.neighbours(host)[0].node], "KansasCity");
        let single = flows(&graph, Routing::Single);
        assert!(single.paths.iter().all(|paths| paths.len() == 1));
        let multi = flows(&graph, Routing::Multi);
        let count = |from: &str, prefix: &str, routing: Routing| {
            let routes = Routes::new(&graph, prefix, routing).unwrap();
            routes.paths(&graph, graph.node(from).unwrap(), 64).len()
        };
        // Around the ring both ways, the southern one over Denver and Los Angeles or straight.
        assert_eq!(count("11", "/Google", Routing::Multi), 5);
        assert_eq!(count("20", "/Amazon", Routing::Multi), 1);
        assert!(count("20", "/Amazon", Routing::Alternates) > 1);
        // The least way of `Single` is also the first of `Multi`.
        for (single, multi) in single.paths.iter().zip(&multi.paths) {
            assert_eq!(single[0].delay, multi[0].delay);
        }
    }

    #[test]
    fn abilene_draws_who_fetches_from_whom() {
        let assignment = |seed| {
            let graph = Abilene { seed, ..Abilene::default() }.build().unwrap();
            graph.consumers().iter().map(|one| one.prefix.clone()).collect::<Vec<_>>()
        };
        assert_eq!(assignment(3), assignment(3));
        assert_ne!(assignment(3), assignment(4));
        let mut all: Vec<String> = (1..=40).flat_map(assignment).collect();
        all.sort();
        all.dedup();
        assert_eq!(all, ["/Amazon", "/Google", "/Warner"]);
    }
}
