//! The number of a face, and what an Interest is passed on to.

use crate::parts::slots::SlotId;

/// Names a face for as long as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaceId(pub(super) SlotId);

#[cfg(test)]
impl FaceId {
    /// The id of the first face in this place.
    pub(super) const fn first(place: u32) -> FaceId {
        FaceId(SlotId { place, generation: 0 })
    }
}

/// A source of Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextHop {
    /// A neighbour.
    Face(FaceId),
    /// This node's application.
    Application,
}
