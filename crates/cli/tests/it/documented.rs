//! Every command in a page or a help text. All of them parse. Those that need only this machine
//! also run, shortened if they take long, end with the expected status, and print a figure if one
//! is documented.

use crate::support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use support::Place;

/// A command that a reader may copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Documented {
    /// The words behind `paceline`.
    words: Vec<String>,
    /// The page, or the command whose help it is.
    source: String,
}

impl Documented {
    fn text(&self) -> String {
        self.words.join(" ")
    }
}

/// What is done with a documented command.
enum Rule {
    /// It runs, with these arguments in addition.
    Run(&'static [&'static str]),
    /// It only parses, for this reason.
    Parse(&'static str),
    /// It is a pattern and not a command, for this reason.
    Leave(&'static str),
}

/// The first rule whose words a command begins with. What no rule names only parses.
const RULES: &[(&str, Rule)] = &[
    // Long at full size: shorter, with the same ids of figures.
    ("run chain/soak-32k", Rule::Run(&["--set", "duration=3s"])),
    ("run overlay/packets --set algorithm=kademlia --set ping", Rule::Run(SMALL_TABLE)),
    ("run overlay/packets", Rule::Run(SMALL_TABLE)),
    ("run overlay/time", Rule::Run(SMALL_TABLE)),
    ("run overlay/bundle", Rule::Run(SMALL_TABLE)),
    ("run walk/", Rule::Parse("the walks of the paper take longer than this test")),
    ("run slingshot/paper", Rule::Run(FEW_LOSSES)),
    ("run slingshot/tunability", Rule::Run(FEW_LOSSES)),
    ("run slingshot/senders", Rule::Run(FEW_LOSSES)),
    ("run slingshot/group-size", Rule::Run(&["--set", "duration=12s"])),
    ("run slingshot/", Rule::Parse("held to its band by the tests of the lab")),
    ("run mircc/", Rule::Parse("held to its band by the tests of the lab")),
    ("run mine.toml", Rule::Parse("a file of the user's")),
    ("run FILE", Rule::Leave("names a file in general")),
    ("run gossip/", Rule::Leave("a protocol that the reader writes")),
    ("run runs/", Rule::Parse("a folder of an earlier run")),
    ("run chain/", Rule::Run(&[])),
    ("run group/leader-killed [", Rule::Leave("says what may be added")),
    ("run group/", Rule::Run(&[])),
    ("sweep chain/throughput", Rule::Run(&["--set", "sweep.topology.nodes=[2, 4]"])),
    ("reproduce chain", Rule::Run(&["--quick"])),
    ("list", Rule::Run(&[])),
    ("doctor", Rule::Parse("its status says what this machine lacks")),
    ("completions", Rule::Run(&[])),
    ("schema", Rule::Run(&[])),
    ("counters", Rule::Run(&[])),
    ("multicast tune --within", Rule::Run(&[])),
    ("graph gen rmat", Rule::Parse("draws a large graph")),
    ("graph gen sbm", Rule::Run(&["--out", "drawn.tsv"])),
    // Patterns.
    ("multicast send|recv", Rule::Leave("two commands in one")),
    ("serve DIR", Rule::Leave("names a folder in general")),
    ("forward --face udp://HOST", Rule::Leave("names an address in general")),
    ("node --service walk --workers N", Rule::Leave("names a number in general")),
    ("reproduce walk --quick --seed S", Rule::Leave("names a number in general")),
];

/// Fewer keys than published; bands that need the published number do not apply.
const SMALL_TABLE: &[&str] = &["--set", "keys=2000"];

/// The shortest run that has a verdict, with the wider bands of `reproduce slingshot --quick`.
const FEW_LOSSES: &[&str] = &["--set", "duration=10s"];

/// Scenarios that show what happens, and have no figure.
const WITHOUT_FIGURE: [&str; 3] = ["chain/ten", "chain/faults", "chain/tour"];

/// Settings that the documented command makes for a rule's own to be left out.
fn arguments(documented: &Documented, extra: &[&str]) -> Vec<String> {
    let mut words = documented.words.clone();
    for pair in extra.chunks(2) {
        let name = match pair {
            ["--set", set] => set.split('=').next().unwrap_or_default(),
            [flag, ..] => flag,
            [] => continue,
        };
        if !words.iter().any(|word| word.starts_with(name)) {
            words.extend(pair.iter().map(|word| (*word).to_owned()));
        }
    }
    words
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Words as a shell reads them, as far as the pages need it: quotes, comments, pipes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    let mut is_open = false;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.push(c),
            (None, '\'' | '"') => (quote, is_open) = (Some(c), true),
            (None, '#' | '|' | '>' | ';' | '&') if word.is_empty() && !is_open => break,
            (None, ' ') => {
                if !word.is_empty() || is_open {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            (None, c) => word.push(c),
        }
    }
    if !word.is_empty() || is_open {
        words.push(word);
    }
    words
}

/// The command of a line, if it has one; what follows two spaces describes it.
fn command(line: &str, source: &str) -> Option<Documented> {
    let line = line.trim().strip_prefix("paceline ")?;
    let (line, _) = line.split_once("  ").unwrap_or((line, ""));
    let words = words(line);
    (!words.is_empty()).then(|| Documented { words, source: source.to_owned() })
}

/// Lines that end in a backslash go on.
fn joined(text: &str) -> String {
    text.split("\\\n").map(str::trim_start).collect::<Vec<_>>().join("")
}

/// The commands of a page: lines of fenced shell blocks, and what stands in back quotes elsewhere.
fn of_page(page: &Path) -> Vec<Documented> {
    let source = page.strip_prefix(root()).unwrap().display().to_string();
    let text = joined(&std::fs::read_to_string(page).unwrap());
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        if let Some(language) = line.trim().strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(language) };
        } else if fence == Some("sh") {
            found.extend(command(line, &source));
        } else if fence.is_none() {
            let quoted = line.split('`').skip(1).step_by(2);
            found.extend(quoted.filter_map(|text| command(text, &source)));
        }
    }
    found
}

