//! The report of the broadcast figures: their plots, and the curves behind them.

use std::collections::BTreeMap;

use paceline_lab::experiment::Experiment;
use paceline_lab::figure::{Figure, Scale, Settings, number};
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::sweep::Plan;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_proto::chain::Topology;
use rayon::prelude::*;

use super::setting::limit_bytes_per_second;
use super::{Broadcast, rounds};
use crate::catalog::CATALOG;

const SHARED_LIMIT: &str = "With all N members sending, sending to each in turn and the chain \
    share one limit: every message crosses N - 1 of N links, so a member delivers at most C N / (N \
    - 1) bytes a second, its own included, C being the rate of a link. Link counts do not explain \
    the published 73 MB/s against 107 MB/s, where that limit is 157. Losses at the ports of the \
    switch are one cause (below); processor time of the hosts is another, which this model of the \
    network leaves out. With k < N senders the links themselves favour the chain: it gains (N - 1) \
    / k.";

const ROUNDS: &str = "Rounds until every member has all X blocks of one sender, a round being the \
    time of one block on one link. Bars are measured, diamonds are the closed forms.";

/// The sections of the report of `reproduce chain`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let mut sections = vec![
        Section {
            heading: "Rounds".into(),
            text: ROUNDS.into(),
            plots: round_counts(figures),
            ..Section::default()
        },
        Section {
            heading: "Throughput".into(),
            text: SHARED_LIMIT.into(),
            plots: published_throughput(figures),
            ..Section::default()
        },
        Section { heading: "Gain".into(), plots: gains(figures), ..Section::default() },
    ];
    sections.extend(incast(figures));
    if settings.sets.is_empty() {
        sections.extend(rounds::sections(settings)?);
    }
    // Overrides may fix what the curves vary; then the figures stand alone.
    if settings.scale == Scale::Full && settings.sets.is_empty() {
        let curves = Curves::measure(settings, progress)?;
        sections[1].plots.extend(curves.throughput());
        sections[2].plots = vec![curves.gain()];
    }
    sections.retain(|section| !section.plots.is_empty());
    Ok(sections)
}

/// The rest of an id behind this prefix, cut at its slashes.
fn parts<'a>(figure: &'a Figure, prefix: &str) -> Option<Vec<&'a str>> {
    Some(figure.id.strip_prefix(prefix)?.split('/').collect())
}

/// Topologies and their figures.
type Bars<'a> = Vec<(&'a str, &'a Figure)>;

