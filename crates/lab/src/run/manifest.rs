use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::RunResult;
use crate::machine::Machine;
use crate::scenario::Scenario;

/// The version of the run folder's format that this build writes and reads.
pub const FORMAT: u32 = 1;

/// Where a scenario ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorldKind {
    /// In the simulator.
    #[default]
    Sim,
    /// On real sockets.
    Sockets,
}

/// What a run folder says about itself: `manifest.json`, written last, so that a folder without
/// one is a run that did not end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of Paceline that ran it.
    pub paceline: String,
    /// Version of the folder's format: [`FORMAT`].
    pub format: u32,
    /// Name of the scenario.
    pub scenario: String,
    /// Its sentence about itself.
    pub about: String,
    /// Which protocol ran.
    pub service: String,
    /// Where it ran.
    pub world: WorldKind,
    /// The seed.
    pub seed: u64,
    /// Digest of all that happened; null where a run is not reproducible to the bit.
    pub digest: Option<String>,
    /// Digest of what applications delivered; null where a service has none.
    pub deliveries: Option<String>,
    /// Events that the run took.
    pub events: u64,
    /// When it was written, in UTC: `2026-01-31T12:00:00Z`.
    pub written: String,
    /// Seconds that it took on the wall.
    pub wall_s: f64,
    /// What it ran on.
    pub machine: Machine,
}

/// A run as its folder keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What ran, where and when.
    pub manifest: Manifest,
    /// The scenario with every default written out; running it repeats the run.
    pub scenario_toml: String,
    /// What came out.
    pub result: RunResult,
}

impl Run {
    /// A run that has just ended.
    pub fn new(scenario: &Scenario, seed: u64, world: WorldKind, result: RunResult) -> Run {
        Run {
            manifest: Manifest {
                paceline: env!("CARGO_PKG_VERSION").to_owned(),
                format: FORMAT,
                scenario: scenario.name.clone(),
                about: scenario.about.clone(),
                service: scenario.service.to_owned(),
                world,
                seed,
                digest: result.digest.clone(),
                deliveries: result.deliveries.clone(),
                events: result.events,
                written: utc(SystemTime::now()),
                wall_s: result.wall_s,
                machine: Machine::observe(),
            },
            scenario_toml: scenario.to_toml_with_seed(seed),
            result,
        }
    }
}

/// The time in UTC, to the second, as RFC 3339 writes it.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years: Hinnant, chrono-compatible date algorithms,
    // civil_from_days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00Z");
    }
}
