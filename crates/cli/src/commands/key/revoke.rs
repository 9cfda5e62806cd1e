use std::path::{Path, PathBuf};

use paceline_seal::identity::files::{self, FileError, Readers};
use paceline_seal::identity::{HostId, KeyDocument, KeyDocumentKind, RevocationList, UnixTime};
use serde::Serialize;

use super::{ca_key, create, read_or_missing, refused, unfit, unread};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::files::{Persist, replace};
use crate::ui::Ui;

/// Revoke all certificates of a host
///
/// The list in the file gets one host more and a larger number, and is signed again: keep it with
/// the CA key. Hosts accept the last list only. A host that has the cluster key can certify itself
/// with another key; change the cluster key instead.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline key revoke db-1.crt --ca ca.key --new
  paceline key revoke 297136396141788 --ca ca.key --list revoked.crl")]
pub struct Args {
    /// The id of the host, its public key or a certificate of it
    host: PathBuf,

    /// The CA key, or the cluster key
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,

    /// The list of revoked hosts
    #[arg(long, value_name = "FILE", default_value = "revoked.crl")]
    list: PathBuf,

    /// Begin a list. Hosts on an earlier list of this CA are accepted again
    #[arg(long)]
    new: bool,
}

#[derive(Serialize)]
struct Document {
    list: PathBuf,
    number: u64,
    /// The host that was asked for.
    id: u64,
    /// All hosts on the list.
    revoked: Vec<u64>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let host = host(&args.host)?;
    let ca = ca_key(&args.ca)?;
    let in_force = if args.new { None } else { Some(in_force(&args.list)?) };
    let list = ca.revoke(in_force.as_ref(), host, UnixTime::now());
    let list = list.map_err(|error| refused(&args.list, error))?;
    match in_force {
        None => create(&args.list, &list.to_pem(), Readers::Anyone)?,
        Some(_) => replace(&args.list, list.to_pem().as_bytes(), Persist::Now)?,
    }
    let revoked: Vec<u64> = list.hosts().map(|(host, _)| host.get()).collect();
    ui.print(&format!(
        "{}: list {} has host {host}, and {} others\n",
        args.list.display(),
        list.number(),
        revoked.len() - 1
    ))?;
    let (number, id) = (list.number(), host.get());
    ui.document(&Document { list: args.list, number, id, revoked })?;
    Ok(Outcome::Done)
}

/// The list before this one. A mistyped name must not begin another list: hosts would accept it,
/// and with it the hosts that it does not have.
fn in_force(path: &Path) -> Result<RevocationList, CliError> {
    files::read(path).map_err(|error| match error {
        FileError::Missing { .. } => refused(path, "no such file; --new begins a list"),
        error => unread(error),
    })
}

/// The id itself, or that of the host in a file.
fn host(given: &Path) -> Result<HostId, CliError> {
    if let Some(id) = given.to_str().and_then(|text| text.parse().ok()) {
        return Ok(id);
    }
    match read_or_missing(KeyDocumentKind::HostPublic, given)? {
        KeyDocument::HostPublic(public) => Ok(public.id()),
        KeyDocument::Chain(chain) => Ok(chain.subject().map_err(|error| refused(given, error))?.id),
        other => Err(unfit(given, other, "an id, a public key or a certificate is needed")),
    }
}
