//! Failure detection: which members of a group answer, and which do not.
//!
//! SWIM. Each member asks one other at a time for a sign of life, in random order, and has others
//! ask on its behalf before it suspects somebody. A suspected member that is alive says so; one
//! that stays silent is down, and the news travels on the packets that are sent anyway. So the cost
//! a member does not grow with the group, nor does the time until somebody notices.
//!
//! Sources: Das, Gupta, Motivala, *SWIM: Scalable Weakly-consistent Infection-style Process Group
//! Membership Protocol*, DSN 2002; Dadgar, Phillips, Currey, *Lifeguard: Local Health Awareness for
//! More Accurate Failure Detection*, DSN 2018 (section 4.1: a slow member stretches its own
//! time-outs). The protocol's core is the crate `foca`. What this adds around it: who is watched is
//! an argument, members are told apart by incarnation, time that a member itself lost does not
//! count, failed probes end early, a direct probe on demand, and a way back after a partition that
//! leaves nobody to talk to.
//!
//! There is no input or output: datagrams and instants go in, datagrams and changes come out.
//! [`Detector`] is driven like a part of a protocol: [`Detector::receive`] for what comes in,
//! [`Detector::poll`] at [`Detector::deadline`].

mod config;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod detector;
mod identity;
mod local;
mod packet;
mod receive;
mod schedule;
mod surroundings;

pub use config::Config;
pub use detector::{Change, Detector, Health, Output};

#[cfg(test)]
mod tests;
