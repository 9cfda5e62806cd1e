//! The two trees that are compared: the one of this workspace, and a revision of it in a git
//! worktree with a target folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::digests;
use crate::shell::{Build, cargo, paceline_of, root, target_folder};

/// A run of one scenario. On sockets it takes as long as it does in reality.
const AT_MOST: Duration = Duration::from_secs(600);

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    Sim,
    Sockets,
}

impl World {
    fn name(self) -> &'static str {
        match self {
            World::Sim => "sim",
            World::Sockets => "sockets",
        }
    }
}

/// The sources of a workspace, what is built from them, and what it gave.
pub struct Tree {
    /// How it is called in what is printed.
    pub name: String,
    folder: PathBuf,
    target: PathBuf,
    build: Build,
    /// Where the answers of a revision are kept. Sources that may still change have no such place.
    results: Option<PathBuf>,
}

impl Tree {
    /// The workspace that this program was built from, with whatever is not committed.
    pub fn here(build: Build) -> Result<Tree, String> {
        let target = target_folder()?.to_path_buf();
        Ok(Tree { name: "here".into(), folder: root().into(), target, build, results: None })
    }

    /// The revision, checked out into `target/compare`. One that was compared before is there
    /// already, with what was built of it and the answers it gave.
    pub fn at(revision: &str, build: Build) -> Result<Tree, String> {
        let commit = format!("{revision}^{{commit}}");
        let hash = git(root(), &["rev-parse", "--verify", "--quiet", &commit])
            .map_err(|_| format!("`{revision}` is not a revision of this repository"))?;
        let place = target_folder()?.join("compare").join(&hash[..12]);
        let folder = place.join("tree");
        // `HEAD` of a folder that is not a worktree of its own would be that of this one.
        if !folder.join(".git").exists() {
            fs::create_dir_all(&place)
                .map_err(|error| format!("cannot create {}: {error}", place.display()))?;
            let path = folder.to_str().ok_or("the target folder is not UTF-8")?;
            // Forced, because git still knows a worktree that was removed with the target folder.
            git(root(), &["worktree", "add", "--quiet", "--detach", "--force", path, &hash])?;
        }
        let changed = git(&folder, &["status", "--porcelain"])?;
        if git(&folder, &["rev-parse", "HEAD"])? != hash || !changed.is_empty() {
            return Err(format!("{} is not as {revision} is; remove it", folder.display()));
        }
        let results = Some(place.join(format!("results-{}", build.folder())));
        Ok(Tree { name: hash[..12].into(), folder, target: place.join("target"), build, results })
    }

    /// The root of the sources.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The scenarios in the tree.
    pub fn scenarios(&self) -> Vec<String> {
        digests::built_in(&self.folder)
    }

    /// Builds the binary, which runs scenarios.
    pub fn build_binary(&self) -> Result<(), String> {
        self.cargo(&["build", "--package", "paceline-cli"])
    }

    /// Builds the tests of the simulator.
    pub fn build_suites(&self) -> Result<(), String> {
        self.cargo(&[&["test"], SIMULATOR, &["--no-run"]].concat())
    }

    /// What a scenario gave in a world: the document that `paceline run` prints, and whether it
    /// ended well. An error says why there is no document.
    pub fn run(&self, scenario: &str, world: World) -> Result<Value, String> {
        let name = format!("{}-{}", world.name(), scenario.replace('/', "-"));
        self.once(&name, || {
            let program = self.target.join(self.build.folder()).join("paceline");
            let folder = tempfile::tempdir()
                .map_err(|error| format!("cannot create a temporary folder: {error}"))?;
            let out = folder.path().to_str().ok_or("the temporary folder is not UTF-8")?;
            let arguments = ["run", scenario, "--on", world.name(), "--out", out];
            let ran = paceline_of(&program, &self.folder, &arguments, &[], AT_MOST);
            Ok(match ran {
                Ok(ran) => json!({ "succeeded": ran.succeeded, "document": ran.json }),
                Err(error) => json!({ "error": error }),
            })
        })
        .and_then(|answer| match answer["error"].as_str() {
            Some(error) => Err(error.into()),
            None => Ok(answer),
        })
    }

    /// Everything that the tests of a suite of the simulator print, and whether they passed.
    pub fn suite(&self, suite: &str, seeds: u64) -> Result<(String, bool), String> {
        let answer = self.once(&format!("{suite}-{seeds}"), || {
            let filter = format!("{suite}::");
            let arguments = [&["test", "--quiet"], SIMULATOR, &["--", &filter, "--show-output"]];
            let mut command = self.command(&arguments.concat());
            let output = command
                .env("PACELINE_TEST_SEEDS", seeds.to_string())
                .env_remove("PACELINE_TEST_SEED_FIRST")
                .output()
                .map_err(|error| format!("cannot run the tests of {}: {error}", self.name))?;
            let text = String::from_utf8_lossy(&output.stdout);
            Ok(json!({ "passed": output.status.success(), "printed": text }))
        })?;
        let printed = answer["printed"].as_str().ok_or("the kept answer is damaged")?;
        Ok((printed.into(), answer["passed"] == true))
    }

    /// An answer of the tree: of a revision it is computed once and kept.
    fn once(
        &self,
        name: &str,
        answer: impl FnOnce() -> Result<Value, String>,
    ) -> Result<Value, String> {
        let Some(results) = &self.results else { return answer() };
        let file = results.join(name).with_extension("json");
        if let Ok(text) = fs::read(&file) {
            return serde_json::from_slice(&text)
                .map_err(|error| format!("{} is damaged: {error}", file.display()));
        }
        let answer = answer()?;
        fs::create_dir_all(results)
            .and_then(|()| fs::write(&file, answer.to_string()))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(answer)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let (task, rest) = arguments.split_first().expect("cargo has a task");
        let profile: &[&str] = if self.build == Build::Release { &["--release"] } else { &[] };
        let mut command = cargo(&[&[*task], profile, rest].concat());
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        command
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = self.command(arguments);
        let line = format!("{}: cargo {}", self.name, arguments.join(" "));
        println!("{line}");
        match command.status() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{line}` failed: {status}")),
            Err(error) => Err(format!("cannot run `{line}`: {error}")),
        }
    }
}

/// The program with the tests of the simulator, as cargo chooses it.
const SIMULATOR: &[&str] = &["--package", "paceline-sim", "--test", "it"];

/// What git prints, without the line's end.
fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
