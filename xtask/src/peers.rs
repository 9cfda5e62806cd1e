//! `cargo xtask peers`: other implementations that ours is tried against. Each is installed under
//! `target`, pinned by hash: from the Python package index into a virtual environment of its own,
//! or from Maven's repository beside a driver of ours.

use std::path::Path;

use crate::chosen::{Choice, Named};
use crate::maven::Driver;
use crate::venv::Venv;

/// Another implementation.
pub struct Peer {
    /// The name on the command line.
    name: &'static str,
    /// What it is, in a line.
    what: &'static str,
    /// The environment variable that tells tests and benches its interpreter or its driver.
    pub variable: &'static str,
    /// How it is installed.
    installation: Installation,
}

/// How a peer is installed.
enum Installation {
    /// In a virtual environment; tests and benches run its interpreter.
    Python(Venv),
    /// As a library of a driver, which benches run.
    Java(Driver),
}

/// An implementation of NDN: the tests fetch from it, serve it, and compare bytes.
pub static PYTHON_NDN: Peer = Peer {
    name: "python-ndn",
    what: "NDN client and producer: the tests ask for it",
    variable: "PACELINE_PYTHON_NDN",
    installation: Installation::Python(Venv::new(
        "peers/python-ndn",
        "tests/interop/python-ndn/requirements.txt",
    )),
};

/// A simulator, for comparison.
pub static NS3: Peer = Peer {
    name: "ns3",
    what: "network simulator, to compare with; 520 MB, wants a C++ compiler",
    variable: "PACELINE_PYTHON_NS3",
    installation: Installation::Python(Venv::new("peers/ns3", "bench/peers/ns3/requirements.txt")),
};

/// Group communication in Java, for comparison.
pub static JGROUPS: Peer = Peer {
    name: "jgroups",
    what: "broadcast in Java, to compare with; wants a JDK 17 and Maven",
    variable: "PACELINE_JGROUPS",
    installation: Installation::Java(Driver::new(
        "peers/jgroups",
        "bench/peers/jgroups",
        "paceline-jgroups.jar",
    )),
};

/// Reliable multicast in Java, for comparison.
pub static AERON: Peer = Peer {
    name: "aeron",
    what: "multicast in Java, to compare with; wants a JDK 17 and Maven",
    variable: "PACELINE_AERON",
    installation: Installation::Java(Driver::new(
        "peers/aeron",
        "bench/peers/aeron",
        "paceline-aeron.jar",
    )),
};

impl Peer {
    /// The file that the variable names. The peer is installed first if it is not there as pinned.
    pub fn installed(&self) -> Result<&Path, String> {
        match &self.installation {
            Installation::Python(venv) => venv.interpreter(),
            Installation::Java(driver) => driver.jar(),
        }
    }

    /// Its virtual environment, if it is of Python.
    #[cfg(test)]
    pub fn venv(&self) -> Option<&Venv> {
        match &self.installation {
            Installation::Python(venv) => Some(venv),
            Installation::Java(_) => None,
        }
    }
}

impl Named for Peer {
    const PLACEHOLDER: &'static str = "NAME";

    fn all() -> Vec<&'static Peer> {
        vec![&PYTHON_NDN, &NS3, &JGROUPS, &AERON]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// Installs the named peers, or all, and prints the files to run.
pub fn run(choice: &Choice<Peer>) -> bool {
    let Some(chosen) = choice.parts() else { return true };
    let made: Vec<bool> = chosen.into_iter().map(make).collect();
    made.into_iter().all(|made| made)
}

/// Installs one peer, and says what came of it.
pub fn make(peer: &Peer) -> bool {
    match peer.installed() {
        Ok(file) => println!("{}={}", peer.variable, file.display()),
        Err(error) => println!("{error}"),
    }
    peer.installed().is_ok()
}
