//! Shared code of `send` and `recv`: a member, and the report of its deliveries.

use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline::multicast::{Config, Event, Events, How, Packet};
use paceline::net::{Multicast as IpMulticast, MulticastUse};
use paceline::{LeaveError, Multicast};
use serde::Serialize;

use super::repairs::Repairs;
use crate::commands::member::{
    HostArgs, LEAVE_WITHIN, Runtime, ViewLine, describe_view, explain, explain_host, unless_stopped,
};
use crate::content::text_or_base64;
use crate::error::CliError;
use crate::parse;
use crate::service_tables;
use crate::ui::Ui;

/// Which member of which group, and how it repairs.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    pub host: HostArgs,

    /// Send each packet once, to IP multicast addresses on this UDP port, instead of a copy to each
    /// member; all members need the same
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ip_multicast: Option<u16>,

    /// The longest datagram, bytes of UDP payload; all members need the same
    #[arg(long, value_name = "SIZE", default_value = "1472B", value_parser = parse::bytes)]
    datagram: usize,

    /// The node file whose [[multicast]] of this name says how the group is configured, in place of
    /// the options for repairs
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = REPAIRS)]
    config: Option<PathBuf>,

    #[command(flatten)]
    repairs: Repairs,
}

/// The options that a node file replaces.
const REPAIRS: [&str; 10] = [
    "rate_of_fire",
    "code",
    "stagger",
    "window",
    "fifo",
    "ask",
    "no_questions",
    "deadline",
    "lost_after",
    "within",
];

impl Args {
    /// Starts the member; returns once it is in a view. `sending` changes how it sends.
    pub fn start(
        &self,
        runtime: &Runtime,
        ui: &Ui,
        sending: impl FnOnce(Config) -> Config,
    ) -> Result<(Multicast, Events), CliError> {
        let host = &self.host;
        if !(200..=65_535).contains(&self.datagram) {
            return Err(CliError::Input(format!(
                "--datagram {}: expected 200 to 65,535 bytes",
                self.datagram
            )));
        }
        let mut builder = host.builder()?.peers(host.peers()?);
        builder = builder.datagram_bytes_max(self.datagram);
        if let Some(port) = self.ip_multicast {
            builder = builder.ip_multicast(IpMulticast::native(port));
        }
        let from_file =
            self.config.as_deref().map(|path| service_tables::multicast_of(path, host.group()));
        let from_file = from_file.transpose()?;
        let change = self.repairs.apply(ui)?;
        let started = runtime.block_on(builder.start()).map_err(explain_host)?;
        let group = started.multicast(host.group());
        let group = match from_file {
            None => group.with_repairs(|config| sending(change(config))),
            Some((views, repairs)) => {
                group.with_views(|_| views).with_repairs(|_| sending(repairs))
            }
        };
        let group = group.within(host.join_within()).leave_within(LEAVE_WITHIN);
        let joined = runtime.block_on(unless_stopped(host.enter(group)));
        let (multicast, events) = joined?.map_err(explain)?;
        let granted = multicast.node().datagram_receive_bytes();
        let way = match multicast.node().multicast() {
            MulticastUse::Native { first, .. } => format!("IP multicast from {first} on"),
            MulticastUse::FanOut => "a copy to each member".to_owned(),
            MulticastUse::FellBack { reason } => format!("a copy to each member: {reason}"),
        };
        ui.note(&format!(
            "{} listens on {}; {way}; messages of up to {} bytes, packets of up to {}; {} KiB \
             receive buffer",
            multicast.id(),
            multicast.local_addr(),
            multicast.message_bytes_max(),
            multicast.packet_bytes_max(),
            granted >> 10
        ));
        Ok((multicast, events))
    }
}

/// What came, in numbers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tally {
    pub direct: u64,
    pub recovered: u64,
    pub pulled: u64,
    pub late: u64,
    pub lost: u64,
    pub overrun: u64,
    /// Of those recovered.
    #[serde(skip)]
    took: Duration,
}

impl Tally {
    /// Notes an event.
    pub fn note(&mut self, event: &Event) {
        match event {
            Event::Packet(packet) => {
                match packet.how {
                    How::Direct => self.direct += 1,
                    How::Recovered { after } => {
                        self.recovered += 1;
                        self.took += after;
                    }
                    How::Pulled { .. } => self.pulled += 1,
                }
                self.late += u64::from(packet.is_late);
            }
            Event::Lost { first, end, .. } => self.lost += end - first,
            Event::Overrun { packets } => self.overrun += packets,
            _ => {}
        }
    }

    /// Messages that came.
    pub fn messages(&self) -> u64 {
        self.direct + self.recovered + self.pulled
    }

