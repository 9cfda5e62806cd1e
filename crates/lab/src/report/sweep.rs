use std::collections::BTreeMap;

use super::{Report, Section};
use crate::figure::Figure;
use crate::machine::Machine;
use crate::plot::{Axis, Mark, Plot};
use crate::sweep::{FinishedCell, Plan};

/// Series that a plot shows before it is split into several, and at all.
const SERIES_EASY: usize = 6;
const SERIES_MAX: usize = 12;

/// Figures that a report lists one by one.
const FIGURES_LISTED_MAX: usize = 200;

impl Report {
    /// The report of a sweep: every quantity that varies, over the first numeric axis.
    pub fn of_sweep(plan: &Plan, finished: &[FinishedCell]) -> Report {
        let fact = |name: &str, value: String| (name.to_owned(), value);
        let (cells, events) = (plan.cells().len(), finished.iter().map(|cell| cell.events).sum());
        let events: u64 = events;
        let mut facts: Vec<(String, String)> =
            plan.axes().iter().map(|axis| fact(&axis.key, axis.values.join(", "))).collect();
        facts.push(fact("cells", format!("{} of {cells}", finished.len())));
        facts.push(fact("events", events.to_string()));
        facts.push(fact("Paceline", env!("CARGO_PKG_VERSION").to_owned()));
        let grid = Grid::new(plan);
        let (figures, metrics) = quantities(finished);
        let plots = |quantities: &[Quantity]| -> Vec<Plot> {
            let varying = quantities.iter().filter(|quantity| quantity.varies());
            varying.flat_map(|quantity| grid.plots(quantity, finished)).collect()
        };
        let (listed, text) = listed(finished);
        let sections = [
            Section {
                heading: "Figures".into(),
                text,
                plots: plots(&figures),
                ..Section::default()
            },
            Section {
                heading: "Metrics".into(),
                text: "Means over the seeds, of every metric that is not the same everywhere."
                    .into(),
                plots: plots(&metrics),
                ..Section::default()
            },
            Section { heading: "All figures".into(), figures: listed, ..Section::default() },
        ];
        let is_empty = |section: &Section| section.plots.is_empty() && section.figures.is_empty();
        Report {
            title: format!("{}, swept", plan.name()),
            about: plan.cells().first().map(|cell| cell.scenario.about.clone()).unwrap_or_default(),
            facts,
            machine: Some(Machine::observe()),
            sections: sections.into_iter().filter(|section| !is_empty(section)).collect(),
            scenario_toml: Some(plan.to_toml().to_owned()),
        }
    }
}

/// The figures to list, and a sentence about them.
fn listed(finished: &[FinishedCell]) -> (Vec<Figure>, String) {
    let all: Vec<&Figure> = finished.iter().flat_map(|cell| &cell.figures).collect();
    if all.len() <= FIGURES_LISTED_MAX {
        return (all.into_iter().cloned().collect(), String::new());
    }
    let out: Vec<Figure> = all.iter().filter(|figure| !figure.pass).copied().cloned().collect();
    let text = format!("Of {} figures, {} are out of band and listed.", all.len(), out.len());
    (out.into_iter().take(FIGURES_LISTED_MAX).collect(), text)
}

/// Something measured in the cells.
struct Quantity {
    name: String,
    unit: String,
    by_cell: Vec<Option<f64>>,
}

impl Quantity {
    fn varies(&self) -> bool {
        let mut values = self.by_cell.iter().flatten();
        let first = values.next();
        values.any(|value| Some(value) != first)
    }
}

/// Figures and metrics. A figure goes by what it measures, `chain/throughput`, without the
/// setting that its id goes on to name: that is what the axes show.
fn quantities(finished: &[FinishedCell]) -> (Vec<Quantity>, Vec<Quantity>) {
    let (mut figures, mut metrics) = (Vec::new(), Vec::new());
    for (index, cell) in finished.iter().enumerate() {
        let stem = |figure: &Figure| figure.id.split('/').take(2).collect::<Vec<_>>().join("/");
        for figure in &cell.figures {
            let alone =
                cell.figures.iter().filter(|other| stem(other) == stem(figure)).count() == 1;
            let name = if alone { stem(figure) } else { figure.id.clone() };
            note(&mut figures, name, &figure.unit, (index, finished.len()), figure.measured);
        }
        for metric in &cell.metrics {
            let name = metric.metric.replace('_', " ");
            note(&mut metrics, name, &metric.unit, (index, finished.len()), metric.value);
        }
    }
    (figures, metrics)
}

fn note(
    all: &mut Vec<Quantity>,
    name: String,
    unit: &str,
    (cell, cells): (usize, usize),
    value: f64,
) {
    let place = all.iter().position(|quantity| quantity.name == name).unwrap_or_else(|| {
        all.push(Quantity { name, unit: unit.to_owned(), by_cell: vec![None; cells] });
        all.len() - 1
    });
    all[place].by_cell[cell] = Some(value).filter(|value| value.is_finite());
}

/// Which axis is drawn along, which axis parts plots, and which ones name series.
struct Grid<'a> {
    plan: &'a Plan,
    along: Option<Along>,
    panel: Option<usize>,
    series: Vec<usize>,
}

/// The axis drawn along: its place, and the numbers of its values.
struct Along {
    axis: usize,
    label: Axis,
    numbers: Option<Vec<f64>>,
}

