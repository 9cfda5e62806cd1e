//! Where the nodes of the bench are, and the commands that make them.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_lab::scenario::Rate;
use paceline_lab::{LabError, Progress};
use paceline_netlab::{NetworkLab, Plan, PortTraffic};

use super::super::netns;
use super::FetchPlace;
use super::processes::Running;

/// The UDP port of every node of a lab: each has an address of its own.
const PORT: u16 = 6363;
/// Rate of ports that must not limit.
const WIDE: u64 = 1_000_000_000;
/// How often a consumer says how far it is.
const TOLD_EVERY: &str = "250ms";

/// Nodes that can reach each other.
pub(super) struct Network {
    lab: Option<NetworkLab>,
    addresses: Vec<SocketAddr>,
    program: PathBuf,
}

impl Network {
    /// Builds `nodes` nodes, with ports of these rates; in a lab the other ports are wide.
    pub(super) fn build(
        place: FetchPlace,
        nodes: usize,
        ports: &[(usize, Rate)],
        program: &Path,
        progress: &dyn Progress,
    ) -> Result<Network, LabError> {
        let program = program.to_owned();
        match place {
            FetchPlace::Netns => {
                let plan = ports.iter().fold(Plan::new(nodes, WIDE), |plan, &(node, rate)| {
                    plan.with_rate(node, rate.bits_per_second())
                });
                let lab = netns::build(plan, progress)?;
                let address = |node| SocketAddr::from((lab.address(node), PORT));
                let addresses = (0..nodes).map(address).collect();
                Ok(Network { lab: Some(lab), addresses, program })
            }
            FetchPlace::Loopback => {
                // All are held until each has one, or two would be given the same.
                let sockets: Result<Vec<UdpSocket>, std::io::Error> =
                    (0..nodes).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))).collect();
                let addresses = sockets.and_then(|sockets| {
                    sockets.iter().map(UdpSocket::local_addr).collect::<Result<Vec<_>, _>>()
                });
                let failed = |error| LabError::Run(format!("no free UDP port: {error}"));
                Ok(Network { lab: None, addresses: addresses.map_err(failed)?, program })
            }
        }
    }

    /// All nodes.
    pub(super) fn nodes(&self) -> std::ops::Range<usize> {
        0..self.addresses.len()
    }

    /// What has passed the port of a node; none on loopback.
    pub(super) fn traffic(&self, node: usize) -> Result<Option<PortTraffic>, LabError> {
        let traffic = self.lab.as_ref().map(|lab| lab.traffic(node));
        traffic.transpose().map_err(netns::lab_error)
    }

    /// Serves a folder at a node under `/p`, to neighbours behind a link of this rate.
    pub(super) fn serve(
        &self,
        name: &'static str,
        (node, rate): (usize, Rate),
        folder: &Path,
        segment_bytes: usize,
    ) -> Result<Running, LabError> {
        let mut command = self.bound("serve", node);
        command.arg(folder).args(["--prefix", "/p", "--rate", &rate.to_string()]);
        command.args(["--segment-bytes", &segment_bytes.to_string()]);
        self.start(name, node, command)
    }

    /// Forwards at a node, with these neighbours and routes. Nothing is stored.
    pub(super) fn forward(
        &self,
        name: &'static str,
        node: usize,
        faces: &[(usize, Rate)],
        routes: &[(&str, usize)],
    ) -> Result<Running, LabError> {
        let mut command = self.bound("forward", node);
        command.args(["--store", "0B"]);
        for &(to, rate) in faces {
            command.args(["--face", &format!("udp://{}={rate}", self.addresses[to])]);
        }
        for &(prefix, to) in routes {
            command.args(["--route", &format!("{prefix}={}", self.addresses[to])]);
        }
        self.start(name, node, command)
    }

    /// Fetches `/p/FILE` at a node into a folder, through a neighbour: behind a link of some rate,
    /// or at the same node.
    pub(super) fn fetch(
        &self,
        name: &'static str,
        node: usize,
        (to, rate): (usize, Option<Rate>),
        file: &str,
        folder: &Path,
    ) -> Result<Running, LabError> {
        let mut command = Command::new(&self.program);
        command.args(["fetch", &format!("/p/{file}"), "-o"]).arg(folder.join(file));
        let rate = rate.map_or(String::new(), |rate| format!("={rate}"));
        command.args(["--face", &format!("udp://{}{rate}", self.addresses[to])]);
        command.args(["--insecure-plaintext", "--json", "--stats", TOLD_EVERY]);
        Running::start(name, self.inside(node, command))
    }

    fn bound(&self, what: &str, node: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args([what, "--bind", &self.addresses[node].to_string(), "--insecure-plaintext"]);
        for address in &self.addresses {
            command.args(["--face-allow", &address.ip().to_string()]);
        }
        command
    }

    /// Starts a server and waits until it listens.
    fn start(
        &self,
        name: &'static str,
        node: usize,
        command: Command,
    ) -> Result<Running, LabError> {
        let mut running = Running::start(name, self.inside(node, command))?;
        running.wait_until_ready()?;
        Ok(running)
    }

    fn inside(&self, node: usize, command: Command) -> Command {
        match &self.lab {
            Some(lab) => lab.command_in(node, command),
            None => command,
        }
    }
}
