use std::collections::BTreeMap;

use bytes::Bytes;
use paceline_proto::core::NodeId;
use paceline_proto::status::{Count, Report, ServiceReport, Standing};

/// What a host says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    /// The host.
    pub id: NodeId,
    /// Where others reach it, as it says.
    pub address: String,
    /// Its services, in the order in which they were started.
    pub services: Vec<ServiceStatus>,
    /// Services that found no room in the answer, which has at most 512 KiB.
    pub omitted: u32,
    /// What its driver counted and holds, at most 256 counts. `unread_bytes` are events that its
    /// application has not received: how far it lags. `backlog_bytes` wait for other hosts.
    /// `sealed` is 1 at a host with a key, `insecure_plaintext` at one that listens anywhere
    /// without.
    pub counts: BTreeMap<String, u64>,
}

/// A service of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    /// Its kind: `group`, `multicast`, `walks`, or `dht/` and the algorithm.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Whether the host is a member.
    pub standing: Standing,
    /// The number of the latest view that its application has read; 0 if there is none.
    pub view: u64,
    /// The members of that view, oldest first; the first 1,024.
    pub members: Vec<NodeId>,
    /// What its protocol counted, at most 256 counts; of a table also what it holds: `values`,
    /// `bytes`, `contacts` and `missing` hosts.
    pub counts: BTreeMap<String, u64>,
}

impl HostStatus {
    pub(super) fn new(id: NodeId, report: Report) -> HostStatus {
        HostStatus {
            id,
            address: text(&report.address),
            services: report.services.iter().map(ServiceStatus::new).collect(),
            omitted: report.omitted,
            counts: counts(&report.counts),
        }
    }
}

impl ServiceStatus {
    fn new(report: &ServiceReport) -> ServiceStatus {
        ServiceStatus {
            kind: text(&report.kind),
            name: text(&report.name),
            standing: report.standing,
            view: report.view,
            members: report.members.clone(),
            counts: counts(&report.counts),
        }
    }
}

/// Text of another host; what is not UTF-8 is replaced.
fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn counts(counts: &[Count]) -> BTreeMap<String, u64> {
    counts.iter().map(|count| (text(&count.name), count.count)).collect()
}
