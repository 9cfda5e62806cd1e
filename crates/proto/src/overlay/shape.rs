use super::config::ConfigError;

/// Longest successor list.
pub(super) const SUCCESSORS_MAX: usize = 16;
/// Most leaves on one side of a leaf set.
pub(super) const LEAVES_MAX: usize = 16;
/// Largest bucket.
pub(super) const BUCKET_MAX: usize = 32;
/// Largest degree of the de Bruijn graph.
pub(super) const DEGREE_MAX: usize = 8;

/// Sizes of routing tables. All nodes of an overlay need the same.
///
/// Larger tables cost memory and upkeep, and bear more failures at a time or make ways shorter.
/// The defaults are those of the published experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Chord and Koorde: length of the successor list. 2 to 16, default 8. The ring bears the
    /// failure of all but one of them at a time (Zave 2017).
    pub successors: u8,
    /// Pastry: nodes of the leaf set, half of them on each side. 2 to 32, even, default 8.
    pub leaf_set: u8,
    /// Kademlia: k, nodes of a bucket. 1 to 32, default 20.
    pub bucket: u8,
    /// Koorde: degree of the de Bruijn graph. 2, 4 or 8, default 2; a way has log2(degree) bits
    /// of the key shifted in at a hop.
    pub degree: u8,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { successors: 8, leaf_set: 8, bucket: 20, degree: 2 }
    }
}

impl Shape {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let out = |knob, value: u8, expected| {
            Err(ConfigError::OutOfRange { knob, value: value.into(), expected })
        };
        if !(2..=SUCCESSORS_MAX as u8).contains(&self.successors) {
            return out("successors", self.successors, "2 to 16");
        }
        let is_even = self.leaf_set.is_multiple_of(2);
        if !is_even || !(2..=2 * LEAVES_MAX as u8).contains(&self.leaf_set) {
            return out("leaf_set", self.leaf_set, "even, 2 to 32");
        }
        if !(1..=BUCKET_MAX as u8).contains(&self.bucket) {
            return out("bucket", self.bucket, "1 to 32");
        }
        if !self.degree.is_power_of_two() || !(2..=DEGREE_MAX as u8).contains(&self.degree) {
            return out("degree", self.degree, "2, 4 or 8");
        }
        Ok(())
    }
}
