//! The key of a small cluster: a host that has it certifies itself.

use std::fmt;

use zeroize::Zeroizing;

use super::ca::CaKey;
use super::form::FormError;
use super::pem;
use crate::cipher::Suite;
use crate::secret::{KEY_BYTES, Secret, certificate_authority};

/// The label of a cluster key.
pub(super) const CLUSTER_KEY: &str = "PACELINE CLUSTER KEY";

/// Bytes of the checksum of a cluster key in a file.
const CHECKSUM_BYTES: usize = 4;

/// What all hosts of a small cluster share: 32 random bytes, with the cipher of the cluster. It is
/// overwritten when dropped, and `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    secret: Secret,
    suite: Suite,
}

impl ClusterKey {
    /// The cluster key of these random bytes, for a cluster with this cipher.
    pub fn generate(random: Secret, suite: Suite) -> ClusterKey {
        ClusterKey { secret: random, suite }
    }

    /// The cluster key in a PEM file: the secret, the name of the cipher, then the first bytes of
    /// the BLAKE3 hash of both, which detect what copying by hand does to a file.
    ///
    /// # Errors
    /// If it is damaged, or names an unknown cipher.
    pub fn from_pem(text: &str) -> Result<ClusterKey, FormError> {
        let bytes = pem::only(text, CLUSTER_KEY)?;
        let (content, sum) = bytes.split_last_chunk().ok_or(FormError::Key)?;
        if *sum != checksum(content) {
            return Err(FormError::Key);
        }
        let (secret, name) = content.split_first_chunk().ok_or(FormError::Key)?;
        let suite = std::str::from_utf8(name).ok().and_then(Suite::named);
        let suite = suite.ok_or(FormError::Suite)?;
        Ok(ClusterKey { secret: Secret::new(*secret), suite })
    }

    /// A PEM file with this key.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let name = self.suite.name();
        let length = KEY_BYTES + name.len() + CHECKSUM_BYTES;
        let mut bytes = Zeroizing::new(Vec::with_capacity(length));
        bytes.extend_from_slice(self.secret.as_bytes());
        bytes.extend_from_slice(name.as_bytes());
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum);
        Zeroizing::new(pem::encode(CLUSTER_KEY, &bytes))
    }

    /// The cipher of the cluster.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The key that certifies the hosts of the cluster: the same for each host that has this one.
    pub fn ca(&self) -> CaKey {
        let random = certificate_authority(&self.secret, self.suite.name());
        CaKey::generate(&random, self.suite)
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ClusterKey({}, ..)", self.suite)
    }
}

fn checksum(content: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let hash = blake3::hash(content);
    let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
    *first
}
