//! Who certifies hosts, seen from a host: which certificates it accepts.

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    EndEntityCert, Error, ExtendedKeyUsageValidator, KeyPurposeIdIter, KeyUsage,
    RequiredEkuNotFoundContext,
};

use super::certificate::{Certificate, CertificateError};
use super::grant::{HostLabel, Role, from_uri};
use super::key::{ED25519, HostId, HostPublic, PUBLIC_KEY_BYTES};
use super::revocation::{RevocationError, RevocationList};
use super::x509::{self, Signed};
use crate::cipher::Suite;

/// What a certificate says of its host, once it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The id of the host.
    pub id: HostId,
    /// Its public key.
    pub public: HostPublic,
    /// What it may do.
    pub role: Role,
    /// What operators call it.
    pub label: HostLabel,
    /// The first moment of the certificate.
    pub not_before: UnixTime,
    /// Its last moment.
    pub not_after: UnixTime,
}

/// The CA of a cluster, by its certificate, and the hosts that it has revoked.
#[derive(Clone, Debug)]
pub struct Authority {
    certificate: Certificate,
    anchor: TrustAnchor<'static>,
    public: HostPublic,
    suite: Suite,
    revoked: Option<RevocationList>,
}

impl Authority {
    /// The CA with this certificate, which the caller trusts.
    ///
    /// # Errors
    /// If it is not the certificate of a CA, signed by itself.
    pub fn new(certificate: Certificate) -> Result<Authority, CertificateError> {
        let not_ca = |_| CertificateError::NotCa;
        let parsed = EndEntityCert::try_from(certificate.der()).map_err(not_ca)?;
        let public = HostPublic::from_der(&parsed.subject_public_key_info())
            .map_err(|_| CertificateError::KeyType)?;
        let name = x509::common_name(parsed.subject()).map_err(|_| CertificateError::NotCa)?;
        let suite = Suite::ALL.into_iter().find(|suite| ca_name(&public, *suite) == name);
        let suite = suite.ok_or(CertificateError::NotCa)?;
        let signed = Signed::read(certificate.der()).map_err(|_| CertificateError::NotCa)?;
        if !public.verifies(signed.body, signed.signature) {
            return Err(CertificateError::Signer(fingerprint(&public)));
        }
        let anchor = webpki::anchor_from_trusted_cert(certificate.der()).map_err(not_ca)?;
        let anchor = anchor.to_owned();
        Ok(Authority { certificate, anchor, public, suite, revoked: None })
    }

    /// Verifies the certificate of a host: the signature, the dates, the key, the role, and that
    /// the host is not revoked.
    ///
    /// # Errors
    /// The first of these that fails, in about that order.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<PeerIdentity, CertificateError> {
        let malformed = |_| CertificateError::Malformed;
        let parsed = EndEntityCert::try_from(certificate).map_err(malformed)?;
        // Before the dates, which are those of another cluster.
        if parsed.issuer() != self.anchor.subject.as_ref() {
            return Err(CertificateError::Signer(self.fingerprint()));
        }
        let anchors = std::slice::from_ref(&self.anchor);
        parsed
            .verify_for_usage(&[ED25519], anchors, &[], now, BothSides, None, None)
            .map_err(|error| self.explain(error))?;
        let public = HostPublic::from_der(&parsed.subject_public_key_info())
            .map_err(|_| CertificateError::KeyType)?;
        let mut names = parsed.valid_uri_names();
        let (role, label) = match (names.next().and_then(from_uri), names.next()) {
            (Some(found), None) => found,
            _ => return Err(CertificateError::Role),
        };
        let id = public.id();
        if self.revoked.as_ref().is_some_and(|list| list.has(id)) {
            return Err(CertificateError::Revoked(id));
        }
        let (not_before, not_after) =
            x509::validity(certificate).map_err(|_| CertificateError::Malformed)?;
        Ok(PeerIdentity { id, public, role, label, not_before, not_after })
    }

    /// Refuses the hosts on a list from now on, if the list follows the one in force. The same
    /// list again changes nothing.
    ///
    /// # Errors
    /// If another CA signed it, or the list in force is not an earlier one.
    pub fn learn(&mut self, list: RevocationList) -> Result<(), RevocationError> {
        list.verify(&self.public, &self.fingerprint())?;
        if let Some(held) = &self.revoked
            && held.number() >= list.number()
            && *held != list
        {
            let (held, offered) = (held.number(), list.number());
            return Err(RevocationError::Superseded { held, offered });
        }
        self.revoked = Some(list);
        Ok(())
    }

    /// The list of revoked hosts in force.
    pub fn revoked(&self) -> Option<&RevocationList> {
        self.revoked.as_ref()
    }

    /// The cipher of the cluster.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// The certificate of the CA.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// The public key of the CA.
    pub fn public_key(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        self.public.as_bytes()
    }

    /// What people compare to tell two clusters apart: 16 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.public)
    }

    fn explain(&self, error: Error) -> CertificateError {
        match error {
            Error::CertNotValidYet { not_before, .. } => CertificateError::NotYetValid(not_before),
            Error::CertExpired { not_after, .. } => CertificateError::Expired(not_after),
            Error::InvalidSignatureForPublicKey
            | Error::UnknownIssuer
            | Error::UnsupportedSignatureAlgorithmContext(_)
            | Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => {
                CertificateError::Signer(self.fingerprint())
            }
            _ => CertificateError::Malformed,
        }
    }
}

/// The subject of a CA's certificate, which is the issuer of those that it signs: so each of them
/// names the cipher of the cluster.
pub(super) fn ca_name(public: &HostPublic, suite: Suite) -> String {
    format!("Paceline {suite} {}", fingerprint(public))
}

fn fingerprint(public: &HostPublic) -> String {
    blake3::hash(public.as_bytes()).to_hex()[..16].to_owned()
}

/// That a certificate is for either side of a handshake: each host dials and accepts.
struct BothSides;

impl ExtendedKeyUsageValidator for BothSides {
    fn validate(&self, purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), Error> {
        let purposes = purposes.map(|purpose| Ok(purpose?.to_decoded_oid()));
        let present = purposes.collect::<Result<Vec<_>, Error>>()?;
        let has = |wanted: &[usize]| present.iter().any(|purpose| purpose == wanted);
        if has(KeyUsage::CLIENT_AUTH_REPR) && has(KeyUsage::SERVER_AUTH_REPR) {
            return Ok(());
        }
        let required = KeyUsage::client_auth();
        Err(Error::RequiredEkuNotFoundContext(RequiredEkuNotFoundContext { required, present }))
    }
}
