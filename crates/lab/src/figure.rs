//! Figures: one number that a run measured, beside the one that was published.

use serde::{Deserialize, Deserializer, Serialize};

use crate::table::{aligned, lines_within};

/// One measured number, with the published one and the band it must fall into.
///
/// A figure is a run, never a constant: it says which scenario, seed and digest it came from.
/// Serialises as a row of `reproduce --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: `chain/rounds/chain/x10-n10`. Ends in `-ms` or `-s` if it is a time.
    pub id: String,
    /// What was published; none where only a curve was.
    pub paper: Option<f64>,
    /// What the run measured.
    #[serde(deserialize_with = "null_is_nan")]
    pub measured: f64,
    /// Unit of all four numbers; empty for a count or ratio.
    pub unit: String,
    /// Lower end of the band, if it has one.
    pub low: Option<f64>,
    /// Upper end of the band, if it has one.
    pub high: Option<f64>,
    /// True if `measured` is within the band. Without a band, true if it is a number.
    pub pass: bool,
    /// The scenario that ran.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Events that the run took.
    pub events: u64,
    /// Digest of the run; none where a run is not reproducible to the bit, on sockets.
    pub digest: Option<String>,
    /// What a reader should know: a departure, a closed form, a wider band.
    pub note: String,
}

impl Figure {
    /// A figure without band, published number or run.
    pub fn new(id: impl Into<String>, measured: f64, unit: impl Into<String>) -> Figure {
        Figure {
            id: id.into(),
            paper: None,
            measured,
            unit: unit.into(),
            low: None,
            high: None,
            pass: measured.is_finite(),
            scenario: String::new(),
            seed: 0,
            events: 0,
            digest: None,
            note: String::new(),
        }
    }

    /// Sets the published number.
    pub fn with_paper(mut self, paper: f64) -> Figure {
        self.paper = Some(paper);
        self
    }

    /// Sets the band, ends included; an infinite end is no end. Decides `pass`.
    pub fn with_band(mut self, low: f64, high: f64) -> Figure {
        assert!(low <= high, "{}: the band {low}..{high} is empty", self.id);
        self.low = low.is_finite().then_some(low);
        self.high = high.is_finite().then_some(high);
        self.pass = self.measured.is_finite() && (low..=high).contains(&self.measured);
        self
    }

    /// Sets the note.
    pub fn with_note(mut self, note: impl Into<String>) -> Figure {
        self.note = note.into();
        self
    }

    /// The band for a reader: `17 to 19`, `at least 15`, or nothing.
    pub fn band(&self) -> String {
        match (self.low, self.high) {
            (Some(low), Some(high)) if low == high => format!("exactly {}", number(low)),
            (Some(low), Some(high)) => format!("{} to {}", number(low), number(high)),
            (Some(low), None) => format!("at least {}", number(low)),
            (None, Some(high)) => format!("at most {}", number(high)),
            (None, None) => String::new(),
        }
    }

    /// Its row of a table.
    fn cells(&self) -> [String; 6] {
        [
            self.id.clone(),
            self.paper.map_or("-".to_owned(), number),
            number(self.measured),
            self.unit.clone(),
            self.band(),
            self.verdict().to_owned(),
        ]
    }

    /// The verdict in a word: `ok`, `FAIL`, `differs` if the measured value is within a band that
    /// excludes the published one, or `shown` if there is no band to fall out of.
    pub fn verdict(&self) -> &'static str {
        match (self.pass, Standing::of(self)) {
            (false, _) => "FAIL",
            (true, Standing::Differs) => "differs",
            (true, Standing::Beside | Standing::Shown) => "shown",
            (true, _) => "ok",
        }
    }
}

/// What `reproduce --json` prints: `{"results":[..]}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The figures, in the order they were measured.
    pub results: Vec<Figure>,
}

impl Results {
    /// True if every figure is within its band.
    pub fn pass(&self) -> bool {
        self.results.iter().all(|figure| figure.pass)
    }

    /// One JSON document, indented, with a line feed at its end.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("figures have text keys only");
        text.push('\n');
        text
    }
}

/// What the measured value of a figure is compared with, and how that came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A value was published, and the measured one lies within a band that contains it.
    Reproduced,
    /// A value was published, and it or the measured one lies outside the band.
    Differs,
    /// A value was published, and no band says how far the measured one may be from it.
    Beside,
    /// Nothing was published; the measured value lies within our own band.
    Checked,
    /// Nothing was published; the measured value lies outside our own band.
    Failed,
    /// A number without a published value and without a band.
    Shown,
}

impl Standing {
    /// Where this figure stands.
    pub fn of(figure: &Figure) -> Standing {
        let has_band = figure.low.is_some() || figure.high.is_some();
        let contains = |value: f64| {
            figure.low.is_none_or(|low| value >= low)
                && figure.high.is_none_or(|high| value <= high)
        };
        match (figure.paper, has_band) {
            (Some(paper), true) if figure.pass && contains(paper) => Standing::Reproduced,
            (Some(_), true) => Standing::Differs,
            (Some(_), false) => Standing::Beside,
            (None, true) if figure.pass => Standing::Checked,
            (None, true) => Standing::Failed,
            (None, false) => Standing::Shown,
        }
    }
}

/// How a reproduction is run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Smaller runs with wider bands, under the same ids.
    pub scale: Scale,
    /// Overrides, `key=value`, for every scenario that the reproduction runs.
    pub sets: Vec<String>,
    /// Another seed than the scenarios'.
    pub seed: Option<u64>,
    /// As long as published, even where a shorter run at full scale gives the same figures.
    pub is_long: bool,
}

/// How large the runs behind figures are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// As published.
    #[default]
    Full,
    /// Under 8 s a service.
    Quick,
}

