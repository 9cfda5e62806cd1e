//! Transcripts of a broadcast among the members of a fixed view.

use std::sync::Arc;

use paceline_proto::chain::{Chain, Command, Config, Event, counters};
use paceline_proto::core::{CounterSet, Instant, NodeId, Payload, View};
use paceline_sim::{Sim, SimConfig};

use super::stage::Story;
use super::words::Words;

impl Story for Chain {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Chain>, String> {
        let view = View::roster((0..config.nodes as u64).map(NodeId));
        let mut shared = Config::new(view.clone());
        words.set_knobs(&mut shared)?;
        let shared = shared.build().map_err(|error| error.to_string())?;
        let member = shared.clone();
        let nodes = config.nodes as u32;
        let mut sim = Sim::new(config, Arc::new(shared), move |_| Chain::new(&member));
        let view = Arc::new(view);
        (0..nodes).for_each(|node| sim.view_at(Instant::ZERO, NodeId::from(node), view.clone()));
        Ok(sim)
    }

    fn command(words: &mut Words<'_>, _: u64) -> Result<Command, String> {
        match words.word("a command")? {
            "broadcast" => Ok(Command::broadcast(payload(words)?)),
            other => Err(format!("a member of a chain has no command `{other}`")),
        }
    }

    fn event(event: &Event) -> String {
        match event {
            Event::Delivered { origin, seq, payload, .. } => {
                format!("delivered seq {seq} of {origin}, {} B", payload.len())
            }
            other => format!("{other:?}"),
        }
    }

    fn consumed(event: &Event) -> Option<Command> {
        match *event {
            Event::Delivered { origin, end, .. } => Some(Command::Consumed { origin, end }),
            _ => None,
        }
    }
}

/// A message of this many bytes.
pub fn payload(words: &mut Words<'_>) -> Result<Payload, String> {
    Ok(Payload::from(vec![7; words.bytes()?]))
}
