use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{Metric, RunResult, parse_series, series_csv};
use crate::LabError;
use crate::figure::Figure;
use crate::machine::Machine;
use crate::report::Report;
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
    /// Digest of what applications were told; null where a service has none.
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

/// Where a run folder goes. An existing run is never overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `<this folder>/<scenario>-<seed>-<n>`, with the first `n` from 1 that is free.
    Under(PathBuf),
    /// This folder, which must not exist or be empty.
    At(PathBuf),
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

#[derive(Serialize, Deserialize)]
struct Summary {
    metrics: Vec<Metric>,
    figures: Vec<Figure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    starved: Vec<u32>,
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

    /// Writes the folder, report included, and returns where it is.
    pub fn write(&self, place: &Place) -> Result<PathBuf, LabError> {
        let folder = self.make_folder(place)?;
        self.write_files(&folder)?;
        Ok(folder)
    }

    /// Reads a run folder.
    pub fn read(folder: &Path) -> Result<Run, LabError> {
        if !folder.is_dir() {
            return Err(LabError::folder(folder, "no such folder; a run folder is made by `run`"));
        }
        let path = folder.join("manifest.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LabError::folder(
                    folder,
                    "not a run folder, or of a run that did not end: it has no manifest.json",
                ));
            }
            Err(error) => return Err(LabError::read(&path)(error)),
        };
        let foreign = |error: serde_json::Error| {
            LabError::folder(&path, format!("not the manifest of a run: {error}"))
        };
        // The version is looked at first: another one may have other fields.
        let loose: serde_json::Value = serde_json::from_str(&text).map_err(foreign)?;
        match loose.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                let problem = format!("format {format}; this build reads format {FORMAT}");
                return Err(LabError::folder(&path, problem));
            }
            None => {
                return Err(LabError::folder(&path, "not the manifest of a run: it has no format"));
            }
        }
        let manifest: Manifest = serde_json::from_value(loose).map_err(foreign)?;

        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(LabError::read(&path))
        };
        let damaged = |name: &str, problem: String| {
            LabError::folder(&folder.join(name), format!("damaged: {problem}"))
        };
        let summary: Summary = serde_json::from_str(&read("summary.json")?)
            .map_err(|error| damaged("summary.json", error.to_string()))?;
        let series =
            parse_series(&read("series.csv")?).map_err(|problem| damaged("series.csv", problem))?;
        // Only runs that draw something have this file.
        let drawings = match folder.join("drawings.json").exists() {
            true => serde_json::from_str(&read("drawings.json")?)
                .map_err(|error| damaged("drawings.json", error.to_string()))?,
            false => Vec::new(),
        };
        let result = RunResult {
            figures: summary.figures,
            summary: summary.metrics,
            series,
            drawings,
            events: manifest.events,
            digest: manifest.digest.clone(),
            deliveries: manifest.deliveries.clone(),
            starved: summary.starved,
            wall_s: manifest.wall_s,
        };
        Ok(Run { manifest, scenario_toml: read("run.toml")?, result })
    }

    /// Writes `report.html` of an existing folder anew, and returns its path.
    pub fn write_report(&self, folder: &Path) -> Result<PathBuf, LabError> {
        let path = folder.join("report.html");
        fs::write(&path, Report::of_run(self).to_html()).map_err(LabError::write(&path))?;
        Ok(path)
    }

    /// The summary as `summary.json` has it.
    pub fn summary_json(&self) -> String {
        let (metrics, figures) = (self.result.summary.clone(), self.result.figures.clone());
        pretty(&Summary { metrics, figures, starved: self.result.starved.clone() })
    }

    fn write_files(&self, folder: &Path) -> Result<(), LabError> {
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(LabError::write(&path))
        };
        let name = format!("{}-{}", self.manifest.scenario, self.manifest.seed);
        write("run.toml", self.scenario_toml.clone())?;
        write("summary.json", self.summary_json())?;
        write("series.csv", series_csv(&name, &self.result.series))?;
        if !self.result.drawings.is_empty() {
            write("drawings.json", pretty(&self.result.drawings))?;
        }
        self.write_report(folder)?;
        write("manifest.json", pretty(&self.manifest))
    }

    fn make_folder(&self, place: &Place) -> Result<PathBuf, LabError> {
        let plain: String = self.manifest.scenario.chars().map(folder_char).collect();
        place.make(&format!("{plain}-{}", self.manifest.seed))
    }
}

