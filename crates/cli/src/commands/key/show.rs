use std::path::{Path, PathBuf};

use paceline_seal::Suite;
use paceline_seal::identity::{
    Authority, CertificateError, Chain, HostPublic, KeyDocument, RevocationList, UnixTime, date,
    files,
};
use serde::Serialize;

use super::{authority, refused, unfit, unread};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Print what a file of a key, a certificate or a revocation list says
///
/// It prints no secret. With --ca it also verifies: a certificate or a list that another CA signed,
/// or that is not valid now, is refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline key show cluster.key
  paceline key show db-1.crt --json
  paceline key show db-1.crt --ca ca.key --list revoked.crl")]
pub struct Args {
    /// The file
    file: PathBuf,

    /// Verify it: the CA by its key or a certificate, or the cluster key
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Refuse a certificate of a host on this list
    #[arg(long, value_name = "FILE", requires = "ca")]
    list: Option<PathBuf>,
}

/// What is known of a file. What its kind does not have is left out.
#[derive(Default, Serialize)]
struct Document {
    file: PathBuf,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// In hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cipher: Option<&'static str>,
    /// The fingerprint of the CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<Vec<Revoked>>,
    /// That the CA which was given signed it.
    verified: bool,
}

#[derive(Serialize)]
struct Revoked {
    id: u64,
    since: String,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    NotYetValid,
    Valid,
    Expired,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::NotYetValid => "not yet valid",
            State::Valid => "valid",
            State::Expired => "expired",
        }
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let found = files::read_any(&args.file).map_err(unread)?;
    let mut document =
        Document { file: args.file.clone(), kind: found.kind().name(), ..Document::default() };
    if let Some(ca) = &args.ca {
        verify(&args.file, &found, believed(ca, args.list.as_deref())?)?;
        document.verified = true;
    }
    document.describe(&found).map_err(|error| refused(&args.file, error))?;
    ui.print(&document.lines())?;
    ui.document(&document)?;
    Ok(Outcome::Done)
}

/// The CA, with the hosts on the list.
fn believed(ca: &Path, list: Option<&Path>) -> Result<Authority, CliError> {
    let mut authority = authority(ca)?;
    if let Some(path) = list {
        let list = files::read::<RevocationList>(path).map_err(unread)?;
        authority.learn(list).map_err(|error| refused(path, error))?;
    }
    Ok(authority)
}

fn verify(path: &Path, found: &KeyDocument, mut ca: Authority) -> Result<(), CliError> {
    match found {
        KeyDocument::Chain(chain) => {
            let verified = ca.verify(chain.certificate.der(), UnixTime::now());
            verified.map(drop).map_err(|error| refused(path, error))
        }
        KeyDocument::RevocationList(list) => {
            ca.learn(list.clone()).map_err(|error| refused(path, error))
        }
        other => Err(unfit(path, other.clone(), "--ca verifies certificates of hosts and lists")),
    }
}

impl Document {
    fn describe(&mut self, found: &KeyDocument) -> Result<(), CertificateError> {
        match found {
            KeyDocument::ClusterKey(key) => self.of_ca(key.suite(), &key.ca().authority()),
            KeyDocument::CaKey(key) => self.of_ca(key.suite(), &key.authority()),
            KeyDocument::Authority(authority) => self.of_ca(authority.suite(), authority),
            KeyDocument::HostKey(key) => self.of_host(&key.public()),
            KeyDocument::HostPublic(public) => self.of_host(public),
            KeyDocument::Chain(chain) => self.of_chain(chain)?,
            KeyDocument::RevocationList(list) => self.of_list(list),
        }
        Ok(())
    }

    fn of_ca(&mut self, suite: Suite, authority: &Authority) {
        self.cipher = Some(suite.name());
        self.ca = Some(authority.fingerprint());
    }

    fn of_host(&mut self, public: &HostPublic) {
        self.id = Some(public.id().get());
        let digits = public.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        self.public_key = Some(digits.collect());
    }

    fn of_chain(&mut self, chain: &Chain) -> Result<(), CertificateError> {
        let subject = chain.subject()?;
        let now = UnixTime::now();
        self.of_host(&subject.public);
        self.of_ca(chain.authority.suite(), &chain.authority);
        self.name = Some(subject.label.to_string());
        self.role = Some(subject.role.name());
        self.not_before = Some(date(&subject.not_before));
        self.not_after = Some(date(&subject.not_after));
        self.state = Some(if now < subject.not_before {
            State::NotYetValid
        } else if now > subject.not_after {
            State::Expired
        } else {
            State::Valid
        });
        Ok(())
    }

    fn of_list(&mut self, list: &RevocationList) {
        self.number = Some(list.number());
        self.signed_at = Some(date(&list.signed_at()));
        let hosts = list.hosts();
        let hosts = hosts.map(|(id, since)| Revoked { id: id.get(), since: date(&since) });
        self.revoked = Some(hosts.collect());
    }

    fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text.push_str(&format!("{name:<12}{value}\n"));
            }
        };
        line("file", Some(self.file.display().to_string()));
        line("kind", Some(self.kind.to_owned()));
        line("host id", self.id.map(|id| id.to_string()));
        line("public key", self.public_key.clone());
        line("name", self.name.clone());
        line("role", self.role.map(str::to_owned));
        line("not before", self.not_before.clone());
        line("not after", self.not_after.clone());
        line("state", self.state.map(|state| state.name().to_owned()));
        line("cipher", self.cipher.map(str::to_owned));
        line("CA", self.ca.clone());
        line("number", self.number.map(|number| number.to_string()));
        line("signed at", self.signed_at.clone());
        for Revoked { id, since } in self.revoked.iter().flatten() {
            line("revoked", Some(format!("{id} since {since}")));
        }
        line("verified", self.verified.then(|| "signed by the CA that was given".to_owned()));
        text
    }
}
