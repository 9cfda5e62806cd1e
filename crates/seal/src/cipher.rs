//! Authenticated encryption (RFC 5116): one trait, and the two ciphers that implement it.

use std::fmt;

use chacha20poly1305::ChaCha20Poly1305;
use chacha20poly1305::aead::inout::InOutBuf;
use chacha20poly1305::aead::{AeadInOut, KeyInit};
use thiserror::Error;

use crate::secret::Secret;

/// Length of a nonce in bytes.
pub const NONCE_BYTES: usize = 12;
/// Length of a tag in bytes: how much longer a sealed text is.
pub const TAG_BYTES: usize = 16;

/// What authenticates a sealed text and its header.
pub type Tag = [u8; TAG_BYTES];

/// A number that a key seals with once only: four zero bytes, then the number of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// The nonce of the record with this number.
    pub fn of(number: u64) -> Nonce {
        let mut bytes = [0; NONCE_BYTES];
        bytes[NONCE_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
        Nonce(bytes)
    }

    /// A nonce of these bytes.
    pub fn new(bytes: [u8; NONCE_BYTES]) -> Nonce {
        Nonce(bytes)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8; NONCE_BYTES] {
        &self.0
    }
}

/// Seals and opens under one key.
pub trait Sealer: Send + Sync {
    /// Encrypts `text` in place. The tag authenticates it and `header`, which stays as it is.
    ///
    /// A nonce must not be used twice: the second use gives the key of the tags away.
    fn seal(&self, nonce: Nonce, header: &[u8], text: &mut [u8]) -> Tag;

    /// Decrypts `text` in place.
    ///
    /// # Errors
    /// If the key, the nonce, the header, the text or the tag is not what was sealed. `text` then
    /// holds no plaintext.
    fn open(&self, nonce: Nonce, header: &[u8], text: &mut [u8], tag: &Tag) -> Result<(), Forged>;
}

/// A text, or its header, is not what was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the tag of a sealed text does not fit it")]
pub struct Forged;

/// The cipher of a cluster. All hosts of it use the same one, so a pair negotiates none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// AES-256 in Galois/Counter Mode (NIST SP 800-38D). Needs AES instructions.
    Aes256Gcm,
    /// ChaCha20 and Poly1305 (RFC 8439). Runs anywhere.
    ChaCha20Poly1305,
}

/// This processor cannot run a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("this processor cannot run {0}: it needs {MISSING}")]
pub struct Unavailable(pub Suite);

#[cfg(target_arch = "aarch64")]
const MISSING: &str = "the instructions NEON, AES, PMULL and SHA2";
#[cfg(not(target_arch = "aarch64"))]
const MISSING: &str = "an x86-64 with the instructions AES, PCLMULQDQ, BMI1, BMI2, ADX and AVX2";

impl Suite {
    /// All suites, fastest first.
    pub const ALL: [Suite; 2] = [Suite::Aes256Gcm, Suite::ChaCha20Poly1305];

    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Aes256Gcm => "aes-256-gcm",
            Suite::ChaCha20Poly1305 => "chacha20-poly1305",
        }
    }

    /// The suite of this name.
    pub fn named(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// True if this processor runs it.
    pub fn is_available(self) -> bool {
        match self {
            Suite::Aes256Gcm => aes::is_available(),
            Suite::ChaCha20Poly1305 => true,
        }
    }

    /// The fastest suite that this processor runs.
    pub fn fastest() -> Suite {
        let available = Suite::ALL.into_iter().find(|suite| suite.is_available());
        available.unwrap_or(Suite::ChaCha20Poly1305)
    }

    /// A sealer under this key.
    ///
    /// # Errors
    /// If this processor cannot run the suite.
    pub fn sealer(self, key: &Secret) -> Result<Box<dyn Sealer>, Unavailable> {
        match self {
            Suite::Aes256Gcm => aes::sealer(key).ok_or(Unavailable(self)),
            Suite::ChaCha20Poly1305 => {
                Ok(Box::new(ChaCha(ChaCha20Poly1305::new(key.as_bytes().into()))))
            }
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

struct ChaCha(ChaCha20Poly1305);

impl Sealer for ChaCha {
    fn seal(&self, nonce: Nonce, header: &[u8], text: &mut [u8]) -> Tag {
        let sealed = self.0.encrypt_inout_detached(&nonce.0.into(), header, InOutBuf::from(text));
        sealed.expect("a record is shorter than 256 GiB").into()
    }

    fn open(&self, nonce: Nonce, header: &[u8], text: &mut [u8], tag: &Tag) -> Result<(), Forged> {
        let text = InOutBuf::from(text);
        let opened = self.0.decrypt_inout_detached(&nonce.0.into(), header, text, tag.into());
        opened.map_err(|_| Forged)
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod aes {
    use graviola::aead::AesGcm;

    use super::{Forged, Nonce, Sealer, TAG_BYTES, Tag};
    use crate::secret::Secret;

    struct Aes(AesGcm);

    impl Sealer for Aes {
        fn seal(&self, nonce: Nonce, header: &[u8], text: &mut [u8]) -> Tag {
            let mut tag = [0; TAG_BYTES];
            self.0.encrypt(nonce.as_bytes(), header, text, &mut tag);
            tag
        }

        fn open(
            &self,
            nonce: Nonce,
            header: &[u8],
            text: &mut [u8],
            tag: &Tag,
        ) -> Result<(), Forged> {
            self.0.decrypt(nonce.as_bytes(), header, text, tag).map_err(|_| Forged)
        }
    }

    pub(super) fn is_available() -> bool {
        graviola::util::is_cpu_supported()
    }

    pub(super) fn sealer(key: &Secret) -> Option<Box<dyn Sealer>> {
        is_available().then(|| Box::new(Aes(AesGcm::new(key.as_bytes()))) as Box<dyn Sealer>)
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod aes {
    use super::Sealer;
    use crate::secret::Secret;

    pub(super) fn is_available() -> bool {
        false
    }

    pub(super) fn sealer(_: &Secret) -> Option<Box<dyn Sealer>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_its_number_behind_four_zero_bytes() {
        assert_eq!(Nonce::of(0x0102_0304_0506_0708).0, [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_suite_has_a_name_that_reads_back() {
        for suite in Suite::ALL {
            assert_eq!(Suite::named(&suite.to_string()), Some(suite));
        }
        assert_eq!(Suite::named("AES"), None);
    }
}
