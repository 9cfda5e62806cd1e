use std::ops::RangeInclusive;
use std::time::Duration;

use paceline_proto::core::{LinkFaults, Loss};
use paceline_sim::{Congestion, Multicast, Overhead, Shape, Streams, TcpConfig};

use super::reader::Table;
use super::units::Rate;
use crate::LabError;

/// The keys of `[topology]`.
pub(crate) const KEYS: &[&str] = &[
    "kind",
    "nodes",
    "rate",
    "overhead",
    "queue",
    "datagram",
    "delay",
    "jitter",
    "loss",
    "burst",
    "duplicate",
    "reorder",
    "reorder_delay",
    "stream_resend_after",
    "multicast",
    "receive_loss",
    "receive_burst",
    "streams",
    "port_buffer",
    "congestion",
];

/// The most nodes that a scenario may have.
pub const NODES_MAX: u32 = 4_000_000;

/// Bytes that a datagram may have: from what every host on IPv4 takes to what a socket takes.
const DATAGRAM_BYTES: RangeInclusive<u64> = 576..=65_000;

/// The network of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// How nodes are connected. Default: a star.
    pub kind: Shape,
    /// How many nodes, 1 to [`NODES_MAX`]. Required.
    pub nodes: u32,
    /// Rate of each link, each way. Default 1 Gbit/s.
    pub rate: Rate,
    /// What a link charges besides the message. Default: Ethernet.
    pub overhead: Overhead,
    /// Bytes that a port's queue holds before it drops. Default: unlimited.
    pub queue_bytes: Option<u64>,
    /// The longest datagram, 576 to 65,000 bytes; on sockets with its record header. What is longer
    /// travels divided or by stream. Above what a path carries whole, one lost fragment loses it
    /// all. Default 1,200, which fits every usual path.
    pub datagram_bytes_max: usize,
    /// What every link does to messages besides carrying them. Default: nothing.
    pub link: LinkFaults,
    /// How messages to groups leave, in the simulator. On sockets each receiver is sent a copy.
    /// Default: once.
    pub multicast: Multicast,
    /// How datagrams get lost at the node that they have reached. Default: they do not.
    pub receive_loss: Loss,
    /// How streams behave, in the simulator; on sockets they are the kernel's. Default: no message
    /// is lost.
    pub streams: Streams,
}

impl Topology {
    pub(crate) fn read(table: &mut Table<'_>) -> Result<Topology, LabError> {
        let kinds = [("star", Shape::Star), ("mesh", Shape::Mesh)];
        let overheads = [("ethernet", Overhead::Ethernet), ("none", Overhead::None)];
        let kind = table.choice_or("kind", &kinds, "star")?;
        let nodes = table.integer("nodes", 1..=NODES_MAX)?;
        let rate = table.rate_or("rate", Rate::from_bits_per_second(1_000_000_000))?;
        if rate.bits_per_second() == 0 {
            return Err(table.error("rate", "`rate` is zero", "a rate above zero"));
        }
        Ok(Topology {
            kind,
            nodes,
            rate,
            overhead: table.choice_or("overhead", &overheads, "ethernet")?,
            queue_bytes: table.size_optional("queue")?,
            datagram_bytes_max: read_datagram(table)?,
            link: read_link(table, &LinkFaults::default())?,
            multicast: table.choice_or(
                "multicast",
                &[("native", Multicast::Native), ("fan-out", Multicast::FanOut)],
                "native",
            )?,
            receive_loss: read_receive_loss(table)?,
            streams: read_streams(table, kind)?,
        })
    }
}

/// Bytes that an output port of the switch may buffer: from more than a full frame to more than any
/// switch has.
const PORT_BYTES: RangeInclusive<u64> = 2 << 10..=1 << 30;

/// The default: what a port of a shallow-buffered switch gets of the memory that all ports share.
const PORT_BYTES_DEFAULT: u64 = 128 << 10;

