//! Fetching an object into a file.

mod discover;
mod part;
mod transfer;
mod undecoded;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline_proto::mircc::{self, Command, FlowCounts, Multipath, Pace};
use paceline_proto::ndn::{Data, Name, NameError, PathLabel, Trust, VerifyError};
use thiserror::Error;
use tokio::sync::{oneshot, watch};

use super::Forwarder;
use super::error::AskError;
use super::metadata::{Digest, MetadataError};
use discover::Found;
use part::{Finished, Part, PartError, Plan};
use transfer::{Ended, Transfer};

pub use undecoded::{Undecoded, UndecodedFrom};

/// Segments that may have come and not be written yet: some megabytes.
const UNREAD_MAX: usize = 4_096;
/// Flows that may end for want of a route before the fetch fails.
const TRIES_MAX: usize = 4;
/// Longest wait for the producer's digest of the file, after all segments have come.
const DIGEST_WITHIN: Duration = Duration::from_secs(10);
/// Interval between requests for it.
const DIGEST_EVERY: Duration = Duration::from_millis(250);

/// Why a fetch failed. Received segments are kept for the next attempt, unless the variant says
/// otherwise.
#[derive(Debug, Error)]
pub enum FetchError {
    /// The producer says that there is no such file.
    #[error("the producer has no object {name}")]
    Absent {
        /// The name.
        name: Name,
    },
    /// No forwarder has a route, or the producer does not have the name.
    #[error(
        "no route leads to {name}, or no producer has it: does a producer serve it under this \
        name?"
    )]
    NoRoute {
        /// The name.
        name: Name,
    },
    /// No answer came.
    #[error("no Data for {name} within {within:?}: does a face lead to its producer?")]
    Unanswered {
        /// The name.
        name: Name,
        /// How long was waited.
        within: Duration,
    },
    /// Packets came, and none of them could be decoded: their sender uses something of NDN or
    /// NDNLPv2 that is not supported here, or speaks another protocol.
    #[error("no Data for {name} could be decoded: {received}")]
    Undecodable {
        /// The name.
        name: Name,
        /// Their senders, and the undecodable packets.
        received: Undecoded,
    },
    /// The first response was not an answer.
    #[error("cannot send an Interest for {name}: {why}")]
    Refused {
        /// The name.
        name: Name,
        /// Why.
        why: AskError,
    },
    /// The Data is not signed as it must be. It was not written.
    #[error("the signature of {name} failed verification: {why}")]
    Unverified {
        /// The name.
        name: Name,
        /// Why.
        why: VerifyError,
    },
    /// Too many segments are not signed as they must be, so the fetch ended. They were not written.
    #[error("the signatures of segments of {name} failed verification: {why}")]
    SegmentsUnverified {
        /// The name.
        name: Name,
        /// The fault of the last one.
        why: VerifyError,
    },
    /// The metadata is invalid.
    #[error("cannot decode the metadata of {name}: {why}")]
    Metadata {
        /// The name.
        name: Name,
        /// Why.
        why: MetadataError,
    },
    /// The length of a segment contradicts its place in the file.
    #[error("segment {segment} of {name} has {bytes} bytes, expected {expected}")]
    Uneven {
        /// The name.
        name: Name,
        /// The segment.
        segment: u64,
        /// Its bytes.
        bytes: u64,
        /// The length of the first segment.
        expected: u64,
    },
    /// The producer has another version by now.
    #[error("the producer changed {name} during the fetch: fetch it again")]
    Changed {
        /// The name of the version that was fetched.
        name: Name,
    },
    /// The producer, or the path to it, does not answer any longer.
    #[error("no Data of {name} for {after:?}")]
    Silent {
        /// The name.
        name: Name,
        /// How long.
        after: Duration,
    },
    /// The digest of the whole file is not the announced one. All of it was deleted.
    #[error("the digest of the received file differs from that in the metadata of {name}")]
    Digest {
        /// The name.
        name: Name,
    },
    /// Another fetch writes the file.
    #[error("another fetch is writing {}", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The name with the components after it is too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
    /// The forwarder has stopped.
    #[error("the forwarder has stopped")]
    Closed,
}

