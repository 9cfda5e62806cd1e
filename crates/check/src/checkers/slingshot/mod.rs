//! The ledger of groups that multicast in time: what was sent, what each member was given, and
//! what it made of that.

mod ledger;
mod life;
mod packets;
mod repairs;

use std::fmt;

use paceline_proto::core::Protocol;
use paceline_proto::slingshot::{Command, Event, Message, Slingshot, Timer};

pub use ledger::{SlingshotLedger, Totals};

/// What members promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// S1: a packet is told as its sender sent it, under its group, incarnation and number.
    Integrity,
    /// S2: no number is sent twice, and a packet is told at most once, also where its sender or
    /// the member left the group and came back.
    Once,
    /// S3: a repair is the sum of packets that its sender received, and what is told as recovered
    /// follows from the repairs that came.
    Repair,
    /// S4: what comes after the deadline is flagged, nothing else is, what was reported lost stays
    /// lost, and repairs say truly how long ago their packets came.
    Time,
    /// S5: every packet that is known of is either delivered or reported lost, in time; in FIFO
    /// order, one after another.
    Accounting,
    /// S6: a received packet goes into one repair for each region, and a repair to at most `c`
    /// others; none is partial but by the timer.
    Overhead,
    /// S7: what is held, missing, parked and unread stays within its bounds, and no bin waits
    /// longer than it may.
    Memory,
    /// S8: the share that is recovered is what the closed form says.
    Share,
    /// G6: once faults are over nothing is left to do.
    Rest,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::Integrity => "S1 integrity",
            Rule::Once => "S2 once",
            Rule::Repair => "S3 repair",
            Rule::Time => "S4 time",
            Rule::Accounting => "S5 accounting",
            Rule::Overhead => "S6 overhead",
            Rule::Memory => "S7 memory",
            Rule::Share => "S8 share",
            Rule::Rest => "G6 rest",
        })
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

/// What a part of the ledger found: the rule and how it was broken.
type Broken = (Rule, String);
