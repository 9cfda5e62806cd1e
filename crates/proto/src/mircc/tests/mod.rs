//! One node, driven by hand: what goes in, and every output read beside it.

mod application;
mod back;
mod bounds;
mod flow;
mod forward;
mod fragments;
mod limits;
mod loss;
mod memory;
mod paths;
mod strategies;

use std::num::NonZeroU16;
use std::time::Duration;

use super::*;
use crate::core::{
    Backlog, Context, Instant, Lane, NodeId, Outbox, Payload, PeerState, Protocol, Rng,
};
use crate::ndn::{
    Body, Class, Data, Fragment, Header, Interest, Meta, NackReason, Name, PACKET_BYTES_MAX,
    Packet, PathLabel, Signer, Token, Trust,
};

struct NoBacklog;

impl Backlog for NoBacklog {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        0
    }
}

/// A node and what surrounds it.
struct Bench {
    config: Config,
    node: Forwarder,
    outbox: Outbox<Forwarder>,
    rng: Rng,
    now: Instant,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap_or_else(|error| panic!("{uri}: {error}"))
}

fn mbit(rate: u64) -> FaceConfig {
    FaceConfig::of_rate(rate * 1_000_000)
}

fn interest(uri: &str, nonce: u32) -> Packet {
    Packet::from(Interest::new(name(uri), nonce))
}

/// An Interest whose fields are changed.
fn asking(uri: &str, nonce: u32, change: impl FnOnce(&mut Interest)) -> Packet {
    let mut interest = Interest::new(name(uri), nonce);
    change(&mut interest);
    Packet::from(interest)
}

/// A Data of 1,000 bytes of content.
fn data(uri: &str) -> Packet {
    data_of(uri, None)
}

fn data_of(uri: &str, last: Option<u64>) -> Packet {
    let meta = Meta { final_segment: last, ..Meta::default() };
    Packet::from(Data::new(name(uri), meta, Payload::Zeros(1_000), &Signer::Digest))
}

fn nack(uri: &str, nonce: u32, reason: NackReason) -> Packet {
    let interest = Box::new(Interest::new(name(uri), nonce));
    Packet { header: Header::default(), body: Body::Nack(reason, interest) }
}

/// The packet with stamps, Mbit/s.
fn stamped(mut packet: Packet, primary: u64, secondary: u64) -> Packet {
    packet.header.stamps.primary_bits_per_second = primary * 1_000_000;
    packet.header.stamps.secondary_bits_per_second = secondary * 1_000_000;
    packet
}

fn labelled(mut packet: Packet, hops: &[u16]) -> Packet {
    let hops: Vec<_> = hops.iter().map(|&hop| NonZeroU16::new(hop).expect("no zero")).collect();
    packet.header.label = PathLabel::of_hops(&hops);
    packet
}

impl Bench {
    /// A node with these neighbours, of which each leads to the names beside it.
    fn new(config: Config, faces: &[(u32, FaceConfig, &[&str])]) -> Bench {
        let mut setup = Setup { name: "bench".into(), ..Setup::default() };
        for &(peer, face, prefixes) in faces {
            setup.faces.push((NodeId::from(peer), face));
            let routes = prefixes.iter().map(|prefix| (name(prefix), NodeId::from(peer), 1));
            setup.routes.extend(routes);
        }
        config.check().expect("within the ranges");
        let mut bench = Bench {
            node: Forwarder::new(setup, &config),
            config,
            outbox: Outbox::default(),
            rng: Rng::new(1, 1),
            now: Instant::ZERO + ms(1_000),
        };
        bench.call(|node, cx| node.handle_start(cx));
        bench
    }

    /// Node 1 asks, node 2 leads to `/a`. Nothing is paced.
    fn plain() -> Bench {
        let any = FaceConfig::default();
        Bench::new(Config::default(), &[(1, any, &[]), (2, any, &["/a"]), (3, any, &[])])
    }

