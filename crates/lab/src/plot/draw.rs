//! How a plot is drawn: the one place for reports, the live page and the documentation.

use super::axis::{Fitted, Scale};
use super::svg::{Anchor, At, Paint, Svg, width_of};
use super::{Label, Layer, Mark, Plot, Point, Value, thin};
use crate::figure::number;

// About twice the size at which it is shown.
const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 680.0;
const TITLE: f64 = 32.0;
const LABEL: f64 = 26.0;
const LINE_POINTS_MAX: usize = 2000;
/// About as many ticks as an axis has room for.
const TICKS: (usize, usize) = (8, 6);

/// Colours that colour-blind readers can distinguish, on white and on black. Source: Okabe & Ito,
/// *Color Universal Design*, 2008, without its black and yellow.
const PALETTE: [Paint; 6] = [
    Paint::new("#007fc4"),
    Paint::new("#e69f00"),
    Paint::new("#009e73"),
    Paint::new("#d55e00"),
    Paint::new("#cc79a7"),
    Paint::new("#56b4e9"),
];

impl Plot {
    /// The plot as an SVG element. Text and lines take the colour of the text around it, so it
    /// reads on light and dark alike.
    pub fn to_svg(&self) -> String {
        drawn(self)
    }
}

fn drawn(plot: &Plot) -> String {
    let mut svg = Svg::new(WIDTH, HEIGHT, &plot.title);
    svg.bold_text((16.0, 30.0), TITLE, Anchor::Start, &plot.title);
    let top = draw_legend(&mut svg, plot);
    let chart = Chart::new(plot, top + 14.0);
    if !plot.is_bare {
        chart.draw_axes(&mut svg);
    }
    for index in 0..plot.layers.len() {
        chart.draw_layer(&mut svg, index);
    }
    chart.draw_cells(&mut svg);
    for Label { x, y, text } in &plot.labels {
        svg.text(chart.at((*x, *y)), LABEL, Anchor::Middle, text);
    }
    if chart.shown().next().is_none() && plot.cells.is_empty() {
        let middle = ((chart.left + chart.right) / 2.0, (chart.top + chart.bottom) / 2.0);
        svg.text(middle, LABEL, Anchor::Middle, "no samples");
    }
    svg.finish()
}

/// Draws the names of the layers in rows, and returns where the rows end.
fn draw_legend(svg: &mut Svg, plot: &Plot) -> f64 {
    let (left, top) = (16.0, 62.0);
    if plot.layers.len() < 2 && plot.layers.iter().all(|layer| layer.name.is_empty()) {
        return top;
    }
    let (mut x, mut y) = (left, top);
    for (index, layer) in plot.layers.iter().enumerate() {
        let width = 84.0 + width_of(&layer.name, LABEL);
        if x > left && x + width > WIDTH {
            (x, y) = (left, y + 40.0);
        }
        let (middle, paint) = (y + 14.0, paint(plot, index));
        match layer.mark {
            Mark::Bars => svg.rectangle((x + 12.0, y + 2.0), (x + 36.0, y + 26.0), paint),
            Mark::Rules => svg.lines(&[(x + 24.0, y), (x + 24.0, y + 28.0)], paint, 3.0),
            Mark::Line | Mark::Steps | Mark::Arrows => {
                svg.lines(&[(x, middle), (x + 48.0, middle)], paint, 5.0);
            }
            Mark::Points | Mark::Paper => {}
        }
        if layer.is_marked() {
            draw_marker(svg, plot, index, (x + 24.0, middle));
        }
        svg.text((x + 58.0, middle), LABEL, Anchor::Start, &layer.name);
        x += width + 12.0;
    }
    y + 44.0
}

/// The colour of a layer.
fn paint(plot: &Plot, index: usize) -> Paint {
    let is_plain = |layer: &Layer| matches!(layer.mark, Mark::Paper | Mark::Rules);
    if is_plain(&plot.layers[index]) {
        return Paint::INK;
    }
    let before = plot.layers[..index].iter().filter(|layer| !is_plain(layer)).count();
    PALETTE[before % PALETTE.len()]
}

/// A shape as well as a colour tells layers apart.
fn draw_marker(svg: &mut Svg, plot: &Plot, index: usize, (x, y): At) {
    let paint = paint(plot, index);
    let around =
        |corners: &[At]| -> Vec<At> { corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect() };
    if plot.layers[index].mark == Mark::Paper {
        let diamond = [(0.0, -13.0), (13.0, 0.0), (0.0, 13.0), (-13.0, 0.0), (0.0, -13.0)];
        return svg.lines(&around(&diamond), paint, 4.0);
    }
    match index % 4 {
        0 => svg.circle((x, y), 9.0, paint),
        1 => svg.rectangle((x - 8.0, y - 8.0), (x + 8.0, y + 8.0), paint),
        2 => svg.polygon(&around(&[(0.0, -12.0), (11.0, 8.0), (-11.0, 8.0)]), paint),
        _ => svg.polygon(&around(&[(0.0, 12.0), (11.0, -8.0), (-11.0, -8.0)]), paint),
    }
}

