use std::fmt;
use std::sync::Arc;

use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::name::Name;

/// How Data is signed.
///
/// Source: NDN packet format 0.3, "Signature".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureType {
    /// A SHA-256 digest: detects damage, but does not prevent forgery. Number 0.
    DigestSha256,
    /// RSA. Number 1; not supported.
    Sha256WithRsa,
    /// An elliptic curve of NIST. Number 3; not supported.
    Sha256WithEcdsa,
    /// A key that both ends have. Number 4; not supported.
    HmacWithSha256,
    /// Ed25519. Number 5.
    Ed25519,
    /// Nothing. Number 200.
    Null,
    /// Any other number.
    Other(u64),
}

impl SignatureType {
    /// The type with this number.
    pub fn of_number(number: u64) -> SignatureType {
        match number {
            0 => SignatureType::DigestSha256,
            1 => SignatureType::Sha256WithRsa,
            3 => SignatureType::Sha256WithEcdsa,
            4 => SignatureType::HmacWithSha256,
            5 => SignatureType::Ed25519,
            200 => SignatureType::Null,
            other => SignatureType::Other(other),
        }
    }

    /// Its number.
    pub fn number(self) -> u64 {
        match self {
            SignatureType::DigestSha256 => 0,
            SignatureType::Sha256WithRsa => 1,
            SignatureType::Sha256WithEcdsa => 3,
            SignatureType::HmacWithSha256 => 4,
            SignatureType::Ed25519 => 5,
            SignatureType::Null => 200,
            SignatureType::Other(number) => number,
        }
    }
}

impl fmt::Display for SignatureType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignatureType::DigestSha256 => f.write_str("DigestSha256"),
            SignatureType::Sha256WithRsa => f.write_str("SignatureSha256WithRsa"),
            SignatureType::Sha256WithEcdsa => f.write_str("SignatureSha256WithEcdsa"),
            SignatureType::HmacWithSha256 => f.write_str("SignatureHmacWithSha256"),
            SignatureType::Ed25519 => f.write_str("SignatureEd25519"),
            SignatureType::Null => f.write_str("NullSignature"),
            SignatureType::Other(number) => write!(f, "signature of type {number}"),
        }
    }
}

/// Signs the Data that a producer makes.
#[derive(Clone)]
pub enum Signer {
    /// Not at all. Costs nothing: such Data is written out when it is sent.
    Null,
    /// With a digest.
    Digest,
    /// With an Ed25519 key.
    Ed25519 {
        /// The key. Shared: it is large.
        key: Arc<SigningKey>,
        /// The key's name, by which a consumer finds it.
        locator: Name,
    },
}

impl Signer {
    /// The private key in a PKCS #8 PEM file, as `openssl genpkey -algorithm ed25519` writes it.
    pub fn from_pem(pem: &str, locator: Name) -> Result<Signer, KeyError> {
        let key = SigningKey::from_pkcs8_pem(pem).map_err(|_| KeyError::Private)?;
        Ok(Signer::Ed25519 { key: Arc::new(key), locator })
    }

    /// The private key that these 32 bytes are.
    pub fn from_seed(seed: &[u8; 32], locator: Name) -> Signer {
        Signer::Ed25519 { key: Arc::new(SigningKey::from_bytes(seed)), locator }
    }

    /// What accepts the Data that this signs, and no weaker one.
    pub fn trust(&self) -> Trust {
        match self {
            Signer::Null => Trust::Anything,
            Signer::Digest => Trust::Digest,
            Signer::Ed25519 { key, .. } => Trust::Key(Arc::new(key.verifying_key())),
        }
    }

    /// What stands in SignatureInfo.
    pub fn signature_type(&self) -> SignatureType {
        match self {
            Signer::Null => SignatureType::Null,
            Signer::Digest => SignatureType::DigestSha256,
            Signer::Ed25519 { .. } => SignatureType::Ed25519,
        }
    }

    /// The name that stands as KeyLocator.
    pub fn locator(&self) -> Option<&Name> {
        match self {
            Signer::Null | Signer::Digest => None,
            Signer::Ed25519 { locator, .. } => Some(locator),
        }
    }

    /// Bytes of SignatureValue.
    pub(super) fn value_len(&self) -> usize {
        match self {
            Signer::Null => 0,
            Signer::Digest => 32,
            Signer::Ed25519 { .. } => 64,
        }
    }

    /// Signs the bytes from Name to SignatureInfo.
    pub(super) fn sign(&self, signed: &[u8], out: &mut Vec<u8>) {
        match self {
            Signer::Null => {}
            Signer::Digest => out.extend_from_slice(&Sha256::digest(signed)),
            Signer::Ed25519 { key, .. } => out.extend_from_slice(&key.sign(signed).to_bytes()),
        }
    }
}

/// Says whose Data it is, not the key.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.locator() {
            Some(locator) => write!(f, "{} by {locator}", self.signature_type()),
            None => write!(f, "{}", self.signature_type()),
        }
    }
}

/// What a consumer accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any Data, verified or not.
    Anything,
    /// A valid digest: the bytes are undamaged.
    Digest,
    /// The signature of this Ed25519 key.
    Key(Arc<VerifyingKey>),
}

impl Trust {
    /// The public key in a PEM file, as `openssl pkey -pubout` writes it.
    pub fn from_pem(pem: &str) -> Result<Trust, KeyError> {
        let key = VerifyingKey::from_public_key_pem(pem).map_err(|_| KeyError::Public)?;
        Ok(Trust::Key(Arc::new(key)))
    }

    /// Holds a signature against the bytes from Name to SignatureInfo.
    pub(super) fn check(
        &self,
        found: SignatureType,
        signed: &[u8],
        value: &[u8],
    ) -> Result<(), VerifyError> {
        match (self, found) {
            (Trust::Anything, _) => Ok(()),
            (Trust::Digest, SignatureType::DigestSha256) => {
                let fits = Sha256::digest(signed)[..] == *value;
                if fits { Ok(()) } else { Err(VerifyError::Digest) }
            }
            (Trust::Key(key), SignatureType::Ed25519) => {
                let signature = Signature::from_slice(value).map_err(|_| VerifyError::Signature)?;
                key.verify_strict(signed, &signature).map_err(|_| VerifyError::Signature)
            }
            (Trust::Digest, SignatureType::Ed25519) => Err(VerifyError::NoKey),
            (Trust::Key(_) | Trust::Digest, SignatureType::Null | SignatureType::DigestSha256) => {
                Err(VerifyError::TooWeak(found))
            }
            (Trust::Key(_) | Trust::Digest, _) => Err(VerifyError::Unsupported(found)),
        }
    }
}

/// Why Data is not accepted. The producer or a node on the way is at fault, or the consumer
/// requires another kind of signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum VerifyError {
    /// The bytes are not those that the digest was made of.
    #[error("digest does not match")]
    Digest,
    /// The bytes were not signed by this key.
    #[error("signature does not match the key")]
    Signature,
    /// There is an Ed25519 signature, and no key to check it.
    #[error("signed by an unknown key")]
    NoKey,
    /// Weaker than the consumer requires.
    #[error("{0} is too weak")]
    TooWeak(SignatureType),
    /// A kind that this crate cannot verify.
    #[error("{0} is not supported")]
    Unsupported(SignatureType),
}

/// Why a file is no key. The user is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// No private key.
    #[error("not an Ed25519 private key in a PKCS #8 PEM file")]
    Private,
    /// No public key.
    #[error("not an Ed25519 public key in a PEM file")]
    Public,
}
