//! Plots, as data: series, axes, and how they are drawn.

mod axis;
mod draw;
mod svg;

use serde::{Deserialize, Serialize};

pub use axis::{Axis, Scale};

use crate::figure::null_is_nan;

/// A plot: layers over two axes, groups of bars over categories, or what happens along lanes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What it shows, in a few words.
    pub title: String,
    /// What a reader should see in it; a sentence or nothing.
    pub caption: String,
    x: Axis,
    y: Axis,
    categories: Vec<String>,
    // Names at the y axis, from the top.
    lanes: Vec<String>,
    layers: Vec<Layer>,
    // Text at points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    labels: Vec<Label>,
    // Without axes: only the connections matter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_bare: bool,
    // Of a map of heat: a value for each lane and category.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cells: Vec<Vec<Value>>,
}

/// JSON has no NaN: it is written as null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Value(#[serde(deserialize_with = "null_is_nan")] f64);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Label {
    x: f64,
    y: f64,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Layer {
    name: String,
    mark: Mark,
    points: Vec<Point>,
}

/// JSON has no NaN: it is written as null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Point(
    #[serde(deserialize_with = "null_is_nan")] f64,
    #[serde(deserialize_with = "null_is_nan")] f64,
);

impl Layer {
    /// True if each point has a marker; on a line of many they would only blur it.
    fn is_marked(&self) -> bool {
        match self.mark {
            Mark::Line => self.points.len() <= MARKERS_MAX,
            Mark::Steps | Mark::Bars | Mark::Arrows | Mark::Rules => false,
            Mark::Points | Mark::Paper => true,
        }
    }
}

/// How the points of a layer are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mark {
    /// Joined by straight lines.
    Line,
    /// Joined by steps: a value holds until the next.
    Steps,
    /// Each on its own.
    Points,
    /// Published values: hollow diamonds in the colour of the text.
    Paper,
    /// Bars over categories.
    Bars,
    /// Arrows, each from a point to the next. One whose end has no time ends half-way: lost.
    Arrows,
    /// Vertical lines at the times of the points, whose other coordinate does not count.
    Rules,
}

impl Plot {
    /// A plot without layers.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        let (categories, lanes, layers) = (Vec::new(), Vec::new(), Vec::new());
        let (title, caption, cells) = (title.into(), String::new(), Vec::new());
        let (labels, is_bare) = (Vec::new(), false);
        Plot { title, caption, x, y, categories, lanes, layers, labels, is_bare, cells }
    }

    /// A plot of bars, without groups yet.
    pub fn bars<S: Into<String>>(
        title: impl Into<String>,
        categories: impl IntoIterator<Item = S>,
        y: Axis,
    ) -> Plot {
        let mut plot = Plot::new(title, Axis::default(), y);
        plot.categories = categories.into_iter().map(Into::into).collect();
        let last = plot.categories.len().max(1) as f64;
        plot.x.range = Some((-0.5, last - 0.5));
        plot
    }

    /// A plot of the share of samples at or below each value.
    pub fn cdf(title: impl Into<String>, x: Axis) -> Plot {
        Plot::new(title, x, Axis::new("share at or below", "").with_range(0.0, 1.0))
    }

    /// A plot of what happens along lanes over time: lane `n` is at `y = -n`, below the one before.
    pub fn lanes<S: Into<String>>(
        title: impl Into<String>,
        lanes: impl IntoIterator<Item = S>,
        x: Axis,
    ) -> Plot {
        let mut plot = Plot::new(title, x, Axis::default());
        plot.lanes = lanes.into_iter().map(Into::into).collect();
        let last = plot.lanes.len().max(1) as f64;
        plot.y.range = Some((0.5 - last, 0.5));
        plot
    }

    /// A ring of names, clockwise from the top, and arrows between those that are joined.
    pub fn links<S: Into<String>>(
        title: impl Into<String>,
        names: impl IntoIterator<Item = S>,
        links: impl IntoIterator<Item = (usize, usize)>,
    ) -> Plot {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let place = |index: usize| {
            let turn = index as f64 / names.len() as f64 * std::f64::consts::TAU;
            (turn.sin(), turn.cos())
        };
        let ends = links.into_iter().flat_map(|(from, to)| {
            let ((ax, ay), (bx, by)) = (place(from), place(to));
            let length = (bx - ax).hypot(by - ay).max(1e-9);
            // Short of the names at both ends.
            let (dx, dy) = ((bx - ax) / length * 0.09, (by - ay) / length * 0.09);
            [(ax + dx, ay + dy), (bx - dx, by - dy)]
        });
        let ends: Vec<(f64, f64)> = ends.collect();
        // As wide as the drawing is for its height.
        let axes =
            (Axis::default().with_range(-2.09, 2.09), Axis::default().with_range(-1.15, 1.15));
        let mut plot = Plot::new(title, axes.0, axes.1).with_layer("", Mark::Arrows, ends);
        let at = |(index, text): (usize, String)| {
            let (x, y) = place(index);
            Label { x, y, text }
        };
        plot.labels = names.iter().cloned().enumerate().map(at).collect();
        plot.is_bare = true;
        plot
    }

    /// A map of heat: a value for each row, from the top, and column. The darker, the greater; a
    /// missing one is NaN.
    pub fn heat<S: Into<String>>(
        title: impl Into<String>,
        columns: impl IntoIterator<Item = S>,
        rows: impl IntoIterator<Item = (S, Vec<f64>)>,
    ) -> Plot {
        let mut plot = Plot::bars(title, columns, Axis::default());
        for (lane, values) in rows {
            plot.lanes.push(lane.into());
            plot.cells.push(values.into_iter().map(Value).collect());
        }
        let last = plot.lanes.len().max(1) as f64;
        plot.y.range = Some((0.5 - last, 0.5));
        plot
    }

    /// Sets the sentence below the plot.
    pub fn with_caption(mut self, caption: impl Into<String>) -> Plot {
        self.caption = caption.into();
        self
    }

    /// Adds a layer.
    pub fn with_layer(
        mut self,
        name: impl Into<String>,
        mark: Mark,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Plot {
        let points = points.into_iter().map(|(x, y)| Point(x, y)).collect();
        self.layers.push(Layer { name: name.into(), mark, points });
        self
    }

    /// Adds a line.
    pub fn with_line(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Plot {
        self.with_layer(name, Mark::Line, points)
    }

    /// Adds published values.
    pub fn with_paper(
        self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Plot {
        self.with_layer(name, Mark::Paper, points)
    }

    /// Adds one bar to each category; a missing one is NaN.
    pub fn with_group(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
    ) -> Plot {
        self.with_layer(name, Mark::Bars, (0u32..).map(f64::from).zip(values))
    }

    /// Adds the published value of each category; a missing one is NaN.
    pub fn with_paper_group(
        self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = f64>,
    ) -> Plot {
        self.with_layer(name, Mark::Paper, (0u32..).map(f64::from).zip(values))
    }

    /// Adds the distribution of samples, which need not be sorted.
    pub fn with_cdf(self, name: impl Into<String>, samples: &[f64]) -> Plot {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = sorted.len() as f64;
        let shares = sorted.into_iter().zip(1u32..).map(|(value, n)| (value, f64::from(n) / count));
        self.with_layer(name, Mark::Steps, thin(shares.collect(), CDF_POINTS_MAX))
    }
}

const MARKERS_MAX: usize = 24;
const CDF_POINTS_MAX: usize = 500;

/// At most about `most` points, ends included, evenly chosen.
fn thin(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points;
    }
    let last = points.len() - 1;
    (0..most).map(|n| points[n * last / (most - 1)]).collect()
}
