//! The ledger of walks: where each walker is, which walks were requested and which results were
//! reported. It compares them with the servers' promises.

mod job;
mod ledger;
mod node;
mod queue;
mod world;

use paceline_proto::core::Protocol;
use paceline_proto::walk::{Command, Event, Message, Server, Timer};

use super::report::rules;

pub use ledger::{Totals, WalkLedger};
pub use world::World;

rules! {
    /// What servers promise.
    pub enum Rule {
        /// W1: every walker that was generated or came is still there, has left, has ended, or was
        /// dropped, refused or lost, and counted as that.
        Conservation => "W1 conservation",
        /// W2: there is at most one copy of each attempt, unless the network doubles it, and one
        /// attempt of each walk; a walk is reported once, after it came home, and never after its
        /// job's end.
        Copies => "W2 one copy",
        /// W3: each step is along an edge that fits, taken where that edge is known; a walk has the
        /// length that was drawn for it, or ends where nothing leads on.
        Legality => "W3 legal steps",
        /// W4: a walk goes where it goes in memory, whatever was lost.
        Reference => "W4 same path",
        /// W5: every walk is reported, or given up for a reason, within the time that it may take;
        /// a job ends with its last walk, or is refused for a reason.
        Completion => "W5 completion",
        /// W6: a queue drops and marks as its discipline says, and never exceeds its limit.
        Queue => "W6 queue",
        /// Bundles keep to the configured size and waiting time, and an idle server sends a walker
        /// without waiting.
        Bundle => "bundles",
        /// No more walks are under way, or done and not consumed, than may be.
        Credits => "credits",
        /// What a job's report says is what was seen.
        Report => "report",
        /// G6: once all jobs are over, nothing is held and nothing left to do.
        Quiescence => "G6 quiescence",
    }
}

/// A protocol in which a [`Server`] can be found: itself, or what wraps it.
pub trait Node:
    Protocol<Message = Message, Timer = Timer, Command = Command, Event = Event, Shared = ()>
{
    /// The server.
    fn server(&self) -> &Server;
}

impl Node for Server {
    fn server(&self) -> &Server {
        self
    }
}

/// What a part of the ledger found.
type Broken = super::report::Broken<Rule>;
