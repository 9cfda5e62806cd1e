use super::Key;
use crate::core::field::{fields, wire};

fields! {
    /// How far a message has come on a ring. One byte.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Leg as "leg" {
        /// On its way.
        #[default]
        0 => Way,
        /// The sender believed the receiver to be responsible. Should it not be, the message goes
        /// only to a node nearer to the responsible one, and so cannot go in circles.
        1 => Last,
    }
}

wire!(Leg);

impl Leg {
    /// How far a message has to go on a ring: up to its key from below, and on the last leg back
    /// to it from above.
    pub(super) fn remaining(self, key: Key, at: Key) -> (Key, Key) {
        match self {
            Leg::Way => (Key::from(1), at.clockwise_to(key)),
            Leg::Last => (Key::ZERO, key.clockwise_to(at)),
        }
    }
}
