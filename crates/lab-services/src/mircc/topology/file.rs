use std::time::Duration;

use paceline_lab::scenario::units::{parse_duration, parse_rate};
use paceline_lab::scenario::{Diagnostic, Origin, Rate, Source};

use super::graph::GraphError;

pub(super) const RATE_ACCEPTED: &str = "a rate above zero with a unit: 10Mbps, 1.5Gbps, 500kbit";
pub(super) const DELAY_ACCEPTED: &str = "a delay with a unit: 5ms, 250us, 0.1s";

/// What links have when the file does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Defaults {
    /// Default: none, so that a link without a rate is an error.
    pub rate: Option<Rate>,
    /// Default: none, so that a link without a delay is an error, unless the places of its ends are
    /// known.
    pub delay: Option<Duration>,
    /// Packets. Default: none, which leaves the choice to the user of the network.
    pub queue_packets: Option<u32>,
}

/// A problem at these bytes of the file.
pub(super) fn at(
    source: &Source,
    span: std::ops::Range<usize>,
    problem: impl Into<String>,
) -> Diagnostic {
    Diagnostic::at(source, &Origin::File(span), problem)
}

/// A problem of the network as a whole.
pub(super) fn of_file(source: &Source, error: &GraphError) -> Diagnostic {
    Diagnostic::at(source, &Origin::Nowhere, error.to_string())
}

/// Reads a rate as ns-3 (`10Mbps`, `10Mb/s`, `1MBps`) and scenario files (`10Mbit`) write it.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    let text = text.trim();
    let (number, bits) = if let Some(head) = text.strip_suffix("Bps") {
        (head, "B/s")
    } else if let Some(head) = text.strip_suffix("bps").or_else(|| text.strip_suffix("b/s")) {
        (head, "bit")
    } else {
        ("", "")
    };
    let plain = match number.trim_end() {
        "" => text.to_owned(),
        // ns-3 takes both cases of the prefix for 1000.
        number => match number.strip_suffix(['K', 'k']) {
            Some(number) => format!("{number}k{bits}"),
            None => format!("{number}{bits}"),
        },
    };
    match parse_rate(&plain) {
        Ok(rate) if rate.bits_per_second() == 0 => Err(format!("the rate `{text}` is zero")),
        other => other,
    }
}

/// Reads a delay.
pub(super) fn delay(text: &str) -> Result<Duration, String> {
    parse_duration(text)
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    #[test]
    fn rates_are_read_as_both_worlds_write_them() {
        let bits = |text| rate(text).map(Rate::bits_per_second);
        assert_eq!(bits("10Mbps"), Ok(10_000_000));
        assert_eq!(bits(" 1.5 Gbps "), Ok(1_500_000_000));
        assert_eq!(bits("64Kbps"), Ok(64_000));
        assert_eq!(bits("64kb/s"), Ok(64_000));
        assert_eq!(bits("1MBps"), Ok(8_000_000));
        assert_eq!(bits("2KBps"), Ok(16_000));
        assert_eq!(bits("300bps"), Ok(300));
        assert_eq!(bits("10Mbit"), Ok(10_000_000));
        assert_eq!(bits("10Mbit/s"), Ok(10_000_000));
        assert_eq!(bits("0Mbps").unwrap_err(), "the rate `0Mbps` is zero");
        assert!(bits("-1Mbps").unwrap_err().contains("does not begin with a number"));
        assert!(bits("bps").unwrap_err().contains("does not begin with a number"));
        assert_eq!(bits("10").unwrap_err(), "`10` has no unit");
    }

    #[test]
    fn the_kind_of_a_file_is_told_by_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("two.txt");
        std::fs::write(&path, "router\na\nb\nlink\na b 1Mbps 1 2ms\n").unwrap();
        assert_eq!(load(&path, &Defaults::default()).unwrap().links().len(), 1);
        let said = |name: &str| {
            let path = folder.path().join(name);
            load(&path, &Defaults::default()).unwrap_err().to_string()
        };
        assert!(said("two.gml").contains("accepted: .graphml or .xml"));
        assert!(said("none.graphml").starts_with("cannot read"));
    }
}
