//! The tests of named data on sockets: one program, built and linked once.

mod files;
mod fragments;
mod python_ndn;
mod routes;
mod unproven;
