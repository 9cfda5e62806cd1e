//! A drawing of how one bundle spreads: every message into which it is divided.

use paceline_lab::plot::{Axis, Mark, Plot};
use paceline_proto::core::{Instant, Lane, NodeId};
use paceline_proto::overlay::{Body, Message, Overlay, Purpose, Space};
use paceline_sim::Observer;

use super::{Action, Grouping, Plan};

/// Messages that are kept; a drawing of more would show nothing.
const KEPT_MAX: usize = 2_000;

/// Watches the bundles of a run.
pub struct Tree {
    space: Space,
    // Messages, and ends of targets, that are kept.
    kept_max: usize,
    // By time: hops made before, from, to, targets.
    hops: Vec<(Instant, u8, NodeId, NodeId, usize)>,
    // Where targets ended, and after how many hops.
    ends: Vec<(Instant, NodeId)>,
}

impl Tree {
    /// An empty tree. It records hops only if it will be drawn.
    pub fn new(space: Space, is_drawn: bool) -> Tree {
        let kept_max = if is_drawn { KEPT_MAX } else { 0 };
        Tree { space, kept_max, hops: Vec::new(), ends: Vec::new() }
    }

    fn place(&self, node: NodeId) -> f64 {
        let key = self.space.key(node).to_bytes();
        let first = u32::from_be_bytes([key[0], key[1], key[2], key[3]]);
        f64::from(first) / (f64::from(u32::MAX) + 1.0)
    }

    /// One drawing for each grouping in which keys are got.
    pub fn drawings(&self, plan: &Plan, ttl: u8) -> Vec<Plot> {
        let gets = plan.phases.iter().enumerate().filter(|(_, p)| p.action == Action::Get);
        let drawn = gets.map(|(number, phase)| {
            let from = Instant::ZERO + phase.begins;
            let until = plan
                .phases
                .get(number + 1)
                .map_or(Instant::MAX, |next| Instant::ZERO + next.begins);
            let within = |at: Instant| at >= from && at < until;
            let hops: Vec<_> = self.hops.iter().filter(|hop| within(hop.0)).collect();
            let ends = self.ends.iter().filter(|end| within(end.0));
            let title = match phase.grouping {
                Grouping::Serial => "One by one".to_owned(),
                grouping => format!("One bundle, {}", grouping.name()),
            };
            let x = Axis::new("hops", "");
            let y = Axis::new("position on the ring", "").with_range(0.0, 1.0);
            let arrows = hops.iter().flat_map(|&&(_, left, from, to, _)| {
                let made = f64::from(ttl.saturating_sub(left));
                [(made, self.place(from)), (made + 1.0, self.place(to))]
            });
            // A node may be reached after several numbers of hops: the last one is drawn.
            let reached = |node: NodeId| {
                let here = hops.iter().filter(|hop| hop.3 == node);
                here.map(|hop| f64::from(ttl.saturating_sub(hop.1)) + 1.0).fold(0.0, f64::max)
            };
            let ends: Vec<(f64, f64)> =
                ends.map(|&(_, node)| (reached(node), self.place(node))).collect();
            let caption = format!("{} keys, {} messages.", plan.keys.len(), hops.len());
            Plot::new(title, x, y)
                .with_layer("a message", Mark::Arrows, arrows)
                .with_layer("keys end here", Mark::Points, ends)
                .with_caption(caption)
        });
        drawn.collect()
    }
}

impl Observer<Overlay> for Tree {
    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &Message) {
        match &message.body {
            Body::Route(route)
                if route.purpose == Purpose::Get && self.hops.len() < self.kept_max =>
            {
                self.hops.push((at, route.ttl, from, to, route.targets.len()));
            }
            // Others are upkeep's.
            Body::Result { .. }
                if self.ends.len() < self.kept_max
                    && self.hops.iter().any(|hop| hop.0 <= at && hop.3 == from) =>
            {
                self.ends.push((at, from));
            }
            _ => {}
        }
    }
}
