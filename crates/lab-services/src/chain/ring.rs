//! The hops of blocks, counted, and drawn for a report.

use std::collections::{BTreeMap, VecDeque};

use paceline_lab::plot::{Axis, Mark, Plot};
use paceline_proto::chain::{Chain, Message};
use paceline_proto::core::{Instant, Lane, NodeId, Wire};
use paceline_sim::{Input, Observer};

/// Hops kept with their times; further ones are only counted.
const PATH_MAX: usize = 64;
/// Members up to this many are drawn.
const DRAWN_MAX: usize = 32;

/// A block on its way from one member to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// When it was sent.
    pub sent: Instant,
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The block's number at its origin.
    pub seq: u64,
    /// When it arrived; none if it was lost or the run ended before.
    pub came: Option<Instant>,
}

/// The hops that blocks took.
#[derive(Debug, Default)]
pub struct Hops {
    /// Transmissions of blocks.
    pub transmissions: u64,
    /// The first few.
    pub path: Vec<Hop>,
    /// By node: bytes of messages that left it.
    pub uplink_bytes: Vec<u64>,
    // Blocks by sender and receiver, for the first members; empty until the first one.
    links: Vec<u64>,
    // Hops of the path that have not arrived.
    under_way: BTreeMap<(NodeId, NodeId), VecDeque<usize>>,
}

impl Observer<Chain> for Hops {
    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &Message) {
        if self.uplink_bytes.len() <= from.index() {
            self.uplink_bytes.resize(from.index() + 1, 0);
        }
        self.uplink_bytes[from.index()] += message.wire_len() as u64;
        let Message::Data(frame) = message else { return };
        self.transmissions += 1;
        if self.path.len() < PATH_MAX {
            self.under_way.entry((from, to)).or_default().push_back(self.path.len());
            self.path.push(Hop { sent: at, from, to, seq: frame.seq, came: None });
        }
        let (from, to) = (from.index(), to.index());
        if from < DRAWN_MAX && to < DRAWN_MAX {
            self.links.resize(DRAWN_MAX * DRAWN_MAX, 0);
            self.links[from * DRAWN_MAX + to] += 1;
        }
    }

    fn before_call(&mut self, at: Instant, node: NodeId, _: &Chain, input: &Input<'_, Chain>) {
        if self.under_way.is_empty() {
            return;
        }
        let Input::Message { from, message: Message::Data(_) } = input else { return };
        let Some(hops) = self.under_way.get_mut(&(*from, node)) else { return };
        if let Some(hop) = hops.pop_front() {
            self.path[hop].came = Some(at);
        }
        if hops.is_empty() {
            self.under_way.remove(&(*from, node));
        }
    }
}

/// The name of a member where one message is followed: a letter, as the papers have it.
pub fn letter(node: NodeId) -> String {
    match node.0 {
        small @ 0..26 => char::from(b'A' + small as u8).to_string(),
        large => large.to_string(),
    }
}

impl Hops {
    /// The links that were used, and each hop of a run that has few.
    pub fn drawings(&self, nodes: u32) -> Vec<Plot> {
        if nodes as usize > DRAWN_MAX || self.links.is_empty() {
            return Vec::new();
        }
        let is_short = self.transmissions as usize <= PATH_MAX;
        let name = |node: u32| if is_short { letter(NodeId::from(node)) } else { node.to_string() };
        let used = (0..).zip(&self.links).filter(|(_, blocks)| **blocks > 0);
        let drawn = DRAWN_MAX as u32;
        let links: Vec<(u32, u32, u64)> =
            used.map(|(place, &n)| (place / drawn, place % drawn, n)).collect();
        let (least, most) = links
            .iter()
            .fold((u64::MAX, 0), |(low, high), &(.., blocks)| (low.min(blocks), high.max(blocks)));
        let blocks = match least == most {
            true => format!("{most} each"),
            false => format!("{least} to {most} each"),
        };
        let caption = format!(
            "Each arrow leads from a member to one that it sends blocks to: {} links, {} blocks, \
             {blocks}.",
            links.len(),
            self.transmissions
        );
        let ends = links.iter().map(|&(from, to, _)| (from as usize, to as usize));
        let ring = Plot::links("Who forwards to whom", (0..nodes).map(name), ends);
        let mut drawings = vec![ring.with_caption(caption)];
        if is_short {
            drawings.push(self.hop_by_hop(nodes));
        }
        drawings
    }

    fn hop_by_hop(&self, nodes: u32) -> Plot {
        let begun = self.path.first().map_or(Instant::ZERO, |hop| hop.sent);
        let ms = |at: Instant| (at.as_secs_f64() - begun.as_secs_f64()) * 1e3;
        let lane = |node: NodeId| -(node.0 as f64);
        let names = (0..nodes).map(|node| format!("member {}", letter(NodeId::from(node))));
        let ends = self.path.iter().flat_map(|hop| {
            let came = hop.came.map_or(f64::NAN, ms);
            [(ms(hop.sent), lane(hop.from)), (came, lane(hop.to))]
        });
        Plot::lanes("Hop by hop", names, Axis::new("since the first transmission", "ms"))
            .with_layer("", Mark::Arrows, ends)
            .with_caption("Each arrow is one transmission, from its departure to its arrival.")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Broadcast;
    use crate::catalog::CATALOG;
    use paceline_lab::experiment::Experiment;
    use paceline_lab::world::Trial;

    fn titles(name: &str) -> (Vec<String>, usize) {
        let scenario = CATALOG.load(name).unwrap().resolve().unwrap();
        let result = Broadcast::run(&Trial::simulated(&scenario, 1)).unwrap();
        let plots = paceline_lab::report::series_plots(&result.series).len();
        (result.drawings.iter().map(|plot| plot.title.clone()).collect(), plots)
    }

    #[test]
    fn the_first_reports_show_the_ring_and_a_line_over_the_run() {
        let ring = || "Who forwards to whom".to_owned();
        assert_eq!(titles("chain/six"), (vec![ring(), "Hop by hop".to_owned()], 0));
        assert_eq!(titles("chain/ten"), (vec![ring()], 1));
        assert_eq!(titles("chain/faults"), (vec![ring()], 1));
    }

    #[test]
    fn a_short_run_has_a_line_of_many_points_and_its_rate_is_right() {
        let scenario = CATALOG.load("chain/ten").unwrap().resolve().unwrap();
        let result = Broadcast::run(&Trial::simulated(&scenario, 1)).unwrap();
        let of_first: Vec<f64> =
            result.series.iter().filter(|s| s.node == Some(0)).map(|s| s.value).collect();
        assert!(of_first.len() > 20, "{}", of_first.len());
        let throughput = result.summary.iter().find(|metric| metric.metric == "throughput");
        let most = of_first.iter().copied().fold(0.0, f64::max);
        let expected = throughput.unwrap().value;
        assert!(most > 0.7 * expected && most < 2.0 * expected, "{most} beside {expected}");
    }
}
