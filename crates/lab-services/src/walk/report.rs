//! The report of walks: the plots of the slides, and others. Its texts and plots come from the runs
//! behind the figures.

use paceline_lab::figure::{self, Figure, number};
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::report::Section;
use paceline_lab::{LabError, Progress};

use super::curves::{Curves, kept};
use super::figures::{RATIOS, reproduce};

/// The sections of the report of `reproduce walk`.
pub(super) fn sections(
    figures: &[Figure],
    settings: &figure::Settings,
    progress: &dyn Progress,
) -> Result<Vec<Section>, LabError> {
    let curves = match kept(settings) {
        Some(curves) => Some(curves),
        // Runs are the same each time, so their curves belong to the figures.
        None => {
            reproduce(settings, progress)?;
            kept(settings)
        }
    };
    let section = |heading: &str, text: String, plots: Vec<Plot>| Section {
        heading: heading.to_owned(),
        text,
        plots,
        ..Section::default()
    };
    let text = Text { figures };
    let mut sections = Vec::new();
    if let Some(Curves { queues, dropped, lengths, sizes }) = curves {
        sections.push(section("Experiment 1", text.methods(sizes), methods(figures)));
        let queues = queues.into_iter().collect();
        sections.push(section("Experiment 2", text.queues(), queues));
        sections.push(section("Where walkers are dropped", text.drops(), vec![dropped]));
        sections.push(section("Bias", text.bias(), vec![lengths]));
    }
    let cells = vec![cells(figures, "red"), cells(figures, "tail")];
    sections.push(section("Experiment 3", text.cells(), cells));
    let plots = vec![delays(figures), idle(figures)];
    sections.push(section("Synchronous and asynchronous", text.engines(), plots));
    let plots = synchronisation(figures).into_iter().collect();
    sections.push(section("Global synchronisation", text.synchronisation(), plots));
    Ok(sections)
}

/// Sentences made of figures.
struct Text<'a> {
    figures: &'a [Figure],
}

