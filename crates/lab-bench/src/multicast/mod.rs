//! `paceline bench multicast`: a process for each member, losses at their receive buffers, and the
//! share and time of recovery; on loopback, or in a network lab by IP multicast. Alone, or in pairs
//! of runs beside another implementation.

mod aeron;
mod comparison;
mod peer;

use std::path::Path;
use std::time::Duration;

use paceline_lab::machine::load_average;
use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Launch, Sockets, Trial, World, node_command};
use paceline_lab::{LabError, Progress};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::slingshot;
use paceline_netlab::{NetworkLab, Plan as LabPlan};
use paceline_proto::core::NodeId;
use serde::Serialize;

use crate::netns;

pub use comparison::{MulticastComparison, MulticastPeer, PeerRuns, compare};
pub use peer::{FlowControl, MulticastPeerRow};

/// The UDP port of IP multicast in the lab.
const MULTICAST_PORT: u16 = 7947;
/// Rate of each port of the lab.
const LAB_RATE: u64 = 1_000_000_000;
/// Until members have found each other.
const START: Duration = Duration::from_secs(1);
/// Until bins are out of step; and after the last packet, until nothing more comes.
const AROUND: Duration = Duration::from_secs(1);

/// Where the members run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MulticastPlace {
    /// On loopback, by a copy to each receiver or by IP multicast. Receivers drop packets at
    /// random, drawn from the seed, to emulate loss.
    Loopback {
        /// The port, if by IP multicast.
        multicast_port: Option<u16>,
    },
    /// Each node in its own network namespace, by IP multicast across a bridge. nftables drops
    /// packets at the receiver's ingress to emulate loss. Linux, root.
    Netns,
}

/// How repairs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairSetting {
    /// Packets of the linear code's window; `None` for the exclusive or.
    pub window: Option<u16>,
    /// Packets of a repair.
    pub r: usize,
    /// Members that it goes to.
    pub c: usize,
    /// Whether what repairs do not bring is asked for.
    pub questions: bool,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct MulticastPlan {
    /// Members, 2 to 64.
    pub members: u32,
    /// How many of them send.
    pub senders: u32,
    /// Packets a second of the whole group.
    pub packets_per_second: f64,
    /// Bytes of a packet.
    pub packet_bytes: usize,
    /// Share of datagrams that each member loses, repairs too.
    pub loss: f64,
    /// Where.
    pub place: MulticastPlace,
    /// Measured time.
    pub duration: Duration,
    /// The run's seed; on loopback it draws the losses.
    pub seed: u64,
    /// Overrides of the scenario: `protocol.flush_after=5ms`.
    pub sets: Vec<String>,
}

/// The figures by which implementations of multicast are compared.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeliveryFigures {
    /// From sending to delivery, of all packets that were delivered, however they came: the median.
    pub all_p50_ms: f64,
    /// 99th percentile.
    pub all_p99_ms: f64,
    /// 99.9th percentile.
    pub all_p999_ms: f64,
    /// The mean.
    pub all_mean_ms: f64,
    /// The share of packets at receivers that were delivered within 10 ms after they were sent.
    pub delivered_within_10ms: f64,
    /// Packets at receivers that were not delivered.
    pub missing: u64,
    /// Frames that came to a receiver for each packet that it was to receive, all messages of the
    /// protocol included; null on loopback.
    pub frames_per_packet: Option<f64>,
    /// Their bytes, Ethernet's heads included; null on loopback.
    pub bytes_per_packet: Option<f64>,
    /// Processor time of all members over the time in which packets are sent: of the whole run, of
    /// a peer that of the measured time.
    pub sending_cores: f64,
}

/// What was measured at one setting. Times of recovery are from when a packet would have arrived;
/// shares are of all that was lost.
#[derive(Clone, Debug, Serialize)]
pub struct MulticastRow {
    /// `xor` or `rlc`.
    pub code: &'static str,
    /// Packets of the linear code's window; null for the exclusive or.
    pub window: Option<u16>,
    /// Packets of a repair.
    pub r: usize,
    /// Members that it goes to.
    pub c: usize,
    /// Whether what repairs do not bring is asked for.
    pub questions: bool,
    /// Members.
    pub members: u32,
    /// Packets a second of the whole group.
    pub packets_per_second: f64,
    /// Seconds measured.
    pub seconds: f64,
    /// Packets at receivers that did not come from their sender.
    pub lost: u64,
    /// The share that repairs brought back.
    pub recovered: f64,
    /// The share that came back by asking.
    pub pulled: f64,
    /// The share that repairs brought within 10 ms.
    pub within_10ms: f64,
    /// Median time of recovery by repairs.
    pub p50_ms: f64,
    /// The mean.
    pub mean_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Packets that were reported lost.
    pub reported_lost: u64,
    /// Packets that were neither delivered nor reported lost.
    pub untold: u64,
    /// Packets that were delivered otherwise than as sent, or twice. Any fails the bench.
    pub corrupt: u64,
    /// Repairs, as a share of them and of packets received.
    pub overhead: f64,
    /// From sending to delivery, of what was not lost: the median.
    pub data_p50_ms: f64,
    /// 99th percentile.
    pub data_p99_ms: f64,
    /// What is measured of a peer as well.
    #[serde(flatten)]
    pub delivery: DeliveryFigures,
    /// Cores that all members together kept busy: the mean over the run, which begins a second
    /// before the first packet.
    pub cores: f64,
    /// What the kernel granted each member for datagrams that wait, bytes: the mean.
    pub receive_buffer_bytes: u64,
    /// Load average of the last minute when the run ended.
    pub load: f64,
}

