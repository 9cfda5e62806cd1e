//! Faults that a node puts on its own links: delay, loss, partitions, resets, pauses.
//!
//! Nearly all faults act on what this node sends, so a faulty link between two members is
//! configured at both ends. A partition also acts on what it receives, and loss at the end buffer
//! on that alone. The models are the simulator's ([`LinkFaults`], [`EndBuffer`]): on a stream a
//! loss becomes delay and order is kept. Datagrams are delayed by up to a 256th more, so that those
//! of about the same time leave together.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::core::{Copies, EndBuffer, Lane, LinkFaults, LinkState, Loss, NodeId, Rng};

/// A change of what a node emulates.
#[derive(Clone, Debug, PartialEq)]
pub enum EmulateChange {
    /// Faults on the links to these peers, in place of earlier ones.
    Faults {
        /// Whom the links lead to.
        to: Peers,
        /// The faults; [`LinkFaults::default`] removes them.
        faults: LinkFaults,
    },
    /// Exactly these peers are cut off: datagrams are dropped both ways, streams stand still and
    /// keep what they hold. The empty list heals the partition.
    Partition(Vec<NodeId>),
    /// Aborts the connections with this peer, both ways.
    Reset(NodeId),
    /// The node handles nothing for this long, as if its process were stopped. A second pause
    /// replaces the first.
    Pause(Duration),
    /// Drops arriving datagrams at this node's receive buffer, from any sender: messages to the
    /// node and to groups that it has joined. Hellos and other control records pass. Counted as
    /// `emulated_receive_loss`. [`Loss::None`] ends it; a later loss restarts its random draws,
    /// from the node's seed and id alone.
    ReceiveLoss(Loss),
    /// No faults, no partition, no pause, no loss at the end buffer.
    Clear,
}

/// The peers of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// All of them. Replaces what was configured for single ones.
    All,
    /// This one.
    One(NodeId),
}

/// Loss on arrival.
#[derive(Debug)]
pub(crate) struct ReceiveLoss {
    loss: Loss,
    buffer: EndBuffer,
}

impl ReceiveLoss {
    /// This loss at a node; `None` if nothing is lost.
    pub(crate) fn new(loss: Loss, seed: u64, node: NodeId) -> Option<ReceiveLoss> {
        (loss != Loss::None).then(|| ReceiveLoss { loss, buffer: EndBuffer::new(seed, node) })
    }

    /// True if the message that has just arrived is lost.
    pub(crate) fn loses_next(&mut self) -> bool {
        self.buffer.loses(self.loss)
    }
}

/// The faults of a node's links. Exists only while there are faults.
#[derive(Debug)]
pub(crate) struct Emulator {
    all: LinkFaults,
    single: BTreeMap<usize, LinkFaults>,
    // Per peer the state of its two lanes.
    states: BTreeMap<usize, [LinkState; 2]>,
    rng: Rng,
}

impl Emulator {
    fn new(rng: Rng) -> Emulator {
        Emulator {
            all: LinkFaults::default(),
            single: BTreeMap::new(),
            states: BTreeMap::new(),
            rng,
        }
    }

    /// Changes the faults of a node's links. A new emulator is seeded from `rng`. `place` finds the
    /// number by which the emulator knows a peer, if it is known.
    pub(crate) fn change(
        emulator: &mut Option<Box<Emulator>>,
        rng: &mut Rng,
        (to, faults): (Peers, LinkFaults),
        place: impl FnOnce(NodeId) -> Option<usize>,
    ) {
        let changed = emulator.get_or_insert_with(|| {
            let seed = rng.next_u64();
            Box::new(Emulator::new(Rng::new(seed, 0)))
        });
        match to {
            Peers::All => {
                changed.all = faults;
                changed.single.clear();
            }
            Peers::One(node) => {
                if let Some(place) = place(node) {
                    changed.single.insert(place, faults);
                }
            }
        }
        if changed.is_perfect() {
            *emulator = None;
        }
    }

    fn is_perfect(&self) -> bool {
        self.all.is_perfect() && self.single.values().all(LinkFaults::is_perfect)
    }

    /// Forgets a peer that does not return.
    pub(crate) fn forget(&mut self, peer: usize) {
        self.single.remove(&peer);
        self.states.remove(&peer);
    }

    /// The fate of the next message to this peer.
    pub(crate) fn draw(&mut self, peer: usize, lane: Lane) -> Copies {
        let faults = self.single.get(&peer).unwrap_or(&self.all);
        let states = self.states.entry(peer).or_default();
        let state = match lane {
            Lane::Datagram => &mut states[0],
            Lane::Stream => &mut states[1],
        };
        state.draw(faults, lane, &mut self.rng)
    }
}