/// The pages that readers are sent to.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md"), root().join("CONTRIBUTING.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Every command with its help, found by the lists of subcommands.
fn helps() -> Vec<(Vec<String>, String)> {
    let place = Place::new();
    let mut found = Vec::new();
    let mut waiting: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = waiting.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let ran = place.run(&words);
        assert_eq!(ran.status, 0, "{words:?}: {}", ran.stderr);
        let subcommands = ran.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in subcommands.take_while(|line| line.starts_with("  ")) {
            // A description that was wrapped stands further in.
            let name = line[2..].split(' ').next().unwrap_or_default();
            if !name.is_empty() && name != "help" {
                waiting.push([path.clone(), vec![name.to_owned()]].concat());
            }
        }
        found.push((path, ran.stdout));
    }
    found
}

fn of_help(path: &[String], help: &str) -> Vec<Documented> {
    let source = format!("paceline {} --help", path.join(" "));
    joined(help).lines().filter_map(|line| command(line, &source)).collect()
}

fn rule(documented: &Documented) -> &'static Rule {
    const OTHERS: Rule = Rule::Parse("needs others, or takes long");
    let text = documented.text();
    RULES.iter().find(|(prefix, _)| text.starts_with(prefix)).map_or(&OTHERS, |(_, rule)| rule)
}

/// What is wrong with a command as it parses: `--help` at its end keeps it from running. A page may
/// name an option without its value.
fn parse(documented: &Documented, place: &Place) -> Option<String> {
    let mut words: Vec<&str> = documented.words.iter().map(String::as_str).collect();
    words.push("--help");
    let ran = place.run(&words);
    let is_option = documented.words.last().is_some_and(|word| word.starts_with("--"));
    let is_named = is_option && ran.stderr.contains("a value is required for");
    (ran.status != 0 && !is_named).then_some(ran.stderr)
}

