use paceline::named::{Hop, Name};
use serde::Serialize;

use super::args::{Consumer, PathLine, explain_ask, parse_name};
use super::ping::{line, paths};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Print every node on the path to a name
///
/// Forwarders of Paceline reply themselves where the hop limit of an Interest ends. With
/// --all-paths the command traces each path that it finds, by its label.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  paceline ndn traceroute /music --all-paths")]
pub struct Args {
    /// The name, or a prefix that is served
    #[arg(value_parser = parse_name)]
    name: Name,

    #[command(flatten)]
    consumer: Consumer,

    /// Follow all paths, not only one
    #[arg(long)]
    all_paths: bool,
}

#[derive(Serialize)]
struct Document {
    name: String,
    paths: Vec<PathDocument>,
}

#[derive(Serialize)]
struct PathDocument {
    path: String,
    hops: Vec<HopLine>,
}

#[derive(Serialize)]
struct HopLine {
    hop: u8,
    node: Option<String>,
    error: Option<String>,
    #[serde(flatten)]
    path: Option<PathLine>,
    says: Vec<String>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    runtime()?.block_on(async {
        let forwarder = args.consumer.start(|builder| builder)?;
        let mut document = Document { name: args.name.to_string(), paths: Vec::new() };
        let mut reaches = true;
        let look = async {
            for label in paths(&forwarder, &args.name, args.all_paths).await? {
                let hops = forwarder.trace(&args.name, label).await.map_err(explain_ask)?;
                reaches &= hops.last().is_some_and(|hop| hop.reply.is_ok());
                let end = hops.iter().rev().find_map(|hop| hop.reply.as_ref().ok());
                let path = end.map_or(label, |end| end.path).to_string();
                let mut text = format!("path {path}\n");
                for hop in &hops {
                    text += &format!("{:>3}  {}\n", hop.number, line(&hop.reply));
                }
                ui.print(&text)?;
                let hops = hops.into_iter().map(HopLine::of).collect();
                document.paths.push(PathDocument { path, hops });
            }
            Ok::<(), CliError>(())
        };
        tokio::select! {
            () = stop_asked() => return Err(CliError::Stopped),
            looked = look => looked?,
        }
        forwarder.stop().await;
        ui.document(&document)?;
        Ok(Outcome::of(reaches))
    })
}

impl HopLine {
    fn of(hop: Hop) -> HopLine {
        let Hop { number, reply, says } = hop;
        match reply {
            Ok(reply) => {
                let path = Some(PathLine::of_reply(&reply));
                HopLine { hop: number, node: reply.node, error: None, path, says }
            }
            Err(error) => HopLine {
                hop: number,
                node: None,
                error: Some(error.to_string()),
                path: None,
                says,
            },
        }
    }
}
