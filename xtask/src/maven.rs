//! Drivers in Java for peers, built under `target` with libraries of Maven's repository that are
//! pinned by hash.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::shell::{answers, root, succeed, target_folder};
use crate::tidy;

/// The hashes of the libraries, in the form of `sha256sum`.
const SUMS: &str = "SHA256SUMS";

/// The sources that all drivers share, from the root of the workspace.
const SHARED: &str = "bench/peers/java-common";

/// A driver: a runnable jar, its libraries in the folder `lib` beside it.
pub struct Driver {
    /// Its folder in the target folder.
    folder: &'static str,
    /// The folder of `pom.xml` and [`SUMS`], from the root of the workspace.
    source: &'static str,
    /// The name of the jar.
    name: &'static str,
    /// The path of the jar, or the error of the build; set by the first request.
    made: OnceLock<Result<PathBuf, String>>,
}

impl Driver {
    pub const fn new(folder: &'static str, source: &'static str, name: &'static str) -> Driver {
        Driver { folder, source, name, made: OnceLock::new() }
    }

    /// The jar, which is built first if it is not there as its sources are.
    pub fn jar(&self) -> Result<&Path, String> {
        let made = self.made.get_or_init(|| {
            let folder = target_folder()?.join(self.folder);
            build(&folder, &root().join(self.source), self.name)
                .map_err(|error| format!("{} cannot be built: {error}", self.folder))
        });
        made.as_deref().map_err(Clone::clone)
    }
}

/// Builds the driver into `folder`, or takes the one that is there if it was built from the same
/// files. Gives its jar.
fn build(folder: &Path, source: &Path, name: &str) -> Result<PathBuf, String> {
    let wanted = contents([source, &root().join(SHARED)])?;
    let cannot = |error: std::io::Error| format!("cannot write {}: {error}", folder.display());
    fs::create_dir_all(folder.parent().unwrap_or(folder)).map_err(cannot)?;
    // Two tasks at once: the second waits, and finds it built.
    let lock = File::create(folder.with_extension("lock")).map_err(cannot)?;
    lock.lock().map_err(cannot)?;
    let (jar, stamp) = (folder.join(name), folder.join("sources.txt"));
    if jar.is_file() && fs::read_to_string(&stamp).is_ok_and(|built| built == wanted) {
        return Ok(jar);
    }

    for (program, package) in [("javac", "default-jdk-headless"), ("mvn", "maven")] {
        if !answers(program, &["-version"]) {
            return Err(format!("there is no `{program}`: `apt-get install {package}`"));
        }
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    let pom = source.join("pom.xml");
    println!("{}: mvn package --file {}", folder.display(), pom.display());
    let mut maven = Command::new("mvn");
    maven.args(["--batch-mode", "--quiet", "--strict-checksums", "package", "--file"]).arg(&pom);
    maven.arg(format!("-Dpaceline.target={}", folder.display()));
    succeed(&mut maven, "Maven failed; it needs a repository that it can reach")?;
    let sums = fs::read_to_string(source.join(SUMS)).map_err(|error| format!("{SUMS}: {error}"))?;
    check(&folder.join("lib"), &sums)?;
    // Written last, so that an unfinished build is repeated.
    fs::write(stamp, wanted).map_err(cannot)?;
    Ok(jar)
}

/// All files of these source folders that git keeps or would keep, each with its name.
fn contents(sources: [&Path; 2]) -> Result<String, String> {
    let mut all = String::new();
    for source in sources {
        for file in tidy::files(source)? {
            let path = source.join(&file);
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let _ = writeln!(all, "== {}\n{text}", file.display());
        }
    }
    Ok(all)
}

/// Whether the folder holds the files of the list, with their hashes, and no other.
fn check(folder: &Path, sums: &str) -> Result<(), String> {
    let pinned = pinned(sums);
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", folder.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, sha256(&fs::read(&path).map_err(cannot)?));
    }
    if found == pinned {
        return Ok(());
    }
    let listed = |(name, sum): (&String, &String)| format!("\n{sum}  {name}");
    let found: String = found.iter().map(listed).collect();
    Err(format!("the libraries are not those of {SUMS}, but{found}"))
}

/// Hashes by file name.
fn pinned(sums: &str) -> BTreeMap<String, String> {
    let split = |line: &str| {
        let (sum, name) = line.split_once("  ")?;
        Some((name.to_owned(), sum.to_owned()))
    };
    sums.lines().filter_map(split).collect()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_library_is_the_one_that_the_pom_asks_for() {
        for (peer, library) in [("jgroups", "jgroups"), ("aeron", "aeron-all")] {
            let source = root().join("bench/peers").join(peer);
            let pom = fs::read_to_string(source.join("pom.xml")).unwrap();
            let sums = fs::read_to_string(source.join(SUMS)).unwrap();
            let tail = pom.split_once(&format!("<{peer}.version>")).expect("the pom pins it").1;
            let version = tail.split_once('<').unwrap().0;
            let pinned = pinned(&sums);
            let names: Vec<&String> = pinned.keys().collect();
            assert_eq!(names, [&format!("{library}-{version}.jar")]);
            assert!(pinned.values().all(|sum| sum.len() == 64), "{sums}");
        }
    }

    #[test]
    fn libraries_are_held_to_their_hashes_and_there_are_no_others() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("a.jar"), "abc").unwrap();
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let sums = format!("{sum}  a.jar\n");
        assert_eq!(check(place.path(), &sums), Ok(()));
        let error = check(place.path(), &sums.replace('b', "c")).unwrap_err();
        assert!(error.contains(&format!("{sum}  a.jar")), "{error}");
        fs::write(place.path().join("b.jar"), "").unwrap();
        assert!(check(place.path(), &sums).is_err(), "b.jar is not in the list");
    }

    #[test]
    fn a_driver_is_taken_again_only_if_its_sources_are_the_same() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("built");
        fs::create_dir(&folder).unwrap();
        let source = root().join("bench/peers/jgroups");
        fs::write(folder.join("a.jar"), "").unwrap();
        let stamp = contents([&source, &root().join(SHARED)]).unwrap();
        let names = ["== src/main/java/paceline/JGroupsMember.java", "/Member.java"];
        assert!(names.iter().all(|name| stamp.contains(name)), "{stamp}");
        fs::write(folder.join("sources.txt"), stamp).unwrap();
        assert_eq!(build(&folder, &source, "a.jar"), Ok(folder.join("a.jar")));
        let missing = place.path().join("none");
        assert!(build(&folder, &missing, "a.jar").is_err(), "there are no sources");
    }
}
