//! Messages whose answers do not come: they are sent again, or another node is asked.

use std::time::Duration;

use super::command::Role;
use super::config::SENDS;
use super::counters;
use super::exchange::{Cause, Exchange};
use super::message::Body;
use super::{Cx, Overlay, Timer};
use crate::core::{Instant, NodeId};

/// How long a node may keep reporting that it is still writing.
const WRITE_WITHIN: Duration = Duration::from_secs(60);

impl Overlay {
    /// Looks at everything that may have waited for too long.
    pub(super) fn handle_due(&mut self, cx: &mut Cx<'_>) {
        let overdue = self.exchanges.iter().filter(|(_, exchange)| exchange.due_at <= cx.now);
        let overdue: Vec<u32> = overdue.map(|(number, _)| number).collect();
        for number in overdue {
            self.handle_overdue(cx, number);
        }
        self.handle_requests_due(cx);
        self.handle_join_due(cx);
        self.handle_leave_due(cx);
        // Messages sent from now on are overdue after `patience` at the earliest.
        let patience = self.patience(cx.shared);
        let exchanges = self.exchanges.iter().map(|(_, exchange)| exchange.due_at);
        let mut next = exchanges.min().unwrap_or(Instant::MAX);
        if let Some(state) = &self.state {
            let requests = state.requests.iter().map(|(_, request)| request.due_at);
            next = next.min(requests.min().unwrap_or(Instant::MAX));
            if state.joining.is_some() || self.role == Role::Leaving {
                next = next.min(cx.now + patience);
            }
        }
        if next < Instant::MAX {
            self.is_due_armed = true;
            cx.set_timer(next.since(cx.now).clamp(patience / 8, patience), Timer::Due);
        }
    }

    fn handle_overdue(&mut self, cx: &mut Cx<'_>, number: u32) {
        let Some(exchange) = self.exchanges.get(number) else {
            return;
        };
        if exchange.sends >= SENDS {
            let exchange = self.exchanges.remove(number).expect("it was there");
            cx.count(counters::UNANSWERED, 1);
            return self.unanswered(cx, exchange);
        }
        let (to, body) = (exchange.to, exchange.body.clone());
        let patience = self.patience_for(cx.shared, &body);
        let exchange = self.exchanges.get_mut(number).expect("it was there");
        exchange.sends += 1;
        exchange.due_at = cx.now + patience * (1 << exchange.sends.min(4)) / 2;
        cx.count(counters::RESENT, 1);
        self.send(cx, to, body);
    }

    /// A node that was asked again is still writing: its replicas or its disk are slow. This node
    /// repeats the same write for up to [`WRITE_WITHIN`]; a new attempt would add to the load.
    pub(super) fn wait_on(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u32) {
        let exchange = self.exchanges.get_mut(number);
        let Some(exchange) = exchange.filter(|exchange| exchange.to == from) else {
            return cx.count(counters::STALE, 1);
        };
        let waits = |body: &Body| {
            use Body::{Copy, CopyIf, Put, PutIf};
            matches!(body, Put { .. } | PutIf { .. } | Copy { .. } | CopyIf { .. })
        };
        if !waits(&exchange.body) {
            return cx.count(counters::BAD_ANSWER, 1);
        }
        let (give_up_at, sends_max) = (exchange.sent_at + WRITE_WITHIN, SENDS);
        let is_last = exchange.due_at >= give_up_at;
        exchange.due_at = exchange.due_at.min(give_up_at);
        exchange.sends = if is_last { sends_max } else { exchange.sends.min(sends_max - 1) };
    }

    /// A node did not answer, however often it was asked.
    pub(super) fn unanswered(&mut self, cx: &mut Cx<'_>, exchange: Exchange) {
        match exchange.cause {
            Cause::Lost => {}
            // A responsible node that is slow, because it waits for others, has not failed.
            _ if matches!(
                exchange.body,
                Body::Put { .. } | Body::PutIf { .. } | Body::Scan { .. }
            ) => {}
            _ => {
                self.forget(cx, exchange.to);
                let now = cx.now;
                self.state().upkeep.add_lost(exchange.to, now);
                // The peers of a joiner may have failed long ago.
                if self.is_member() {
                    self.storage.note_loss(cx, exchange.to);
                }
            }
        }
        match exchange.cause {
            Cause::Relay { from } => {
                if let Body::Route(route) = exchange.body {
                    self.reroute(cx, from, route, exchange.tries);
                }
            }
            Cause::Request(name) => match exchange.body {
                Body::Find { .. } => self.find_elsewhere(cx, name, exchange),
                Body::Put { items, .. } => {
                    self.act_unanswered(cx, name, items.iter().map(|item| item.key));
                }
                Body::PutIf { items, .. } => {
                    self.act_unanswered(cx, name, items.iter().map(|it| it.item.key));
                }
                Body::Scan { range: (key, _), .. } | Body::Stat { key, .. } => {
                    self.act_unanswered(cx, name, std::iter::once(key));
                }
                _ => {}
            },
            Cause::Job(name) => self.with_storage(cx, |storage, cx, routing| {
                storage.unanswered(cx, routing, name, &exchange.body);
            }),
            Cause::Ping(newcomer) => {
                self.router.learn(newcomer);
            }
            Cause::Table => self.ask_unanswered(cx),
            Cause::Sync | Cause::Lost => {}
        }
    }
}
