use std::path::Path;

use paceline_lab::{LabError, Progress};
use serde::Serialize;

use super::aeron::Aeron;
use super::peer::{FlowControl, MulticastPeerPlan, MulticastPeerRow};
use super::{MULTICAST_PORT, MulticastPlace, MulticastPlan, MulticastRow, RepairSetting, run};
use crate::peers::{Comparison, Figure, Peers};

/// Another implementation of multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MulticastPeer {
    /// Aeron over UDP multicast.
    Aeron,
}

/// Which peer runs, how, and how often.
#[derive(Clone, Copy, Debug)]
pub struct PeerRuns {
    /// Which.
    pub peer: MulticastPeer,
    /// Of its streams.
    pub flow_control: FlowControl,
    /// Pairs of runs.
    pub pairs: u32,
}

/// Paceline beside another implementation of multicast.
pub type MulticastComparison = Comparison<MulticastPeer, MulticastRow, MulticastPeerRow>;

/// The figures that are compared. Those of links are left out on loopback.
const FIGURES: [Figure<MulticastRow, MulticastPeerRow>; 9] = [
    ("all_p50_ms", |ours| Some(ours.delivery.all_p50_ms), |row| Some(row.delivery.all_p50_ms)),
    ("all_p99_ms", |ours| Some(ours.delivery.all_p99_ms), |row| Some(row.delivery.all_p99_ms)),
    ("all_p999_ms", |ours| Some(ours.delivery.all_p999_ms), |row| Some(row.delivery.all_p999_ms)),
    ("all_mean_ms", |ours| Some(ours.delivery.all_mean_ms), |row| Some(row.delivery.all_mean_ms)),
    (
        "delivered_within_10ms",
        |ours| Some(ours.delivery.delivered_within_10ms),
        |row| Some(row.delivery.delivered_within_10ms),
    ),
    ("missing", |ours| Some(ours.delivery.missing as f64), |row| Some(row.delivery.missing as f64)),
    (
        "frames_per_packet",
        |ours| ours.delivery.frames_per_packet,
        |row| row.delivery.frames_per_packet,
    ),
    (
        "bytes_per_packet",
        |ours| ours.delivery.bytes_per_packet,
        |row| row.delivery.bytes_per_packet,
    ),
    (
        "sending_cores",
        |ours| Some(ours.delivery.sending_cores),
        |row| Some(row.delivery.sending_cores),
    ),
];

/// Runs Paceline and the peer in turn, on the same network. What the user stops keeps the pairs
/// that are complete. On loopback, Paceline uses IP multicast as the peer does.
///
/// # Errors
/// [`LabError::Unsupported`] if the peer is not installed, or cannot do what the plan says, before
/// anything runs.
pub fn compare(
    plan: &MulticastPlan,
    setting: RepairSetting,
    runs: PeerRuns,
    program: &Path,
    progress: &dyn Progress,
) -> Result<MulticastComparison, LabError> {
    let PeerRuns { peer: MulticastPeer::Aeron, flow_control, pairs } = runs;
    let place = match plan.place {
        MulticastPlace::Loopback { multicast_port } => MulticastPlace::Loopback {
            multicast_port: Some(multicast_port.unwrap_or(MULTICAST_PORT)),
        },
        MulticastPlace::Netns => MulticastPlace::Netns,
    };
    let plan = MulticastPlan { place, ..plan.clone() };
    let peer_plan = MulticastPeerPlan::of(&plan, setting)?;
    let aeron = Aeron::find(&peer_plan, flow_control)?;
    let peers = Peers {
        paceline: || run(&plan, setting, program, progress),
        peer: |label: &str| aeron.run(&peer_plan, progress, label),
    };
    Comparison::run((runs.peer, aeron.name()), pairs, peers, &FIGURES, progress)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicast::DeliveryFigures;
    use crate::peers::{Compared, Pair};

    fn pair(frames: Option<f64>) -> Pair<MulticastRow, MulticastPeerRow> {
        let paceline = MulticastRow {
            code: "xor",
            window: None,
            r: 8,
            c: 3,
            questions: true,
            members: 16,
            packets_per_second: 1000.0,
            seconds: 10.0,
            lost: 100,
            recovered: 0.9,
            pulled: 0.1,
            within_10ms: 0.8,
            p50_ms: 1.0,
            mean_ms: 2.0,
            p99_ms: 5.0,
            reported_lost: 0,
            untold: 0,
            corrupt: 0,
            overhead: 0.2,
            data_p50_ms: 0.3,
            data_p99_ms: 3.0,
            delivery: DeliveryFigures {
                all_p50_ms: 0.5,
                all_p99_ms: 4.0,
                all_p999_ms: 8.0,
                all_mean_ms: 0.6,
                delivered_within_10ms: 0.999,
                missing: 0,
                frames_per_packet: frames,
                bytes_per_packet: frames.map(|frames| frames * 1_000.0),
                sending_cores: 0.5,
            },
            cores: 0.5,
            receive_buffer_bytes: 0,
            load: 1.0,
        };
        let peer = MulticastPeerRow {
            flow_control: FlowControl::Min,
            members: 16,
            packets_per_second: 1000.0,
            seconds: 10.0,
            sent_share: 1.0,
            delivery: DeliveryFigures {
                all_p50_ms: 2.0,
                all_p99_ms: 16.0,
                all_p999_ms: 32.0,
                all_mean_ms: 2.4,
                delivered_within_10ms: 0.9,
                missing: 0,
                frames_per_packet: frames,
                bytes_per_packet: frames.map(|frames| frames * 1_000.0),
                sending_cores: 2.0,
            },
            send_p99_ms: 0.1,
            load: 1.0,
        };
        Pair { paceline, peer }
    }

    fn compared(frames: Option<f64>) -> MulticastComparison {
        Comparison::of(MulticastPeer::Aeron, "1".to_owned(), vec![pair(frames)], &FIGURES)
    }

    #[test]
    fn figures_are_keys_of_both_rows() {
        let comparison = compared(Some(2.0));
        let json = serde_json::to_value(&comparison).unwrap();
        assert_eq!(json["peer"], "aeron");
        assert_eq!(json["pairs"][0]["peer"]["flow_control"], "min");
        for Compared { figure, paceline, peer, .. } in &comparison.figures {
            let row = &json["pairs"][0];
            assert_eq!(row["paceline"][figure].as_f64(), Some(paceline.median), "{figure}");
            assert_eq!(row["peer"][figure].as_f64(), Some(peer.median), "{figure}");
        }
        assert_eq!(comparison.figures.len(), FIGURES.len());
        assert_eq!(comparison.figures[0].ratio.median, 0.25);
    }

    #[test]
    fn loopback_has_no_ports_to_compare() {
        let names: Vec<_> = compared(None).figures.iter().map(|compared| compared.figure).collect();
        assert_eq!(names.len(), FIGURES.len() - 2);
        assert!(!names.contains(&"frames_per_packet") && !names.contains(&"bytes_per_packet"));
    }
}
