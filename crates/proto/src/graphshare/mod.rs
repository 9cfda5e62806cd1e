//! A graph that several servers share: each has a part of its vertices, with their rows.
//!
//! A client knows the whole graph and supplies each server with its part. On its request servers
//! change rows of their vertices, and hand vertices over to each other. A server that is asked for
//! a vertex of another one says which server has it.
//!
//! [`GraphShare`] is a state machine inside another one, its [`Host`], which walks over the graph.
//! It needs of the host that it carries messages and events, hands in those that arrive, and calls
//! [`handle_timer`](GraphShare::handle_timer) in time. It offers the host the node's [`Part`] of
//! the graph, and tells it when that was [replaced](Replaced).

pub mod counters;
mod editor;
mod graph;
mod holder;
mod interface;
mod message;
mod part;
mod rows;
mod service;
mod supplier;
#[cfg(test)]
mod tests;

use crate::core::{Context, Instant, Lane, NodeId, Protocol};
use editor::Editor;
use holder::Holder;
use supplier::Supplier;

pub use graph::{Adjacency, Alias, AliasScratch, Graph, GraphError, Row, Vertex};
pub use interface::{Edit, EditError, GraphCommand, GraphEvent, Supply, SupplyFault};
pub use message::{
    EDITS_MAX, GRAPH_MESSAGE_BYTES_MAX, GraphMessage, GraphPlan, Holding, OpenRequest, PartChunk,
    PartPosition, VERTICES_MAX,
};
pub use part::{EditOutcome, Owners, Part, TransferReply, VertexTransfer};
pub use rows::{EditFault, OwnRow, VertexChange};
pub use service::{BundleConfig, Discipline, PassConfig, QueueConfig};

/// The protocol around a [`GraphShare`]: it carries messages and events about the graph.
pub trait Host: Protocol {
    /// The message that carries one about the graph of this plan.
    fn graph_message(plan: u64, message: GraphMessage) -> Self::Message;

    /// The event that carries one about the graph.
    fn graph_event(event: GraphEvent) -> Self::Event;
}

/// Whether the host uses the graph at present. A client checks its servers only meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// It does not.
    Idle,
    /// It does.
    InUse,
}

/// The node has another part from now on: what the host did over the old one is void.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replaced {
    /// How walkers of the new graph pass the server; none for what the server is set to.
    pub pass: Option<PassConfig>,
}

/// A node's share in a graph: its part, and its work on it.
#[derive(Debug)]
pub struct GraphShare {
    local: LocalPart,
    role: Role,
    editor: Editor,
}

/// The node's part of the graph.
#[derive(Debug)]
struct LocalPart {
    /// The plan by which the part was supplied; 0 if it was there from the start, or if there is no
    /// part.
    plan: u64,
    part: Part,
    /// Most bytes of a graph that comes from a client, and again of changes to it.
    bytes_max: usize,
}

/// What a node does for the graph.
#[derive(Debug)]
enum Role {
    /// A server that has its part from the start. It takes no other, and its rows do not change.
    Fixed,
    /// A server that takes its part from a client.
    Holder(Holder),
    /// A client. It has a supplier from its first supply on, until that fails.
    Client(Option<Supplier>),
}

impl GraphShare {
    /// Of a server that has this part from the start. `bytes_max`: most bytes of changes to it.
    pub fn fixed(part: Part, bytes_max: usize) -> GraphShare {
        let local = LocalPart { plan: 0, part, bytes_max };
        GraphShare { local, role: Role::Fixed, editor: Editor::default() }
    }

    /// Of a server `me` that waits for a client to supply its part. `bytes_max`: most bytes of a
    /// graph, and again of changes to it.
    pub fn awaiting(me: NodeId, bytes_max: usize) -> GraphShare {
        let role = Role::Holder(Holder::default());
        GraphShare { role, ..GraphShare::fixed(Part::nothing(me), bytes_max) }
    }

