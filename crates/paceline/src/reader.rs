//! How the events of a member reach its application.

use std::sync::Arc;
use std::time::Duration;

use paceline_net::{Events, Hosted, Node};
use paceline_proto::core::Protocol;
use paceline_proto::group::counters::FOUNDING_OTHER_EXPECT;
use paceline_proto::group::{self, Expect, Refusal};
use thiserror::Error;

use crate::join_error::JoinError;
use crate::member::Standing;
use crate::mismatch::{entered, unanswered};
use crate::peers::Peers;

/// The events of a protocol with a group that an application receives.
pub(crate) trait Report {
    type Protocol: Hosted;
    type Event;

    /// The event of the group that an event of the protocol is.
    fn of_group(event: &<Self::Protocol as Protocol>::Event) -> Option<&group::Event>;

    /// The event for the application; `None` if it is not told.
    fn report(&mut self, event: <Self::Protocol as Protocol>::Event) -> Option<Self::Event>;

    /// No further event waits: acknowledges those that the application has read.
    fn acknowledge(&mut self);

    /// The host has stopped, and all events were read.
    fn close(&mut self) {}
}

/// Why there is no event now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryRecvError {
    /// No event waits; the service may report one later.
    #[error("no event at present")]
    Empty,
    /// The service has ended, and all its events were received: none follows.
    #[error("the service or its host has stopped")]
    Closed,
}

/// The events of a member, in order.
pub(crate) struct Reader<R: Report> {
    events: Events<R::Protocol>,
    standing: Arc<Standing>,
    report: R,
    // The first view, which joining has taken out.
    first: Option<R::Event>,
}

impl<R: Report> Reader<R> {
    pub(crate) fn new(
        events: Events<R::Protocol>,
        standing: Arc<Standing>,
        report: R,
    ) -> Reader<R> {
        Reader { events, standing, report, first: None }
    }

    /// The next event; `None` once the service has ended and all were received.
    pub(crate) async fn recv(&mut self) -> Option<R::Event> {
        loop {
            if let Some(event) = self.ready() {
                return Some(event);
            }
            let Some(event) = self.events.recv().await else {
                self.report.close();
                return None;
            };
            if let Some(event) = self.take(event) {
                return Some(event);
            }
        }
    }

    /// The next event if there is one now.
    pub(crate) fn try_recv(&mut self) -> Result<R::Event, TryRecvError> {
        // Before: no event comes once it is closed.
        let is_closed = self.events.is_closed();
        match self.ready() {
            Some(event) => Ok(event),
            None if is_closed => {
                self.report.close();
                Err(TryRecvError::Closed)
            }
            None => Err(TryRecvError::Empty),
        }
    }

    fn ready(&mut self) -> Option<R::Event> {
        if let Some(event) = self.first.take() {
            return Some(event);
        }
        while let Some(event) = self.events.try_recv() {
            if let Some(event) = self.take(event) {
                return Some(event);
            }
        }
        self.report.acknowledge();
        None
    }

    fn take(&mut self, event: <R::Protocol as Protocol>::Event) -> Option<R::Event> {
        if let Some(event) = R::of_group(&event) {
            self.standing.note(event);
        }
        self.report.report(event)
    }

    /// Waits until the node is in a view, which is then the next event, and asks the sources of
    /// peers meanwhile. A node that is not in time is stopped.
    pub(crate) async fn first_view(
        &mut self,
        node: &Node<R::Protocol>,
        (service, within): (String, Duration),
        peers: &mut Peers,
        expect: Option<Expect>,
    ) -> Result<(), JoinError> {
        let mut refusal = None;
        match entered(node, peers, within, self.await_view(&mut refusal)).await {
            Some(first) => {
                self.first = Some(first.ok_or(JoinError::Closed)?);
                Ok(())
            }
            None => {
                let counters = node.stats().counters;
                if counters.count("peer_id_taken") > 0 {
                    refusal = Some(Refusal::IdInUse);
                }
                node.stop().await;
                let others = counters.count(FOUNDING_OTHER_EXPECT.name());
                let peers = peers.listed();
                let why = unanswered(node, service, peers.clone(), within);
                Err(match (refusal, expect.map(Expect::hosts)) {
                    (None, _) if counters.count("peer_later_start_known") > 0 => {
                        JoinError::ClockBehind
                    }
                    (Some(refusal), _) => JoinError::Refused { refusal },
                    (None, _) if matches!(why, JoinError::Differs { .. }) => why,
                    (None, Some(expect)) if others > 0 => JoinError::OtherExpect { expect },
                    (None, Some(expect)) => JoinError::TooFewHosts { expect, peers, within },
                    (None, None) => why,
                })
            }
        }
    }

    /// The event of the first view, and the latest refusal until then.
    async fn await_view(&mut self, refusal: &mut Option<Refusal>) -> Option<R::Event> {
        loop {
            let event = self.events.recv().await?;
            let is_view = match R::of_group(&event) {
                Some(group::Event::JoinRefused { refusal: why }) => {
                    *refusal = Some(*why);
                    false
                }
                Some(group::Event::View(_)) => true,
                _ => false,
            };
            let event = self.take(event);
            if is_view {
                return event;
            }
        }
    }
}