/// What is wrong with a command as it runs.
fn run(documented: &Documented, extra: &[&str]) -> Option<String> {
    let place = Place::new();
    let words = arguments(documented, extra);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ran = place.run(&words);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    if ran.status != 0 {
        return Some(format!("{words:?} ended with status {}:\n{said}", ran.status));
    }
    let is_shown = |verdict: &str| said.lines().any(|line| line.trim_end().ends_with(verdict));
    let has_figure = ["  ok", "  shown", "  differs"].into_iter().any(is_shown)
        || said.contains("\"measured\":");
    let is_due = match (words[0], words.get(1)) {
        ("run", Some(name)) => !WITHOUT_FIGURE.contains(name),
        ("reproduce", _) => true,
        _ => false,
    };
    (is_due && !has_figure).then(|| format!("{words:?} shows no figure:\n{said}"))
}

/// What is wrong with these, each with where it stands. On as many threads as there are cores.
fn faults(all: &BTreeSet<Documented>) -> Vec<String> {
    let waiting = Mutex::new(all.iter());
    let faults = Mutex::new(Vec::new());
    let place = Place::new();
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let work = || {
        loop {
            let Some(documented) = waiting.lock().unwrap().next() else { return };
            let fault = match rule(documented) {
                Rule::Run(extra) => run(documented, extra),
                Rule::Parse(reason) => parse(documented, &place)
                    .map(|fault| format!("{fault} (it is only parsed: {reason})")),
                Rule::Leave(reason) => {
                    println!("left out: `paceline {}`: {reason}", documented.text());
                    None
                }
            };
            if let Some(fault) = fault {
                let text = documented.text();
                let fault = format!("{}: `paceline {text}`: {fault}", documented.source);
                faults.lock().unwrap().push(fault);
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    faults.into_inner().unwrap()
}

/// Each command once, wherever it stands.
fn distinct(found: Vec<Documented>) -> BTreeSet<Documented> {
    let mut texts = BTreeSet::new();
    found.into_iter().filter(|documented| texts.insert(documented.text())).collect()
}

#[test]
fn every_command_that_a_page_gives_does_what_the_page_says() {
    let found: Vec<Documented> = pages().iter().flat_map(|page| of_page(page)).collect();
    assert!(found.len() > 100, "only {} commands were found", found.len());
    let faults = faults(&distinct(found));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_command_has_a_help_with_examples_that_work() {
    let helps = helps();
    assert!(helps.len() > 40, "only {} commands were found", helps.len());
    let without: Vec<String> = helps
        .iter()
        .filter(|(path, help)| of_help(path, help).is_empty())
        .map(|(path, _)| format!("paceline {}", path.join(" ")))
        .collect();
    assert!(without.is_empty(), "help without an example: {without:?}");
    let found = helps.iter().flat_map(|(path, help)| of_help(path, help)).collect();
    let faults = faults(&distinct(found));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn scenarios_that_pages_name_are_there() {
    let place = Place::new();
    let (_, listed) = place.json(&["list"]);
    let names: BTreeSet<&str> = listed["scenarios"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|scenario| scenario["name"].as_str())
        .collect();
    let found: Vec<Documented> = pages().iter().flat_map(|page| of_page(page)).collect();
    let is_built_in = |name: &str| name.contains('/') && !name.contains("runs/");
    for documented in found {
        let [verb, name, ..] = documented.words.as_slice() else { continue };
        let is_left = matches!(rule(&documented), Rule::Leave(_));
        if (verb == "run" || verb == "sweep") && is_built_in(name) && !is_left {
            assert!(names.contains(name.as_str()), "{}: {name}", documented.source);
        }
    }
}

#[test]
fn a_command_line_is_read_as_a_shell_reads_it() {
    let read = |line: &str| command(line, "a page").map(|documented| documented.words);
    let some = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(read("  paceline dht get a   # a comment"), some(&["dht", "get", "a"]));
    assert_eq!(
        read("paceline sweep s --set 'a=[1, \"b\"]'"),
        some(&["sweep", "s", "--set", "a=[1, \"b\"]"])
    );
    assert_eq!(read("paceline run x --json | jq ."), some(&["run", "x", "--json"]));
    assert_eq!(read("cargo build"), None);
}
