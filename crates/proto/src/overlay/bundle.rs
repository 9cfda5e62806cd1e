//! How a bundle is divided: by next hop, and to fit a message.

use std::sync::Arc;

use super::message::Target;
use super::{Hop, Key, Router};
use crate::core::NodeId;

/// What a node makes of a bundle: each target is in exactly one part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// Targets that end here.
    pub here: Option<Arc<[Target]>>,
    /// The widest known range of keys that ends here.
    pub range: Option<(Key, Key)>,
    /// Targets that go on, by next hop, in the order of the first target of each.
    pub onward: Vec<(NodeId, Arc<[Target]>)>,
    /// Look-ups in the table that it took.
    pub lookups: u64,
}

/// Divides the bundle. One look-up serves all targets up to where its answer holds.
///
/// Collective forwarding: Shudo, *Message Bundling on Structured Overlays*, ISCC 2017.
pub(super) fn split(router: &dyn Router, targets: &Arc<[Target]>) -> Split {
    let mut split = Split { here: None, range: None, onward: Vec::new(), lookups: 1 };
    let first = targets[0];
    let last = targets[targets.len() - 1].key;
    let mut before = first.walk;
    let mut after = before;
    let mut step = router.next_hop(first.key, &mut after);
    // The common case needs no memory: all go the same way.
    if last <= step.until && targets.iter().all(|target| target.walk == before) {
        match step.hop {
            Hop::Here => {
                split.range = Some((first.key, step.until));
                split.here = Some(targets.clone());
            }
            Hop::Via(next) if after == before => split.onward.push((next, targets.clone())),
            Hop::Via(next) => {
                let walked = targets.iter().map(|target| Target { walk: after, ..*target });
                split.onward.push((next, walked.collect()));
            }
        }
        return split;
    }
    let mut groups: Vec<(Hop, Vec<Target>)> = vec![(step.hop, Vec::new())];
    let mut group = 0;
    let mut begun = first.key;
    for (place, target) in targets.iter().enumerate() {
        if place > 0 && (target.key > step.until || target.walk != before) {
            (before, after) = (target.walk, target.walk);
            step = router.next_hop(target.key, &mut after);
            split.lookups += 1;
            begun = target.key;
            group = match groups.iter().position(|(hop, _)| *hop == step.hop) {
                Some(group) => group,
                None => {
                    groups.push((step.hop, Vec::new()));
                    groups.len() - 1
                }
            };
        }
        if step.hop == Hop::Here {
            let width = begun.clockwise_to(step.until);
            if split.range.is_none_or(|(from, to)| width > from.clockwise_to(to)) {
                split.range = Some((begun, step.until));
            }
        }
        groups[group].1.push(Target { walk: after, ..*target });
    }
    for (hop, targets) in groups {
        match hop {
            Hop::Here => split.here = Some(targets.into()),
            Hop::Via(next) => split.onward.push((next, targets.into())),
        }
    }
    split
}

/// Cuts a list into pieces of at most `items_max` items and `bytes_max` bytes, each as full as can
/// be. An item that exceeds `bytes_max` is a piece of its own.
pub(super) fn pieces<T>(
    items: &[T],
    items_max: usize,
    bytes_max: usize,
    bytes_of: impl Fn(&T) -> usize,
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let (mut to, mut bytes) = (from, 0);
        while to < items.len() && to - from < items_max {
            bytes += bytes_of(&items[to]);
            if to > from && bytes > bytes_max {
                break;
            }
            to += 1;
        }
        let piece = from..to;
        from = to;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The bytes of a target in a message.
pub(super) fn target_bytes(target: &Target) -> usize {
    Key::BYTES + target.walk.wire_len()
}
