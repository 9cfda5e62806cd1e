//! JGroups: a Java process for each member, by the driver in `bench/peers/jgroups`.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use paceline_lab::{LabError, Progress};
use paceline_netlab::Plan as LabPlan;
use paceline_proto::core::NodeId;

use super::Place;
use super::peer::{PeerPlan, PeerRow};
use crate::netns;
use crate::peers::{Driver, Installation, MemberPart, MemberSettings, Phases, Session};

static DRIVER: Driver = Driver {
    name: "JGroups",
    peer: "jgroups",
    variable: "PACELINE_JGROUPS",
    message_bytes_max: None,
};

/// Threads of a sender, where it is not paced.
const SENDER_THREADS: u32 = 4;

/// Before the measured time, at full rate.
const WARMUP: Duration = Duration::from_secs(5);
/// How long the first member looks for others, and how long these do.
const FIRST_JOIN_TIMEOUT: Duration = Duration::from_secs(1);
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);

/// An installed driver.
#[derive(Debug)]
pub(super) struct JGroups {
    installation: Installation,
}

impl JGroups {
    /// Looks for a driver that can do this.
    pub(super) fn find(plan: &PeerPlan) -> Result<JGroups, LabError> {
        let installation = DRIVER.find()?;
        DRIVER.check_message(plan.message_bytes)?;
        Ok(JGroups { installation })
    }

    /// The name of the implementation.
    pub(super) fn name(&self) -> &'static str {
        self.installation.driver.name
    }

    /// Runs it once; `label` is for the progress. The version comes with the row.
    pub(super) fn run(
        &self,
        plan: &PeerPlan,
        progress: &dyn Progress,
        label: &str,
    ) -> Result<(String, PeerRow), LabError> {
        let (version, parts) = match plan.place {
            Place::Loopback => {
                let addresses = free_addresses(plan.nodes)?;
                let command = |member: usize| self.command(plan, member, &addresses);
                self.measure(plan, command, progress, label)?
            }
            Place::Netns(rate) => {
                let lab = LabPlan::new(plan.nodes as usize, rate.bits_per_second());
                let lab = netns::build(lab, progress)?;
                let nodes = (0..plan.nodes).map(NodeId::from);
                let addresses: Vec<_> = nodes.map(|node| netns::bind(&lab, node)).collect();
                let command = |member: usize| {
                    let member_command = self.command(plan, member, &addresses);
                    lab.command_in(member, member_command)
                };
                self.measure(plan, command, progress, label)?
            }
        };
        Ok((version, PeerRow::of(plan, &parts)?))
    }

    /// The command that becomes a member.
    fn command(&self, plan: &PeerPlan, member: usize, addresses: &[SocketAddr]) -> Command {
        let hosts = addresses.iter().map(|address| format!("{}[{}]", address.ip(), address.port()));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        let address = addresses[member];
        // The first member looks for others until then, and creates the cluster. The others must
        // find it, however busy the machine is.
        let join_timeout = if member == 0 { FIRST_JOIN_TIMEOUT } else { JOIN_TIMEOUT };
        let settings = MemberSettings {
            number: member,
            members: plan.nodes,
            message_bytes: plan.message_bytes,
            is_sender: plan.senders.iter().any(|sender| sender.index() == member),
            threads_of_sender: if plan.interval.is_some() { 1 } else { SENDER_THREADS },
            first_after: Duration::ZERO,
            interval: plan.interval.unwrap_or_default(),
        };
        let properties = [
            format!("jgroups.bind_addr={}", address.ip()),
            format!("jgroups.bind_port={}", address.port()),
            format!("jgroups.tcpping.initial_hosts={hosts}"),
            format!("jgroups.join_timeout={}ms", join_timeout.as_millis()),
        ];
        self.installation.command(settings, properties, [])
    }

    /// Starts the members, has them join, and collects what they measure.
    fn measure(
        &self,
        plan: &PeerPlan,
        command: impl Fn(usize) -> Command,
        progress: &dyn Progress,
        label: &str,
    ) -> Result<(String, Vec<MemberPart>), LabError> {
        let all = 0..plan.nodes as usize;
        let mut session = Session::start(self.name(), all.clone().map(command), progress)?;
        // The first one creates the cluster: members that join at once would create several.
        session.join_first()?;
        let version = session.join(1..all.len())?;
        let phases = Phases {
            warmup: WARMUP,
            measured: plan.duration,
            tail: Duration::ZERO,
            drain: Duration::ZERO,
        };
        Ok((version, session.measure(phases, label)?))
    }
}

/// Addresses of loopback that were just free.
fn free_addresses(nodes: u32) -> Result<Vec<SocketAddr>, LabError> {
    let bind = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    // All are bound before the first is freed, so that they differ.
    let bound: Result<Vec<TcpListener>, _> = (0..nodes).map(bind).collect();
    let addresses = bound.and_then(|bound| bound.iter().map(TcpListener::local_addr).collect());
    addresses.map_err(|error| LabError::Run(format!("no free port: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> PeerPlan {
        PeerPlan {
            nodes: 3,
            place: Place::Loopback,
            senders: vec![NodeId(1)],
            message_bytes: 200,
            interval: None,
            duration: Duration::from_secs(1),
            limit_mb: None,
        }
    }

    #[test]
    fn a_member_is_started_with_all_addresses_and_its_part_of_the_plan() {
        let jgroups = JGroups { installation: Installation::of_test(&DRIVER) };
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let words = |plan: &PeerPlan, member| {
            let command = jgroups.command(plan, member, &addresses);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let sender = words(&plan(), 1);
        assert!(sender.contains("hosts=127.0.0.1[1],127.0.0.1[2],127.0.0.1[3] "), "{sender}");
        assert!(sender.contains("-Djgroups.bind_port=2 "), "{sender}");
        assert!(sender.contains("join_timeout=20000ms "), "{sender}");
        assert!(sender.ends_with("-jar driver.jar 1 3 200 4 4 0 0"), "{sender}");
        assert!(words(&plan(), 0).ends_with(" 0 3 200 0 4 0 0"));
        let paced = PeerPlan { interval: Some(Duration::from_millis(2)), ..plan() };
        assert!(words(&paced, 1).ends_with(" 1 3 200 1 1 0 2000000"));
    }

    #[test]
    fn free_addresses_differ() {
        let mut addresses = free_addresses(8).unwrap();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 8);
    }
}
