//! Missing packets, by when they are given up.

use std::collections::VecDeque;
use std::time::Duration;

use paceline_proto::core::{Context, Instant, Protocol};
use paceline_proto::parts::deadline::Deadline;
use paceline_proto::slingshot::Event;

use super::{Key, Store};

/// Packets that are missing, each with the instant at which it is given up.
#[derive(Debug, Default)]
pub(crate) struct Overdue {
    /// In that order. Some have come meanwhile.
    missed: VecDeque<(Instant, Key)>,
    deadline: Deadline,
}

impl Overdue {
    /// Takes over packets found missing since the last call. They are given up after `lost_after`,
    /// which is the same at each call.
    pub(crate) fn note<P: Protocol>(
        &mut self,
        cx: &Context<'_, P>,
        store: &mut Store,
        lost_after: Duration,
    ) {
        let due = cx.now + lost_after;
        let missed = std::mem::take(&mut store.missed);
        self.missed.extend(missed.into_iter().map(|key| (due, key)));
        if self.missed.len() > 2 * store.packets_missing() + 64 {
            self.missed.retain(|&(_, key)| store.missing(key).is_some());
        }
    }

    /// Arms `timer` for the first packet to be given up.
    pub(crate) fn arm<P: Protocol>(&mut self, cx: &mut Context<'_, P>, timer: P::Timer) {
        if let Some(&(due, _)) = self.missed.front() {
            self.deadline.set(cx, due, timer);
        }
    }

    /// The timer has fired: reports packets lost that have been missing for too long.
    pub(crate) fn give_up<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        store: &mut Store,
    ) {
        if !self.deadline.fired(cx.now) {
            return;
        }
        while let Some(&(_, key)) = self.missed.front().filter(|(due, _)| *due <= cx.now) {
            self.missed.pop_front();
            if store.missing(key).is_some() {
                store.abandon(cx, key);
            }
        }
    }
}