    /// In a line.
    pub fn describe(&self) -> String {
        let mean = self.took.as_secs_f64() * 1e3 / self.recovered.max(1) as f64;
        format!(
            "{} messages received: {} from their senders, {} by repairs ({mean:.2} ms on average), \
             {} on request; {} late, {} packets lost, {} not read in time",
            self.messages(),
            self.direct,
            self.recovered,
            self.pulled,
            self.late,
            self.lost,
            self.overrun
        )
    }
}

#[derive(Serialize)]
struct Line<'a> {
    sender: u64,
    seq: u64,
    #[serde(skip_serializing_if = "is_one")]
    packets: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a Path>,
    how: &'static str,
    after_ms: f64,
    late: bool,
}

fn is_one(packets: &u32) -> bool {
    *packets == 1
}

#[derive(Serialize)]
struct LostLine {
    sender: u64,
    lost_from: u64,
    lost_to: u64,
    /// Of these, how many came: of a message of several packets.
    #[serde(skip_serializing_if = "is_none_of_it")]
    came: u32,
}

fn is_none_of_it(came: &u32) -> bool {
    *came == 0
}

/// Prints a message, or the file that it was written to.
pub fn print(packet: &Packet, file: Option<&Path>, ui: &Ui) -> Result<(), CliError> {
    let bytes = &packet.payload[..];
    let (text, text_base64) = match file {
        Some(_) => (None, None),
        None => text_or_base64(bytes),
    };
    let (how, after) = match packet.how {
        How::Direct => ("direct", Duration::ZERO),
        How::Recovered { after } => ("recovered", after),
        How::Pulled { after } => ("pulled", after),
    };
    let (sender, seq, late) = (packet.sender.0, packet.seq, packet.is_late);
    let after_ms = after.as_secs_f64() * 1e3;
    let packets = packet.packets;
    let line = Line { sender, seq, packets, text, text_base64, file, how, after_ms, late };
    ui.line_of_bytes(&line, || match file {
        Some(file) => format!("{sender}: {} bytes in {}", bytes.len(), file.display()).into_bytes(),
        None => [format!("{sender}: ").as_bytes(), bytes].concat(),
    })
}

/// Says what happened that is not a packet.
pub fn tell(event: &Event, ui: &Ui) -> Result<(), CliError> {
    match event {
        Event::Lost { sender, first, end, came, .. } => {
            let (lost_from, lost_to, came) = (*first, *end, *came);
            ui.record(&LostLine { sender: sender.0, lost_from, lost_to, came })?;
        }
        Event::View(view) => ui.record(&ViewLine::new(view))?,
        _ => {}
    }
    match (describe(event), event) {
        (Some(text), Event::Rejected(_)) => ui.warn(&text),
        (Some(text), _) => ui.note(&text),
        (None, _) => {}
    }
    Ok(())
}

/// What an event that is not a packet says to people.
pub fn describe(event: &Event) -> Option<String> {
    Some(match event {
        Event::Packet(_) => return None,
        Event::Lost { sender, first, end, came: came @ 1.., .. } => {
            format!(
                "lost: a message of {sender}, packets {first} to {}, of which {came} came",
                end - 1
            )
        }
        Event::Lost { sender, first, end, .. } => {
            format!("lost: packets {first} to {} of {sender}", end - 1)
        }
        Event::Overrun { packets } => format!("{packets} packets were not read in time"),
        Event::Tuned { rate, is_within_reach, expected_ppm, loss_ppm, packets_per_second } => {
            let percent = |ppm: &u32| f64::from(*ppm) / 1e4;
            format!(
                "rate of fire ({},{}): {:.2} % are lost of {packets_per_second} packets a second; \
                 {:.1} % in time expected{}",
                rate.r,
                rate.c,
                percent(loss_ppm),
                percent(expected_ppm),
                if *is_within_reach { "" } else { ", less than the target" }
            )
        }
        Event::Slow { member, bytes_per_second, .. } => {
            format!("{member} takes {bytes_per_second} bytes a second only: it is not waited for")
        }
        Event::View(view) => describe_view(view),
        Event::LostPrimary => "too few members are reachable to agree on the next view".to_owned(),
        Event::RegainedPrimary => "enough members are reachable again".to_owned(),
        Event::Excluded => {
            "the other members continued without this node: joining again".to_owned()
        }
        Event::Left => "left".to_owned(),
        Event::JoinRefused(refusal) => format!("cannot join yet: {refusal}"),
        Event::Rejected(reason) => format!("not sent: {reason}"),
    })
}

/// Leaves the group, and reads events until then. False if the others had not let it go in time.
pub async fn leave(multicast: &Multicast, mut events: Events) -> bool {
    let reading = async { while events.recv().await.is_some() {} };
    let (left, ()) = tokio::join!(multicast.leave(), reading);
    matches!(left, Ok(()) | Err(LeaveError::Closed))
}
