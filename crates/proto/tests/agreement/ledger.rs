//! What the nodes said of views and messages, held against the promises of a group.

use std::collections::BTreeMap;

use paceline_proto::core::{Member, NodeId};
use paceline_proto::group::Event;

/// Of one member in its present view: the messages that it was told, by origin and number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Present {
    member: Option<Member>,
    view: u64,
    told: Vec<(u64, u64)>,
}

/// All views, and what was told in them.
pub struct Ledger {
    views: BTreeMap<u64, Vec<Member>>,
    present: BTreeMap<NodeId, Present>,
    /// How those that went from a view to the next one ended it.
    endings: BTreeMap<u64, Vec<(u64, u64)>>,
    violation: Option<String>,
}

impl Ledger {
    pub fn new() -> Ledger {
        Ledger {
            views: BTreeMap::new(),
            present: BTreeMap::new(),
            endings: BTreeMap::new(),
            violation: None,
        }
    }

    /// Messages that the node was told in its present view.
    pub fn told(&self, node: NodeId) -> usize {
        self.present.get(&node).map_or(0, |present| present.told.len())
    }

    /// The number and the members of the last view that anybody installed.
    pub fn last_view(&self) -> (u64, Vec<Member>) {
        let (&number, members) = self.views.last_key_value().expect("there are views");
        (number, members.clone())
    }

    pub fn verdict(&self) -> Result<(), String> {
        self.violation.clone().map_or(Ok(()), Err)
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violation.get_or_insert_with(what);
        }
    }

    /// Proposals that a node would not accept, whatever it may still receive.
    pub fn note_refused(&mut self, node: NodeId, proposals: u64) {
        self.check(proposals == 0, || {
            format!("soundness: {node} refused a proposal of an honest member")
        });
    }

    pub fn note(&mut self, node: NodeId, member: Member, event: &Event) {
        match event {
            Event::View(view) => {
                let (number, members) = (view.id().0, view.members().to_vec());
                let agreed = self.views.entry(number).or_insert_with(|| members.clone()).clone();
                self.check(agreed == members, || {
                    format!("agreement: view {number} is {agreed:?}, and at {node} {members:?}")
                });
                self.check(members.contains(&member), || {
                    format!("membership: {node} installed view {number} without itself")
                });
                let next = Present { member: Some(member), view: number, told: Vec::new() };
                let last = self.present.insert(node, next).unwrap_or_default();
                if last.member != Some(member) {
                    return;
                }
                self.check(last.view < number, || {
                    format!("order: {node} went from view {} to {number}", last.view)
                });
                let mut told = last.told;
                told.sort_unstable();
                if last.view + 1 == number {
                    let ending = self.endings.entry(last.view).or_insert_with(|| told.clone());
                    let ending = ending.clone();
                    self.check(ending == told, || {
                        let view = last.view;
                        format!("same end: {node} was told {told:?} in view {view}, not {ending:?}")
                    });
                }
            }
            Event::Delivered { view, incarnation, seq, payload, .. } => {
                let is_sent = *payload.to_bytes() == b"news"[..];
                self.check(is_sent, || format!("content: {node} was told {payload:?}"));
                let present = self.present.entry(node).or_default();
                let is_here = present.view == view.0;
                let is_new = !present.told.contains(&(*incarnation, *seq));
                present.told.push((*incarnation, *seq));
                self.check(is_here && is_new, || {
                    format!("once: {node} was told {seq} of {incarnation} in {view:?}")
                });
            }
            Event::Excluded | Event::Left => drop(self.present.remove(&node)),
            _ => {}
        }
    }
}
