//! Named data at a fair rate: a forwarder of Interests and Data whose links tell each flow how fast
//! it may go, and the consumers that go so fast, over one path or several.
//!
//! Source: Mahdian, Arianfar, Gibson, Oran, *MIRCC: Multipath-aware ICN Rate-based Congestion
//! Control*, ACM ICN 2016 (its slides; the paper's text was not at hand).
//!
//! [`Forwarder`] is the state machine of every node. Interests go from consumers towards producers;
//! a node keeps each in a table until its Data comes back the same way. Each face, the link to a
//! neighbour, has a [shaper](ShapedRates) that lets as many Interests leave as the link has room
//! for their Data, and a [rate controller](RateController) that stamps on Data what a flow may
//! send.

mod application;
mod arrivals;
mod back;
mod config;
mod controller;
mod face;
mod fib;
mod flow;
mod forward;
mod forwarder;
mod interface;
mod link;
mod mark;
mod next_hop;
mod nonces;
mod pit;
mod reassembly;
mod shaper;
mod store;
mod strategy;
mod unanswered;
mod undecodable;

pub use application::SEGMENT_BYTES_MAX;
pub use config::{Config, FaceConfig};
pub use controller::{
    Algorithm, Controller, ControllerConfig, Interval, Mircc, RateController, Rcp,
};
pub use face::{FaceCounts, FaceId};
pub use forwarder::Forwarder;
pub use interface::{
    Command, Event, FaceReport, Fetch, FetchError, FlowCounts, FlowReport, Multipath, Object, Pace,
    PathReport, Question, Report, Setup, Timer,
};
pub use pit::PENDING_NAME_BYTES_MAX;
pub use shaper::{ShapedRates, ShaperConfig};
pub use strategy::Strategy;
pub use undecodable::Undecodable;

#[cfg(test)]
mod tests;