/// Runs one bench at one setting; `program` is this program, started again as
/// `program node --control`.
pub fn run(
    plan: &MulticastPlan,
    setting: RepairSetting,
    program: &Path,
    progress: &dyn Progress,
) -> Result<MulticastRow, LabError> {
    let scenario = scenario(plan, setting)?;
    let simulated = Trial::simulated(&scenario, plan.seed);
    let on = |launch: &Launch<'_>| {
        slingshot::run(&Trial { world: World::Processes(launch), progress, ..simulated })
    };
    let (result, arrived) = match plan.place {
        MulticastPlace::Loopback { multicast_port } => {
            let command = |_| node_command(program);
            let sockets = |_| Sockets { multicast_port, ..Sockets::default() };
            let launch = Launch { command: &command, sockets: &sockets };
            (on(&launch)?, None)
        }
        MulticastPlace::Netns => {
            let lab = lossy_lab(plan.members, plan.loss, progress)?;
            let before = Arrived::so_far(&lab)?;
            let command = |node: NodeId| lab.command_in(node.index(), node_command(program));
            let sockets = |node: NodeId| {
                let bind = netns::bind(&lab, node);
                Sockets { bind, multicast_port: Some(MULTICAST_PORT), ..Sockets::default() }
            };
            let launch = Launch { command: &command, sockets: &sockets };
            (on(&launch)?, Some(Arrived::so_far(&lab)?.since(before)))
        }
    };
    if progress.stopped() {
        return Err(LabError::StoppedEarly);
    }
    Ok(row(plan, setting, &result, arrived))
}

/// A network lab in which each member loses this share of datagrams.
fn lossy_lab(members: u32, loss: f64, progress: &dyn Progress) -> Result<NetworkLab, LabError> {
    let mut lab = netns::build(LabPlan::new(members as usize, LAB_RATE), progress)?;
    lab.drop_datagrams_everywhere(loss).map_err(netns::lab_error)?;
    Ok(lab)
}

/// Frames that came through the ports of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrived {
    frames: u64,
    bytes: u64,
}

impl Arrived {
    fn so_far(lab: &NetworkLab) -> Result<Arrived, LabError> {
        let nothing = Arrived { frames: 0, bytes: 0 };
        (0..lab.nodes()).try_fold(nothing, |Arrived { frames, bytes }, node| {
            let (_, port) = lab.traffic(node).map_err(netns::lab_error)?.received;
            Ok(Arrived { frames: frames + port.packets, bytes: bytes + port.bytes })
        })
    }

    fn since(self, before: Arrived) -> Arrived {
        Arrived { frames: self.frames - before.frames, bytes: self.bytes - before.bytes }
    }

    /// Frames and bytes for each packet at a receiver.
    fn per_packet(self, packets_at_receivers: f64) -> (f64, f64) {
        let Arrived { frames, bytes } = self;
        (frames as f64 / packets_at_receivers, bytes as f64 / packets_at_receivers)
    }
}

/// The bench as a scenario.
fn scenario(plan: &MulticastPlan, setting: RepairSetting) -> Result<Scenario, LabError> {
    let MulticastPlan { members, senders, packet_bytes, loss, .. } = plan;
    let duration_ms = (START + AROUND + plan.duration + AROUND).as_millis();
    let (start_ms, around_ms) = (START.as_millis(), AROUND.as_millis());
    let loss = match plan.place {
        MulticastPlace::Loopback { .. } if *loss > 0.0 => format!("receive_loss = {loss}\n"),
        _ => String::new(),
    };
    let RepairSetting { window, r, c, questions } = setting;
    let code = match window {
        None => "code = \"xor\"".to_owned(),
        Some(window) => format!("code = \"rlc\"\nwindow = {window}"),
    };
    let rate = plan.packets_per_second;
    let text = format!(
        "name = \"bench/multicast\"\nduration = \"{duration_ms}ms\"\n\
         [topology]\nnodes = {members}\ndatagram = \"1472B\"\n{loss}\
         [protocol]\nkind = \"slingshot\"\nr = {r}\nc = {c}\n{code}\npull = {questions}\n\
         [workload]\nsenders = {senders}\nrate = \"{rate}/s\"\nsize = \"{packet_bytes}B\"\n\
         start = \"{start_ms}ms\"\n\
         [measure]\nwarmup = \"{around_ms}ms\"\ndrain = \"{around_ms}ms\"\n"
    );
    CATALOG.parse("bench multicast", &text)?.with_sets(&plan.sets)?.resolve()
}

