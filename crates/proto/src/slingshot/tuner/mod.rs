//! Predicts the share of losses that a rate of fire recovers, and how soon.
//!
//! [`predict`] computes for one [`Setting`] the share of lost packets recovered by a given time.
//! [`choose`] finds the cheapest setting that meets a [`Target`], or reports that none does;
//! [`Messages::choose`] does so for messages that need several packets. At run
//! time a [`Corrector`] changes the setting when measurements differ from the prediction.
//!
//! # The model
//!
//! A member B lost a packet X. Time is counted in packets of the group. Repairs with X come from
//! the n - 2 members that are neither B nor its sender, whose bins hold what others sent. Each of
//! them has X with probability 1 - p, p being the loss, and sends a repair with X when its bin
//! fills up, to c of the n - 1 others; B gets it with probability 1 - p. With l = c (1 - p)^2, none
//! of them comes with probability e(l) = (1 - l / (n - 1))^(n - 2). Bins of different members begin
//! at unrelated packets: how far a bin with X still is from full is uniform. The exclusive or and
//! the random code differ in what B can do with its repairs: see `xor.rs` and `linear.rs`.
//!
//! All members are taken to send as much, so that a bin fills with (n - 1) / n of the packets.
//! Where fewer do, it fills sooner.
//!
//! The 2005 paper measures and has no formulas; these are ours. They agree with simulations of the
//! protocol with 8 to 1,024 members to about a point for p up to 5 %, and are up to 2 points too
//! low at 10 %. Losses are independent: bursts are a matter for the corrector.

mod choose;
mod corrector;
mod linear;
mod messages;
mod prediction;
#[cfg(test)]
mod simulated;
mod xor;

pub use choose::{Choice, FIRE_MAX, Target, Unreachable, choose};
pub use corrector::Corrector;
pub use messages::Messages;
pub use prediction::{Prediction, predict};

use std::fmt;
use std::time::Duration;

/// A rate of fire, and how repairs are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// A member repairs after every `r` packets that it received. At least 1.
    pub r: u8,
    /// The number of other members that get each repair. At least 1.
    pub c: u8,
    /// How.
    pub code: Code,
}

/// What a repair is a sum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Exclusive or of the last `r` packets, decoded by peeling.
    Xor,
    /// Random linear combination of the last `window` packets, decoded by elimination.
    Linear {
        /// Packets, at least `r` to be of use.
        window: u16,
    },
}

/// What the group is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// Members, at least 2.
    pub members: u32,
    /// Share of packets that a member loses, repairs too: p. Above 0.9 counts as 0.9.
    pub loss: f64,
    /// Packets that all senders together multicast in a second: R.
    pub packets_per_second: f64,
    /// One way between members.
    pub latency: Duration,
    /// Bytes of a packet, on average. A repair has about as many.
    pub packet_bytes: f64,
    /// Bytes that a repair needs to name one packet.
    pub id_bytes: f64,
}

impl Setting {
    /// Repairs sent, as a share of all packets sent: c / (r + c).
    pub fn overhead(self) -> f64 {
        f64::from(self.c) / (f64::from(self.r) + f64::from(self.c))
    }

    /// Repairs sent for each packet received: c / r.
    pub fn repairs_per_packet(self) -> f64 {
        f64::from(self.c) / f64::from(self.r)
    }

    /// Packets that a repair is a sum of.
    pub fn packets_in_repair(self) -> u32 {
        match self.code {
            Code::Xor => u32::from(self.r),
            Code::Linear { window } => u32::from(window),
        }
    }

    /// Bytes of repairs sent for each packet received.
    pub fn repair_bytes_per_packet(self, conditions: &Conditions) -> f64 {
        let ids = f64::from(self.packets_in_repair()) * conditions.id_bytes;
        self.repairs_per_packet() * (conditions.packet_bytes + ids)
    }
}

/// `(8,3)`, or `(8,3) over 32`.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Code::Xor => write!(f, "({},{})", self.r, self.c),
            Code::Linear { window } => write!(f, "({},{}) over {window}", self.r, self.c),
        }
    }
}

impl Conditions {
    /// Packets of 1,000 bytes, names of 8 bytes, a latency of 100 microseconds.
    pub fn new(members: u32, loss: f64, packets_per_second: f64) -> Conditions {
        Conditions {
            members,
            loss,
            packets_per_second,
            latency: Duration::from_micros(100),
            packet_bytes: 1_000.0,
            id_bytes: 8.0,
        }
    }

    /// p, within the range in which the formulas hold.
    fn loss_in_range(&self) -> f64 {
        self.loss.clamp(0.0, 0.9)
    }

    /// The other members, n - 1.
    fn others(&self) -> f64 {
        f64::from(self.members.max(2) - 1)
    }

    /// Those of them that did not send a given packet, n - 2.
    fn helpers(&self) -> f64 {
        self.others() - 1.0
    }

    /// The probability that none comes of the repairs of all helpers, where of n - 1 members `mean`
    /// would be expected.
    fn none_comes(&self, mean: f64) -> f64 {
        (1.0 - mean / self.others()).max(0.0).powf(self.helpers())
    }

    /// The share of the group's packets that others have sent than a given member.
    fn others_share(&self) -> f64 {
        self.others() / (self.others() + 1.0)
    }
}
