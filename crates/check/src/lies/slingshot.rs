use std::time::Duration;

use paceline_proto::core::Payload;
use paceline_proto::parts::fec::Coded;
use paceline_proto::slingshot::{
    Ages, Data, Fragment, Framing, Heartbeat, Message, Name, Names, NamesBuilder, Repair, Supply,
};

use super::{Draw, Source};

/// Numbers from here on no packet has.
const SEQ_END: u64 = u64::MAX / 2;

/// The number of a packet: one of the first, or any.
fn seq(source: &mut Source<'_>) -> u64 {
    match source.rng.below(4) {
        0 => source.word() % SEQ_END,
        1 => SEQ_END - 1,
        _ => source.rng.below(400).into(),
    }
}

/// A packet under a checksum that fits.
fn data(source: &mut Source<'_>) -> Data {
    let (group, seq, payload) = (source.group(), seq(source), source.payload());
    let incarnation = source.member().incarnation;
    // From what was drawn, so that packets with fragments draw no more than those without.
    let (framing, payload) = match seq % 4 {
        0 => (Framing::Fragment, fragment(seq, &payload)),
        1 => (Framing::Fragment, payload),
        _ => (Framing::Whole, payload),
    };
    let checksum = framing.checksum(group, incarnation, seq, &payload);
    Data { group, incarnation, seq, framing, checksum, payload }
}

/// A fragment that does not contradict itself.
fn fragment(seq: u64, payload: &Payload) -> Payload {
    let packets = 2 + (seq / 4 % 7) as u16;
    let index = (seq / 32) as u16 % packets;
    let part = Payload::concat(&[payload.clone(), Payload::Zeros(1)]);
    let message = Payload::concat(&vec![part; packets.into()]);
    Fragment { index, packets, bytes: message.len() as u32 }.packet(&message)
}

fn names(source: &mut Source<'_>) -> Names {
    let name = |source: &mut Source<'_>| Name {
        group: source.group(),
        rank: source.rank() as u16,
        seq: seq(source) as u32,
        checksum: source.half(),
    };
    let mut names = NamesBuilder::default();
    for _ in 0..1 + source.rng.below(6) {
        names.push(name(source));
    }
    names.build()
}

fn repair(source: &mut Source<'_>) -> Repair {
    let age = |source: &mut Source<'_>| Duration::from_micros(source.half().into());
    let ages = Ages::new(age(source), age(source));
    let seed = if source.flag() { 0 } else { source.rng.next_u32() };
    let lengths = u32::from(source.half() as u16);
    let coded = Coded { lengths, body: source.payload() };
    Repair::new(source.view(), seed, ages, names(source), coded)
}

impl Draw for Message {
    fn draw(source: &mut Source<'_>) -> Message {
        match source.rng.below(5) {
            0 => Message::Data(data(source)),
            1 => Message::Repair(repair(source)),
            2 => Message::Ask { view: source.view(), names: names(source) },
            3 => Message::Heartbeat(Heartbeat {
                group: source.group(),
                incarnation: source.member().incarnation,
                next: seq(source),
            }),
            _ => Message::Supply(Supply {
                view: source.view(),
                rank: source.rank() as u16,
                data: data(source),
            }),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Message::Data(_) => "lie_slingshot_data",
            Message::Repair(_) => "lie_slingshot_repair",
            Message::Ask { .. } => "lie_slingshot_ask",
            Message::Heartbeat { .. } => "lie_slingshot_heartbeat",
            Message::Supply(_) => "lie_slingshot_supply",
            // None are drawn: receivers answer only who paces, and no swarm does.
            Message::Pulse(_) => "lie_slingshot_pulse",
            Message::Report(_) => "lie_slingshot_report",
        }
    }

    fn kinds() -> Vec<&'static str> {
        vec![
            "lie_slingshot_data",
            "lie_slingshot_repair",
            "lie_slingshot_ask",
            "lie_slingshot_heartbeat",
            "lie_slingshot_supply",
        ]
    }
}