/// The part of a drawing between the axes.
struct Chart<'a> {
    plot: &'a Plot,
    x: Fitted,
    y: Fitted,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl<'a> Chart<'a> {
    fn new(plot: &'a Plot, top: f64) -> Chart<'a> {
        let x = plot.x.fit(points_shown(plot).map(|point| point.0));
        let has_bars = plot.layers.iter().any(|layer| layer.mark == Mark::Bars);
        let zero = (has_bars && plot.y.scale == Scale::Linear).then_some(0.0);
        let y = plot.y.fit(points_shown(plot).map(|point| point.1).chain(zero)).with_plain_ticks();
        let below = match (plot.is_bare, plot.x.title().is_empty()) {
            (true, _) => 8.0,
            (false, true) => 64.0,
            (false, false) => 100.0,
        };
        let left = if plot.is_bare { 36.0 } else { 138.0 };
        Chart { plot, x, y, left, right: WIDTH - 36.0, top, bottom: HEIGHT - below }
    }

    /// The points that the axes can show.
    fn shown(&self) -> impl Iterator<Item = At> {
        points_shown(self.plot)
    }

    /// Where a point is drawn.
    fn at(&self, (x, y): (f64, f64)) -> At {
        let across = self.left + self.x.share(x) * (self.right - self.left);
        (across, self.bottom - self.y.share(y) * (self.bottom - self.top))
    }

    fn draw_axes(&self, svg: &mut Svg) {
        let (grid, line) = (Paint::INK.with_opacity(0.18), Paint::INK.with_opacity(0.45));
        for (value, text) in self.y_ticks() {
            let y = self.at((self.x.low, value)).1;
            svg.lines(&[(self.left, y), (self.right, y)], grid, 1.0);
            svg.lines(&[(self.left - 5.0, y), (self.left, y)], line, 1.0);
            svg.text((self.left - 12.0, y), LABEL, Anchor::End, &text);
        }
        for (value, text) in self.x_ticks() {
            let x = self.at((value, self.y.low)).0;
            svg.lines(&[(x, self.bottom), (x, self.bottom + 5.0)], line, 1.0);
            svg.text((x, self.bottom + 26.0), LABEL, Anchor::Middle, &text);
        }
        let corner = (self.left, self.bottom);
        svg.lines(&[(self.left, self.top), corner, (self.right, self.bottom)], line, 1.0);
        let middle = ((self.left + self.right) / 2.0, (self.top + self.bottom) / 2.0);
        svg.text((middle.0, HEIGHT - 28.0), LABEL, Anchor::Middle, &self.plot.x.title());
        svg.upward_text((26.0, middle.1), LABEL, Anchor::Middle, &self.plot.y.title());
    }

    fn y_ticks(&self) -> Vec<(f64, String)> {
        if self.plot.lanes.is_empty() {
            return with_text(self.y.ticks(TICKS.1));
        }
        (0u32..).map(|lane| -f64::from(lane)).zip(self.plot.lanes.iter().cloned()).collect()
    }

    /// Values and names along the horizontal axis, as many as stand beside each other.
    fn x_ticks(&self) -> Vec<(f64, String)> {
        let ticks: Vec<(f64, String)> = match self.plot.categories.is_empty() {
            true => with_text(self.x.ticks(TICKS.0)),
            false => (0u32..).map(f64::from).zip(self.plot.categories.iter().cloned()).collect(),
        };
        let widest = ticks.iter().map(|(_, text)| width_of(text, LABEL)).fold(1.0, f64::max);
        let room = ((self.right - self.left) / (widest + 12.0)).max(1.0) as usize;
        let every = ticks.len().div_ceil(room).max(1);
        // Ticks taken from the data lie where they lie: the measured values, however close.
        ticks.into_iter().step_by(every).collect()
    }

    fn draw_layer(&self, svg: &mut Svg, index: usize) {
        let layer = &self.plot.layers[index];
        let paint = paint(self.plot, index);
        match layer.mark {
            Mark::Arrows => {
                for ends in layer.points.chunks_exact(2) {
                    self.draw_arrow(svg, paint, (ends[0], ends[1]));
                }
                return;
            }
            Mark::Rules => return self.draw_rules(svg, layer, paint.with_opacity(0.6)),
            Mark::Bars => self.draw_bars(svg, index, paint),
            Mark::Line => {
                let points: Vec<At> = self.points(layer).collect();
                self.draw_path(svg, &thin(points, LINE_POINTS_MAX), paint);
            }
            Mark::Steps => self.draw_path(svg, &steps(self.points(layer)), paint),
            Mark::Points | Mark::Paper => {}
        }
        if layer.is_marked() {
            for point in self.points(layer) {
                draw_marker(svg, self.plot, index, self.at(point));
            }
        }
    }

    /// The points of a layer that the axes can show.
    fn points<'b>(&'b self, layer: &'b Layer) -> impl Iterator<Item = (f64, f64)> + 'b {
        let points = layer.points.iter().map(|&Point(x, y)| (x, y));
        points.filter(|&(x, y)| self.plot.x.shows(x) && self.plot.y.shows(y))
    }

    fn draw_path(&self, svg: &mut Svg, points: &[(f64, f64)], paint: Paint) {
        let path: Vec<At> = points.iter().map(|&point| self.at(point)).collect();
        svg.lines(&path, paint, 5.0);
    }

    /// Draws one bar a category, beside those of the other layers.
    fn draw_bars(&self, svg: &mut Svg, index: usize, paint: Paint) {
        let bars = |layers: &[Layer]| -> f64 {
            layers.iter().map(|layer| f64::from(u8::from(layer.mark == Mark::Bars))).sum()
        };
        let width = 0.8 / bars(&self.plot.layers);
        let left = bars(&self.plot.layers[..index]) * width - 0.4;
        let floor = self.y.low.max(0.0);
        for (x, y) in self.points(&self.plot.layers[index]) {
            let from = x + left + 0.04 * width;
            svg.rectangle(self.at((from, floor)), self.at((from + 0.92 * width, y)), paint);
        }
    }

    /// Draws vertical lines from the bottom to the top.
    fn draw_rules(&self, svg: &mut Svg, layer: &Layer, paint: Paint) {
        let times = layer.points.iter().map(|point| point.0);
        for time in times.filter(|time| (self.x.low..=self.x.high).contains(time)) {
            let x = self.at((time, self.y.low)).0;
            svg.lines(&[(x, self.bottom), (x, self.top)], paint, 3.0);
        }
    }

    /// Draws an arrow; one whose end has no time stops half-way, at a bar.
    fn draw_arrow(
        &self,
        svg: &mut Svg,
        paint: Paint,
        (Point(sent, from), Point(came, to)): (Point, Point),
    ) {
        let is_lost = !came.is_finite();
        let end = if is_lost { (sent, (from + to) / 2.0) } else { (came, to) };
        let (a, b) = (self.at((sent, from)), self.at(end));
        svg.lines(&[a, b], paint, 4.0);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy).max(1.0);
        let (dx, dy) = (dx / length, dy / length);
        let at =
            |along: f64, aside: f64| (b.0 - along * dx - aside * dy, b.1 - along * dy + aside * dx);
        if is_lost {
            return svg.lines(&[at(0.0, 12.0), at(0.0, -12.0)], paint, 4.0);
        }
        svg.polygon(&[b, at(20.0, 8.0), at(20.0, -8.0)], paint);
    }

    /// Draws the cells of a map of heat, each with its value.
    fn draw_cells(&self, svg: &mut Svg) {
        let cells = &self.plot.cells;
        let values = cells.iter().flatten().map(|value| value.0).filter(|v| v.is_finite());
        let most = values.fold(0.0, f64::max);
        for (row, values) in cells.iter().enumerate() {
            for (column, &Value(value)) in values.iter().enumerate() {
                let (x, y) = (column as f64, -(row as f64));
                let heat = if value > 0.0 && most > 0.0 { 0.85 * value / most } else { 0.0 };
                let (a, b) = (self.at((x - 0.5, y - 0.5)), self.at((x + 0.5, y + 0.5)));
                svg.rectangle(a, b, PALETTE[0].with_opacity(heat));
                svg.text(self.at((x, y)), LABEL, Anchor::Middle, &number(value));
            }
        }
    }
}

fn points_shown(plot: &Plot) -> impl Iterator<Item = (f64, f64)> {
    let points = plot.layers.iter().flat_map(|layer| &layer.points);
    let points = points.map(|&Point(x, y)| (x, y));
    points.filter(|&(x, y)| plot.x.shows(x) && plot.y.shows(y))
}

fn with_text(ticks: Vec<f64>) -> Vec<(f64, String)> {
    ticks.into_iter().map(|tick| (tick, number(tick))).collect()
}

/// A path on which a value holds until the next.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut path = Vec::new();
    for (x, y) in points {
        if let Some(&(_, before)) = path.last() {
            path.push((x, before));
        }
        path.push((x, y));
    }
    path
}
