use std::ops::RangeInclusive;
use std::time::Duration;

use paceline_lab::scenario::Rate;
use paceline_proto::core::Rng;

use super::graph::{Graph, GraphError, Link};
use super::routes::{Routes, Routing};

/// Whether consumers of a drawn network have one path or may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ways {
    /// A tree of routers: one path, whatever the routing.
    One,
    /// A tree and further links: at least one consumer has two paths under [`Routing::Multi`].
    Several,
}

/// A small connected network, drawn by a seed.
///
/// Routers `r0`, `r1`.. are connected by a tree and, with [`Ways::Several`], further links, half as
/// many as routers to as many. Producers `p0`.. serve `/p0`..; consumers `c0`.. each draw one of
/// them. All run on routers: producers on different ones, a consumer on any other than its
/// producer's.
#[derive(Clone, Debug, PartialEq)]
pub struct Random {
    /// What is drawn. Default 1.
    pub seed: u64,
    /// One path or several. Default: several.
    pub ways: Ways,
    /// How many routers, at least 2, and for several ways 3. Default 4 to 10.
    pub routers: RangeInclusive<u32>,
    /// How many consumers, at least 1. Default 2 to 6.
    pub consumers: RangeInclusive<u32>,
    /// How many producers, at least 1 and at most as many as routers. Default 1 to 3.
    pub producers: RangeInclusive<u32>,
    /// Rate of each link, to the kbit/s. Default 2 to 50 Mbit/s.
    pub rate_kbit_per_second: RangeInclusive<u32>,
    /// Delay of each link, to the microsecond. Default 1 to 15 ms.
    pub delay_us: RangeInclusive<u32>,
}

impl Default for Random {
    fn default() -> Random {
        Random {
            seed: 1,
            ways: Ways::Several,
            routers: 4..=10,
            consumers: 2..=6,
            producers: 1..=3,
            rate_kbit_per_second: 2_000..=50_000,
            delay_us: 1_000..=15_000,
        }
    }
}

/// The stream of the seed from which networks are drawn.
const STREAM: u64 = 0x006d_6972_6363;
/// Networks that are drawn at most until one has several ways; in practice one to three.
const DRAWS_MAX: u32 = 1_000;

impl Random {
    /// Draws the network. The same fields give the same network.
    pub fn build(&self) -> Result<Graph, GraphError> {
        let fewest = match self.ways {
            Ways::One => 2,
            Ways::Several => 3,
        };
        let starts = [
            (*self.routers.start(), fewest),
            (*self.consumers.start(), 1),
            (*self.producers.start(), 1),
            (*self.rate_kbit_per_second.start(), 1),
        ];
        let empty = [
            &self.routers,
            &self.consumers,
            &self.producers,
            &self.rate_kbit_per_second,
            &self.delay_us,
        ];
        let refused = |accepted| {
            let shown = |range: &RangeInclusive<u32>| format!("{}-{}", range.start(), range.end());
            let asked = format!(
                "{} routers, {} consumers, {} producers, {} kbit/s and {} us",
                shown(&self.routers),
                shown(&self.consumers),
                shown(&self.producers),
                shown(&self.rate_kbit_per_second),
                shown(&self.delay_us)
            );
            GraphError::Size { asked, accepted }
        };
        if starts.iter().any(|(start, least)| start < least)
            || empty.iter().any(|range| range.is_empty())
            || self.producers.end() > self.routers.start()
        {
            return Err(refused(
                "each range has a value; at least 2 routers (3 for several paths), 1 consumer, 1 \
                 producer and 1 kbit/s; at most as many producers as routers",
            ));
        }
        let mut rng = Rng::new(self.seed, STREAM);
        for _ in 0..DRAWS_MAX {
            let graph = self.draw(&mut rng)?;
            if self.ways == Ways::One || has_several_ways(&graph)? {
                return Ok(graph);
            }
        }
        Err(refused("these routers give no consumer two paths"))
    }

