//! SVG: the shapes and the text that plots consist of.

use std::fmt::Write;

/// A point in the drawing: pixels from the left and from the top.
pub(super) type At = (f64, f64);

/// A colour and its opacity, 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paint {
    color: &'static str,
    opacity: f64,
}

impl Paint {
    /// The colour of the text around the drawing.
    pub(super) const INK: Paint = Paint::new("currentColor");

    /// An opaque colour, as CSS writes it.
    pub(super) const fn new(color: &'static str) -> Paint {
        Paint { color, opacity: 1.0 }
    }

    /// The same colour at this opacity.
    pub(super) fn with_opacity(self, opacity: f64) -> Paint {
        Paint { opacity, ..self }
    }

    /// The attributes of what this colour fills, or strokes.
    fn attributes(self, property: &str) -> String {
        let Paint { color, opacity } = self;
        match opacity >= 1.0 {
            true => format!("{property}=\"{color}\""),
            false => format!("{property}=\"{color}\" {property}-opacity=\"{}\"", Short(opacity)),
        }
    }
}

/// Which part of a text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// The beginning.
    Start,
    /// The middle.
    Middle,
    /// The end.
    End,
}

/// A drawing under construction.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// An empty drawing that takes the width of its surroundings. `name` is read aloud by a screen
    /// reader.
    pub(super) fn new(width: f64, height: f64, name: &str) -> Svg {
        let text = format!(
            "<svg viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" \
             role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\">\n",
            escape(name)
        );
        Svg { text }
    }

    /// Straight lines from each point to the next.
    pub(super) fn lines(&mut self, points: &[At], paint: Paint, width: f64) {
        let stroke = paint.attributes("stroke");
        self.push(format_args!(
            "<polyline points=\"{}\" fill=\"none\" {stroke} stroke-width=\"{}\"/>",
            list(points),
            Short(width)
        ));
    }

    /// A filled polygon.
    pub(super) fn polygon(&mut self, points: &[At], paint: Paint) {
        let fill = paint.attributes("fill");
        self.push(format_args!("<polygon points=\"{}\" {fill}/>", list(points)));
    }

    /// A filled rectangle between two opposite corners.
    pub(super) fn rectangle(&mut self, a: At, b: At, paint: Paint) {
        self.push(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>",
            Short(a.0.min(b.0)),
            Short(a.1.min(b.1)),
            Short((a.0 - b.0).abs()),
            Short((a.1 - b.1).abs()),
            paint.attributes("fill")
        ));
    }

    /// A filled circle.
    pub(super) fn circle(&mut self, center: At, radius: f64, paint: Paint) {
        let (x, y, r) = (Short(center.0), Short(center.1), Short(radius));
        let fill = paint.attributes("fill");
        self.push(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {fill}/>"));
    }

    /// Text, vertically centred at its point.
    pub(super) fn text(&mut self, at: At, size: f64, anchor: Anchor, text: &str) {
        self.styled_text(at, size, anchor, text, "");
    }

    /// Bold text.
    pub(super) fn bold_text(&mut self, at: At, size: f64, anchor: Anchor, text: &str) {
        self.styled_text(at, size, anchor, text, " font-weight=\"bold\"");
    }

    /// Text that is read from bottom to top.
    pub(super) fn upward_text(&mut self, at: At, size: f64, anchor: Anchor, text: &str) {
        let turned = format!(" transform=\"rotate(-90 {} {})\"", Short(at.0), Short(at.1));
        self.styled_text(at, size, anchor, text, &turned);
    }

    fn styled_text(&mut self, at: At, size: f64, anchor: Anchor, text: &str, style: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            "<text x=\"{}\" y=\"{}\" dy=\"0.35em\" text-anchor=\"{anchor}\" font-size=\"{}\" \
             fill=\"currentColor\"{style}>{}</text>",
            Short(at.0),
            Short(at.1),
            Short(size),
            escape(text)
        ));
    }

    /// The element.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{element}").expect("writing into text does not fail");
    }
}

/// About how wide a text is.
pub(super) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * 0.55
}

/// A number with two decimal places at most.
struct Short(f64);

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Adding zero makes zero of a negative zero.
        write!(f, "{}", (self.0 * 100.0).round() / 100.0 + 0.0)
    }
}

fn list(points: &[At]) -> String {
    let mut list = String::with_capacity(16 * points.len());
    for (x, y) in points {
        let space = if list.is_empty() { "" } else { " " };
        write!(list, "{space}{},{}", Short(*x), Short(*y))
            .expect("writing into text does not fail");
    }
    list
}

/// Text as HTML and SVG take it.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_written_short_and_text_is_escaped() {
        let mut svg = Svg::new(10.0, 20.0, "a < b");
        svg.lines(&[(0.0, 1.0), (2.5, 3.333_33)], Paint::INK.with_opacity(0.5), 2.0);
        svg.rectangle((5.0, 6.0), (1.0, 2.0), Paint::new("#abc"));
        svg.text((-0.001, 1.0), 12.0, Anchor::Middle, "x & y");
        let expected = "\
<svg viewBox=\"0 0 10 20\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
aria-label=\"a &lt; b\" font-family=\"sans-serif\">
<polyline points=\"0,1 2.5,3.33\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.5\" \
stroke-width=\"2\"/>
<rect x=\"1\" y=\"2\" width=\"4\" height=\"4\" fill=\"#abc\"/>
<text x=\"0\" y=\"1\" dy=\"0.35em\" text-anchor=\"middle\" font-size=\"12\" \
fill=\"currentColor\">x &amp; y</text>
</svg>
";
        assert_eq!(svg.finish(), expected);
    }
}