/// One plot for each setting of blocks and members.
fn round_counts(figures: &[Figure]) -> Vec<Plot> {
    let mut settings: Vec<(&str, Bars<'_>)> = Vec::new();
    for figure in figures {
        if let Some([topology, setting]) = parts(figure, "chain/rounds/").as_deref() {
            match settings.iter_mut().find(|(known, _)| known == setting) {
                Some((_, bars)) => bars.push((topology, figure)),
                None => settings.push((setting, vec![(topology, figure)])),
            }
        }
    }
    let plots = settings.into_iter().map(|(setting, bars)| {
        let title = match setting.strip_prefix('x').and_then(|rest| rest.split_once("-n")) {
            Some((blocks, nodes)) => format!("X = {blocks}, N = {nodes}"),
            None => setting.to_owned(),
        };
        Plot::bars(title, bars.iter().map(|(topology, _)| *topology), Axis::new("", "rounds"))
            .with_group("measured", bars.iter().map(|(_, figure)| figure.measured))
            .with_paper_group("closed form", bars.iter().map(|(_, f)| f.low.unwrap_or(f64::NAN)))
    });
    plots.collect()
}

/// The throughput figures, a plot for each setting, beside what was published for it.
fn published_throughput(figures: &[Figure]) -> Vec<Plot> {
    let mut settings: Vec<(&str, Vec<(String, &Figure)>)> = Vec::new();
    for figure in figures {
        let parts = parts(figure, "chain/throughput/");
        let Some([topology, senders, setting]) = parts.as_deref() else { continue };
        let bar = (format!("{topology}, {senders}"), figure);
        match settings.iter_mut().find(|(known, _)| known == setting) {
            Some((_, bars)) => bars.push(bar),
            None => settings.push((setting, vec![bar])),
        }
    }
    let plots = settings.into_iter().map(|(setting, bars)| {
        let axis = Axis::new("delivered at each member, own included", "MB/s");
        let plot = Plot::bars(titled(setting), bars.iter().map(|bar| bar.0.clone()), axis)
            .with_group("measured", bars.iter().map(|bar| bar.1.measured));
        if bars.iter().all(|bar| bar.1.paper.is_none()) {
            return plot;
        }
        plot.with_paper_group("published", bars.iter().map(|bar| bar.1.paper.unwrap_or(f64::NAN)))
            .with_caption("Published values exist for all members sending only.")
    });
    plots.collect()
}

/// `n4-1gbit-8k` in words.
fn titled(setting: &str) -> String {
    let words = setting.split('-').map(|word| match word.strip_prefix('n') {
        Some(nodes) if nodes.parse::<u32>().is_ok() => format!("{nodes} members"),
        _ => match (word.strip_suffix("gbit"), word.strip_suffix("mbit"), word.strip_suffix('k')) {
            (Some(rate), ..) => format!("{rate} Gbit/s"),
            (_, Some(rate), _) => format!("{rate} Mbit/s"),
            (.., Some(size)) => format!("{size} KB"),
            _ => word.to_owned(),
        },
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Throughput against the buffer of the switch's ports, and how much of the published gap it makes.
fn incast(figures: &[Figure]) -> Option<Section> {
    let of = |topology: &str| -> Vec<(f64, &Figure)> {
        let prefix = format!("chain/incast/{topology}/");
        let of = |figure| {
            let size = parts(figure, &prefix)?;
            Some((size[0].strip_suffix("kib")?.parse::<f64>().ok()?, figure))
        };
        figures.iter().filter_map(of).collect()
    };
    let gaps = of("gap");
    let widest = gaps.iter().max_by(|a, b| a.1.measured.total_cmp(&b.1.measured))?;
    let (deepest, _) = gaps.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = format!(
        "All four members send 8 KB messages over streams that behave as TCP, through ports that \
         drop what they cannot buffer. N-1 sends three streams into each port, the chain one. The \
         chain's gain is widest at {} KiB a port, {} times; at {} KiB it is {}. Published: {} \
         times, at a switch whose buffers are not known.",
        number(widest.0),
        number(widest.1.measured),
        number(*deepest),
        number(gaps.iter().find(|(size, _)| size == deepest)?.1.measured),
        widest.1.paper.map_or("-".to_owned(), number),
    );
    let points = |topology| -> Vec<(f64, f64)> {
        of(topology).into_iter().map(|(size, figure)| (size, figure.measured)).collect()
    };
    let x = || Axis::new("buffer of a port", "KiB").with_log();
    let rate = Plot::new("All send over TCP", x(), Axis::new("delivered at each member", "MB/s"))
        .with_line("N-1", points("unicast"))
        .with_line("chain", points("chain"));
    let gap = Plot::new("Chain over N-1", x(), Axis::new("", "times"))
        .with_line("measured", points("gap"))
        .with_paper(
            "published",
            gaps.iter()
                .filter_map(|(size, figure)| Some((*size, figure.paper?)))
                .collect::<Vec<_>>(),
        );
    Some(Section { heading: "Incast".into(), text, plots: vec![rate, gap], ..Section::default() })
}

fn gains(figures: &[Figure]) -> Vec<Plot> {
    let of = |figure: &Figure| {
        let parts = parts(figure, "chain/gain/one-sender/n")?;
        Some((parts[0].parse::<f64>().ok()?, figure.measured))
    };
    let points: Vec<(f64, f64)> = figures.iter().filter_map(of).collect();
    if points.is_empty() { Vec::new() } else { vec![gain_plot(points)] }
}

fn gain_plot(points: Vec<(f64, f64)>) -> Plot {
    let expected: Vec<(f64, f64)> = points.iter().map(|&(n, _)| (n, n - 1.0)).collect();
    Plot::new("One sender: chain over unicast", Axis::new("members", ""), Axis::new("", "times"))
        .with_line("measured", points)
        .with_paper("N - 1", expected)
}

/// Throughput against the number of members, for every topology, with one sender and all.
struct Curves {
    // By senders and topology: members, MB/s measured, MB/s that link counts allow.
    points: BTreeMap<Series, Vec<(f64, f64, f64)>>,
}

/// Senders and topology.
type Series = (&'static str, &'static str);

const SENDERS: [&str; 2] = ["one", "all"];

impl Curves {
    /// Runs the sweep of `chain/throughput` at a shorter duration: the rate is steady early.
    fn measure(settings: &Settings, progress: &dyn Progress) -> Result<Curves, LabError> {
        let sets = ["duration=150ms", "measure.warmup=50ms"];
        let plan = Plan::new(&CATALOG.load("chain/throughput")?.with_sets(sets)?)?;
        progress.start(plan.cells().len() as u64, "curves");
        let one = |cell: &paceline_lab::sweep::Cell| -> Result<_, LabError> {
            if progress.stopped() {
                return Ok(None);
            }
            let broadcast = Broadcast::read(&cell.scenario)?;
            let limit = limit_bytes_per_second(&broadcast, &cell.scenario) / 1e6;
            let seed = settings.seed.unwrap_or(cell.seed);
            let result = Broadcast::run(&Trial::simulated(&cell.scenario, seed))?;
            progress.inc(1);
            let measured = result.figures.first().map_or(f64::NAN, |figure| figure.measured);
            let topology = broadcast.plan().topology.map_or("auto", Topology::name);
            let senders = broadcast.plan().senders.name(cell.scenario.topology.nodes);
            let senders = SENDERS.into_iter().find(|name| *name == senders).unwrap_or("some");
            let nodes = f64::from(cell.scenario.topology.nodes);
            Ok(Some(((senders, topology), (nodes, measured, limit))))
        };
        let measured: Vec<_> = plan.cells().par_iter().map(one).collect::<Result<_, _>>()?;
        progress.finish();
        let mut points: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, point) in measured.into_iter().flatten() {
            points.entry(key).or_default().push(point);
        }
        Ok(Curves { points })
    }

    fn throughput(&self) -> Vec<Plot> {
        let plots = SENDERS.map(|senders| {
            let title = match senders {
                "one" => "One sender, 1 Gbit/s",
                _ => "All send, 1 Gbit/s",
            };
            let x = Axis::new("members", "").with_log();
            let mut plot = Plot::new(title, x, Axis::new("delivered at each member", "MB/s"));
            let mut limits: Vec<(f64, f64)> = Vec::new();
            for topology in Topology::ALL.map(Topology::name) {
                let Some(points) = self.points.get(&(senders, topology)) else { continue };
                plot =
                    plot.with_line(topology, points.iter().map(|&(n, measured, _)| (n, measured)));
                for &(n, _, limit) in points {
                    if !limits.contains(&(n, limit)) {
                        limits.push((n, limit));
                    }
                }
            }
            plot.with_paper("limit by link count", limits)
        });
        plots.to_vec()
    }

    fn gain(&self) -> Plot {
        let of = |topology| self.points.get(&("one", topology)).into_iter().flatten();
        let points = of("chain").filter_map(|&(n, chain, _)| {
            let (_, unicast, _) = of("unicast").find(|(nodes, _, _)| *nodes == n)?;
            Some((n, chain / unicast))
        });
        gain_plot(points.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_of_throughput_is_titled_by_its_own_setting() {
        let figure = |id: &str| Figure::new(id, 1.0, "MB/s");
        let plots = published_throughput(&[
            figure("chain/throughput/chain/all/n4-1gbit-8k").with_paper(107.0),
            figure("chain/throughput/tree/all/n4-1gbit-8k"),
            figure("chain/throughput/chain/one/n13-100mbit-64k"),
        ]);
        let titles: Vec<&str> = plots.iter().map(|plot| plot.title.as_str()).collect();
        assert_eq!(titles, ["4 members, 1 Gbit/s, 8 KB", "13 members, 100 Mbit/s, 64 KB"]);
        assert!(plots[1].caption.is_empty(), "nothing was published for it");
    }
}
