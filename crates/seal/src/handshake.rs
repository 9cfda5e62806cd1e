//! The handshake of two hosts: TLS 1.3 with both certificates, from which the keys of their session
//! are exported.
//!
//! It is a state machine without sockets: what comes from the peer goes in, what is for it comes
//! out. Once TLS stands each side sends one *greeting*, bytes of the caller's that are encrypted
//! and authenticated. The host that dialled sends its greeting first. The other side's greeting
//! tells it that its certificate was accepted. After the greetings TLS sends nothing more.

use std::fmt;
use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, Signer, SigningKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, DistinguishedName,
    OtherError, ServerConfig, ServerConnection, SignatureAlgorithm, SignatureScheme,
};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::cipher::Unavailable;
use crate::identity::{Authority, CertificateError, ED25519, HostKey, Identity, PeerIdentity};
use crate::secret::{KEY_BYTES, PairSecret, Secret};

/// The longest greeting, bytes.
pub const GREETING_BYTES_MAX: usize = 256;
/// The most bytes that a handshake takes from a peer. An honest one sends less than 4 KiB.
const RECEIVED_BYTES_MAX: usize = 16 << 10;
/// Label of the exporter (RFC 8446, section 7.5).
const LABEL: &[u8] = b"EXPORTER paceline session 1";
/// Length of the name of a session, bytes.
pub const SESSION_NAME_BYTES: usize = 16;

/// Name that the dialler sends for the acceptor. Certificates name hosts by their keys, so it
/// decides nothing.
const ANY_HOST: &str = "host.paceline.invalid";

/// Why a handshake failed. Neither side has a session then.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The peer's certificate does not admit it.
    #[error("the peer is not admitted: {0}")]
    NotAdmitted(CertificateError),
    /// The peer refused this host's certificate, or ended the handshake for another reason.
    #[error("the peer ended the handshake: {0:?}")]
    Refused(rustls::AlertDescription),
    /// The peer does not speak TLS as it should.
    #[error("the peer breaks the rules of TLS: {0}")]
    Misbehaved(rustls::Error),
    /// The peer has sent more than a handshake takes.
    #[error("the peer sent more than {RECEIVED_BYTES_MAX} bytes for a handshake")]
    TooLong,
    /// The greeting is empty or longer than [`GREETING_BYTES_MAX`].
    #[error("a greeting of {0} bytes")]
    Greeting(usize),
    /// This processor cannot run the handshake.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<rustls::Error> for HandshakeError {
    fn from(error: rustls::Error) -> HandshakeError {
        match error {
            rustls::Error::AlertReceived(alert) => HandshakeError::Refused(alert),
            rustls::Error::Other(OtherError(other)) => {
                match other.downcast_ref::<CertificateError>() {
                    Some(error) => HandshakeError::NotAdmitted(error.clone()),
                    None => HandshakeError::Misbehaved(rustls::Error::Other(OtherError(other))),
                }
            }
            error => HandshakeError::Misbehaved(error),
        }
    }
}

/// What two hosts have after a handshake.
#[derive(Debug)]
pub struct Agreed {
    /// The secret from which the keys of the session come.
    pub secret: PairSecret,
    /// The name of the session, which is no secret.
    pub name: [u8; SESSION_NAME_BYTES],
    /// The peer, as its certificate says.
    pub peer: PeerIdentity,
    /// The peer's greeting.
    pub greeting: Vec<u8>,
}

/// The key and certificate of a host, ready for handshakes. Clones share them.
#[derive(Clone)]
pub struct Credentials {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    authority: Arc<Authority>,
}

impl Credentials {
    /// The credentials of this host.
    ///
    /// # Errors
    /// If this processor cannot run the handshake.
    pub fn new(identity: &Identity) -> Result<Credentials, HandshakeError> {
        let provider = Arc::new(provider()?);
        let authority = Arc::new(identity.authority().clone());
        let verifier = Arc::new(Verifier(Arc::clone(&authority)));
        let certified = CertifiedKey {
            cert: vec![identity.certificate_der().clone()],
            key: Arc::new(TlsKey(identity.key().clone())),
            ocsp: None,
        };
        let certified = Arc::new(SingleCertAndKey::from(certified));
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>)
            .with_client_cert_resolver(Arc::clone(&certified) as _);
        // Every handshake proves both keys.
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certified);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Credentials { client: Arc::new(client), server: Arc::new(server), authority })
    }

    /// The handshake of the host that dialled.
    ///
    /// # Errors
    /// If the greeting is too long.
    pub fn dial(&self, greeting: &[u8]) -> Result<Handshake, HandshakeError> {
        let name = ServerName::try_from(ANY_HOST).expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.client), name)?;
        self.begin(Connection::Client(connection), greeting)
    }

    /// The handshake of the host that was dialled.
    ///
    /// # Errors
    /// If the greeting is too long.
    pub fn accept(&self, greeting: &[u8]) -> Result<Handshake, HandshakeError> {
        let connection = ServerConnection::new(Arc::clone(&self.server))?;
        self.begin(Connection::Server(connection), greeting)
    }

    fn begin(&self, connection: Connection, greeting: &[u8]) -> Result<Handshake, HandshakeError> {
        if greeting.is_empty() || greeting.len() > GREETING_BYTES_MAX {
            return Err(HandshakeError::Greeting(greeting.len()));
        }
        let greeting = [&(greeting.len() as u16).to_be_bytes(), greeting].concat();
        Ok(Handshake {
            connection,
            authority: Arc::clone(&self.authority),
            greeting: Some(greeting),
            heard: Vec::new(),
            received_bytes: 0,
        })
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credentials(..)")
    }
}

