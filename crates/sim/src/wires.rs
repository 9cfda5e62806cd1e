//! The links of a network in which not all pairs of nodes are linked.

use std::time::Duration;

use paceline_proto::core::NodeId;

/// The links of a partly connected network: which nodes are linked, and the delay of each link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wires {
    // By sender: receivers and delays, sorted.
    ends: Vec<Vec<(NodeId, Duration)>>,
}

impl Wires {
    /// No links.
    pub fn new() -> Wires {
        Wires::default()
    }

    /// Lays a link from one node to another and back, of this one-way delay. A later one between
    /// the same nodes replaces it.
    pub fn join(&mut self, one: NodeId, other: NodeId, delay: Duration) {
        self.lay(one, other, delay);
        self.lay(other, one, delay);
    }

    /// The one-way delay from one node to another; none if no link joins them.
    pub fn delay(&self, from: NodeId, to: NodeId) -> Option<Duration> {
        let ends = self.ends.get(from.index())?;
        let place = ends.binary_search_by_key(&to, |&(end, _)| end).ok()?;
        Some(ends[place].1)
    }

    /// The nodes that this one reaches directly, in order.
    pub fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.ends.get(node.index()).into_iter().flatten().map(|&(end, _)| end)
    }

    fn lay(&mut self, from: NodeId, to: NodeId, delay: Duration) {
        if self.ends.len() <= from.index() {
            self.ends.resize_with(from.index() + 1, Vec::new);
        }
        let ends = &mut self.ends[from.index()];
        match ends.binary_search_by_key(&to, |&(end, _)| end) {
            Ok(place) => ends[place].1 = delay,
            Err(place) => ends.insert(place, (to, delay)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_both_ways_and_only_between_its_ends() {
        let mut wires = Wires::new();
        let delay = Duration::from_millis;
        wires.join(NodeId(2), NodeId(0), delay(3));
        wires.join(NodeId(2), NodeId(1), delay(5));
        assert_eq!(wires.delay(NodeId(0), NodeId(2)), Some(delay(3)));
        assert_eq!(wires.delay(NodeId(2), NodeId(1)), Some(delay(5)));
        assert_eq!(wires.delay(NodeId(0), NodeId(1)), None);
        assert_eq!(wires.delay(NodeId(7), NodeId(1)), None);
        assert_eq!(wires.neighbours(NodeId(2)).collect::<Vec<_>>(), [NodeId(0), NodeId(1)]);
    }
}
