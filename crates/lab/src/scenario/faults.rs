use std::time::Duration;

use paceline_proto::core::{LinkFaults, NodeId};

use super::Topology;
use super::reader::Table;
use super::topology::read_link;
use super::units::format_duration;
use crate::LabError;

/// Something that goes wrong, or right again, at a time of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedFault {
    /// When, since the run began.
    pub at: Duration,
    /// What.
    pub fault: Fault,
}

/// Something that goes wrong, or right again.
///
/// A fault that lasts `for` some time stands as two: its beginning and its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// These nodes stop and lose what they knew.
    Crash(Vec<NodeId>),
    /// These nodes start afresh, under new incarnations.
    Restart(Vec<NodeId>),
    /// These nodes do nothing, and keep what they know and what arrives.
    Pause(Vec<NodeId>),
    /// These nodes go on.
    Resume(Vec<NodeId>),
    /// Nothing passes between the groups; nodes in no group form one more.
    Partition(Vec<Vec<NodeId>>),
    /// Every partition ends.
    Heal,
    /// These nodes leave their group. A node that is restarted afterwards joins again.
    Leave(Vec<NodeId>),
    /// The stream between two nodes breaks, both ways: each sees the other go down.
    Reset {
        /// One end.
        from: NodeId,
        /// The other end.
        to: NodeId,
    },
    /// The links from `from` to `to` (each: every node, if none) now behave like this.
    Link {
        /// Where the links begin.
        from: Option<Vec<NodeId>>,
        /// Where they end.
        to: Option<Vec<NodeId>>,
        /// What they do from now on.
        faults: LinkFaults,
    },
}

impl Fault {
    /// What happens, in a few words.
    pub fn describe(&self) -> String {
        let list = |nodes: &[NodeId]| {
            let nodes: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
            nodes.join(", ")
        };
        match self {
            Fault::Crash(nodes) => format!("crash of {}", list(nodes)),
            Fault::Restart(nodes) => format!("restart of {}", list(nodes)),
            Fault::Pause(nodes) => format!("pause of {}", list(nodes)),
            Fault::Resume(nodes) => format!("end of the pause of {}", list(nodes)),
            Fault::Partition(groups) => {
                let groups: Vec<String> = groups.iter().map(|group| list(group)).collect();
                format!("partition: {}", groups.join(" | "))
            }
            Fault::Heal => "end of the partition".to_owned(),
            Fault::Leave(nodes) => format!("leave of {}", list(nodes)),
            Fault::Reset { from, to } => format!("reset between {} and {}", from.0, to.0),
            Fault::Link { .. } => "change of links".to_owned(),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Crash,
    Restart,
    Pause,
    Resume,
    Partition,
    Heal,
    Leave,
    Reset,
    Link,
}

const KINDS: [(&str, Kind); 9] = [
    ("crash", Kind::Crash),
    ("restart", Kind::Restart),
    ("pause", Kind::Pause),
    ("resume", Kind::Resume),
    ("partition", Kind::Partition),
    ("heal", Kind::Heal),
    ("leave", Kind::Leave),
    ("reset", Kind::Reset),
    ("link", Kind::Link),
];

/// Reads one `[[faults]]` table and appends what it asks for.
pub(crate) fn read(
    table: &mut Table<'_>,
    topology: &Topology,
    end: Duration,
    out: &mut Vec<TimedFault>,
) -> Result<(), LabError> {
    let at = table.duration("at")?;
    if at > end {
        let problem = format!("`at` is after the end of the run at {}", format_duration(end));
        return Err(table.error("at", problem, "a time within the run, or a longer `duration`"));
    }
    let (fault, undo) = match table.choice("kind", &KINDS)? {
        Kind::Crash => {
            let nodes = targets(table, topology)?;
            (Fault::Crash(nodes.clone()), Some(Fault::Restart(nodes)))
        }
        Kind::Restart => (Fault::Restart(targets(table, topology)?), None),
        Kind::Pause => {
            let nodes = targets(table, topology)?;
            (Fault::Pause(nodes.clone()), Some(Fault::Resume(nodes)))
        }
        Kind::Resume => (Fault::Resume(targets(table, topology)?), None),
        Kind::Partition => (Fault::Partition(groups(table, topology)?), Some(Fault::Heal)),
        Kind::Heal => (Fault::Heal, None),
        Kind::Leave => {
            let nodes = targets(table, topology)?;
            (Fault::Leave(nodes.clone()), Some(Fault::Restart(nodes)))
        }
        Kind::Reset => {
            let last = topology.nodes - 1;
            let from = NodeId::from(table.integer("from", 0..=last)?);
            let to = NodeId::from(table.integer("to", 0..=last)?);
            if from == to {
                return Err(table.error("to", "`from` and `to` are the same node", "two nodes"));
            }
            (Fault::Reset { from, to }, None)
        }
        Kind::Link => {
            let from = table.nodes_optional("from", topology.nodes)?.map(handles);
            let to = table.nodes_optional("to", topology.nodes)?.map(handles);
            let faults = read_link(table, &topology.link)?;
            let undo = Fault::Link { from: from.clone(), to: to.clone(), faults: topology.link };
            (Fault::Link { from, to, faults }, Some(undo))
        }
    };
    out.push(TimedFault { at, fault });
    if let Some(undo) = undo
        && let Some(lasts) = table.duration_optional("for")?
    {
        out.push(TimedFault { at: at.saturating_add(lasts), fault: undo });
    }
    Ok(())
}

fn targets(table: &mut Table<'_>, topology: &Topology) -> Result<Vec<NodeId>, LabError> {
    let one = table.nodes_optional("node", topology.nodes)?;
    let several = table.nodes_optional("nodes", topology.nodes)?;
    match (one, several) {
        (Some(_), Some(_)) => {
            Err(table.error("nodes", "`node` and `nodes` both given", "only one of them"))
        }
        (Some(nodes), None) | (None, Some(nodes)) => Ok(handles(nodes)),
        (None, None) => Err(table.error(
            "",
            "missing key `node` in [[faults]]",
            "node = 3, or nodes = [1, \"4-9\"]",
        )),
    }
}

fn groups(table: &mut Table<'_>, topology: &Topology) -> Result<Vec<Vec<NodeId>>, LabError> {
    let groups = table.groups("groups", topology.nodes)?;
    let mut all: Vec<u32> = groups.concat();
    all.sort_unstable();
    if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        let problem = format!("node {} is in two groups", twice[0]);
        return Err(table.error("groups", problem, "at most one group for each node"));
    }
    Ok(groups.into_iter().map(handles).collect())
}

fn handles(nodes: Vec<u32>) -> Vec<NodeId> {
    nodes.into_iter().map(NodeId::from).collect()
}
