//! A broken hop between live members resumes by link sequence.
//!
//! While the stream is down, blocks wait in the hop's queue. When it is up again, the sender asks
//! for the link number to resume from. It asks on the stream, ahead of all new frames; the receiver
//! answers by datagram.

use super::counters;
use super::link::{LinkState, Sent, known_link, link_to};
use super::message::Message;
use super::{Chain, Cx, Timer};
use crate::core::{Lane, NodeId};

impl Chain {
    pub(super) fn ask_resync(&mut self, cx: &mut Cx<'_>) {
        let view = self.view.id();
        let broken = self.out_links.iter().filter(|link| link.state == LinkState::Resyncing);
        for link in broken {
            cx.send(link.peer, Lane::Stream, Message::Resync { view, next: link.next() });
            self.resync.set_after(cx, cx.shared.resync_after, Timer::Resync);
        }
    }

    pub(super) fn resync_timer(&mut self, cx: &mut Cx<'_>) {
        if self.resync.fired(cx.now) {
            self.ask_resync(cx);
        }
    }

    pub(super) fn answer_resync(&mut self, cx: &mut Cx<'_>, from: NodeId, next: u64) {
        let link = link_to(&mut self.in_links, from);
        if next < link.expected {
            return cx.count(counters::RESYNC_OUT_OF_RANGE, 1);
        }
        let message = Message::Resume { view: self.view.id(), next: link.expected };
        cx.send(from, Lane::Datagram, message);
    }

    /// The peer says where the hop goes on: sends again what it lacks.
    pub(super) fn resume(&mut self, cx: &mut Cx<'_>, from: NodeId, next: u64) {
        let Some(link) = known_link(&mut self.out_links, from) else {
            return;
        };
        if !link.acknowledge(next) {
            return cx.count(counters::RESUME_OUT_OF_RANGE, 1);
        }
        if link.state != LinkState::Resyncing {
            return; // A second answer to one question.
        }
        link.state = LinkState::Open;
        let again: Vec<(u64, Sent)> = link.unacknowledged().collect();
        cx.count(counters::HOP_RESUMED, 1);
        cx.count(counters::RESENT, again.len() as u64);
        for (number, sent) in again {
            self.send_noted(cx, from, number, sent);
        }
        self.serve(cx, from);
        self.inject(cx);
        self.note_admission(cx);
    }
}
