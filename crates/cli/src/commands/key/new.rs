use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use paceline_seal::Suite;
use paceline_seal::identity::files::Readers;
use paceline_seal::identity::{CaKey, ClusterKey, KeyDocumentKind};
use serde::Serialize;

use super::{create, random};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Make the key of a cluster
///
/// Copy the file to each host of the cluster, over a channel that is secret. A host that has it can
/// certify hosts: with --ca it is the key of a CA instead, which stays on one machine and signs
/// with `key sign`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline key new
  paceline key new -o shop.key --cipher chacha20-poly1305
  paceline key new --ca -o ca.key")]
pub struct Args {
    /// The file [default: cluster.key; with --ca ca.key]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Make the key of a CA, which no host needs
    #[arg(long)]
    ca: bool,

    /// The cipher of all hosts of the cluster. With aes-256-gcm all of them need AES instructions
    /// [default: aes-256-gcm if this machine has them, otherwise chacha20-poly1305]
    #[arg(long, value_name = "NAME", value_parser = ciphers())]
    cipher: Option<Suite>,
}

fn ciphers() -> impl TypedValueParser<Value = Suite> {
    PossibleValuesParser::new(Suite::ALL.map(Suite::name))
        .map(|name| Suite::named(&name).expect("one of the names"))
}

#[derive(Serialize)]
struct Document {
    file: PathBuf,
    kind: &'static str,
    cipher: &'static str,
    ca: String,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let suite = args.cipher.unwrap_or_else(Suite::fastest);
    let (ca, kind, text, file) = if args.ca {
        let ca = CaKey::generate(&random()?, suite);
        let text = ca.to_pem();
        (ca, KeyDocumentKind::CaKey, text, "ca.key")
    } else {
        let key = ClusterKey::generate(random()?, suite);
        (key.ca(), KeyDocumentKind::ClusterKey, key.to_pem(), "cluster.key")
    };
    let file = args.out.unwrap_or_else(|| Path::new(file).to_owned());
    create(&file, &text, Readers::Owner)?;
    if !suite.is_available() {
        ui.warn(&format!("this machine cannot run {suite}, and cannot be a host of the cluster"));
    }
    let ca = ca.authority().fingerprint();
    let shown = file.display();
    ui.print(&format!("{shown}: a {kind}, CA {ca}, cipher {suite}; keep it secret\n"))?;
    ui.document(&Document { file, kind: kind.name(), cipher: suite.name(), ca })?;
    Ok(Outcome::Done)
}
