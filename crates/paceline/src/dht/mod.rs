//! A distributed hash table: values under keys, spread over the hosts of a cluster.
//!
//! Hosts join and leave; each holds a part, and each value is on several. Whoever has many keys
//! asks for them together: they travel as *bundles*, which divide at every hop.
//!
//! What `put` acknowledges is held by as many hosts as [`DhtBuilder::copies`] says (by all there
//! are, while there are fewer). It outlives the loss of all but one of these, if they are not lost
//! within the few seconds in which copies are made anew. With [`DhtBuilder::durable`] each host
//! also writes what it holds to a file, and a value is acknowledged once it is in the files of all
//! its holders: it outlives the sudden end of all of them. With [`DhtBuilder::durable_async`] the
//! file follows the acknowledgement.
//!
//! A host that misses as many failed hosts as hold each value does not call a key absent that they
//! may have held alone: a `get` fails with [`KeyError::Unsettled`], which means *not sure*.

mod builder;
mod bulk;
mod desk;
mod disk;
mod entry;
mod error;
#[cfg(all(test, unix))]
mod failing_disks;
#[cfg(all(test, unix))]
mod faulty_disk;
mod file;
mod handle;
mod head;
mod row;
mod snapshot;
mod storage;

pub use builder::DhtBuilder;
pub use bulk::{KeyResult, Results};
pub use desk::{Deliveries, Delivery};
pub use error::{DamagedFile, DhtError, DiskError, KeyError};
pub use file::{FILE_THREAD, read_file};
pub use handle::{Dht, DhtStat};
pub use paceline_proto::overlay::{Algorithm, Key, Role, Shape, Style};

/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// The largest value, bytes.
pub const VALUE_BYTES_MAX: usize = 63_488;
