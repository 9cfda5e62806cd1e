//! The tests of the library's services: one program, built and linked once.

mod attacks;
mod beside_lies;
mod dht;
mod discovery;
mod group;
mod hosts;
mod memory;
mod multicast;
mod requests;
mod rogue;
mod sealed;
mod services;
mod status;
mod strangers;
mod support;
mod terms;
mod walk_homes;
mod walks;
mod wide_ids;
