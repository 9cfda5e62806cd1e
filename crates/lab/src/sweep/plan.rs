use std::sync::Arc;

use crate::LabError;
use crate::scenario::{Diagnostic, Entries, Kind, SEED_MAX, Scenario, ScenarioFile, Value};

/// The grid of a sweep: every combination of the axes' values, each with every seed.
#[derive(Debug)]
pub struct Plan {
    name: String,
    base: String,
    as_given: String,
    axes: Vec<Axis>,
    cells: Vec<Cell>,
}

/// One setting that a sweep varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Dotted path of the setting: `topology.nodes`.
    pub key: String,
    /// Its values, as the sweep names them.
    pub values: Vec<String>,
}

/// One run of a sweep.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its place in the grid; the first axis turns slowest, the seed fastest.
    pub index: usize,
    /// Its name: `topology.nodes=4 protocol.topology=chain seed=3`.
    pub key: String,
    /// The value of each axis, in the plan's order.
    pub values: Vec<String>,
    /// Its seed.
    pub seed: u64,
    /// The scenario with the cell's settings; cells that differ in seed only share it.
    pub scenario: Arc<Scenario>,
}

/// The file of a sweep folder that holds its plan.
pub(super) const PLAN_FILE: &str = "sweep.toml";

/// The most cells that a sweep may have.
pub const CELLS_MAX: usize = 1_000_000;

impl Plan {
    /// The plan that a scenario's `[sweep]` asks for. Each cell's shared tables are checked now;
    /// an error points at the value of `[sweep]` that is to blame.
    ///
    /// Without `[sweep]` the plan is one cell.
    pub fn new(file: &ScenarioFile) -> Result<Plan, LabError> {
        let (mut axes, mut seeds) = (Vec::new(), None);
        if let Some((_, entries)) = file.find("sweep") {
            for entry in entries {
                if entry.key == "seeds" {
                    seeds = Some(read_seeds(file, &entry.value)?);
                } else if entry.key == "seed" {
                    return Err(Diagnostic::at(
                        file.source(),
                        &entry.key_origin,
                        "unknown key `seed`",
                    )
                    .with_note("seeds are swept with `seeds`")
                    .into());
                } else {
                    read_axes(file, &entry.key, &entry.value, &mut axes)?;
                }
            }
        }
        let seed_count = seeds.as_ref().map_or(1, Seeds::count);
        let counts = axes.iter().map(|(_, values): &(String, Vec<Value>)| values.len());
        let count = counts.chain([seed_count]).try_fold(1usize, usize::checked_mul);
        if count.is_none_or(|count| count > CELLS_MAX) {
            let problem = format!("the sweep has more than {CELLS_MAX} cells");
            return Err(Diagnostic::new(problem)
                .with_note("accepted: fewer values or seeds")
                .into());
        }
        let mut plan = Plan {
            name: String::new(),
            base: file.canonical(),
            as_given: file.to_toml_as_given(),
            axes: Vec::new(),
            cells: Vec::new(),
        };
        plan.axes = axes
            .iter()
            .map(|(key, values)| Axis {
                key: key.clone(),
                values: values.iter().map(label).collect(),
            })
            .collect();
        let seeds = seeds.unwrap_or(Seeds::Count(1));
        plan.fill(file, &axes, &seeds, &mut Vec::new())?;
        plan.name = plan.cells[0].scenario.name.clone();
        Ok(plan)
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is varied.
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// The cells in the order of the grid.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The scenario without `[sweep]`, as TOML: two plans with the same one share results.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The scenario with `[sweep]`, as TOML: the whole plan.
    pub fn to_toml(&self) -> &str {
        &self.as_given
    }

    fn fill(
        &mut self,
        file: &ScenarioFile,
        axes: &[(String, Vec<Value>)],
        seeds: &Seeds,
        values: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let Some(((key, choices), rest)) = axes.split_first() else {
            let scenario = Arc::new(file.resolve()?);
            for seed in seeds.from(scenario.seed) {
                let settings = self.axes.iter().zip(&*values);
                let mut name: String =
                    settings.map(|(axis, value)| format!("{}={value} ", axis.key)).collect();
                name.push_str(&format!("seed={seed}"));
                self.cells.push(Cell {
                    index: self.cells.len(),
                    key: name,
                    values: values.clone(),
                    seed,
                    scenario: scenario.clone(),
                });
            }
            return Ok(());
        };
        for choice in choices {
            let mut with = file.clone();
            with.put(key, choice.clone())?;
            values.push(label(choice));
            self.fill(&with, rest, seeds, values)?;
            values.pop();
        }
        Ok(())
    }
}

/// The seeds of a sweep: this many from the scenario's own on, or these.
enum Seeds {
    Count(u64),
    List(Vec<u64>),
}

impl Seeds {
    fn count(&self) -> usize {
        match self {
            Seeds::Count(count) => usize::try_from(*count).unwrap_or(usize::MAX),
            Seeds::List(seeds) => seeds.len(),
        }
    }

