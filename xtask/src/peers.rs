//! `cargo xtask peers`: other implementations that ours is tried against. Each is installed from
//! the Python package index, pinned by hash, into a virtual environment of its own under `target`.

use crate::chosen::{Choice, Named};
use crate::venv::Venv;

/// Another implementation, in a virtual environment.
pub struct Peer {
    /// The name on the command line.
    name: &'static str,
    /// What it is, in a line.
    what: &'static str,
    /// The environment variable that tells tests and benches its interpreter.
    pub variable: &'static str,
    /// Where it is installed.
    pub venv: Venv,
}

/// An implementation of NDN: the tests fetch from it, serve it, and compare bytes.
pub static PYTHON_NDN: Peer = Peer {
    name: "python-ndn",
    what: "NDN client and producer: the tests ask for it",
    variable: "PACELINE_PYTHON_NDN",
    venv: Venv::new("peers/python-ndn", "tests/interop/python-ndn/requirements.txt"),
};

/// A simulator, for comparison.
pub static NS3: Peer = Peer {
    name: "ns3",
    what: "network simulator, to compare with; 520 MB, wants a C++ compiler",
    variable: "PACELINE_PYTHON_NS3",
    venv: Venv::new("peers/ns3", "bench/peers/ns3/requirements.txt"),
};

impl Named for Peer {
    const PLACEHOLDER: &'static str = "NAME";

    fn all() -> Vec<&'static Peer> {
        vec![&PYTHON_NDN, &NS3]
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// Makes the named environments, or all, and prints where their interpreters are.
pub fn run(choice: &Choice<Peer>) -> bool {
    let Some(chosen) = choice.parts() else { return true };
    let made: Vec<bool> = chosen.into_iter().map(make).collect();
    made.into_iter().all(|made| made)
}

/// Makes one environment, and says what came of it.
pub fn make(peer: &Peer) -> bool {
    match peer.venv.interpreter() {
        Ok(interpreter) => println!("{}={}", peer.variable, interpreter.display()),
        Err(error) => println!("{error}"),
    }
    peer.venv.interpreter().is_ok()
}
