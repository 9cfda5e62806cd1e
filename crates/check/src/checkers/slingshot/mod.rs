//! The ledger of time-critical multicast groups: the packets sent, the messages that each member
//! received, and its deliveries and repairs.

mod ledger;
mod life;
mod messages;
mod packets;
mod repairs;

use paceline_proto::core::Protocol;
use paceline_proto::slingshot::{Command, Event, Message, Slingshot, Timer};

use super::report::rules;

pub use ledger::{SlingshotLedger, Totals};

rules! {
    /// What members promise.
    pub enum Rule {
        /// S1: packets are delivered as sent, under the sender's group, incarnation and number.
        Integrity => "S1 integrity",
        /// S2: no number is sent twice, and a packet is reported at most once, even if its sender
        /// or the member left the group and came back.
        Once => "S2 once",
        /// S3: a repair is the sum of packets that its sender received, and a packet reported as
        /// recovered follows from the repairs that came.
        Repair => "S3 repair",
        /// S4: what comes after the deadline is flagged, nothing else is, what was reported lost
        /// stays lost, and repairs say truly how long ago their packets came.
        Time => "S4 time",
        /// S5: every packet that is known of is either delivered or reported lost, in time; in FIFO
        /// order, one after another.
        Accounting => "S5 accounting",
        /// S6: a received packet goes into one repair for each region, and a repair to at most `c`
        /// others; none is partial but by the timer.
        Overhead => "S6 overhead",
        /// S7: what is held, missing, parked and unread stays within its bounds, and no bin waits
        /// longer than it may.
        Memory => "S7 memory",
        /// S8: the share that is recovered is what the closed form says.
        Share => "S8 share",
        /// S9: the packets of a message of several leave at the configured rate, and 2 ms' worth of
        /// them at once at most.
        Pace => "S9 pace",
        /// G6: once faults are over nothing is left to do.
        Quiescence => "G6 quiescence",
    }
}

/// A protocol in which a [`Slingshot`] can be found: itself, or what wraps it.
pub trait Member:
    Protocol<Message = Message, Timer = Timer, Command = Command, Event = Event>
{
    /// The member.
    fn slingshot(&self) -> &Slingshot;
}

impl Member for Slingshot {
    fn slingshot(&self) -> &Slingshot {
        self
    }
}

/// What a part of the ledger found.
type Broken = super::report::Broken<Rule>;
