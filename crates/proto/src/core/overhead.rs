//! What framing costs on the wire.

use super::Lane;

/// What framing costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overhead {
    /// Nothing: for scenarios that count rounds.
    None,
    /// Ethernet, IP and TCP or UDP: stream bytes x 1538/1448, datagrams + 66 bytes, and 58 more for
    /// each fragment of a long one beyond the first.
    #[default]
    Ethernet,
}

impl Overhead {
    /// Bytes on the wire for a message of `bytes`.
    pub fn charge(self, lane: Lane, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        match (self, lane) {
            (Overhead::None, _) => bytes,
            (Overhead::Ethernet, Lane::Stream) => (bytes * 1538).div_ceil(1448),
            (Overhead::Ethernet, Lane::Datagram) => bytes + 8 + 58 * (bytes + 8).div_ceil(1480),
        }
    }
}