    /// Of a client `me`, which has no vertices and supplies servers with their parts. `bytes_max`:
    /// most bytes of what it learns of moved vertices.
    pub fn client(me: NodeId, bytes_max: usize) -> GraphShare {
        GraphShare { role: Role::Client(None), ..GraphShare::fixed(Part::nothing(me), bytes_max) }
    }

    /// A driver has found which node is at the address of a server.
    pub fn handle_peer_up<H: Host>(&mut self, cx: &mut Context<'_, H>, peer: NodeId) {
        if let Role::Client(None) = self.role {
            send(cx, peer, Lane::Datagram, 0, GraphMessage::Who);
        }
    }

    /// A message about the graph of this plan.
    pub fn handle_message<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        from: NodeId,
        plan: u64,
        message: GraphMessage,
    ) -> Option<Replaced> {
        let local = &mut self.local;
        match (message, &mut self.role) {
            (GraphMessage::Who, Role::Holder(holder)) => holder.announce(cx, from, local.plan),
            (GraphMessage::Who, _) => {}
            (GraphMessage::Here(address), Role::Client(_)) => {
                cx.deliver(H::graph_event(GraphEvent::Found(from, address, plan)));
            }
            (GraphMessage::Open(request), role) if request.plan.id == plan => {
                let Role::Holder(holder) = role else {
                    say_held(cx, from, plan, Holding::Refused);
                    return None;
                };
                return holder.on_open(cx, local, from, request);
            }
            (GraphMessage::Held(holding), Role::Client(Some(supplier))) => {
                let fault = supplier.on_held(cx, local, from, plan, holding).err()?;
                return Some(self.give_up(cx, fault));
            }
            (GraphMessage::Held(_), _) => {}
            (GraphMessage::Chunk(chunk), Role::Holder(holder)) => {
                return holder.on_chunk(cx, local, from, plan, &chunk);
            }
            // All else is about the graph that is here.
            (message, _) if matches!(message, GraphMessage::Ask) || !local.is_of(plan) => {
                say_held(cx, from, plan, self.holding(plan));
            }
            (GraphMessage::Edits(batch, edits), Role::Holder(holder)) => {
                holder.on_edits(cx, local, from, batch, &edits);
            }
            (GraphMessage::Edited(number, outcomes), _) => {
                self.editor.on_edited(cx, local, from, number, &outcomes);
            }
            _ if !local.part.is_server(from) => cx.count(counters::UPKEEP_REFUSED, 1),
            (GraphMessage::Give(transfer), Role::Holder(_)) => {
                holder::on_give(cx, local, from, transfer);
            }
            (GraphMessage::Received(vertex, reply), Role::Holder(holder)) => {
                holder.on_received(cx, local, from, vertex, reply);
            }
            // Only a holder waits for such an answer.
            (GraphMessage::Received(..), _) => {}
            (GraphMessage::Moved(places), _) => {
                for (vertex, owner, epoch) in places {
                    local.part.learn(vertex, owner, epoch, local.bytes_max);
                }
            }
            _ => cx.count(counters::UPKEEP_REFUSED, 1),
        }
        None
    }

    /// A command of the application about the graph.
    pub fn handle_command<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        command: GraphCommand,
    ) -> Option<Replaced> {
        match command {
            GraphCommand::Serve(address) => {
                if let Role::Holder(holder) = &mut self.role {
                    holder.set_address(address);
                }
                None
            }
            GraphCommand::Supply(supply) => self.supply(cx, *supply),
            GraphCommand::Edit(id, edits) => {
                self.editor.submit(cx, &self.local, id, edits);
                None
            }
        }
    }

    /// Asks servers for their parts, and sends again what was not answered.
    pub fn handle_timer<H: Host>(&mut self, cx: &mut Context<'_, H>, usage: Usage) {
        let usage = self.usage(usage);
        if let Role::Client(Some(supplier)) = &mut self.role {
            supplier.ask_servers(cx, usage);
        }
        self.editor.advance(cx, &self.local);
        if let Role::Holder(holder) = &mut self.role {
            holder.give_again(cx, &self.local);
        }
    }

    /// When [`handle_timer`](GraphShare::handle_timer) has something to do.
    pub fn next_timer(&self, now: Instant, usage: Usage) -> Option<Instant> {
        if self.local.plan == 0 {
            return None;
        }
        let own = match &self.role {
            Role::Fixed | Role::Client(None) => None,
            Role::Holder(holder) => holder.next_at(now),
            Role::Client(Some(supplier)) => supplier.next_at(self.usage(usage)),
        };
        own.into_iter().chain(self.editor.next_at(now)).min()
    }

    /// Tells another node the owners of vertices that it attributed to this one.
    pub fn say_owners<H: Host>(&self, cx: &mut Context<'_, H>, to: NodeId, vertices: &[Vertex]) {
        holder::say_owners(cx, &self.local, to, vertices);
    }

    /// Tells another node, which takes this one for a server of the graph of `plan`, which graph
    /// is here.
    pub fn say_other_graph<H: Host>(&self, cx: &mut Context<'_, H>, to: NodeId, plan: u64) {
        say_held(cx, to, plan, Holding::Other(self.local.plan));
    }

    /// The node's part of the graph.
    #[inline]
    pub fn part(&self) -> &Part {
        &self.local.part
    }

    /// The plan by which the part was supplied; 0 if it was there from the start, or if there is no
    /// part.
    pub fn plan(&self) -> u64 {
        self.local.plan
    }

    /// The application wants servers to have this graph.
    fn supply<H: Host>(&mut self, cx: &mut Context<'_, H>, supply: Supply) -> Option<Replaced> {
        let fault = match &self.role {
            Role::Client(_) => supply.check().err(),
            Role::Fixed | Role::Holder(_) => Some(SupplyFault::NoClient),
        };
        if let Some(fault) = fault {
            cx.deliver(H::graph_event(GraphEvent::SupplyFailed(supply.id, fault)));
            return None;
        }
        let replaced = self.local.replace(supply.id, supply.part(cx.node), None);
        self.role = Role::Client(Some(Supplier::begin(cx, supply)));
        Some(replaced)
    }

    /// Servers do not have the client's graph.
    fn give_up<H: Host>(&mut self, cx: &mut Context<'_, H>, fault: SupplyFault) -> Replaced {
        let id = self.local.plan;
        cx.deliver(H::graph_event(GraphEvent::SupplyFailed(id, fault)));
        self.role = Role::Client(None);
        self.local.replace(0, Part::nothing(cx.node), None)
    }

    /// What there is of a plan.
    fn holding(&self, plan: u64) -> Holding {
        match &self.role {
            Role::Holder(holder) => holder.holding(&self.local, plan),
            Role::Fixed | Role::Client(_) => self.local.holding(plan),
        }
    }

    /// Edits use the graph as well.
    fn usage(&self, of_host: Usage) -> Usage {
        if self.editor.is_busy() { Usage::InUse } else { of_host }
    }
}

impl LocalPart {
    fn replace(&mut self, plan: u64, part: Part, pass: Option<PassConfig>) -> Replaced {
        (self.plan, self.part) = (plan, part);
        Replaced { pass }
    }

    /// True if the part is of this plan, and came by it.
    fn is_of(&self, plan: u64) -> bool {
        plan == self.plan && plan != 0
    }

    fn holding(&self, plan: u64) -> Holding {
        if self.plan == plan { Holding::Whole } else { Holding::Other(self.plan) }
    }
}

fn send<H: Host>(
    cx: &mut Context<'_, H>,
    to: NodeId,
    lane: Lane,
    plan: u64,
    message: GraphMessage,
) {
    cx.send(to, lane, H::graph_message(plan, message));
}

fn say_held<H: Host>(cx: &mut Context<'_, H>, to: NodeId, plan: u64, holding: Holding) {
    send(cx, to, Lane::Datagram, plan, GraphMessage::Held(holding));
}
