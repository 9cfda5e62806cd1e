//! Forward error correction: a receiver that lacks a packet computes it from others.
//!
//! A *repair* is a sum of packets, each times a coefficient, in the field of 256 elements
//! ([`gf256`]). With all coefficients 1 it is their exclusive or. It carries the [`Coded`] sum, the
//! names of the packets, and the seed of the [`Coefficients`]. A receiver that has all packets of
//! a repair but one computes that one; a [`Decoder`] does so for any number of packets and repairs.
//!
//! Packets differ in length. Their bytes are summed as if the shorter were followed by zeros, and
//! their lengths are summed too, so what is recovered has its true length. [`Sum`] does this. In a
//! simulation with `Payload::Zeros` it touches no bytes, and all else runs as with real ones.
//!
//! [`Window`] keeps the last packets and sums them up: a sliding-window random linear code as in
//! RFC 8681, with these differences. Any node that has packets of several sources may encode them;
//! so a repair names its packets one by one, not by a first one and a number. Lengths are summed
//! beside the bytes, not before them. No coefficient is zero, so that each repair covers the whole
//! window.

mod coefficients;
mod decoder;
pub mod gf256;
mod sum;
mod window;

pub use coefficients::Coefficients;
pub use decoder::{Added, Bounds, Decoder, Method};
pub use sum::{Coded, Sum};
pub use window::Window;
