//! Limits on what is sent to a face whose address is not proven.
//!
//! The source address of a datagram can be forged, and a node that answers such a datagram sends to
//! a host that did not ask. Two limits apply to an *unproven* face. An allowance of three times the
//! bytes received from it (RFC 9000, section 8.1) keeps the node from amplifying an attack. A rate
//! for each network, as in the response rate limiting of DNS servers, keeps forged addresses of one
//! network from adding up.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use paceline_proto::core::Instant;
use paceline_proto::parts::token_bucket::TokenBucket;

use super::range::AddressRange;

/// Bytes that may go to an unproven face for each that has come from it. Source: RFC 9000,
/// section 8.1.
const ANSWER_FACTOR: u64 = 3;
/// Bits of an IPv4 and of an IPv6 address that name its network: the usual prefix of a site.
const NETWORK_BITS: (u8, u8) = (24, 48);
/// Depth of a bucket, as the time that its rate takes to fill it.
const BURST: Duration = Duration::from_secs(1);
/// Networks whose token buckets are kept. While this many are not full, other networks get nothing.
const NETWORKS_MAX: usize = 4_096;
/// Least time between two searches for buckets that are full again.
const SWEEP_EVERY: Duration = Duration::from_millis(100);
/// The longest IP packet, bytes: the MTU of Ethernet. Longer datagrams travel in fragments.
const PACKET_BYTES: usize = 1_500;

/// Bytes on the wire of a datagram with this payload: the UDP header and the IP header of each
/// fragment included.
pub(super) fn wire_bytes(address: IpAddr, payload_bytes: usize) -> usize {
    const UDP: usize = 8;
    let bytes = UDP + payload_bytes;
    // RFC 791, section 3.1; RFC 8200, sections 3 and 4.5.
    let (header, fragment_header) = match address.to_canonical() {
        IpAddr::V4(_) => (20, 0),
        IpAddr::V6(_) => (40, 8),
    };
    if header + bytes <= PACKET_BYTES {
        return header + bytes;
    }
    // Fragments but the last carry a multiple of eight bytes.
    let header = header + fragment_header;
    bytes + bytes.div_ceil((PACKET_BYTES - header) / 8 * 8) * header
}

/// What may still be sent to one unproven face: three times the bytes received from it, less the
/// bytes sent. Payload and bytes on the wire are counted apart, since neither bounds the other:
/// many short answers are mostly headers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    payload_bytes: u64,
    wire_bytes: u64,
}

impl Allowance {
    /// Adds the allowance of a datagram that came from the face.
    pub(super) fn credit(&mut self, address: IpAddr, payload_bytes: usize) {
        let add = |allowed: &mut u64, bytes: usize| {
            *allowed = allowed.saturating_add(ANSWER_FACTOR * bytes as u64);
        };
        add(&mut self.payload_bytes, payload_bytes);
        add(&mut self.wire_bytes, wire_bytes(address, payload_bytes));
    }

    /// True if a datagram may be sent to the face.
    pub(super) fn covers(&self, address: IpAddr, payload_bytes: usize) -> bool {
        payload_bytes as u64 <= self.payload_bytes
            && wire_bytes(address, payload_bytes) as u64 <= self.wire_bytes
    }

    /// Subtracts a datagram that leaves and is [covered](Allowance::covers).
    pub(super) fn spend(&mut self, address: IpAddr, payload_bytes: usize) {
        self.payload_bytes = self.payload_bytes.saturating_sub(payload_bytes as u64);
        let wire_bytes = wire_bytes(address, payload_bytes) as u64;
        self.wire_bytes = self.wire_bytes.saturating_sub(wire_bytes);
    }
}

/// A token bucket for each network, /24 of IPv4 or /48 of IPv6, that its unproven faces share. A
/// full one needs no record.
#[derive(Debug)]
pub(super) struct NetworkRates {
    bytes_per_second: u64,
    // Hashed with a key of its own: senders choose their addresses.
    buckets: HashMap<AddressRange, TokenBucket>,
    sweep_at: Instant,
}

impl NetworkRates {
    /// Every network has this rate, bytes on the wire.
    pub(super) fn new(bytes_per_second: u64) -> NetworkRates {
        NetworkRates { bytes_per_second, buckets: HashMap::new(), sweep_at: Instant::ZERO }
    }

    /// Takes a datagram for this address out of its network's bucket; false if it holds too little.
    pub(super) fn admit(&mut self, address: IpAddr, payload_bytes: usize, now: Instant) -> bool {
        let bytes = wire_bytes(address, payload_bytes) as u64;
        let Some(nanos) = (bytes * 1_000_000_000).checked_div(self.bytes_per_second) else {
            return false;
        };
        let network = network(address);
        let time = Duration::from_nanos(nanos);
        if let Some(bucket) = self.buckets.get_mut(&network) {
            return bucket.try_take_whole(now, time);
        }
        let mut bucket = TokenBucket::full(BURST);
        let is_admitted = self.has_room(now) && bucket.try_take_whole(now, time);
        if is_admitted {
            self.buckets.insert(network, bucket);
        }
        is_admitted
    }

