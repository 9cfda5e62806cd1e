//! What plain TCP costs on this machine: iperf3 on the links of the network lab, as a peer for the
//! processor time of broadcasts. What a wake-up costs differs from machine to machine.

use std::process::Command;
use std::time::Duration;

use paceline_netlab::{NetworkLab, Plan};
use serde_json::Value;

use super::inside::Inside;

const SECONDS: u32 = 4;

/// Bytes of a write and of a read: those of a message.
const MESSAGE_BYTES: u32 = 8000;

/// After this time a server listens.
const LISTENING: Duration = Duration::from_millis(500);

/// Processor seconds, of both ends, for each gigabyte that plain TCP carries over one hop, where
/// each of `hops` members sends to the next one at the rate of its port. The servers' start and
/// idle time count as well.
pub(super) fn cpu_s_per_gb(hops: usize, rate_mbit: u64) -> Result<f64, String> {
    let lab = NetworkLab::build(Plan::new(hops + 1, rate_mbit * 1_000_000));
    let lab = lab.map_err(|error| error.to_string())?;
    let servers = (1..=hops).map(|node| server(&lab, node));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(LISTENING); // iperf3 does not try again.
    let clients = (0..hops).map(|node| client(&lab, node, node + 1, SECONDS));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;
    let mut cpu_s = 0.0;
    let mut gigabytes = 0.0;
    for client in clients {
        let (hop_cpu_s, hop_gigabytes) = read(&client.output()?)?;
        cpu_s += hop_cpu_s;
        gigabytes += hop_gigabytes;
    }
    drop(servers);
    Ok(cpu_s / gigabytes)
}

/// Bits a second of a stream from one node to another that plain TCP carries while `beside` runs.
pub(super) fn rate_beside(
    lab: &NetworkLab,
    (from, to): (usize, usize),
    seconds: u32,
    beside: impl FnOnce() -> Result<(), String>,
) -> Result<f64, String> {
    let server = server(lab, to)?;
    std::thread::sleep(LISTENING);
    let client = client(lab, from, to, seconds)?;
    beside()?;
    let (_, gigabytes) = read(&client.output()?)?;
    drop(server);
    Ok(gigabytes * 8e9 / f64::from(seconds))
}

fn server(lab: &NetworkLab, node: usize) -> Result<Inside, String> {
    let mut command = Command::new("iperf3");
    command.args(["--server", "--one-off"]);
    Inside::start(lab, node, command)
}

fn client(lab: &NetworkLab, node: usize, to: usize, seconds: u32) -> Result<Inside, String> {
    let mut command = Command::new("iperf3");
    command.args(["--client", &lab.address(to).to_string(), "--json"]);
    command.args(["--time", &seconds.to_string(), "--length", &MESSAGE_BYTES.to_string()]);
    command.args(["--connect-timeout", "2000"]);
    Inside::start(lab, node, command)
}

/// Processor seconds of both ends, and gigabytes received.
fn read(said: &str) -> Result<(f64, f64), String> {
    let json: Value = serde_json::from_str(said).map_err(|error| format!("iperf3: {error}"))?;
    if let Some(error) = json["error"].as_str() {
        return Err(format!("iperf3: {error}"));
    }
    let end = &json["end"];
    let number = |value: &Value, what: &str| value.as_f64().ok_or(format!("iperf3: no {what}"));
    let percent = &end["cpu_utilization_percent"];
    let percent = number(&percent["host_total"], "host_total")?
        + number(&percent["remote_total"], "remote_total")?;
    let received = &end["sum_received"];
    let seconds = number(&received["seconds"], "seconds")?;
    Ok((percent / 100.0 * seconds, number(&received["bytes"], "bytes")? / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_count_and_an_error_is_told() {
        let said = r#"{"end": {"sum_received": {"seconds": 4.0, "bytes": 48000000},
            "cpu_utilization_percent": {"host_total": 1.5, "remote_total": 2.5}}}"#;
        assert_eq!(read(said), Ok((0.16, 0.048)));
        let refused = r#"{"end": {}, "error": "unable to connect to server"}"#;
        assert_eq!(read(refused), Err("iperf3: unable to connect to server".to_owned()));
        assert!(read("").is_err());
    }
}
