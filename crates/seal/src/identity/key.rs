//! Keys of hosts: Ed25519 (RFC 8032), and the id that follows from one.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey};
use ed25519_dalek::pkcs8::{EncodePrivateKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use rustls_pki_types::{
    AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm, alg_id,
};
use thiserror::Error;
use zeroize::Zeroizing;

use super::form::FormError;
use super::pem;
use crate::secret::Secret;

/// Length of a public key in bytes.
pub const PUBLIC_KEY_BYTES: usize = 32;
/// Length of a signature in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// The label of a private key (RFC 7468, section 10).
pub(super) const PRIVATE_KEY: &str = "PRIVATE KEY";
/// The label of a public key (RFC 7468, section 13).
pub(super) const PUBLIC_KEY: &str = "PUBLIC KEY";

/// The id of a host: the first 53 bits of the BLAKE3 hash of its public key, and never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(u64);

impl HostId {
    /// Bits of an id.
    const BITS: u32 = 53;

    /// The host id of this number, if it is one: 1 to 2^53 - 1.
    pub fn new(id: u64) -> Option<HostId> {
        (id != 0 && id >> HostId::BITS == 0).then_some(HostId(id))
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for HostId {
    type Err = NoHostId;

    fn from_str(text: &str) -> Result<HostId, NoHostId> {
        text.parse().ok().and_then(HostId::new).ok_or(NoHostId)
    }
}

/// A text that is not the id of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the id of a host is a number from 1 to 2^53 - 1")]
pub struct NoHostId;

/// The public half of a host's key. It names the host, and proves what the host signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPublic(VerifyingKey);

impl HostPublic {
    /// The public key of these bytes.
    ///
    /// # Errors
    /// If they are no point of the curve, or one under which anything can be signed.
    pub fn from_bytes(bytes: &[u8; PUBLIC_KEY_BYTES]) -> Result<HostPublic, FormError> {
        HostPublic::checked(VerifyingKey::from_bytes(bytes).map_err(|_| FormError::Key)?)
    }

    /// The public key in a `SubjectPublicKeyInfo` (RFC 8410, section 4).
    ///
    /// # Errors
    /// If it is damaged, or a key for another algorithm.
    pub fn from_der(der: &[u8]) -> Result<HostPublic, FormError> {
        let key = VerifyingKey::from_public_key_der(der).map_err(|_| FormError::KeyType)?;
        HostPublic::checked(key)
    }

    /// The public key in a PEM file.
    ///
    /// # Errors
    /// If it is damaged, or a key for another algorithm.
    pub fn from_pem(text: &str) -> Result<HostPublic, FormError> {
        HostPublic::from_der(&pem::only(text, PUBLIC_KEY)?)
    }

    /// A PEM file with this key.
    pub fn to_pem(&self) -> String {
        let der = self.0.to_public_key_der().expect("a key of fixed length");
        pem::encode(PUBLIC_KEY, der.as_bytes())
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        self.0.as_bytes()
    }

    /// The id of the host.
    pub fn id(&self) -> HostId {
        let hash = blake3::hash(self.as_bytes());
        let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
        // No id is 0: the keys whose hash begins with 53 zero bits share id 1.
        HostId((u64::from_be_bytes(*first) >> (u64::BITS - HostId::BITS)).max(1))
    }

    /// True if this key's host signed the message.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let signature = Signature::from_slice(signature);
        signature.is_ok_and(|signature| self.0.verify_strict(message, &signature).is_ok())
    }

    fn checked(key: VerifyingKey) -> Result<HostPublic, FormError> {
        if key.is_weak() { Err(FormError::KeyType) } else { Ok(HostPublic(key)) }
    }
}

/// The key of one host. It is overwritten when dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct HostKey(SigningKey);

impl HostKey {
    /// The key of these random bytes, which no other key has.
    pub fn generate(random: &Secret) -> HostKey {
        HostKey(SigningKey::from_bytes(random.as_bytes()))
    }

    /// The key in a PEM file (PKCS #8, RFC 8410, section 7).
    ///
    /// # Errors
    /// If it is damaged, encrypted, or a key for another algorithm.
    pub fn from_pem(text: &str) -> Result<HostKey, FormError> {
        HostKey::from_pkcs8(&pem::only(text, PRIVATE_KEY)?)
    }

    /// A PEM file with this key.
    pub fn to_pem(&self) -> Zeroizing<String> {
        Zeroizing::new(pem::encode(PRIVATE_KEY, &self.to_pkcs8()))
    }

    /// The key in the form of PKCS #8.
    ///
    /// # Errors
    /// If it is damaged, or a key for another algorithm.
    pub fn from_pkcs8(der: &[u8]) -> Result<HostKey, FormError> {
        SigningKey::from_pkcs8_der(der).map(HostKey).map_err(|_| FormError::KeyType)
    }

    /// The form of PKCS #8, in version 1: other tools read no public key beside the private one.
    pub fn to_pkcs8(&self) -> Zeroizing<Vec<u8>> {
        let key = KeypairBytes { secret_key: self.0.to_bytes(), public_key: None };
        key.to_pkcs8_der().expect("a key of fixed length").to_bytes()
    }

    /// The public half.
    pub fn public(&self) -> HostPublic {
        HostPublic(self.0.verifying_key())
    }

    /// The id of the host.
    pub fn id(&self) -> HostId {
        self.public().id()
    }

    /// Signs a message.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for HostKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HostKey({}, ..)", self.id())
    }
}

/// How signatures of hosts and CAs are verified, for libraries that verify certificates and
/// handshakes.
pub static ED25519: &dyn SignatureVerificationAlgorithm = &Ed25519;

#[derive(Debug)]
struct Ed25519;

impl SignatureVerificationAlgorithm for Ed25519 {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let key = public_key.try_into().ok().and_then(|key| HostPublic::from_bytes(key).ok());
        let is_valid = key.is_some_and(|key| key.verifies(message, signature));
        if is_valid { Ok(()) } else { Err(InvalidSignature) }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::ED25519
    }
}
