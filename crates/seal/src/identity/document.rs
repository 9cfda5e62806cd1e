//! Files of keys and certificates: which kinds there are, and which of them a text is.

use std::fmt;

use thiserror::Error;

use super::authority::{Authority, PeerIdentity};
use super::ca::CaKey;
use super::certificate::{CERTIFICATE, Certificate, CertificateError};
use super::cluster::{CLUSTER_KEY, ClusterKey};
use super::form::FormError;
use super::key::{HostKey, HostPublic, PRIVATE_KEY, PUBLIC_KEY};
use super::revocation::{LIST, RevocationError, RevocationList};
use super::{pem, x509};

/// The certificate of a host, with that of the CA which signed it: all that a host with a key of
/// its own needs in addition.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The certificate of the host.
    pub certificate: Certificate,
    /// The CA.
    pub authority: Authority,
}

impl Chain {
    /// The two certificates in a PEM file, that of the host first.
    ///
    /// # Errors
    /// If the second one is not that of a CA. The first one is verified when it is used.
    pub fn from_pem(text: &str) -> Result<Chain, DocumentError> {
        let [host, ca] = pem::exactly(text, [CERTIFICATE, CERTIFICATE])?;
        let authority = Authority::new(Certificate::from_bytes(&ca))?;
        Ok(Chain { certificate: Certificate::from_bytes(&host), authority })
    }

    /// A PEM file with both certificates.
    pub fn to_pem(&self) -> String {
        [self.certificate.to_pem(), self.authority.certificate().to_pem()].concat()
    }

    /// What the certificate says of its host, at whatever time it is valid.
    ///
    /// # Errors
    /// If the certificate is refused at any time.
    pub fn subject(&self) -> Result<PeerIdentity, CertificateError> {
        let der = self.certificate.der();
        let (from, _) = x509::validity(der).map_err(|_| CertificateError::Malformed)?;
        self.authority.verify(der, from)
    }
}

/// The kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyDocumentKind {
    /// A [`ClusterKey`].
    ClusterKey,
    /// A [`CaKey`].
    CaKey,
    /// A [`HostKey`].
    HostKey,
    /// A [`HostPublic`].
    HostPublic,
    /// A [`Chain`].
    Chain,
    /// The certificate of an [`Authority`].
    Authority,
    /// A [`RevocationList`].
    RevocationList,
}

impl KeyDocumentKind {
    /// The name in messages and reports.
    pub fn name(self) -> &'static str {
        match self {
            KeyDocumentKind::ClusterKey => "cluster key",
            KeyDocumentKind::CaKey => "CA key",
            KeyDocumentKind::HostKey => "host key",
            KeyDocumentKind::HostPublic => "public key of a host",
            KeyDocumentKind::Chain => "certificate of a host",
            KeyDocumentKind::Authority => "certificate of a CA",
            KeyDocumentKind::RevocationList => "revocation list",
        }
    }

    /// The words of the command that makes such a file.
    pub fn command(self) -> &'static str {
        match self {
            KeyDocumentKind::ClusterKey => "paceline key new",
            KeyDocumentKind::CaKey | KeyDocumentKind::Authority => "paceline key new --ca",
            KeyDocumentKind::HostKey | KeyDocumentKind::HostPublic => "paceline key host",
            KeyDocumentKind::Chain => "paceline key sign",
            KeyDocumentKind::RevocationList => "paceline key revoke",
        }
    }
}

impl fmt::Display for KeyDocumentKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a file of one of these kinds has in it.
#[derive(Clone, Debug)]
pub enum KeyDocument {
    /// A cluster key.
    ClusterKey(ClusterKey),
    /// A CA key.
    CaKey(CaKey),
    /// A host key.
    HostKey(HostKey),
    /// The public half of a host key.
    HostPublic(HostPublic),
    /// The certificate of a host, with that of its CA.
    Chain(Chain),
    /// The certificate of a CA.
    Authority(Authority),
    /// A revocation list.
    RevocationList(RevocationList),
}

impl KeyDocument {
    /// What a text is, by the labels of its PEM blocks.
    ///
    /// # Errors
    /// If it has other blocks, or damaged ones.
    pub fn from_pem(text: &str) -> Result<KeyDocument, DocumentError> {
        let blocks = pem::blocks(text)?;
        let labels: Vec<&str> = blocks.iter().map(|block| block.label.as_str()).collect();
        Ok(match labels.as_slice() {
            [CLUSTER_KEY] => KeyDocument::ClusterKey(ClusterKey::from_pem(text)?),
            [PRIVATE_KEY, CERTIFICATE] => KeyDocument::CaKey(CaKey::from_pem(text)?),
            [PRIVATE_KEY] => KeyDocument::HostKey(HostKey::from_pem(text)?),
            [PUBLIC_KEY] => KeyDocument::HostPublic(HostPublic::from_pem(text)?),
            [CERTIFICATE, CERTIFICATE] => KeyDocument::Chain(Chain::from_pem(text)?),
            [CERTIFICATE] => KeyDocument::Authority(Authority::new(Certificate::from_pem(text)?)?),
            [LIST] => KeyDocument::RevocationList(RevocationList::from_pem(text)?),
            _ => return Err(DocumentError::Kind),
        })
    }

    /// Its kind.
    pub fn kind(&self) -> KeyDocumentKind {
        match self {
            KeyDocument::ClusterKey(_) => KeyDocumentKind::ClusterKey,
            KeyDocument::CaKey(_) => KeyDocumentKind::CaKey,
            KeyDocument::HostKey(_) => KeyDocumentKind::HostKey,
            KeyDocument::HostPublic(_) => KeyDocumentKind::HostPublic,
            KeyDocument::Chain(_) => KeyDocumentKind::Chain,
            KeyDocument::Authority(_) => KeyDocumentKind::Authority,
            KeyDocument::RevocationList(_) => KeyDocumentKind::RevocationList,
        }
    }
}

/// True if a text has a secret in it, as far as its labels say.
pub(super) fn has_secret(text: &str) -> bool {
    text.contains(CLUSTER_KEY) || text.contains(PRIVATE_KEY)
}

/// Why a text is no key document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DocumentError {
    /// Its labels are those of something else.
    #[error("it is no key, certificate or revocation list of Paceline")]
    Kind,
    /// A part is damaged.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The certificate of its CA is refused.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// It is no revocation list.
    #[error(transparent)]
    Revocation(#[from] RevocationError),
}

/// What a file can hold.
pub trait KeyForm: Sized {
    /// Its kind.
    const KIND: KeyDocumentKind;

    /// It, if the document is of that kind.
    fn from_document(document: KeyDocument) -> Option<Self>;
}

macro_rules! forms {
    ($($name:ident)*) => {
        $(
            impl KeyForm for $name {
                const KIND: KeyDocumentKind = KeyDocumentKind::$name;

                fn from_document(document: KeyDocument) -> Option<$name> {
                    match document {
                        KeyDocument::$name(found) => Some(found),
                        _ => None,
                    }
                }
            }
        )*
    };
}

forms! { ClusterKey CaKey HostKey HostPublic Chain Authority RevocationList }
