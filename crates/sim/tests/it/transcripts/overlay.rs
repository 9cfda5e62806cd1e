//! Transcripts of a table that is spread over the nodes of an overlay.

use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{CounterSet, NodeId, Payload};
use paceline_proto::overlay::{
    Algorithm, Command, Config, Event, Item, Key, Operation, Oracle, Outcome, Overlay, PingPolicy,
    Space, Style, counters,
};
use paceline_sim::{Sim, SimConfig};

use super::group::{list, membership};
use super::stage::Story;
use super::words::Words;

impl Story for Overlay {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    /// With `tables=full` all nodes are members, know all that their tables hold, and keep them so.
    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Overlay>, String> {
        let algorithm = words.option("algorithm").unwrap_or("chord");
        let algorithm = algorithm.parse::<Algorithm>().map_err(|error| error.to_string())?;
        let mut shared = Config::new(Space::new(config.seed)).with_algorithm(algorithm);
        let oracle = match words.option("tables") {
            None => None,
            Some("full") => {
                shared = shared.with_upkeep_every(None).with_ping(PingPolicy::Off);
                Some(Oracle::new(shared.space(), (0..config.nodes as u64).map(NodeId)))
            }
            Some(other) => return Err(format!("tables={other} is not known")),
        };
        words.set_knobs(&mut shared)?;
        let shared = shared.build().map_err(|error| error.to_string())?;
        let member = shared.clone();
        Ok(Sim::new(config, Arc::new(shared), move |node| match &oracle {
            None => Overlay::new(&member, node),
            Some(oracle) => {
                let mut router = member.router(node);
                router.fill(oracle.ring());
                Overlay::with_router(&member, node, router)
            }
        }))
    }

    fn command(words: &mut Words<'_>, number: u64) -> Result<Command, String> {
        let request =
            |operation| Command::Request { id: number, operation, style: Style::Recursive };
        match words.word("a command")? {
            "get" => Ok(request(Operation::Get(keys(words)?))),
            "locate" => Ok(request(Operation::Locate(keys(words)?))),
            "put" => {
                let item = |key: Key| Item {
                    key,
                    value: Payload::from(key.to_bytes().to_vec()),
                    lifetime: Duration::from_secs(3600),
                };
                Ok(request(Operation::Put(keys(words)?.into_iter().map(item).collect())))
            }
            other => membership(other, words).map(Command::Membership),
        }
    }

    fn event(event: &Event) -> String {
        match event {
            Event::Outcome { outcomes, .. } => {
                let outcome = |(key, outcome): &(Key, Outcome)| match outcome {
                    Outcome::Located(node) => format!(" {} is at {node}", short(*key)),
                    Outcome::Found { version, .. } => format!(" {} found {version}", short(*key)),
                    Outcome::Stored { copies } => format!(" {} in {copies} copies", short(*key)),
                    other => format!(" {} {other:?}", short(*key)),
                };
                "outcome:".to_owned() + &outcomes.iter().map(outcome).collect::<String>()
            }
            Event::Joined => "joined".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// `where KEY..`: who is responsible for a key, of the nodes that are alive, and who holds its
    /// record.
    fn answer(sim: &Sim<'static, Overlay>, words: &mut Words<'_>) -> Result<Vec<String>, String> {
        match words.word("a question")? {
            "where" => {}
            other => return Err(format!("an overlay is not asked for `{other}`")),
        }
        let shared = sim.shared();
        let nodes: Vec<NodeId> = words.all_nodes().filter(|&node| sim.is_alive(node)).collect();
        let oracle = Oracle::new(shared.space(), nodes.iter().copied());
        let line = |name: &str| {
            let key = Key::of(name.as_bytes());
            let owner = oracle.responsible(shared.algorithm(), key).ok_or("no node is alive")?;
            let holds = |&node: &NodeId| {
                sim.node(node).store().is_some_and(|store| store.get(key, sim.now()).is_some())
            };
            let holders = list(nodes.iter().copied().filter(holds));
            let held = if holders.is_empty() { "" } else { ", held by " };
            Ok(format!("{name} is {}, of {owner}{held}{holders}", short(key)))
        };
        words.rest("a key")?.into_iter().map(line).collect()
    }
}

/// The keys of some names, at least one.
fn keys(words: &mut Words<'_>) -> Result<Vec<Key>, String> {
    Ok(words.rest("a key")?.into_iter().map(|name| Key::of(name.as_bytes())).collect())
}

/// As messages show a key: its first eight digits.
fn short(key: Key) -> String {
    key.to_string()[..8].to_owned()
}
