use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use paceline_lab::LabError;
use serde::Deserialize;

use super::simulation::{BITS_PER_SECOND, DATA_BYTES, FLOWS, SIMULATED, Simulation};

/// The environment variable with the Python that has ns-3.
const VARIABLE: &str = "PACELINE_PYTHON_NS3";

/// The same packets over the same links in ns-3; it says itself what it leaves out.
const DRIVER: &str = include_str!("../../../../bench/peers/ns3/dumbbell.py");

/// The Python that has ns-3, if there is one.
pub(super) fn interpreter() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What the driver prints, and is used here.
#[derive(Deserialize)]
struct Printed {
    cpu_seconds: f64,
    data_packets: u64,
    events: u64,
    version: String,
    build: Vec<String>,
}

/// What the flows are there.
pub(super) const KINDS: [&str; 2] = ["requests", "tcp"];

/// Runs it there. Only the simulation is timed, not the loading of ns-3.
pub(super) fn run(python: &Path, flows: &'static str) -> Result<Simulation, LabError> {
    let failed = |why: &dyn std::fmt::Display| {
        LabError::Run(format!("ns-3, by {VARIABLE}={}: {why}", python.display()))
    };
    let mut command = Command::new(python);
    command.args(["-I", "-", "--kind", flows]);
    for (option, value) in [
        ("--flows", u64::from(FLOWS)),
        ("--rate-bits-per-second", BITS_PER_SECOND),
        ("--seconds", SIMULATED.as_secs()),
        // Its links add 30 bytes of headers, ours none: the same number of packets comes of it.
        ("--data-bytes", u64::from(DATA_BYTES - HEADER_BYTES)),
    ] {
        command.args([option, &value.to_string()]);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it ends before it has read all, its own words say why.
        let _ = stdin.write_all(DRIVER.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(&error))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    let printed: Printed =
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))?;
    Ok(Simulation {
        simulator: "ns-3",
        flows,
        version: printed.version,
        build: printed.build,
        cpu_seconds: printed.cpu_seconds,
        data_packets: printed.data_packets,
        events: printed.events,
        times: None,
    })
}

/// What IPv4, UDP and PPP add there.
const HEADER_BYTES: u32 = 20 + 8 + 2;