    fn from(&self, first: u64) -> Vec<u64> {
        match self {
            Seeds::Count(count) => (0..*count).map(|n| first.wrapping_add(n) & SEED_MAX).collect(),
            Seeds::List(seeds) => seeds.clone(),
        }
    }
}

fn read_seeds(file: &ScenarioFile, value: &Value) -> Result<Seeds, LabError> {
    let whole = |value: &Value| match value.kind {
        Kind::Integer(number) => u64::try_from(number).ok(),
        _ => None,
    };
    let seeds = match &value.kind {
        Kind::Array(items) if !items.is_empty() => items
            .iter()
            .map(whole)
            .collect::<Option<Vec<u64>>>()
            .and_then(distinct)
            .map(Seeds::List),
        _ => whole(value).filter(|&count| count > 0).map(Seeds::Count),
    };
    seeds.ok_or_else(|| {
        let problem = format!("`seeds` cannot be {}", value.describe());
        Diagnostic::at(file.source(), &value.origin, problem)
            .with_note("accepted: a number of seeds, such as 10, or a list of different seeds")
            .into()
    })
}

fn distinct(seeds: Vec<u64>) -> Option<Vec<u64>> {
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1]).then_some(seeds)
}

/// Reads `"a.b" = [..]`, or the same written `a.b = [..]`, which TOML takes for a table.
fn read_axes(
    file: &ScenarioFile,
    key: &str,
    value: &Value,
    axes: &mut Vec<(String, Vec<Value>)>,
) -> Result<(), LabError> {
    let wrong = |problem: String| -> LabError {
        Diagnostic::at(file.source(), &value.origin, problem)
            .with_note("accepted: a list of different values, such as [2, 4, 8]")
            .into()
    };
    match &value.kind {
        Kind::Table(entries) => {
            let inside: &Entries = entries;
            inside.iter().try_for_each(|entry| {
                read_axes(file, &format!("{key}.{}", entry.key), &entry.value, axes)
            })
        }
        Kind::Array(items) if !items.is_empty() => {
            let mut labels: Vec<String> = items.iter().map(label).collect();
            labels.sort_unstable();
            if let Some(twice) = labels.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(wrong(format!("`{key}` has {} twice", twice[0])));
            }
            if axes.iter().any(|(known, _)| known == key) {
                return Err(wrong(format!("`{key}` is swept twice")));
            }
            if let Some(set) = file.set_by(key) {
                return Err(Diagnostic::new(format!("from --set {set}: `{key}` is swept"))
                    .with_note(format!("accepted: `--set sweep.{key}=[..]`"))
                    .into());
            }
            axes.push((key.to_owned(), items.clone()));
            Ok(())
        }
        Kind::Array(_) => Err(wrong(format!("`{key}` has no values"))),
        _ => Err(wrong(format!("`{key}` cannot be {}", value.describe()))),
    }
}

fn label(value: &Value) -> String {
    match &value.kind {
        Kind::Text(text) => text.clone(),
        _ => value.to_toml().to_string(),
    }
}
