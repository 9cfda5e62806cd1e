use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline::named::{
    Fetch, FetchError, Fetched, Fetching, FlowReport, Forwarder, Multipath, Name, Pace, Progress,
    Trust, Whole,
};
use paceline_lab::scenario::units::{Rate, parse_duration, parse_rate};
use serde::Serialize;
use tokio::time::MissedTickBehavior;

use super::args::{Consumer, PathLine, parse_name};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::progress::ByteBar;
use crate::ui::Ui;

/// Fetch a named object over one path or several, into a file
///
/// Requests the version, size and digest of the file, if the producer has metadata; verifies each
/// segment on arrival, and the whole file at the end. A repeated command resumes an interrupted
/// fetch. Sends at the stamped rates where forwarders stamp rates, otherwise with a congestion
/// window.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  paceline fetch /music/waltz.flac -o waltz.flac
  paceline fetch /music/waltz.flac -o waltz.flac --path 10.0.0.1 --path 10.0.1.1 \\
      --insecure-plaintext --key pub.pem

Exit status 1 if the fetch is incomplete; the received segments are then in FILE.part.")]
pub struct Args {
    /// The name; with a version component that version, otherwise the latest
    #[arg(value_parser = parse_name)]
    name: Name,

    /// The file
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,

    #[command(flatten)]
    consumer: Consumer,

    /// Fetch no faster than this, as links count
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// Accept only Data signed with the private key of this public key, a PEM file. Without it
    /// digests reveal damage, but prove no origin
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_anything")]
    key: Option<PathBuf>,

    /// Accept Data without verification
    #[arg(long)]
    insecure_anything: bool,

    /// How to use several paths
    #[arg(long, value_name = "HOW", default_value = "dual")]
    multipath: MultipathName,

    /// How to control the rate
    #[arg(long, value_name = "HOW", default_value = "rates")]
    pace: PaceName,

    /// Segments under way or out of order, at most
    #[arg(long, value_name = "N", default_value = "16384")]
    window: usize,

    /// Start from the beginning, without the data of an earlier run
    #[arg(long)]
    no_resume: bool,

    /// Print the progress and the rates of the paths at this interval [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    #[arg(num_args = 0..=1, default_missing_value = "1s")]
    stats: Option<Duration>,

    /// How long the first reply may take
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = parse_duration)]
    answer_within: Duration,

    /// Give up after this time without Data
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_duration)]
    give_up_after: Duration,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MultipathName {
    /// The best path at its rate, and remaining capacity on all paths
    Dual,
    /// The best path only
    Best,
    /// Each path at its rate, as an independent flow
    Sum,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PaceName {
    /// At stamped rates; where no forwarder stamps, as cubic
    Rates,
    /// A window that a congestion mark halves
    Aimd,
    /// A window as in RFC 9438
    Cubic,
}

/// How often the paths are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

#[derive(Serialize)]
struct Document<'a> {
    name: String,
    file: &'a Path,
    bytes: u64,
    resumed_bytes: u64,
    seconds: f64,
    /// Of these, while segments came.
    transfer_seconds: f64,
    /// Meanwhile, of the file, without what was there before.
    mbit_per_s: f64,
    /// The same as links count it.
    link_mbit_per_s: f64,
    sha256: Option<String>,
    /// Whether all of it is signed with the key that was named.
    is_origin_known: bool,
    segments: u64,
    interests: u64,
    timeouts: u64,
    overtaken: u64,
    probes: u64,
    nacks: u64,
    duplicates: u64,
    marks: u64,
    unverified: u64,
    switches: u64,
    primary_bytes: u64,
    secondary_bytes: u64,
    paths: Vec<PathLine>,
}

/// How far it is: totals since it began.
#[derive(Serialize)]
struct StatsLine {
    seconds: f64,
    segments: u64,
    /// Of the file, that have come over the network.
    content_bytes: u64,
    /// The Data that they came in, as links count it.
    link_bytes: u64,
    /// Of these, by secondary Interests.
    secondary_bytes: u64,
    interests: u64,
    timeouts: u64,
    overtaken: u64,
    probes: u64,
    nacks: u64,
    paths: Vec<PathLine>,
}

