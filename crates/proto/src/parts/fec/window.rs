use std::collections::VecDeque;

use super::{Coefficients, Sum};
use crate::core::Payload;

/// The last packets of a node, of which it makes random linear repairs.
#[derive(Debug)]
pub struct Window<Id> {
    packets: VecDeque<(Id, Payload)>,
    packets_max: usize,
}

impl<Id: Copy> Window<Id> {
    /// An empty window of at most `packets_max` packets, at least 1.
    pub fn new(packets_max: usize) -> Window<Id> {
        let packets_max = packets_max.max(1);
        Window { packets: VecDeque::with_capacity(packets_max), packets_max }
    }

    /// Takes a packet in; the oldest one leaves if there is no room.
    pub fn push(&mut self, id: Id, packet: Payload) {
        if self.packets.len() == self.packets_max {
            self.packets.pop_front();
        }
        self.packets.push_back((id, packet));
    }

    /// Takes the oldest packet out; its name.
    pub fn pop(&mut self) -> Option<Id> {
        self.packets.pop_front().map(|(id, _)| id)
    }

    /// Adds the packets to a sum, times the seed's coefficients, in the order of [`Window::ids`].
    pub fn add_to(&self, sum: &mut Sum, seed: u32) {
        for ((_, packet), coefficient) in self.packets.iter().zip(Coefficients::new(seed)) {
            sum.add_times(packet, coefficient);
        }
    }

    /// The packets' names, the oldest first.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Id> {
        self.packets.iter().map(|(id, _)| *id)
    }

    /// How many packets are in it.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}
