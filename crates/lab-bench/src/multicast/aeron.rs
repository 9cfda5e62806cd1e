//! Aeron: a Java process for each member with a media driver of its own, by the driver in
//! `bench/peers/aeron`.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use paceline_lab::{LabError, Progress};
use tempfile::TempDir;

use super::peer::{FlowControl, MulticastPeerPlan, MulticastPeerRow};
use super::{Arrived, MulticastPlace, lossy_lab};
use crate::peers::{Driver, Installation, MemberSettings, Session};

static DRIVER: Driver = Driver {
    name: "Aeron",
    peer: "aeron",
    variable: "PACELINE_AERON",
    message_bytes_max: Some((
        MTU_BYTES - FRAME_HEADER_BYTES,
        "so that each is one fragment of Aeron's default MTU",
    )),
};

/// Aeron's default `aeron.mtu.length`, and the header of its data frames.
const MTU_BYTES: usize = 1_408;
const FRAME_HEADER_BYTES: usize = 32;

/// Where data goes. The last number is odd: Aeron uses the address after it for what receivers
/// send.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 77, 0, 1);
/// The UDP port in the network lab.
const LAB_PORT: u16 = 7_948;

/// A folder in memory for the files by which processes and media drivers exchange messages.
const SHARED_MEMORY: &str = "/dev/shm";

/// Where a member is.
struct Site<'a> {
    /// Of its media driver.
    folder: &'a Path,
    interface: Ipv4Addr,
    port: u16,
    /// The share of datagrams that it drops itself.
    loss: f64,
}

/// An installed driver.
#[derive(Debug)]
pub(super) struct Aeron {
    installation: Installation,
    flow_control: FlowControl,
}

impl Aeron {
    /// Looks for a driver that can do this.
    pub(super) fn find(
        plan: &MulticastPeerPlan,
        flow_control: FlowControl,
    ) -> Result<Aeron, LabError> {
        let installation = DRIVER.find()?;
        DRIVER.check_message(plan.packet_bytes)?;
        Ok(Aeron { installation, flow_control })
    }

    /// The name of the implementation.
    pub(super) fn name(&self) -> &'static str {
        self.installation.driver.name
    }

    /// Runs it once; `label` is for the progress. The version comes with the row.
    pub(super) fn run(
        &self,
        plan: &MulticastPeerPlan,
        progress: &dyn Progress,
        label: &str,
    ) -> Result<(String, MulticastPeerRow), LabError> {
        let folder = folder()?;
        let folder_of = |member: usize| folder.path().join(member.to_string());
        let members = 0..plan.members as usize;
        match plan.place {
            MulticastPlace::Loopback { .. } => {
                let port = free_port()?;
                let commands = members.clone().map(|member| {
                    let folder = &folder_of(member);
                    let interface = Ipv4Addr::LOCALHOST;
                    self.command(plan, member, Site { folder, interface, port, loss: plan.loss })
                });
                let mut session = Session::start(self.name(), commands, progress)?;
                let version = session.join(members)?;
                let parts = session.measure(plan.phases, label)?;
                Ok((version, MulticastPeerRow::of(plan, self.flow_control, &parts, None)?))
            }
            MulticastPlace::Netns => {
                let lab = lossy_lab(plan.members, plan.loss, progress)?;
                let commands = members.clone().map(|member| {
                    let folder = &folder_of(member);
                    let interface = lab.address(member);
                    let site = Site { folder, interface, port: LAB_PORT, loss: 0.0 };
                    lab.command_in(member, self.command(plan, member, site))
                });
                let mut session = Session::start(self.name(), commands, progress)?;
                let version = session.join(members)?;
                let before = Arrived::so_far(&lab)?;
                let parts = session.measure(plan.phases, label)?;
                let arrived = Arrived::so_far(&lab)?.since(before);
                Ok((version, MulticastPeerRow::of(plan, self.flow_control, &parts, Some(arrived))?))
            }
        }
    }

    /// The command that becomes a member.
    fn command(&self, plan: &MulticastPeerPlan, member: usize, site: Site<'_>) -> Command {
        let (first_after, interval) = plan.turns(member);
        let settings = MemberSettings {
            number: member,
            members: plan.members,
            message_bytes: plan.packet_bytes,
            is_sender: member < plan.senders as usize,
            threads_of_sender: 1,
            first_after,
            interval,
        };
        let Site { folder, interface, port, loss } = site;
        let flow_control = match self.flow_control {
            FlowControl::Min => "min",
            FlowControl::Max => "max",
        };
        // Members draw their losses independently. Java takes the sign bit for a sign.
        let seed = (plan.seed << 8 | member as u64) & (u64::MAX >> 1);
        let arguments = [
            folder.display().to_string(),
            plan.senders.to_string(),
            format!("{GROUP}:{port}"),
            interface.to_string(),
            flow_control.to_owned(),
            loss.to_string(),
            seed.to_string(),
        ];
        self.installation.command(settings, [], arguments)
    }
}

/// A folder for the files of all members, removed when it is dropped. In memory where there is
/// such a place, as Aeron itself chooses it.
fn folder() -> Result<TempDir, LabError> {
    let shared = Path::new(SHARED_MEMORY);
    let parent = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let made = tempfile::Builder::new().prefix("paceline-aeron-").tempdir_in(&parent);
    made.map_err(|error| {
        LabError::Run(format!("cannot make a folder in {}: {error}", parent.display()))
    })
}

/// A UDP port of loopback that was just free.
fn free_port() -> Result<u16, LabError> {
    let bound = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|bound| bound.local_addr());
    bound
        .map(|address| address.port())
        .map_err(|error| LabError::Run(format!("no free port: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multicast::{MulticastPlan, RepairSetting};

    fn plan() -> MulticastPeerPlan {
        let plan = MulticastPlan { seed: 5, ..MulticastPlan::of_test() };
        let setting = RepairSetting { window: None, r: 8, c: 3, questions: true };
        MulticastPeerPlan::of(&plan, setting).unwrap()
    }

    #[test]
    fn a_member_is_started_with_its_turn_its_site_and_a_seed_of_its_own() {
        let installation = Installation::of_test(&DRIVER);
        let aeron = Aeron { installation, flow_control: FlowControl::Min };
        let words = |member| {
            let (folder, interface) = (Path::new("/tmp/a"), Ipv4Addr::new(10, 77, 0, 2));
            let site = Site { folder, interface, port: 7948, loss: 0.01 };
            let command = aeron.command(&plan(), member, site);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let expected = "-jar driver.jar 1 3 1024 1 1 1000000 2000000 /tmp/a 2 239.77.0.1:7948 \
                        10.77.0.2 min 0.01 1281";
        assert!(words(1).ends_with(expected), "{}", words(1));
        assert!(words(2).contains("-jar driver.jar 2 3 1024 0 1 "), "{}", words(2));
        assert!(words(2).ends_with(" 1282"), "{}", words(2));
    }

    #[test]
    fn a_message_of_several_fragments_is_refused() {
        assert!(DRIVER.check_message(1_376).is_ok());
        let error = DRIVER.check_message(1_377).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        assert!(error.to_string().contains("at most 1376"), "{error}");
    }

    #[test]
    fn the_folder_is_removed_with_all_in_it() {
        let made = folder().unwrap();
        let path = made.path().to_owned();
        std::fs::create_dir(path.join("0")).unwrap();
        drop(made);
        assert!(!path.exists());
    }
}
