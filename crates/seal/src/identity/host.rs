//! What one host needs to prove who it is, and to verify others.

use std::time::Duration;

use rustls_pki_types::{CertificateDer, UnixTime};
use thiserror::Error;

use super::authority::{Authority, PeerIdentity};
use super::certificate::{Certificate, CertificateError};
use super::cluster::ClusterKey;
use super::grant::{Grant, HostLabel, Role};
use super::key::{HostId, HostKey};
use super::revocation::{RevocationError, RevocationList};
use super::x509::seconds;
use crate::cipher::Suite;

/// How long a certificate lasts that a host signs for itself.
pub const SELF_CERTIFIED_FOR: Duration = Duration::from_secs(24 * 3600);
/// How far the clock of a host may be behind that of the host that signed a certificate.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(3600);

/// A host: its key, its certificate, and the CA that it believes.
#[derive(Clone, Debug)]
pub struct Identity {
    key: HostKey,
    certificate: Certificate,
    own: PeerIdentity,
    authority: Authority,
}

impl Identity {
    /// A host that certifies itself as a member, for [`SELF_CERTIFIED_FOR`]. Its label is its id.
    /// The CA key is derived from the cluster key, and erased again.
    ///
    /// # Errors
    /// If the clock is at an impossible date.
    pub fn self_certified(
        cluster: &ClusterKey,
        key: HostKey,
        now: UnixTime,
    ) -> Result<Identity, IdentityError> {
        let ca = cluster.ca();
        let label = key.id().to_string();
        let grant = Grant {
            role: Role::Member,
            label: label.parse::<HostLabel>().expect("digits are a label"),
            not_before: seconds(now.as_secs().saturating_sub(CLOCK_SKEW_MAX.as_secs())),
            not_after: seconds(now.as_secs().saturating_add(SELF_CERTIFIED_FOR.as_secs())),
        };
        let certificate = ca.sign(&key.public(), &grant).map_err(|_| IdentityError::Clock)?;
        Identity::signed(key, certificate, ca.authority(), now)
    }

    /// A host that a CA has certified.
    ///
    /// # Errors
    /// If the authority refuses the certificate now, or it is that of another key.
    pub fn signed(
        key: HostKey,
        certificate: Certificate,
        authority: Authority,
        now: UnixTime,
    ) -> Result<Identity, IdentityError> {
        let own = authority.verify(certificate.der(), now)?;
        if own.public != key.public() {
            return Err(IdentityError::OtherKey { certified: own.id, held: key.id() });
        }
        Ok(Identity { key, certificate, own, authority })
    }

    /// Refuses the hosts on a list from now on: see [`Authority::learn`].
    ///
    /// # Errors
    /// If another CA signed it, or the list in force is not an earlier one.
    pub fn learn(&mut self, list: RevocationList) -> Result<(), RevocationError> {
        self.authority.learn(list)
    }

    /// Verifies the certificate of a peer: see [`Authority::verify`].
    ///
    /// # Errors
    /// If it is refused.
    pub fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        now: UnixTime,
    ) -> Result<PeerIdentity, CertificateError> {
        self.authority.verify(certificate, now)
    }

    /// The id of this host.
    pub fn id(&self) -> HostId {
        self.own.id
    }

    /// What this host may do.
    pub fn role(&self) -> Role {
        self.own.role
    }

    /// What operators call it.
    pub fn label(&self) -> &HostLabel {
        &self.own.label
    }

    /// The last moment of its certificate.
    pub fn not_after(&self) -> UnixTime {
        self.own.not_after
    }

    /// The cipher of the cluster.
    pub fn suite(&self) -> Suite {
        self.authority.suite()
    }

    /// Its certificate.
    pub fn certificate_der(&self) -> &CertificateDer<'static> {
        self.certificate.der()
    }

    /// The certificate of the CA.
    pub fn ca_der(&self) -> &CertificateDer<'static> {
        self.authority.certificate().der()
    }

    /// Its key, which signs handshakes.
    pub fn key(&self) -> &HostKey {
        &self.key
    }

    /// The CA that it believes.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }
}

/// Why a host has no identity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// Its certificate is refused.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The certificate is that of another host.
    #[error("it certifies host {certified}, and the key is that of host {held}")]
    OtherKey {
        /// The host with the certificate.
        certified: HostId,
        /// The host with the key.
        held: HostId,
    },
    /// The clock of this machine is at a date for which there is no certificate.
    #[error("the clock of this machine is past the year 9999")]
    Clock,
}
