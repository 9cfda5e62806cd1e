use std::fs::File;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use paceline::named::{Forwarder, Name, Registration, Serve, ServeCounts, ServeError, Signer};
use paceline_lab::scenario::units::{Rate, parse_rate, parse_size};
use serde::Serialize;
use zeroize::Zeroizing;

use super::args::{Allowed, Face, PORT, explain, link, parse_name, source_for, withheld_line};
use crate::commands::Outcome;
use crate::commands::member::{LEAVE_WITHIN, runtime, stop_asked, unless_stopped};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Serve the files of a folder under a prefix, until Ctrl-C
///
/// The file a/b.txt in it has the name PREFIX/a/b.txt, followed by a version and segments:
/// `paceline fetch` and any other client of NDN can fetch it. Files and folders whose names begin
/// with a dot are left out. Any sender of a valid packet gets replies; with --face the folder is
/// also served to these neighbours, and with --register the prefix is registered at them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, one in each terminal:
  paceline serve ~/music --prefix /music
  paceline fetch /music/waltz.flac -o waltz.flac

Behind a forwarder:
  paceline forward
  paceline serve ~/music --prefix /music --face udp://127.0.0.1:6363 --register

A private key outside the folder, readable by its owner only, and a fetch with the public key:
  (umask 077; openssl genpkey -algorithm ed25519 -out ~/key.pem)
  openssl pkey -in ~/key.pem -pubout -out pub.pem
  paceline serve ~/music --prefix /music --key ~/key.pem
  paceline fetch /music/waltz.flac -o waltz.flac --key pub.pem

To a network whose border drops forged addresses:
  paceline serve ~/music --prefix /music --bind 10.0.0.5:6363 --insecure-plaintext \\
      --face-allow 10.0.0.0/8")]
pub struct Args {
    /// The folder
    folder: PathBuf,

    /// The prefix of its names
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    prefix: Name,

    /// The address to listen on [default: 127.0.0.1:6363; with --face a free port]
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    bind: Option<SocketAddr>,

    /// A neighbour, and the rate of the link there if known; may be repeated
    #[arg(long = "face", value_name = "udp://HOST:PORT[=RATE]")]
    faces: Vec<Face>,

    #[command(flatten)]
    allowed: Allowed,

    /// Default link rate, both directions, of faces without their own and of nodes that send
    /// Interests
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// Register the prefix at the --face neighbours, now and once a minute
    #[arg(long, requires = "faces")]
    register: bool,

    /// Sign with the Ed25519 key in this PEM file, instead of with digests, which prove no origin.
    /// The file must be outside the folder and readable by its owner only
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Serve files and folders whose names begin with a dot as well
    #[arg(long)]
    hidden: bool,

    /// Bytes of a segment, 1 to 8,000; above about 1,100 IP fragments the datagrams
    #[arg(long, value_name = "SIZE", default_value = "1000B", value_parser = parse::bytes)]
    segment_bytes: usize,

    /// Bytes of the content store, which keeps forwarded Data for later Interests
    #[arg(long, value_name = "SIZE", default_value = "0B", value_parser = parse_size)]
    store: u64,

    /// Allow addresses beyond loopback though nothing is encrypted: any node that reaches the port
    /// can read the folder
    #[arg(long)]
    insecure_plaintext: bool,
}

/// The longest file of a key that is read.
const KEY_BYTES_MAX: usize = 16 << 10;

#[derive(Serialize)]
struct Document {
    prefix: String,
    address: SocketAddr,
    asked: u64,
    segments: u64,
    content_bytes: u64,
    metadata: u64,
    refused: u64,
    /// Packets to unproven addresses that were not sent.
    withheld: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let key = args.key.as_deref().map(|key| read_key(key, &args.folder)).transpose()?;
    runtime()?.block_on(async {
        let forwarder = args.start()?;
        let mut serve = forwarder.serve(&args.folder, args.prefix.clone());
        serve = serve.segment_bytes(args.segment_bytes);
        if args.hidden {
            serve = serve.hidden_files();
        }
        if let Some(key) = &key {
            serve = sign(serve, key)?;
        }
        let serving = serve.start().map_err(explain_serve)?;
        let address = forwarder.local_addr();
        ui.note(&format!("{} under {} at {address}", args.folder.display(), args.prefix));
        args.allowed.warn(address, ui);
        let registrations = unless_stopped(args.register(&forwarder, ui)).await??;
        stop_asked().await;
        end_all(registrations, ui).await;
        let ServeCounts { asked, segments, content_bytes, metadata, refused } = serving.counts();
        let withheld = forwarder.report().await.map_err(explain)?.withheld();
        forwarder.stop().await;
        let prefix = args.prefix.to_string();
        ui.document(&Document {
            prefix,
            address,
            asked,
            segments,
            content_bytes,
            metadata,
            refused,
            withheld,
        })?;
        ui.print(&format!(
            "{segments} segments of {content_bytes} bytes served; {refused} Interests refused\n{}",
            withheld_line(withheld)
        ))?;
        Ok(Outcome::Done)
    })
}