impl StatsLine {
    fn new(seconds: f64, flow: &FlowReport) -> StatsLine {
        let counts = flow.counts;
        StatsLine {
            seconds,
            segments: counts.segments,
            content_bytes: counts.content_bytes,
            link_bytes: counts.primary_bytes + counts.secondary_bytes,
            secondary_bytes: counts.secondary_bytes,
            interests: counts.interests,
            timeouts: counts.timeouts,
            overtaken: counts.overtaken,
            probes: counts.probes,
            nacks: counts.nacks,
            paths: flow.paths.iter().map(PathLine::of_report).collect(),
        }
    }

    fn text(&self) -> String {
        let StatsLine { seconds, content_bytes, timeouts, overtaken, nacks, .. } = self;
        let mean = *content_bytes as f64 * 8e-6 / seconds.max(1e-9);
        let mut text = format!(
            "{seconds:.1}s {content_bytes} bytes, {mean:.2} Mbit/s so far, {overtaken} overtaken, \
             {timeouts} late, {nacks} refused"
        );
        for path in &self.paths {
            text += &format!("; path {}: {}", path.path, path.rate());
        }
        text
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.stats.is_some_and(|every| every.is_zero()) {
        return Err(CliError::Input("--stats 0s: expected an interval above 0".to_owned()));
    }
    let trust = match (&args.key, args.insecure_anything) {
        (None, false) => Trust::Digest,
        (None, true) => Trust::Anything,
        (Some(file), _) => {
            let failed = |error: String| CliError::Input(format!("{}: {error}", file.display()));
            let pem = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
            Trust::from_pem(&pem).map_err(|error| failed(error.to_string()))?
        }
    };
    runtime()?.block_on(async {
        let window = args.window;
        let forwarder = args.consumer.start(|builder| {
            builder.with_config(|mut config| {
                config.window_max = window;
                config
            })
        })?;
        let began = Instant::now();
        let fetching = args.fetch(&forwarder, trust).start();
        let (ended, paths) = watch(fetching, &forwarder, args.stats, ui).await?;
        let fetched = ended.map_err(|error| explain(&args, error))?;
        let seconds = began.elapsed().as_secs_f64();
        tell(&args, &fetched, seconds, paths, ui)?;
        forwarder.stop().await;
        Ok(Outcome::Done)
    })
}

impl Args {
    fn fetch(&self, forwarder: &Forwarder, trust: Trust) -> Fetch {
        let mut fetch = forwarder
            .fetch(self.name.clone(), &self.out)
            .trust(trust)
            .answer_within(self.answer_within)
            .give_up_after(self.give_up_after)
            .multipath(match self.multipath {
                MultipathName::Dual => Multipath::Dual,
                MultipathName::Best => Multipath::Best,
                MultipathName::Sum => Multipath::Sum,
            })
            .pace(match self.pace {
                PaceName::Rates => Pace::Rates,
                PaceName::Aimd => Pace::Aimd,
                PaceName::Cubic => Pace::Cubic,
            });
        if let Some(rate) = self.rate {
            fetch = fetch.bits_per_second_max(rate.bits_per_second());
        }
        if self.no_resume {
            fetch = fetch.from_start();
        }
        fetch
    }
}

/// Shows how far it is until its end, and remembers the paths that it took.
async fn watch(
    fetching: Fetching,
    forwarder: &Forwarder,
    stats: Option<Duration>,
    ui: &Ui,
) -> Result<(Result<Fetched, FetchError>, Vec<PathLine>), CliError> {
    let (flow, mut progress) = (fetching.flow(), fetching.progress());
    let bar = ByteBar::new();
    let began = Instant::now();
    let mut paths = Vec::new();
    let look = async || {
        let report = forwarder.report().await.ok()?;
        Some(StatsLine::new(began.elapsed().as_secs_f64(), report.flow(flow)?))
    };
    tokio::pin! { let stop = stop_asked(); }
    let mut looks = tokio::time::interval(stats.unwrap_or(LOOK_EVERY));
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            () = &mut stop => {
                fetching.stop();
                break;
            }
            _ = looks.tick() => {
                if let Some(line) = look().await {
                    if stats.is_some() {
                        ui.line(&line, || line.text())?;
                    }
                    paths = line.paths;
                }
            }
            changed = progress.changed() => match changed {
                Ok(()) => {
                    let Progress { bytes, resumed_bytes, bytes_total } = *progress.borrow();
                    bar.set(bytes, resumed_bytes, bytes_total);
                    // It may be over before the next look.
                    if paths.is_empty()
                        && let Some(line) = look().await
                    {
                        paths = line.paths;
                    }
                }
                // All that can be said was.
                Err(_) => break,
            }
        }
    }
    let ended = fetching.finish().await;
    bar.finish();
    if let Err(FetchError::Stopped) = ended {
        ui.note("the received segments are kept: run the command again to resume");
    }
    Ok((ended, paths))
}

