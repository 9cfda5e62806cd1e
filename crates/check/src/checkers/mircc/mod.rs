//! The ledger of a network of named data: the Interests that each node got, the packets that it
//! sent, and the segments that its consumers delivered. It compares them with the promises of
//! forwarders and consumers.

mod asks;
mod flow;
mod ledger;
mod link;
mod measure;
mod names;
mod node;

use std::time::Duration;

use paceline_proto::core::Protocol;
use paceline_proto::mircc::{Command, Config, Event, Forwarder, Timer};
use paceline_proto::ndn::Packet;

use super::report::rules;

pub use flow::Share;
pub use ledger::{MirccLedger, Totals};
pub use measure::LinkUse;

rules! {
    /// What nodes promise.
    pub enum Rule {
        /// M1: what is handed to a link has left, waits or was dropped; what leaves keeps to the
        /// link's rate, Interests to the room that their Data has, and queues to their limits.
        Link => "M1 link",
        /// M2: for an Interest a neighbour gets one Data or refusal at most, and nothing that it
        /// did not ask for; an entry ends with its lifetime, and entries are bounded.
        Balance => "M2 balance",
        /// M3: a stamp is what came, or the face's own rate if that is less, and never above the
        /// link's; a consumer sends no faster than the last stamp, nor than its own limit: this
        /// is how fast it hands Interests to its links, whose queues may let them leave faster.
        Rate => "M3 rate",
        /// M4: each segment is delivered once, as published, and all before the object ends.
        Content => "M4 content",
        /// M6: a flow that has something to send gets a tenth of its share in each ten round trips.
        Starvation => "M6 starvation",
        /// M8: no Interest leaves a node for the same neighbour twice.
        Loop => "M8 loop",
        /// Slide 14: no secondary Interest leaves before a primary one that waits.
        Priority => "priority",
        /// G2: memory stays within its budget.
        Memory => "G2 memory",
        /// G7: what a face counts is what passed.
        Counts => "G7 counts",
        /// Once faults are over, what is fetched comes.
        Completion => "completion",
        /// G6: once nothing is fetched any more, nothing is pending and nothing left to do.
        Quiescence => "G6 quiescence",
    }
}

/// A protocol in which a [`Forwarder`] can be found: itself, or what wraps it.
pub trait Node:
    Protocol<Message = Box<Packet>, Timer = Timer, Command = Command>
    + Protocol<Event = Event, Shared = Config>
{
    /// The forwarder.
    fn forwarder(&self) -> &Forwarder;
}

impl Node for Forwarder {
    fn forwarder(&self) -> &Forwarder {
        self
    }
}

/// The longest that an Interest may be pending.
const LIFETIME_MAX: Duration = Duration::from_secs(4);

/// What a part of the ledger found.
type Broken = super::report::Broken<Rule>;
