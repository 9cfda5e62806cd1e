//! The published example, round by round, and what each link carries: from runs.

use paceline_lab::LabError;
use paceline_lab::figure::Settings;
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::world::Trial;
use paceline_proto::chain::{Frame, Topology};
use paceline_proto::core::Lane;

use super::Broadcast;
use super::ring::{Hop, Hops, letter};
use super::simulated::simulate_one;
use crate::catalog::CATALOG;

const ROUNDS: &str = "The transmissions of each round of the run: two messages of A to four \
    members. These are the published tables.";

const LINKS: &str = "Bytes that each member sends by its link to the switch while A broadcasts, as \
    shares of all. N-1 puts every copy on one link. The chain puts one copy on each link but the \
    last member's.";

/// One run of a scenario, and its hops.
fn hops(name: &str, sets: &[&str], settings: &Settings) -> Result<(Hops, f64), LabError> {
    let scenario = CATALOG.load(name)?.with_sets(sets)?.resolve()?;
    let broadcast = Broadcast::read(&scenario)?;
    let seed = settings.seed.unwrap_or(scenario.seed);
    let (_, _, hops) = simulate_one(&broadcast, &Trial::simulated(&scenario, seed))?;
    let network = &scenario.topology;
    let block = Frame::HEAD_BYTES + broadcast.shared.block_bytes_max();
    let bits = network.overhead.charge(Lane::Stream, block) as f64 * 8.0;
    Ok((hops, bits / network.rate.bits_per_second() as f64))
}

/// The sender, message and receiver of each transfer in each round of a run: `A(m1) --> B || ..`.
pub fn round_by_round(topology: Topology, settings: &Settings) -> Result<Vec<String>, LabError> {
    let topology = format!("topology={topology}");
    let sets = [topology.as_str(), "nodes=4", "blocks=2"];
    let (hops, round_s) = hops("chain/rounds", &sets, settings)?;
    // A block that waits for its sender's port leaves behind what is ahead of it.
    let mut busy_until: Vec<f64> = Vec::new();
    let mut rounds: Vec<Vec<String>> = Vec::new();
    for &Hop { sent: at, from, to, seq, .. } in &hops.path {
        busy_until.resize(busy_until.len().max(from.index() + 1), 0.0);
        let leaves = (at.as_secs_f64() / round_s).max(busy_until[from.index()]);
        busy_until[from.index()] = leaves + 1.0;
        let round = leaves.round() as usize;
        rounds.resize(rounds.len().max(round + 1), Vec::new());
        rounds[round].push(format!("{}(m{}) --> {}", letter(from), seq + 1, letter(to)));
    }
    // What happens at one instant has no order of its own.
    rounds.iter_mut().for_each(|sends| sends.sort());
    Ok(rounds.iter().map(|sends| sends.join(" || ")).collect())
}

/// Each link's share of all bytes sent, with one sender among these many members.
pub fn link_shares(
    topology: Topology,
    nodes: u32,
    settings: &Settings,
) -> Result<Vec<f64>, LabError> {
    let (topology, nodes_set) = (format!("topology={topology}"), format!("nodes={nodes}"));
    let sets = [
        topology.as_str(),
        nodes_set.as_str(),
        "senders=one",
        "duration=150ms",
        "measure.warmup=0s",
    ];
    let (hops, _) = hops("chain/throughput", &sets, settings)?;
    let mut bytes = hops.uplink_bytes;
    bytes.resize(nodes as usize, 0);
    let all: u64 = bytes.iter().sum();
    Ok(bytes.iter().map(|&sent| sent as f64 / all as f64).collect())
}

/// Both, for the report of `reproduce chain`.
pub(super) fn sections(settings: &Settings) -> Result<Vec<Section>, LabError> {
    let mut plots = Vec::new();
    for (name, topology) in [("N-1", Topology::Unicast), ("chain", Topology::Chain)] {
        let rounds = round_by_round(topology, settings)?;
        plots.push(rounds_plot(name, &rounds));
    }
    let members = ["A", "B", "C", "D"];
    let links = Plot::bars("Links of four members, A sends", members, Axis::new("of all", "%"));
    let percent = |shares: Vec<f64>| shares.into_iter().map(|share| 100.0 * share);
    let links = links
        .with_group("N-1", percent(link_shares(Topology::Unicast, 4, settings)?))
        .with_group("chain", percent(link_shares(Topology::Chain, 4, settings)?));
    let section = |heading: &str, text: &str, plots| Section {
        heading: heading.into(),
        text: text.into(),
        plots,
        ..Section::default()
    };
    Ok(vec![section("Round by round", ROUNDS, plots), section("Links", LINKS, vec![links])])
}

/// Arrows between members, and the sends in words below.
fn rounds_plot(name: &str, rounds: &[String]) -> Plot {
    let mut plot = Plot::lanes(format!("Two messages of A, {name}"), ["A", "B", "C", "D"], {
        Axis::new("rounds", "")
    });
    let lane = |member: &str| -> f64 { -f64::from(member.as_bytes()[0] - b'A') };
    for message in ["m1", "m2"] {
        let mut points = Vec::new();
        for (round, sends) in rounds.iter().enumerate() {
            for send in sends.split(" || ").filter(|send| send.contains(message)) {
                let to = send.rsplit(' ').next().unwrap_or("A");
                points.push((round as f64, lane(send)));
                points.push((round as f64 + 1.0, lane(to)));
            }
        }
        plot = plot.with_layer(message, paceline_lab::plot::Mark::Arrows, points);
    }
    let words: Vec<String> =
        (1..).zip(rounds).map(|(round, sends)| format!("Round {round}: {sends}")).collect();
    plot.with_caption(words.join(". ") + ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_of_two_messages_among_four_are_the_published_ones() {
        let rounds = |topology| round_by_round(topology, &Settings::default()).unwrap();
        assert_eq!(
            rounds(Topology::Unicast),
            [
                "A(m1) --> B",
                "A(m1) --> C",
                "A(m1) --> D",
                "A(m2) --> B",
                "A(m2) --> C",
                "A(m2) --> D"
            ]
        );
        assert_eq!(
            rounds(Topology::Chain),
            [
                "A(m1) --> B",
                "A(m2) --> B || B(m1) --> C",
                "B(m2) --> C || C(m1) --> D",
                "C(m2) --> D"
            ]
        );
    }

    #[test]
    fn the_chain_spreads_what_unicast_puts_on_one_link() {
        let shares = |topology| link_shares(topology, 4, &Settings::default()).unwrap();
        let unicast = shares(Topology::Unicast);
        assert!(unicast[0] > 0.99, "{unicast:?}");
        // Three links of four carry a third each; acknowledgements are the rest.
        let chain = shares(Topology::Chain);
        for share in &chain[..3] {
            assert!((0.31..0.35).contains(share), "{chain:?}");
        }
        assert!(chain[3] < 0.02, "{chain:?}");
    }
}
