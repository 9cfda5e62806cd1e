//! `cargo xtask compare`: this tree behaves as a revision of it does.
//!
//! Both trees are built, and each runs its own scenarios and tests, so that names in them may
//! differ. What is compared is what must not change when only the code is rewritten: digests and
//! figures of scenarios, totals of seeded tests, encodings, and what is delivered on sockets.

mod totals;
mod tree;
mod vectors;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::Value;

use crate::checks::seeded_suites;
use crate::shell::Build;
use crate::table;
use tree::{Tree, World};

/// What a run says about itself and not about its scenario.
const OF_THE_RUN: &[&str] = &["wall_s", "folder"];

/// The parts of a comparison, by their names on the command line.
const PARTS: &[&str] = &["vectors", "scenarios", "sockets", "seeds"];

/// What the command line asks for.
#[derive(Args)]
pub struct Options {
    /// The revision to compare with
    revision: String,

    /// Only these parts (vectors, scenarios, sockets, seeds), scenarios or suites [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,

    /// A row, a metric or a figure that may differ; can be repeated
    #[arg(long, value_name = "NAME")]
    except: Vec<String>,

    /// Build both with the dev profile
    #[arg(long)]
    debug: bool,
}

impl Options {
    /// The profile to build with.
    fn build(&self) -> Build {
        if self.debug { Build::Debug } else { Build::Release }
    }

    /// Whether a row of a part is requested.
    fn has(&self, part: &str, row: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| name == part || name == row)
    }

    /// Whether a difference was announced: its row, or the metric or figure that it is in.
    fn excepts(&self, row: &str, difference: &Difference) -> bool {
        let mut except = self.except.iter();
        except.any(|name| name == row || difference.path.contains(name))
    }
}

/// A place where two answers differ.
#[derive(Debug, PartialEq)]
struct Difference {
    /// The keys that lead to it.
    path: Vec<String>,
    /// What it is at the revision, and here.
    values: [String; 2],
}

impl Difference {
    fn new(what: &str, base: impl Into<String>, here: impl Into<String>) -> Difference {
        Difference { path: vec![what.into()], values: [base.into(), here.into()] }
    }
}

/// What came of the comparison so far.
struct Comparison {
    options: Options,
    base: Tree,
    here: Tree,
    rows: Vec<Vec<String>>,
    is_equal: bool,
}

/// Builds a revision and this tree, and compares what they do.
pub fn run(options: Options) -> Result<bool, String> {
    let base = Tree::at(&options.revision, options.build())?;
    let here = Tree::here(options.build())?;
    let is_equal = true;
    let mut comparison = Comparison { options, base, here, rows: Vec::new(), is_equal };
    match comparison.compare() {
        Ok(()) => Ok(comparison.print()),
        Err(error) => {
            println!("{error}");
            Ok(false)
        }
    }
}

impl Comparison {
    fn compare(&mut self) -> Result<(), String> {
        let [scenarios, suites] = self.rows_of_both()?;
        let known = |name: &String| {
            PARTS.contains(&name.as_str()) || scenarios.contains(name) || suites.contains(name)
        };
        if let Some(name) = self.options.names.iter().find(|name| !known(name)) {
            return Err(format!("there is no part, scenario or suite `{name}`"));
        }
        if self.options.has("vectors", "vectors") {
            self.vectors()?;
        }
        let chosen = |part: &str, names: &BTreeSet<String>| -> Vec<String> {
            names.iter().filter(|name| self.options.has(part, name)).cloned().collect()
        };
        let (in_simulator, on_sockets, suites) = (
            chosen("scenarios", &scenarios),
            chosen("sockets", &scenarios),
            chosen("seeds", &suites),
        );
        for tree in [&self.base, &self.here] {
            if in_simulator.len() + on_sockets.len() > 0 {
                tree.build_binary()?;
            }
            if !suites.is_empty() {
                tree.build_suites()?;
            }
        }
        for scenario in in_simulator {
            self.scenario(&scenario);
        }
        for scenario in on_sockets {
            self.sockets(&scenario);
        }
        let seeds = std::env::var("PACELINE_TEST_SEEDS").unwrap_or_else(|_| "200".into());
        let seeds: u64 = seeds.parse().map_err(|_| "PACELINE_TEST_SEEDS is not a number")?;
        for suite in suites {
            self.suite(&suite, seeds)?;
        }
        Ok(())
    }

    /// The scenarios and the suites that either tree has.
    fn rows_of_both(&self) -> Result<[BTreeSet<String>; 2], String> {
        let trees = [&self.base, &self.here];
        let scenarios = trees.iter().flat_map(|tree| tree.scenarios()).collect();
        let mut suites = BTreeSet::new();
        for tree in trees {
            suites.extend(seeded_suites(tree.folder())?);
        }
        Ok([scenarios, suites])
    }

