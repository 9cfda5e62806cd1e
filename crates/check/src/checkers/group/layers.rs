//! V3 and V7: the layers of a node are in one view; no layer lacks a member or keeps a departed
//! one.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_proto::core::{Member, NodeId, View, ViewId};
use paceline_proto::group::{Group, Role};

use super::{Broken, Host, Rule};

/// The checker examines a node's maps when its view changes, and then once in this many calls.
const CALLS: u32 = 32;

/// What the layers of a node hold of the members of its view.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The view of the broadcast.
    pub broadcast: Arc<View>,
    /// The members that the detector watches.
    pub watched: Vec<Member>,
    /// The members that the agreement can reach, by rank.
    pub contacts: Vec<Member>,
    /// How many members' acknowledgements the broadcast keeps, if it has sent.
    pub counted: Option<usize>,
    /// Whose blocks the broadcast holds or held.
    pub origins: Vec<Member>,
    /// Other nodes of which something is kept: where, and which.
    pub kept: Vec<(&'static str, NodeId)>,
}

impl Layers {
    /// Of a node that is not tampered with. Takes time proportional to the members.
    pub fn of(group: &Group) -> Layers {
        let (chain, detector) = (group.chain(), group.detector());
        let view = chain.view();
        let origins = chain.reached().map(|reached| {
            let incarnation = reached.incarnation;
            view.members().get(reached.origin).map(|member| Member { incarnation, ..*member })
        });
        let noted = group.noted().map(|node| ("agreement", node));
        let hops = chain.hop_peers().map(|node| ("hops", node));
        let remembered = detector.into_iter().flat_map(|detector| detector.remembered());
        let remembered = remembered.map(|node| ("detector", node));
        Layers {
            broadcast: view.clone(),
            watched: group.watched(),
            contacts: group.contacts().collect(),
            counted: chain.members_counted(),
            origins: origins.flatten().collect(),
            kept: noted.chain(hops).chain(remembered).collect(),
        }
    }

    fn check(&self, node: NodeId, view: &View) -> Result<(), Broken> {
        let order = |layer: &str| Err((Rule::Layers, format!("{layer} is not in {view:?}")));
        if *self.broadcast != *view {
            return order(&format!("the broadcast, in {},", self.broadcast.id()));
        }
        let mut others: Vec<Member> =
            view.members().iter().copied().filter(|member| member.node != node).collect();
        others.sort_by_key(|member| member.node);
        if self.watched != others {
            return order(&format!("the detector, which watches {:?},", self.watched));
        }
        let maps = |what: String| Err((Rule::Maps, format!("{what} in {view:?}")));
        if self.contacts != view.members() {
            return maps(format!("contacts {:?}", self.contacts));
        }
        if self.counted.is_some_and(|counted| counted != view.len()) {
            return maps(format!("acknowledgements of {:?} members", self.counted));
        }
        if let Some(origin) = self.origins.iter().find(|origin| !view.members().contains(origin)) {
            return maps(format!("blocks of {origin:?}"));
        }
        if let Some((map, node)) = self.kept.iter().find(|(_, node)| view.rank(*node).is_none()) {
            return maps(format!("the {map} keep something of {node}"));
        }
        Ok(())
    }
}

/// When each node was looked through.
#[derive(Debug, Default)]
pub(super) struct Looks {
    looks: BTreeMap<NodeId, (ViewId, u64, u32)>,
}

impl Looks {
    pub(super) fn after_call<P: Host>(&mut self, node: NodeId, host: &P) -> Result<(), Broken> {
        let group = host.group();
        if !matches!(group.role(), Role::Member | Role::Leaving) {
            return Ok(());
        }
        let (view, incarnation) = (group.view(), group.member().incarnation);
        let broadcast = group.chain().view().id();
        if broadcast != view.id() {
            let what = format!("the broadcast is in {broadcast}, the agreement in {}", view.id());
            return Err((Rule::Layers, what));
        }
        let look = self.looks.entry(node).or_default();
        let is_due = (look.0, look.1) != (view.id(), incarnation) || look.2 == 0;
        if is_due {
            *look = (view.id(), incarnation, CALLS);
            return host.layers().check(node, view);
        }
        look.2 -= 1;
        Ok(())
    }
}