impl<'a> Grid<'a> {
    fn new(plan: &'a Plan) -> Grid<'a> {
        let axes = plan.axes();
        let varied: Vec<usize> = (0..axes.len()).filter(|&a| axes[a].values.len() > 1).collect();
        let numeric = varied.iter().find_map(|&axis| {
            let (numbers, unit) = numbers(&axes[axis].values)?;
            let mut label = Axis::new(name(&axes[axis].key), unit);
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if low > 0.0 && high / low >= 16.0 {
                label = label.with_log();
            }
            Some(Along { axis, label, numbers: Some(numbers) })
        });
        let along = numeric.or_else(|| {
            let axis = *varied.first()?;
            Some(Along { axis, label: Axis::default(), numbers: None })
        });
        let mut series: Vec<usize> = varied;
        series.retain(|&axis| along.as_ref().is_none_or(|along| along.axis != axis));
        let count: usize = series.iter().map(|&axis| axes[axis].values.len()).product();
        let mut panel = None;
        if count > SERIES_EASY && series.len() > 1 {
            panel = series.iter().copied().min_by_key(|&axis| axes[axis].values.len());
            series.retain(|&axis| Some(axis) != panel);
        }
        Grid { plan, along, panel, series }
    }

    /// The plots of one quantity.
    fn plots(&self, quantity: &Quantity, finished: &[FinishedCell]) -> Vec<Plot> {
        let axes = self.plan.axes();
        let y = Axis::new("", quantity.unit.clone());
        let Some(along) = &self.along else {
            let points = finished.iter().zip(&quantity.by_cell);
            let points = points.filter_map(|(cell, value)| Some((cell.seed as f64, (*value)?)));
            let plot = Plot::new(quantity.name.clone(), Axis::new("seed", ""), y);
            return vec![plot.with_layer("", Mark::Points, points)];
        };
        let panels: Vec<Option<&String>> = match self.panel {
            Some(panel) => axes[panel].values.iter().map(Some).collect(),
            None => vec![None],
        };
        let plots = panels.into_iter().map(|value| {
            let is_here = |cell: &FinishedCell| match (self.panel, value) {
                (Some(panel), Some(value)) => cell.values[panel] == *value,
                _ => true,
            };
            let title = match (self.panel, value) {
                (Some(panel), Some(value)) => {
                    format!("{}, {} {value}", quantity.name, name(&axes[panel].key))
                }
                _ => quantity.name.clone(),
            };
            let lines = self.lines(along, quantity, finished, is_here);
            let plot = match &along.numbers {
                Some(_) => Plot::new(title, along.label.clone(), y.clone()),
                None => Plot::bars(title, axes[along.axis].values.clone(), y.clone()),
            };
            let (shown, all) = (lines.len().min(SERIES_MAX), lines.len());
            let plot = lines.into_iter().take(SERIES_MAX).fold(plot, |plot, (name, points)| {
                let mark = if along.numbers.is_some() { Mark::Line } else { Mark::Bars };
                plot.with_layer(name, mark, points)
            });
            if shown == all { plot } else { plot.with_caption(format!("{shown} of {all} series.")) }
        });
        plots.collect()
    }

    /// The series of one plot, in the order of the grid, each point the mean of its seeds.
    fn lines(
        &self,
        along: &Along,
        quantity: &Quantity,
        finished: &[FinishedCell],
        is_here: impl Fn(&FinishedCell) -> bool,
    ) -> Vec<(String, Vec<(f64, f64)>)> {
        let axes = self.plan.axes();
        let place = |axis: usize, cell: &FinishedCell| {
            axes[axis].values.iter().position(|value| *value == cell.values[axis]).unwrap_or(0)
        };
        let mut sums: BTreeMap<Vec<usize>, BTreeMap<usize, (f64, f64)>> = BTreeMap::new();
        for (cell, value) in finished.iter().zip(&quantity.by_cell) {
            if let Some(value) = value.filter(|_| is_here(cell)) {
                let key = self.series.iter().map(|&axis| place(axis, cell)).collect();
                let points = sums.entry(key).or_default();
                let (sum, count) = points.entry(place(along.axis, cell)).or_default();
                *sum += value;
                *count += 1.0;
            }
        }
        let x = |place: usize| match &along.numbers {
            Some(numbers) => numbers[place],
            None => place as f64,
        };
        let lines = sums.into_iter().map(|(key, points)| {
            let parts = self.series.iter().zip(&key).map(|(&axis, &place)| {
                let value = &axes[axis].values[place];
                match value.starts_with(|c: char| c.is_ascii_digit()) {
                    true => format!("{} {value}", name(&axes[axis].key)),
                    false => value.clone(),
                }
            });
            let label = parts.collect::<Vec<_>>().join(", ");
            let mut points: Vec<(f64, f64)> =
                points.into_iter().map(|(place, (sum, count))| (x(place), sum / count)).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            (label, points)
        });
        lines.collect()
    }
}

/// The last part of a dotted key, for a reader.
fn name(key: &str) -> String {
    key.rsplit('.').next().unwrap_or(key).replace('_', " ")
}

/// Numbers with one unit behind all of them: `["10ms", "20ms"]`.
fn numbers(values: &[String]) -> Option<(Vec<f64>, String)> {
    let split = |value: &String| -> Option<(f64, String)> {
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
        Some((value[..end].parse().ok()?, value[end..].trim().to_owned()))
    };
    let split: Vec<(f64, String)> = values.iter().map(split).collect::<Option<_>>()?;
    let unit = split.first()?.1.clone();
    let numbers = split.iter().map(|(number, _)| *number).collect();
    split.iter().all(|(_, other)| *other == unit).then_some((numbers, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_one_unit_are_numbers() {
        let values = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
        let read = numbers(&values(&["10ms", "20ms"])).unwrap();
        assert_eq!(read, (vec![10.0, 20.0], "ms".to_owned()));
        assert!(numbers(&values(&["10ms", "1s"])).is_none());
        assert!(numbers(&values(&["one", "all"])).is_none());
    }
}
