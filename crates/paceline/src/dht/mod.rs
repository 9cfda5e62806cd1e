//! A distributed hash table: values under keys, spread over the hosts of a cluster.
//!
//! Hosts join and leave; each holds a part, and each value has copies on several. Requests for many
//! keys at once travel as *bundles*, which divide at every hop.
//!
//! Each value that `put` acknowledges has as many copies as [`DhtBuilder::copies`] says (one on
//! every host, while there are fewer hosts). It survives the loss of all but one of its holders,
//! unless they fail within the few seconds in which the others make new copies. With
//! [`DhtBuilder::durable`] each host also writes what it holds to a file, and a value is
//! acknowledged once it is in the files of all its holders: it survives the sudden end of all of
//! them. With [`DhtBuilder::durable_async`] the file follows the acknowledgement.
//!
//! A value that several programs change is written with [`Dht::put_if`], which compares its version
//! first; [`Dht::get_versioned`] reads it.
//!
//! [`Dht::scan`] reads all entries, and [`Dht::hosts`] asks all hosts what they hold.
//!
//! When as many hosts have failed as hold each value, values may be missing with them. A `get` for
//! a key that they may have held alone then fails with [`KeyError::Unsettled`]: the answer is
//! uncertain.

mod builder;
mod bulk;
mod conditional;
mod disk;
mod entry;
mod error;
#[cfg(all(test, unix))]
mod failing_disks;
#[cfg(all(test, unix))]
mod faulty_disk;
mod file;
mod head;
mod replies;
mod row;
mod scan;
mod snapshot;
mod storage;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Closed, Node, Stats};
use paceline_proto::core::NodeId;
use paceline_proto::overlay::{Command, Operation, Outcome, Overlay, Space};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use bulk::{Bulk, Source, Verb, Wanted};
use entry::{place, unwrap};
use replies::{DhtReply, PendingReplies, Phase};

use crate::leaving::{LeaveError, Leaving, depart};
use crate::status::{Attached, Described, Describing, Standing};

pub use builder::DhtBuilder;
pub use bulk::{KeyResult, Results};
pub use conditional::{PutIfOutcome, Versioned};
pub use error::{DamagedFile, DiskError, KeyError};
pub use file::{FILE_THREAD, read_file};
pub use paceline_proto::overlay::{
    Algorithm, Expect, InvalidKey, InvalidVersion, Key, Role, Shape, Style, Version,
};
pub use replies::{Deliveries, Delivery};
pub use scan::{HostStat, Hosts, Scan, ScanEntry};

/// The longest key, bytes.
pub const KEY_BYTES_MAX: usize = 512;
/// The largest value, bytes.
pub const VALUE_BYTES_MAX: usize = 63_488;

/// A host's part of a table, or a client's view of it. Clones are of the same; when the last one
/// is dropped the service ends without leaving.
#[derive(Clone)]
pub struct Dht {
    shared: Arc<Shared>,
    // Of the values that this handle writes.
    lifetime: Duration,
}

/// The state of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DhtStat {
    /// Its role in the table.
    pub role: Role,
    /// Other hosts that it knows.
    pub contacts: usize,
    /// True if the host's neighbours have been the same for some seconds, and fewer failed hosts
    /// are missing than hold each value. Until then it does not answer that a key is absent; such
    /// reads wait. It accepts writes once its neighbours are the same.
    pub is_settled: bool,
    /// Failed hosts near it that are neither back nor replaced.
    pub missing: usize,
    /// Values that it holds.
    pub values: usize,
    /// Bytes of these values, with 20 for each key.
    pub bytes: usize,
}

/// How this host asks.
#[derive(Clone, Copy, Debug)]
struct Settings {
    /// `None` for the default of the role: recursive for a member, iterative for a client.
    style: Option<Style>,
    bundle: usize,
    window: usize,
    lifetime: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        let lifetime = Duration::from_secs(30 * 24 * 3600);
        Settings { style: None, bundle: 64, window: 1024, lifetime }
    }
}

struct Shared {
    node: Arc<Node<Overlay>>,
    replies: Arc<PendingReplies>,
    id: NodeId,
    // Where hosts lie.
    space: Space,
    settings: Settings,
    permits: Arc<Semaphore>,
    damaged: Option<DamagedFile>,
    numbers: AtomicU64,
    leave_within: Duration,
}

/// A table's host, as the host knows it that runs it.
struct Registered(Weak<Shared>);

impl Attached for Registered {
    fn describe(&self) -> Describing<'_> {
        Box::pin(async {
            let stat = self.0.upgrade()?.stat().await.ok()?;
            let is_settled = stat.is_settled;
            let standing = if is_settled { Standing::Member } else { Standing::Unsettled };
            let counts = vec![
                ("values", stat.values as u64),
                ("bytes", stat.bytes as u64),
                ("contacts", stat.contacts as u64),
                ("missing", stat.missing as u64),
            ];
            Some(Described { standing, counts, ..Described::default() })
        })
    }

    fn leave(&self) -> Leaving<'_> {
        Box::pin(async { self.0.upgrade().ok_or(LeaveError::Closed)?.leave().await })
    }
}