impl Place {
    /// Makes the folder, of this name and the next free number if the place is a parent.
    pub(crate) fn make(&self, stem: &str) -> Result<PathBuf, LabError> {
        match self {
            Place::At(folder) => {
                fs::create_dir_all(folder).map_err(LabError::write(folder))?;
                let mut inside = fs::read_dir(folder).map_err(LabError::read(folder))?;
                match inside.next() {
                    None => Ok(folder.clone()),
                    Some(_) => Err(LabError::Exists { path: folder.clone() }),
                }
            }
            Place::Under(parent) => {
                fs::create_dir_all(parent).map_err(LabError::write(parent))?;
                for n in 1u32.. {
                    let folder = parent.join(format!("{stem}-{n}"));
                    // Making the folder is what claims the number: two runs at once do not meet.
                    match fs::create_dir(&folder) {
                        Ok(()) => return Ok(folder),
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(LabError::write(&folder)(error)),
                    }
                }
                Err(LabError::Exists { path: parent.clone() })
            }
        }
    }
}

fn folder_char(c: char) -> char {
    if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' }
}

fn pretty(value: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).expect("these types have text keys only");
    text.push('\n');
    text
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

    use super::super::Sample;
    use super::*;
    use crate::report::{Axis, Mark, Plot};
    use crate::scenario::ScenarioFile;

    fn run() -> Run {
        let scenario = ScenarioFile::load("chain/ten").unwrap().resolve().unwrap();
        let result = RunResult {
            figures: vec![Figure::new("chain/rate", 117.0, "MB/s").with_band(110.0, 120.0)],
            summary: vec![
                Metric::new("throughput", 117.0, "MB/s"),
                Metric::new("lost", f64::NAN, ""),
            ],
            series: vec![Sample::at_node(0.5, 3, "queue_bytes", 1538.0)],
            drawings: vec![Plot::lanes("what", ["a", "b"], Axis::new("time", "ms")).with_layer(
                "",
                Mark::Arrows,
                [(0.0, 0.0), (1.0, -1.0)],
            )],
            events: 42,
            digest: Some("abcd".into()),
            deliveries: Some("ef01".into()),
            starved: vec![2],
            wall_s: 0.25,
        };
        Run::new(&scenario, 5, WorldKind::Sim, result)
    }

    #[test]
    fn a_folder_holds_the_run_and_gives_it_back() {
        let place = tempfile::tempdir().unwrap();
        let run = run();
        let folder = run.write(&Place::Under(place.path().into())).unwrap();
        assert_eq!(folder.file_name().unwrap(), "chain-ten-5-1");
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(
            names,
            [
                "drawings.json",
                "manifest.json",
                "report.html",
                "run.toml",
                "series.csv",
                "summary.json"
            ]
        );
        let back = Run::read(&folder).unwrap();
        assert_eq!(back.manifest, run.manifest);
        assert_eq!(back.result.figures, run.result.figures);
        assert_eq!(back.result.series, run.result.series);
        assert!(back.result.summary[1].value.is_nan());
        let again =
            ScenarioFile::parse("run.toml", &back.scenario_toml).unwrap().resolve().unwrap();
        assert_eq!((again.seed, again.name.as_str()), (5, "chain/ten"));
    }

    #[test]
    fn no_run_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let under = Place::Under(place.path().into());
        let first = run().write(&under).unwrap();
        let second = run().write(&under).unwrap();
        assert_eq!(second.file_name().unwrap(), "chain-ten-5-2");
        let error = run().write(&Place::At(first)).unwrap_err();
        assert!(matches!(error, LabError::Exists { .. }) && error.exit_status() == 2);
        let fresh = place.path().join("deep/fresh");
        assert_eq!(run().write(&Place::At(fresh.clone())).unwrap(), fresh);
    }

    #[test]
    fn foreign_missing_and_newer_folders_are_refused_by_name() {
        let place = tempfile::tempdir().unwrap();
        let said = |path: &Path| {
            Run::read(path).unwrap_err().to_string().replace(place.path().to_str().unwrap(), "T")
        };
        assert_eq!(
            said(&place.path().join("x")),
            "T/x: no such folder; a run folder is made by `run`"
        );
        assert_eq!(
            said(place.path()),
            "T: not a run folder, or of a run that did not end: it has no manifest.json"
        );
        fs::write(place.path().join("manifest.json"), "{\"format\": 9}").unwrap();
        assert_eq!(said(place.path()), "T/manifest.json: format 9; this build reads format 1");
        fs::write(place.path().join("manifest.json"), "{}").unwrap();
        assert_eq!(
            said(place.path()),
            "T/manifest.json: not the manifest of a run: it has no format"
        );
        let folder = run().write(&Place::At(place.path().join("good"))).unwrap();
        fs::write(folder.join("series.csv"), "run,time_s,node,metric,value\nx\n").unwrap();
        assert_eq!(said(&folder), "T/good/series.csv: damaged: line 2: not five fields: `x`");
    }

    #[test]
    fn dates_are_right_around_leap_days() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(1_709_251_200), "2024-03-01T00:00:00Z");
    }
}
