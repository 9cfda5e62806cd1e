//! The paper's worked example: five routes of three hops that share their first one and part at
//! the others, run by the protocol over tables made by hand.

use std::sync::Arc;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::figure::Figure;
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::overlay::{
    Algorithm, Command, Config, Event, Hop, Key, Operation, Outcome, Overlay, Router, RouterAction,
    Space, Step, Style, TableQuery, Walk,
};
use paceline_sim::{NetworkConfig, Observer, Reply, Sim, SimConfig};

/// Node A is 0, B is 1, C to E are 2 to 4, F to J are 5 to 9: where each sends what is for F to J.
#[rustfmt::skip]
const NEXT: [[u32; 5]; 10] = [
    [1, 1, 1, 1, 1],
    [2, 2, 3, 3, 4],
    [5, 6, 0, 0, 0],
    [0, 0, 7, 8, 0],
    [0, 0, 0, 0, 9],
    [5, 0, 0, 0, 0],
    [0, 6, 0, 0, 0],
    [0, 0, 7, 0, 0],
    [0, 0, 0, 8, 0],
    [0, 0, 0, 0, 9],
];

/// The table of one node of the example.
struct ByHand {
    space: Space,
    own: NodeId,
}

impl ByHand {
    /// The node that owns a key, counted from F.
    fn place(&self, key: Key) -> usize {
        let is_its = |&last: &u32| self.space.key(NodeId::from(last)) == key;
        (5..10).find(is_its).map_or(0, |last| last as usize - 5)
    }
}

// Distances are as Kademlia's, and messages carry as little.
impl Router for ByHand {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Kademlia
    }

    fn next_hop(&self, key: Key, _: &mut Walk) -> Step {
        let next = NodeId::from(NEXT[self.own.index()][self.place(key)]);
        let hop = if next == self.own { Hop::Here } else { Hop::Via(next) };
        Step { hop, until: key }
    }

    fn candidates(&self, key: Key, walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        if let Hop::Via(next) = self.next_hop(key, walk).hop
            && count > 0
        {
            out.push(next);
        }
    }

    fn replicas(&self, _: Key, _: usize, out: &mut Vec<NodeId>) {
        out.push(self.own);
    }

    fn learn(&mut self, _: NodeId) -> Option<NodeId> {
        None
    }

    fn forget(&mut self, _: NodeId) {}

    fn upkeep(&mut self, _: u64, _: &mut Vec<RouterAction>) {}

    fn answer_query(&self, _: TableQuery, _: &mut Vec<NodeId>) {}

    fn on_answer(&mut self, _: NodeId, _: TableQuery, _: &[NodeId], _: &mut Vec<RouterAction>) {}

    fn on_found(&mut self, _: Key, _: NodeId, _: &mut Vec<RouterAction>) {}

    fn on_notify(&mut self, _: NodeId, _: &mut Vec<RouterAction>) {}

    fn has_joined(&self) -> bool {
        true
    }

    fn contacts(&self, _: &mut Vec<NodeId>) {}

    fn fill(&mut self, _: &[(Key, NodeId)]) {}

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Counts keys that were located where they are.
#[derive(Default)]
struct Located(usize);

impl Observer<Overlay> for Located {
    fn on_event(&mut self, _: Instant, _: NodeId, event: &Event, _: &mut Reply<Overlay>) {
        if let Event::Outcome { outcomes, .. } = event {
            let is_located = |outcome: &&(Key, Outcome)| matches!(outcome.1, Outcome::Located(_));
            self.0 += outcomes.iter().filter(is_located).count();
        }
    }
}

/// Forwardings of the five messages in bundles of this many, and what it took.
fn forwardings(bundle: usize, seed: u64) -> Result<(u64, u64, String), LabError> {
    let space = Space::new(seed);
    let config = Config::new(space).with_algorithm(Algorithm::Kademlia);
    let config = config.with_upkeep_every(None).build();
    let config = config.map_err(|error| LabError::Run(error.to_string()))?;
    let mut sim_config = SimConfig::new(10, seed);
    sim_config.network = NetworkConfig::default();
    let member_config = config.clone();
    let make =
        move |own| Overlay::with_router(&member_config, own, Box::new(ByHand { space, own }));
    let mut sim = Sim::new(sim_config, Arc::new(config), make);
    let keys: Vec<Key> = (5..10).map(|node| space.key(NodeId(node))).collect();
    for (number, keys) in keys.chunks(bundle).enumerate() {
        let at = Instant::ZERO + Duration::from_millis(10 * number as u64);
        let operation = Operation::Locate(keys.to_vec());
        let request = Command::Request { id: number as u64, operation, style: Style::Recursive };
        sim.command_at(at, NodeId(0), request);
    }
    let mut located = Located::default();
    sim.run_until(Instant::ZERO + Duration::from_secs(1), &mut located);
    if located.0 != keys.len() {
        return Err(LabError::Run(format!("{} of 5 keys located", located.0)));
    }
    let forwarded = sim.counters().count("overlay_route");
    Ok((forwarded, sim.events_handled(), sim.digest().to_string()))
}

/// Forwardings of the worked example.
pub(super) fn figure(seed: u64) -> Result<Figure, LabError> {
    let (serial, ..) = forwardings(1, seed)?;
    let (bundled, events, digest) = forwardings(5, seed)?;
    let figure = Figure::new("overlay/worked-example", bundled as f64, "forwardings")
        .with_paper(9.0)
        .with_band(9.0, 9.0)
        .with_note(format!("five routes of three hops: {serial} one by one"));
    let pass = figure.pass && serial == 15;
    let scenario = "overlay/worked-example".to_owned();
    Ok(Figure { pass, scenario, seed, events, digest: Some(digest), ..figure })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_forwardings_become_nine() {
        assert_eq!(forwardings(1, 7).unwrap().0, 15);
        assert_eq!(forwardings(5, 7).unwrap().0, 9);
        assert!(figure(1).unwrap().pass);
    }
}