    /// Encodings that tests hold: none may be gone. New ones are no difference.
    fn vectors(&mut self) -> Result<(), String> {
        let (base, here) =
            (vectors::vectors(self.base.folder())?, vectors::vectors(self.here.folder())?);
        let count = |found: &BTreeMap<String, usize>| found.values().sum::<usize>().to_string();
        let gone = base.keys().filter(|vector| !here.contains_key(*vector));
        let differences = gone.map(|vector| Difference::new("vector", vector, "gone")).collect();
        self.row("vectors", "vectors", [count(&base), count(&here)], differences);
        Ok(())
    }

    /// A scenario in the simulator: its digest, metrics and figures.
    fn scenario(&mut self, scenario: &str) {
        let answers = [&self.base, &self.here].map(|tree| tree.run(scenario, World::Sim));
        let shown = answers.each_ref().map(|answer| match answer {
            Ok(answer) => text(&answer["document"]["digest"]),
            Err(_) => "FAILED".into(),
        });
        let differences = match &answers {
            [Ok(base), Ok(here)] => differences(base, here),
            [base, here] => {
                let said = |answer: &Result<Value, String>| match answer {
                    Ok(_) => "ran".to_string(),
                    Err(error) => error.clone(),
                };
                vec![Difference::new("run", said(base), said(here))]
            }
        };
        self.row("scenarios", scenario, shown, differences);
    }

    /// A scenario on sockets, where the revision delivers there what it delivers in the simulator:
    /// here it must do so as well, and deliver the same. Other runs are not comparable, since time
    /// is real.
    fn sockets(&mut self, scenario: &str) {
        let deliveries = |tree: &Tree, world| match tree.run(scenario, world) {
            Ok(answer) => answer["document"]["deliveries"].as_str().map(str::to_string),
            Err(_) => None,
        };
        let Some(expected) = deliveries(&self.base, World::Sim) else { return };
        let base = deliveries(&self.base, World::Sockets);
        if base.as_ref() != Some(&expected) {
            let shown = [base.unwrap_or_else(|| "none".into()), "-".into()];
            self.push("sockets", scenario, shown, "not comparable");
            return;
        }
        let here = deliveries(&self.here, World::Sockets).unwrap_or_else(|| "none".into());
        let mut found = Vec::new();
        if here != expected {
            found.push(Difference::new("deliveries", &expected, &here));
        }
        self.row("sockets", scenario, [expected, here], found);
    }

    /// A suite of seeds: the numbers in the totals that it prints.
    fn suite(&mut self, suite: &str, seeds: u64) -> Result<(), String> {
        let (base, base_passed) = self.base.suite(suite, seeds)?;
        let (here, here_passed) = self.here.suite(suite, seeds)?;
        let (base, here) = (totals::totals(&base), totals::totals(&here));
        let mut found = lines_that_differ(&base, &here);
        let verdict = |passed: bool| if passed { "passed" } else { "FAILED" };
        if !base_passed || !here_passed {
            found.push(Difference::new("tests", verdict(base_passed), verdict(here_passed)));
        }
        let shown = [&base, &here].map(|lines| format!("{} lines", lines.len()));
        self.row("seeds", suite, shown, found);
        Ok(())
    }

    /// Adds a row, prints its differences and judges them.
    fn row(&mut self, part: &str, row: &str, shown: [String; 2], found: Vec<Difference>) {
        let is_expected = found.iter().all(|difference| self.options.excepts(row, difference));
        for difference in &found {
            let [base, here] = &difference.values;
            let note = if self.options.excepts(row, difference) { " (excepted)" } else { "" };
            println!("{row}: {}: {base} -> {here}{note}", difference.path.join("."));
        }
        let verdict = match (found.is_empty(), is_expected) {
            (true, _) => "equal",
            (false, true) => "excepted",
            (false, false) => "DIFFERS",
        };
        self.is_equal &= is_expected;
        self.push(part, row, shown, verdict);
    }

    fn push(&mut self, part: &str, row: &str, [base, here]: [String; 2], verdict: &str) {
        println!("{part} {row}: {verdict}");
        self.rows.push(vec![row.into(), part.into(), base, here, verdict.into()]);
    }

    fn print(&self) -> bool {
        println!();
        table::print(&["what", "part", &self.base.name, &self.here.name, "verdict"], &self.rows);
        let count = |verdict| self.rows.iter().filter(|row| row[4] == verdict).count();
        println!(
            "{} equal, {} differ, {} excepted, {} not comparable",
            count("equal"),
            count("DIFFERS"),
            count("excepted"),
            count("not comparable")
        );
        self.is_equal && !self.rows.is_empty()
    }
}

