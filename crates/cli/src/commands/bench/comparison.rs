//! Tables of Paceline beside another implementation.

use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::peers::{Compared, Comparison, Spread};

/// Pairs of runs where the user does not say.
pub(super) const PAIRS: u32 = 3;

/// How a figure is shown: what it is, its unit, and what it is multiplied by.
pub(super) type Shown = (&'static str, &'static str, f64);

/// A table of both: medians, with the least and the greatest of several runs. `setting` says what
/// was run, `name` is the peer's, and `shown` tells how a figure of this name is shown.
pub(super) fn describe<Peer, Ours, Theirs>(
    setting: &str,
    name: &str,
    comparison: &Comparison<Peer, Ours, Theirs>,
    shown: impl Fn(&'static str) -> Shown,
) -> String {
    let Comparison { version, pairs, figures, .. } = comparison;
    let runs = match pairs.len() {
        1 => "1 pair of runs".to_owned(),
        several => format!("{several} pairs of runs, median (least to greatest)"),
    };
    let cells = |compared: &Compared| cells(compared, shown(compared.figure));
    let rows: Vec<[String; 5]> = figures.iter().map(cells).collect();
    let header = ["", "Paceline", name, &format!("Paceline / {name}"), "unit"];
    format!("{setting}; {version}\n{runs}\n\n") + &table(header, &rows)
}

fn cells(compared: &Compared, (what, unit, scale): Shown) -> [String; 5] {
    let Compared { paceline, peer, ratio, .. } = *compared;
    [
        what.to_owned(),
        spread(paceline, scale),
        spread(peer, scale),
        spread(ratio, 1.0),
        unit.to_owned(),
    ]
}

fn spread(Spread { median, least, greatest }: Spread, scale: f64) -> String {
    // A ratio of nothing to nothing.
    if median.is_nan() {
        return "-".to_owned();
    }
    let [median, least, greatest] = [median, least, greatest].map(|value| number(value * scale));
    match least == greatest {
        true => median,
        false => format!("{median} ({least} to {greatest})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_shown_with_its_spread_and_the_ratio() {
        let spread = |median, least, greatest| Spread { median, least, greatest };
        let comparison = Comparison {
            peer: (),
            version: "JGroups 5, Java 17".to_owned(),
            pairs: Vec::<paceline_lab_bench::peers::Pair<(), ()>>::new(),
            figures: vec![
                Compared {
                    figure: "mb_per_node_per_s",
                    paceline: spread(8.5, 8.0, 9.0),
                    peer: spread(4.25, 4.25, 4.25),
                    ratio: spread(2.0, 1.75, 2.5),
                },
                Compared {
                    figure: "limit_share",
                    paceline: spread(0.625, 0.5, 0.75),
                    peer: spread(0.25, 0.25, 0.25),
                    ratio: spread(2.5, 2.0, 3.0),
                },
                Compared {
                    figure: "missing",
                    paceline: spread(0.0, 0.0, 0.0),
                    peer: spread(0.0, 0.0, 0.0),
                    ratio: spread(f64::NAN, f64::NAN, f64::NAN),
                },
            ],
        };
        let shown = |figure| match figure {
            "mb_per_node_per_s" => ("received", "MB/node/s", 1.0),
            "limit_share" => ("of the limit of the links", "%", 100.0),
            other => (other, "", 1.0),
        };
        let text = describe("4 members", "JGroups", &comparison, shown);
        for part in [
            "4 members; JGroups 5, Java 17\n",
            "Paceline / JGroups",
            "8.5 (8 to 9)",
            "2 (1.75 to 2.5)",
            "62.5 (50 to 75)",
            " 25 ",
            "MB/node/s",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let missing = text.lines().find(|line| line.starts_with("missing"));
        let missing = missing.expect("each figure has a row");
        assert!(missing.trim_end().ends_with(" -"), "a ratio in\n{text}");
    }
}
