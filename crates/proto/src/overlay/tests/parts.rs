//! What each algorithm promises of a table at any time, and of a message at each hop.

use super::*;

fn distinct(nodes: &[NodeId], own: NodeId) {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), nodes.len(), "{nodes:?}");
    assert!(!nodes.contains(&own), "{own:?} is in its own table");
}

fn rising(space: Space, own: NodeId, nodes: &[NodeId]) {
    let distance = |node: &NodeId| space.key(own).clockwise_to(space.key(*node));
    assert!(nodes.is_sorted_by(|a, b| distance(a) < distance(b)), "{nodes:?}");
}

fn cell(own: Key, key: Key) -> (u32, u8) {
    let row = own.digits_shared(key);
    (row, key.digit(row))
}

fn cells(space: Space, own: NodeId, entries: &[NodeId]) -> Vec<(u32, u8)> {
    let cell = |node: &NodeId| cell(space.key(own), space.key(*node));
    let mut cells: Vec<_> = entries.iter().map(cell).collect();
    cells.dedup();
    cells
}

impl Checked for Chord {
    const ALGORITHM: Algorithm = Algorithm::Chord;

    fn new(space: Space, own: NodeId, shape: Shape) -> Chord {
        Chord::new(space, own, shape)
    }

    fn check_form(&self, space: Space, own: NodeId) {
        distinct(self.successors(), own);
        distinct(self.fingers(), own);
        rising(space, own, self.successors());
        rising(space, own, self.fingers());
        let bits = |node: &NodeId| space.key(own).clockwise_to(space.key(*node)).leading_zeros();
        assert!(self.fingers().is_sorted_by(|a, b| bits(a) > bits(b)), "two of one cell");
    }

    fn check_same(&self, ideal: &Chord, _space: Space, _own: NodeId) {
        assert_eq!(self.successors(), ideal.successors());
        assert_eq!(self.predecessor(), ideal.predecessor());
        assert_eq!(self.fingers(), ideal.fingers());
    }
}

impl Checked for Koorde {
    const ALGORITHM: Algorithm = Algorithm::Koorde;

    fn new(space: Space, own: NodeId, shape: Shape) -> Koorde {
        Koorde::new(space, own, shape)
    }

    fn check_form(&self, space: Space, own: NodeId) {
        distinct(self.successors(), own);
        rising(space, own, self.successors());
        let mut edges = self.edges().to_vec();
        edges.retain(|&node| node != own);
        distinct(&edges, own);
    }

    fn check_same(&self, ideal: &Koorde, _space: Space, _own: NodeId) {
        assert_eq!(self.successors(), ideal.successors());
        assert_eq!(self.predecessor(), ideal.predecessor());
        assert_eq!(self.edges(), ideal.edges());
    }
}

impl Checked for Pastry {
    const ALGORITHM: Algorithm = Algorithm::Pastry;

    fn new(space: Space, own: NodeId, shape: Shape) -> Pastry {
        Pastry::new(space, own, shape)
    }

    fn check_form(&self, space: Space, own: NodeId) {
        let at = space.key(own);
        distinct(self.entries(), own);
        let cell = |node: &NodeId| cell(at, space.key(*node));
        assert!(self.entries().is_sorted_by(|a, b| cell(a) < cell(b)), "a cell has one node");
        // The leaves are the nearest of all known.
        let mut known = Vec::new();
        self.contacts(&mut known);
        known.sort_unstable_by_key(|&node| at.clockwise_to(space.key(node)));
        let count = known.len().min(4);
        let (lower, upper) = self.leaves();
        assert_eq!(upper, &known[..count]);
        known.reverse();
        assert_eq!(lower, &known[..count]);
    }

    fn check_same(&self, ideal: &Pastry, space: Space, own: NodeId) {
        assert_eq!(self.leaves(), ideal.leaves());
        assert_eq!(cells(space, own, self.entries()), cells(space, own, ideal.entries()));
    }
}

impl Checked for Tapestry {
    const ALGORITHM: Algorithm = Algorithm::Tapestry;

    fn new(space: Space, own: NodeId, _: Shape) -> Tapestry {
        Tapestry::new(space, own)
    }

    fn check_form(&self, space: Space, own: NodeId) {
        let at = space.key(own);
        distinct(self.entries(), own);
        let cell = |node: &NodeId| cell(at, space.key(*node));
        assert!(self.entries().is_sorted_by_key(cell));
        for part in self.entries().chunk_by(|a, b| cell(a) == cell(b)) {
            let row = cell(&part[0]).0;
            let alike = 1 + self.entries().iter().filter(|node| cell(node).0 > row).count();
            assert!(part.len() <= 8 || alike < 8, "{} in a cell, {alike} alike", part.len());
        }
    }

    fn check_same(&self, ideal: &Tapestry, space: Space, own: NodeId) {
        // A cell is empty only if no node belongs there, and neighbours are known to the last.
        assert_eq!(cells(space, own, self.entries()), cells(space, own, ideal.entries()));
        let neighbours = |table: &Tapestry| {
            let mut nodes = Vec::new();
            table.replicas(space.key(own), 8, &mut nodes);
            nodes
        };
        assert_eq!(neighbours(self), neighbours(ideal));
    }
}

impl Checked for Kademlia {
    const ALGORITHM: Algorithm = Algorithm::Kademlia;

    fn new(space: Space, own: NodeId, shape: Shape) -> Kademlia {
        Kademlia::new(space, own, shape)
    }

    fn check_form(&self, space: Space, own: NodeId) {
        distinct(self.entries(), own);
        let bucket = |node: &NodeId| (space.key(own) ^ space.key(*node)).leading_zeros();
        assert!(self.entries().is_sorted_by_key(bucket));
        for part in self.entries().chunk_by(|a, b| bucket(a) == bucket(b)) {
            assert!(part.len() <= 20);
        }
    }

    fn check_same(&self, ideal: &Kademlia, space: Space, own: NodeId) {
        let buckets = |table: &Kademlia| {
            let bucket = |node: &NodeId| (space.key(own) ^ space.key(*node)).leading_zeros();
            let mut buckets: Vec<_> = table.entries().iter().map(bucket).collect();
            buckets.dedup();
            buckets
        };
        assert_eq!(buckets(self), buckets(ideal));
    }
}
