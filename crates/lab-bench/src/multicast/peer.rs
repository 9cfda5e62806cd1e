use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::machine::load_average;
use paceline_lab_services::slingshot::{Settings, Spacing};
use serde::Serialize;

use super::{
    AROUND, Arrived, DeliveryFigures, MulticastPlace, MulticastPlan, RepairSetting, scenario,
};
use crate::peers::{Durations, MemberPart, Phases};

/// Before the measured time, at full rate.
const WARMUP: Duration = Duration::from_secs(5);

/// What another implementation is to do: a bench plan without the settings of Paceline.
#[derive(Clone, Debug)]
pub(super) struct MulticastPeerPlan {
    pub(super) members: u32,
    /// How many of them send: the first.
    pub(super) senders: u32,
    /// Of the whole group.
    pub(super) packets_per_second: f64,
    pub(super) packet_bytes: usize,
    pub(super) loss: f64,
    pub(super) place: MulticastPlace,
    pub(super) seed: u64,
    pub(super) phases: Phases,
}

impl MulticastPeerPlan {
    /// The same multicast as the plan's.
    pub(super) fn of(
        plan: &MulticastPlan,
        setting: RepairSetting,
    ) -> Result<MulticastPeerPlan, LabError> {
        // Overrides may change any of it.
        let settings = Settings::read(&scenario(plan, setting)?)?;
        let of = &settings.plan;
        if of.spacing != Spacing::Even || of.overlap().is_some() {
            let problem = "beside another implementation, senders take turns in one group";
            return Err(LabError::Unsupported(problem.to_owned()));
        }
        let phases =
            Phases { warmup: WARMUP, measured: plan.duration, tail: AROUND, drain: AROUND };
        Ok(MulticastPeerPlan {
            members: of.nodes,
            senders: of.senders,
            packets_per_second: of.packets_per_second,
            packet_bytes: of.packet_bytes,
            loss: plan.loss,
            place: plan.place,
            seed: plan.seed,
            phases,
        })
    }

    /// When a sender's first packet is due, and the time between two of its packets: senders take
    /// turns at even distances.
    pub(super) fn turns(&self, sender: usize) -> (Duration, Duration) {
        let packets = |count: f64| Duration::from_secs_f64(count / self.packets_per_second);
        (packets(sender as f64), packets(f64::from(self.senders)))
    }
}

/// Aeron's flow control of a multicast stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowControl {
    /// The slowest receiver limits the sender, so that all receive everything. Default.
    #[default]
    Min,
    /// The fastest receiver does: Aeron's own default for multicast. A receiver that lags by more
    /// than its window loses the stream.
    Max,
}

/// What was measured of another implementation. Packets count that were sent within the measured
/// time.
#[derive(Clone, Debug, Serialize)]
pub struct MulticastPeerRow {
    /// Of its streams.
    pub flow_control: FlowControl,
    /// Members.
    pub members: u32,
    /// Packets a second of the whole group.
    pub packets_per_second: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// The share of packets sent of those that were due within the measured time: less than all
    /// where flow control, or a machine that is too busy, kept senders back.
    pub sent_share: f64,
    /// As of Paceline. Times run from the call that sends a packet; missing is what was not
    /// delivered a second after the last one was sent.
    #[serde(flatten)]
    pub delivery: DeliveryFigures,
    /// 99th percentile of what the call that sends a packet took.
    pub send_p99_ms: f64,
    /// Load average of the last minute when the run ended.
    pub load: f64,
}