fn row(
    plan: &MulticastPlan,
    setting: RepairSetting,
    result: &RunResult,
    arrived: Option<Arrived>,
) -> MulticastRow {
    let value = |name: &str| {
        let found = result.summary.iter().find(|metric| metric.metric == name);
        found.map_or(f64::NAN, |metric| metric.value)
    };
    let count = |name: &str| {
        let counted = value(name);
        assert!(!counted.is_nan(), "each run of multicast in time has `{name}`");
        counted as u64
    };
    let lost = value("packets_lost");
    let packets_at_receivers = value("packets_sent") * f64::from(plan.members - 1);
    let arrived = arrived.map(|arrived| arrived.per_packet(packets_at_receivers));
    let sending_seconds = (AROUND + plan.duration).as_secs_f64();
    MulticastRow {
        code: if setting.window.is_some() { "rlc" } else { "xor" },
        window: setting.window,
        r: setting.r,
        c: setting.c,
        questions: setting.questions,
        members: plan.members,
        packets_per_second: plan.packets_per_second,
        seconds: plan.duration.as_secs_f64(),
        lost: lost as u64,
        recovered: value("recovered"),
        pulled: value("packets_pulled") / lost,
        within_10ms: value("recovered_within_10ms"),
        p50_ms: value("recovery_p50"),
        mean_ms: value("recovery_mean"),
        p99_ms: value("recovery_p99"),
        reported_lost: count("packets_reported_lost"),
        untold: count("packets_untold"),
        corrupt: count("packets_corrupt"),
        overhead: value("overhead"),
        data_p50_ms: value("data_latency_p50"),
        data_p99_ms: value("data_latency_p99"),
        delivery: DeliveryFigures {
            all_p50_ms: value("delivery_p50"),
            all_p99_ms: value("delivery_p99"),
            all_p999_ms: value("delivery_p999"),
            all_mean_ms: value("delivery_mean"),
            delivered_within_10ms: value("delivered_within_10ms"),
            missing: count("packets_missing"),
            frames_per_packet: arrived.map(|(frames, _)| frames),
            bytes_per_packet: arrived.map(|(_, bytes)| bytes),
            sending_cores: value("processor_time") * value("ended") / sending_seconds,
        },
        cores: value("processor_time"),
        // Absent where the kernel says nothing; NaN becomes 0.
        receive_buffer_bytes: value("datagram_receive_bytes") as u64 / u64::from(plan.members),
        load: load_average().map_or(f64::NAN, |load| load[0]),
    }
}

#[cfg(test)]
impl MulticastPlan {
    /// Three members of the network lab, of which two send.
    fn of_test() -> MulticastPlan {
        MulticastPlan {
            members: 3,
            senders: 2,
            packets_per_second: 1000.0,
            packet_bytes: 1024,
            loss: 0.01,
            place: MulticastPlace::Netns,
            duration: Duration::from_secs(2),
            seed: 1,
            sets: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::run::Metric;

    fn plan() -> MulticastPlan {
        MulticastPlan {
            members: 16,
            senders: 16,
            place: MulticastPlace::Loopback { multicast_port: None },
            sets: vec!["protocol.flush_after=5ms".to_owned()],
            ..MulticastPlan::of_test()
        }
    }

    #[test]
    fn a_row_has_what_the_run_counted_as_corrupt_and_untold() {
        let names =
            ["packets_reported_lost", "packets_untold", "packets_corrupt", "packets_missing"];
        let mut result = RunResult::default();
        result.summary.extend(names.map(|name| Metric::new(name, 0.0, "")));
        let setting = RepairSetting { window: None, r: 8, c: 3, questions: false };
        let measured = row(&plan(), setting, &result, None);
        assert_eq!((measured.corrupt, measured.untold), (0, 0));
        result.summary[1].value = 2.0;
        result.summary[2].value = 3.0;
        result.summary[3].value = 4.0;
        let measured = row(&plan(), setting, &result, None);
        assert_eq!((measured.corrupt, measured.untold, measured.delivery.missing), (3, 2, 4));
    }

    #[test]
    fn what_arrived_is_counted_for_each_packet_at_a_receiver() {
        let arrived = Arrived { frames: 12, bytes: 700 }.since(Arrived { frames: 2, bytes: 100 });
        assert_eq!(arrived.per_packet(4.0), (2.5, 150.0));
    }

    #[test]
    fn each_setting_is_a_scenario() {
        let plan = plan();
        for window in [None, Some(32)] {
            let setting = RepairSetting { window, r: 8, c: 3, questions: window.is_none() };
            let scenario = scenario(&plan, setting).unwrap();
            paceline_lab_services::slingshot::Settings::read(&scenario).unwrap();
        }
    }
}
