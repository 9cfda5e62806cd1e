use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::broadcast::{Compared, Comparison, Peer, Spread};

/// A table of both: medians, with the least and the greatest of several runs.
pub(super) fn describe(comparison: &Comparison) -> String {
    let Comparison { peer, version, pairs, figures } = comparison;
    let setting = pairs.first().map_or(String::new(), |pair| super::setting(&pair.paceline));
    let runs = match pairs.len() {
        1 => "1 pair of runs".to_owned(),
        several => format!("{several} pairs of runs, median (least to greatest)"),
    };
    let rows: Vec<[String; 5]> = figures.iter().map(cells).collect();
    let name = name(*peer);
    let header = ["", "Paceline", name, &format!("Paceline / {name}"), "unit"];
    format!("{setting}; {version}\n{runs}\n\n") + &table(header, &rows)
}

fn name(peer: Peer) -> &'static str {
    match peer {
        Peer::JGroups => "JGroups",
    }
}

fn cells(compared: &Compared) -> [String; 5] {
    let (what, unit, scale) = match compared.figure {
        "mb_per_node_per_s" => ("received, own included", "MB/node/s", 1.0),
        "limit_share" => ("of the limit of the links", "%", 100.0),
        "p50_ms" => ("latency, median", "ms", 1.0),
        "p99_ms" => ("latency, 99th percentile", "ms", 1.0),
        "cpu_s_per_gb" => ("processor time", "s/GB received", 1.0),
        other => (other, "", 1.0),
    };
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
            peer: Peer::JGroups,
            version: "JGroups 5, Java 17".to_owned(),
            pairs: Vec::new(),
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
            ],
        };
        let text = describe(&comparison);
        for part in [
            "; JGroups 5, Java 17\n",
            "Paceline / JGroups",
            "received, own included",
            "8.5 (8 to 9)",
            "2 (1.75 to 2.5)",
            "62.5 (50 to 75)",
            " 25 ",
            "MB/node/s",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
