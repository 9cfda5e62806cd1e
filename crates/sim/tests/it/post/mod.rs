//! A protocol that only sends numbered parcels and listens, and what its nodes heard.

use std::fmt;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use paceline_proto::core::{
    Context, DecodeError, GroupId, Instant, Lane, Membership, NodeId, Payload, PeerState, Protocol,
    Wire, take_u64,
};
use paceline_sim::{Observer, Reply};

pub const A: NodeId = NodeId(0);
pub const B: NodeId = NodeId(1);
pub const C: NodeId = NodeId(2);
pub const G: GroupId = GroupId(9);

/// A numbered message of any length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    pub number: u64,
    pub filling: Payload,
}

const PARCEL_HEAD_BYTES: usize = 8;

impl Wire for Parcel {
    fn wire_len(&self) -> usize {
        PARCEL_HEAD_BYTES + self.filling.len()
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.put_u64(self.number);
        Some(&self.filling)
    }

    fn decode(bytes: &mut Bytes) -> Result<Parcel, DecodeError> {
        Ok(Parcel { number: take_u64(bytes)?, filling: Payload::Bytes(std::mem::take(bytes)) })
    }
}

impl fmt::Display for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parcel {}", self.number)
    }
}

/// Sends on command and reports what it hears.
#[derive(Default)]
pub struct Post;

#[derive(Clone, Debug)]
pub enum Order {
    /// Send parcels numbered `first..`, this many, of this many bytes each on the wire.
    Send { to: NodeId, lane: Lane, first: u64, parcels: u64, bytes: usize },
    /// Send parcels to the group `G`.
    SendGroup { first: u64, parcels: u64, bytes: usize },
    /// Join or leave the group `G`.
    SetMembership(Membership),
    /// Ask to hear when the backlog has fallen.
    Watch { to: NodeId, below_bytes: usize },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Parcel { from: NodeId, number: u64 },
    Drained { backlog_bytes: usize },
    Peer { peer: NodeId, state: PeerState },
    Started { incarnation: u64 },
}

impl Protocol for Post {
    type Message = Parcel;
    type Timer = ();
    type Command = Order;
    type Event = Heard;
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        cx.deliver(Heard::Started { incarnation: cx.incarnation });
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        cx.deliver(Heard::Peer { peer, state });
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, parcel: Parcel) {
        cx.deliver(Heard::Parcel { from, number: parcel.number });
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, order: Order) {
        match order {
            Order::Send { to, lane, first, parcels, bytes } => {
                for number in first..first + parcels {
                    let filling = Payload::Zeros((bytes - PARCEL_HEAD_BYTES) as u32);
                    cx.send(to, lane, Parcel { number, filling });
                }
            }
            Order::SendGroup { first, parcels, bytes } => {
                for number in first..first + parcels {
                    let filling = Payload::Zeros((bytes - PARCEL_HEAD_BYTES) as u32);
                    cx.send_group(G, Parcel { number, filling });
                }
            }
            Order::SetMembership(Membership::Joined) => cx.join_group(G),
            Order::SetMembership(Membership::Left) => cx.leave_group(G),
            Order::Watch { to, below_bytes } => cx.notify_drained(to, below_bytes),
        }
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        cx.deliver(Heard::Drained { backlog_bytes: cx.backlog_bytes(to) });
    }
}

#[derive(Default)]
pub struct Log(pub Vec<(Instant, NodeId, Heard)>);

impl Observer<Post> for Log {
    fn on_event(&mut self, at: Instant, node: NodeId, heard: &Heard, _: &mut Reply<Post>) {
        self.0.push((at, node, heard.clone()));
    }
}

impl Log {
    /// When and what `node` heard from `from`.
    pub fn parcels(&self, node: NodeId, from: NodeId) -> Vec<(Duration, u64)> {
        let heard = self.0.iter().filter_map(|(at, at_node, heard)| match heard {
            Heard::Parcel { from: sender, number } if (*at_node, *sender) == (node, from) => {
                Some((at.since(Instant::ZERO), *number))
            }
            _ => None,
        });
        heard.collect()
    }

    pub fn drained(&self) -> Vec<(Duration, usize)> {
        let drained = self.0.iter().filter_map(|(at, _, heard)| match heard {
            Heard::Drained { backlog_bytes } => Some((at.since(Instant::ZERO), *backlog_bytes)),
            _ => None,
        });
        drained.collect()
    }
}

/// Orders a node to send `parcels` parcels, each of `bytes` bytes on the wire.
pub fn send(to: NodeId, lane: Lane, first: u64, parcels: u64, bytes: usize) -> Order {
    Order::Send { to, lane, first, parcels, bytes }
}
