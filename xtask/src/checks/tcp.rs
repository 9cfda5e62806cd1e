//! What plain TCP costs on this machine: iperf3 on the links of the network lab, as a peer for the
//! processor time of broadcasts. What a wake-up costs differs from machine to machine.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use paceline_netlab::{NetworkLab, Plan};
use serde_json::Value;

const SECONDS: u32 = 4;

/// Bytes of a write and of a read: those of a message.
const MESSAGE_BYTES: u32 = 8000;

/// Processor seconds, of both ends, for each gigabyte that plain TCP carries over one hop, where
/// each of `hops` members sends to the next one at the rate of its port. The servers' start and
/// idle time count as well.
pub(super) fn cpu_s_per_gb(hops: usize, rate_mbit: u64) -> Result<f64, String> {
    let lab = NetworkLab::build(Plan::new(hops + 1, rate_mbit * 1_000_000));
    let lab = lab.map_err(|error| error.to_string())?;
    let iperf3 = |node: usize, arguments: &[&str]| {
        let mut command = Command::new("iperf3");
        command.args(arguments);
        let mut inside = lab.command_in(node, command);
        inside.stdin(Stdio::null()).stderr(Stdio::null());
        let stdout = if arguments[0] == "--client" { Stdio::piped() } else { Stdio::null() };
        let spawned = inside.stdout(stdout).spawn();
        spawned.map(Ended).map_err(|error| format!("iperf3: {error}"))
    };
    let servers = (1..=hops).map(|node| iperf3(node, &["--server", "--one-off"]));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    std::thread::sleep(Duration::from_millis(500)); // Until they listen: iperf3 does not retry.
    let (seconds, bytes) = (SECONDS.to_string(), MESSAGE_BYTES.to_string());
    let clients = (0..hops).map(|node| {
        let to = lab.address(node + 1).to_string();
        let arguments = [
            "--client",
            &to,
            "--time",
            &seconds,
            "--length",
            &bytes,
            "--json",
            "--connect-timeout",
            "2000",
        ];
        iperf3(node, &arguments)
    });
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

/// A process that does not outlive this.
struct Ended(Child);

impl Ended {
    /// What it prints until it ends.
    fn output(mut self) -> Result<String, String> {
        let mut said = String::new();
        let mut stdout = self.0.stdout.take().expect("piped");
        stdout.read_to_string(&mut said).map_err(|error| error.to_string())?;
        Ok(said)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
