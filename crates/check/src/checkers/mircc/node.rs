use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::mircc::{Config, FaceConfig, Setup};
use paceline_proto::ndn::{Data, Name, Stamps};

use super::asks::Asks;
use super::flow::Flow;
use super::link::Link;
use super::names::{Key, Names};
use super::{Broken, LIFETIME_MAX, Node, Rule};

/// What is known of a node in its present life.
#[derive(Debug, Default)]
pub(super) struct NodeLedger {
    pub(super) links: BTreeMap<NodeId, Link>,
    pub(super) asks: Asks,
    pub(super) flows: BTreeMap<u64, Flow>,
    /// Names of Interests that longer ones answer.
    prefixes: BTreeSet<Key>,
    pub(super) is_down: bool,
    /// Until then entries may live for the node's own Interests.
    own_until: Instant,
    /// It stood still until then: what it owes could not be done sooner.
    pub(super) stood_until: Instant,
}

impl NodeLedger {
    pub(super) fn new(setup: &Setup) -> NodeLedger {
        let links = setup.faces.iter().map(|&(peer, face)| (peer, Link::new(face)));
        NodeLedger { links: links.collect(), ..NodeLedger::default() }
    }

    pub(super) fn add_face(&mut self, at: Instant, peer: NodeId, face: FaceConfig) {
        self.remove_face(at, peer);
        self.links.insert(peer, Link::new(face));
    }

    pub(super) fn remove_face(&mut self, at: Instant, peer: NodeId) {
        self.links.remove(&peer);
        self.asks.forget(at, peer);
    }

    /// Longer names are an answer to this one too.
    pub(super) fn note_prefix(&mut self, key: Key) {
        self.prefixes.insert(key);
    }

    /// The names by which this one may have been asked for.
    pub(super) fn keys(&self, names: &Names, name: &Name, key: Key) -> Vec<Key> {
        let mut keys = vec![key];
        if !self.prefixes.is_empty() {
            let shorter = (0..=name.component_count()).map(|count| name.truncated(count));
            let shorter = shorter.filter_map(|name| names.known(&name));
            keys.extend(shorter.filter(|&of| of != key && self.prefixes.contains(&of)));
        }
        keys
    }

    /// Data leaves for a neighbour with these stamps. `may_be_here`: it need not have come.
    pub(super) fn give_data(
        &mut self,
        names: &Names,
        (data, key): (&Data, Key),
        peer: NodeId,
        stamps: Stamps,
        may_be_here: bool,
    ) -> Result<(), Broken> {
        let keys = self.keys(names, data.name(), key);
        let mut found = Err((Rule::Balance, String::new()));
        for key in keys {
            found = self.asks.answer((key, peer), "Data");
            if found.is_ok() {
                break;
            }
        }
        let bound = found.map_err(|(rule, what)| (rule, format!("{what}: {}", data.name())))?;
        for (stamp, bound) in [
            (stamps.primary_bits_per_second, bound.map(|bound| bound.0)),
            (stamps.secondary_bits_per_second, bound.map(|bound| bound.1)),
        ] {
            let is_right = match bound {
                _ if stamp == Stamps::NONE => bound.is_none_or(|rate| rate == stamp) || may_be_here,
                Some(bound) => stamp > 0 && stamp <= bound,
                None => false,
            };
            if !is_right {
                let what = format!("stamps {stamp} on {}, at most {bound:?}", data.name());
                return Err((Rule::Rate, what));
            }
        }
        Ok(())
    }

    /// It asks something itself.
    pub(super) fn note_own(&mut self, at: Instant) {
        self.own_until = at + LIFETIME_MAX * 2;
    }

    /// The node as it is.
    pub(super) fn check<P: Node>(
        &mut self,
        at: Instant,
        node: &P,
        config: &Config,
    ) -> Result<(), Broken> {
        let forwarder = node.forwarder();
        let mut faces = 0;
        for face in forwarder.faces() {
            faces += 1;
            let Some(link) = self.links.get_mut(&face.peer) else {
                return Err((Rule::Counts, format!("has a face to {}", face.peer)));
            };
            link.check(at, &face, config)?;
        }
        if faces != self.links.len() {
            let what = format!("has {faces} faces, not {}", self.links.len());
            return Err((Rule::Counts, what));
        }
        let pending = forwarder.pending();
        if pending > config.pending_max {
            let what = format!("{pending} Interests pending, at most {}", config.pending_max);
            return Err((Rule::Balance, what));
        }
        if !self.flows.is_empty() {
            self.note_own(at);
        }
        let entries = self.asks.entries();
        // The node's own entries have ended by then, too.
        if pending > entries && at > self.stood_until.max(self.own_until) {
            let what = format!("{pending} Interests pending, not {entries}");
            return Err((Rule::Balance, what));
        }
        let (bytes, budget) = (forwarder.memory_bytes(), self.budget(config));
        if bytes > budget {
            return Err((Rule::Memory, format!("{bytes} bytes held, at most {budget}")));
        }
        Ok(())
    }

    /// Bytes that a node may hold.
    fn budget(&self, config: &Config) -> usize {
        // Of an entry, twice, as tables grow by doubling; of nonces, eight for each.
        let pending = config.pending_max.next_power_of_two() * 2 * (768 + 64);
        let links = self
            .links
            .values()
            .map(|link| link.queue_bytes_max() + config.shaper.queue_max * 512 + 4_096);
        (64 << 10) + pending + config.store_bytes_max + links.sum::<usize>()
    }
}
