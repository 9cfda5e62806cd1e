//! Certificates (X.509, RFC 5280) of hosts and CAs, in their two forms: DER and PEM.

use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;

use super::form::FormError;
use super::key::HostId;
use super::pem;
use super::x509::date;

/// The label of a certificate (RFC 7468, section 5).
pub(super) const CERTIFICATE: &str = "CERTIFICATE";

/// The certificate of a host, or of a CA. Nothing is known of it before an
/// [`Authority`](super::Authority) has verified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate(CertificateDer<'static>);

impl Certificate {
    /// The certificate of these bytes, which may be anything.
    pub fn new(der: CertificateDer<'static>) -> Certificate {
        Certificate(der)
    }

    /// The certificate in a PEM file.
    ///
    /// # Errors
    /// If the file does not have one PEM block of that kind.
    pub fn from_pem(text: &str) -> Result<Certificate, FormError> {
        Ok(Certificate::from_bytes(&pem::only(text, CERTIFICATE)?))
    }

    /// A PEM file with this certificate.
    pub fn to_pem(&self) -> String {
        pem::encode(CERTIFICATE, &self.0)
    }

    /// The bytes.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.0
    }

    pub(super) fn from_bytes(der: &[u8]) -> Certificate {
        Certificate(CertificateDer::from(der.to_vec()))
    }
}

/// Why a certificate is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CertificateError {
    /// It is damaged, or has parts that certificates of hosts do not have.
    #[error("it is damaged, or no certificate of a host")]
    Malformed,
    /// Another CA signed it, or it was changed after it was signed.
    #[error("it is not signed by the CA {0}")]
    Signer(String),
    /// It is not valid yet.
    #[error("it is not valid before {}", date(.0))]
    NotYetValid(UnixTime),
    /// It is not valid any more.
    #[error("it was valid until {}", date(.0))]
    Expired(UnixTime),
    /// It names no role, or several.
    #[error("it names no role of a host")]
    Role,
    /// Its key is for another algorithm.
    #[error("its key is not an Ed25519 key")]
    KeyType,
    /// Its host is on the revocation list.
    #[error("host {0} is revoked")]
    Revoked(HostId),
    /// It is no certificate of a CA of Paceline.
    #[error("it is not the certificate of a CA of a Paceline cluster")]
    NotCa,
}
