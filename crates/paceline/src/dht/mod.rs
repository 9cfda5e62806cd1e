//! A distributed hash table: values under keys, spread over the hosts of a cluster.
//!
//! Hosts join and leave; each holds a part, and each value is on several. Whoever has many keys
//! asks for them together: they travel as *bundles*, which divide at every hop.
//!
//! What `put` acknowledges is held by as many hosts as [`DhtBuilder::copies`] says (by all there
//! are, while there are fewer). It outlives the loss of all but one of these, if they are not lost
//! within the few seconds in which copies are made anew. With [`DhtBuilder::durable`] each host
//! also writes what it holds to a file. The file follows the acknowledgement by as long as the
//! disk takes, usually milliseconds: a value whose holders *all* lose power right after it was
//! acknowledged may be lost, and a file holds what was acknowledged before that.

mod builder;
mod bulk;
mod desk;
mod disk;
mod entry;
mod error;
mod handle;

pub use builder::{Algorithm, DhtBuilder};
pub use bulk::{KeyResult, Results};
pub use desk::{Deliveries, Delivery};
pub use disk::read_file;
pub use error::{DhtError, DiskError, KeyError};
pub use handle::{Dht, DhtStat};
pub use paceline_proto::overlay::{Key, Role, Shape, Style};

/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// The largest value, bytes.
pub const VALUE_BYTES_MAX: usize = 63_488;