impl Args {
    async fn register(
        &self,
        forwarder: &Forwarder,
        ui: &Ui,
    ) -> Result<Vec<Registration>, CliError> {
        let mut registrations = Vec::new();
        for face in self.faces.iter().filter(|_| self.register) {
            let registered = forwarder.register(self.prefix.clone(), face.address).await;
            registrations.push(registered.map_err(|error| CliError::Failed(error.to_string()))?);
            ui.note(&format!("registered at {}", face.address));
        }
        Ok(registrations)
    }

    fn start(&self) -> Result<Forwarder, CliError> {
        let otherwise = match self.faces.is_empty() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            false => source_for(&self.faces),
        };
        let mut builder = Forwarder::builder()
            .bind(self.bind.unwrap_or(otherwise))
            .strangers(link(self.rate))
            .store_bytes(self.store as usize);
        builder = self.allowed.apply(builder);
        for face in &self.faces {
            builder = builder.face(face.address, face.config(self.rate));
        }
        if self.insecure_plaintext {
            builder = builder.insecure_plaintext();
        }
        builder.start().map_err(explain)
    }
}

/// Tells all neighbours at once that the prefix does not lead here any more.
async fn end_all(registrations: Vec<Registration>, ui: &Ui) {
    let mut ends = tokio::task::JoinSet::new();
    for registration in registrations {
        ends.spawn(registration.end());
    }
    let told = async {
        while let Some(Ok(ended)) = ends.join_next().await {
            if let Err(error) = ended {
                ui.warn(&error.to_string());
            }
        }
    };
    if tokio::time::timeout(LEAVE_WITHIN, told).await.is_err() {
        ui.warn("a neighbour does not confirm: its registration expires within some minutes");
    }
}

/// The text of a private key, which is wiped from memory when it is dropped.
fn read_key(path: &Path, folder: &Path) -> Result<Zeroizing<String>, CliError> {
    let wrong = |what: String| CliError::Input(format!("--key {}: {what}", path.display()));
    let mut file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    // A folder that is not there is refused later, by its own name.
    let is_within = |folder: PathBuf| path.canonicalize().is_ok_and(|key| key.starts_with(folder));
    if folder.canonicalize().is_ok_and(is_within) {
        let folder = folder.display();
        return Err(wrong(format!("it is in {folder}, which is served: move it elsewhere")));
    }
    // More would be no key, and a string that grows leaves copies behind.
    let mut text = Zeroizing::new(String::with_capacity(KEY_BYTES_MAX));
    let read = (&mut file).take(KEY_BYTES_MAX as u64).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    Signer::from_pem(&text, Name::root()).map_err(|error| wrong(error.to_string()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let mode = file.metadata().map_err(|error| wrong(error.to_string()))?.mode() & 0o777;
        if mode & 0o077 != 0 {
            let path = path.display();
            return Err(wrong(format!(
                "not only its owner can read it (mode {mode:03o}): run `chmod 600 {path}`"
            )));
        }
    }
    Ok(text)
}

fn sign(serve: Serve, pem: &str) -> Result<Serve, CliError> {
    serve.key_pem(pem).map_err(|error| CliError::Input(format!("--key: {error}")))
}

fn explain_serve(error: ServeError) -> CliError {
    match error {
        ServeError::Closed | ServeError::Thread(_) => CliError::Failed(error.to_string()),
        error => CliError::Input(error.to_string()),
    }
}
