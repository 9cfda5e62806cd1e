//! The protocols of Paceline, free of input and output.
//!
//! [`core`] holds the one trait that every protocol implements, and the small vocabulary around it.
//! Each protocol is a state machine in a module of its own; the simulator (`paceline-sim`) and the
//! socket runtime (`paceline-net`) drive the very same code.
#![deny(unsafe_code)]

pub mod chain;
pub mod core;
pub mod detector;
pub mod graphshare;
pub mod group;
pub mod host;
pub mod mircc;
pub mod multicast;
pub mod ndn;
pub mod overlay;
pub mod parts;
pub mod slingshot;
pub mod status;
pub mod walk;
