//! Nonces, which prove an address because only a node that receives there can repeat one, and
//! verification tags.

use std::net::{IpAddr, SocketAddr};

use paceline_proto::core::{Instant, NodeId};

/// Length of a nonce in bytes.
pub(crate) const NONCE_BYTES: usize = 8;
/// How long one slot of nonces lasts, nanoseconds: a nonce is good in its slot and in the next.
const SLOT_NANOS: u64 = 8_000_000_000;

/// The slot of verification tags, which do not change with time.
const TAG_SLOT: u64 = u64::MAX;
/// Length of a verification tag in bytes.
pub(crate) const TAG_BYTES: usize = 4;

/// A nonce as records carry it.
pub(crate) type Nonce = [u8; NONCE_BYTES];

/// Makes the nonces of a node and recognises them. It keeps none: a nonce is a keyed hash of the
/// id, the address and the time, as the cookies of DTLS are (RFC 6347, section 4.2.1).
pub(crate) struct Nonces {
    key: [u8; 32],
}

impl Nonces {
    /// Nonces under a secret key.
    pub(crate) fn new(key: [u8; 32]) -> Nonces {
        Nonces { key }
    }

    /// The nonce for a node that may be at this address.
    pub(crate) fn nonce(&self, node: NodeId, addr: SocketAddr, now: Instant) -> Nonce {
        self.at_slot(node, addr, now.as_nanos() / SLOT_NANOS)
    }

    /// True if `nonce` was made for this node and this address in this slot or the one before.
    pub(crate) fn admits(
        &self,
        node: NodeId,
        addr: SocketAddr,
        nonce: &[u8],
        now: Instant,
    ) -> bool {
        let slot = now.as_nanos() / SLOT_NANOS;
        [Some(slot), slot.checked_sub(1)]
            .into_iter()
            .flatten()
            .any(|slot| self.at_slot(node, addr, slot) == nonce)
    }

    /// The verification tag that messages to this node from a node at this address must carry. It
    /// is sent to this address only.
    pub(crate) fn verification_tag(&self, node: NodeId, addr: SocketAddr) -> u32 {
        let [a, b, c, d, ..] = self.at_slot(node, addr, TAG_SLOT);
        u32::from_be_bytes([a, b, c, d])
    }

    fn at_slot(&self, node: NodeId, addr: SocketAddr, slot: u64) -> Nonce {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&node.0.to_be_bytes());
        match addr.ip() {
            IpAddr::V4(ip) => hasher.update(&ip.octets()),
            IpAddr::V6(ip) => hasher.update(&ip.octets()),
        };
        hasher.update(&addr.port().to_be_bytes());
        hasher.update(&slot.to_be_bytes());
        let hash = hasher.finalize();
        hash.as_bytes()[..NONCE_BYTES].try_into().expect("a hash has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_good_for_its_node_its_address_its_key_and_two_slots() {
        let nonces = Nonces::new([7; 32]);
        let at = |seconds: u64| Instant::from_nanos(seconds * 1_000_000_000);
        let (here, there): (SocketAddr, SocketAddr) =
            ("10.0.0.1:7000".parse().unwrap(), "10.0.0.1:7001".parse().unwrap());
        let nonce = nonces.nonce(NodeId(3), here, at(1));
        let admits =
            |node: u32, addr, seconds| nonces.admits(NodeId::from(node), addr, &nonce, at(seconds));
        assert!(admits(3, here, 1) && admits(3, here, 15));
        assert!(!admits(3, here, 16), "two slots later");
        assert!(!admits(4, here, 1) && !admits(3, there, 1));
        assert!(!nonces.admits(NodeId(3), here, &nonce[..7], at(1)), "cut short");
        assert!(!nonces.admits(NodeId(3), here, &[], at(1)));
        assert!(!Nonces::new([8; 32]).admits(NodeId(3), here, &nonce, at(1)), "another key");
    }

    #[test]
    fn a_verification_tag_is_of_one_node_one_address_and_one_key() {
        let nonces = Nonces::new([7; 32]);
        let (here, there): (SocketAddr, SocketAddr) =
            ("10.0.0.1:7000".parse().unwrap(), "10.0.0.1:7001".parse().unwrap());
        let tag = nonces.verification_tag(NodeId(3), here);
        assert_eq!(tag, nonces.verification_tag(NodeId(3), here));
        assert_ne!(tag, nonces.verification_tag(NodeId(4), here));
        assert_ne!(tag, nonces.verification_tag(NodeId(3), there));
        assert_ne!(tag, Nonces::new([8; 32]).verification_tag(NodeId(3), here));
        assert_ne!(tag.to_be_bytes(), nonces.nonce(NodeId(3), here, Instant::ZERO)[..4]);
    }
}
