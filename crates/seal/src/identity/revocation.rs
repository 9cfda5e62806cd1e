//! Lists of hosts whose certificates are refused (RFC 5280, section 5).

use std::collections::BTreeMap;

use rustls_pki_types::{CertificateRevocationListDer, UnixTime};
use thiserror::Error;
use webpki::BorrowedCertRevocationList;

use super::form::FormError;
use super::key::{HostId, HostPublic};
use super::pem;
use super::x509::{Signed, number_and_date};

/// The label of a revocation list (RFC 7468, section 6).
pub(super) const LIST: &str = "X509 CRL";

/// Bits of a serial number behind the host id.
const SUFFIX_BITS: u32 = 64;

/// The serial number of a certificate of a host: its id, then bits that differ with each of its
/// certificates. With zero bits it stands for all of them, on a list.
pub(super) fn serial(host: HostId, suffix: u64) -> [u8; 16] {
    (u128::from(host.get()) << SUFFIX_BITS | u128::from(suffix)).to_be_bytes()
}

/// The host whose certificates have this serial number.
fn host_of(serial: &[u8]) -> Option<HostId> {
    let mut bytes = [0; 16];
    bytes.get_mut(16_usize.checked_sub(serial.len())?..)?.copy_from_slice(serial);
    HostId::new(u64::try_from(u128::from_be_bytes(bytes) >> SUFFIX_BITS).ok()?)
}

/// A list of hosts, all of whose certificates are refused. Its number grows with each later list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevocationList {
    der: CertificateRevocationListDer<'static>,
    number: u64,
    signed_at: UnixTime,
    hosts: BTreeMap<HostId, UnixTime>,
}

impl RevocationList {
    /// The list of these bytes. Its signature is verified where it is used.
    ///
    /// # Errors
    /// If it is damaged, or names something other than hosts.
    pub fn from_der(der: &[u8]) -> Result<RevocationList, RevocationError> {
        let malformed = |_| RevocationError::Malformed;
        let parsed = BorrowedCertRevocationList::from_der(der).map_err(malformed)?;
        let mut hosts = BTreeMap::new();
        for entry in &parsed {
            let entry = entry.map_err(malformed)?;
            let host = host_of(entry.serial_number).ok_or(RevocationError::Malformed)?;
            hosts.insert(host, entry.revocation_date);
        }
        let (number, signed_at) = number_and_date(der).map_err(|_| RevocationError::Malformed)?;
        let der = CertificateRevocationListDer::from(der.to_vec());
        Ok(RevocationList { der, number, signed_at, hosts })
    }

    /// The list in a PEM file.
    ///
    /// # Errors
    /// As [`RevocationList::from_der`], and if the file does not have one PEM block of that kind.
    pub fn from_pem(text: &str) -> Result<RevocationList, RevocationError> {
        RevocationList::from_der(&pem::only(text, LIST)?)
    }

    /// A PEM file with this list.
    pub fn to_pem(&self) -> String {
        pem::encode(LIST, &self.der)
    }

    /// The bytes.
    pub fn der(&self) -> &CertificateRevocationListDer<'static> {
        &self.der
    }

    /// The number, which grows with each later list of the same CA.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When the list was signed.
    pub fn signed_at(&self) -> UnixTime {
        self.signed_at
    }

    /// The hosts on it, by id, and when each was revoked.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, UnixTime)> {
        self.hosts.iter().map(|(host, since)| (*host, *since))
    }

    /// True if certificates of the host are refused.
    pub fn has(&self, host: HostId) -> bool {
        self.hosts.contains_key(&host)
    }

    /// Checks who signed it.
    pub(super) fn verify(&self, ca: &HostPublic, name: &str) -> Result<(), RevocationError> {
        let signed = Signed::read(&self.der).map_err(|_| RevocationError::Malformed)?;
        match ca.verifies(signed.body, signed.signature) {
            true => Ok(()),
            false => Err(RevocationError::Signer(name.to_owned())),
        }
    }
}

/// Why a revocation list is refused. The list before it stays in force.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RevocationError {
    /// The file has another form.
    #[error(transparent)]
    Form(#[from] FormError),
    /// It is damaged, or names something other than hosts.
    #[error("it is damaged, or not a list of revoked hosts")]
    Malformed,
    /// Another CA signed it, or it was changed after it was signed.
    #[error("it is not signed by the CA {0}")]
    Signer(String),
    /// There is a later list, or another one with its number.
    #[error("it has number {offered}, and the list in force has number {held}")]
    Superseded {
        /// The number of the list in force.
        held: u64,
        /// The number of the refused list.
        offered: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_names_its_host() {
        for id in [1, 77, (1 << 53) - 1] {
            let host = HostId::new(id).unwrap();
            for suffix in [0, 1, u64::MAX] {
                let bytes = serial(host, suffix);
                let first = bytes.iter().position(|&byte| byte != 0).unwrap();
                assert_eq!(host_of(&bytes[first..]), Some(host));
            }
        }
        assert_eq!(host_of(&[1]), None, "no host has id 0");
        assert_eq!(host_of(&[1; 17]), None);
    }
}