/// Reads whether streams lose segments at ports as TCP does, and what ports buffer.
fn read_streams(table: &mut Table<'_>, kind: Shape) -> Result<Streams, LabError> {
    let is_tcp = table.choice_or("streams", &[("lossless", false), ("tcp", true)], "lossless")?;
    let port_bytes_max = table.size_optional("port_buffer")?;
    let algorithms = [("cubic", Congestion::Cubic), ("reno", Congestion::Reno)];
    let congestion = table.choice_optional("congestion", &algorithms)?;
    if !is_tcp {
        let given =
            [("port_buffer", port_bytes_max.is_some()), ("congestion", congestion.is_some())];
        return match given.into_iter().find(|(_, is_given)| *is_given) {
            None => Ok(Streams::Lossless),
            Some((key, _)) => {
                let problem = format!("`{key}` applies only to streams that behave as TCP");
                Err(table.error(key, problem, "together with `streams = \"tcp\"`"))
            }
        };
    }
    if kind != Shape::Star {
        let problem = "`streams = \"tcp\"` needs the ports of a switch, and a mesh has none";
        return Err(table.error("streams", problem, "together with `kind = \"star\"`"));
    }
    let port_bytes_max = port_bytes_max.unwrap_or(PORT_BYTES_DEFAULT);
    if !PORT_BYTES.contains(&port_bytes_max) {
        let problem = format!("`port_buffer` is out of range: {port_bytes_max} bytes");
        return Err(table.error("port_buffer", problem, "\"2KiB\" to \"1GiB\""));
    }
    Ok(Streams::Tcp(TcpConfig { port_bytes_max, congestion: congestion.unwrap_or_default() }))
}

/// Reads the share that is lost at receivers, and how many losses follow one another on average:
/// then one state loses all and the other nothing.
fn read_receive_loss(table: &mut Table<'_>) -> Result<Loss, LabError> {
    let share = table.probability_or("receive_loss", 0.0)?;
    let mean = table.number_optional("receive_burst", 1.0..=1e6)?;
    match (share, mean) {
        (0.0, Some(_)) => Err(table.error(
            "receive_burst",
            "`receive_burst` sets the length of loss bursts, and `receive_loss` is missing",
            "both, such as `receive_loss = \"1%\"` and `receive_burst = 5`",
        )),
        (0.0, None) => Ok(Loss::None),
        (share, None) => Ok(Loss::Independent(share)),
        (share, Some(mean)) => {
            let bad_to_good = 1.0 / mean;
            let good_to_bad = bad_to_good * share / (1.0 - share);
            if good_to_bad > 1.0 {
                let problem = format!(
                    "bursts of {mean} losses on average cannot reach a loss share of {share}: runs \
                     between them would be shorter than one packet"
                );
                return Err(table.error("receive_burst", problem, "longer bursts or less loss"));
            }
            Ok(Loss::GilbertElliott { good_to_bad, bad_to_good, bad_loss: 1.0 })
        }
    }
}

fn read_datagram(table: &mut Table<'_>) -> Result<usize, LabError> {
    let bytes = table.size_or("datagram", 1_200u64)?;
    if !DATAGRAM_BYTES.contains(&bytes) {
        let problem = format!("`datagram` is out of range: {bytes} bytes");
        return Err(table.error("datagram", problem, "\"576B\" to \"65000B\""));
    }
    Ok(bytes as usize)
}

/// Reads what a link does to messages; what is not said stays as in `base`.
pub(crate) fn read_link(table: &mut Table<'_>, base: &LinkFaults) -> Result<LinkFaults, LabError> {
    Ok(LinkFaults {
        delay: table.duration_or("delay", base.delay)?,
        jitter: table.duration_or("jitter", base.jitter)?,
        loss: read_loss(table, base.loss)?,
        duplicate: table.probability_or("duplicate", base.duplicate)?,
        reorder: table.probability_or("reorder", base.reorder)?,
        reorder_delay: table.duration_or("reorder_delay", base.reorder_delay)?,
        stream_resend_after: table.duration_or("stream_resend_after", base.stream_resend_after)?,
    })
}

fn read_loss(table: &mut Table<'_>, base: Loss) -> Result<Loss, LabError> {
    let independent = |probability: f64| match probability {
        0.0 => Loss::None,
        probability => Loss::Independent(probability),
    };
    let loss = table.probability_optional("loss")?.map(independent);
    let burst = table.nested("burst", |burst| {
        Ok(Loss::GilbertElliott {
            good_to_bad: burst.probability("good_to_bad")?,
            bad_to_good: burst.probability("bad_to_good")?,
            bad_loss: burst.probability_or("bad_loss", 1.0)?,
        })
    })?;
    match (loss, burst) {
        (Some(_), Some(_)) => Err(table.error(
            "burst",
            "`loss` and `burst` are two models of the same loss",
            "only one of them",
        )),
        (Some(loss), None) | (None, Some(loss)) => Ok(loss),
        (None, None) => Ok(base),
    }
}

/// The end of a run that does not say: 60 s.
pub(crate) const DURATION_DEFAULT: Duration = Duration::from_secs(60);
