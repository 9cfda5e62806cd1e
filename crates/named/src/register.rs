//! Registration of a prefix at a neighbour.

use std::net::SocketAddr;
use std::sync::Weak;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use paceline_proto::ndn::{Interest, NackReason, Name, Signer};
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::task::JoinHandle;

use super::control::{Parameters, Response};
use super::error::{AskError, RegisterError};
use super::{Forwarder, Shared, Way};

/// How often a registration is renewed.
const RENEW_AFTER: Duration = Duration::from_secs(60);
/// Lifetime of a registration at the neighbour.
const EXPIRES_AFTER: Duration = Duration::from_secs(200);
/// Lifetime of one command, which is repeated until an answer comes or tries run out.
const LIFETIME_MS: u32 = 1_000;
const TRIES_MAX: usize = 4;

/// A prefix that a neighbour routes to this forwarder. It is renewed every minute, so that it
/// survives a restart of the neighbour; after this is dropped it expires within some minutes.
#[derive(Debug)]
pub struct Registration {
    forwarder: Weak<Shared>,
    prefix: Name,
    neighbour: SocketAddr,
    renewal: JoinHandle<()>,
}

impl Forwarder {
    /// Registers a prefix at a neighbour, by the commands of NFD: at `/localhop/nfd`.
    ///
    /// # Errors
    /// If the address is no face, or the neighbour does not answer or refuses.
    pub async fn register(
        &self,
        prefix: Name,
        neighbour: SocketAddr,
    ) -> Result<Registration, RegisterError> {
        self.request(&prefix, neighbour, "register").await?;
        let forwarder = std::sync::Arc::downgrade(&self.shared);
        let renewal = tokio::spawn(renew(forwarder.clone(), prefix.clone(), neighbour));
        Ok(Registration { forwarder, prefix, neighbour, renewal })
    }

    async fn request(
        &self,
        prefix: &Name,
        neighbour: SocketAddr,
        verb: &str,
    ) -> Result<(), RegisterError> {
        let face = self.face_at(neighbour).ok_or(RegisterError::NoFace(neighbour))?;
        let failed = |why: AskError| RegisterError::Unanswered { neighbour, why };
        let expires_after_ms = (verb == "register").then_some(EXPIRES_AFTER.as_millis() as u64);
        let parameters =
            Parameters { name: Some(prefix.clone()), expires_after_ms, ..Parameters::default() };
        let mut left = TRIES_MAX;
        let answer = loop {
            let interest = command(verb, &parameters)?;
            left -= 1;
            match self.ask_by(interest, Way::To(face)).await {
                Ok(answer) => break answer,
                Err(AskError::Unanswered(_) | AskError::Refused(NackReason::Congestion))
                    if left > 0 => {}
                Err(why) => return Err(failed(why)),
            }
        };
        match Response::decode(&answer.data.content().to_bytes()) {
            Ok((200, _)) => Ok(()),
            Ok((code, text)) => Err(RegisterError::Refused { neighbour, code, text }),
            Err(_) => Err(RegisterError::Malformed { neighbour }),
        }
    }
}

impl Registration {
    /// Withdraws the prefix at the neighbour.
    ///
    /// # Errors
    /// If it does not answer or refuses: then the registration expires.
    pub async fn end(self) -> Result<(), RegisterError> {
        match self.forwarder.upgrade() {
            None => Ok(()),
            Some(shared) => {
                let forwarder = Forwarder::new(shared);
                forwarder.request(&self.prefix, self.neighbour, "unregister").await
            }
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn renew(forwarder: Weak<Shared>, prefix: Name, neighbour: SocketAddr) {
    loop {
        tokio::time::sleep(RENEW_AFTER).await;
        let Some(shared) = forwarder.upgrade() else { return };
        if let Err(error) = Forwarder::new(shared).request(&prefix, neighbour, "register").await {
            tracing::warn!(%prefix, "not registered: {error}");
        }
    }
}

fn command(verb: &str, parameters: &Parameters) -> Result<Interest, RegisterError> {
    let name: Name = format!("/localhop/nfd/rib/{verb}").parse().expect("a short name");
    let nonce = SysRng.try_next_u64().map_err(RegisterError::Random)?;
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let made = name.generic(&parameters.encode()).and_then(|name| {
        Interest::signed(&name, b"", &Signer::Digest, (nonce, time.as_millis() as u64))
    });
    // The prefix was a name; with these components before it, it may be too long for one.
    let interest = made.map_err(|why| RegisterError::Prefix { why })?;
    Ok(Interest { lifetime_ms: Some(LIFETIME_MS), ..interest })
}
