//! Transcripts of a group whose members agree on views.

use std::sync::Arc;

use bytes::Bytes;
use paceline_proto::core::{CounterSet, MembershipCommand, NodeId};
use paceline_proto::group::{Command, Config, Event, Group, counters};
use paceline_proto::{chain, detector};
use paceline_sim::{Sim, SimConfig};

use super::chain::payload;
use super::stage::Story;
use super::words::Words;

impl Story for Group {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Group>, String> {
        let mut broadcast = chain::Config::for_groups();
        words.set_knobs(&mut broadcast)?;
        let mut shared = Config::new(broadcast, detector::Config::default());
        words.set_knobs(&mut shared)?;
        let shared = shared.build().map_err(|error| error.to_string())?;
        let member = shared.clone();
        Ok(Sim::new(config, Arc::new(shared), move |_| Group::new(&member)))
    }

    fn command(words: &mut Words<'_>, _: u64) -> Result<Command, String> {
        match words.word("a command")? {
            "broadcast" => Ok(Command::broadcast(payload(words)?)),
            other => membership(other, words).map(Command::Membership),
        }
    }

    fn event(event: &Event) -> String {
        match event {
            Event::Delivered { view, origin, seq, payload, .. } => {
                format!("delivered {view} seq {seq} of {origin}, {} B", payload.len())
            }
            Event::View(view) => {
                let members = view.members().iter().map(|member| member.node);
                format!("view {} is {}", view.id(), list(members))
            }
            Event::Lagging { members } => format!("lagging: {}", list(members.iter().copied())),
            other => format!("{other:?}"),
        }
    }

    fn consumed(event: &Event) -> Option<Command> {
        match *event {
            Event::Delivered { view, origin, end, .. } => {
                Some(Command::Consumed { view, origin, end })
            }
            Event::Direct { from, end, .. } => Some(Command::ConsumedDirect { from, end }),
            _ => None,
        }
    }
}

/// `bootstrap`, `join n0` or `leave`.
pub fn membership(verb: &str, words: &mut Words<'_>) -> Result<MembershipCommand, String> {
    let address = Bytes::new();
    match verb {
        "bootstrap" => Ok(MembershipCommand::Bootstrap { address }),
        "join" => Ok(MembershipCommand::Join { address, peers: vec![words.node()?] }),
        "leave" => Ok(MembershipCommand::Leave),
        other => Err(format!("a member has no command `{other}`")),
    }
}

/// `n0 n2 n3`.
pub fn list(nodes: impl Iterator<Item = NodeId>) -> String {
    nodes.map(|node| node.to_string()).collect::<Vec<_>>().join(" ")
}