impl From<PartError> for FetchError {
    fn from(error: PartError) -> FetchError {
        match error {
            PartError::Busy(path) => FetchError::Busy { path },
            PartError::Disk(path, source) => FetchError::Disk { path, source },
        }
    }
}

/// The configuration of a fetch; made by [`Forwarder::fetch`].
#[derive(Clone)]
pub struct Fetch {
    forwarder: Forwarder,
    name: Name,
    out: PathBuf,
    pace: Pace,
    multipath: Multipath,
    bits_per_second_max: Option<u64>,
    trust: Trust,
    resumes: bool,
    answer_within: Duration,
    give_up_after: Duration,
}

/// The progress of a fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the file received so far.
    pub bytes: u64,
    /// Of these, bytes from an earlier attempt.
    pub resumed_bytes: u64,
    /// Bytes of the file, once they are known.
    pub bytes_total: Option<u64>,
}

/// The check of the whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    /// It has the digest that the producer announced.
    Digest([u8; 32]),
    /// The producer announced no digest. Each segment was verified.
    Unsaid,
}

/// The result of a fetch.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The name of the version, or of the single Data.
    pub name: Name,
    /// Bytes of the file.
    pub bytes: u64,
    /// Of these, bytes from an earlier attempt.
    pub resumed_bytes: u64,
    /// The check of the whole file.
    pub whole: Whole,
    /// The duration of the transfer, without discovery and digest.
    pub took: Duration,
    /// The counts of its flow.
    pub counts: FlowCounts,
}

/// A fetch under way. Dropping it stops it; received segments stay for the next attempt.
#[derive(Debug)]
pub struct Fetching {
    flow: u64,
    progress: watch::Receiver<Progress>,
    stop: watch::Sender<bool>,
    outcome: oneshot::Receiver<Result<Fetched, FetchError>>,
}

impl Fetch {
    pub(super) fn new(forwarder: Forwarder, name: Name, out: PathBuf) -> Fetch {
        Fetch {
            forwarder,
            name,
            out,
            pace: Pace::default(),
            multipath: Multipath::default(),
            bits_per_second_max: None,
            trust: Trust::Digest,
            resumes: true,
            answer_within: Duration::from_secs(4),
            give_up_after: Duration::from_secs(15),
        }
    }

    /// How the rate is found. Default: by the rates that forwarders stamp; without stamps, with a
    /// window like CUBIC's.
    pub fn pace(mut self, pace: Pace) -> Fetch {
        self.pace = pace;
        self
    }

    /// How several paths are used, where forwarders stamp rates. Default [`Multipath::Dual`].
    pub fn multipath(mut self, multipath: Multipath) -> Fetch {
        self.multipath = multipath;
        self
    }

    /// The highest rate, bit/s of Data as links count them. Default: no limit.
    pub fn bits_per_second_max(mut self, rate: u64) -> Fetch {
        self.bits_per_second_max = Some(rate);
        self
    }

    /// Whose Data are trusted. Default: Data with a valid digest, which any host can make.
    pub fn trust(mut self, trust: Trust) -> Fetch {
        self.trust = trust;
        self
    }

    /// Starts from the beginning. By default a fetch resumes an earlier attempt at the same
    /// version.
    pub fn from_start(mut self) -> Fetch {
        self.resumes = false;
        self
    }

    /// How long the first reply may take. Default 4 s.
    pub fn answer_within(mut self, time: Duration) -> Fetch {
        self.answer_within = time;
        self
    }

    /// Longest silence; four times as long while Interests are refused for congestion. Default 15
    /// s.
    pub fn give_up_after(mut self, time: Duration) -> Fetch {
        self.give_up_after = time;
        self
    }

    /// Starts the fetch. Until it is complete the file has `.part` after its name, and one with
    /// `.part.json` records which segments have come.
    pub fn start(self) -> Fetching {
        let flow = self.forwarder.shared.number();
        let (reported, progress) = watch::channel(Progress::default());
        let (stop, stopped) = watch::channel(false);
        let (end, outcome) = oneshot::channel();
        tokio::spawn(async move {
            // The receiver may have stopped waiting.
            let _ = end.send(self.run_and_explain(flow, reported, stopped).await);
        });
        Fetching { flow, progress, stop, outcome }
    }

