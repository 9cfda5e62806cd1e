use crate::core::ConfigError;
use crate::core::knobs::knobs;

/// Longest successor list.
pub(super) const SUCCESSORS_MAX: usize = 16;
/// Most leaves on one side of a leaf set.
pub(super) const LEAVES_MAX: usize = 16;
/// Largest bucket.
pub(super) const BUCKET_MAX: usize = 32;
/// Largest degree of the de Bruijn graph.
pub(super) const DEGREE_MAX: usize = 8;

knobs! {
    /// Sizes of routing tables. All nodes of an overlay need the same.
    ///
    /// Larger tables cost memory and upkeep, and tolerate more simultaneous failures or shorten
    /// routes. The defaults are those of the published experiments.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Shape {
        /// Chord and Koorde: length of the successor list. The ring tolerates the simultaneous
        /// failure of all but one of them (Zave 2017).
        pub successors: u8 [nodes] = 8, 2..=SUCCESSORS_MAX as u8;
        /// Pastry: nodes of the leaf set, half of them on each side. An even number.
        pub leaf_set: u8 [nodes] = 8, 2..=2 * LEAVES_MAX as u8;
        /// Kademlia: k, nodes of a bucket.
        pub bucket: u8 [nodes] = 20, 1..=BUCKET_MAX as u8;
        /// Koorde: degree of the de Bruijn graph, a power of two; each hop of a route shifts in
        /// log2(degree) bits of the key.
        pub degree: u8 = 2, 2..=DEGREE_MAX as u8;
    }
    rules: |shape| {
        let (leaves, degree) = (shape.leaf_set, shape.degree);
        ConfigError::unless(leaves.is_multiple_of(2), "leaf_set", leaves, "an even number")?;
        ConfigError::unless(degree.is_power_of_two(), "degree", degree, "2, 4 or 8")
    };
}
