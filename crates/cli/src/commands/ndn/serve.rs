use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use paceline::named::{Forwarder, Name, Serve, ServeCounts, ServeError};
use paceline_lab::scenario::units::{Rate, parse_rate, parse_size};
use serde::Serialize;

use super::args::{Face, PORT, explain, link, parse_name, source_for};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Serve the files of a folder under a prefix, until Ctrl-C
///
/// The file a/b.txt in it is PREFIX/a/b.txt, with a version and segments behind: `paceline fetch`
/// gets it, and so does any client of NDN. Whoever sends a good packet is answered; with --face the
/// folder is served to these neighbours too, and with --register they are told so.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples, one in each terminal:
  paceline serve ~/music --prefix /music
  paceline fetch /music/waltz.flac -o waltz.flac

Behind a forwarder:
  paceline forward
  paceline serve ~/music --prefix /music --face udp://127.0.0.1:6363 --register

A key, and who has its other half:
  openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out pub.pem
  paceline serve ~/music --prefix /music --key key.pem
  paceline fetch /music/waltz.flac -o waltz.flac --key pub.pem")]
pub struct Args {
    /// The folder
    folder: PathBuf,

    /// The prefix of its names
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    prefix: Name,

    /// The address to listen on [default: 127.0.0.1:6363; with --face a free port]
    #[arg(long, value_name = "ADDR", value_parser = parse::address)]
    bind: Option<SocketAddr>,

    /// A neighbour, and the rate of the link there if it is known; may be repeated
    #[arg(long = "face", value_name = "udp://HOST:PORT[=RATE]")]
    faces: Vec<Face>,

    /// The rate of links of which none is said, both ways: faces', and those of whoever asks
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// Ask the --face neighbours to lead the prefix here, now and once a minute
    #[arg(long, requires = "faces")]
    register: bool,

    /// Sign with the Ed25519 key in this PEM file, instead of with digests that anybody can make
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,

    /// Bytes of a segment, 1 to 8,000; above 1,100 or so datagrams are cut by IP
    #[arg(long, value_name = "SIZE", default_value = "1000B", value_parser = parse::bytes)]
    segment_bytes: usize,

    /// What is kept of what passes through, for whoever asks next
    #[arg(long, value_name = "SIZE", default_value = "0B", value_parser = parse_size)]
    store: u64,

    /// Allow addresses beyond loopback though nothing is encrypted: whoever reaches the port can
    /// read the folder
    #[arg(long)]
    insecure_plaintext: bool,
}

#[derive(Serialize)]
struct Document {
    prefix: String,
    address: SocketAddr,
    asked: u64,
    segments: u64,
    content_bytes: u64,
    metadata: u64,
    refused: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let key = args.key.as_deref().map(std::fs::read_to_string).transpose();
    let key = key.map_err(|error| CliError::Input(format!("--key: {error}")))?;
    runtime()?.block_on(async {
        let forwarder = args.start()?;
        let mut serve = forwarder.serve(&args.folder, args.prefix.clone());
        serve = serve.segment_bytes(args.segment_bytes);
        if let Some(key) = &key {
            serve = sign(serve, key)?;
        }
        let serving = serve.start().map_err(explain_serve)?;
        let address = forwarder.local_addr();
        ui.note(&format!("{} under {} at {address}", args.folder.display(), args.prefix));
        let mut registrations = Vec::new();
        for face in args.faces.iter().filter(|_| args.register) {
            let registered = forwarder.register(args.prefix.clone(), face.address).await;
            registrations.push(registered.map_err(|error| CliError::Failed(error.to_string()))?);
            ui.note(&format!("registered at {}", face.address));
        }
        stop_asked().await;
        for registration in registrations {
            if let Err(error) = registration.end().await {
                ui.warn(&error.to_string());
            }
        }
        let ServeCounts { asked, segments, content_bytes, metadata, refused } = serving.counts();
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
        })?;
        ui.print(&format!(
            "{segments} segments of {content_bytes} bytes served; {refused} questions refused\n"
        ))?;
        Ok(Outcome::Done)
    })
}

impl Args {
    fn start(&self) -> Result<Forwarder, CliError> {
        let otherwise = match self.faces.is_empty() {
            true => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            false => source_for(&self.faces),
        };
        let mut builder = Forwarder::builder()
            .bind(self.bind.unwrap_or(otherwise))
            .strangers(link(self.rate))
            .store_bytes(self.store as usize);
        for face in &self.faces {
            builder = builder.face(face.address, face.config(self.rate));
        }
        if self.insecure_plaintext {
            builder = builder.insecure_plaintext();
        }
        builder.start().map_err(explain)
    }
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
