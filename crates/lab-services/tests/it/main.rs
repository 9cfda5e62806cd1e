//! The tests of the lab's services and figures: one program, built and linked once.

mod chain_figures;
mod counters_in_docs;
mod groups;
mod hosts;
mod mircc;
mod mircc_figures;
mod mircc_random;
mod processes;
mod slingshot;
mod sweeps;
mod two_worlds;
mod walk;
