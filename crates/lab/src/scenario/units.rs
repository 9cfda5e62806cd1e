//! Values that carry their unit: `"10Mbit"`, `"5ms"`, `"8KiB"`, `"1000/s"`, `"1%"`.

use std::fmt;
use std::time::Duration;

use super::diagnostic::nearest;

/// A bit rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// This many bits a second.
    pub const fn from_bits_per_second(bits: u64) -> Rate {
        Rate(bits)
    }

    /// Bits a second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Whole bytes a second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&largest_unit(self.0, RATE_UNITS))
    }
}

type Units = &'static [(&'static str, u64)];

// What is written back comes from these tables too: the last unit that divides a value is taken.
const RATE_UNITS: Units = &[
    ("B/s", 8),
    ("KB/s", 8_000),
    ("kB/s", 8_000),
    ("MB/s", 8_000_000),
    ("GB/s", 8_000_000_000),
    ("KiB/s", 8 << 10),
    ("MiB/s", 8 << 20),
    ("GiB/s", 8 << 30),
    ("bit", 1),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
];
const DURATION_UNITS: Units = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];
const SIZE_UNITS: Units = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

pub(crate) const RATE_ACCEPTED: &str =
    "a rate: \"500kbit\", \"10Mbit\", \"1Gbit\" a second, or \"12MB/s\"";
pub(crate) const DURATION_ACCEPTED: &str =
    "a duration: \"250us\", \"5ms\", \"1.5s\", \"2min\" (also ns, h)";
pub(crate) const SIZE_ACCEPTED: &str =
    "a size: \"8000B\", \"64KB\" (1000 each), \"8KiB\" (1024 each), \"1MiB\"";
pub(crate) const FREQUENCY_ACCEPTED: &str = "a frequency: \"1000/s\", \"2.5/ms\", \"30/min\"";
pub(crate) const PROBABILITY_ACCEPTED: &str = "a probability: 0.01 or \"1%\"";

/// The last part of patterns of values with a unit.
fn one_of(units: Units) -> String {
    let units: Vec<&str> = units.iter().map(|&(unit, _)| unit).collect();
    units.join("|")
}

/// A number of zero or more and one of these units, as a regular expression.
fn pattern(units: &str) -> String {
    format!("^ *[0-9_]*[0-9][0-9_]*(\\.[0-9_]*)? *({units}) *$")
}

/// The form of rates, as a regular expression.
pub(crate) fn rate_pattern() -> String {
    pattern(&format!("{}|bit/s", one_of(RATE_UNITS)))
}

/// The form of durations.
pub(crate) fn duration_pattern() -> String {
    pattern(&one_of(DURATION_UNITS))
}

/// The form of sizes.
pub(crate) fn size_pattern() -> String {
    pattern(&one_of(SIZE_UNITS))
}

/// The form of frequencies.
pub(crate) fn frequency_pattern() -> String {
    pattern(&format!("/ *({})", one_of(DURATION_UNITS)))
}

/// The form of percentages.
pub(crate) fn percentage_pattern() -> String {
    pattern("%|")
}

/// Reads a rate. On failure says what is wrong with the text.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let plain = text.strip_suffix("bit/s").map(|head| format!("{head}bit"));
    scaled(plain.as_deref().unwrap_or(text), RATE_UNITS).map(Rate)
}

/// Reads a duration, exact to the nanosecond.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    scaled(text, DURATION_UNITS).map(Duration::from_nanos)
}

/// Reads a size in bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    scaled(text, SIZE_UNITS)
}

/// Reads a frequency, events a second.
pub fn parse_frequency(text: &str) -> Result<f64, String> {
    let Some((number, unit)) = text.split_once('/') else {
        return Err(format!("`{text}` has no unit of time"));
    };
    let Some(&(_, nanos)) = DURATION_UNITS.iter().find(|(known, _)| *known == unit.trim()) else {
        return Err(format!("`{}` is not a unit of time", unit.trim()));
    };
    match number.trim().parse::<f64>() {
        Ok(count) if count.is_finite() && count >= 0.0 => Ok(count * 1e9 / nanos as f64),
        _ => Err(format!("`{}` is not a number of zero or more", number.trim())),
    }
}

/// Reads a probability written in per cent.
pub fn parse_probability(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(per_cent) => per_cent.trim().parse::<f64>().map(|number| number / 100.0),
        None => text.trim().parse::<f64>(),
    };
    match share {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Ok(_) => Err(format!("`{text}` is not between 0 and 1 (0% and 100%)")),
        Err(_) => Err(format!("`{text}` is not a number or percentage")),
    }
}

/// The duration as scenario files write it.
pub fn format_duration(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    largest_unit(nanos, &DURATION_UNITS[2..])
}

/// The size as scenario files write it.
pub fn format_size(bytes: u64) -> String {
    largest_unit(bytes, SIZE_UNITS)
}