    /// Reports undecodable packets if no other packets came.
    async fn run_and_explain(
        self,
        flow: u64,
        reported: watch::Sender<Progress>,
        stopped: watch::Receiver<bool>,
    ) -> Result<Fetched, FetchError> {
        let forwarder = self.forwarder.clone();
        let before = Undecoded::count(&forwarder).await;
        let ended = self.run(flow, reported, stopped).await;
        let Err(FetchError::Unanswered { name, .. } | FetchError::Silent { name, .. }) = &ended
        else {
            return ended;
        };
        match Undecoded::since(&before, &forwarder).await {
            Some(received) => Err(FetchError::Undecodable { name: name.clone(), received }),
            None => ended,
        }
    }

    async fn run(
        self,
        flow: u64,
        reported: watch::Sender<Progress>,
        stopped: watch::Receiver<bool>,
    ) -> Result<Fetched, FetchError> {
        let found = until(&stopped, self.discover()).await.ok_or(FetchError::Stopped)??;
        match found {
            Found::Whole(data) => {
                let content = data.content().to_bytes();
                let bytes = content.len() as u64;
                let out = self.out.clone();
                blocking(move || part::write_whole(&out, &content)).await??;
                reported.send_replace(Progress {
                    bytes,
                    resumed_bytes: 0,
                    bytes_total: Some(bytes),
                });
                Ok(Fetched {
                    name: data.name().detached(),
                    bytes,
                    resumed_bytes: 0,
                    whole: Whole::Unsaid,
                    took: Duration::ZERO,
                    counts: FlowCounts::default(),
                })
            }
            Found::Object { plan, digest, first, path } => {
                let began = Instant::now();
                let whole = (plan, first, path);
                let (part, counts) = self.transfer(flow, whole, reported, &stopped).await?;
                let took = began.elapsed();
                let digest = match digest {
                    Digest::Pending => {
                        let asked = self.ask_digest(&part.plan().name, path);
                        let asked = until(&stopped, asked).await;
                        asked.ok_or(FetchError::Stopped)?
                    }
                    digest => digest,
                };
                let name = part.plan().name.clone();
                let (bytes, resumed_bytes) = (part.bytes(), part.resumed_bytes());
                let whole = match digest {
                    Digest::Known(digest) => Whole::Digest(digest),
                    Digest::Unknown | Digest::Pending => Whole::Unsaid,
                };
                let expected = match whole {
                    Whole::Digest(digest) => Some(digest),
                    Whole::Unsaid => None,
                };
                match blocking(move || part.finish(expected, || *stopped.borrow())).await?? {
                    Finished::Whole => {
                        Ok(Fetched { name, bytes, resumed_bytes, whole, took, counts })
                    }
                    Finished::OtherDigest => Err(FetchError::Digest { name }),
                    Finished::Stopped => Err(FetchError::Stopped),
                }
            }
        }
    }

    /// Fetches the segments.
    async fn transfer(
        &self,
        flow: u64,
        (plan, first, path): (Plan, Option<Data>, PathLabel),
        reported: watch::Sender<Progress>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Part, FlowCounts), FetchError> {
        let (out, resumes) = (self.out.clone(), self.resumes);
        let name = plan.name.clone();
        let mut part = blocking(move || Part::open(&out, plan, resumes)).await??;
        if let Some(first) = first {
            // The segment that discovery received.
            part.write(0, &first)?;
        }
        // However this ends, also by being dropped, its flow stops.
        let _stop = StopFlow { fetch: self, flow };
        let mut tries_left = TRIES_MAX;
        loop {
            let before = part.bytes();
            let (after, ended) = self.run_flow(flow, part, reported.clone(), stopped).await?;
            part = after;
            tries_left -= 1;
            match ended {
                Ok(counts) => return Ok((part, counts)),
                // With several faces one may have no route: each flow chooses at random.
                Err(Ended::News(mircc::FetchError::NoRoute))
                    if part.bytes() == before && tries_left > 0 => {}
                Err(Ended::News(why)) => {
                    // Silence may mean that the version does not exist any longer.
                    drop(part);
                    return Err(self.explain(name, path, why).await);
                }
                Err(Ended::Over) if *stopped.borrow() => return Err(FetchError::Stopped),
                Err(Ended::Over) => return Err(FetchError::Closed),
                Err(Ended::Failed(error)) => return Err(error),
            }
        }
    }

