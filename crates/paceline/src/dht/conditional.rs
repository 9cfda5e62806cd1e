//! Values with their versions, and writes that depend on them.

use bytes::Bytes;
use paceline_proto::overlay::{Expect, Outcome, Version};

use super::bulk::{Bulk, Source, Verb, Wanted};
use super::entry::unwrap;
use super::error::KeyError;
use super::{Dht, keys_of};

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// Names the write that stored the value. Each later write of the key has a greater one, as
    /// long as the table remembers the key: until its lifetime is over, and 10 minutes after it was
    /// removed. Its text, `v3.17`, can be parsed.
    pub version: Version,
    /// The value.
    pub value: Bytes,
}

/// What a conditional write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the value may not be stored"]
pub enum PutIfOutcome {
    /// The condition held; the value is stored.
    Stored {
        /// Its version, for the next conditional write.
        version: Version,
        /// Hosts that stored it.
        copies: usize,
    },
    /// The condition did not hold. The value is not stored, and will not be.
    Differs {
        /// The version of the key's value; `None` if the key has no value.
        found: Option<Version>,
    },
}

impl Dht {
    /// Reads the value under a key with its version; `None` if the key has no value.
    ///
    /// # Errors
    /// As [`Dht::get`].
    pub async fn get_versioned(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Versioned>, KeyError> {
        let keys = keys_of([Bytes::copy_from_slice(key.as_ref())]);
        let read = |name: &[u8], outcome| match outcome {
            Outcome::Found { version, value } => {
                Some(unwrap(name, &value).map(|value| Versioned { version, value }))
            }
            Outcome::Absent => Some(None),
            _ => None,
        };
        Bulk::start(self, keys, Verb::Get, read).only().await
    }

    /// Writes a value if the key has no value ([`Expect::Absent`]), or the value of this version
    /// ([`Expect::Version`]). The responsible host compares with the newest record of all hosts
    /// that hold the key; this takes one exchange with them more than [`Dht::put`].
    ///
    /// Of the writes of a key that expect the same version, at most one returns
    /// [`PutIfOutcome::Stored`], as long as one host at a time takes writes of the key. A
    /// table is no consensus: where the network splits the hosts that hold a key, each part can
    /// accept a write; once it is whole the greater version stays. If all hosts that hold a value
    /// fail, an older one or none may be found, as after [`Dht::put`].
    ///
    /// The request is repeated until it is answered, and a repetition gets the answer of the first:
    /// a write whose reply was lost is not refused because of itself. Other programs that write the
    /// key by [`Dht::put`] or remove it are not held up, and change the version.
    ///
    /// # Errors
    /// As [`Dht::put`]. Of the errors, [`KeyError::Unsettled`], [`KeyError::Busy`] and
    /// [`KeyError::NoRoute`] say that nothing was stored. After [`KeyError::Indeterminate`],
    /// [`KeyError::TimedOut`], [`KeyError::Unreplicated`], [`KeyError::OverQuota`] or
    /// [`KeyError::FewCopies`] it may be: read the key.
    pub async fn put_if(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expect: Expect,
    ) -> Result<PutIfOutcome, KeyError> {
        let key = Bytes::copy_from_slice(key.as_ref());
        let value = Bytes::copy_from_slice(value.as_ref());
        let source = Source::Iterator(Box::new(std::iter::once(Wanted { key, value })));
        let read = |_: &[u8], outcome| match outcome {
            Outcome::StoredAs { version, copies } => Some(PutIfOutcome::Stored { version, copies }),
            Outcome::Differs { found } => Some(PutIfOutcome::Differs { found }),
            _ => None,
        };
        Bulk::start(self, source, Verb::PutIf(expect), read).only().await
    }
}
