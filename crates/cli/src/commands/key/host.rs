use std::path::PathBuf;

use paceline_seal::identity::HostKey;
use paceline_seal::identity::files::Readers;
use serde::Serialize;

use super::{create, random};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Make the key of a host
///
/// The public half is written beside it, into a file with the ending .pub: `key sign` certifies it.
/// The id of the host follows from its key.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline key host
  paceline key host -o db-1.key --json")]
pub struct Args {
    /// The file
    #[arg(short, long, value_name = "FILE", default_value = "host.key")]
    out: PathBuf,
}

#[derive(Serialize)]
struct Document {
    file: PathBuf,
    public: PathBuf,
    id: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let (file, public) = (args.out.clone(), args.out.with_extension("pub"));
    if file == public {
        let text = "the ending .pub is that of the public half: give another one with -o";
        return Err(CliError::Input(format!("{}: {text}", file.display())));
    }
    let key = HostKey::generate(&random()?);
    create(&public, &key.public().to_pem(), Readers::Anyone)?;
    let made = create(&file, &key.to_pem(), Readers::Owner);
    if made.is_err() {
        // The public half of no key; the first error says more than one of the removal.
        let _ = std::fs::remove_file(&public);
    }
    made?;
    let id = key.id();
    ui.print(&format!(
        "{}: the key of host {id}; keep it secret\n{}: its public half, for `paceline key sign`\n",
        file.display(),
        public.display()
    ))?;
    ui.document(&Document { file, public, id: id.get() })?;
    Ok(Outcome::Done)
}
