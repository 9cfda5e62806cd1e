//! A multicast with congestion control on the network lab: what it takes of the slowest link, and
//! what it leaves to a TCP stream.

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use paceline_netlab::{NetworkLab, Plan, Traffic};
use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use super::inside::{Inside, Lines};
use super::tcp;
use crate::setup;
use crate::shell::Build;

use Bound::{AtLeast, AtMost};

/// The node that sends; the others receive.
const SENDER: usize = 0;
/// The receiver with the slow port, and that of the TCP stream.
const RECEIVER: usize = 1;
/// The UDP port of IP multicast.
const MULTICAST_PORT: u16 = 7950;
/// The port of every member.
const PORT: u16 = 7946;
const MESSAGE_BYTES: u32 = 1_200;
/// Repairs of packets received, at the rate of fire of 8 and 3 that is the default.
const REPAIRS: f64 = 3.0 / 8.0;

/// Until all members are in a view.
const JOINED_WITHIN: Duration = Duration::from_secs(60);
/// Until the rate has reached its link: after slow start it rises by a packet in 10 ms at most, and
/// with the average of the last loss intervals.
const WARM_UP: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_secs(15);
const LEFT_WITHIN: Duration = Duration::from_secs(20);

/// A network, and how packets reach the receivers.
struct Case {
    name: &'static str,
    receivers: usize,
    /// The rate of all ports.
    mbit: u64,
    /// That of the slow receiver.
    slow_mbit: u64,
    by_ip_multicast: bool,
}

const BESIDE_TCP: Case =
    Case { name: "beside TCP", receivers: 3, mbit: 100, slow_mbit: 100, by_ip_multicast: true };
const SLOW_RECEIVER: Case = Case {
    name: "16 receivers, IP multicast",
    receivers: 16,
    mbit: 20,
    slow_mbit: 10,
    by_ip_multicast: true,
};
const COPIES: Case = Case {
    name: "16 receivers, copies",
    receivers: 16,
    mbit: 20,
    slow_mbit: 20,
    by_ip_multicast: false,
};

/// All cases.
pub fn run() -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    let mut figures = Vec::new();
    figures.extend(beside_tcp()?);
    figures.extend(slow_receiver()?);
    figures.extend(copies()?);
    bounds::print(&figures);
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}

/// A TCP stream and the multicast, repairs included, each take between half and twice their share
/// of the link that they have in common.
fn beside_tcp() -> Result<Vec<Figure>, String> {
    let case = &BESIDE_TCP;
    let (lab, members) = case.start()?;
    sleep(WARM_UP);
    let mut all = 0.0;
    let seconds = (MEASURED + Duration::from_secs(3)).as_secs() as u32;
    let tcp = tcp::rate_beside(&lab, (SENDER, RECEIVER), seconds, || {
        // TCP's slow start.
        sleep(Duration::from_secs(2));
        let before = received(&lab, RECEIVER)?;
        sleep(MEASURED);
        all = bits_a_second(before, received(&lab, RECEIVER)?);
        Ok(())
    })?;
    members.stop()?;
    let link = case.mbit as f64 * 1e6;
    // What its payload takes of the link.
    let tcp = tcp * link / (8.0 * lab.plan().payload_bytes_per_second());
    let share = |bits: f64| bits / (link / 2.0);
    let multicast = |what: &str, floor| {
        let what = format!("the multicast, of half of the link, {what}");
        Figure { floor, ..case.shown(&what, share(all - tcp)) }
    };
    Ok(vec![
        multicast("at least", AtLeast(0.5)),
        multicast("at most", AtMost(2.0)),
        case.shown("TCP, of half of the link", share(tcp)),
    ])
}

/// Data and repairs fill the link of the slowest receiver, and goodput is what repairs leave.
fn slow_receiver() -> Result<Vec<Figure>, String> {
    let case = &SLOW_RECEIVER;
    let measured = case.measure()?;
    let link = case.slow_mbit as f64 * 1e6;
    Ok(vec![
        case.at_least("of the slowest link", measured.received / link),
        case.at_least(
            "goodput, of what repairs leave",
            measured.sent * measured.whole / (link / (1.0 + REPAIRS)),
        ),
        case.shown("messages that came to the slowest receiver", measured.whole),
    ])
}

/// Where a copy goes to each receiver, the link of the sender is shared by all of them.
fn copies() -> Result<Vec<Figure>, String> {
    let case = &COPIES;
    let measured = case.measure()?;
    let link = case.mbit as f64 * 1e6;
    Ok(vec![
        case.at_least("goodput of a receiver, of its part", measured.sent * measured.whole / link),
        case.shown("messages that came to the slowest receiver", measured.whole),
    ])
}

/// What a case without other traffic did.
struct Measured {
    /// To the slow receiver, bits a second on its link.
    received: f64,
    /// From the sender.
    sent: f64,
    /// The share of messages that came to the slow receiver.
    whole: f64,
}

impl Case {
    fn start(&self) -> Result<(NetworkLab, Members), String> {
        let plan = Plan::new(self.receivers + 1, self.mbit * 1_000_000);
        let plan = match self.slow_mbit == self.mbit {
            true => plan,
            false => plan.with_rate(RECEIVER, self.slow_mbit * 1_000_000),
        };
        let lab = NetworkLab::build(plan).map_err(|error| error.to_string())?;
        let members = Members::start(&lab, self)?;
        Ok((lab, members))
    }

