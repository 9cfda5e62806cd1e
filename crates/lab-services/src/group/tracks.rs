//! The messages of a run, for a drawing: sender, receiver, content and arrival time.

use std::collections::{BTreeMap, VecDeque};

use paceline_lab::plot::{Axis, Mark, Plot};
use paceline_lab::scenario::{Fault as ScenarioFault, Scenario};
use paceline_proto::chain;
use paceline_proto::core::{Instant, Lane, NodeId};
use paceline_proto::detector::Health;
use paceline_proto::group::{Event, Group, Message};
use paceline_sim::{Fault, Input, Observer, Reply};

/// Arrows and marks that are kept; a drawing of more would show nothing.
const KEPT_MAX: usize = 10_000;

/// What a message is for, as far as a drawing tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Block,
    Agreement,
    Fetch,
    Flushed,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Block, "the message, round the ring"),
    (Kind::Agreement, "agreement on the next view"),
    (Kind::Fetch, "request for what is missing"),
    (Kind::Flushed, "the message, again"),
];

impl Kind {
    fn of(message: &Message) -> Option<Kind> {
        match message {
            Message::Chain(chain::Message::Data(_)) => Some(Kind::Block),
            Message::Fetch { .. } => Some(Kind::Fetch),
            Message::Flushed(_) => Some(Kind::Flushed),
            Message::Prepare { .. }
            | Message::Promise { .. }
            | Message::Accept { .. }
            | Message::Accepted { .. }
            | Message::Install { .. } => Some(Kind::Agreement),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Arrow {
    kind: Kind,
    from: NodeId,
    sent: Instant,
    to: NodeId,
    came: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Crash,
    Delivered,
    Down,
    View,
}

const MARKS: [(What, &str); 4] = [
    (What::Delivered, "delivered"),
    (What::Crash, "crashes"),
    (What::Down, "knows of the crash"),
    (What::View, "installs the next view"),
];

/// Watches a group and keeps what a drawing of it needs.
#[derive(Debug, Default)]
pub struct Tracks {
    arrows: Vec<Arrow>,
    marks: Vec<(What, NodeId, Instant)>,
    // Arrows that have not come yet, by kind, sender and receiver.
    under_way: BTreeMap<(Kind, NodeId, NodeId), VecDeque<usize>>,
    crashed: Vec<NodeId>,
}

impl Observer<Group> for Tracks {
    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &Message) {
        let Some(kind) = Kind::of(message).filter(|_| self.arrows.len() < KEPT_MAX) else { return };
        self.under_way.entry((kind, from, to)).or_default().push_back(self.arrows.len());
        self.arrows.push(Arrow { kind, from, sent: at, to, came: None });
    }

    fn before_call(&mut self, at: Instant, node: NodeId, _: &Group, input: &Input<'_, Group>) {
        let Input::Message { from, message } = input else { return };
        let Some(kind) = Kind::of(message) else { return };
        let under_way = self.under_way.get_mut(&(kind, *from, node));
        if let Some(arrow) = under_way.and_then(VecDeque::pop_front) {
            self.arrows[arrow].came = Some(at);
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Group>) {
        match event {
            Event::Delivered { .. } => self.mark(What::Delivered, node, at),
            Event::View(_) => self.mark(What::View, node, at),
            _ => {}
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        if let Fault::Crash(node) = fault {
            self.crashed.push(*node);
            self.mark(What::Crash, *node, at);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, group: &Group, _: &mut Reply<Group>) {
        for &crashed in &self.crashed {
            let mark = |&(what, of, _): &(What, NodeId, Instant)| what == What::Down && of == node;
            if group.health(crashed) == Some(Health::Down) && !self.marks.iter().any(mark) {
                return self.mark(What::Down, node, at);
            }
        }
    }
}

impl Tracks {
    fn mark(&mut self, what: What, node: NodeId, at: Instant) {
        if self.marks.len() < KEPT_MAX {
            self.marks.push((what, node, at));
        }
    }

    /// The drawings of a run in which a member crashes: what was under way when it did, how the
    /// others repaired it, and how they went on.
    pub fn drawings(&self, scenario: &Scenario) -> Vec<Plot> {
        let is_crash = |fault: &ScenarioFault| matches!(fault, ScenarioFault::Crash(_));
        let crash = scenario.faults.iter().find(|fault| is_crash(&fault.fault));
        let Some(crash) = crash.map(|fault| Instant::ZERO + fault.at) else { return Vec::new() };
        let noticed = self.times(|what| what == What::Down).min();
        let block = |arrow: &&Arrow| arrow.kind == Kind::Block;
        let noticed_at = noticed.unwrap_or(Instant::MAX);
        let under_way = self.arrows.iter().filter(block).filter(|arrow| arrow.sent < noticed_at);
        let Some(first) = under_way.clone().map(|arrow| arrow.sent).min() else {
            return Vec::new();
        };
        let last = under_way.filter_map(|arrow| arrow.came).max().unwrap_or(crash).max(crash);
        let nodes = scenario.topology.nodes;
        let draw = |title, from, until| self.drawing(title, nodes, crash, (from, until));
        let mut drawings =
            vec![draw("A member crashes with a message in flight", first, last).with_caption(
                "Time runs from left to right, with a line for each member. A message travels \
                 round the ring from member to member.",
            )];
        let Some(noticed) = noticed else { return drawings };
        let viewed = self.times(|what| what == What::View).max().unwrap_or(noticed);
        let silent = (noticed - crash).as_secs_f64();
        let caption = format!(
            "{silent:.2} s later the failure detector reports the crash. The other members agree \
             on the next view. Before they install it, a member that lacks a message gets it from \
             one that holds it, so that all have delivered the same messages."
        );
        drawings
            .push(draw("The others agree, and repair it", noticed, viewed).with_caption(caption));
        let next = self.arrows.iter().filter(block).filter(|arrow| arrow.sent >= viewed);
        let ends = next.clone().filter_map(|arrow| arrow.came).max();
        if let Some((from, until)) = next.map(|arrow| arrow.sent).min().zip(ends) {
            let caption = "The ring continues without the crashed member.";
            drawings.push(draw("They go on", from, until).with_caption(caption));
        }
        drawings
    }

    fn times(&self, picks: impl Fn(What) -> bool) -> impl Iterator<Item = Instant> {
        self.marks.iter().filter(move |&&(what, ..)| picks(what)).map(|&(.., at)| at)
    }

    /// All that happened between two times, with some air. Every drawing of a run has the same
    /// layers, and so the same colours.
    fn drawing(
        &self,
        title: &str,
        nodes: u32,
        crash: Instant,
        (from, until): (Instant, Instant),
    ) -> Plot {
        let ms = |at: Instant| (at.as_secs_f64() - crash.as_secs_f64()) * 1e3;
        let air = ((ms(until) - ms(from)) * 0.05).max(0.2);
        let (low, high) = (ms(from) - air, ms(until) + air);
        let is_shown = |at: Instant| (low..=high).contains(&ms(at));
        let names = (0..nodes).map(|node| format!("member {node}"));
        let x = Axis::new("since the crash", "ms").with_range(low, high);
        let lane = |node: NodeId| -(node.0 as f64);
        let mut plot = Plot::lanes(title, names, x);
        for (kind, name) in KINDS {
            let of_kind = self.arrows.iter().filter(|arrow| arrow.kind == kind);
            if of_kind.clone().next().is_none() {
                continue;
            }
            let arrows =
                of_kind.filter(|arrow| is_shown(arrow.sent) && arrow.came.is_none_or(is_shown));
            let ends = arrows.flat_map(|arrow| {
                let came = arrow.came.map_or(f64::NAN, ms);
                [(ms(arrow.sent), lane(arrow.from)), (came, lane(arrow.to))]
            });
            plot = plot.with_layer(name, Mark::Arrows, ends);
        }
        for (what, name) in MARKS {
            let marks = self.marks.iter().filter(|&&(of, _, at)| of == what && is_shown(at));
            let marks = marks.map(|&(_, node, at)| (ms(at), lane(node)));
            plot = plot.with_layer(name, Mark::Points, marks);
        }
        plot
    }
}
