//! Secrets, and the keys that are derived from them.
//!
//! Each derivation is BLAKE3 in its key-derivation mode (section 6.3 of its paper): a context
//! string that belongs to one use, then the secret and what the key is bound to.

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Length of secrets and keys in bytes.
pub const KEY_BYTES: usize = 32;
/// Length of what each side contributes to the keys of a stream, in bytes.
pub const STREAM_NONCE_BYTES: usize = 16;
/// Length of the proof that opens a stream, bytes.
pub const PROOF_BYTES: usize = 16;

/// Contexts of derivation. Each is used in one place only, and never changes its meaning.
mod context {
    pub(super) const DATAGRAMS: &str = "paceline 2026-11 session datagrams";
    pub(super) const STREAM: &str = "paceline 2026-11 session stream";
    pub(super) const OPENING: &str = "paceline 2026-11 session opening";
    pub(super) const NEXT: &str = "paceline 2026-11 next generation";
    pub(super) const SENDER: &str = "paceline 2026-11 view sender";
    pub(super) const AUTHORITY: &str = "paceline 2026-11 certificate authority";
}

/// A secret or a key of 32 bytes. It is overwritten when dropped, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; KEY_BYTES]);

impl Secret {
    /// A secret of these bytes. The caller erases its own copy.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// A secret whose bytes `fill` draws, of which no copy is left.
    ///
    /// # Errors
    /// That of `fill`.
    pub fn draw<E>(fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Secret, E> {
        let mut secret = Secret([0; KEY_BYTES]);
        fill(&mut secret.0)?;
        Ok(secret)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// The key that succeeds this one. This one cannot be computed from it.
    #[must_use]
    pub fn next(&self) -> Secret {
        derive(context::NEXT, self, &[])
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(..)")
    }
}

/// What two hosts share after a handshake: the keys of their session come from it.
#[derive(Clone, Debug)]
pub struct PairSecret(Secret);

impl PairSecret {
    /// The pair secret that a handshake has exported.
    pub fn new(secret: Secret) -> PairSecret {
        PairSecret(secret)
    }

    /// The key of all unicast datagrams of host `from` to host `to`.
    pub fn datagrams(&self, from: u64, to: u64) -> Secret {
        derive(context::DATAGRAMS, &self.0, &[&from.to_be_bytes(), &to.to_be_bytes()])
    }

    /// Proves that host `from` has this secret: a keyed hash of `parts`, which it sends to host
    /// `to` to open a stream.
    pub fn proof(&self, from: u64, to: u64, parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
        let hosts = [&from.to_be_bytes()[..], &to.to_be_bytes()];
        let key = derive(context::OPENING, &self.0, &hosts);
        let mut hasher = blake3::Hasher::new_keyed(key.as_bytes());
        for part in parts {
            hasher.update(part);
        }
        let hash = hasher.finalize();
        hash.as_bytes()[..PROOF_BYTES].try_into().expect("a hash is longer")
    }

    /// True if `proof` is that of host `from` to host `to` for these parts. Takes the same time
    /// whatever is wrong with it.
    pub fn admits(&self, from: u64, to: u64, parts: &[&[u8]], proof: &[u8]) -> bool {
        let expected = self.proof(from, to, parts);
        let differences = expected.iter().zip(proof).fold(0, |all, (a, b)| all | (a ^ b));
        proof.len() == PROOF_BYTES && differences == 0
    }

    /// The key of one stream of host `from`, which dialled, to host `to`. The two nonces, one of
    /// each side, make it another key for each stream: a recorded stream opens under no other.
    pub fn stream(
        &self,
        from: u64,
        to: u64,
        dialler: &[u8; STREAM_NONCE_BYTES],
        acceptor: &[u8; STREAM_NONCE_BYTES],
    ) -> Secret {
        let hosts = [from.to_be_bytes(), to.to_be_bytes()].concat();
        derive(context::STREAM, &self.0, &[&hosts, dialler, acceptor])
    }
}

/// What the members of one view share.
#[derive(Clone, Debug)]
pub struct ViewSecret(Secret);

impl ViewSecret {
    /// The secret that the proposer of a view has drawn.
    pub fn new(secret: Secret) -> ViewSecret {
        ViewSecret(secret)
    }

    /// The key under which one run of one member seals what it sends to the view.
    pub fn sender(&self, member: u64, incarnation: u64) -> Secret {
        derive(context::SENDER, &self.0, &[&member.to_be_bytes(), &incarnation.to_be_bytes()])
    }
}

/// The key with which a cluster certifies its hosts: of its cluster key and the name of its suite.
pub(crate) fn certificate_authority(cluster: &Secret, suite: &str) -> Secret {
    derive(context::AUTHORITY, cluster, &[suite.as_bytes()])
}

/// Each context has parts of fixed lengths, or one part of any length, so that no two inputs are
/// the same bytes.
fn derive(context: &str, secret: &Secret, parts: &[&[u8]]) -> Secret {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    hasher.update(&secret.0);
    for part in parts {
        hasher.update(part);
    }
    let mut key = hasher.finalize();
    let secret = Secret(*key.as_bytes());
    key.zeroize();
    hasher.zeroize();
    secret
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; KEY_BYTES])
    }

    fn beginning(secret: &Secret) -> u64 {
        let (first, _) = secret.as_bytes().split_first_chunk().expect("32 bytes");
        u64::from_be_bytes(*first)
    }

    #[test]
    fn a_key_differs_with_each_thing_that_it_is_bound_to() {
        let (one, two) = ([1; STREAM_NONCE_BYTES], [2; STREAM_NONCE_BYTES]);
        let pair = PairSecret::new(secret(7));
        let other = PairSecret::new(secret(8));
        let view = ViewSecret::new(secret(7));
        let mut keys = vec![
            secret(7),
            secret(7).next(),
            secret(7).next().next(),
            pair.datagrams(1, 2),
            pair.datagrams(2, 1),
            pair.datagrams(1, 3),
            other.datagrams(1, 2),
            pair.stream(1, 2, &one, &two),
            pair.stream(1, 2, &two, &one),
            pair.stream(2, 1, &one, &two),
            other.stream(1, 2, &one, &two),
            view.sender(1, 2),
            view.sender(2, 1),
            view.sender(1, 3),
            ViewSecret::new(secret(8)).sender(1, 2),
        ];
        let count = keys.len();
        keys.sort_by_key(|key| *key.as_bytes());
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn a_proof_is_of_one_secret_one_direction_and_one_text() {
        let pair = PairSecret::new(secret(7));
        let proof = pair.proof(1, 2, &[b"he", b"llo"]);
        assert!(pair.admits(1, 2, &[b"hello"], &proof));
        assert!(!pair.admits(2, 1, &[b"hello"], &proof) && !pair.admits(1, 2, &[b"hell"], &proof));
        assert!(!PairSecret::new(secret(8)).admits(1, 2, &[b"hello"], &proof));
        assert!(
            !pair.admits(1, 2, &[b"hello"], &proof[..15]) && !pair.admits(1, 2, &[b"hello"], &[])
        );
        for bit in 0..8 * PROOF_BYTES {
            let mut other = proof;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!pair.admits(1, 2, &[b"hello"], &other));
        }
    }

    #[test]
    fn derived_keys_are_what_they_always_were() {
        let pair = PairSecret::new(secret(7));
        let keys = [
            secret(7).next(),
            pair.datagrams(1, 2),
            pair.stream(1, 2, &[3; STREAM_NONCE_BYTES], &[4; STREAM_NONCE_BYTES]),
            ViewSecret::new(secret(7)).sender(1, 2),
        ];
        let expected = [
            0x4260_83f7_79b4_43c7_u64,
            0xde16_923c_6cae_7917,
            0xc49d_2eaf_7fa4_8a4e,
            0xdbe1_33ce_1d0c_af88,
        ];
        assert_eq!(keys.each_ref().map(beginning), expected);
    }

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?}", (PairSecret::new(secret(77)), ViewSecret::new(secret(77))));
        assert_eq!(text, "(PairSecret(Secret(..)), ViewSecret(Secret(..)))");
    }
}
