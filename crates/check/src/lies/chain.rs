use bytes::Bytes;
use paceline_proto::chain::{Frame, Lengths, Message, Topology};
use paceline_proto::core::{Lane, Payload};

use super::{Draw, Source};

/// A block, of its group or one that a flush asked for.
pub(super) fn frame(source: &mut Source<'_>) -> Frame {
    let count = 1 + source.rng.below(3) as u16;
    let index = source.rng.below(count.into()) as u16;
    let is_bundle = count == 1 && source.rng.below(2) == 1;
    let lengths = if is_bundle { Lengths::of(vec![2, 0, 3]) } else { Lengths::default() };
    let frame = Frame {
        view: source.view(),
        origin: source.rank(),
        incarnation: source.member().incarnation,
        seq: u64::from(index) + (source.word() >> 2),
        index,
        count,
        topology: Topology::ALL[source.rng.below(4) as usize],
        checksum: 0,
        stable_lag: source.rng.below(40),
        link: source.word(),
        hops_left: source.rng.below(8),
        lengths,
        payload: Payload::Bytes(Bytes::from_static(b"a lie")),
    };
    Frame { checksum: frame.computed_checksum(), ..frame }
}

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        let (view, incarnation) = (source.view(), source.member().incarnation);
        match source.rng.below(9) {
            0 => {
                Message::Ack { view, incarnation, received: source.word(), consumed: source.word() }
            }
            1 => Message::Stable { view, incarnation, stable: source.word() },
            2 => Message::LinkAck { view, next: source.word() },
            3 => Message::Resync { view, next: source.word() },
            4 => Message::Resume { view, next: source.word() },
            5 => Message::Probe { view, incarnation },
            6 => Message::Unconsumed {
                view,
                incarnation,
                blocks: source.word(),
                bytes: source.word(),
            },
            7 => Message::Skip { view, link: source.word() },
            _ => Message::Data(frame(source)),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Message::Data(_) => "lie_chain_data",
            Message::Ack { .. } => "lie_chain_ack",
            Message::Stable { .. } => "lie_chain_stable",
            Message::LinkAck { .. } => "lie_chain_link_ack",
            Message::Resync { .. } => "lie_chain_resync",
            Message::Resume { .. } => "lie_chain_resume",
            Message::Probe { .. } => "lie_chain_probe",
            Message::Skip { .. } => "lie_chain_skip",
            Message::Unconsumed { .. } => "lie_chain_unconsumed",
        }
    }

    fn kinds() -> Vec<&'static str> {
        vec![
            "lie_chain_data",
            "lie_chain_ack",
            "lie_chain_stable",
            "lie_chain_link_ack",
            "lie_chain_resync",
            "lie_chain_resume",
            "lie_chain_probe",
            "lie_chain_skip",
            "lie_chain_unconsumed",
        ]
    }

    fn lane(&self) -> Lane {
        if self.is_on_stream() { Lane::Stream } else { Lane::Datagram }
    }
}
