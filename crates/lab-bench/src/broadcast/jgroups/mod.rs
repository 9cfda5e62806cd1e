//! JGroups: a Java process for each member, by the driver in `bench/peers/jgroups`.

mod members;
mod report;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_lab::{LabError, Progress, Seconds};
use paceline_netlab::Plan as LabPlan;
use paceline_proto::core::NodeId;

use self::members::{Hearing, Members};
use self::report::Report;
use super::Place;
use super::peer::{MemberPart, PeerPlan, PeerRow};
use crate::netns;

/// The environment variable with the driver's jar.
const VARIABLE: &str = "PACELINE_JGROUPS";

/// How to get it.
const INSTALL: &str = "run `cargo xtask peers jgroups`, and set PACELINE_JGROUPS to what it prints";

/// Bytes of a message that the driver needs for origin, thread, number and time.
const MESSAGE_BYTES_MIN: usize = 24;

/// Threads of a sender, where it is not paced.
const SENDER_THREADS: u32 = 4;

/// Before the measured time, at full rate: a Java virtual machine compiles what it runs often.
const WARMUP: Duration = Duration::from_secs(5);
/// From the order to begin until members send: time for it to reach all.
const BEGIN_AFTER: Duration = Duration::from_millis(200);
/// How long the first member looks for others, and how long these do.
const FIRST_JOIN_TIMEOUT: Duration = Duration::from_secs(1);
const JOIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long members may take to start and to join.
const JOIN_WITHIN: Duration = Duration::from_secs(60);
/// How long they may take to report once the measured time is over.
const REPORT_WITHIN: Duration = Duration::from_secs(20);

/// The driver and a Java virtual machine.
#[derive(Debug)]
pub(super) struct Installation {
    java: PathBuf,
    jar: PathBuf,
}

impl Installation {
    /// Looks for both.
    pub(super) fn find() -> Result<Installation, LabError> {
        let jar = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let home = std::env::var_os("JAVA_HOME").filter(|path| !path.is_empty());
        let java = home.map(|home| PathBuf::from(home).join("bin/java"));
        Installation::of(java.unwrap_or_else(|| "java".into()), jar)
    }

    fn of(java: PathBuf, jar: Option<PathBuf>) -> Result<Installation, LabError> {
        let Some(jar) = jar else {
            let problem = format!("the driver for JGroups is not installed: {INSTALL}");
            return Err(LabError::Unsupported(problem));
        };
        if !jar.is_file() {
            let problem = format!("{VARIABLE}={}: there is no such file; {INSTALL}", jar.display());
            return Err(LabError::Unsupported(problem));
        }
        let mut version = Command::new(&java);
        version.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Err(error) = version.status() {
            let problem = format!(
                "JGroups needs Java 17 or newer, and {} cannot be run ({error}): install it \
                 (Debian: default-jre-headless)",
                java.display()
            );
            return Err(LabError::Unsupported(problem));
        }
        Ok(Installation { java, jar })
    }

    /// Whether the driver can do this.
    pub(super) fn check(&self, plan: &PeerPlan) -> Result<(), LabError> {
        if plan.message_bytes < MESSAGE_BYTES_MIN {
            let problem = format!(
                "messages of {} bytes: with JGroups at least {MESSAGE_BYTES_MIN}, for number and \
                 time",
                plan.message_bytes
            );
            return Err(LabError::Unsupported(problem));
        }
        Ok(())
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
                measure(plan, command, progress, label)?
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
                measure(plan, command, progress, label)?
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
        let threads_of_sender = if plan.interval.is_some() { 1 } else { SENDER_THREADS };
        let is_sender = plan.senders.iter().any(|sender| sender.index() == member);
        let threads = if is_sender { threads_of_sender } else { 0 };
        let interval = plan.interval.unwrap_or_default();
        let mut command = Command::new(&self.java);
        command
            .args(heap(plan.nodes))
            .arg("-Djava.net.preferIPv4Stack=true")
            .arg(format!("-Djgroups.bind_addr={}", address.ip()))
            .arg(format!("-Djgroups.bind_port={}", address.port()))
            .arg(format!("-Djgroups.tcpping.initial_hosts={hosts}"))
            .arg(format!("-Djgroups.join_timeout={}ms", join_timeout.as_millis()))
            .arg("-jar")
            .arg(&self.jar)
            .arg(member.to_string())
            .arg(plan.nodes.to_string())
            .arg(plan.message_bytes.to_string())
            .arg(threads.to_string())
            .arg(threads_of_sender.to_string())
            .arg(interval.as_nanos().to_string());
        command
    }
}

/// The heap of a member: of a fixed size, so that no member waits for its growth.
fn heap(nodes: u32) -> [String; 2] {
    let mebibytes = if nodes <= 4 { 400 } else { 200 };
    [format!("-Xms{mebibytes}m"), format!("-Xmx{mebibytes}m")]
}

