use std::collections::BTreeMap;

use bytes::Bytes;
use paceline_proto::ndn::Name;

/// A name as the ledger keeps it: a number of all but its segment, and that.
pub(super) type Key = (u32, u64);

/// No segment.
const NONE: u64 = u64::MAX;

/// Names without segments, each with a number.
#[derive(Debug, Default)]
pub(super) struct Names {
    numbers: BTreeMap<Bytes, u32>,
}

impl Names {
    /// The key of a name that was seen.
    pub(super) fn known(&self, name: &Name) -> Option<Key> {
        let number = self.numbers.get(name.prefix_bytes())?;
        Some((*number, name.segment().unwrap_or(NONE)))
    }

    pub(super) fn key(&mut self, name: &Name) -> Key {
        let prefix = name.prefix_bytes();
        let number = match self.numbers.get(prefix) {
            Some(&number) => number,
            None => {
                let number = self.numbers.len() as u32;
                // Not the packet that the name came in.
                self.numbers.insert(Bytes::copy_from_slice(prefix), number);
                number
            }
        };
        (number, name.segment().unwrap_or(NONE))
    }
}
