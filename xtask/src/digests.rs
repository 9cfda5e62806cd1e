//! `cargo xtask digests`: the same run gives the same digest, however it is built and driven.

use std::path::Path;
use std::time::Duration;

use crate::shell::{Build, paceline, root};
use crate::table;

/// Scenarios that take minutes in a debug build, or run on sockets, where time is real and a
/// digest means nothing.
const LEFT_OUT: &[&str] = &[];

const AT_MOST: Duration = Duration::from_secs(300);

/// One way to run a scenario. The first is what the others are compared with.
struct Variant {
    name: &'static str,
    build: Build,
    threads: Option<&'static str>,
    settings: &'static [&'static str],
}

const VARIANTS: &[Variant] = &[
    Variant { name: "release", build: Build::Release, threads: None, settings: &[] },
    Variant { name: "again", build: Build::Release, threads: None, settings: &[] },
    Variant { name: "one thread", build: Build::Release, threads: Some("1"), settings: &[] },
    Variant {
        name: "codec",
        build: Build::Release,
        threads: None,
        settings: &["--set", "check_wire=true"],
    },
    Variant { name: "debug", build: Build::Debug, threads: None, settings: &[] },
];

/// Runs the named scenarios, or all that are built in, and compares.
pub fn run(names: &[String]) -> bool {
    let scenarios = if names.is_empty() { built_in(root()) } else { names.to_vec() };
    if scenarios.is_empty() {
        println!("there is no scenario under scenarios/");
        return false;
    }
    for build in [Build::Release, Build::Debug] {
        if let Err(error) = build.build() {
            println!("{error}");
            return false;
        }
    }
    let mut equal = true;
    let mut rows = Vec::new();
    for scenario in &scenarios {
        let outcomes: Vec<_> = VARIANTS.iter().map(|variant| digest(scenario, variant)).collect();
        let expected = outcomes[0].clone();
        let mut row = vec![scenario.clone(), expected.clone().unwrap_or_else(|_| "-".into())];
        for (variant, outcome) in VARIANTS.iter().zip(outcomes) {
            row.push(match (&expected, outcome) {
                (Ok(expected), Ok(digest)) if *expected == digest => "equal".to_string(),
                (_, Ok(digest)) => {
                    equal = false;
                    digest
                }
                (_, Err(error)) => {
                    equal = false;
                    println!("{scenario}, {}: {error}", variant.name);
                    "FAILED".to_string()
                }
            });
        }
        rows.push(row);
    }
    let header: Vec<&str> = ["scenario", "digest"]
        .into_iter()
        .chain(VARIANTS.iter().map(|variant| variant.name))
        .collect();
    table::print(&header, &rows);
    println!("{}", if equal { "all digests are equal" } else { "digests DIFFER" });
    equal
}

fn digest(scenario: &str, variant: &Variant) -> Result<String, String> {
    let mut arguments = vec!["run", scenario];
    arguments.extend(variant.settings);
    let environment: Vec<_> =
        variant.threads.map(|threads| ("RAYON_NUM_THREADS", threads)).into_iter().collect();
    let ran = paceline(variant.build, &arguments, &environment, AT_MOST)?;
    if !ran.succeeded {
        return Err("the run failed".into());
    }
    match &ran.json["digest"] {
        serde_json::Value::String(digest) if !digest.is_empty() => Ok(digest.clone()),
        other => Err(format!("`digest` is {other}, not a string")),
    }
}

/// The scenarios in a tree by the names the command line knows: `chain/ten`.
pub fn built_in(tree: &Path) -> Vec<String> {
    let folder = tree.join("scenarios");
    let mut names: Vec<String> = entries(&folder)
        .into_iter()
        .flat_map(|protocol| entries(&protocol))
        .filter(|file| file.extension().is_some_and(|extension| extension == "toml"))
        .filter_map(|file| {
            let name = file.strip_prefix(&folder).ok()?.with_extension("");
            Some(name.to_str()?.to_string())
        })
        .filter(|name| !LEFT_OUT.contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).collect()
}
