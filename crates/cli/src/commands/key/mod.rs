//! `paceline key`: keys of hosts and clusters, certificates, revocation.

mod host;
mod new;
mod revoke;
mod show;
mod sign;

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use paceline_seal::Secret;
use paceline_seal::identity::files::{self, FileError, Readers};
use paceline_seal::identity::{Authority, CaKey, KeyDocument, KeyDocumentKind};
use rand::TryRng;
use rand::rngs::SysRng;

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Make, sign, revoke and show keys and certificates of hosts
///
/// A host of a cluster is known by its own key and a certificate for it. In a small cluster all
/// hosts have a copy of one file, the cluster key, and each certifies itself with it. In a larger
/// one a CA key stays on a machine without a network and signs the certificate of each host. Files
/// with keys can be read by their owner only, none is overwritten, and no key is an argument.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples, a small cluster, with a copy of cluster.key on each machine:
  paceline key new -o cluster.key
  paceline node --config node.toml --key cluster.key --host-key host.key
  paceline key show cluster.key

A larger one, with a CA key that stays offline:
  paceline key new --ca -o ca.key
  paceline key host -o db-1.key
  paceline key sign db-1.pub --ca ca.key --role member --days 90
  paceline key show db-1.crt --ca ca.key
  paceline key revoke db-1.crt --ca ca.key --list revoked.crl --new";

#[derive(Debug, clap::Subcommand)]
enum What {
    New(new::Args),
    Host(host::Args),
    Sign(sign::Args),
    Revoke(revoke::Args),
    Show(show::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::New(args) => new::run(args, ui),
        What::Host(args) => host::run(args, ui),
        What::Sign(args) => sign::run(args, ui),
        What::Revoke(args) => revoke::run(args, ui),
        What::Show(args) => show::run(args, ui),
    }
}

/// 32 random bytes of the system.
pub(super) fn random() -> Result<Secret, CliError> {
    let drawn = Secret::draw(|bytes| SysRng.try_fill_bytes(bytes));
    drawn.map_err(|error| CliError::Failed(format!("no random numbers: {error}")))
}

/// The key in a file that certifies hosts: a CA key, or a cluster key, of which it is derived.
fn ca_key(path: &Path) -> Result<CaKey, CliError> {
    match read_or_missing(KeyDocumentKind::CaKey, path)? {
        KeyDocument::CaKey(key) => Ok(key),
        KeyDocument::ClusterKey(key) => Ok(key.ca()),
        other => Err(unfit(path, other, "a CA key or a cluster key is needed")),
    }
}

/// The CA that a file names: a key that certifies hosts, or a certificate.
fn authority(path: &Path) -> Result<Authority, CliError> {
    match read_or_missing(KeyDocumentKind::CaKey, path)? {
        KeyDocument::CaKey(key) => Ok(key.authority()),
        KeyDocument::ClusterKey(key) => Ok(key.ca().authority()),
        KeyDocument::Authority(authority) => Ok(authority),
        KeyDocument::Chain(chain) => Ok(chain.authority),
        other => Err(unfit(path, other, "a CA key, a cluster key or a certificate is needed")),
    }
}

/// Reads a file of any kind. The error for a missing file names the command that makes the wanted
/// kind.
pub(super) fn read_or_missing(
    wanted: KeyDocumentKind,
    path: &Path,
) -> Result<KeyDocument, CliError> {
    files::read_any(path).map_err(|error| match error {
        FileError::Io { path, error } if error.kind() == ErrorKind::NotFound => {
            unread(FileError::Missing { path, wanted })
        }
        error => unread(error),
    })
}

/// That a file is of another kind than needed.
fn unfit(path: &Path, found: KeyDocument, needed: &str) -> CliError {
    CliError::Input(format!("{}: it is a {}; {needed}", path.display(), found.kind()))
}

/// That a file is refused, and why.
pub(super) fn refused(path: &Path, reason: impl fmt::Display) -> CliError {
    CliError::Input(format!("{}: {reason}", path.display()))
}

/// A file that is read is the input's fault, whatever is wrong with it.
pub(super) fn unread(error: FileError) -> CliError {
    CliError::Input(error.to_string())
}

/// Makes a file that does not exist.
fn create(path: &Path, text: &str, readers: Readers) -> Result<(), CliError> {
    files::create(path, text, readers).map_err(|error| match error {
        FileError::Io { .. } => CliError::Failed(error.to_string()),
        _ => CliError::Input(error.to_string()),
    })
}
