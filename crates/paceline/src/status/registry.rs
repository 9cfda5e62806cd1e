//! The services of a host, and how each is asked about its state.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Exposure, Observer};
use paceline_proto::core::NodeId;
use paceline_proto::status::{
    COUNTS_MAX, Count, KIND_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Report, ServiceReport, Standing,
};

use crate::leaving::Leaving;
use crate::{Host, lock};

/// How long a service may take to describe itself.
const DESCRIBED_WITHIN: Duration = Duration::from_secs(1);

/// The state of a service, beside its counters.
#[derive(Debug, Default)]
pub(crate) struct Described {
    /// Whether the host is a member.
    pub standing: Standing,
    /// The number of the latest view; 0 without one.
    pub view: u64,
    /// Its members, oldest first.
    pub members: Vec<NodeId>,
    /// What it holds.
    pub counts: Vec<(&'static str, u64)>,
}

/// A service, as its host knows it: it does not keep the service.
pub(crate) trait Attached: Send + Sync {
    /// The state; none once the service has ended.
    fn describe(&self) -> Describing<'_>;

    /// Leaves, then ends the service.
    fn leave(&self) -> Leaving<'_>;
}

/// The answer of a service that describes itself.
pub(crate) type Describing<'a> = Pin<Box<dyn Future<Output = Option<Described>> + Send + 'a>>;

/// The services that were started on a host. Clones are of the same host.
#[derive(Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Vec<Entry>>>);

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&lock(&self.0).len()).finish()
    }
}

/// A service that was started.
#[derive(Clone)]
struct Entry {
    kind: String,
    name: String,
    counts: Observer,
    // None for a service that has nothing but counters to tell, and nothing to leave.
    service: Option<Arc<dyn Attached>>,
}

impl Registry {
    /// Adds a service. It takes the place of an earlier one of its kind and name.
    pub(crate) fn add(&self, kind: &str, name: &str, counts: Observer) {
        let mut entries = lock(&self.0);
        entries.retain(|it| !it.counts.has_ended() && (&*it.kind, &*it.name) != (kind, name));
        let (kind, name) = (kind.to_owned(), name.to_owned());
        entries.push(Entry { kind, name, counts, service: None });
    }

    /// Attaches a service that was added.
    pub(crate) fn attach(&self, kind: &str, name: &str, service: Arc<dyn Attached>) {
        let mut entries = lock(&self.0);
        let is_it = |it: &&mut Entry| (&*it.kind, &*it.name) == (kind, name);
        if let Some(entry) = entries.iter_mut().find(is_it) {
            entry.service = Some(service);
        }
    }

    /// The kind and name of each that runs and was attached, with the service.
    pub(crate) fn attached(&self) -> Vec<(String, String, Arc<dyn Attached>)> {
        let running = self.running().into_iter();
        running.filter_map(|it| it.service.map(|service| (it.kind, it.name, service))).collect()
    }

    /// Those that run, in the order in which they were started.
    fn running(&self) -> Vec<Entry> {
        let mut entries = lock(&self.0);
        entries.retain(|entry| !entry.counts.has_ended());
        entries.clone()
    }
}

impl Host {
    /// What this host says of itself.
    pub(super) async fn report(&self) -> Report {
        let stats = self.stats();
        let (traffic, held) = (stats.traffic, stats.held);
        let mut counts = vec![
            ("unread_bytes", held.events_bytes as u64),
            ("backlog_bytes", held.of_peers() as u64),
            ("stream_bytes_in", traffic.stream_bytes_in),
            ("stream_bytes_out", traffic.stream_bytes_out),
            ("datagrams_in", traffic.datagrams_in),
            ("datagrams_out", traffic.datagrams_out),
        ];
        counts.extend(match self.exposure() {
            Exposure::Sealed => Some(("sealed", 1)),
            Exposure::InsecurePlaintext => Some(("insecure_plaintext", 1)),
            Exposure::LoopbackOnly | Exposure::IsolatedPlaintext => None,
        });
        counts.extend(stats.counters.sorted());
        let address = text(&self.address().to_string(), NAME_BYTES_MAX);
        let mut report = Report { address, counts: listed(counts), ..Report::default() };
        for entry in self.registry().running() {
            report.add(entry.describe().await);
        }
        report
    }
}

impl Entry {
    async fn describe(&self) -> ServiceReport {
        let described = match &self.service {
            Some(service) => tokio::time::timeout(DESCRIBED_WITHIN, service.describe()).await,
            None => Ok(None),
        };
        let described = described.ok().flatten().unwrap_or_default();
        let Described { standing, view, mut members, mut counts } = described;
        members.truncate(MEMBERS_MAX);
        counts.extend(self.counts.counters().sorted());
        ServiceReport {
            kind: text(&self.kind, KIND_BYTES_MAX),
            name: text(&self.name, NAME_BYTES_MAX),
            standing,
            view,
            members,
            counts: listed(counts),
        }
    }
}

fn listed(counts: Vec<(&'static str, u64)>) -> Vec<Count> {
    let counts = counts.into_iter().take(COUNTS_MAX);
    counts.map(|(name, count)| Count { name: text(name, NAME_BYTES_MAX), count }).collect()
}

/// As much of a text as there is room for, in whole characters.
fn text(text: &str, bytes_max: usize) -> Bytes {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Bytes::copy_from_slice(&text.as_bytes()[..end])
}
