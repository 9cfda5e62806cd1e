//! The simulator of each wrapped protocol, compiled here and not again in each test program that
//! runs it, as in `paceline_sim`'s module of this name.

use paceline_proto::core::Protocol;
use paceline_sim::{Around, named_around};

use crate::Wrapped;

enum Wrapping {}

impl Around for Wrapping {
    type Protocol<P: Protocol + 'static> = Wrapped<P>;
}

/// Names the simulators that are compiled here. Nothing calls it.
#[doc(hidden)]
#[inline(never)]
pub fn named_here() {
    named_around::<Wrapping>();
}
