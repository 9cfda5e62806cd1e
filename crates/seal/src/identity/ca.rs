//! The key that certifies hosts, and revokes them.

use std::collections::BTreeMap;
use std::fmt;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyUsagePurpose, PublicKeyData,
    RevokedCertParams, SanType, SerialNumber, SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::UnixTime;
use time::OffsetDateTime;
use zeroize::Zeroizing;

use super::authority::{Authority, ca_name};
use super::certificate::{CERTIFICATE, Certificate};
use super::form::FormError;
use super::grant::{Grant, GrantError, uri};
use super::key::{HostId, HostKey, HostPublic, PRIVATE_KEY};
use super::pem;
use super::revocation::{RevocationError, RevocationList, serial};
use super::x509::{NEVER, seconds};
use crate::cipher::Suite;
use crate::secret::Secret;

/// The first moment of the certificates of all CAs: the start of 2026.
const CA_NOT_BEFORE: u64 = 1_767_225_600;
/// The serial number of the certificates of all CAs.
const CA_SERIAL: u64 = 1;
/// Length of the identifier of a key in a certificate, in bytes (RFC 7093, section 2).
const KEY_IDENTIFIER_BYTES: usize = 20;

/// The key of the CA of a cluster, with the cipher of the cluster. It is overwritten when
/// dropped, and `Debug` does not show it.
#[derive(Clone)]
pub struct CaKey {
    key: HostKey,
    suite: Suite,
}

impl CaKey {
    /// The CA key of these random bytes, for a cluster with this cipher.
    pub fn generate(random: &Secret, suite: Suite) -> CaKey {
        CaKey { key: HostKey::generate(random), suite }
    }

    /// The CA key in a PEM file: the key (PKCS #8), then its certificate, which names the cipher.
    ///
    /// # Errors
    /// If one of them is damaged, or the certificate is not that of the key.
    pub fn from_pem(text: &str) -> Result<CaKey, FormError> {
        let [key, certificate] = pem::exactly(text, [PRIVATE_KEY, CERTIFICATE])?;
        let key = HostKey::from_pkcs8(&key)?;
        let certificate = Certificate::from_bytes(&certificate);
        let named = |suite: &Suite| CaKey { key: key.clone(), suite: *suite };
        let mut keys = Suite::ALL.iter().map(named);
        keys.find(|ca| ca.certificate() == certificate).ok_or(FormError::OtherKey)
    }

