//! `paceline tour`: what Paceline does, on real sockets and beside the published figures, in
//! less than a minute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as WallClock;

use paceline_proto::chain::Topology;
use serde::Serialize;

use crate::figure::{Figure, Reproduction, Scale, Settings};
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::{Axis, Plot, Report, Section};
use crate::reproduce::{self, Reproduced};
use crate::run::{Place, RunResult};
use crate::scenario::ScenarioFile;
use crate::{LabError, REPRODUCTIONS, run_on_sockets};

/// Broadcasts over loopback sockets, one way of spreading them.
#[derive(Clone, Debug, Serialize)]
pub struct Broadcasts {
    /// How they spread.
    pub topology: &'static str,
    /// `one` or `all`.
    pub senders: &'static str,
    /// Members.
    pub nodes: u32,
    /// Deliveries, each checked: origin, number, every byte.
    pub messages_delivered: u64,
    /// Messages that did not reach a member.
    pub messages_missing: u64,
    /// Messages that were damaged or out of order.
    pub messages_damaged: u64,
    /// Megabytes that a member was told in a second, own included.
    pub mb_per_node_per_s: f64,
    /// Median latency from acceptance to remote delivery.
    pub p50_ms: f64,
    /// 99th percentile of it.
    pub p99_ms: f64,
}

/// What a tour showed.
#[derive(Clone, Debug, Serialize)]
pub struct Tour {
    /// Broadcasts on sockets.
    pub sockets: Vec<Broadcasts>,
    /// Published figures beside the measured ones.
    pub results: Vec<Figure>,
    /// The report.
    pub report: PathBuf,
    /// Seconds that it took.
    pub seconds: f64,
}

impl Tour {
    /// True if every delivery was right and every figure is within its band.
    pub fn is_good(&self) -> bool {
        let is_right = |row: &Broadcasts| row.messages_missing == 0 && row.messages_damaged == 0;
        self.sockets.iter().all(is_right) && self.results.iter().all(|figure| figure.pass)
    }
}

/// Takes the tour.
pub fn run(place: &Place, progress: &dyn Progress) -> Result<Tour, LabError> {
    let started = WallClock::now();
    let mut sockets = Vec::new();
    for senders in ["one", "all"] {
        for topology in Topology::ALL {
            sockets.push(broadcasts(topology, senders, progress)?);
            stop_if_asked(progress, sockets.len())?;
        }
    }
    let settings = Settings { scale: Scale::Quick, ..Settings::default() };
    let reproductions: Vec<&'static Reproduction> = REPRODUCTIONS.iter().collect();
    let reproduced = reproduce::run(reproductions, &settings, progress)?;
    let results = reproduce::results(&reproduced);
    let report = report(&sockets, &reproduced, &settings, progress)?;
    let folder = reproduce::write(&results, &report, place, "tour")?;
    Ok(Tour {
        sockets,
        results: results.results,
        report: folder.join("report.html"),
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn stop_if_asked(progress: &dyn Progress, finished: usize) -> Result<(), LabError> {
    if progress.stopped() {
        return Err(LabError::Stopped { finished, total: 2 * Topology::ALL.len() });
    }
    Ok(())
}

fn broadcasts(
    topology: Topology,
    senders: &'static str,
    progress: &dyn Progress,
) -> Result<Broadcasts, LabError> {
    let sets = [format!("protocol.topology={topology}"), format!("workload.senders={senders}")];
    let scenario = Arc::new(ScenarioFile::load("chain/tour")?.with_sets(sets)?.resolve()?);
    let nodes = scenario.topology.nodes;
    let result = run_on_sockets(scenario, 1, None, progress)?;
    let value = |name| metric(&result, name);
    Ok(Broadcasts {
        topology: topology.name(),
        senders,
        nodes,
        messages_delivered: value("messages_delivered") as u64,
        messages_missing: value("messages_missing") as u64,
        messages_damaged: value("messages_damaged") as u64,
        mb_per_node_per_s: value("throughput"),
        p50_ms: value("latency_p50"),
        p99_ms: value("latency_p99"),
    })
}

fn metric(result: &RunResult, name: &str) -> f64 {
    result.summary.iter().find(|metric| metric.metric == name).map_or(f64::NAN, |m| m.value)
}

fn report(
    sockets: &[Broadcasts],
    reproduced: &[Reproduced],
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Report, LabError> {
    let names = Topology::ALL.map(Topology::name);
    let of = |senders: &'static str, value: fn(&Broadcasts) -> f64| {
        sockets.iter().filter(move |row| row.senders == senders).map(value)
    };
    let received = Axis::new("received", "MB/node/s");
    let throughput = Plot::bars("Throughput on loopback sockets", names, received)
        .with_caption(
            "Four members, 8 KB messages, own messages included. Loopback has no links to save: \
             the processor is the limit, which all members share.",
        )
        .with_group("one sends", of("one", |row| row.mb_per_node_per_s))
        .with_group("all send", of("all", |row| row.mb_per_node_per_s));
    let latency = Plot::bars("Latency under full load", names, Axis::new("median", "ms"))
        .with_caption(
            "From acceptance at the sender to delivery at every other member, while as much is \
             sent as is accepted.",
        )
        .with_group("one sends", of("one", |row| row.p50_ms))
        .with_group("all send", of("all", |row| row.p50_ms));
    let delivered: u64 = sockets.iter().map(|row| row.messages_delivered).sum();
    let wrong: u64 = sockets.iter().map(|row| row.messages_missing + row.messages_damaged).sum();
    let text = format!(
        "{delivered} deliveries over real TCP and UDP sockets, each checked for origin, order and \
         every byte: {wrong} wrong."
    );
    let live = Section {
        heading: "Broadcast, on sockets".to_owned(),
        text,
        plots: vec![throughput, latency],
        ..Section::default()
    };
    let mut report = reproduce::report(reproduced, settings, progress)?;
    report.title = "Paceline: the tour".to_owned();
    report.about =
        "Every message of every member, in order, once: on this machine's sockets, and in the \
                    simulator beside what was published."
            .to_owned();
    report.machine = Some(Machine::observe());
    report.sections.insert(0, live);
    Ok(report)
}