    fn draw(&self, rng: &mut Rng) -> Result<Graph, GraphError> {
        let mut graph = Graph::new();
        let routers = within(rng, &self.routers) as usize;
        for number in 0..routers {
            graph.add_node(format!("r{number}"))?;
        }
        for number in 1..routers {
            let to = rng.below(number as u32) as usize;
            graph.add_link(self.link(rng, [to, number]))?;
        }
        if self.ways == Ways::Several {
            // A pair that is drawn again is passed over, so there may be fewer.
            for _ in 0..within(rng, &(routers.div_ceil(2) as u32..=routers as u32)) {
                let ends = [rng.below(routers as u32) as usize, rng.below(routers as u32) as usize];
                let link = self.link(rng, ends);
                if graph.check_link(&link).is_ok() {
                    graph.add_link(link)?;
                }
            }
        }
        let producers = within(rng, &self.producers) as usize;
        let mut free: Vec<usize> = (0..routers).collect();
        let mut places = Vec::new();
        for number in 0..producers {
            let place = free.swap_remove(rng.below(free.len() as u32) as usize);
            graph.add_producer(
                format!("p{number}"),
                &format!("r{place}"),
                format!("/p{number}"),
            )?;
            places.push(place);
        }
        for number in 0..within(rng, &self.consumers) {
            let producer = rng.below(producers as u32) as usize;
            // Any router but the producer's, each as likely.
            let drawn = rng.below(routers as u32 - 1) as usize;
            let place = if drawn < places[producer] { drawn } else { drawn + 1 };
            let prefix = format!("/p{producer}");
            graph.add_consumer(format!("c{number}"), &format!("r{place}"), prefix)?;
        }
        Ok(graph)
    }

    fn link(&self, rng: &mut Rng, ends: [usize; 2]) -> Link {
        let rate = u64::from(within(rng, &self.rate_kbit_per_second)) * 1_000;
        let delay = Duration::from_micros(u64::from(within(rng, &self.delay_us)));
        Link::new(ends, Rate::from_bits_per_second(rate), delay)
    }
}

/// A number of a range that is not empty.
fn within(rng: &mut Rng, range: &RangeInclusive<u32>) -> u32 {
    range.start() + rng.below((range.end() - range.start()).saturating_add(1))
}

fn has_several_ways(graph: &Graph) -> Result<bool, GraphError> {
    for consumer in graph.consumers() {
        let routes = Routes::new(graph, &consumer.prefix, Routing::Multi)?;
        if routes.paths(graph, consumer.node, 2).len() > 1 {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::super::Flows;
    use super::*;

    #[test]
    fn drawn_networks_are_whole_and_within_their_ranges() {
        let mut sizes = Vec::new();
        for seed in 0..300 {
            for ways in [Ways::One, Ways::Several] {
                let random = Random { seed, ways, ..Random::default() };
                let graph = random.build().unwrap();
                graph.check().unwrap();
                assert_eq!(graph, random.build().unwrap(), "seed {seed}");
                let within =
                    |range: &RangeInclusive<u32>, count: usize| range.contains(&(count as u32));
                assert!(within(&random.routers, graph.nodes().len()));
                assert!(within(&random.consumers, graph.consumers().len()));
                assert!(within(&random.producers, graph.producers().len()));
                for link in graph.links() {
                    let kbit = link.rates[0].bits_per_second() / 1_000;
                    assert!(within(&random.rate_kbit_per_second, kbit as usize));
                    assert!(within(&random.delay_us, link.delay.as_micros() as usize));
                }
                sizes.push(graph.nodes().len());
            }
        }
        sizes.sort_unstable();
        assert_eq!((sizes[0], sizes[sizes.len() - 1]), (4, 10));
    }

    #[test]
    fn the_knob_decides_between_one_way_and_several() {
        for seed in 0..300 {
            let paths = |ways| {
                let graph = Random { seed, ways, ..Random::default() }.build().unwrap();
                let flows = Flows::new(&graph, Routing::Multi, 0.95, 16).unwrap();
                flows.paths.iter().map(Vec::len).max().unwrap()
            };
            assert_eq!(paths(Ways::One), 1, "seed {seed}");
            assert!(paths(Ways::Several) > 1, "seed {seed}");
        }
    }

    #[test]
    fn enough_drawn_networks_have_joint_bottlenecks_and_enough_have_not() {
        let joint = (0..300)
            .filter(|&seed| {
                let graph = Random { seed, ..Random::default() }.build().unwrap();
                let problem = Flows::new(&graph, Routing::Multi, 0.95, 16).unwrap().problem;
                problem.has_joint_bottlenecks(&problem.multipath().unwrap())
            })
            .count();
        assert!((30..270).contains(&joint), "{joint} of 300");
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for random in [
            Random { routers: 1..=4, ..Random::default() },
            Random { routers: 2..=4, ..Random::default() },
            Random { consumers: 0..=4, ..Random::default() },
            Random { producers: 1..=5, ..Random::default() },
            #[expect(clippy::reversed_empty_ranges, reason = "what is refused")]
            Random { delay_us: 2..=1, ..Random::default() },
            Random { rate_kbit_per_second: 0..=1, ..Random::default() },
        ] {
            let said = random.build().unwrap_err().to_string();
            assert!(said.contains("at least 2 routers"), "{said}");
            assert!(said.starts_with("cannot generate a network with "), "{said}");
        }
    }
}
