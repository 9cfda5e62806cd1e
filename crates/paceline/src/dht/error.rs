use std::path::PathBuf;

use paceline_proto::overlay::{FailReason, RejectReason};
use thiserror::Error;

use super::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Why the file of a durable host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {reason}", file.display())]
pub struct DiskError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// The damaged file of a durable host. The host started with an empty file in its place, and gets
/// from others what they hold copies of.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{} is damaged ({reason}); the host keeps it as {} and starts empty; it recovers records from \
     the copies of other hosts",
    file.display(), kept_as.display()
)]
pub struct DamagedFile {
    /// The file.
    pub file: PathBuf,
    /// Its name now.
    pub kept_as: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Why a request for one key failed.
///
/// - The caller is at fault, and nothing was sent: `Empty`, `TooLong`, `Duplicate`,
///   `ValueTooLarge`, `Expired`.
/// - The table did not do it; an earlier attempt of a write may have taken effect: `OverQuota`,
///   `NoRoute`, `Busy`, `Unsettled`.
/// - The table may have done it: `Unreplicated`, `FewCopies`, `Indeterminate`, `TimedOut`.
/// - Another writer was later, and that write counts: `Superseded`.
/// - This host left or stopped; what was under way may have taken effect: `Left`, `Closed`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The key is empty.
    #[error("the key is empty: it must have 1 to {KEY_BYTES_MAX} bytes")]
    Empty,
    /// The key is too long.
    #[error("the key has {bytes} bytes: it must have 1 to {KEY_BYTES_MAX}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The key occurs twice among keys that are sorted together.
    #[error("the key appears twice among {window} consecutive keys: name it once")]
    Duplicate {
        /// How many are sorted together.
        window: usize,
    },
    /// The value is too large.
    #[error("the value has {bytes} bytes, at most {VALUE_BYTES_MAX} are allowed: split it")]
    ValueTooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The responsible hosts have no room for it.
    #[error("the responsible hosts have no room: add hosts or raise their quota")]
    OverQuota,
    /// Its lifetime is zero.
    #[error("its lifetime is zero")]
    Expired,
    /// Too few hosts stored a copy. A read may still find the value.
    #[error("too few hosts stored a copy; the write may have taken effect: try again")]
    Unreplicated,
    /// Hosts failed, and fewer are left than are required to hold it
    /// ([`DhtBuilder::require_copies`](super::DhtBuilder::require_copies)). It is written on those,
    /// and may be found.
    #[error(
        "stored on too few hosts ({copies}), because others failed: the next failure may lose the \
         value; start more hosts and write it again, or require fewer copies"
    )]
    FewCopies {
        /// On how many hosts it is written.
        copies: usize,
    },
    /// A later write of the key exists.
    #[error("a newer version of the key was already stored")]
    Superseded,
    /// An attempt of a conditional write ([`Dht::put_if`](super::Dht::put_if)) had no reply and may
    /// have taken effect; no later attempt could tell. Read the key to see what is there.
    #[error(
        "not sure whether the value was stored: an attempt had no reply, and no later one could \
         tell; read the key to see what is there"
    )]
    Indeterminate,
    /// No route led to the responsible host.
    #[error("no route to the responsible host: try again once the table has stabilized")]
    NoRoute,
    /// No answer came in time. The operation may have been done.
    #[error("no reply in time; the operation may have taken effect: try again")]
    TimedOut,
    /// The hosts are overloaded.
    #[error("the hosts are overloaded: try again later")]
    Busy,
    /// Membership is changing where the key belongs, or as many hosts have failed as hold each
    /// value, so the answer is uncertain.
    #[error(
        "not sure: hosts near the key have joined or left, or only failed hosts may hold it; try \
         again once the table has stabilized or they are back"
    )]
    Unsettled,
    /// This host is not a member of the table, or is no longer one.
    #[error("this host has left the table")]
    Left,
    /// The service or its host has stopped.
    #[error("the service or its host has stopped")]
    Closed,
}

impl From<FailReason> for KeyError {
    fn from(reason: FailReason) -> KeyError {
        match reason {
            FailReason::NoRoute => KeyError::NoRoute,
            FailReason::TimedOut => KeyError::TimedOut,
            // Checked before, so the table allows less than this library does.
            FailReason::TooLarge => KeyError::ValueTooLarge { bytes: VALUE_BYTES_MAX },
            FailReason::OverQuota => KeyError::OverQuota,
            FailReason::Expired => KeyError::Expired,
            FailReason::Unreplicated => KeyError::Unreplicated,
            FailReason::FewCopies { copies } => KeyError::FewCopies { copies: copies.into() },
            FailReason::Superseded => KeyError::Superseded,
            FailReason::Indeterminate => KeyError::Indeterminate,
            FailReason::Busy => KeyError::Busy,
            FailReason::Unsettled => KeyError::Unsettled,
            FailReason::Left => KeyError::Left,
        }
    }
}

impl From<RejectReason> for KeyError {
    fn from(reason: RejectReason) -> KeyError {
        match reason {
            RejectReason::NotMember => KeyError::Left,
            // The others cannot come from this library.
            _ => KeyError::Busy,
        }
    }
}
