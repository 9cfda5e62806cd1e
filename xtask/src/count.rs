//! `cargo xtask tidy --count`: lines of source and of tests, by crate.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::shell::root;
use crate::{table, tidy};

/// Lines of Rust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lines {
    source: usize,
    tests: usize,
}

/// Prints the count, beside that of a revision if one is named.
pub fn run(revision: Option<&str>) -> Result<bool, String> {
    let before = revision.map(of_revision).transpose()?;
    let after = of_tree(root())?;
    let mut total = (Lines::default(), Lines::default());
    let crates: std::collections::BTreeSet<&String> =
        after.keys().chain(before.iter().flat_map(BTreeMap::keys)).collect();
    let mut rows = Vec::new();
    for name in crates {
        let now = after.get(name).copied().unwrap_or_default();
        let then = before.as_ref().map(|all| all.get(name).copied().unwrap_or_default());
        rows.push(row(name, then, now));
        let then = then.unwrap_or_default();
        total.0 = Lines { source: total.0.source + then.source, tests: total.0.tests + then.tests };
        total.1 = Lines { source: total.1.source + now.source, tests: total.1.tests + now.tests };
    }
    rows.push(row("all", before.as_ref().map(|_| total.0), total.1));
    match before {
        None => table::print(&["crate", "source", "tests"], &rows),
        Some(_) => {
            let header = ["crate", "source before", "after", "change", "tests before", "after"];
            table::print(&header, &rows);
        }
    }
    Ok(true)
}

fn row(name: &str, then: Option<Lines>, now: Lines) -> Vec<String> {
    let name = name.to_owned();
    match then {
        None => vec![name, now.source.to_string(), now.tests.to_string()],
        Some(then) => {
            let change = now.source as i64 - then.source as i64;
            let counts = [then.source.to_string(), now.source.to_string(), format!("{change:+}")];
            let tests = [then.tests, now.tests].map(|lines| lines.to_string());
            [name].into_iter().chain(counts).chain(tests).collect()
        }
    }
}

fn of_revision(revision: &str) -> Result<BTreeMap<String, Lines>, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    let archive = folder.path().join("tree.tar");
    let output = Command::new("git")
        .args(["archive", "--output"])
        .arg(&archive)
        .args([revision, "--", "*.rs"])
        .current_dir(root())
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("{revision}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let unpacked = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .current_dir(folder.path())
        .status()
        .map_err(|error| format!("cannot run tar: {error}"))?;
    if !unpacked.success() {
        return Err("tar cannot read what git wrote".into());
    }
    let mut files = Vec::new();
    walk(folder.path(), folder.path(), &mut files).map_err(|error| error.to_string())?;
    Ok(counted(folder.path(), &files))
}

fn of_tree(root: &Path) -> Result<BTreeMap<String, Lines>, String> {
    let files = tidy::files(root)?;
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Ok(counted(root, &names))
}

/// The files below `folder`, by their paths from `base`.
fn walk(base: &Path, folder: &Path, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            walk(base, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(base) {
            files.push(name.display().to_string());
        }
    }
    Ok(())
}

fn counted(root: &Path, files: &[String]) -> BTreeMap<String, Lines> {
    let mut crates: BTreeMap<String, Lines> = BTreeMap::new();
    for name in files.iter().filter(|name| name.ends_with(".rs")) {
        let Ok(text) = std::fs::read_to_string(root.join(name)) else { continue };
        let all = text.lines().count();
        let source = if is_test(name) { 0 } else { source_lines(&text) };
        let lines = crates.entry(crate_of(name)).or_default();
        lines.source += source;
        lines.tests += all - source;
    }
    crates
}

/// The crate that a file belongs to: `proto`, or the first folder of other files.
fn crate_of(name: &str) -> String {
    let mut parts = name.split('/');
    let first = parts.next().unwrap_or_default();
    let folder = if first == "crates" { parts.next().unwrap_or_default() } else { first };
    folder.to_owned()
}

/// True if a file holds tests or examples alone, or belongs to the crate that checks.
fn is_test(name: &str) -> bool {
    let mut parts = name.split('/');
    name.starts_with("crates/check/")
        || parts.any(|part| matches!(part, "tests" | "tests.rs" | "examples" | "fuzz"))
}

/// Lines before the tests of a file.
fn source_lines(text: &str) -> usize {
    let at = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..at].lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_source() {
        assert!(
            is_test("crates/sim/tests/it/main.rs") && is_test("crates/lab/src/report/tests.rs")
        );
        assert!(is_test("crates/check/src/lib.rs") && !is_test("crates/proto/src/lib.rs"));
        assert_eq!(source_lines("fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 2);
        assert_eq!(crate_of("crates/proto/src/lib.rs"), "proto");
        assert_eq!(crate_of("xtask/src/main.rs"), "xtask");
    }

    #[test]
    fn a_revision_that_is_none_is_refused_by_its_name() {
        let error = run(Some("no-such-revision")).unwrap_err();
        assert!(error.starts_with("no-such-revision: "), "{error}");
    }
}