    fn has_room(&mut self, now: Instant) -> bool {
        if self.buckets.len() >= NETWORKS_MAX && now >= self.sweep_at {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.sweep_at = now + SWEEP_EVERY;
        }
        self.buckets.len() < NETWORKS_MAX
    }
}

fn network(address: IpAddr) -> AddressRange {
    let address = address.to_canonical();
    let (v4, v6) = NETWORK_BITS;
    AddressRange::around(address, if address.is_ipv4() { v4 } else { v6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_datagram_counts_with_the_headers_of_all_its_packets() {
        let (v4, v6) = (ip("192.0.2.1"), ip("2001:db8::1"));
        for (payload, on_v4, on_v6) in [
            (20, 48, 68),
            (1_452, 1_480, 1_500),
            // One byte more takes another packet, and over IPv6 fragment headers in both.
            (1_453, 1_481, 1_453 + 8 + 2 * 48),
            (1_472, 1_500, 1_472 + 8 + 2 * 48),
            (1_473, 1_473 + 8 + 2 * 20, 1_473 + 8 + 2 * 48),
            // 8,088 bytes in packets of 1,480 and 1,448.
            (8_080, 8_088 + 6 * 20, 8_088 + 6 * 48),
        ] {
            assert_eq!((wire_bytes(v4, payload), wire_bytes(v6, payload)), (on_v4, on_v6));
        }
        assert_eq!(wire_bytes(ip("::ffff:192.0.2.1"), 20), 48);
    }

    #[test]
    fn a_face_gets_three_times_what_came_from_it_in_payload_and_on_the_wire() {
        let face = ip("192.0.2.1");
        let mut allowed = Allowance::default();
        assert!(!allowed.covers(face, 1));
        allowed.credit(face, 100);
        assert!(allowed.covers(face, 300) && !allowed.covers(face, 301), "payload");
        // 384 bytes on the wire are ten datagrams of 38, and 100 of 300 bytes of payload.
        let mut sent = 0;
        while allowed.covers(face, 10) {
            allowed.spend(face, 10);
            sent += 1;
        }
        assert_eq!(sent, 10);
        // What is left over is saved up.
        allowed.credit(face, 100);
        assert!(allowed.covers(face, 360) && !allowed.covers(face, 361), "on the wire");
    }

    #[test]
    fn a_network_has_one_rate_whatever_the_addresses_in_it() {
        let mut rates = NetworkRates::new(10_000);
        let datagrams = |rates: &mut NetworkRates, now, of: &dyn Fn(u32) -> String| {
            (0..1_000).filter(|&n| rates.admit(ip(&of(n)), 72, at(now))).count()
        };
        // 100 bytes on the wire each, 10,000 of them saved up.
        let one = |n| format!("192.0.2.{}", n % 256);
        assert_eq!(datagrams(&mut rates, 0, &one), 100);
        assert_eq!(datagrams(&mut rates, 0, &|n| format!("192.0.3.{}", n % 256)), 100);
        assert_eq!(datagrams(&mut rates, 0, &|n| format!("::ffff:192.0.3.{}", n % 256)), 0);
        assert_eq!(datagrams(&mut rates, 0, &|n| format!("2001:db8:7:{n:x}::1")), 83);
        assert_eq!(datagrams(&mut rates, 500, &one), 50);
        assert_eq!(datagrams(&mut rates, 500, &one), 0);
        assert_eq!(datagrams(&mut rates, 10_000, &one), 100);
        assert_eq!(datagrams(&mut NetworkRates::new(0), 0, &one), 0);
    }

    #[test]
    fn networks_that_are_kept_are_bounded_and_those_at_rest_make_room() {
        let mut rates = NetworkRates::new(10_000);
        let address = |n: u32| IpAddr::from(std::net::Ipv4Addr::from_bits(n << 8 | 1));
        let admitted = (0..10_000).filter(|&n| rates.admit(address(n), 72, at(0))).count();
        assert_eq!((admitted, rates.buckets.len()), (NETWORKS_MAX, NETWORKS_MAX));
        assert!(rates.admit(address(0), 72, at(5)), "it is known");
        // Those of one datagram are at rest after 10 ms; the next look is 100 ms after the last.
        assert!(!rates.admit(address(9_999), 72, at(50)));
        assert!(rates.admit(address(9_999), 72, at(100)));
        assert_eq!(rates.buckets.len(), 1);
    }
}
