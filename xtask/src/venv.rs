//! Virtual environments of Python under `target`, with packages of the Python package index that
//! are pinned by hash.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::shell::{root, succeed, target_folder};

/// The oldest Python that the pinned releases support.
const PYTHON_MIN: (u32, u32) = (3, 11);

/// What Python may be called. The first that is new enough is taken.
const PYTHONS: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// Asks a Python for its version, and fails where it cannot make virtual environments: Debian has
/// those parts in a package of their own.
const ASK_VERSION: &str = "import ensurepip, sys, venv; print(*sys.version_info[:2])";

/// A virtual environment with the packages that one file of requirements names.
pub struct Venv {
    /// Its folder in the target folder.
    folder: &'static str,
    /// The file of requirements, each with its hashes, from the root of the workspace.
    requirements: &'static str,
    /// The path of the interpreter, or the error of the installation; set by the first request.
    made: OnceLock<Result<PathBuf, String>>,
}

impl Venv {
    pub const fn new(folder: &'static str, requirements: &'static str) -> Venv {
        Venv { folder, requirements, made: OnceLock::new() }
    }

    /// The interpreter of the environment, which is made first if it is not there as pinned.
    pub fn interpreter(&self) -> Result<&Path, String> {
        let made = self.made.get_or_init(|| {
            let folder = target_folder()?.join(self.folder);
            environment(&folder, &root().join(self.requirements))
                .map_err(|error| format!("{} cannot be installed: {error}", self.folder))
        });
        made.as_deref().map_err(Clone::clone)
    }

    /// A program of a package in the environment, which is made first as well.
    pub fn program(&self, name: &str) -> Result<PathBuf, String> {
        Ok(self.interpreter()?.with_file_name(name))
    }
}

/// Makes a virtual environment in `folder` with what the file names, or takes the one that is
/// there if it was made from the same file. Gives its interpreter.
fn environment(folder: &Path, requirements: &Path) -> Result<PathBuf, String> {
    let wanted = fs::read_to_string(requirements)
        .map_err(|error| format!("cannot read {}: {error}", requirements.display()))?;
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
    fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(cannot)?;
    // Two tasks at once: the second waits, and finds it made.
    let lock = File::create(folder.with_extension("lock")).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    if let Some(interpreter) = made_before(folder, &wanted) {
        return Ok(interpreter);
    }

    let python = python()?;
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    println!("{}: {python} -m venv, pip install -r {}", folder.display(), requirements.display());
    let mut venv = Command::new(python);
    venv.args(["-I", "-m", "venv"]).arg(folder);
    succeed(&mut venv, "no virtual environment can be made")?;
    let interpreter = interpreter(folder);
    let mut pip = Command::new(&interpreter);
    pip.args(["-I", "-m", "pip", "install", "--quiet", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--require-hashes", "--requirement"]);
    pip.arg(requirements);
    succeed(&mut pip, "pip failed; it needs a package index that it can reach")?;
    // Written last, so that an unfinished installation is repeated.
    fs::write(stamp(folder), wanted).map_err(cannot)?;
    Ok(interpreter)
}

/// The interpreter, if the environment was finished and is of these requirements. It is a link to
/// the system's: that one may have gone.
fn made_before(folder: &Path, wanted: &str) -> Option<PathBuf> {
    let stamp = fs::read_to_string(stamp(folder)).ok()?;
    let interpreter = interpreter(folder);
    (stamp == wanted && interpreter.exists()).then_some(interpreter)
}

fn interpreter(folder: &Path) -> PathBuf {
    folder.join("bin").join("python")
}

/// The requirements that the environment was made from.
fn stamp(folder: &Path) -> PathBuf {
    folder.join("requirements.txt")
}

/// A Python that is new enough and can make virtual environments.
fn python() -> Result<&'static str, String> {
    let new_enough = |python: &&str| {
        let asked = Command::new(python).args(["-I", "-c", ASK_VERSION]).output();
        let version = asked.ok().filter(|asked| asked.status.success()).and_then(|asked| {
            let (major, minor) = std::str::from_utf8(&asked.stdout).ok()?.trim().split_once(' ')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        version.is_some_and(|version: (u32, u32)| version >= PYTHON_MIN)
    };
    PYTHONS.into_iter().find(new_enough).ok_or_else(|| {
        let (major, minor) = PYTHON_MIN;
        format!(
            "there is no Python {major}.{minor} or newer with the module venv: \
             `cargo xtask setup` as root, or `apt-get install python3-venv`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{NS3, PYTHON_NDN};
    use crate::spelling::TYPOS;

    #[test]
    fn what_is_installed_is_pinned_by_version_and_hash() {
        let venvs = [PYTHON_NDN.venv(), NS3.venv(), Some(&TYPOS)];
        for requirements in venvs.map(|venv| venv.expect("it is of Python").requirements) {
            let text = fs::read_to_string(root().join(requirements)).unwrap();
            let is_named = |line: &&str| !line.starts_with([' ', '#']) && !line.is_empty();
            let mut lines = text.lines().peekable();
            let mut packages = 0;
            while let Some(line) = lines.next() {
                if is_named(&line) {
                    packages += 1;
                    assert!(line.contains("==") && line.ends_with('\\'), "{requirements}: {line}");
                    let next = lines.peek().unwrap_or(&"").trim_start();
                    assert!(next.starts_with("--hash=sha256:"), "{requirements}: {line}");
                }
            }
            assert!(packages > 0, "{requirements} names no package");
        }
    }

    #[test]
    fn an_environment_is_taken_again_only_if_finished_and_of_the_same_requirements() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        fs::create_dir(folder.join("bin")).unwrap();
        fs::write(interpreter(folder), "").unwrap();
        assert_eq!(made_before(folder, "a==1"), None, "it was not finished");
        fs::write(stamp(folder), "a==1").unwrap();
        assert_eq!(made_before(folder, "a==1"), Some(interpreter(folder)));
        assert_eq!(made_before(folder, "a==2"), None, "the requirements changed");
        fs::remove_file(interpreter(folder)).unwrap();
        assert_eq!(made_before(folder, "a==1"), None, "its interpreter has gone");
    }

    #[test]
    fn a_missing_file_of_requirements_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("none.txt");
        let error = environment(&place.path().join("made"), &file).unwrap_err();
        assert!(error.contains("none.txt"), "{error}");
    }
}
