//! Which modules of a crate use each other, read from their sources.

use std::collections::{BTreeMap, BTreeSet};

/// Modules of one crate by their paths below its root, each with its source.
#[derive(Debug, Default)]
pub struct Modules {
    sources: BTreeMap<Vec<String>, String>,
}

impl Modules {
    /// Adds the file at this path below `src`. Files of tests are left out.
    pub fn add(&mut self, file: &str, text: &str) {
        let mut path: Vec<String> =
            file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
            path.pop();
        }
        if !path.iter().any(|part| part == "tests") {
            self.sources.insert(path, without_tests_and_comments(text));
        }
    }

    /// The sets of sibling modules that import each other in a circle, each set as one line. A
    /// module includes what is below it; parents and children may use each other.
    pub fn cycles(&self) -> Vec<String> {
        let mut siblings: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
        let imports: Vec<_> = self
            .sources
            .iter()
            .flat_map(|(from, text)| paths(text).map(move |path| (from, self.resolve(from, &path))))
            .collect();
        for (from, to) in &imports {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let folder = siblings.entry(&from[..common]).or_default();
                folder.entry(a.as_str()).or_default().insert(b.as_str());
            }
        }
        let cycles = siblings.into_iter().flat_map(|(folder, uses)| {
            let folder = if folder.is_empty() { "root".into() } else { folder.join("::") };
            circles(&uses).into_iter().map(move |circle| format!("{folder}: {}", circle.join(", ")))
        });
        cycles.collect()
    }

    /// The deepest module on a path, seen from `from`.
    fn resolve(&self, from: &[String], path: &[String]) -> Vec<String> {
        let (mut module, mut rest) = (from.to_vec(), path);
        if rest.first().is_some_and(|first| first == "crate") {
            module.clear();
            rest = &rest[1..];
        }
        while let Some(first) = rest.first().filter(|first| matches!(&***first, "super" | "self")) {
            if first == "super" {
                module.pop();
            }
            rest = &rest[1..];
        }
        for part in rest {
            module.push(part.clone());
            if !self.sources.contains_key(&module) {
                module.pop();
                break;
            }
        }
        module
    }
}

/// The source up to its tests, without comments.
fn without_tests_and_comments(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// Paths that begin with `crate`, `super` or `self`, and all that `use` names.
fn paths(text: &str) -> impl Iterator<Item = Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((at, keyword)) = next_keyword(rest) {
        let after = &rest[at..];
        let length = match keyword {
            "use" => {
                let length = after.find(';').unwrap_or(after.len());
                expand("", &after["use".len()..length], &mut found);
                length
            }
            _ => {
                let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let length = after.find(|c| !is_part(c)).unwrap_or(after.len());
                found.push(after[..length].to_owned());
                length
            }
        };
        rest = &after[length.max(1)..];
    }
    found.into_iter().map(|path| {
        let path = path.split(" as ").next().unwrap_or_default();
        path.split("::").map(|part| part.trim().to_owned()).collect()
    })
}

/// The next word that begins a path, and where it stands.
fn next_keyword(text: &str) -> Option<(usize, &'static str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let keywords = [("use", " "), ("crate", "::"), ("super", "::"), ("self", "::")];
    let places = keywords.into_iter().filter_map(|(word, behind)| {
        let mut places = text.match_indices(word).filter(|(at, _)| {
            let before = text[..*at].chars().next_back();
            !before.is_some_and(|c| is_word(c) || c == ':')
                && text[at + word.len()..].starts_with(behind)
        });
        places.next().map(|(at, _)| (at, word))
    });
    places.min()
}

/// Adds each path of a `use` to `found`: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand(before: &str, tree: &str, found: &mut Vec<String>) {
    let Some((prefix, group)) = tree.split_once('{') else {
        found.push(format!("{before}{}", tree.trim()));
        return;
    };
    let before = format!("{before}{}", prefix.trim());
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    expand(&before, &group[start..at], found);
                }
                start = at + 1;
                if c == '}' {
                    return;
                }
            }
            _ => {}
        }
    }
}

/// The sets of more than one that reach each other.
fn circles<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|&from| (from, reachable(uses, from))).collect();
    let mut circles = BTreeSet::new();
    for (&from, to) in &reached {
        if to.contains(from) {
            let back = to.iter().filter(|to| reached.get(*to).is_some_and(|r| r.contains(from)));
            circles.insert(back.copied().collect::<Vec<_>>());
        }
    }
    circles.into_iter().collect()
}

fn reachable<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        for &to in uses.get(module).into_iter().flatten() {
            if found.insert(to) {
                next.push(to);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::default();
        files.iter().for_each(|(file, text)| modules.add(file, text));
        modules
    }

    #[test]
    fn modules_that_import_each_other_are_found() {
        let found = modules(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "use crate::b::B;\n"),
            ("b/mod.rs", "mod inner;\n"),
            ("b/inner.rs", "use std::fmt;\nuse super::super::{c, a::{A, Other}};\n"),
            ("c.rs", "fn f() -> crate::lib_only {}\n"),
        ]);
        assert_eq!(found.cycles(), ["root: a, b"]);
    }

    #[test]
    fn a_parent_and_its_child_may_use_each_other_and_tests_do_not_count() {
        let found = modules(&[
            ("chain/mod.rs", "mod flow;\nuse flow::Flow;\npub struct Chain(Flow);\n"),
            ("chain/flow.rs", "use super::Chain;\nuse super::acks::Acks;\n"),
            (
                "chain/acks.rs",
                "// use super::flow::Flow;\n#[cfg(test)]\nmod tests {\n \
                 use crate::chain::flow::Flow;\n}\n",
            ),
            ("chain/tests/flow.rs", "use crate::chain::acks::Acks;\n"),
        ]);
        assert_eq!(found.cycles(), [""; 0]);
    }

    #[test]
    fn a_path_in_a_body_counts_like_an_import() {
        let found = modules(&[
            ("run.rs", "fn f() { super::figure::draw(); reuse (); }\n"),
            ("figure.rs", "fn g(_: crate::run::Run) {}\n"),
        ]);
        assert_eq!(found.cycles(), ["root: figure, run"]);
    }
}
