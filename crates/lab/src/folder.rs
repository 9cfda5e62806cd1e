//! Folders of runs: files with the results of a run, and its report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::LabError;
use crate::figure::Figure;
use crate::report::Report;
use crate::run::{FORMAT, Manifest, Metric, Run, RunResult, parse_series, series_csv};
use crate::scenario::Catalog;

/// Where a run folder goes. An existing run is never overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `<this folder>/<scenario>-<seed>-<n>`, with the first `n` from 1 that is free.
    Under(PathBuf),
    /// This folder, which must not exist or be empty.
    At(PathBuf),
}

#[derive(Serialize, Deserialize)]
struct Summary {
    metrics: Vec<Metric>,
    figures: Vec<Figure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    starved: Vec<u64>,
}

impl Run {
    /// Writes the folder, report included, and returns where it is. The catalog is that of the
    /// run's scenario.
    pub fn write(&self, place: &Place, catalog: &'static Catalog) -> Result<PathBuf, LabError> {
        let folder = self.make_folder(place)?;
        self.write_files(&folder, catalog)?;
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
                    "not the folder of a completed run: it has no manifest.json",
                ));
            }
            Err(error) => return Err(LabError::read(&path)(error)),
        };
        let foreign = |error: serde_json::Error| {
            LabError::folder(&path, format!("not the manifest of a run: {error}"))
        };
        // Checks the version first: another version may have other fields.
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

    /// Rewrites `report.html` of an existing folder, and returns its path. The catalog is that of
    /// the run's scenario.
    pub fn write_report(
        &self,
        folder: &Path,
        catalog: &'static Catalog,
    ) -> Result<PathBuf, LabError> {
        let path = folder.join("report.html");
        fs::write(&path, Report::of_run(self, catalog).to_html())
            .map_err(LabError::write(&path))?;
        Ok(path)
    }

    /// The summary as `summary.json` has it.
    pub fn summary_json(&self) -> String {
        let (metrics, figures) = (self.result.summary.clone(), self.result.figures.clone());
        pretty(&Summary { metrics, figures, starved: self.result.starved.clone() })
    }

    fn write_files(&self, folder: &Path, catalog: &'static Catalog) -> Result<(), LabError> {
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
        self.write_report(folder, catalog)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::{Axis, Mark, Plot};
    use crate::run::{Sample, WorldKind};
    use crate::scenario::sample::CATALOG;

    fn run() -> Run {
        let scenario = CATALOG.load("chain/ten").unwrap().resolve().unwrap();
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
        let folder = run.write(&Place::Under(place.path().into()), &CATALOG).unwrap();
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
        let again = CATALOG.parse("run.toml", &back.scenario_toml).unwrap().resolve().unwrap();
        assert_eq!((again.seed, again.name.as_str()), (5, "chain/ten"));
    }

    #[test]
    fn no_run_is_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let under = Place::Under(place.path().into());
        let first = run().write(&under, &CATALOG).unwrap();
        let second = run().write(&under, &CATALOG).unwrap();
        assert_eq!(second.file_name().unwrap(), "chain-ten-5-2");
        let error = run().write(&Place::At(first), &CATALOG).unwrap_err();
        assert!(matches!(error, LabError::Exists { .. }) && error.exit_status() == 2);
        let fresh = place.path().join("deep/fresh");
        assert_eq!(run().write(&Place::At(fresh.clone()), &CATALOG).unwrap(), fresh);
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
            "T: not the folder of a completed run: it has no manifest.json"
        );
        fs::write(place.path().join("manifest.json"), "{\"format\": 9}").unwrap();
        assert_eq!(said(place.path()), "T/manifest.json: format 9; this build reads format 1");
        fs::write(place.path().join("manifest.json"), "{}").unwrap();
        assert_eq!(
            said(place.path()),
            "T/manifest.json: not the manifest of a run: it has no format"
        );
        let folder = run().write(&Place::At(place.path().join("good")), &CATALOG).unwrap();
        fs::write(folder.join("series.csv"), "run,time_s,node,metric,value\nx\n").unwrap();
        assert_eq!(said(&folder), "T/good/series.csv: damaged: line 2: not five fields: `x`");
    }
}