impl Shared {
    /// The state of this host.
    async fn stat(&self) -> Result<DhtStat, Closed> {
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        let description = self.replies.expect_description(id);
        self.node.command(Command::Describe { id })?;
        description.await.map_err(|_| Closed)
    }

    async fn leave(&self) -> Result<(), LeaveError> {
        let left = depart(&self.node, self.leave_within).await;
        match self.stop().await {
            Some(error) => Err(error.into()),
            None => left,
        }
    }

    async fn stop(&self) -> Option<DiskError> {
        self.node.stop().await;
        self.ended().await
    }

    async fn ended(&self) -> Option<DiskError> {
        let mut phase = self.replies.phase();
        let is_over = |phase: &Phase| matches!(phase, Phase::Ended(_));
        match phase.wait_for(is_over).await.as_deref() {
            Ok(Phase::Ended(failed)) => failed.clone(),
            _ => None,
        }
    }

    /// Sends a request; `reply_to` receives the outcomes of its keys.
    pub fn ask(
        &self,
        operation: Operation,
        keys: usize,
        permit: OwnedSemaphorePermit,
        reply_to: &mpsc::UnboundedSender<(u64, DhtReply)>,
    ) -> u64 {
        let id = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.replies.expect(id, keys, permit, reply_to.clone());
        // If the node has stopped, the replies end.
        let style = self.settings.style.unwrap_or(Style::Recursive);
        let _ = self.node.command(Command::Request { id, operation, style });
        id
    }
}

impl Dht {
    fn new(shared: Shared) -> Dht {
        let lifetime = shared.settings.lifetime;
        Dht { shared: Arc::new(shared), lifetime }
    }

    /// What the host knows of the table, without keeping it.
    fn registered(&self) -> Arc<dyn Attached> {
        Arc::new(Registered(Arc::downgrade(&self.shared)))
    }

    /// The same host with another lifetime of the values that it writes, in place of
    /// [`DhtBuilder::lifetime`]: for one call, `dht.with_lifetime(time).put(key, value)`. 1 ms to
    /// 30 days; longer ones are reduced to 30 days, and a write with a shorter one fails with
    /// [`KeyError::Expired`]. Once its time is over a value is absent, and a value that is written
    /// again has the lifetime of the last write.
    #[must_use]
    pub fn with_lifetime(&self, time: Duration) -> Dht {
        Dht { shared: self.shared.clone(), lifetime: time }
    }

    /// Writes a value. Returns the number of hosts that stored it.
    ///
    /// # Errors
    /// If key or value have the wrong size; if it cannot be written, as the error says.
    pub async fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<usize, KeyError> {
        let key = Bytes::copy_from_slice(key.as_ref());
        let value = Bytes::copy_from_slice(value.as_ref());
        self.put_all([(key, value)]).only().await
    }

