//! Plots: the one place that draws, for reports, the live page and the documentation.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use serde::{Deserialize, Serialize};

use super::axis::{Axis, Fitted, Scale};
use crate::figure::{null_is_nan, number};

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
    // Without axes: what counts is who is joined with whom.
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

    /// The plot as an SVG element. Text and lines take the colour of the text around it, so it
    /// reads on light and dark alike.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        {
            let backend = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT));
            let root = backend.into_drawing_area();
            self.draw(&root).expect("drawing into text does not fail");
            root.present().expect("drawing into text does not fail");
        }
        self.adapt(&svg)
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        let title = ("sans-serif", TITLE, FontStyle::Bold).into_font().color(&INK);
        root.draw(&Text::new(self.title.clone(), (16, 12), title))?;
        let top = self.draw_legend(root, 16, 62)?;
        let (_, chart_area) = root.split_vertically(top);

        let shown = || {
            let points = self.layers.iter().flat_map(|layer| &layer.points);
            let points = points.map(|&Point(x, y)| (x, y));
            points.filter(|&(x, y)| self.x.shows(x) && self.y.shows(y))
        };
        let mut x = self.x.fit(shown().map(|point| point.0));
        let zero = (self.has_bars() && self.y.scale == Scale::Linear).then_some(0.0);
        let y = self.y.fit(shown().map(|point| point.1).chain(zero)).with_plain_ticks();
        if !self.categories.is_empty() {
            x = x.with_plain_ticks();
        }
        let (low, high) = ((x.low, x.high), (y.low, y.high));

        let mut chart = ChartBuilder::on(&chart_area)
            .margin_right(36)
            .margin_top(14)
            .margin_bottom(8)
            .x_label_area_size(match (self.is_bare, self.x.title().is_empty()) {
                (true, _) => 0,
                (false, true) => 56,
                (false, false) => 92,
            })
            .y_label_area_size(if self.is_bare { 36 } else { 138 })
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        let (x_title, y_title) = (self.x.title(), self.y.title());
        let x_label = |value: &f64| match self.categories.is_empty() {
            true => number(*value),
            false => named(&self.categories, *value),
        };
        let y_label = |value: &f64| match self.lanes.is_empty() {
            true => number(*value),
            false => named(&self.lanes, -*value),
        };
        mesh.x_label_formatter(&x_label)
            .y_label_formatter(&y_label)
            .x_labels(if self.categories.is_empty() { 8 } else { 2 * self.categories.len() + 1 })
            .y_labels(if self.lanes.is_empty() { 6 } else { self.lanes.len() })
            .bold_line_style(INK.mix(0.18))
            .light_line_style(TRANSPARENT)
            .axis_style(INK.mix(0.45))
            .label_style(ink_text(LABEL))
            .axis_desc_style(ink_text(LABEL))
            .y_desc(y_title)
            .disable_x_mesh();
        if !x_title.is_empty() {
            mesh.x_desc(x_title);
        }
        if !self.is_bare {
            mesh.draw()?;
        }

        for index in 0..self.layers.len() {
            self.draw_layer(root, &mut chart, index, high.0.max(0.0))?;
        }

        self.draw_cells(root, &mut chart)?;
        for Label { x, y, text } in &self.labels {
            let centred = ink_text(LABEL).pos(Pos::new(HPos::Center, VPos::Center));
            let at = chart.as_coord_spec().translate(&(*x, *y));
            root.draw(&Text::new(text.clone(), at, centred))?;
        }
        if shown().next().is_none() && self.cells.is_empty() {
            let middle = ((low.0 + low.1) / 2.0, (high.0 + high.1) / 2.0);
            let at = chart.as_coord_spec().translate(&middle);
            let centred = ink_text(LABEL).pos(Pos::new(HPos::Center, VPos::Center));
            root.draw(&Text::new("no samples", at, centred))?;
        }
        Ok(())
    }

    /// Draws one layer; bars stand on `floor`.
    fn draw_layer(
        &self,
        root: &Area<'_>,
        chart: &mut Chart<'_, '_>,
        index: usize,
        floor: f64,
    ) -> Drawn {
        let layer = &self.layers[index];
        if layer.mark == Mark::Arrows {
            for ends in layer.points.chunks_exact(2) {
                self.draw_arrow(root, chart, index, (ends[0], ends[1]))?;
            }
            return Ok(());
        }
        if layer.mark == Mark::Rules {
            return self.draw_rules(chart, index);
        }
        let points = layer.points.iter().map(|&Point(x, y)| (x, y));
        let points: Vec<(f64, f64)> =
            points.filter(|&(x, y)| self.x.shows(x) && self.y.shows(y)).collect();
        if layer.mark == Mark::Bars {
            let groups = |layers: &[Layer]| -> f64 {
                layers.iter().map(|layer| f64::from(u8::from(layer.mark == Mark::Bars))).sum()
            };
            let width = 0.8 / groups(&self.layers);
            let left = groups(&self.layers[..index]) * width - 0.4;
            let style = self.color(index).filled();
            chart.draw_series(points.iter().map(|&(x, y)| {
                let from = x + left + 0.04 * width;
                Rectangle::new([(from, floor), (from + 0.92 * width, y)], style)
            }))?;
        }
        if let Some(path) = self.path(layer.mark, &points) {
            let style = self.color(index).stroke_width(5);
            chart.draw_series(std::iter::once(PathElement::new(path, style)))?;
        }
        if layer.is_marked() {
            for point in &points {
                self.draw_marker(root, index, chart.as_coord_spec().translate(point))?;
            }
        }
        Ok(())
    }

    /// Draws vertical lines from the bottom to the top.
    fn draw_rules(&self, chart: &mut Chart<'_, '_>, index: usize) -> Drawn {
        let (across, up) = (chart.x_range(), chart.y_range());
        let style = self.color(index).mix(0.6).stroke_width(3);
        let times = self.layers[index].points.iter().map(|point| point.0);
        let lines = times
            .filter(|time| *time >= across.start && *time <= across.end)
            .map(|time| PathElement::new(vec![(time, up.start), (time, up.end)], style));
        chart.draw_series(lines.collect::<Vec<_>>())?;
        Ok(())
    }

    /// Draws the cells of a map of heat, each with its value.
    fn draw_cells(&self, root: &Area<'_>, chart: &mut Chart<'_, '_>) -> Drawn {
        let values = self.cells.iter().flatten().map(|value| value.0).filter(|v| v.is_finite());
        let most = values.fold(0.0, f64::max);
        for (row, values) in self.cells.iter().enumerate() {
            for (column, &Value(value)) in values.iter().enumerate() {
                let (x, y) = (column as f64, -(row as f64));
                let heat = if value > 0.0 && most > 0.0 { 0.85 * value / most } else { 0.0 };
                let corners = [(x - 0.5, y - 0.5), (x + 0.5, y + 0.5)];
                let style = PALETTE[0].mix(heat).filled();
                chart.draw_series(std::iter::once(Rectangle::new(corners, style)))?;
                let centred = ink_text(LABEL).pos(Pos::new(HPos::Center, VPos::Center));
                let at = chart.as_coord_spec().translate(&(x, y));
                root.draw(&Text::new(number(value), at, centred))?;
            }
        }
        Ok(())
    }

    /// Draws the names of the layers in rows, and returns where the rows end.
    fn draw_legend(&self, root: &Area<'_>, left: i32, top: i32) -> Result<i32, DrawError> {
        if self.layers.len() < 2 && self.layers.iter().all(|layer| layer.name.is_empty()) {
            return Ok(top);
        }
        let (mut x, mut y) = (left, top);
        for (index, layer) in self.layers.iter().enumerate() {
            let width = 84 + (layer.name.chars().count() as f64 * LABEL * 0.42) as i32;
            if x > left && x + width > WIDTH as i32 {
                (x, y) = (left, y + 40);
            }
            let middle = y + 14;
            match layer.mark {
                Mark::Bars => {
                    let corners = [(x + 12, y + 2), (x + 36, y + 26)];
                    root.draw(&Rectangle::new(corners, self.color(index).filled()))?;
                }
                Mark::Rules => {
                    let style = self.color(index).stroke_width(3);
                    root.draw(&PathElement::new([(x + 24, y), (x + 24, y + 28)], style))?;
                }
                Mark::Line | Mark::Steps | Mark::Arrows => {
                    let style = self.color(index).stroke_width(5);
                    root.draw(&PathElement::new([(x, middle), (x + 48, middle)], style))?;
                }
                Mark::Points | Mark::Paper => {}
            }
            if layer.is_marked() {
                self.draw_marker(root, index, (x + 24, middle))?;
            }
            let left_middle = ink_text(LABEL).pos(Pos::new(HPos::Left, VPos::Center));
            root.draw(&Text::new(layer.name.clone(), (x + 58, middle), left_middle))?;
            x += width + 12;
        }
        Ok(y + 44)
    }

    /// A shape as well as a colour tells layers apart.
    fn draw_marker(&self, root: &Area<'_>, index: usize, (x, y): (i32, i32)) -> Drawn {
        let color = self.color(index);
        let (r, style) = (9, color.filled());
        let around = |corners: &[(i32, i32)]| -> Vec<(i32, i32)> {
            corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect()
        };
        if self.layers[index].mark == Mark::Paper {
            let diamond = around(&[(0, -13), (13, 0), (0, 13), (-13, 0), (0, -13)]);
            return root.draw(&PathElement::new(diamond, color.stroke_width(4)));
        }
        match index % 4 {
            0 => root.draw(&Circle::new((x, y), r, style)),
            1 => root.draw(&Rectangle::new([(x - 8, y - 8), (x + 8, y + 8)], style)),
            2 => root.draw(&Polygon::new(around(&[(0, -12), (11, 8), (-11, 8)]), style)),
            _ => root.draw(&Polygon::new(around(&[(0, 12), (11, -8), (-11, -8)]), style)),
        }
    }

    /// Draws an arrow; one whose end has no time stops half-way, at a bar.
    fn draw_arrow(
        &self,
        root: &Area<'_>,
        chart: &Chart<'_, '_>,
        index: usize,
        (Point(sent, from), Point(came, to)): (Point, Point),
    ) -> Drawn {
        let style = self.color(index).stroke_width(4);
        let spec = chart.as_coord_spec();
        let is_lost = !came.is_finite();
        let end = if is_lost { (sent, (from + to) / 2.0) } else { (came, to) };
        let (a, b) = (spec.translate(&(sent, from)), spec.translate(&end));
        root.draw(&PathElement::new([a, b], style))?;
        let (dx, dy) = (f64::from(b.0 - a.0), f64::from(b.1 - a.1));
        let length = dx.hypot(dy).max(1.0);
        let (dx, dy) = (dx / length, dy / length);
        let at = |along: f64, aside: f64| {
            let x = f64::from(b.0) - along * dx - aside * dy;
            let y = f64::from(b.1) - along * dy + aside * dx;
            (x.round() as i32, y.round() as i32)
        };
        if is_lost {
            return root.draw(&PathElement::new([at(0.0, 12.0), at(0.0, -12.0)], style));
        }
        let head = vec![b, at(20.0, 8.0), at(20.0, -8.0)];
        root.draw(&Polygon::new(head, self.color(index).filled()))
    }

    fn path(&self, mark: Mark, points: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
        match mark {
            Mark::Line => Some(thin(points.to_vec(), LINE_POINTS_MAX)),
            Mark::Steps => {
                let mut path = Vec::with_capacity(2 * points.len());
                for &(x, y) in points {
                    if let Some(&(_, before)) = path.last() {
                        path.push((x, before));
                    }
                    path.push((x, y));
                }
                Some(path)
            }
            Mark::Points | Mark::Paper | Mark::Bars | Mark::Arrows | Mark::Rules => None,
        }
    }

    fn color(&self, index: usize) -> RGBAColor {
        let is_plain = |layer: &Layer| matches!(layer.mark, Mark::Paper | Mark::Rules);
        if is_plain(&self.layers[index]) {
            return INK.mix(1.0);
        }
        let before = self.layers[..index].iter().filter(|layer| !is_plain(layer)).count();
        PALETTE[before % PALETTE.len()].mix(1.0)
    }

    fn has_bars(&self) -> bool {
        self.layers.iter().any(|layer| layer.mark == Mark::Bars)
    }

    /// Gives the drawing the colour of the text around it, a flexible size and a name.
    fn adapt(&self, svg: &str) -> String {
        let body =
            svg.find("<svg").and_then(|at| svg[at..].find('>').map(|end| &svg[at + end + 1..]));
        let body = body.expect("the backend writes an svg element");
        let body = body.replace(INK_HEX, "currentColor");
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" xmlns=\"http://www.w3.org/2000/svg\" \
             role=\"img\" aria-label=\"{}\">{body}",
            super::escape(&self.title)
        )
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Fitted, Fitted>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawError = DrawingAreaErrorKind<<SVGBackend<'static> as DrawingBackend>::ErrorType>;
type Drawn = Result<(), DrawError>;

