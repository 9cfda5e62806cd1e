//! The last packets of senders that left a group, or whose group this member left.

use std::collections::BTreeMap;

use super::flow::Source;
use crate::core::{GroupId, NodeId};

/// The positions of senders when their flows ended. A sender that returns in the same incarnation
/// continues from there: no packet is reported twice, and no number is used twice.
///
/// It holds the flows that ended last, at most
/// [`Config::with_flows_max`](super::Config::with_flows_max).
#[derive(Debug, Default)]
pub(super) struct Parted {
    ends: BTreeMap<(GroupId, NodeId), End>,
    by_age: BTreeMap<u64, (GroupId, NodeId)>,
    /// How many ended so far.
    ended: u64,
}

#[derive(Clone, Copy, Debug)]
struct End {
    incarnation: u64,
    next: u64,
    age: u64,
}

impl Parted {
    /// A flow ends: all packets before `next` were reported. Keeps at most `most` flows.
    pub(super) fn note(&mut self, source: &Source, next: u64, most: usize) {
        let Some(incarnation) = source.incarnation else { return };
        let key = (source.group, source.sender);
        let end = End { incarnation, next, age: self.ended };
        self.ended += 1;
        if let Some(before) = self.ends.insert(key, end) {
            self.by_age.remove(&before.age);
        }
        self.by_age.insert(end.age, key);
        while self.ends.len() > most {
            let Some((_, oldest)) = self.by_age.pop_first() else { return };
            self.ends.remove(&oldest);
        }
    }

    /// The incarnation of a sender that left, and the number after its last reported packet.
    pub(super) fn of(&self, group: GroupId, sender: NodeId) -> Option<(u64, u64)> {
        self.ends.get(&(group, sender)).map(|end| (end.incarnation, end.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_ended_are_known_and_no_more_than_so_many() {
        let mut parted = Parted::default();
        let of = |node| Source { group: GroupId(1), sender: NodeId(node), incarnation: Some(9) };
        for (node, next) in [(0, 10), (1, 20), (0, 11), (2, 30)] {
            parted.note(&of(node), next, 2);
        }
        parted.note(&Source { incarnation: None, ..of(3) }, 40, 2);
        let known = [0, 1, 2, 3].map(|node| parted.of(GroupId(1), NodeId(node)));
        assert_eq!(known, [Some((9, 11)), None, Some((9, 30)), None]);
        assert_eq!(parted.of(GroupId(2), NodeId(0)), None);
        assert_eq!(parted.by_age.len(), 2);
    }
}