    /// Reads the value under a key; `None` if the key has no value.
    ///
    /// # Errors
    /// If the key has the wrong size, or the answer could not be had.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Bytes>, KeyError> {
        self.get_all([Bytes::copy_from_slice(key.as_ref())]).only().await
    }

    /// Removes what is under a key, if there is anything.
    ///
    /// # Errors
    /// If the key has the wrong size, or the removal is not known to have been done.
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.remove_all([Bytes::copy_from_slice(key.as_ref())]).only().await
    }

    /// Writes many values, in bundles. Results come in any order, each with its place in the input.
    /// The input is read no faster than results are, and the backlog is bounded. If a key occurs
    /// twice within the window, the second is refused; further apart, the later one is written
    /// later. Dropping the results ends it.
    ///
    /// The iterator must not block; for files there is [`Dht::put_all_from`].
    pub fn put_all<I>(&self, entries: I) -> Results<usize>
    where
        I: IntoIterator<Item = (Bytes, Bytes), IntoIter: Send + 'static>,
    {
        let wanted = |(key, value)| Wanted { key, value };
        self.start_put(Source::Iterator(Box::new(entries.into_iter().map(wanted))))
    }

    /// Like [`Dht::put_all`], with entries from a channel. After a millisecond without input, the
    /// incomplete window is sent.
    pub fn put_all_from(&self, entries: mpsc::Receiver<(Bytes, Bytes)>) -> Results<usize> {
        self.start_put(Source::Entries(entries))
    }

    /// Reads many values, in bundles; `None` for absent keys. Otherwise as [`Dht::put_all`].
    pub fn get_all<I>(&self, keys: I) -> Results<Option<Bytes>>
    where
        I: IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
    {
        self.start_get(keys_of(keys))
    }

    /// Like [`Dht::get_all`], with keys from a channel.
    pub fn get_all_from(&self, keys: mpsc::Receiver<Bytes>) -> Results<Option<Bytes>> {
        self.start_get(Source::Keys(keys))
    }

    /// Removes many values, in bundles. Otherwise as [`Dht::put_all`].
    pub fn remove_all<I>(&self, keys: I) -> Results<()>
    where
        I: IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
    {
        Bulk::start(self, keys_of(keys), Verb::Remove, |_, outcome| match outcome {
            Outcome::Removed => Some(()),
            _ => None,
        })
    }

    /// Delivers a payload to the hosts that are responsible for keys, bundled: once for each key,
    /// along one tree for each bundle. A host that is reached over several branches of a tree, or
    /// by several bundles, gets a delivery from each, with other keys. The results come in any
    /// order, each with its place in the input: a key has succeeded once its host has passed the
    /// payload to its readers, if it has any ([`Dht::deliveries`]). Otherwise as
    /// [`Dht::put_all`]. At most 63,488 bytes.
    ///
    /// Shudo, *Message Bundling on Structured Overlays*, ISCC 2017, names multicast as a use of
    /// collective forwarding.
    pub fn send_all<I>(&self, keys: I, payload: Bytes) -> Results<()>
    where
        I: IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
    {
        self.start_send(keys_of(keys), payload)
    }

    /// Like [`Dht::send_all`], with keys from a channel.
    pub fn send_all_from(&self, keys: mpsc::Receiver<Bytes>, payload: Bytes) -> Results<()> {
        self.start_send(Source::Keys(keys), payload)
    }

    /// Payloads that others send to keys of this host. A client gets none.
    pub fn deliveries(&self) -> Deliveries {
        self.shared.replies.deliveries()
    }

    fn start_send(&self, source: Source, payload: Bytes) -> Results<()> {
        Bulk::start(self, source, Verb::Send(payload.into()), |_, outcome| match outcome {
            Outcome::Delivered => Some(()),
            _ => None,
        })
    }

    fn start_put(&self, source: Source) -> Results<usize> {
        Bulk::start(self, source, Verb::Put, |_, outcome| match outcome {
            Outcome::Stored { copies } => Some(copies),
            _ => None,
        })
    }

    fn start_get(&self, source: Source) -> Results<Option<Bytes>> {
        Bulk::start(self, source, Verb::Get, |name, outcome| match outcome {
            Outcome::Found { value, .. } => Some(unwrap(name, &value)),
            Outcome::Absent => Some(None),
            _ => None,
        })
    }

    /// The host that is responsible for a key.
    ///
    /// # Errors
    /// If the key has the wrong size, or the host could not be found.
    pub async fn locate(&self, key: impl AsRef<[u8]>) -> Result<NodeId, KeyError> {
        match self.ask_one(Operation::Locate(vec![place(key.as_ref())?])).await? {
            Outcome::Located(node) => Ok(node),
            _ => Err(KeyError::NoRoute),
        }
    }

    /// Sends a request for one key, and waits for its outcome.
    async fn ask_one(&self, operation: Operation) -> Result<Outcome, KeyError> {
        let (reply_to, mut outcomes) = mpsc::unbounded_channel();
        let permit = self.shared.permits.clone().acquire_owned().await.expect("it is never closed");
        self.shared.ask(operation, 1, permit, &reply_to);
        match outcomes.recv().await {
            Some((_, DhtReply::Outcome(_, Outcome::Failed(reason)))) => Err(reason.into()),
            Some((_, DhtReply::Outcome(_, outcome))) => Ok(outcome),
            Some((_, DhtReply::Rejected(reason))) => Err(reason.into()),
            Some((_, DhtReply::Closed)) | None => Err(KeyError::Closed),
        }
    }

    /// The state of this host. [`Dht::stat_of`] asks another one.
    ///
    /// # Errors
    /// If it has stopped.
    pub async fn stat(&self) -> Result<DhtStat, Closed> {
        self.shared.stat().await
    }

    /// Declares that the failed hosts do not come back. Until then, if as many are missing as hold
    /// each value, reads of keys that they may have held alone fail with [`KeyError::Unsettled`].
    /// Call it on each host.
    ///
    /// # Errors
    /// If this host has stopped.
    pub fn accept_losses(&self) -> Result<(), Closed> {
        self.shared.node.command(Command::AcceptLosses)
    }

    /// The file of this durable host, if it was found damaged at the start and was set aside.
    pub fn damaged_file(&self) -> Option<&DamagedFile> {
        self.shared.damaged.as_ref()
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.shared.node.stats()
    }

    /// This host's id.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// The address that the host listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.node.local_addr()
    }

    /// Hands over the values of this host, leaves, then ends the service. Values that it cannot
    /// hand over in time are with their other holders, and in the file of a durable host. A client
    /// hands over nothing.
    ///
    /// # Errors
    /// If the file of a durable host could not be written, the protocol does not end in time, or
    /// the service has ended already. It has ended in any case.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        self.shared.leave().await
    }

    /// Ends the service without leaving, and the host with its last one: the others detect a crash.
    /// Returns the error of a durable table's file, if any.
    pub async fn stop(&self) -> Option<DiskError> {
        self.shared.stop().await
    }

    /// Waits until the service has ended, also because its file cannot be written, and returns why.
    pub async fn ended(&self) -> Option<DiskError> {
        self.shared.ended().await
    }
}

fn keys_of<I>(keys: I) -> Source
where
    I: IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
{
    let wanted = |key| Wanted { key, value: Bytes::new() };
    Source::Iterator(Box::new(keys.into_iter().map(wanted)))
}
