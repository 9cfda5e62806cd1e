//! The tests of the library's services: one program, built and linked once.

mod attacks;
mod beside_lies;
mod dht;
mod group;
mod memory;
mod multicast;
mod named;
mod named_fragments;
mod named_routes;
mod named_unproven;
mod python_ndn;
mod rogue;
mod strangers;
mod support;
mod walk_homes;
mod walks;
