use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::machine::load_average;
use paceline_lab::scenario::Rate;
use paceline_netlab::Plan as LabPlan;
use paceline_proto::chain::Topology;
use paceline_proto::core::NodeId;
use serde::Serialize;

use super::{BenchPlan, Place, with_broadcast};
use crate::peers::{Durations, MemberPart};

/// What another implementation is to do: a bench plan without the settings of Paceline.
#[derive(Clone, Debug)]
pub(super) struct PeerPlan {
    pub(super) nodes: u32,
    pub(super) place: Place,
    /// The members that send.
    pub(super) senders: Vec<NodeId>,
    pub(super) message_bytes: usize,
    /// Time between two messages of a sender; `None` for as fast as they are accepted.
    pub(super) interval: Option<Duration>,
    /// Measured time, after the peer's own warm-up.
    pub(super) duration: Duration,
    /// The most that a chain delivers over these links, MB a node and second.
    pub(super) limit_mb: Option<f64>,
}

impl PeerPlan {
    /// The same broadcast as the plan's.
    pub(super) fn of(plan: &BenchPlan) -> Result<PeerPlan, LabError> {
        let BenchPlan { nodes, place, message_bytes, duration, .. } = *plan;
        with_broadcast(plan, |broadcast| {
            let limit = |rate: Rate| {
                let lab = LabPlan::new(nodes as usize, rate.bits_per_second());
                broadcast.with_topology(Topology::Chain).limit(lab.limit_mb())
            };
            let limit_mb = match place {
                Place::Loopback => None,
                Place::Netns(rate) => Some(limit(rate)),
            };
            let (senders, interval) = (broadcast.saturating_nodes(), broadcast.plan().interval);
            PeerPlan { nodes, place, senders, message_bytes, interval, duration, limit_mb }
        })
    }
}

/// What was measured of another implementation. The measured time is the same part of the run for
/// all figures.
#[derive(Clone, Debug, Serialize)]
pub struct PeerRow {
    /// Seconds measured.
    pub seconds: f64,
    /// Megabytes that a member delivered in a second, own included: the mean over members.
    pub mb_per_node_per_s: f64,
    /// The most that a chain delivers over these links; null on loopback.
    pub limit_mb_per_node_per_s: Option<f64>,
    /// Measured over limit.
    pub limit_share: Option<f64>,
    /// Median latency, from the call that sends a message to each remote delivery.
    pub p50_ms: f64,
    /// 99th percentile of the latency.
    pub p99_ms: f64,
    /// 99th percentile of what the call that sends a message took: the part of a latency for which
    /// flow control kept the message back.
    pub send_p99_ms: f64,
    /// Processor seconds of all members for each gigabyte that all of them together delivered.
    pub cpu_s_per_gb: f64,
    /// Most over fewest messages that two senders got through to all; null with one sender.
    pub fairness: Option<f64>,
    /// Load average of the last minute when the run ended.
    pub load: f64,
}

impl PeerRow {
    /// Puts together what the members measured.
    pub(super) fn of(plan: &PeerPlan, parts: &[MemberPart]) -> Result<PeerRow, LabError> {
        let delivered = || parts.iter().flat_map(|part| part.delivered.values());
        let bytes: u64 = delivered().map(|(_, bytes)| bytes).sum();
        if bytes == 0 {
            return Err(LabError::Run("the peer delivered no message".to_owned()));
        }
        let (mut latency, mut send) = (Durations::default(), Durations::default());
        for part in parts {
            latency.add(&part.latency);
            send.add(&part.send);
        }
        let seconds = plan.duration.as_secs_f64();
        let measured = bytes as f64 / parts.len() as f64 / seconds / 1e6;
        let cpu_seconds: f64 = parts.iter().map(|part| part.cpu_seconds).sum();
        Ok(PeerRow {
            seconds,
            mb_per_node_per_s: measured,
            limit_mb_per_node_per_s: plan.limit_mb,
            limit_share: plan.limit_mb.map(|limit| measured / limit),
            p50_ms: latency.quantile_ms(0.5),
            p99_ms: latency.quantile_ms(0.99),
            send_p99_ms: send.quantile_ms(0.99),
            cpu_s_per_gb: cpu_seconds / (bytes as f64 / 1e9),
            fairness: fairness(&plan.senders, parts),
            load: load_average().map_or(f64::NAN, |load| load[0]),
        })
    }
}

/// Messages that reached all members: most of a sender over fewest.
fn fairness(senders: &[NodeId], parts: &[MemberPart]) -> Option<f64> {
    if senders.len() < 2 {
        return None;
    }
    let messages = |part: &MemberPart, sender| part.delivered.get(sender).map_or(0, |of| of.0);
    let reached_all =
        |sender| parts.iter().map(|part| messages(part, sender)).min().unwrap_or_default();
    let reached: Vec<u64> = senders.iter().map(reached_all).collect();
    let (fewest, most) = (reached.iter().min()?, reached.iter().max()?);
    Some(*most as f64 / (*fewest).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(senders: &[u64]) -> PeerPlan {
        PeerPlan {
            nodes: 2,
            place: Place::Loopback,
            senders: senders.iter().copied().map(NodeId).collect(),
            message_bytes: 1_000,
            interval: None,
            duration: Duration::from_secs(2),
            limit_mb: Some(4.0),
        }
    }

    fn part(delivered: [(u64, u64); 2], latency_us: &[(u64, u64)]) -> MemberPart {
        let of = |(origin, messages): (u64, u64)| (NodeId(origin), (messages, messages * 1_000));
        MemberPart {
            sent: 0,
            delivered: delivered.map(of).into(),
            latency: latency_us.iter().copied().collect(),
            send: [(7_000, 1)].into_iter().collect(),
            cpu_seconds: 1.0,
        }
    }

    #[test]
    fn the_members_parts_make_one_row() {
        let parts = [
            part([(0, 3_000), (1, 2_000)], &[(1_000, 98)]),
            part([(0, 4_000), (1, 3_000)], &[(1_000, 1), (9_000, 1)]),
        ];
        let row = PeerRow::of(&plan(&[0, 1]), &parts).expect("something was delivered");
        assert_eq!((row.mb_per_node_per_s, row.limit_share), (3.0, Some(0.75)));
        assert_eq!((row.p50_ms, row.p99_ms, row.send_p99_ms), (1.0, 1.0, 7.0));
        assert_eq!(row.cpu_s_per_gb.round(), 167.0, "2 s for 12 MB");
        assert_eq!(row.fairness, Some(1.5), "3,000 messages of one, 2,000 of the other");
        let row = PeerRow::of(&plan(&[0]), &parts).expect("something was delivered");
        assert_eq!(row.fairness, None);
    }

    #[test]
    fn a_peer_that_delivers_nothing_has_failed() {
        let error = PeerRow::of(&plan(&[0]), &[part([(0, 0), (1, 0)], &[])]).unwrap_err();
        assert_eq!((error.exit_status(), error.to_string().contains("no message")), (1, true));
    }
}
