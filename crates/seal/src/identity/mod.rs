//! Who a host is, and which hosts belong to a cluster: keys, certificates, revocation.
//!
//! A host has an Ed25519 key ([`HostKey`]), from which its id follows ([`HostId`]). The CA of the
//! cluster ([`CaKey`]) certifies the key: the certificate names a role and lasts for a time
//! ([`Grant`]). Each host knows the CA by its public certificate ([`Authority`]), and verifies the
//! certificates of others with it.
//!
//! In a small cluster each host has the cluster key ([`ClusterKey`]), derives the CA key from it,
//! and certifies itself ([`Identity::self_certified`]). In a larger one the CA key stays offline,
//! and hosts have files that it signed ([`Identity::signed`]).
//!
//! ```
//! use paceline_seal::identity::{ClusterKey, HostKey, Identity, UnixTime};
//! use paceline_seal::{Secret, Suite};
//!
//! // From the random numbers of the system, which this crate does not draw.
//! let cluster = ClusterKey::generate(Secret::new([1; 32]), Suite::ChaCha20Poly1305);
//! let [one, two] = [2, 3].map(|byte| HostKey::generate(&Secret::new([byte; 32])));
//! let now = UnixTime::now();
//! let one = Identity::self_certified(&cluster, one, now)?;
//! let two = Identity::self_certified(&cluster, two, now)?;
//! assert_eq!(one.verify(two.certificate_der(), now)?.id, two.id());
//! # Ok::<(), paceline_seal::identity::IdentityError>(())
//! ```
//!
//! Certificates are X.509 (RFC 5280) with Ed25519 (RFC 8410), so that TLS libraries and other
//! tools read them. A CA's subject names the cipher of the cluster, and so does the issuer of each
//! certificate that it signed. The role and the label of a host are an alternative name of it,
//! `paceline://host/ROLE/LABEL`.

mod authority;
mod ca;
mod certificate;
mod cluster;
mod document;
pub mod files;
mod form;
mod grant;
mod host;
mod key;
mod pem;
mod revocation;
#[cfg(test)]
mod tests;
mod x509;

pub use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};

pub use authority::{Authority, PeerIdentity};
pub use ca::CaKey;
pub use certificate::{Certificate, CertificateError};
pub use cluster::ClusterKey;
pub use document::{Chain, DocumentError, KeyDocument, KeyDocumentKind, KeyForm};
pub use form::FormError;
pub use grant::{Grant, GrantError, HostLabel, Role};
pub use host::{CLOCK_SKEW_MAX, Identity, IdentityError, SELF_CERTIFIED_FOR};
pub use key::{ED25519, HostId, HostKey, HostPublic, NoHostId, PUBLIC_KEY_BYTES, SIGNATURE_BYTES};
pub use revocation::{RevocationError, RevocationList};
pub use x509::date;
