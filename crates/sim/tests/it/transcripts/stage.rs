//! A run that carries out the commands of a transcript, behind an interface that does not name the
//! protocol.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use paceline_proto::core::{CounterSet, GroupId, Instant, Lane, NodeId, Protocol};
use paceline_sim::{Codec, Fault, FaultSupport, Observer, Reply, Sim, SimConfig, counters};

use super::words::{Words, time};

/// What a transcript needs to know of a protocol.
pub trait Story: Protocol<Message: Display> + 'static {
    /// The counters that a transcript may show, beside the simulator's.
    const COUNTERS: &'static CounterSet;

    /// The run that the first command of a transcript asks for.
    fn build(config: SimConfig, words: &mut Words<'_>) -> Result<Sim<'static, Self>, String>;

    /// A command of a node's application, the `number`-th of the transcript.
    fn command(words: &mut Words<'_>, number: u64) -> Result<Self::Command, String>;

    /// The line of an event.
    fn event(event: &Self::Event) -> String;

    /// What the application says once it has consumed what an event brought.
    fn consumed(_event: &Self::Event) -> Option<Self::Command> {
        None
    }

    /// The answer to an `ask`: lines about the state of nodes.
    fn answer(_sim: &Sim<'static, Self>, words: &mut Words<'_>) -> Result<Vec<String>, String> {
        Err(format!("this protocol is not asked for `{}`", words.word("a question")?))
    }
}

/// A run of any protocol.
pub trait Stage {
    fn nodes(&self) -> u32;
    fn fault(&mut self, at: Instant, fault: Fault);
    /// A command of a node's application, from the words of a transcript.
    fn command(
        &mut self,
        at: Instant,
        node: NodeId,
        words: &mut Words<'_>,
        number: u64,
    ) -> Result<(), String>;
    /// From now on the node's application consumes nothing.
    fn stop_reading(&mut self, node: NodeId);
    /// The node's application consumes what has come, and what comes from now on.
    fn read(&mut self, at: Instant, node: NodeId);
    fn run_until(&mut self, until: Instant, log: &mut Log);
    fn count(&self, counter: &str) -> Result<u64, String>;
    fn answer(&self, words: &mut Words<'_>) -> Result<Vec<String>, String>;
}

/// The lines of a run: of messages as they are sent, and of events.
#[derive(Default)]
pub struct Log {
    /// How the lines begin that are shown, and whether any did.
    shown: Vec<(String, bool)>,
    /// The nodes whose events and messages are shown; all if there are none.
    from: Vec<NodeId>,
    /// Columns of the node of an event, or of both ends of a message.
    pub width: usize,
    pub lines: Vec<String>,
}

impl Log {
    /// Shows lines of these nodes, or of all, that begin with these words, and no others.
    ///
    /// # Errors
    /// If no line has begun with one of the words that were given before.
    pub fn show(&mut self, words: &[&str], from: Vec<NodeId>) -> Result<(), String> {
        self.from = from;
        let shown = words.iter().map(|&word| (word.to_owned(), false)).collect();
        let before = std::mem::replace(&mut self.shown, shown);
        match before.into_iter().find(|(_, is_used)| !is_used) {
            Some((word, _)) => Err(format!("until here no line began with `{word}`")),
            None => Ok(()),
        }
    }

    fn note(&mut self, at: Instant, from: NodeId, to: Option<&dyn Display>, what: &dyn Display) {
        if self.shown.is_empty() || !(self.from.is_empty() || self.from.contains(&from)) {
            return;
        }
        let what = what.to_string();
        let is_word = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
        let begins = |word: &str| what.strip_prefix(word).is_some_and(is_word);
        if let Some((_, is_used)) = self.shown.iter_mut().find(|(word, _)| begins(word)) {
            *is_used = true;
            let ms = at.as_nanos() as f64 / 1e6;
            let ends = to.map_or_else(|| from.to_string(), |to| format!("{from}>{to}"));
            self.lines.push(format!("{ms:9.3} {ends:width$} {what}", width = self.width));
        }
    }
}

/// A run of one protocol.
pub struct Run<P: Story> {
    sim: Sim<'static, P>,
    nodes: u32,
    readers: Readers<P>,
}

/// The applications of all nodes.
struct Readers<P: Story> {
    stopped: BTreeSet<NodeId>,
    /// What those will say that consume nothing now.
    unread: Vec<(NodeId, P::Command)>,
}

impl<P: Story> Run<P> {
    /// The run over links that only delay, unless the protocol's part says otherwise. Messages pass
    /// through their encoding.
    pub fn open(words: &mut Words<'_>) -> Result<Box<dyn Stage>, String> {
        let nodes: u32 = words.number("nodes")?.ok_or("expected nodes=")?;
        words.set_nodes(nodes);
        let mut config = SimConfig::new(nodes as usize, words.number("seed")?.unwrap_or(1));
        config.network.link.delay = time(words.option("delay").unwrap_or("1ms"))?;
        config.codec = Codec::CheckWire;
        config.faults = FaultSupport::Any;
        let sim = P::build(config, words)?;
        let readers = Readers { stopped: BTreeSet::new(), unread: Vec::new() };
        Ok(Box::new(Run { sim, nodes, readers }))
    }
}

impl<P: Story> Stage for Run<P> {
    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn fault(&mut self, at: Instant, fault: Fault) {
        self.sim.fault_at(at, fault);
    }

    fn command(
        &mut self,
        at: Instant,
        node: NodeId,
        words: &mut Words<'_>,
        number: u64,
    ) -> Result<(), String> {
        self.sim.command_at(at, node, P::command(words, number)?);
        Ok(())
    }

    fn stop_reading(&mut self, node: NodeId) {
        self.readers.stopped.insert(node);
    }

    fn read(&mut self, at: Instant, node: NodeId) {
        self.readers.stopped.remove(&node);
        let (read, unread) =
            std::mem::take(&mut self.readers.unread).into_iter().partition(|(of, _)| *of == node);
        self.readers.unread = unread;
        let read: Vec<(NodeId, P::Command)> = read;
        read.into_iter().for_each(|(_, command)| self.sim.command_at(at, node, command));
    }

    fn run_until(&mut self, until: Instant, log: &mut Log) {
        let mut eyes = Eyes { log, readers: &mut self.readers };
        self.sim.run_until(until, &mut eyes);
    }

    fn count(&self, counter: &str) -> Result<u64, String> {
        let sets = [P::COUNTERS, &counters::COUNTERS];
        match sets.into_iter().any(|set| set.find(counter).is_some()) {
            true => Ok(self.sim.counters().count(counter)),
            false => Err(format!("there is no counter `{counter}`")),
        }
    }

    fn answer(&self, words: &mut Words<'_>) -> Result<Vec<String>, String> {
        P::answer(&self.sim, words)
    }
}

/// Notes what a run does, and answers for the applications.
struct Eyes<'a, P: Story> {
    log: &'a mut Log,
    readers: &'a mut Readers<P>,
}

impl<P: Story> Observer<P> for Eyes<'_, P> {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &P::Event, reply: &mut Reply<P>) {
        self.log.note(at, node, None, &P::event(event));
        if let Some(command) = P::consumed(event) {
            if self.readers.stopped.contains(&node) {
                self.readers.unread.push((node, command));
            } else {
                reply.command(Duration::ZERO, node, command);
            }
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &P::Message) {
        self.log.note(at, from, Some(&to), message);
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, group: GroupId, message: &P::Message) {
        self.log.note(at, from, Some(&group), message);
    }
}
