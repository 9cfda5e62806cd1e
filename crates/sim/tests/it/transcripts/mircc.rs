//! Transcripts of forwarders of named data.

use std::sync::Arc;

use paceline_proto::core::{CounterSet, Payload};
use paceline_proto::mircc::{
    Command, Config, Event, FaceConfig, Forwarder, Object, Question, Setup, counters,
};
use paceline_proto::ndn::{Name, Signer};
use paceline_sim::{Sim, SimConfig, Wires};

use super::stage::Story;
use super::words::{Words, ms, node};

const SEGMENT_BYTES: usize = 1_000;

impl Story for Forwarder {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    /// `routes=n0-n2,n2-n3`: a link of unknown rate between each two, and the route of `/` from the
    /// first to the second. `producer=n3` publishes `/p/a`, one segment of 1,000 bytes.
    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Forwarder>, String> {
        let mut setups = vec![Setup::default(); config.nodes];
        let mut wires = Wires::new();
        for route in words.option("routes").ok_or("expected routes=")?.split(',') {
            let (from, to) = route.split_once('-').ok_or("expected routes=n0-n1,..")?;
            let (from, to) = (words.check(node(from)?)?, words.check(node(to)?)?);
            for (one, other) in [(from, to), (to, from)] {
                setups[one.index()].faces.push((other, FaceConfig::default()));
            }
            setups[from.index()].routes.push((name("/")?, to, 1));
            wires.join(from, to, config.network.link.delay);
        }
        let producer = node(words.option("producer").ok_or("expected producer=")?)?;
        let producer = words.check(producer)?;
        setups[producer.index()].objects.push(Object {
            name: name("/p/a")?,
            content: Payload::from(vec![7; SEGMENT_BYTES]),
            segment_bytes: SEGMENT_BYTES,
            freshness: None,
        });
        let mut shared = Config { signer: Signer::Null, ..Config::default() };
        words.set_knobs(&mut shared)?;
        let shared = Arc::new(shared.build().map_err(|error| error.to_string())?);
        let SimConfig { codec, faults, nodes, seed, .. } = config;
        let config = SimConfig { codec, faults, ..SimConfig::of_forwarders(nodes, seed, wires) };
        let of_all = shared.clone();
        Ok(Sim::new(config, shared, move |node| {
            Forwarder::new(setups[node.index()].clone(), &of_all)
        }))
    }

    fn command(words: &mut Words<'_>, number: u64) -> Result<Command, String> {
        match words.word("a command")? {
            "ask" => {
                let name = name(words.word("a name")?)?;
                Ok(Command::Ask(Box::new(Question::new(number, name))))
            }
            other => Err(format!("a forwarder has no command `{other}`")),
        }
    }

    fn event(event: &Event) -> String {
        match event {
            Event::Answered { data, round_trip, .. } => {
                format!("answered {} after {} ms", data.name(), ms(*round_trip))
            }
            Event::Unanswered { nack, .. } => format!("unanswered, nack: {nack:?}"),
            other => format!("{other:?}"),
        }
    }

    /// `pending`: the number of Interests that each node waits for an answer to.
    fn answer(sim: &Sim<'static, Forwarder>, words: &mut Words<'_>) -> Result<Vec<String>, String> {
        match words.word("a question")? {
            "pending" => {
                let node = words.node()?;
                Ok(vec![format!("Interests pending at {node}: {}", sim.node(node).pending())])
            }
            other => Err(format!("a forwarder is not asked for `{other}`")),
        }
    }
}

fn name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|_| format!("`{text}` is not a name"))
}
