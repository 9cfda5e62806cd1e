//! The hops of a broadcast carry each block once, and again only after the stream broke.

use std::collections::{BTreeMap, VecDeque};

use paceline_proto::chain::{Frame, Topology};

/// A block on its way from one member to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    pub(super) origin: u32,
    pub(super) seq: u64,
    topology: Topology,
    hops_left: u32,
}

impl From<&Frame> for Passage {
    fn from(frame: &Frame) -> Passage {
        let Frame { origin, seq, topology, hops_left, .. } = *frame;
        Passage { origin, seq, topology, hops_left }
    }
}

impl Passage {
    /// What is wrong with a block that goes from rank `from` to rank `to` in a view of `members`.
    /// Each hop decrements the hops that are left, so a block makes at most N - 1 hops.
    pub(super) fn wrong(&self, members: usize, from: usize, to: usize) -> Option<&'static str> {
        let origin = self.origin as usize;
        if origin >= members {
            return Some("of an origin that is no member");
        }
        let travelled = match self.topology {
            _ if from == origin => 0,
            Topology::Chain => (from + members - origin) % members,
            _ => 1,
        };
        if self.hops_left as usize + travelled + 2 > members {
            Some("with more hops left than members to go to")
        } else if origin == to {
            Some("returned to its origin")
        } else {
            None
        }
    }
}

/// What one hop carried in a view.
#[derive(Debug, Default)]
pub(super) struct Hop {
    next_link: u64,
    // After a break: link numbers from here on may be sent once more.
    resend_from: Option<u64>,
    // By origin: the blocks that the hop carried, from the first that was not freed on.
    carried: BTreeMap<u32, (u64, VecDeque<bool>)>,
}

impl Hop {
    /// The stream is up again, whatever it lost.
    pub(super) fn resume(&mut self) {
        self.resend_from = Some(0);
    }

    /// Notes a link number. True if it is a new one.
    pub(super) fn note_link(&mut self, link: u64) -> Result<bool, String> {
        let next = self.next_link;
        if link == next {
            // What is sent again comes before anything new.
            self.resend_from = None;
            self.next_link += 1;
            return Ok(true);
        }
        if link > next || self.resend_from.is_none_or(|first| link < first) {
            return Err(format!("where {next} is next, and the hop did not break"));
        }
        self.resend_from = Some(link + 1);
        Ok(false)
    }

    /// True if the hop carries this block for the first time. Blocks below `freed` are with every
    /// member, and the hop carried them.
    pub(super) fn is_first(&mut self, origin: u32, seq: u64, freed: u64) -> bool {
        let (base, carried) = self.carried.entry(origin).or_default();
        while *base < freed && carried.pop_front().is_some() {
            *base += 1;
        }
        *base = freed.max(*base);
        let Some(place) = seq.checked_sub(*base) else {
            return false;
        };
        let place = place as usize;
        if place >= carried.len() {
            carried.resize(place + 1, false);
        }
        !std::mem::replace(&mut carried[place], true)
    }
}
