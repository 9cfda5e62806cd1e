//! What the members of groups have in common, whatever they send.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use paceline_net::{Hosted, Node, Stats, WeakNode};
use paceline_proto::core::{MembershipCommand, NodeId, View};
use paceline_proto::group::Event;

use crate::leaving::{LeaveError, Leaving, leave};
use crate::lock;
use crate::status::{self, Attached, Described, Describing};

/// What [`Group`](crate::Group) and [`Multicast`](crate::Multicast) have in common: a member's
/// handle to its node and its view. Clones lead to the same member.
pub struct MemberHandle<P: Hosted> {
    node: Node<P>,
    id: NodeId,
    standing: Arc<Standing>,
    leave_within: Duration,
}

impl<P: Hosted> Clone for MemberHandle<P> {
    fn clone(&self) -> Self {
        let (node, standing) = (self.node.clone(), self.standing.clone());
        MemberHandle { node, id: self.id, standing, leave_within: self.leave_within }
    }
}

impl<P: Hosted<Command: From<MembershipCommand>>> MemberHandle<P> {
    pub(crate) fn new(node: Node<P>, id: NodeId, leave_within: Duration) -> MemberHandle<P> {
        MemberHandle { node, id, standing: Arc::default(), leave_within }
    }

    /// This member's id.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The address that the host listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.node.local_addr()
    }

    /// The latest view that the events reported.
    pub fn view(&self) -> Option<Arc<View>> {
        self.standing.view()
    }

    /// The members of that view, oldest first.
    pub fn members(&self) -> Vec<NodeId> {
        self.view().map_or(Vec::new(), |view| view.members().iter().map(|m| m.node).collect())
    }

    /// Leaves the group once accepted messages have reached the others, then ends this member. The
    /// last event is `Left`. The application should read the events meanwhile: messages that wait
    /// for this member to read are part of what must reach the others.
    ///
    /// # Errors
    /// If the others do not let it go in time
    /// ([`ServiceBuilder::leave_within`](crate::ServiceBuilder::leave_within)), or it has ended
    /// already. The member has ended in any case. Dropping the future does not revoke the leave.
    pub async fn leave(&self) -> Result<(), LeaveError> {
        leave(&self.node, self.leave_within).await
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.node.stats()
    }

    /// The node underneath.
    pub fn node(&self) -> &Node<P> {
        &self.node
    }

    /// Ends this member, without leaving. The others continue without it: the host tells them if it
    /// runs on, else they detect a crash. The last messages of this member may be lost. If it is
    /// the last service of a host that has no other handle, the host stops: it sends its backlog,
    /// for a bounded time. Else the backlog leaves while the host runs.
    pub async fn stop(&self) {
        self.node.stop().await;
    }

    pub(crate) fn standing(&self) -> &Arc<Standing> {
        &self.standing
    }

    /// What the host knows of the member, without keeping it.
    pub(crate) fn registered(&self) -> Arc<dyn Attached> {
        let (standing, node) = (Arc::downgrade(&self.standing), self.node.downgrade());
        Arc::new(Registered { standing, node, leave_within: self.leave_within })
    }
}

/// Whether a node can send to its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is not in a view.
    #[default]
    Outside,
    Member,
    /// A member of a view in which too few members are reachable to decide anything.
    WithoutPrimary,
}

/// A node's standing in its group after the latest event that the application has read.
#[derive(Debug, Default)]
pub(crate) struct Standing(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    view: Option<Arc<View>>,
    role: Role,
}

impl Standing {
    pub(crate) fn role(&self) -> Role {
        lock(&self.0).role
    }

    pub(crate) fn view(&self) -> Option<Arc<View>> {
        lock(&self.0).view.clone()
    }

    pub(crate) fn note(&self, event: &Event) {
        let role = match event {
            Event::View(_) | Event::RegainedPrimary => Role::Member,
            Event::LostPrimary => Role::WithoutPrimary,
            Event::Excluded | Event::Left => Role::Outside,
            _ => return,
        };
        let mut state = lock(&self.0);
        state.role = role;
        if let Event::View(view) = event {
            state.view = Some(view.clone());
        }
    }
}

/// A member, as its host knows it.
struct Registered<P: Hosted> {
    standing: Weak<Standing>,
    node: WeakNode<P>,
    leave_within: Duration,
}

impl<P: Hosted<Command: From<MembershipCommand>>> Attached for Registered<P> {
    fn describe(&self) -> Describing<'_> {
        Box::pin(std::future::ready(self.standing.upgrade().map(|standing| standing.describe())))
    }

    fn leave(&self) -> Leaving<'_> {
        Box::pin(async {
            let node = self.node.upgrade().ok_or(LeaveError::Closed)?;
            leave(&node, self.leave_within).await
        })
    }
}

impl Standing {
    fn describe(&self) -> Described {
        let standing = match self.role() {
            Role::Outside => status::Standing::Outside,
            Role::Member => status::Standing::Member,
            Role::WithoutPrimary => status::Standing::WithoutPrimary,
        };
        let view = self.view();
        let members = view.iter().flat_map(|view| view.members()).map(|member| member.node);
        Described {
            standing,
            view: view.as_ref().map_or(0, |view| view.id().0),
            members: members.collect(),
            counts: Vec::new(),
        }
    }
}
