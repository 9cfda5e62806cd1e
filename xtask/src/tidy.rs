//! `cargo xtask tidy`: the sources' form, checked without compiling. Also a test.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::digests::built_in;
use crate::modules::Modules;
use crate::shell::root;

const LINES_MAX: usize = 800;
const COLUMNS_MAX: usize = 100;
const FILE_BYTES_MAX: u64 = 300_000;

/// Written in pieces, so that this file does not find itself.
const LEFTOVERS: [&str; 4] = [
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("FIX", "ME"),
];

/// Idioms that readers stumble over, and what to write instead: the field's word and an agent.
/// Written in pieces, so that this file does not find itself.
const IDIOMS: [(&str, &str); 8] = [
    (concat!("so m", "any"), "this many, or the number of"),
    (concat!("who", "ever"), "any node that, or the role: sender, receiver, requester"),
    (concat!("no", "body"), "no node, no member or no process"),
    (concat!("some", "body"), "a node, a member or a process"),
    (concat!("an", "ew"), "again"),
    (concat!("in v", "ain"), "without a reply, or unanswered"),
    (concat!("told", " of"), "notified of, or reports"),
    (concat!("is not", " to be"), "must not, or cannot"),
];

/// Which crates of the workspace a crate may depend on. Dependencies point one way.
const LAYERS: &[(&str, &[&str])] = &[
    ("paceline-proto", &[]),
    ("paceline-baselines", &["paceline-proto"]),
    ("paceline-graph", &["paceline-proto"]),
    ("paceline-sim", &["paceline-proto", "paceline-baselines"]),
    ("paceline-check", &["paceline-proto", "paceline-baselines", "paceline-sim"]),
    ("paceline-net", &["paceline-proto", "paceline-seal"]),
    ("paceline-netlab", &[]),
    ("paceline-seal", &[]),
    ("paceline-named", &["paceline-proto", "paceline-net"]),
    ("paceline", &["paceline-proto", "paceline-seal", "paceline-net", "paceline-named"]),
    ("paceline-lab", &["paceline-proto", "paceline-sim", "paceline-net"]),
    (
        "paceline-lab-services",
        &[
            "paceline-lab",
            "paceline-proto",
            "paceline-baselines",
            "paceline-graph",
            "paceline-sim",
            "paceline-net",
        ],
    ),
    (
        "paceline-lab-bench",
        &[
            "paceline-lab",
            "paceline-lab-services",
            "paceline-proto",
            "paceline-graph",
            "paceline-sim",
            "paceline-net",
            "paceline-netlab",
        ],
    ),
    (
        "paceline-cli",
        &[
            "paceline-lab",
            "paceline-lab-services",
            "paceline-lab-bench",
            "paceline-graph",
            "paceline-seal",
            "paceline",
        ],
    ),
];

/// Prints what is not in order, and says whether all is.
pub fn run() -> bool {
    match findings(root()) {
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("tidy: {} findings", findings.len());
            findings.is_empty()
        }
        Err(error) => {
            println!("tidy: {error}");
            false
        }
    }
}

/// Everything not in order, one line each.
pub fn findings(root: &Path) -> Result<Vec<String>, String> {
    let files = files(root)?;
    let mut found = Vec::new();
    let mut prose = String::new();
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for file in &files {
        let path = root.join(file);
        // A file may be deleted and not yet committed.
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        let name = file.display().to_string();
        if metadata.len() > FILE_BYTES_MAX && name != "Cargo.lock" {
            found.push(format!("{name}: {} bytes, over {FILE_BYTES_MAX}", metadata.len()));
        }
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rs" | "py") => {
                source(&name, &text, &mut found);
                idioms(&name, &text, &mut found);
                if let Some((package, file)) = name.split_once("/src/") {
                    crates.entry(package.to_owned()).or_default().add(file, &text);
                }
            }
            Some("md") => {
                links(root, file, &text, &mut found);
                idioms(&name, &text, &mut found);
                if name == "README.md" || name.starts_with("docs/") {
                    prose.push_str(&text);
                }
            }
            Some("toml") if name.ends_with("Cargo.toml") => manifest(&name, &text, &mut found),
            Some("toml") => idioms(&name, &text, &mut found),
            _ => {}
        }
    }
    let unmentioned =
        built_in(root).into_iter().filter(|scenario| !prose.contains(scenario.as_str()));
    found.extend(unmentioned.map(|scenario| format!("scenario {scenario}: not in README or docs")));
    crates.iter().for_each(|(package, modules)| circles(package, modules, &mut found));
    Ok(found)
}

/// Modules of a crate that import each other in a circle; a parent and its child may.
fn circles(package: &str, modules: &Modules, found: &mut Vec<String>) {
    let circles = modules.cycles();
    found.extend(circles.iter().map(|circle| format!("{package}: modules in a circle: {circle}")));
}

/// What git keeps or would keep.
pub fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let names = String::from_utf8(output.stdout).map_err(|_| "a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(PathBuf::from).collect())
}

fn source(name: &str, text: &str, found: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        found.push(format!("{name}: {lines} lines, over {LINES_MAX}; split it along a noun"));
    }
    let doc = if name.ends_with(".py") { "\"\"\"" } else { "//!" };
    if has_module_doc(name) && !text.starts_with(doc) {
        found.push(format!("{name}: begins without a module doc (`{doc}`)"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            found.push(format!("{name}:{number}: {columns} columns, over {COLUMNS_MAX}"));
        }
        for leftover in LEFTOVERS {
            if line.contains(leftover) {
                found.push(format!("{name}:{number}: `{leftover}` is left over"));
            }
        }
    }
}