    fn call(&mut self, handler: impl FnOnce(&mut Forwarder, &mut Context<'_, Forwarder>)) {
        let mut cx = Context {
            now: self.now,
            node: NodeId(0),
            incarnation: 7,
            host: None,
            shared: &self.config,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &NoBacklog,
            datagram_bytes_max: PACKET_BYTES_MAX,
        };
        handler(&mut self.node, &mut cx);
    }

    fn from(&mut self, peer: u32, packet: Packet) {
        self.call(|node, cx| node.handle_message(cx, NodeId::from(peer), Box::new(packet)));
    }

    fn command(&mut self, command: Command) {
        self.call(|node, cx| node.handle_command(cx, command));
    }

    /// Fires all timers that are due until this much time has passed.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let timers = self.outbox.timers.iter().enumerate();
            let first = timers.min_by_key(|(place, (at, _))| (*at, *place));
            let Some((place, &(at, timer))) = first.filter(|(_, (at, _))| *at <= until) else {
                break;
            };
            self.outbox.timers.remove(place);
            self.now = self.now.max(at);
            self.call(|node, cx| node.handle_timer(cx, timer));
        }
        self.now = until;
    }

    /// Passes time in small steps and says when packets left, in microseconds from now, and which.
    fn departures(&mut self, time: Duration) -> Vec<(u64, String)> {
        let (began, until) = (self.now, self.now + time);
        let mut left = Vec::new();
        while self.now < until {
            let next = self.outbox.timers.iter().map(|&(at, _)| at).min();
            let next = next.map_or(until, |at| at.max(self.now)).min(until);
            self.pass(next.since(self.now));
            let micros = self.now.since(began).as_micros() as u64;
            left.extend(self.sent().into_iter().map(|line| (micros, line)));
            if next == until {
                break;
            }
        }
        left
    }

    /// Packets sent since the last call, one line each: the neighbour, the packet, and its header
    /// fields.
    fn sent(&mut self) -> Vec<String> {
        self.packets().into_iter().map(|(to, packet)| line(to, &packet)).collect()
    }

    fn packets(&mut self) -> Vec<(u64, Packet)> {
        let sends = self.outbox.sends.drain(..).map(|send| {
            assert_eq!(send.lane, Lane::Datagram);
            (send.to.0, *send.message)
        });
        sends.collect()
    }

    /// Events to the application since the last call, one line each.
    fn told(&mut self) -> Vec<String> {
        let text = |event: Event| match event {
            Event::Asked { from, interest } => {
                let from = from.map_or("here".into(), |node| node.to_string());
                format!("asked {} from {from}", interest.name)
            }
            Event::Segment { flow, number, .. } => format!("flow {flow}: segment {number}"),
            Event::Fetched { flow, counts } => format!("flow {flow}: all {}", counts.segments),
            Event::Failed { flow, why, .. } => format!("flow {flow}: {why}"),
            Event::Answered { id, data, .. } => format!("question {id}: {}", data.name()),
            Event::Unanswered { id, nack } => match nack {
                Some(reason) => format!("question {id}: nack {}", reason.number()),
                None => format!("question {id}: nothing"),
            },
            Event::Report { id, .. } => format!("report {id}"),
        };
        self.outbox.events.drain(..).map(text).collect()
    }

    fn count(&self, name: &str) -> u64 {
        self.outbox.counters.count(name)
    }

    fn face(&self, peer: u32) -> FaceReport {
        self.node
            .faces()
            .find(|face| face.peer == NodeId::from(peer))
            .expect("there is such a face")
    }
}

/// Nonces are drawn at random where the node asks itself: they are left out.
fn line(to: u64, packet: &Packet) -> String {
    let mut text = match &packet.body {
        Body::Interest(interest) => format!("{to}: ask {}", interest.name),
        Body::Data(data) => format!("{to}: data {}", data.name()),
        Body::Nack(reason, interest) => {
            format!("{to}: nack {} {}", reason.number(), interest.name)
        }
        Body::Fragment(fragment) => format!("{to}: fragment {}", fragment.index),
    };
    if packet.header.class == Class::Secondary {
        text += " secondary";
    }
    if !packet.header.label.is_empty() {
        text += &format!(" by {}", packet.header.label);
    }
    text
}

fn nonce(packet: &Packet) -> u32 {
    match &packet.body {
        Body::Interest(interest) => interest.nonce,
        Body::Nack(_, interest) => interest.nonce,
        Body::Data(_) | Body::Fragment(_) => panic!("it has none"),
    }
}

/// A question that waits for a second.
fn question(id: u64, uri: &str) -> Question {
    let mut question = Question::new(id, name(uri));
    question.interest.lifetime_ms = Some(1_000);
    question
}
