//! `paceline tour`: what Paceline does, on real sockets and beside the published figures, in
//! less than a minute.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant as WallClock;

use paceline_lab::figure::number;
use paceline_lab::figure::{Figure, Scale, Settings};
use paceline_lab::folder::Place;
use paceline_lab::machine::Machine;
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::{Report, Section};
use paceline_lab::reproduce::{self, Reproduced, Reproduction};
use paceline_lab::run::RunResult;
use paceline_lab::standing::{Tally, summary};
use paceline_lab::{LabError, Progress};
use paceline_proto::chain::Topology;
use serde::Serialize;

use crate::catalog::CATALOG;
use crate::run_on_sockets;
use crate::services::reproductions;

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
    /// Megabytes that a member delivered in a second, own included.
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
    /// How many figures stand where.
    pub tally: Tally,
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

impl Tour {
    /// What ran on sockets, how many figures of each paper lie inside their bands, and where the
    /// report is: at most 24 lines of 80 columns.
    pub fn summary(&self) -> String {
        let delivered: u64 = self.sockets.iter().map(|row| row.messages_delivered).sum();
        let missing: u64 = self.sockets.iter().map(|row| row.messages_missing).sum();
        let damaged: u64 = self.sockets.iter().map(|row| row.messages_damaged).sum();
        let mut text = format!(
            "On real sockets: four members broadcast over TCP and UDP on this machine.\n\
             {delivered} deliveries, each checked byte by byte: {missing} missing, \
             {damaged} damaged.\n"
        );
        let chains = self.sockets.iter().filter(|row| row.topology == "chain");
        for Broadcasts { senders, mb_per_node_per_s, p50_ms, .. } in chains {
            let who = if *senders == "one" { "one member sends" } else { "all members send" };
            text.push_str(&format!(
                "  chain, {who}: {} MB/s at each member, median latency {} ms\n",
                number(*mb_per_node_per_s),
                number(*p50_ms)
            ));
        }
        text.push_str("\nIn the simulator: shorter runs of each paper's experiments.\n");
        text.push_str(&summary(&self.results));
        text.push_str(
            "\"in band\": the published and the measured value lie in one band. Some quick runs\n\
             send a tenth of what was published; `paceline reproduce` runs them at full size.\n",
        );
        let failed = self.results.iter().filter(|figure| !figure.pass).count();
        text.push_str(&match (self.is_good(), failed) {
            (true, _) => format!("\nEvery check passed, in {} s.", number(self.seconds.round())),
            (false, 0) => "\nFAILED: deliveries are missing or damaged.".to_owned(),
            (false, _) => format!("\nFAILED: {failed} figures are out of their bands."),
        });
        text.push_str(" Tables: --verbose, or the report:\n");
        text.push_str(&format!("  {}\n", self.report.display()));
        text.push_str("Next: `paceline run chain/six`, then `paceline list`.\n");
        text
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
    let reproductions: Vec<&'static Reproduction> = reproductions().collect();
    let reproduced = reproduce::run(reproductions, &settings, progress)?;
    let results = reproduce::results(&reproduced);
    let report = report(&sockets, &reproduced, &settings, progress)?;
    let folder = reproduce::write(&results, &report, place, "tour")?;
    Ok(Tour {
        sockets,
        tally: Tally::of(&results.results),
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
    let scenario = Arc::new(CATALOG.load("chain/tour")?.with_sets(sets)?.resolve()?);
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
            "From acceptance at the sender to delivery at every other member, while senders send \
             as much as is accepted.",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_fits_a_screen_of_80_columns_and_24_lines() {
        let broadcasts = |topology, senders| Broadcasts {
            topology,
            senders,
            nodes: 4,
            messages_delivered: 1_234_567,
            messages_missing: 0,
            messages_damaged: 0,
            mb_per_node_per_s: 1234.567,
            p50_ms: 12.345,
            p99_ms: 99.99,
        };
        let sockets = ["one", "all"].map(|senders| broadcasts("chain", senders)).to_vec();
        let mut results = Vec::new();
        for reproduction in reproductions() {
            for number in 0..120 {
                let id = format!("{}/{number}", reproduction.name);
                results.push(Figure::new(id, 1.0, "").with_paper(1.0).with_band(0.0, 2.0));
            }
        }
        let report = PathBuf::from("runs/tour-12/report.html");
        let tally = Tally::of(&results);
        let mut tour = Tour { sockets, results, tally, report, seconds: 123.4 };
        let fits = |text: &str| {
            assert!(text.lines().count() <= 24, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        };
        fits(&tour.summary());
        assert!(tour.summary().contains("Every check passed"));
        tour.results[0].pass = false;
        fits(&tour.summary());
        assert!(tour.summary().contains("FAILED: 1 figures"), "{}", tour.summary());
    }
}