/// Comments, pages and texts use the field's words. An identifier is one word.
fn idioms(name: &str, text: &str, found: &mut Vec<String>) {
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.to_lowercase();
        for (idiom, instead) in IDIOMS {
            if has_phrase(&line, idiom) {
                found.push(format!("{name}:{number}: `{idiom}`; write: {instead}"));
            }
        }
    }
}

fn has_phrase(line: &str, phrase: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        let (before, behind) = (&line[..at], &line[at + phrase.len()..]);
        !is_word(before.chars().next_back()) && !is_word(behind.chars().next())
    })
}

/// Crate roots, folders of modules, and what a reader opens on its own.
fn has_module_doc(name: &str) -> bool {
    let parts: Vec<&str> = name.rsplit('/').collect();
    name.ends_with(".py")
        || matches!(
            parts.as_slice(),
            ["lib.rs" | "main.rs" | "mod.rs", ..] | [_, "examples" | "tests" | "bin", ..]
        )
}

/// Relative links and images must lead to files.
fn links(root: &Path, file: &Path, text: &str, found: &mut Vec<String>) {
    let folder = root.join(file.parent().unwrap_or(Path::new("")));
    let mut in_code = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for link in line.split("](").skip(1) {
            let target = link.split([')', '#', ' ']).next().unwrap_or("");
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !target.is_empty() && !elsewhere && !folder.join(target).exists() {
                found.push(format!("{}:{number}: no file {target}", file.display()));
            }
        }
    }
}

/// A member says what it is, and depends only on what its layer may.
fn manifest(name: &str, text: &str, found: &mut Vec<String>) {
    let mut section = "";
    let mut package = "";
    let mut described = false;
    for line in text.lines() {
        if line.starts_with('[') {
            section = line.trim_end();
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let dependency = key.trim().split('.').next().unwrap_or("");
        match (section, key.trim()) {
            ("[package]", "name") => package = value.trim().trim_matches('"'),
            ("[package]", "description") => described = true,
            ("[dependencies]", _) => {
                let allowed = LAYERS.iter().find(|(layer, _)| *layer == package);
                let ours = dependency == "paceline" || dependency.starts_with("paceline-");
                if ours && allowed.is_some_and(|(_, allowed)| !allowed.contains(&dependency)) {
                    found.push(format!("{name}: {package} may not depend on {dependency}"));
                }
            }
            _ => {}
        }
    }
    if !package.is_empty() && !described {
        found.push(format!("{name}: {package} has no description"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let found = findings(root()).unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn long_files_long_lines_and_leftovers_are_found() {
        let mut found = Vec::new();
        let text = format!("{}\n{}\n{}", "x".repeat(101), LEFTOVERS[3], "\n".repeat(800));
        source("crates/a/src/lib.rs", &text, &mut found);
        let found = found.join("\n");
        for part in ["802 lines", "module doc", ":1: 101 columns", ":2: `"] {
            assert!(found.contains(part), "{part} is not in {found}");
        }
    }

    #[test]
    fn scripts_are_held_to_the_same_form() {
        let mut found = Vec::new();
        source("tests/a.py", &format!("\"\"\"What it is.\"\"\"\n{}", "x".repeat(101)), &mut found);
        source("tests/b.py", "import json\n", &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("a.py:2: 101 columns") && found[1].contains("b.py: begins"));
    }

    #[test]
    fn an_idiom_is_refused_with_its_replacement_and_an_identifier_is_not() {
        let idiom = IDIOMS[0].0;
        let text =
            format!("// S{} nodes hold it.\nfn {}() {{}}\n", &idiom[1..], IDIOMS[4].0.repeat(2));
        let mut found = Vec::new();
        idioms("a.rs", &text, &mut found);
        assert_eq!(found, [format!("a.rs:1: `{idiom}`; write: {}", IDIOMS[0].1)]);
        assert!(
            has_phrase(&format!("{idiom}."), idiom) && !has_phrase(&format!("{idiom}_x"), idiom)
        );
    }

    #[test]
    fn modules_in_a_circle_are_found() {
        let mut modules = Modules::default();
        modules.add("queue.rs", "use crate::server::Server;\n");
        modules.add("server.rs", "use super::queue::Queue;\n");
        let mut found = Vec::new();
        circles("crates/sim", &modules, &mut found);
        assert_eq!(found, ["crates/sim: modules in a circle: root: queue, server"]);
    }

    #[test]
    fn a_link_to_nowhere_is_found_and_one_in_code_is_not() {
        let mut found = Vec::new();
        let text =
            "[a](no.md#x) [b](README.md) [c](https://d.example) [e](#f)\n```\n[g](h.md)\n```";
        links(root(), Path::new("x.md"), text, &mut found);
        assert_eq!(found, ["x.md:1: no file no.md"]);
    }

    #[test]
    fn a_dependency_against_the_layers_is_found() {
        let mut found = Vec::new();
        let text = "[package]\nname = \"paceline-sim\"\n[dependencies]\n\
                    paceline-proto.workspace = true\npaceline-net.workspace = true\n";
        manifest("crates/sim/Cargo.toml", text, &mut found);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("may not depend on paceline-net"));
        assert!(found[1].contains("no description"));
    }
}
