//! Transcripts of multicast: Slingshot, and SRM.

use std::sync::Arc;

use paceline_baselines::srm::{self, Distance, Srm};
use paceline_proto::core::{CounterSet, NodeId, View};
use paceline_proto::slingshot::{Command, Config, Event, How, Rate, Slingshot, counters};
use paceline_sim::{Sim, SimConfig};

use super::chain::payload;
use super::stage::Story;
use super::words::{Words, ms, time};

impl Story for Slingshot {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Slingshot>, String> {
        let mut rate = Rate::default();
        words.set_knobs(&mut rate)?;
        let mut shared = Config::new(roster(&config)).with_rate(rate);
        words.set_knobs(&mut shared)?;
        let shared = shared.build().map_err(|error| error.to_string())?;
        let member = shared.clone();
        Ok(Sim::new(config, Arc::new(shared), move |_| Slingshot::new(&member)))
    }

    fn command(words: &mut Words<'_>, _: u64) -> Result<Command, String> {
        multicast(words)
    }

    fn event(event: &Event) -> String {
        delivery(event)
    }
}

impl Story for Srm {
    const COUNTERS: &'static CounterSet = &srm::counters::COUNTERS;

    /// With `distance=1ms` no member measures how far others are.
    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Srm>, String> {
        let mut shared = srm::Config::published(roster(&config));
        if let Some(distance) = words.option("distance") {
            shared = shared.with_distance(Distance::Fixed(time(distance)?));
        }
        words.set_knobs(&mut shared)?;
        let shared = shared.build().map_err(|error| error.to_string())?;
        let member = shared.clone();
        Ok(Sim::new(config, Arc::new(shared), move |_| Srm::new(&member)))
    }

    fn command(words: &mut Words<'_>, _: u64) -> Result<Command, String> {
        multicast(words)
    }

    fn event(event: &Event) -> String {
        delivery(event)
    }
}

fn roster(config: &SimConfig) -> View {
    View::roster((0..config.nodes as u64).map(NodeId))
}

fn multicast(words: &mut Words<'_>) -> Result<Command, String> {
    match words.word("a command")? {
        "multicast" => Ok(Command::multicast(payload(words)?)),
        other => Err(format!("a member has no command `{other}`")),
    }
}

fn delivery(event: &Event) -> String {
    match event {
        Event::Delivered { sender, seq, how, .. } => {
            let how = match how {
                How::Direct => String::new(),
                How::Recovered { after } => format!(", recovered after {} ms", ms(*after)),
                How::Pulled { after } => format!(", pulled after {} ms", ms(*after)),
            };
            format!("delivered seq {seq} of {sender}{how}")
        }
        other => format!("{other:?}"),
    }
}