    /// A PEM file with this key.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let key = self.key.to_pem();
        Zeroizing::new([key.as_str(), &self.certificate().to_pem()].concat())
    }

    /// The cipher of the cluster.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The certificate of the CA, signed by itself. It is the same each time and on each host.
    pub fn certificate(&self) -> Certificate {
        let signed = self.params().self_signed(&Signer::new(&self.key));
        Certificate::new(signed.expect("the parameters are constant but for the key").into())
    }

    /// What hosts know of this CA.
    pub fn authority(&self) -> Authority {
        Authority::new(self.certificate()).expect("the certificate of a CA")
    }

    /// Certifies a host.
    ///
    /// # Errors
    /// If there is no such time.
    pub fn sign(&self, host: &HostPublic, grant: &Grant) -> Result<Certificate, GrantError> {
        let name = uri(grant.role, &grant.label);
        let (not_before, not_after) = (grant.not_before.as_secs(), grant.not_after.as_secs());
        let mut hasher = blake3::Hasher::new();
        hasher.update(host.as_bytes());
        hasher.update(&not_before.to_be_bytes());
        hasher.update(&not_after.to_be_bytes());
        hasher.update(name.as_bytes());
        let hash = hasher.finalize();
        let (suffix, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
        let serial = number(&serial(host.id(), u64::from_be_bytes(*suffix)));
        self.issue(&Public(host), serial, grant, &[&name])
    }

    /// Signs a certificate with these alternative names.
    pub(super) fn issue(
        &self,
        key: &impl PublicKeyData,
        serial: SerialNumber,
        grant: &Grant,
        names: &[&str],
    ) -> Result<Certificate, GrantError> {
        grant.check()?;
        let mut params = CertificateParams::default();
        params.not_before = date(grant.not_before);
        params.not_after = date(grant.not_after);
        params.serial_number = Some(serial);
        params.distinguished_name = named(grant.label.as_str());
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let name = |name: &&str| Ia5String::try_from(*name).expect("role and label are ASCII");
        params.subject_alt_names = names.iter().map(name).map(SanType::URI).collect();
        params.use_authority_key_identifier_extension = true;
        params.key_identifier_method = identifier(key.der_bytes());
        let ca = self.params();
        let issuer = Issuer::from_params(&ca, Signer::new(&self.key));
        let signed = params.signed_by(key, &issuer);
        Ok(Certificate::new(signed.expect("the parameters are checked").into()))
    }

    /// A list with one host more than the list in force, if there is one. Its number is larger
    /// than that of the list in force, and is at least the date in seconds: if that list is lost,
    /// hosts accept one that is signed later.
    ///
    /// # Errors
    /// If the list in force is not signed by this CA.
    pub fn revoke(
        &self,
        in_force: Option<&RevocationList>,
        host: HostId,
        now: UnixTime,
    ) -> Result<RevocationList, RevocationError> {
        let mut hosts = BTreeMap::new();
        let mut count = now.as_secs();
        if let Some(list) = in_force {
            self.authority().learn(list.clone())?;
            hosts.extend(list.hosts());
            count = count.max(list.number().saturating_add(1));
        }
        hosts.entry(host).or_insert(now);
        let revoked = hosts.iter().map(|(host, since)| RevokedCertParams {
            serial_number: number(&serial(*host, 0)),
            revocation_time: date(*since),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date(now),
            next_update: date(seconds(NEVER)),
            crl_number: SerialNumber::from(count),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: identifier(self.key.public().as_bytes()),
        };
        let ca = self.params();
        let issuer = Issuer::from_params(&ca, Signer::new(&self.key));
        let list = list.signed_by(&issuer).expect("the CA signs lists");
        RevocationList::from_der(list.der())
    }

    fn params(&self) -> CertificateParams {
        let public = self.key.public();
        let mut params = CertificateParams::default();
        params.not_before = date(seconds(CA_NOT_BEFORE));
        params.not_after = date(seconds(NEVER));
        params.serial_number = Some(SerialNumber::from(CA_SERIAL));
        params.distinguished_name = named(&ca_name(&public, self.suite));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.key_identifier_method = identifier(public.as_bytes());
        params
    }
}

impl fmt::Debug for CaKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "CaKey({}, ..)", ca_name(&self.key.public(), self.suite))
    }
}

/// A name that consists of one common name.
fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn identifier(key: &[u8]) -> KeyIdMethod {
    let hash = blake3::hash(key);
    KeyIdMethod::PreSpecified(hash.as_bytes()[..KEY_IDENTIFIER_BYTES].to_vec())
}

fn number(bytes: &[u8]) -> SerialNumber {
    SerialNumber::from_slice(bytes)
}

/// Dates past the year 9999 become its end.
fn date(time: UnixTime) -> OffsetDateTime {
    let seconds = time.as_secs().min(NEVER) as i64;
    OffsetDateTime::from_unix_timestamp(seconds).expect("a date before the year 10000")
}

/// A public key, for the library that writes certificates.
struct Public<'a>(&'a HostPublic);

impl PublicKeyData for Public<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

/// A key, for the same library.
struct Signer<'a> {
    key: &'a HostKey,
    public: HostPublic,
}

impl Signer<'_> {
    fn new(key: &HostKey) -> Signer<'_> {
        Signer { key, public: key.public() }
    }
}

impl PublicKeyData for Signer<'_> {
    fn der_bytes(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &rcgen::PKCS_ED25519
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        Ok(self.key.sign(message).to_vec())
    }
}
