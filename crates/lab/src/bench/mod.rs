//! Benches: what a machine does, printed with the machine.

pub mod broadcast;