/// The frequency as scenario files write it.
pub fn format_frequency(per_second: f64) -> String {
    format!("{per_second}/s")
}

fn largest_unit(value: u64, units: Units) -> String {
    let divides = |&&(_, factor): &&(&str, u64)| value != 0 && value.is_multiple_of(factor);
    let (unit, factor) = units
        .iter()
        .rev()
        .find(divides)
        .or_else(|| units.iter().find(|(_, factor)| *factor == 1))
        .expect("every table has a unit of 1");
    format!("{}{unit}", value / factor)
}

/// Reads digits, at most one point, and a unit; rounds to a whole number of the smallest unit.
fn scaled(text: &str, units: Units) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    if number.is_empty() {
        return Err(format!("`{text}` does not begin with a number of zero or more"));
    }
    if unit.is_empty() {
        return Err(format!("`{text}` has no unit"));
    }
    let Some(&(_, factor)) = units.iter().find(|(known, _)| *known == unit) else {
        return Err(unknown_unit(&number, unit, units));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let bad = || format!("`{number}` is not a number");
    let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| bad())?;
    let divisor = u32::try_from(fraction.len())
        .ok()
        .and_then(|places| 10u128.checked_pow(places))
        .ok_or_else(bad)?;
    digits
        .checked_mul(u128::from(factor))
        .map(|scaled| (scaled + divisor / 2) / divisor)
        .and_then(|scaled| u64::try_from(scaled).ok())
        .ok_or_else(|| format!("`{text}` is too large"))
}

fn unknown_unit(number: &str, unit: &str, units: Units) -> String {
    let folded = unit.to_lowercase().replace("bps", "bit").replace("seconds", "s");
    let same = units.iter().map(|(known, _)| *known).find(|known| known.to_lowercase() == folded);
    let longer = || units.iter().map(|(known, _)| *known).find(|k| k.starts_with(unit));
    let near = same.or_else(longer).or_else(|| nearest(unit, units.iter().map(|(k, _)| *k)));
    match near {
        Some(near) => format!("unknown unit `{unit}`; did you mean \"{number}{near}\"?"),
        None => format!("unknown unit `{unit}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_form_means_what_it_says() {
        let bits = |text| parse_rate(text).map(Rate::bits_per_second);
        assert_eq!(bits("10Mbit"), Ok(10_000_000));
        assert_eq!(bits("1 Gbit/s"), Ok(1_000_000_000));
        assert_eq!(bits("500kbit"), Ok(500_000));
        assert_eq!(bits("12MB/s"), Ok(96_000_000));
        assert_eq!(parse_duration("5ms"), Ok(Duration::from_millis(5)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("0.1us"), Ok(Duration::from_nanos(100)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(parse_size("8KiB"), Ok(8192));
        assert_eq!(parse_size("64KB"), Ok(64_000));
        assert_eq!(parse_size("8_000B"), Ok(8000));
        assert_eq!(parse_frequency("1000/s"), Ok(1000.0));
        assert_eq!(parse_frequency("30/min"), Ok(0.5));
        assert_eq!(parse_probability("1%"), Ok(0.01));
    }

    #[test]
    fn what_is_written_is_read_back_as_the_same_value() {
        for nanos in [0, 1, 999, 1_500, 1_000_000, 1_500_000_000, 3_600_000_000_000, u64::MAX] {
            let duration = Duration::from_nanos(nanos);
            assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            assert_eq!(parse_size(&format_size(nanos)), Ok(nanos));
            assert_eq!(parse_rate(&Rate(nanos).to_string()), Ok(Rate(nanos)));
        }
        assert_eq!(format_duration(Duration::from_millis(1500)), "1500ms");
        assert_eq!(format_size(8192), "8KiB");
        assert_eq!(format_size(64_000), "64KB");
        assert_eq!(Rate(96_000_000).to_string(), "96Mbit");
        assert_eq!(parse_frequency(&format_frequency(0.1)), Ok(0.1));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text| parse_rate(text).unwrap_err();
        assert_eq!(said("10"), "`10` has no unit");
        assert_eq!(said("10mbit"), "unknown unit `mbit`; did you mean \"10Mbit\"?");
        assert_eq!(said("10Mbps"), "unknown unit `Mbps`; did you mean \"10Mbit\"?");
        assert_eq!(said("fast"), "`fast` does not begin with a number of zero or more");
        assert_eq!(said("99999999999Gbit"), "`99999999999Gbit` is too large");
        assert_eq!(parse_size("8K").unwrap_err(), "unknown unit `K`; did you mean \"8KiB\"?");
        assert_eq!(parse_duration("1.2.3s").unwrap_err(), "`1.2.3` is not a number");
        assert_eq!(
            parse_duration("-5ms").unwrap_err(),
            "`-5ms` does not begin with a number of zero or more"
        );
        assert_eq!(
            parse_probability("120%").unwrap_err(),
            "`120%` is not between 0 and 1 (0% and 100%)"
        );
    }
}
