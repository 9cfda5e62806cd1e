//! C7: the frames that each hop carries.

use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_proto::chain;
use paceline_proto::core::{Lane, NodeId, PeerState, View, ViewId};
use paceline_proto::group::{Group, Message, Role};

use super::super::hops::{Hop, Passage};
use super::{Broken, Host, Rule};
use paceline_sim::Input;

/// What all hops carry.
#[derive(Debug, Default)]
pub(super) struct Transmissions {
    senders: BTreeMap<NodeId, Sender>,
    // Of the present call: the receiver, the view, and what was sent. Which view the sender was in
    // is known when the call is over.
    sends: Vec<(NodeId, ViewId, Sent)>,
    // The views that began within it.
    begun: Vec<Arc<View>>,
}

impl Transmissions {
    pub(super) fn before_call<P: Host>(&mut self, node: NodeId, input: &Input<'_, P>) {
        match input {
            Input::Peer { peer, state: PeerState::Up { .. } } => {
                let sender = self.senders.entry(node).or_default();
                sender.hops.entry(*peer).or_default().resume();
            }
            Input::Message { from, message: Message::Fetch { view, origin, from: next, to } } => {
                let sender = self.senders.entry(node).or_default();
                if sender.view.as_ref().is_some_and(|present| present.id() == *view) {
                    let (by, origin, next, end) = (*from, *origin, *next, *to);
                    sender.fetches.push(Fetch { by, origin, next, end });
                }
            }
            _ => {}
        }
    }

    pub(super) fn note_send(
        &mut self,
        to: NodeId,
        lane: Lane,
        message: &Message,
    ) -> Result<(), Broken> {
        let (view, sent, is_on_stream) = match message {
            Message::Chain(chain::Message::Data(frame)) => {
                let (link, passage) = (frame.link, Passage::from(frame));
                (frame.view, Some(Sent::Block { link, passage }), true)
            }
            Message::Chain(chain::Message::Skip { view, link }) => {
                (*view, Some(Sent::Skip { link: *link }), true)
            }
            Message::Chain(message) => (message.view(), None, message.is_on_stream()),
            Message::Flushed(frame) => {
                let (origin, seq) = (frame.origin, frame.seq);
                (frame.view, Some(Sent::Flushed { origin, seq }), true)
            }
            _ => return Ok(()),
        };
        if is_on_stream != (lane == Lane::Stream) {
            return Err((Rule::Transmission, format!("{message} to {to} on the wrong lane")));
        }
        self.sends.extend(sent.map(|sent| (to, view, sent)));
        Ok(())
    }

    pub(super) fn note_view(&mut self, view: &Arc<View>) {
        self.begun.push(view.clone());
    }

    /// A node crashed, perhaps within a handler call: the sends of that call are not checked.
    pub(super) fn note_crash(&mut self) {
        self.sends.clear();
        self.begun.clear();
    }

    /// `freed` says up to where the member had freed the blocks of an origin before the call.
    pub(super) fn after_call(
        &mut self,
        node: NodeId,
        group: &Group,
        freed: impl Fn(ViewId, usize) -> u64,
    ) -> Result<(), Broken> {
        let is_member = matches!(group.role(), Role::Member | Role::Leaving);
        let present = is_member.then(|| group.view());
        let incarnation = group.member().incarnation;
        let sender = self.senders.entry(node).or_default();
        let mut result = Ok(());
        let mut begun = std::mem::take(&mut self.begun);
        for (to, view, sent) in self.sends.drain(..) {
            // A member that is a quorum by itself may end a view in the call in which the view
            // began.
            if sender.view.as_ref().is_none_or(|now| now.id() != view)
                && let Some(place) = begun.iter().position(|begun| begun.id() == view)
            {
                sender.enter(begun.drain(..=place).next_back(), incarnation);
            }
            if result.is_ok() {
                result = sender.check(node, to, view, sent, &freed);
            }
        }
        let is_same = match (&sender.view, present) {
            (Some(view), Some(present)) => {
                (view.id(), sender.incarnation) == (present.id(), incarnation)
            }
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            sender.enter(present.cloned(), incarnation);
        }
        result.map_err(|what| (Rule::Transmission, what))
    }
}

/// The part of a call's sends that is checked.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Block { link: u64, passage: Passage },
    Skip { link: u64 },
    Flushed { origin: u32, seq: u64 },
}

/// Blocks that a member was asked for, and has not sent.
#[derive(Debug)]
struct Fetch {
    by: NodeId,
    origin: u32,
    next: u64,
    end: u64,
}

/// The sending end of a member's hops, in its present view.
#[derive(Debug, Default)]
struct Sender {
    view: Option<Arc<View>>,
    incarnation: u64,
    hops: BTreeMap<NodeId, Hop>,
    fetches: Vec<Fetch>,
}

impl Sender {
    fn enter(&mut self, view: Option<Arc<View>>, incarnation: u64) {
        *self = Sender { view, incarnation, ..Sender::default() };
    }

    fn check(
        &mut self,
        node: NodeId,
        to: NodeId,
        view: ViewId,
        sent: Sent,
        freed: impl Fn(ViewId, usize) -> u64,
    ) -> Result<(), String> {
        let present = self.view.as_ref().filter(|present| present.id() == view);
        let Some(present) = present else {
            let present = self.view.as_ref().map_or(ViewId(0), |present| present.id());
            return Err(format!("a frame of {view} to {to} by a member of {present}: {sent:?}"));
        };
        let (Some(from_rank), Some(to_rank)) = (present.rank(node), present.rank(to)) else {
            return Err(format!("a frame to {to}, not from member to member of {view}"));
        };
        let hop = self.hops.entry(to).or_default();
        match sent {
            Sent::Block { link, passage } => {
                let Passage { origin, seq, .. } = passage;
                let broken = |what: &str| {
                    format!("block {seq} of rank {origin} to {to}, frame {link}, {what}")
                };
                if let Some(wrong) = passage.wrong(present.len(), from_rank, to_rank) {
                    return Err(broken(wrong));
                }
                let is_new = hop.note_link(link).map_err(|what| broken(&what))?;
                if is_new && !hop.is_first(origin, seq, freed(view, origin as usize)) {
                    return Err(broken("sent a second time under a new link number"));
                }
            }
            Sent::Skip { link } => {
                hop.note_link(link).map_err(|what| format!("frame {link} to {to} {what}"))?;
            }
            Sent::Flushed { origin, seq } => {
                let is_it = |it: &Fetch| {
                    it.by == to && it.origin == origin && (it.next..it.end).contains(&seq)
                };
                let Some(place) = self.fetches.iter().position(is_it) else {
                    let name = format!("block {seq} of rank {origin}");
                    return Err(format!("{name} flushed to {to}, which did not ask for it"));
                };
                self.fetches[place].next = seq + 1;
                if seq + 1 == self.fetches[place].end {
                    self.fetches.swap_remove(place);
                }
            }
        }
        Ok(())
    }
}
