//! `fuzz`: libFuzzer chooses bytes by what they reach in decoders and nodes. `miri`: an interpreter
//! looks at `unsafe` code while its tests run. Both want rustup's nightly.

use std::process::Command;

use super::Outcome;
use crate::shell::{answers, root, target_folder, tool};

const VERSION: &str = "0.13.1";

/// Runs for `PACELINE_FUZZ_MINUTES`, 60 by default. What it found before is where it begins; an
/// input that breaks a promise is named, and kept in `fuzz/artifacts`.
pub fn fuzz() -> Result<Outcome, String> {
    let minutes = std::env::var("PACELINE_FUZZ_MINUTES").unwrap_or_else(|_| "60".into());
    let minutes: u64 = minutes.parse().map_err(|_| "PACELINE_FUZZ_MINUTES is not a number")?;
    if !has_nightly(&["rustc"]) {
        return Ok(Outcome::LeftOut("there is no nightly toolchain of rustup".into()));
    }
    if !answers("c++", &["--version"]) {
        return Ok(Outcome::LeftOut("there is no C++ compiler for libFuzzer".into()));
    }
    let corpus = target_folder()?.join("fuzz-corpus");
    std::fs::create_dir_all(&corpus)
        .map_err(|error| format!("cannot make {}: {error}", corpus.display()))?;
    let status = Command::new("rustup")
        .args(["run", "nightly"])
        .arg(tool("cargo-fuzz", VERSION)?)
        .args(["run", "--fuzz-dir", "fuzz", "--sanitizer", "none", "any"])
        .arg(&corpus)
        .args(["--", "-max_len=4096", &format!("-max_total_time={}", 60 * minutes)])
        .current_dir(root())
        .env_remove("CARGO")
        .status()
        .map_err(|error| format!("cannot run cargo-fuzz: {error}"))?;
    Ok(Outcome::of(status.success()))
}

/// Runs the tests of the kernels of GF(256), the only `unsafe` code that neither the system nor a
/// foreign library is behind, with all that Miri knows of x86.
pub fn miri() -> Result<Outcome, String> {
    if !has_nightly(&["cargo", "miri"]) {
        let how = "rustup component add --toolchain nightly miri rust-src";
        return Ok(Outcome::LeftOut(format!("there is no Miri: {how}")));
    }
    let features = match cfg!(target_arch = "x86_64") {
        true => "-Ctarget-feature=+ssse3,+avx2,+gfni",
        false => "",
    };
    let status = Command::new("rustup")
        .args(["run", "nightly", "cargo", "miri", "test"])
        .args(["--package", "paceline-proto", "--lib", "gf256::kernel"])
        .current_dir(root())
        .env("RUSTFLAGS", features)
        .env_remove("CARGO")
        .status()
        .map_err(|error| format!("cannot run Miri: {error}"))?;
    Ok(Outcome::of(status.success()))
}

fn has_nightly(program: &[&str]) -> bool {
    answers("rustup", &[&["run", "nightly"], program, &["--version"]].concat())
}
