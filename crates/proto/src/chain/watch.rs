//! What a member's broadcast can tell of the state of its links. [`crate::group`] decides what
//! follows.

use super::Config;
use super::link::{LinkState, OutLink};
use super::message::Message;
use super::own::Own;
use super::serve::hop_room;
use super::{Chain, Cx};
use crate::core::{Lane, NodeId};

/// The progress of a hop on which an acknowledgement is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HopProgress {
    /// Frames that the peer has acknowledged.
    pub(crate) acknowledged: u64,
    /// Frames that it has not.
    pub(crate) unacknowledged: u64,
    /// The stream is up, as far as the driver knows.
    pub(crate) is_open: bool,
}

impl Chain {
    /// Progress of the hop to `peer`, given the backlog at the driver; `None` while the peer has
    /// acknowledged everything. Blocks that wait while the stream is down count as unacknowledged.
    /// Blocks that wait their turn on an open hop do not, since another hop may hold them up. Own
    /// messages that wait because the driver takes no block for the peer count.
    pub(crate) fn hop_progress(
        &self,
        config: &Config,
        peer: NodeId,
        backlog_bytes: usize,
    ) -> Option<HopProgress> {
        let own_waits = self.own.as_ref().is_some_and(|own| !own.waiting.is_empty());
        let is_held_up = own_waits && hop_room(config, backlog_bytes) == 0;
        let place = self.out_links.binary_search_by_key(&peer, |link| link.peer);
        let Some(link): Option<&OutLink> = place.ok().map(|place| &self.out_links[place]) else {
            let unused = HopProgress { acknowledged: 0, unacknowledged: 0, is_open: true };
            return is_held_up.then_some(unused);
        };
        let is_open = link.state == LinkState::Open;
        let (acknowledged, unacknowledged) = (link.acknowledged(), link.unacknowledged_count());
        let is_due = unacknowledged > 0 || is_held_up || (!is_open && link.has_queue());
        is_due.then_some(HopProgress { acknowledged, unacknowledged, is_open })
    }

    /// The ranks of the other members that have to acknowledge blocks of this one, or keep its
    /// window closed.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = usize> {
        let own = self.own.as_deref();
        let me = self.rank.map(|rank| rank as usize);
        own.into_iter().flat_map(move |own| {
            own.awaited(self.is_window_closed(own)).filter(move |&rank| Some(rank) != me)
        })
    }

    /// Whether messages of this member wait because others have not consumed earlier ones.
    pub(super) fn is_window_closed(&self, own: &Own) -> bool {
        self.probe.is_armed() && !own.waiting.is_empty() && own.is_held_back()
    }

    /// The first own block that some member has not acknowledged, and how many other members have.
    pub(crate) fn first_unstable(&self) -> Option<(u64, usize)> {
        self.own.as_deref().and_then(Own::first_unstable)
    }

    /// Asks a member for an acknowledgement, whatever it has to say.
    pub(crate) fn ask(&self, cx: &mut Cx<'_>, peer: NodeId) {
        let message = Message::Probe { view: self.view.id(), incarnation: cx.incarnation };
        cx.send(peer, Lane::Datagram, message);
    }

    /// Answers a member of the view to which [`Chain::handle_message`] gives no answer about its
    /// hop, and none at all if none of its blocks has arrived. The answer shows that the link
    /// works, and repeats the progress of the hop, in case an acknowledgement was lost.
    pub(crate) fn answer_ask(&mut self, cx: &mut Cx<'_>, from: NodeId, incarnation: u64) {
        let view = self.view.id();
        let rank = self.view.rank(from).map(|rank| rank as u32);
        if rank.is_some_and(|rank| self.flow_index(rank).is_err()) {
            let message = Message::Ack { view, incarnation, received: 0, consumed: 0 };
            cx.send(from, Lane::Datagram, message);
        }
        let place = self.in_links.binary_search_by_key(&from, |link| link.peer);
        if let Ok(place) = place {
            self.in_links[place].send_ack(cx, view);
        }
    }
}
