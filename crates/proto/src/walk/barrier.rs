//! Messages beside walkers between servers that walk in supersteps.

use crate::core::field::fields;

fields! {
    /// A message of the barrier between two supersteps.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Barrier {
        /// To the coordinator: the sender has all walkers for the superstep after this one.
        0 => Ready {
            /// The superstep that is complete at the sender; 0 before the first one.
            superstep: u32,
            /// Walks of the sender's own job that are not done.
            left: u64,
        },
        /// From the coordinator: all servers begin this superstep.
        1 => Go {
            /// The superstep.
            superstep: u32,
        },
        /// To each other server: the sender has served its walkers. All that leave it for the
        /// receiver were sent before, on the same stream.
        2 => Sent {
            /// The superstep.
            superstep: u32,
            /// How many walkers that were, without ended walks.
            walkers: u64,
        },
    }
}
