//! `paceline reproduce`: the registry run, and the folder that it leaves.

use std::fs;
use std::path::{Path, PathBuf};

use crate::LabError;
use crate::figure::{Figure, Results, Scale, Settings};
use crate::folder::Place;
use crate::machine::Machine;
use crate::progress::Progress;
use crate::report::{Report, Section};

/// A set of figures that one command reproduces.
#[derive(Clone, Copy, Debug)]
pub struct Reproduction {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it shows, and whose figures these are.
    pub about: &'static str,
    /// Runs it.
    pub figures: fn(&Settings, &dyn Progress) -> Result<Vec<Figure>, LabError>,
    /// Explains and draws its figures for a report. At full scale it may run more, for curves.
    pub sections: Sections,
}

/// Makes the sections of a report out of the figures of a reproduction.
pub type Sections = fn(&[Figure], &Settings, &dyn Progress) -> Result<Vec<Section>, LabError>;

/// One reproduction that ran.
#[derive(Debug)]
pub struct Reproduced {
    /// Which.
    pub reproduction: &'static Reproduction,
    /// Its figures.
    pub figures: Vec<Figure>,
}

/// Runs reproductions, one after another. Once the user stops it, the figures so far are given.
pub fn run(
    reproductions: impl IntoIterator<Item = &'static Reproduction>,
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Vec<Reproduced>, LabError> {
    let mut reproduced = Vec::new();
    for reproduction in reproductions {
        if progress.stopped() {
            break;
        }
        let figures = (reproduction.figures)(settings, progress)?;
        reproduced.push(Reproduced { reproduction, figures });
    }
    Ok(reproduced)
}

/// All figures, as `reproduce --json` prints them.
pub fn results(reproduced: &[Reproduced]) -> Results {
    Results { results: reproduced.iter().flat_map(|one| one.figures.clone()).collect() }
}

/// The report: for each reproduction its plots and its table.
pub fn report(
    reproduced: &[Reproduced],
    settings: &Settings,
    progress: &dyn Progress,
) -> Result<Report, LabError> {
    let mut sections = Vec::new();
    let is_alone = reproduced.len() == 1;
    for one in reproduced {
        let heading = match is_alone {
            true => "Figures".to_owned(),
            false => format!("Figures of {}", one.reproduction.name),
        };
        let figures = one.figures.clone();
        let text = match is_alone {
            true => String::new(),
            false => one.reproduction.about.to_owned(),
        };
        sections.push(Section { heading, text, figures, ..Section::default() });
        for mut section in (one.reproduction.sections)(&one.figures, settings, progress)? {
            if !is_alone {
                section.heading = format!("{}: {}", one.reproduction.name, section.heading);
            }
            sections.push(section);
        }
    }
    let names: Vec<&str> = reproduced.iter().map(|one| one.reproduction.name).collect();
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![fact("figures", results(reproduced).results.len().to_string())];
    if settings.scale == Scale::Quick {
        facts.push(fact("scale", "quick: smaller runs".to_owned()));
    }
    if !settings.sets.is_empty() {
        facts.push(fact("set", settings.sets.join(", ")));
    }
    facts.extend(settings.seed.map(|seed| fact("seed", seed.to_string())));
    facts.push(fact("Paceline", env!("CARGO_PKG_VERSION").to_owned()));
    Ok(Report {
        title: format!("Reproduced: {}", names.join(", ")),
        about: match reproduced {
            [one] => one.reproduction.about.to_owned(),
            _ => "Published figures beside the measured ones.".to_owned(),
        },
        facts,
        machine: Some(Machine::observe()),
        sections,
        scenario_toml: None,
    })
}

/// Writes `results.json` and `report.html`, and returns the folder. Where its name is not given it
/// begins with `stem`.
pub fn write(
    results: &Results,
    report: &Report,
    place: &Place,
    stem: &str,
) -> Result<PathBuf, LabError> {
    let folder = place.make(stem)?;
    let write = |name: &str, text: String| {
        let path: PathBuf = Path::new(&folder).join(name);
        fs::write(&path, text).map_err(LabError::write(&path))
    };
    write("results.json", results.to_json())?;
    write("report.html", report.to_html())?;
    Ok(folder)
}
