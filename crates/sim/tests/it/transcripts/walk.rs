//! Transcripts of walks over a graph whose vertices are spread over servers.

use std::sync::Arc;

use paceline_proto::core::{CounterSet, NodeId};
use paceline_proto::walk::{
    Command, Config, Event, Graph, Job, JobId, Kind, Length, Owners, Part, Server, Sources, Trail,
    Walk, counters,
};
use paceline_sim::{Sim, SimConfig};

use super::stage::Story;
use super::words::{Words, number};

impl Story for Server {
    const COUNTERS: &'static CounterSet = &counters::COUNTERS;

    /// A graph of `vertices`, each with edges to the next one and to the one after three more. They
    /// belong to the servers in turn, so that no step stays at its server.
    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Server>, String> {
        let vertices: u32 = words.number("vertices")?.ok_or("expected vertices=")?;
        let servers = config.nodes as u32;
        let edges = (0..vertices).flat_map(|at| [1, 4].map(|step| (at, (at + step) % vertices)));
        let graph = Graph::from_edges(vertices, edges).map_err(|error| error.to_string())?;
        let owners = (0..vertices).map(|at| (at % servers) as u16).collect();
        let owners = Owners::new((0..servers).map(NodeId::from).collect(), owners);
        let (graph, owners) = (Arc::new(graph), Arc::new(owners.ok_or("too many servers")?));
        let mut settings = Config::default();
        words.set_knobs(&mut settings)?;
        settings.check().map_err(|error| error.to_string())?;
        Ok(Sim::new(config, Arc::new(()), move |node| {
            let part = Part::new(node, graph.clone(), owners.clone());
            Server::new(settings, part).expect("the settings were checked")
        }))
    }

    fn command(words: &mut Words<'_>, id: u64) -> Result<Command, String> {
        match words.word("a command")? {
            "walk" => {}
            other => return Err(format!("a server of walks has no command `{other}`")),
        }
        let source: u32 = number(words.word("a vertex")?)?;
        Ok(Command::Run(Box::new(Job {
            id: JobId(id),
            seed: words.number("seed")?.unwrap_or(1),
            kind: Kind::Uniform,
            length: Length::Steps(words.number("steps")?.ok_or("expected steps=")?),
            sources: Sources::Range(source..source + 1),
            walks: 1,
            first: 0,
            trail: Trail::Vertices,
            in_flight_max: usize::MAX,
        })))
    }

    fn event(event: &Event) -> String {
        match event {
            Event::Walks(_, walks) => {
                let walk = |walk: &Walk| {
                    let path: Vec<String> = walk.path.iter().map(u32::to_string).collect();
                    let (source, attempts) = (walk.source, walk.attempts);
                    format!("{source} {}, attempts: {attempts}", path.join(" "))
                };
                format!("walk {}", walks.iter().map(walk).collect::<Vec<_>>().join("; "))
            }
            Event::Ended(_, report, _) => format!(
                "job ended: generated {}, finished {}, timeouts {}",
                report.generated, report.finished, report.timeouts
            ),
            other => format!("{other:?}"),
        }
    }

    fn consumed(event: &Event) -> Option<Command> {
        match event {
            Event::Walks(job, walks) => Some(Command::Consumed(*job, walks.len())),
            _ => None,
        }
    }
}