fn tell(
    args: &Args,
    fetched: &Fetched,
    seconds: f64,
    paths: Vec<PathLine>,
    ui: &Ui,
) -> Result<(), CliError> {
    let Fetched { name, bytes, resumed_bytes, whole, took, counts } = fetched;
    let took = took.as_secs_f64();
    let mbit = |bytes: u64| bytes as f64 * 8e-6 / took.max(1e-9);
    let link_bytes = counts.primary_bytes + counts.secondary_bytes;
    let sha256 = match whole {
        Whole::Digest(digest) => {
            Some(digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
        Whole::Unsaid => None,
    };
    let rate = if took > 0.0 { mbit(bytes - resumed_bytes) } else { 0.0 };
    let mut text = format!("{name}\n{} bytes in {seconds:.2} s, {rate:.2} Mbit/s", bytes);
    if *resumed_bytes > 0 {
        text += &format!("; {resumed_bytes} of them from an earlier run");
    }
    // Anyone who creates Data can compute its digest: without a key it detects damage, but no
    // forgery.
    let is_origin_known = args.key.is_some();
    text += match (is_origin_known, args.insecure_anything) {
        (true, _) => "; intact, signed with the key",
        (false, false) => "; intact, origin unknown: no --key",
        (false, true) => "; nothing was verified: --insecure-anything",
    };
    text += match whole {
        Whole::Digest(_) => "\n",
        Whole::Unsaid => "; the producer has no digest of the whole file\n",
    };
    for path in &paths {
        let trip = path.round_trip_ms.map_or(String::new(), |ms| format!(", {ms:.2} ms"));
        text += &format!("path {}: {}{trip}\n", path.path, path.rate());
    }
    let document = Document {
        name: name.to_string(),
        file: &args.out,
        bytes: *bytes,
        resumed_bytes: *resumed_bytes,
        seconds,
        transfer_seconds: took,
        mbit_per_s: rate,
        link_mbit_per_s: mbit(link_bytes),
        sha256,
        is_origin_known,
        segments: counts.segments,
        interests: counts.interests,
        timeouts: counts.timeouts,
        overtaken: counts.overtaken,
        probes: counts.probes,
        nacks: counts.nacks,
        duplicates: counts.duplicates,
        marks: counts.marks,
        unverified: counts.unverified,
        switches: counts.switches,
        primary_bytes: counts.primary_bytes,
        secondary_bytes: counts.secondary_bytes,
        paths,
    };
    match args.stats {
        Some(_) => ui.record(&document)?,
        None => ui.document(&document)?,
    }
    ui.print(&text)
}

/// Maps an error to its exit status and message.
fn explain(args: &Args, error: FetchError) -> CliError {
    let trusts_digests = args.key.is_none() && !args.insecure_anything;
    match error {
        FetchError::Name(_) => CliError::Input(error.to_string()),
        FetchError::Unverified { .. } if trusts_digests => CliError::Failed(format!(
            "{error}\n  = name the public key with --key, or accept any Data with \
             --insecure-anything"
        )),
        error => CliError::Failed(error.to_string()),
    }
}