impl Text<'_> {
    fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// A figure's number; `none` if there is no such figure.
    fn n(&self, id: &str) -> String {
        self.figure(id).map_or("none".to_owned(), |figure| number(figure.measured))
    }

    fn methods(&self, (servers, vertices, walks): (usize, u32, u32)) -> String {
        let of = |method: &str, what: &str| self.n(&format!("walk/e1/{method}/{what}"));
        let orders = |what: &str| {
            let figure = self.figure(&format!("walk/e1/order/{what}"));
            figure.map_or(String::new(), |figure| {
                format!(" {} {} ({}).", number(figure.measured), figure.unit, figure.note)
            })
        };
        format!(
            "{servers} servers, {vertices} vertices each, {walks} walks from every vertex. RED \
             with sources that pause (rq-rg) takes {} s and generates {} additional walkers; \
             sources that never pause take {} s and {}, sources that always pause {} s and {}. \
             With tail drop it is {} s and {}; without direct notification {} s and {}. Marks \
             instead of drops (mark-exact) take {} s, drop {} walkers and generate {} \
             additional ones. Pairs of methods in the published order, by time:{} By additional \
             walks:{}",
            of("rq-rg", "time-s"),
            of("rq-rg", "additional"),
            of("rq-sleep0", "time-s"),
            of("rq-sleep0", "additional"),
            of("rq-sleep1", "time-s"),
            of("rq-sleep1", "additional"),
            of("tail-rg", "time-s"),
            of("tail-rg", "additional"),
            of("rq-rg-nodirect", "time-s"),
            of("rq-rg-nodirect", "additional"),
            of("mark-exact", "time-s"),
            of("mark-exact", "dropped"),
            of("mark-exact", "additional"),
            orders("time"),
            orders("additional"),
        )
    }

    fn queues(&self) -> String {
        format!(
            "The queue of the last server: {} walkers on average with RED, {} with tail drop, {} \
             with marks in experiment 1.",
            self.n("walk/e2/rq-rg/queue-mean"),
            self.n("walk/e2/tail-rg/queue-mean"),
            self.n("walk/e1/mark-exact/queue-mean"),
        )
    }

    fn drops(&self) -> String {
        let note = self.figure("walk/e1/drops-at-s3").map_or("", |figure| figure.note.as_str());
        format!(
            "Share of walkers dropped at the last server, with RED: {} ({note}). Of these, its own \
             walkers are {} with RED and {} with tail drop.",
            self.n("walk/e1/drops-at-s3"),
            self.n("walk/e1/drop-share-by-origin/red"),
            self.n("walk/e1/drop-share-by-origin/tail"),
        )
    }

    fn cells(&self) -> String {
        format!(
            "Additional walks, in thousands, by the ratios A:B and B:C. RED has fewer than tail \
             drop in {} of 9 cells. With RED they fall from B:C = 1:2 to 1:10 at {} of 3 values of \
             A:B; as published they fall at 2 of 3.",
            self.n("walk/e3/cells-won"),
            self.n("walk/e3/falls-with-c"),
        )
    }

    fn bias(&self) -> String {
        format!(
            "Mean hops of finished walks: {} with RED, {} with tail drop, {} where lost walks are \
             executed again ({}). Where other walks replace lost ones, short walks finish more \
             often.",
            self.n("walk/bias/rq-rg/mean-hops"),
            self.n("walk/bias/tail-rg/mean-hops"),
            self.n("walk/bias/mark-exact/mean-hops"),
            self.figure("walk/bias/mark-exact/mean-hops").map_or("", |figure| figure.note.as_str()),
        )
    }

    fn engines(&self) -> String {
        let idle = |method: &str| {
            let of = |server| self.n(&format!("walk/e1/idle/{method}/s{server}"));
            format!("{}, {} and {}", of(1), of(2), of(3))
        };
        let delayed = |method: &str| {
            let of = |added| self.n(&format!("walk/delay/{added}ms/{method}"));
            format!(
                "{} s without and {} s with 50 ms of additional delay between servers",
                of(0),
                of(50)
            )
        };
        format!(
            "A synchronous engine, whose servers wait for each other after each step, completes \
             experiment 1 in {} s; RED with pausing sources completes it in {} s. Shares of the \
             time in which the servers are idle: {} with the synchronous engine, {} with RED. With \
             fewer walks: synchronous {}; RED {}; marks {}.",
            self.n("walk/e1/synchronous/time-s"),
            self.n("walk/e1/rq-rg/time-s"),
            idle("synchronous"),
            idle("rq-rg"),
            delayed("synchronous"),
            delayed("rq-rg"),
            delayed("mark-exact"),
        )
    }

    fn synchronisation(&self) -> String {
        let of = |name: &str| {
            let prefix = format!("walk/e1/sync/{name}/");
            let pairs = self.figures.iter().filter_map(|figure| {
                let pair = figure.id.strip_prefix(&prefix)?;
                Some(format!("{pair}: {}", number(figure.measured)))
            });
            let pairs: Vec<String> = pairs.collect();
            if pairs.is_empty() { "no figures".to_owned() } else { pairs.join(", ") }
        };
        format!(
            "Correlation of the walkers that two servers generate in about the time of a walk, \
             while all servers generate, by pair of servers. RED: {}. Tail drop: {}. RED without \
             direct notification: {}. Above 0, two servers increase and reduce their rates at the \
             same time.",
            of("red"),
            of("tail"),
            of("nodirect"),
        )
    }
}

/// Time over the delay that is added between servers, by method.
fn delays(figures: &[Figure]) -> Plot {
    let plot = Plot::new("Time by delay", Axis::new("added delay", "ms"), Axis::new("time", "s"));
    ["rq-rg", "mark-exact", "synchronous"].into_iter().fold(plot, |plot, method| {
        let point = |figure: &Figure| {
            let (added, of) = figure.id.strip_prefix("walk/delay/")?.split_once("ms/")?;
            Some((added.parse::<f64>().ok()?, figure.measured)).filter(|_| of == method)
        };
        plot.with_line(method, figures.iter().filter_map(point).collect::<Vec<_>>())
    })
}

