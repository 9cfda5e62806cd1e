use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use paceline_seal::identity::files::Readers;
use paceline_seal::identity::{
    CLOCK_SKEW_MAX, Chain, Grant, HostLabel, HostPublic, KeyDocument, KeyDocumentKind, Role,
    UnixTime, date,
};
use serde::Serialize;

use super::{ca_key, create, read_or_missing, refused, unfit};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Certify a host
///
/// The file that it writes has the certificate of the host and that of the CA. The host needs it
/// beside its own key; neither lets it certify others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline key sign db-1.pub --ca ca.key --role member
  paceline key sign laptop.pub --ca ca.key --role admin --days 7 --name anna
A certificate that follows another one:
  paceline key sign db-1.crt --ca ca.key --role member -o db-1-next.crt")]
pub struct Args {
    /// The public half of the host's key, or a certificate of it
    host: PathBuf,

    /// The CA key, or the cluster key
    #[arg(long, value_name = "FILE")]
    ca: PathBuf,

    /// What the host may do
    #[arg(long, value_name = "ROLE", value_parser = roles())]
    role: Role,

    /// How many days the certificate is valid, 1 to 3,650
    #[arg(long, value_name = "N", default_value_t = 90,
          value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,

    /// What operators call the host [default: the name in its certificate, or of the file without
    /// its ending]
    #[arg(long)]
    name: Option<HostLabel>,

    /// The file [default: HOST with the ending .crt]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::name))
        .map(|name| Role::named(&name).expect("one of the names"))
}

#[derive(Serialize)]
struct Document {
    file: PathBuf,
    id: u64,
    name: String,
    role: &'static str,
    not_before: String,
    not_after: String,
    cipher: &'static str,
    ca: String,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let ca = ca_key(&args.ca)?;
    let (public, known) = host(&args.host)?;
    let label = match args.name.or(known) {
        Some(label) => label,
        None => name_of(&args.host)?,
    };
    let now = UnixTime::now();
    let day = Duration::from_secs(24 * 3600);
    let after = Duration::from_secs(now.as_secs()) + day * u32::from(args.days);
    let before = Duration::from_secs(now.as_secs()).saturating_sub(CLOCK_SKEW_MAX);
    let grant = Grant {
        role: args.role,
        label,
        not_before: UnixTime::since_unix_epoch(before),
        not_after: UnixTime::since_unix_epoch(after),
    };
    let signed = ca.sign(&public, &grant);
    let certificate = signed.map_err(|error| CliError::Failed(error.to_string()))?;
    let chain = Chain { certificate, authority: ca.authority() };
    let file = args.out.unwrap_or_else(|| args.host.with_extension("crt"));
    create(&file, &chain.to_pem(), Readers::Anyone)?;
    let document = Document {
        id: public.id().get(),
        name: grant.label.to_string(),
        role: grant.role.name(),
        not_before: date(&grant.not_before),
        not_after: date(&grant.not_after),
        cipher: ca.suite().name(),
        ca: chain.authority.fingerprint(),
        file,
    };
    ui.print(&format!(
        "{}: host {} ({}) has the role {} until {}, signed by CA {}\n",
        document.file.display(),
        document.id,
        document.name,
        document.role,
        document.not_after,
        document.ca
    ))?;
    ui.document(&document)?;
    Ok(Outcome::Done)
}

/// The key of the host in a file, and the name there.
fn host(path: &Path) -> Result<(HostPublic, Option<HostLabel>), CliError> {
    match read_or_missing(KeyDocumentKind::HostPublic, path)? {
        KeyDocument::HostPublic(public) => Ok((public, None)),
        KeyDocument::Chain(chain) => {
            let subject = chain.subject().map_err(|error| refused(path, error))?;
            Ok((subject.public, Some(subject.label)))
        }
        other => Err(unfit(path, other, "the .pub file that `paceline key host` wrote is needed")),
    }
}

fn name_of(path: &Path) -> Result<HostLabel, CliError> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.parse().map_err(|error| refused(path, format!("{error}: give it one with --name")))
}