// Drawn at twice the usual size, since the library rounds to whole pixels.
const WIDTH: u32 = 1120;
const HEIGHT: u32 = 680;
const TITLE: f64 = 38.0;
const LABEL: f64 = 31.0;
const MARKERS_MAX: usize = 24;
const LINE_POINTS_MAX: usize = 2000;
const CDF_POINTS_MAX: usize = 500;

/// Stands for the colour of the text, and is replaced by it.
const INK: RGBColor = RGBColor(1, 2, 3);
const INK_HEX: &str = "#010203";

/// Colours that people who see fewer of them tell apart, on white and on black alike.
/// Source: Okabe & Ito, *Color Universal Design*, 2008, without its black and yellow.
const PALETTE: [RGBColor; 6] = [
    RGBColor(0x00, 0x7f, 0xc4),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
];

fn ink_text(size: f64) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

/// The name at this place, if it is one.
fn named(names: &[String], value: f64) -> String {
    let index = value.round();
    let name = (index >= 0.0 && (value - index).abs() < 1e-6).then(|| names.get(index as usize));
    name.flatten().cloned().unwrap_or_default()
}

/// At most about `most` points, ends included, evenly chosen.
fn thin(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points;
    }
    let last = points.len() - 1;
    (0..most).map(|n| points[n * last / (most - 1)]).collect()
}