/// Bars of each server's idle share, by method.
fn idle(figures: &[Figure]) -> Plot {
    let of = |method: &str| -> Vec<f64> {
        let prefix = format!("walk/e1/idle/{method}/");
        let figures = figures.iter().filter(|figure| figure.id.starts_with(&prefix));
        figures.map(|figure| figure.measured).collect()
    };
    let names = (1..=of("synchronous").len()).map(|server| format!("server {server}"));
    let plot = Plot::bars("Idle servers", names, Axis::new("share of the time", ""));
    ["rq-rg", "tail-rg", "mark-exact", "synchronous"]
        .into_iter()
        .fold(plot, |plot, method| plot.with_group(method, of(method)))
}

/// Bars of each pair's correlation, by method.
fn synchronisation(figures: &[Figure]) -> Option<Plot> {
    const METHODS: [&str; 3] = ["red", "tail", "nodirect"];
    let of = |method: &str| -> Vec<(String, f64)> {
        let prefix = format!("walk/e1/sync/{method}/");
        let pair =
            |figure: &Figure| Some((figure.id.strip_prefix(&prefix)?.to_owned(), figure.measured));
        figures.iter().filter_map(pair).collect()
    };
    let pairs: Vec<String> = of(METHODS[0]).into_iter().map(|(pair, _)| pair).collect();
    if pairs.is_empty() {
        return None;
    }
    let plot =
        Plot::bars("Correlation of generation between servers", pairs.clone(), Axis::new("r", ""));
    Some(METHODS.iter().fold(plot, |plot, method| {
        let values = of(method);
        let value = |pair: &String| {
            values.iter().find(|(of, _)| of == pair).map_or(f64::NAN, |(_, value)| *value)
        };
        plot.with_group(*method, pairs.iter().map(value).collect::<Vec<_>>())
    }))
}

/// Bars of experiment 1: times and additional walks, measured and published.
fn methods(figures: &[Figure]) -> Vec<Plot> {
    let of = |what: &str| -> Vec<&Figure> {
        let is_it = |figure: &&Figure| {
            let parts: Vec<&str> = figure.id.split('/').collect();
            parts.len() == 4 && parts[..2] == ["walk", "e1"] && parts[3] == what
        };
        figures.iter().filter(is_it).collect()
    };
    let bars = |title: &str, what: &str, axis: Axis| {
        let figures = of(what);
        let names = figures.iter().filter_map(|figure| figure.id.split('/').nth(2));
        let measured: Vec<f64> = figures.iter().map(|figure| figure.measured).collect();
        let paper: Vec<f64> =
            figures.iter().map(|figure| figure.paper.unwrap_or(f64::NAN)).collect();
        Plot::bars(title, names.map(str::to_owned), axis)
            .with_group("measured", measured)
            .with_group("paper", paper)
    };
    vec![
        bars("Time", "time-s", Axis::new("time", "s")),
        bars("Additional walks", "additional", Axis::new("walks", "")),
    ]
}

/// Additional walks of experiment 3, by A:B and B:C.
fn cells(figures: &[Figure], method: &str) -> Plot {
    let value = |b: u32, c: u32| {
        let id = format!("walk/e3/additional/a1-b{b}-c{c}/{method}");
        let found = figures.iter().find(|figure| figure.id == id);
        found.map_or(f64::NAN, |figure| figure.measured / 1e3)
    };
    let columns = RATIOS.map(|c| format!("B:C = 1:{c}"));
    let rows = RATIOS.map(|b| (format!("1:{b}"), RATIOS.map(|c| value(b, c)).to_vec()));
    Plot::heat(format!("With {method}, by A:B"), columns, rows)
}
