//! The tests of nodes on real sockets: one program, built and linked once.

mod backlog;
mod delivery;
mod descriptions;
mod events;
mod faces;
mod fan_out;
mod faults;
mod hints;
mod hostile;
mod lab;
mod link;
mod memory;
mod multicast;
mod native;
mod open;
mod running;
mod sealed;
mod support;
mod verification;