impl MulticastPeerRow {
    /// Puts together what the members measured, and what came through their ports from the first
    /// packet on.
    pub(super) fn of(
        plan: &MulticastPeerPlan,
        flow_control: FlowControl,
        parts: &[MemberPart],
        arrived: Option<Arrived>,
    ) -> Result<MulticastPeerRow, LabError> {
        let (mut latency, mut send) = (Durations::default(), Durations::default());
        for part in parts {
            latency.add(&part.latency);
            send.add(&part.send);
        }
        if latency.count() == 0 {
            return Err(LabError::Run("the peer delivered no message".to_owned()));
        }
        let receivers = f64::from(plan.members - 1);
        let sent: u64 = parts.iter().map(|part| part.sent).sum();
        let expected = sent * u64::from(plan.members - 1);
        let Phases { warmup, measured, tail, .. } = plan.phases;
        let sent_in_all = (warmup + measured + tail).as_secs_f64() * plan.packets_per_second;
        let arrived = arrived.map(|arrived| arrived.per_packet(sent_in_all * receivers));
        let seconds = measured.as_secs_f64();
        let cpu_seconds: f64 = parts.iter().map(|part| part.cpu_seconds).sum();
        Ok(MulticastPeerRow {
            flow_control,
            members: plan.members,
            packets_per_second: plan.packets_per_second,
            seconds,
            sent_share: sent as f64 / (seconds * plan.packets_per_second),
            delivery: DeliveryFigures {
                all_p50_ms: latency.quantile_ms(0.5),
                all_p99_ms: latency.quantile_ms(0.99),
                all_p999_ms: latency.quantile_ms(0.999),
                all_mean_ms: latency.mean_ms(),
                delivered_within_10ms: latency.count_within(10_000) as f64 / expected as f64,
                missing: expected.saturating_sub(latency.count()),
                frames_per_packet: arrived.map(|(frames, _)| frames),
                bytes_per_packet: arrived.map(|(_, bytes)| bytes),
                sending_cores: cpu_seconds / seconds,
            },
            send_p99_ms: send.quantile_ms(0.99),
            load: load_average().map_or(f64::NAN, |load| load[0]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer_plan(plan: &MulticastPlan) -> Result<MulticastPeerPlan, LabError> {
        let setting = RepairSetting { window: None, r: 8, c: 3, questions: true };
        MulticastPeerPlan::of(plan, setting)
    }

    #[test]
    fn the_peer_does_what_the_scenario_says_with_its_overrides() {
        let sets = vec!["workload.rate=500/s".to_owned(), "protocol.flush_after=5ms".to_owned()];
        let overridden = peer_plan(&MulticastPlan { sets, ..MulticastPlan::of_test() }).unwrap();
        assert_eq!((overridden.members, overridden.senders), (3, 2));
        assert_eq!((overridden.packets_per_second, overridden.packet_bytes), (500.0, 1024));
        let [first, second] = [0, 1].map(|sender| overridden.turns(sender));
        assert_eq!(first, (Duration::ZERO, Duration::from_millis(4)));
        assert_eq!(second, (Duration::from_millis(2), Duration::from_millis(4)));
        let sets = vec!["workload.spacing=phases".to_owned()];
        let error = peer_plan(&MulticastPlan { sets, ..MulticastPlan::of_test() }).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
    }

    #[test]
    fn the_members_parts_make_one_row() {
        let plan = peer_plan(&MulticastPlan::of_test()).unwrap();
        let part = |sent, latency: &[(u64, u64)]| MemberPart {
            sent,
            latency: latency.iter().copied().collect(),
            send: [(7_000, 1)].into_iter().collect(),
            cpu_seconds: 0.5,
            ..MemberPart::default()
        };
        let parts = [
            part(10, &[(1_000, 9), (10_000, 1)]),
            part(10, &[(2_000, 10)]),
            part(0, &[(2_000, 17), (30_000, 2)]),
        ];
        let arrived = Arrived { frames: 32_000, bytes: 16_000_000 };
        let row = MulticastPeerRow::of(&plan, FlowControl::Min, &parts, Some(arrived)).unwrap();
        assert_eq!((row.delivery.missing, row.delivery.delivered_within_10ms), (1, 37.0 / 40.0));
        assert_eq!(
            (row.delivery.all_p50_ms, row.delivery.all_p99_ms, row.delivery.all_p999_ms),
            (2.0, 30.0, 30.0)
        );
        assert_eq!(row.sent_share, 20.0 / 2_000.0);
        assert_eq!((row.delivery.sending_cores, row.send_p99_ms), (0.75, 7.0));
        // 8 s of 1,000 packets for two receivers each.
        assert_eq!(
            (row.delivery.frames_per_packet, row.delivery.bytes_per_packet),
            (Some(2.0), Some(1_000.0))
        );
        let error =
            MulticastPeerRow::of(&plan, FlowControl::Min, &[part(10, &[])], None).unwrap_err();
        assert_eq!((error.exit_status(), error.to_string().contains("no message")), (1, true));
    }
}