/// Starts the members, has them join, and collects what they measure.
fn measure(
    plan: &PeerPlan,
    command: impl Fn(usize) -> Command,
    progress: &dyn Progress,
    label: &str,
) -> Result<(String, Vec<MemberPart>), LabError> {
    let all = 0..plan.nodes as usize;
    let mut members = Members::start(all.clone().map(command), progress)?;
    // The first one creates the cluster: members that join at once would create several.
    members.order(0..1, "join")?;
    members.hear(JOIN_WITHIN, "joined", |heard| match heard {
        None => Ok(Hearing::More),
        Some((_, Report::Joined)) => Ok(Hearing::Done),
        Some((_, other)) => Err(out_of_turn(&other)),
    })?;
    members.order(1..all.len(), "join")?;
    let mut version = String::new();
    let mut ready = 0;
    members.hear(JOIN_WITHIN, "joined", |heard| {
        match heard {
            None | Some((_, Report::Joined)) => {}
            Some((_, Report::Ready { version: of, java })) => {
                version = format!("JGroups {of}, Java {java}");
                ready += 1;
            }
            Some((_, other)) => return Err(out_of_turn(&other)),
        }
        Ok(if ready == all.len() { Hearing::Done } else { Hearing::More })
    })?;

    let length = BEGIN_AFTER + WARMUP + plan.duration;
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + BEGIN_AFTER;
    let (from, until) = (begin + WARMUP, begin + WARMUP + plan.duration);
    let [begin, from, until] = [begin, from, until].map(|at| at.as_nanos());
    members.order(all.clone(), &format!("run {begin} {from} {until}"))?;
    let started = std::time::Instant::now();
    let mut seconds = Seconds::start(progress, length, label);
    let mut parts: Vec<Option<MemberPart>> = vec![None; all.len()];
    members.hear(length + REPORT_WITHIN, "finished", |heard| {
        seconds.reach(started.elapsed());
        match heard {
            // The last member reports that it is ready before it has joined.
            None | Some((_, Report::Joined)) => {}
            Some((member, Report::Finished(finished))) => parts[member] = Some(finished.part()?),
            Some((_, other)) => return Err(out_of_turn(&other)),
        }
        Ok(if parts.iter().all(Option::is_some) { Hearing::Done } else { Hearing::More })
    })?;
    Ok((version, parts.into_iter().flatten().collect()))
}

fn out_of_turn(report: &Report) -> LabError {
    LabError::Run(format!("JGroups: report {report:?} out of sequence"))
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

    fn refused(java: &str, jar: Option<&str>) -> String {
        let error = Installation::of(java.into(), jar.map(PathBuf::from)).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        error.to_string()
    }

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let no_driver = refused("java", None);
        assert!(no_driver.contains("cargo xtask peers jgroups"), "{no_driver}");
        let no_file = refused("java", Some("no/such.jar"));
        assert!(no_file.starts_with("PACELINE_JGROUPS=no/such.jar"), "{no_file}");
        assert!(no_file.contains("cargo xtask peers jgroups"), "{no_file}");
        let no_java = refused("no-such-java", Some(manifest));
        assert!(no_java.contains("no-such-java") && no_java.contains("Java 17"), "{no_java}");
    }

    #[test]
    fn a_member_is_started_with_all_addresses_and_its_part_of_the_plan() {
        let installation = Installation { java: "java".into(), jar: "driver.jar".into() };
        let addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let words = |plan: &PeerPlan, member| {
            let command = installation.command(plan, member, &addresses);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        let sender = words(&plan(), 1);
        assert!(sender.contains("hosts=127.0.0.1[1],127.0.0.1[2],127.0.0.1[3] "), "{sender}");
        assert!(sender.contains("bind_port=2 "), "{sender}");
        assert!(sender.contains("join_timeout=20000ms "), "{sender}");
        assert!(sender.ends_with("-jar driver.jar 1 3 200 4 4 0"), "{sender}");
        assert!(words(&plan(), 0).ends_with(" 0 3 200 0 4 0"));
        let paced = PeerPlan { interval: Some(Duration::from_millis(2)), ..plan() };
        assert!(words(&paced, 1).ends_with(" 1 3 200 1 1 2000000"));
    }

    #[test]
    fn a_message_must_hold_its_number_and_time() {
        let installation = Installation { java: "java".into(), jar: "driver.jar".into() };
        let small = PeerPlan { message_bytes: MESSAGE_BYTES_MIN - 1, ..plan() };
        let error = installation.check(&small).unwrap_err();
        assert_eq!(error.exit_status(), 2, "{error}");
        let least = PeerPlan { message_bytes: MESSAGE_BYTES_MIN, ..plan() };
        assert!(installation.check(&least).is_ok());
    }

    #[test]
    fn free_addresses_differ() {
        let mut addresses = free_addresses(8).unwrap();
        addresses.sort();
        addresses.dedup();
        assert_eq!(addresses.len(), 8);
    }
}