/// Totals are compared by their numbers, so that a test may change its words.
fn lines_that_differ(base: &[String], here: &[String]) -> Vec<Difference> {
    let numbers = |lines: &[String]| -> Vec<Vec<String>> {
        lines.iter().map(|line| totals::numbers(line)).collect()
    };
    if base.is_empty() {
        return vec![Difference::new("totals", "none", "")];
    }
    if numbers(base) == numbers(here) {
        return Vec::new();
    }
    let only = |lines: &[String], others: &[String]| {
        let others: BTreeSet<_> = numbers(others).into_iter().collect();
        let only = lines.iter().filter(|line| !others.contains(&totals::numbers(line)));
        only.map(String::as_str).collect::<Vec<_>>().join("; ")
    };
    vec![Difference::new("totals", only(base, here), only(here, base))]
}

/// Every value in two documents that is not the same.
fn differences(base: &Value, here: &Value) -> Vec<Difference> {
    let (base, here) = (flat(base), flat(here));
    let keys: BTreeSet<&Vec<String>> = base.keys().chain(here.keys()).collect();
    let value = |values: &BTreeMap<Vec<String>, String>, key: &Vec<String>| {
        values.get(key).cloned().unwrap_or_else(|| "absent".into())
    };
    keys.into_iter()
        .filter(|key| base.get(*key) != here.get(*key))
        .map(|key| Difference { path: key.clone(), values: [value(&base, key), value(&here, key)] })
        .collect()
}

/// The values of a document by the keys that lead to them.
fn flat(value: &Value) -> BTreeMap<Vec<String>, String> {
    let mut values = BTreeMap::new();
    let mut open = vec![(Vec::new(), value)];
    while let Some((path, value)) = open.pop() {
        let below = |key: &str| [&path[..], &[key.to_string()]].concat();
        match value {
            Value::Object(fields) => {
                let fields = fields.iter().filter(|(key, _)| !OF_THE_RUN.contains(&key.as_str()));
                open.extend(fields.map(|(key, value)| (below(key), value)));
            }
            // An element of a list is known by its name where it has one, so that one more moves
            // no other; the second of a name by its number as well.
            Value::Array(elements) => {
                let mut names = BTreeSet::new();
                for (at, element) in elements.iter().enumerate() {
                    let name = ["metric", "id"].iter().find_map(|key| element[*key].as_str());
                    let path = name.map_or_else(|| below(&at.to_string()), below);
                    let is_new = names.insert(path.clone());
                    let path = if is_new { path } else { [path, vec![at.to_string()]].concat() };
                    open.push((path, element));
                }
            }
            value => {
                values.insert(path, text(value));
            }
        }
    }
    values
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};
    use serde_json::json;

    use super::*;

    fn options(line: &str) -> Result<Options, clap::Error> {
        let command = Options::augment_args(Command::new("compare").no_binary_name(true));
        Options::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
    }

    #[test]
    fn a_changed_metric_is_found_by_its_name_and_the_time_of_a_run_is_not_compared() {
        let document = |lost: u64, wall: f64| {
            let metrics =
                json!([{ "metric": "sent", "value": 7 }, { "metric": "lost", "value": lost }]);
            json!({ "document": { "digest": "ab", "wall_s": wall, "metrics": metrics } })
        };
        assert_eq!(differences(&document(1, 0.5), &document(1, 0.7)), []);
        let found = differences(&document(1, 0.5), &document(2, 0.5));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, ["document", "metrics", "lost", "value"]);
        assert_eq!(found[0].values, ["1", "2"]);
        assert!(options("v1 --except lost").unwrap().excepts("chain/ten", &found[0]));
        assert!(options("v1 --except chain/ten").unwrap().excepts("chain/ten", &found[0]));
        assert!(!options("v1 --except sent").unwrap().excepts("chain/ten", &found[0]));
    }

    #[test]
    fn a_value_that_only_one_document_has_is_a_difference() {
        let found = differences(&json!({ "a": 1 }), &json!({ "b": null }));
        let values: Vec<_> = found.iter().map(|found| found.values.clone()).collect();
        assert_eq!(values, [["1", "absent"], ["absent", "null"]]);
    }

    #[test]
    fn totals_differ_in_numbers_and_not_in_words() {
        let lines = |text: &str| vec![text.to_string()];
        assert_eq!(lines_that_differ(&lines("20 seeds: 3 lost"), &lines("20 seeds: 3 gone")), []);
        assert_eq!(lines_that_differ(&lines("20 seeds: 3"), &lines("20 seeds: 4")).len(), 1);
        assert_eq!(lines_that_differ(&[], &[]).len(), 1, "a suite without totals shows nothing");
    }

    #[test]
    fn the_command_line_names_a_revision_and_what_to_compare() {
        let all = options("main").unwrap();
        assert!(all.has("seeds", "chain_seeds") && all.build() == Build::Release);
        let some = options("--debug main vectors chain/ten").unwrap();
        assert!(some.has("vectors", "vectors") && some.has("sockets", "chain/ten"));
        assert!(!some.has("seeds", "chain_seeds") && some.build() == Build::Debug);
        assert!(options("").is_err() && options("main --excpt x").is_err());
    }
}
