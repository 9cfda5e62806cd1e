//! The options of a host that seals.

use std::path::{Path, PathBuf};

use paceline::HostBuilder;
use paceline::identity::files::{self, FileError, Readers};
use paceline::identity::{HostKey, Identity, KeyDocument, KeyDocumentKind, UnixTime};

use super::key;
use crate::error::CliError;

/// Whether a host seals, and with which keys.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SealArgs {
    /// Encrypt and authenticate everything with this file: the cluster key that `paceline key new`
    /// made, the same on all hosts; or, with --host-key, the certificate that `paceline key sign`
    /// made for this host. Only hosts of the same cluster get in
    #[arg(id = "seal_key", long = "key", value_name = "FILE", env = "PACELINE_KEY")]
    pub key: Option<PathBuf>,

    /// The key of this host, from which its number follows. With a cluster key it is made if the
    /// file is not there [default: drawn at random at each start]
    #[arg(long, value_name = "FILE", env = "PACELINE_HOST_KEY")]
    pub host_key: Option<PathBuf>,

    /// Allow addresses beyond loopback though nothing is encrypted or authenticated: any node that
    /// reaches the port can read and forge messages
    #[arg(long)]
    pub insecure_plaintext: bool,
}

impl SealArgs {
    /// Sets what a host needs to seal, or to go without.
    ///
    /// # Errors
    /// If a file cannot be used, or the options contradict each other.
    pub fn apply(&self, builder: HostBuilder) -> Result<HostBuilder, CliError> {
        let input = |text: String| Err(CliError::Input(text));
        let Some(path) = &self.key else {
            return match &self.host_key {
                Some(key) => input(format!(
                    "--host-key {}: a host key needs the cluster's: pass --key FILE as well",
                    key.display()
                )),
                None if self.insecure_plaintext => Ok(builder.insecure_plaintext()),
                None => Ok(builder),
            };
        };
        if self.insecure_plaintext {
            return input(format!(
                "--insecure-plaintext: a host with --key {} (or PACELINE_KEY) seals everything; \
                 leave out one of the two",
                path.display()
            ));
        }
        match key::read_or_missing(KeyDocumentKind::ClusterKey, path)? {
            KeyDocument::ClusterKey(cluster) => {
                let builder = builder.cluster_key(cluster);
                match &self.host_key {
                    Some(path) => Ok(builder.host_key(read_or_make(path)?)),
                    None => Ok(builder),
                }
            }
            KeyDocument::Chain(chain) => {
                let Some(key) = &self.host_key else {
                    let reason =
                        "the certificate of a host needs its key: pass --host-key FILE as well";
                    return Err(key::refused(path, reason));
                };
                let key = files::read::<HostKey>(key).map_err(key::unread)?;
                let now = UnixTime::now();
                let signed = Identity::signed(key, chain.certificate, chain.authority, now);
                Ok(builder.identity(signed.map_err(|error| key::refused(path, error))?))
            }
            other => {
                let reason = format_args!(
                    "this is a {}; a host needs the cluster key of `paceline key new` or the \
                     certificate of `paceline key sign`",
                    other.kind()
                );
                Err(key::refused(path, reason))
            }
        }
    }
}

/// The host key in a file, or a new one in it.
fn read_or_make(path: &Path) -> Result<HostKey, CliError> {
    match files::read::<HostKey>(path) {
        Err(FileError::Missing { .. }) => {
            let made = HostKey::generate(&key::random()?);
            match files::create(path, &made.to_pem(), Readers::Owner) {
                Ok(()) => Ok(made),
                // Another process was first.
                Err(FileError::Exists { .. }) => files::read(path).map_err(key::unread),
                Err(error) => Err(key::unread(error)),
            }
        }
        read => read.map_err(key::unread),
    }
}
