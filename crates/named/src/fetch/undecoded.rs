//! Undecodable packets, reported if no others came.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use paceline_proto::core::DecodeError;
use paceline_proto::mircc::Undecodable;

use super::super::Forwarder;

/// Packets that came during a fetch and could not be decoded, by sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecoded {
    /// The senders.
    pub senders: Vec<UndecodedFrom>,
}

/// Packets of one sender that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodedFrom {
    /// The sender.
    pub address: SocketAddr,
    /// How many.
    pub packets: u64,
    /// The reasons, and the number of packets for each; the first four reasons of a face.
    pub reasons: Vec<(DecodeError, u64)>,
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, sender) in self.senders.iter().enumerate() {
            let UndecodedFrom { address, packets, reasons } = sender;
            let between = if place == 0 { "" } else { "; " };
            let noun = if *packets == 1 { "packet" } else { "packets" };
            write!(f, "{between}{packets} {noun} from {address} could not be decoded")?;
            for (place, (why, count)) in reasons.iter().enumerate() {
                let before = if place == 0 { ": " } else { ", " };
                write!(f, "{before}{why} ({count})")?;
            }
        }
        Ok(())
    }
}

/// Undecodable packets of each face so far.
pub(super) type Counted = BTreeMap<SocketAddr, Undecodable>;

impl Undecoded {
    /// The counts of a forwarder so far; empty if it has stopped.
    pub(super) async fn count(forwarder: &Forwarder) -> Counted {
        let Ok(report) = forwarder.report().await else { return Counted::new() };
        report.faces().map(|(address, face)| (address, face.undecodable)).collect()
    }

    /// The packets since then; `None` if there were none.
    pub(super) async fn since(before: &Counted, forwarder: &Forwarder) -> Option<Undecoded> {
        let now = Undecoded::count(forwarder).await;
        let senders = now.into_iter().filter_map(|(address, now)| {
            let since = now.since(before.get(&address).unwrap_or(&Undecodable::default()));
            let reasons = since.reasons().collect();
            (since.packets > 0).then_some(UndecodedFrom {
                address,
                packets: since.packets,
                reasons,
            })
        });
        let senders: Vec<_> = senders.collect();
        (!senders.is_empty()).then_some(Undecoded { senders })
    }
}