    fn measure(&self) -> Result<Measured, String> {
        let (lab, members) = self.start()?;
        sleep(WARM_UP);
        let before = (received(&lab, RECEIVER)?, sent(&lab, SENDER)?);
        sleep(MEASURED);
        let after = (received(&lab, RECEIVER)?, sent(&lab, SENDER)?);
        let tally = members.stop()?;
        Ok(Measured {
            received: bits_a_second(before.0, after.0),
            sent: bits_a_second(before.1, after.1),
            whole: whole(&tally)?,
        })
    }

    fn at_least(&self, what: &str, measured: f64) -> Figure {
        Figure { floor: AtLeast(0.9), ..self.shown(what, measured) }
    }

    fn shown(&self, what: &str, measured: f64) -> Figure {
        Figure {
            name: format!("{}: {what}", self.name),
            measured: Some(measured),
            goal: Bound::None,
            floor: Bound::None,
        }
    }
}

/// The members of a multicast, each a process of `paceline multicast`.
struct Members {
    // The one with the slow port first.
    receivers: Vec<Lines>,
    sender: Lines,
}

impl Members {
    fn start(lab: &NetworkLab, case: &Case) -> Result<Members, String> {
        let program = Build::Release.binary()?;
        let member = |node: usize, arguments: &[&str]| {
            let mut command = Command::new(&program);
            command.args(["multicast", arguments[0]]).args(&arguments[1..]);
            command.args(["--json", "--insecure-plaintext", "--id", &(node + 1).to_string()]);
            command.args(["--bind", &format!("{}:{PORT}", lab.address(node))]);
            if node != RECEIVER {
                command.args(["--peer", &format!("{}:{PORT}", lab.address(RECEIVER))]);
            }
            if case.by_ip_multicast {
                command.args(["--ip-multicast", &MULTICAST_PORT.to_string()]);
            }
            Inside::start(lab, node, command).map(Inside::lines)
        };
        let mut receivers = vec![member(RECEIVER, &["recv", "--quiet", "--bootstrap"])?];
        receivers[0].until("view", JOINED_WITHIN, |line| view(line) >= 1)?;
        for node in RECEIVER + 1..=case.receivers {
            receivers.push(member(node, &["recv", "--quiet"])?);
        }
        let all = case.receivers + 1;
        let offered = case.mbit * 2_000_000 / 8 / u64::from(MESSAGE_BYTES);
        let arguments = [
            "send",
            "--rate-control",
            "tfmcc",
            "--rate-max",
            &format!("{}Mbit", 2 * case.mbit),
            "--rate",
            &format!("{offered}/s"),
            "--size",
            &format!("{MESSAGE_BYTES}B"),
            "--members",
            &all.to_string(),
        ];
        let sender = member(SENDER, &arguments)?;
        sender.until("view of all", JOINED_WITHIN, |line| view(line) == all)?;
        Ok(Members { receivers, sender })
    }

    /// Ends them; gives what came to the first receiver.
    fn stop(self) -> Result<Value, String> {
        self.sender.interrupt(LEFT_WITHIN)?;
        let tallies = self.receivers.into_iter().map(|receiver| receiver.interrupt(LEFT_WITHIN));
        let tallies = tallies.collect::<Result<Vec<_>, _>>()?;
        Ok(tallies[0].clone())
    }
}

/// How many members the view in a line has; none if it says something else.
fn view(line: &Value) -> usize {
    line["members"].as_array().map_or(0, Vec::len)
}

/// The share of messages that came.
fn whole(tally: &Value) -> Result<f64, String> {
    let count = |key: &str| {
        let count = tally[key].as_f64();
        count.ok_or_else(|| format!("the receiver counted no `{key}`: {tally}"))
    };
    let came = count("direct")? + count("recovered")? + count("pulled")?;
    if came == 0.0 {
        return Err("the receiver got no message".to_owned());
    }
    Ok(came / (came + count("lost")? + count("overrun")?))
}

type Count = (std::time::Instant, Traffic);

fn received(lab: &NetworkLab, node: usize) -> Result<Count, String> {
    lab.traffic(node).map(|traffic| traffic.received).map_err(|error| error.to_string())
}

fn sent(lab: &NetworkLab, node: usize) -> Result<Count, String> {
    lab.traffic(node).map(|traffic| traffic.sent).map_err(|error| error.to_string())
}

fn bits_a_second((from, before): Count, (until, after): Count) -> f64 {
    (after.bytes - before.bytes) as f64 * 8.0 / (until - from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_share_of_messages_that_came_counts_what_was_not_read_as_lost() {
        let tally = json!({"direct": 80, "recovered": 9, "pulled": 1, "lost": 8, "overrun": 2});
        assert_eq!(whole(&tally), Ok(0.9));
        let nothing = json!({"direct": 0, "recovered": 0, "pulled": 0, "lost": 8, "overrun": 0});
        assert!(whole(&nothing).is_err());
        assert!(whole(&json!({"sent": 8})).unwrap_err().contains("no `direct`"));
    }
}
