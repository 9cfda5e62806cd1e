//! Status: a host says what it runs, to any host that asks.
//!
//! A host answers with a [`Report`]: its services, and for each its view and what it has counted.
//! An asker looks for the host by its address, asks once it is up, and asks again until it has the
//! answer. Both run this protocol, as a service of its own on the port of the host.

pub mod counters;
mod message;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use message::{
    COUNTS_MAX, Count, KIND_BYTES_MAX, MEMBERS_MAX, Message, NAME_BYTES_MAX, REPORT_BYTES_MAX,
    Report, SERVICES_MAX, ServiceReport, Standing,
};

use crate::core::{Context, Lane, NodeId, PeerState, Protocol};
use counters::{ANSWER_UNASKED, ASK_REFUSED};

/// Most questions that wait for the application. Further ones are refused.
pub const ASKS_MAX: usize = 16;
/// How long an asker waits before it asks again: an answer is lost with the stream that it is on,
/// such as the one to an earlier run of the asker.
pub const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Most hosts from which an asker awaits an answer.
const ASKED_MAX: usize = 64;

/// A host that answers, or one that asks.
#[derive(Debug, Default)]
pub struct Status {
    // Questions that the application has not answered, in the order in which they came.
    waiting: Vec<(NodeId, u64)>,
    // The number of this host's own question.
    asking: Option<u64>,
    // The hosts whose answers to it are awaited.
    asked: Vec<NodeId>,
    // The timer is armed.
    is_armed: bool,
}

/// What the application wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Ask each host that comes up from now on. The number names the question; another one replaces
    /// it.
    Ask {
        /// The number.
        number: u64,
    },
    /// Answer a question of [`Event::Asked`].
    Answer {
        /// The host that asked.
        to: NodeId,
        /// The number of its question.
        number: u64,
        /// The answer.
        report: Report,
    },
}

/// An event for the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A host asks. The application answers by [`Command::Answer`].
    Asked {
        /// The host.
        from: NodeId,
        /// The number of its question.
        number: u64,
    },
    /// A host is up and was asked.
    Found {
        /// The host.
        host: NodeId,
    },
    /// A host has answered this host's question.
    Answered {
        /// The host.
        from: NodeId,
        /// Its answer.
        report: Report,
    },
}

impl Status {
    /// A host to which no question has come, and that asks none.
    pub fn new() -> Status {
        Status::default()
    }

    fn arm(&mut self, cx: &mut Context<'_, Self>) {
        if !self.is_armed && !self.asked.is_empty() {
            self.is_armed = true;
            cx.set_timer(ASK_AGAIN_AFTER, ());
        }
    }
}

impl Protocol for Status {
    type Message = Message;
    type Timer = ();
    type Command = Command;
    type Event = Event;
    type Shared = ();

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        match (state, self.asking) {
            (PeerState::Up { .. }, Some(number)) => {
                if !self.asked.contains(&peer) && self.asked.len() < ASKED_MAX {
                    self.asked.push(peer);
                }
                cx.send(peer, Lane::Stream, Message::Ask { number });
                cx.deliver(Event::Found { host: peer });
                self.arm(cx);
            }
            // The stream on which it would get its answer is gone.
            (PeerState::Down, _) => self.waiting.retain(|&(from, _)| from != peer),
            _ => {}
        }
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Ask { number } => {
                if self.waiting.contains(&(from, number)) || self.waiting.len() >= ASKS_MAX {
                    cx.count(ASK_REFUSED, 1);
                    return;
                }
                self.waiting.push((from, number));
                cx.deliver(Event::Asked { from, number });
            }
            Message::Answer { number, report } => {
                let place = self.asked.iter().position(|&asked| asked == from);
                let Some(place) = place.filter(|_| self.asking == Some(number)) else {
                    return cx.count(ANSWER_UNASKED, 1);
                };
                self.asked.swap_remove(place);
                cx.deliver(Event::Answered { from, report });
            }
        }
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        self.is_armed = false;
        for &host in &self.asked {
            let number = self.asking.expect("hosts are asked a question");
            cx.send(host, Lane::Stream, Message::Ask { number });
        }
        self.arm(cx);
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Ask { number } => {
                self.asking = Some(number);
                self.asked.clear();
            }
            Command::Answer { to, number, report } => {
                let place = self.waiting.iter().position(|&asked| asked == (to, number));
                // It may have gone since.
                if let Some(place) = place {
                    self.waiting.remove(place);
                    cx.send(to, Lane::Stream, Message::Answer { number, report });
                }
            }
        }
    }

    fn event_bytes(event: &Event) -> usize {
        match event {
            Event::Asked { .. } | Event::Found { .. } => size_of::<Event>(),
            Event::Answered { report, .. } => size_of::<Event>() + report.bytes(),
        }
    }
}
