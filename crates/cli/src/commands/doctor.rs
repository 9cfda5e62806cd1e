use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::Path;

use paceline_lab::Machine;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Check the features of this machine that Paceline uses, and how to add missing ones
///
/// Fails only if something is missing that Paceline needs by default.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline doctor
  paceline doctor --json")]
pub struct Args {}

/// What `doctor --json` prints.
#[derive(Serialize)]
struct Document {
    machine: Machine,
    checks: Vec<Check>,
}

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    /// What was found.
    found: String,
    needed_for: &'static str,
    /// What to do if it is missing; empty otherwise.
    advice: &'static str,
    /// True if Paceline needs it by default.
    required: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Missing,
}

/// Does it.
pub fn run(_args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let machine = Machine::observe();
    let mut checks = vec![system(), cores(&machine), memory(&machine)];
    checks.extend([loopback(), offload(), unsent_bound()]);
    checks.extend(socket_buffers());
    checks.extend(network_lab());
    let lacks = checks.iter().any(|check| check.required && check.state == State::Missing);
    ui.print(&format!("{}\n\n", machine.describe()))?;
    for check in &checks {
        ui.print(&check.describe())?;
    }
    ui.document(&Document { machine, checks })?;
    Ok(Outcome::of(!lacks))
}

impl Check {
    fn new(name: &'static str, found: Result<String, String>, needed_for: &'static str) -> Check {
        let (state, found) = match found {
            Ok(found) => (State::Ok, found),
            Err(problem) => (State::Missing, problem),
        };
        Check { name, state, found, needed_for, advice: "", required: false }
    }

    fn required(mut self) -> Check {
        self.required = true;
        self
    }

    fn or(mut self, advice: &'static str) -> Check {
        if self.state == State::Missing {
            self.advice = advice;
        }
        self
    }

    fn describe(&self) -> String {
        let state = match self.state {
            State::Ok => "ok",
            State::Missing => "missing",
        };
        let mut text = format!("{state:<8} {:<24} {}\n", self.name, self.found);
        if self.state == State::Missing {
            let weight = if self.required { "needed" } else { "wanted" };
            text.push_str(&format!("         {weight} for {}\n", self.needed_for));
            if !self.advice.is_empty() {
                text.push_str(&format!("         = {}\n", self.advice));
            }
        }
        text
    }
}

fn system() -> Check {
    let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
    let known = os == "linux" && matches!(architecture, "x86_64" | "aarch64");
    let name = format!("{os} on {architecture}");
    let found = if known { Ok(name) } else { Err(format!("{name} is not a tested system")) };
    Check::new("system", found, "what the tests cover")
        .or("Linux on x86-64 or aarch64 is supported; the simulator runs everywhere")
}

fn cores(machine: &Machine) -> Check {
    let found = format!("{} cores", machine.cores);
    let found = if machine.cores >= 2 { Ok(found) } else { Err(found) };
    Check::new("cores", found, "parallel sweeps, and members that run at the same time")
        .or("throughput measured on one core is not representative")
}

/// A chain of a million nodes of which each holds a wave of blocks takes about this much.
const MEMORY_BYTES: u64 = 4 << 30;

fn memory(machine: &Machine) -> Check {
    let found = match machine.memory_bytes {
        None => Err("unknown".to_owned()),
        Some(bytes) => {
            let shown = format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
            if bytes >= MEMORY_BYTES { Ok(shown) } else { Err(shown) }
        }
    };
    Check::new("memory", found, "runs of a million nodes")
        .or("`bench simulator --nodes-max 100000`")
}

fn loopback() -> Check {
    let both = || -> std::io::Result<u16> {
        let stream = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = stream.local_addr()?.port();
        UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
        Ok(port)
    };
    let found = both().map(|port| format!("TCP and UDP on 127.0.0.1:{port}"));
    Check::new("loopback sockets", found.map_err(|e| e.to_string()), "every run on sockets")
        .required()
        .or("is the loopback interface up (`ip link set lo up`)? are programs allowed to open \
            sockets?")
}

