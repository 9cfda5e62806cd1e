use std::path::PathBuf;
use std::time::Instant;

use paceline_graph::walk::{Job, JobError, Kind};
use paceline_lab::Progress;

use super::kind::KindArgs;
use super::outputs::{OutputArgs, Outputs};
use super::plan::Plan;
use super::servers::ServersArgs;
use super::sources::SourcesArgs;
use super::summary::{Ran, Summary};
use crate::commands::graph::Input;
use crate::commands::{Outcome, seed};
use crate::error::CliError;
use crate::ui::Ui;

/// Run random walks over a graph, with all cores of this machine or on servers that share the graph
///
/// The same seed gives the same walks and the same bytes, whatever the number of threads. If the
/// command is stopped, the complete walks of a .txt or .csv stay in a file that ends in .partial;
/// --resume continues it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The graph: an edge list, METIS or .npz (.parquet in a build with the feature `parquet`)
    graph: PathBuf,

    #[command(flatten)]
    reading: Input,

    #[command(flatten)]
    kind: KindArgs,

    #[command(flatten)]
    sources: SourcesArgs,

    /// Walks from each source [default: 10; 1000 of ppr]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    walks: Option<u32>,

    /// The root of all randomness, 0 to 2^63 - 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed())]
    seed: u64,

    /// Threads that walk, 1 to 1024 [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    #[command(flatten)]
    servers: ServersArgs,

    #[command(flatten)]
    outputs: OutputArgs,

    /// Do not test the lengths of walks. On a graph with dead ends the test reads all edges some
    /// dozen times
    #[arg(long)]
    no_bias_test: bool,
}

const AFTER_HELP: &str = "\
Examples:
  paceline walk run web.npz --kind deepwalk --length 80 --walks 10 --out walks.txt
  paceline walk run web.npz --kind deepwalk --length 80 --walks 10 --out walks.txt --resume
  paceline walk run web.npz --kind node2vec --p 0.5 --q 2 --out walks.csv.gz
  paceline walk run web.npz --servers 127.0.0.1:7001,127.0.0.1:7002 --by edges --out walks.txt
  paceline walk run web.npz --servers 127.0.0.1:7001,127.0.0.1:7002 --method rq-rg --replace
  paceline walk run web.npz --kind ppr --end 0.15 --sources some.txt --ends ranks.csv --top-k 20
  paceline walk run roles.tsv --columns label --kind metapath --labels 1,2,1 --visits visits.csv

Without an output the walks are only counted. Walks of drawn length (ppr) are tested: the chance of
such lengths, dead ends considered, must not be below 0.001.

Exit status: 0 done; 1 stopped, or failed, or biased; 2 the arguments or a file are at fault.";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let asked = args.kind.asked()?;
    args.outputs.check()?;
    let named = args.reading.read(&args.graph)?;
    let sources = args.sources.vertices(&named.ids)?;
    let walks_per_source = args.walks.unwrap_or(asked.walks_per_source);
    let plan = Plan { named, asked, seed: args.seed, sources, walks_per_source };
    if plan.walks() == 0 {
        let path = args.graph.display();
        return Err(CliError::Input(format!("{path}: the graph has no vertices")));
    }
    if plan.asked.kind == Kind::Weighted && !plan.named.graph.is_weighted() {
        ui.warn("the graph has no weights: each edge is as likely as any other");
    }
    let job = local(&plan, args.threads).map_err(|error| CliError::Input(error.to_string()))?;
    let mut outputs = Outputs::open(&args.outputs, &plan)?;
    let (first, resumed_after) = (outputs.first(), outputs.resumed_after());
    if resumed_after > 0 {
        ui.note(&format!("resuming after walk {resumed_after} of {}", plan.walks()));
    }
    let begun = Instant::now();
    let (is_complete, report) = if args.servers.are_named() {
        let report = args.servers.walk(&plan, &mut outputs, ui)?;
        (report.is_some(), report)
    } else {
        (walk(&job, first, &mut outputs, ui)?, None)
    };
    let lengths = if is_complete {
        outputs.finish()?
    } else {
        let (lengths, kept) = outputs.suspend()?;
        match kept {
            Some(kept) => ui.note(&format!(
                "stopped; {} has the complete walks: --resume continues",
                kept.display()
            )),
            None => ui.note("stopped; no file was written"),
        }
        lengths
    };
    let is_tested = is_complete && !args.no_bias_test;
    let (graph, took) = (args.graph, begun.elapsed());
    let ran = Ran { graph, first, resumed_after, took, report, is_complete, is_tested };
    let summary = Summary::of(&plan, &lengths, ran);
    summary.print(ui)?;
    Ok(Outcome::of(is_complete && summary.is_unbiased()))
}

/// The walks on this machine.
fn local(plan: &Plan, threads: Option<u16>) -> Result<Job<'_>, JobError> {
    let mut job = Job::new(&plan.named.graph, &plan.asked.kind, plan.asked.length, plan.seed)?;
    if let Some(sources) = &plan.sources {
        job = job.with_sources(sources)?;
    }
    if let Some(threads) = threads {
        job = job.with_threads(threads.into());
    }
    Ok(job.with_walks_per_source(plan.walks_per_source))
}

/// Walks; false if it was stopped.
fn walk(job: &Job<'_>, first: u64, outputs: &mut Outputs<'_>, ui: &Ui) -> Result<bool, CliError> {
    let bar = ui.progress();
    bar.start(job.walks().saturating_sub(first), "walks");
    let summary = job.with_stop(ui.stop()).paths_from(first, |paths| {
        bar.inc(paths.len() as u64);
        outputs.append(paths)
    })?;
    bar.finish();
    Ok(summary.is_complete)
}
