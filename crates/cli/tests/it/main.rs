//! The tests of the command line, which run the binary: one program, built and linked once.

mod bench_fetch;
mod cluster;
mod commands;
mod dht;
mod dht_failures;
mod documented;
mod endings;
mod graph;
#[cfg(unix)]
mod keys;
mod members;
mod multicast;
mod named;
mod node_file;
mod run;
mod sealed;
mod sockets;
mod stops;
mod support;
mod terminal;
mod walk;
mod walk_servers;