/// The figures as a table for a terminal: aligned, numbers to the right, notes below their row.
pub fn table(figures: &[Figure]) -> String {
    table_within(figures, usize::MAX)
}

/// The same in lines of at most `columns`: notes are wrapped, and where rows would be too long each
/// name stands above its row. Rows that are too long even without a name stay so.
pub fn table_within(figures: &[Figure], columns: usize) -> String {
    let mut rows: Vec<[String; 6]> = figures.iter().map(Figure::cells).collect();
    let mut lines = aligned(HEADER, &rows, TO_THE_RIGHT);
    let is_long = |line: &String| line.trim_end().chars().count() > columns;
    let is_stacked = lines.iter().any(is_long);
    if is_stacked {
        rows.iter_mut().for_each(|[name, ..]| name.clear());
        lines = aligned(HEADER, &rows, TO_THE_RIGHT);
    }
    let mut lines = lines.into_iter();
    let mut text = lines.next().unwrap_or_default();
    for (figure, line) in figures.iter().zip(lines) {
        if is_stacked {
            text.push_str(&format!("{}\n", figure.id));
        }
        text.push_str(&line);
        if !figure.note.is_empty() {
            for line in lines_within(&figure.note, columns.saturating_sub(NOTE_INDENT)) {
                text.push_str(&format!("{:NOTE_INDENT$}{line}\n", ""));
            }
        }
    }
    text
}

const HEADER: [&str; 6] = ["figure", "paper", "measured", "unit", "band", ""];
const TO_THE_RIGHT: [bool; 6] = [false, true, true, false, false, false];
const NOTE_INDENT: usize = 4;

/// A number for a reader: four significant digits, no needless zeros.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e9).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    if value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let before_point = magnitude.log10().floor() as i32 + 1;
    let places = usize::try_from(4 - before_point).unwrap_or(0);
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// JSON has no NaN: it is written as null, and read back here.
pub(crate) fn null_is_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunResult;

    fn ran() -> Figure {
        let run = RunResult { events: 180, digest: Some("00ff".into()), ..RunResult::default() };
        Figure::new("chain/rounds-x10-n10", 18.0, "rounds")
            .with_paper(18.0)
            .with_band(18.0, 18.0)
            .with_run("chain/ten", 7, &run)
            .with_note("X + N - 2")
    }

    #[test]
    fn json_has_exactly_the_published_shape() {
        let results = Results { results: vec![ran()] };
        assert_eq!(
            serde_json::to_string(&results).unwrap(),
            concat!(
                r#"{"results":[{"id":"chain/rounds-x10-n10","paper":18.0,"measured":18.0,"#,
                r#""unit":"rounds","low":18.0,"high":18.0,"pass":true,"scenario":"chain/ten","#,
                r#""seed":7,"events":180,"digest":"00ff","note":"X + N - 2"}]}"#
            )
        );
        let shown = serde_json::to_value(Figure::new("a", 1.5, "s")).unwrap();
        assert!(shown["paper"].is_null() && shown["low"].is_null() && shown["high"].is_null());
        assert_eq!(shown["pass"], true);
        assert_eq!(serde_json::from_str::<Results>(&results.to_json()).unwrap(), results);
    }

    #[test]
    fn a_figure_passes_only_within_its_band_and_only_if_it_is_a_number() {
        let pass = |measured: f64| Figure::new("a", measured, "").with_band(1.0, 2.0).pass;
        assert!(pass(1.0) && pass(2.0));
        assert!(!pass(0.999) && !pass(2.001) && !pass(f64::NAN));
        assert!(!Figure::new("a", f64::NAN, "").pass);
        let open = Figure::new("a", 9.0, "").with_band(1.0, f64::INFINITY);
        assert!(open.pass && open.high.is_none());
        let text = serde_json::to_string(&Figure::new("a", f64::NAN, "")).unwrap();
        assert!(serde_json::from_str::<Figure>(&text).unwrap().measured.is_nan());
    }

    #[test]
    fn the_table_is_aligned_and_marks_what_failed() {
        let failed = Figure::new("chain/rate", 61.256, "MB/s").with_paper(107.0);
        let failed = failed.with_band(100.0, f64::INFINITY);
        let shown = Figure::new("chain/latency-ms", 0.01234, "ms");
        assert_eq!(
            table(&[ran(), failed, shown]),
            "\
figure                paper  measured  unit    band
chain/rounds-x10-n10     18        18  rounds  exactly 18    ok
    X + N - 2
chain/rate              107     61.26  MB/s    at least 100  FAIL
chain/latency-ms          -   0.01234  ms                    shown
"
        );
    }

    #[test]
    fn names_stand_above_their_rows_where_the_terminal_is_narrow() {
        let figure = ran().with_note("X + N - 2, as published by the paper of 2010");
        let shown = Figure::new("chain/latency-ms", 0.01234, "ms");
        assert_eq!(
            table_within(&[figure, shown], 56),
            "\
figure  paper  measured  unit    band
chain/rounds-x10-n10
           18        18  rounds  exactly 18  ok
    X + N - 2, as published by the paper of 2010
chain/latency-ms
            -   0.01234  ms                  shown
"
        );
        let narrow = table_within(&[ran().with_note("one two three four")], 12);
        assert!(narrow.contains("    one two\n    three\n    four\n"), "{narrow}");
    }

    #[test]
    fn numbers_keep_four_digits() {
        let cases = [0.0, 18.0, 61.256, 0.012345, 123456.7, 1.5e12, -2.5, f64::NAN, 99999.96];
        let texts = cases.map(number);
        let expected =
            ["0", "18", "61.26", "0.01235", "123457", "1.500e12", "-2.5", "none", "100000"];
        assert_eq!(texts, expected.map(str::to_owned));
    }
}