    /// Runs a flow for the missing segments, and writes them.
    async fn run_flow(
        &self,
        flow: u64,
        part: Part,
        reported: watch::Sender<Progress>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<(Part, Result<FlowCounts, Ended>), FetchError> {
        let shared = &self.forwarder.shared;
        let news = shared.pending.expect_flow(flow);
        let command = Command::Fetch(mircc::Fetch {
            segments: part.segments(),
            had: part.had(),
            pace: self.pace,
            multipath: self.multipath,
            bits_per_second_max: self.bits_per_second_max,
            trust: self.trust.clone(),
            unread_max: Some(UNREAD_MAX),
            give_up_after: self.give_up_after,
            ..mircc::Fetch::new(flow, part.plan().name.clone())
        });
        shared.node.command(command).map_err(|_| FetchError::Closed)?;
        let transfer = Transfer { part, news, shared: shared.clone(), flow, reported };
        let mut running = transfer.start()?;
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = is_true(stopped.clone()) => {
                // The transfer ends once its queue is closed, and saves its segments.
                shared.pending.end_flow(flow);
                running.await
            }
        };
        ended.map_err(|_| FetchError::Closed)
    }

    async fn explain(&self, name: Name, path: PathLabel, why: mircc::FetchError) -> FetchError {
        if let mircc::FetchError::Unverified(why) = why {
            return FetchError::SegmentsUnverified { name, why };
        }
        if let Ok(Some((metadata, _))) = self.metadata(path, Duration::from_secs(1)).await
            && metadata.name != name
        {
            return FetchError::Changed { name };
        }
        match why {
            mircc::FetchError::NoRoute => FetchError::NoRoute { name },
            _ => FetchError::Silent { name, after: self.give_up_after },
        }
    }

    /// Asks for the digest, which the producer was still computing at discovery, first by the path
    /// of that answer.
    async fn ask_digest(&self, name: &Name, mut path: PathLabel) -> Digest {
        let end = tokio::time::Instant::now() + DIGEST_WITHIN;
        while tokio::time::Instant::now() < end {
            match self.metadata(path, DIGEST_WITHIN).await {
                // The digest of another version does not apply.
                Ok(Some((metadata, _))) if metadata.name != *name => return Digest::Unknown,
                Ok(Some((metadata, _))) if metadata.digest != Digest::Pending => {
                    return metadata.digest;
                }
                Ok(Some((_, by))) => {
                    path = by;
                    tokio::time::sleep(DIGEST_EVERY).await;
                }
                Ok(None) | Err(_) => return Digest::Unknown,
            }
        }
        Digest::Unknown
    }
}

/// Ends a flow when it is dropped.
struct StopFlow<'a> {
    fetch: &'a Fetch,
    flow: u64,
}

impl Drop for StopFlow<'_> {
    fn drop(&mut self) {
        let shared = &self.fetch.forwarder.shared;
        shared.pending.end_flow(self.flow);
        // A node that has stopped has no flows, and a flow that has ended is already gone.
        let _ = shared.node.command(Command::Stop { flow: self.flow });
    }
}

impl Fetching {
    /// The number by which the forwarder's [`Report`](super::Report) knows it.
    pub fn flow(&self) -> u64 {
        self.flow
    }

    /// The progress, updated as it continues.
    pub fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.clone()
    }

    /// Stops it: received segments are saved, and [`Fetching::finish`] returns.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If the file is not complete.
    pub async fn finish(mut self) -> Result<Fetched, FetchError> {
        (&mut self.outcome).await.unwrap_or(Err(FetchError::Closed))
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The output of a future, unless the caller stops the fetch before.
async fn until<T>(stopped: &watch::Receiver<bool>, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        value = future => Some(value),
        () = is_true(stopped.clone()) => None,
    }
}

async fn is_true(mut stopped: watch::Receiver<bool>) {
    // If the sender was dropped, no stop can come.
    if stopped.wait_for(|is_stopped| *is_stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, FetchError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| FetchError::Closed)
}

/// The path with something behind its name.
fn beside(out: &Path, what: &str) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    path.push(what);
    PathBuf::from(path)
}