fn offload() -> Check {
    let found = || -> std::io::Result<(usize, usize)> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let state = quinn_udp::UdpSocketState::new((&socket).into())?;
        Ok((state.max_gso_segments(), state.gro_segments()))
    };
    let found = match found() {
        Ok((gso, gro)) if gso > 1 && gro > 1 => {
            Ok(format!("{gso} datagrams a send, {gro} a receive"))
        }
        Ok((gso, gro)) => Err(format!("{gso} datagrams a send, {gro} a receive")),
        Err(error) => Err(error.to_string()),
    };
    Check::new("UDP GSO and GRO", found, "many datagrams in a system call").or(
        "requires Linux 4.18 (send) and 5.0 (receive); without it each datagram takes a system \
            call",
    )
}

fn unsent_bound() -> Check {
    const BYTES: u32 = 64 * 1024;
    let set = || -> std::io::Result<u32> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        #[cfg(target_os = "linux")]
        {
            socket.set_tcp_notsent_lowat(BYTES)?;
            socket.tcp_notsent_lowat()
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = socket;
            Err(std::io::ErrorKind::Unsupported.into())
        }
    };
    let found = match set() {
        Ok(BYTES) => Ok(format!("{} KiB", BYTES / 1024)),
        Ok(other) => Err(format!("asked for {BYTES} bytes, got {other}")),
        Err(error) => Err(error.to_string()),
    };
    Check::new("TCP_NOTSENT_LOWAT", found, "back-pressure that counts unsent data in the kernel")
        .or("requires Linux 3.12; without it latency under load grows by the kernel's buffer")
}

/// What a busy port of 1 Gbit needs for a few milliseconds.
const BUFFER_BYTES: u64 = 200 << 10;

fn socket_buffers() -> Vec<Check> {
    let limit = |name: &'static str, file: &str, advice: &'static str| {
        let path = Path::new("/proc/sys/net/core").join(file);
        let bytes: Option<u64> =
            std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let found = match bytes {
            Some(bytes) if bytes >= BUFFER_BYTES => Ok(format!("up to {} KiB", bytes / 1024)),
            Some(bytes) => Err(format!("up to {} KiB", bytes / 1024)),
            None => Err("unknown".to_owned()),
        };
        Check::new(name, found, "bursts of datagrams").or(advice)
    };
    vec![
        limit("receive buffer limit", "rmem_max", "`sysctl -w net.core.rmem_max=2097152`"),
        limit("send buffer limit", "wmem_max", "`sysctl -w net.core.wmem_max=2097152`"),
    ]
}

const LAB: &str = "the network lab, `bench broadcast --lab netns`";

fn network_lab() -> Vec<Check> {
    let mut checks = vec![
        Check::new("root", effective_user(), LAB)
            .or("run the lab with sudo; no other command needs root"),
        Check::new("network namespaces", namespaces(), LAB)
            .or("the process needs CAP_SYS_ADMIN and CAP_NET_ADMIN, which containers often lack"),
    ];
    let tools = [
        ("ip", "Debian: apt-get install iproute2"),
        ("tc", "Debian: apt-get install iproute2"),
        ("nft", "Debian: apt-get install nftables"),
    ];
    checks.extend(tools.map(|(tool, advice)| {
        let found = find(tool).ok_or_else(|| "not found".to_owned());
        Check::new(tool, found, LAB).or(advice)
    }));
    checks
}

/// A line of `/proc/self/status`.
fn status(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    Some(line?.trim().to_owned())
}

fn effective_user() -> Result<String, String> {
    let ids = status("Uid").ok_or("unknown")?;
    match ids.split_whitespace().nth(1) {
        Some("0") => Ok("user id 0".to_owned()),
        Some(id) => Err(format!("user id {id}")),
        None => Err("unknown".to_owned()),
    }
}

fn namespaces() -> Result<String, String> {
    const CAPABILITIES: [(&str, u32); 2] = [("CAP_NET_ADMIN", 12), ("CAP_SYS_ADMIN", 21)];
    if !Path::new("/proc/self/ns/net").exists() {
        return Err("this kernel does not have it".to_owned());
    }
    let bits = status("CapEff").and_then(|bits| u64::from_str_radix(&bits, 16).ok());
    let bits = bits.ok_or("unknown")?;
    let lacking = CAPABILITIES.iter().filter(|(_, bit)| bits & (1 << bit) == 0);
    let lacking: Vec<&str> = lacking.map(|(name, _)| *name).collect();
    match lacking.as_slice() {
        [] => Ok("may be made".to_owned()),
        _ => Err(format!("lacking {}", lacking.join(" and "))),
    }
}

/// Where a program lies, the folders of system programs included.
fn find(program: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|path| path.is_file());
    found.map(|path| path.display().to_string())
}