/// One side of a handshake under way.
pub struct Handshake {
    connection: Connection,
    authority: Arc<Authority>,
    // Present until it is handed to TLS.
    greeting: Option<Vec<u8>>,
    heard: Vec<u8>,
    received_bytes: usize,
}

impl Handshake {
    /// Takes bytes that came from the peer.
    ///
    /// # Errors
    /// If the handshake has failed. What [`send`](Handshake::send) returns then tells the peer why.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<(), HandshakeError> {
        self.received_bytes += bytes.len();
        if self.received_bytes > RECEIVED_BYTES_MAX {
            return Err(HandshakeError::TooLong);
        }
        while !bytes.is_empty() {
            self.connection.read_tls(&mut bytes).expect("a slice reads without an error");
            self.connection.process_new_packets()?;
            let mut piece = [0; GREETING_BYTES_MAX];
            // An error says that nothing is there, or that the peer has ended.
            while let Ok(read @ 1..) = self.connection.reader().read(&mut piece) {
                self.heard.extend_from_slice(&piece[..read]);
            }
        }
        self.greet()
    }

    /// Takes the bytes that are for the peer, which [`receive`](Handshake::receive) has caused; at
    /// first those of the host that dialled.
    pub fn send(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.connection.wants_write() {
            self.connection.write_tls(&mut out).expect("a vector takes any bytes");
        }
        out
    }

    /// What the hosts have agreed on, once the peer's greeting has come; `None` before. The caller
    /// sends what [`send`](Handshake::send) returns and closes the connection.
    ///
    /// # Errors
    /// If the peer's greeting has an impossible length.
    pub fn finish(&mut self) -> Result<Option<Agreed>, HandshakeError> {
        let Some((length, greeting)) = self.heard.split_first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || length > GREETING_BYTES_MAX || greeting.len() > length {
            return Err(HandshakeError::Greeting(length));
        }
        if greeting.len() < length {
            return Ok(None);
        }
        let mut exported = Zeroizing::new([0; KEY_BYTES + SESSION_NAME_BYTES]);
        self.connection.export_keying_material(&mut exported[..], LABEL, None)?;
        let (secret, name) = exported.split_first_chunk().expect("longer than a key");
        let certificate = self.connection.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.expect("TLS asked for one and verified it");
        let peer = self.authority.verify(certificate, UnixTime::now());
        Ok(Some(Agreed {
            secret: PairSecret::new(Secret::new(*secret)),
            name: name.try_into().expect("the rest is the name"),
            peer: peer.map_err(HandshakeError::NotAdmitted)?,
            greeting: greeting.to_vec(),
        }))
    }

    /// Sends this host's greeting as soon as it may: the dialler's when TLS stands, the acceptor's
    /// once it has heard that.
    fn greet(&mut self) -> Result<(), HandshakeError> {
        let may_greet = match &self.connection {
            Connection::Client(client) => !client.is_handshaking(),
            Connection::Server(_) => !self.heard.is_empty(),
        };
        if may_greet && let Some(greeting) = self.greeting.take() {
            let written = self.connection.writer().write_all(&greeting);
            written.expect("a greeting is shorter than the buffer of TLS");
        }
        Ok(())
    }
}

/// Checks certificates of peers.
#[derive(Debug)]
struct Verifier(Arc<Authority>);

impl Verifier {
    fn check(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
        let checked = self.0.verify(certificate, now);
        checked.map(drop).map_err(|error| rustls::Error::Other(OtherError(Arc::new(error))))
    }
}

static ALGORITHMS: WebPkiSupportedAlgorithms = WebPkiSupportedAlgorithms {
    all: &[ED25519],
    mapping: &[(SignatureScheme::ED25519, &[ED25519])],
};

fn tls12_is_off() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not spoken".to_owned())
}

/// The methods that both traits of verifiers ask for: Ed25519 signatures of TLS 1.3.
macro_rules! tls13_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(tls12_is_off())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, certificate, signature, &ALGORITHMS)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            ALGORITHMS.supported_schemes()
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(certificate, now).map(|()| ServerCertVerified::assertion())
    }

    tls13_signatures!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(certificate, now).map(|()| ClientCertVerified::assertion())
    }

    tls13_signatures!();
}

/// Signs with the key of a host.
#[derive(Clone, Debug)]
struct TlsKey(HostKey);

impl SigningKey for TlsKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&SignatureScheme::ED25519);
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for TlsKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(self.0.sign(message).to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}

/// The cryptography of the handshake: hybrid post-quantum key exchange first, then X25519.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn provider() -> Result<CryptoProvider, Unavailable> {
    use rustls_graviola::{kx, suites};

    use crate::cipher::Suite;

    if !Suite::Aes256Gcm.is_available() {
        return Err(Unavailable(Suite::Aes256Gcm));
    }
    Ok(CryptoProvider {
        cipher_suites: vec![
            suites::TLS13_AES_256_GCM_SHA384,
            suites::TLS13_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![kx::X25519MLKEM768, &kx::X25519],
        signature_verification_algorithms: ALGORITHMS,
        ..rustls_graviola::default_provider()
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn provider() -> Result<CryptoProvider, Unavailable> {
    Err(Unavailable(crate::cipher::Suite::Aes256Gcm))
}
