//! Writing of segments into a file.

use std::io;
use std::sync::Arc;

use paceline_proto::mircc::{self, Command, FlowCounts};
use tokio::sync::{mpsc, oneshot, watch};

use super::super::Shared;
use super::super::pending::News;
use super::part::Part;
use super::{FetchError, Progress};

/// Segments that are written before the flow gets credit for them.
const TOGETHER_MAX: usize = 256;

/// A transfer, with a thread of its own, since writes wait for the disk.
pub struct Transfer {
    pub part: Part,
    pub news: mpsc::UnboundedReceiver<News>,
    pub shared: Arc<Shared>,
    pub flow: u64,
    pub reported: watch::Sender<Progress>,
}

/// Why a transfer ended early.
pub enum Ended {
    /// The flow failed.
    News(mircc::FetchError),
    /// The queue of segments was closed.
    Over,
    /// A segment could not be written.
    Failed(FetchError),
}

/// The file, and the result.
type Outcome = (Part, Result<FlowCounts, Ended>);

impl Transfer {
    /// Writes segments until their queue ends, and saves the note.
    pub fn start(mut self) -> Result<oneshot::Receiver<Outcome>, FetchError> {
        let (end, outcome) = oneshot::channel();
        let path = self.part.out().to_owned();
        let thread = std::thread::Builder::new().name("paceline-fetch".to_owned());
        let run = move || {
            let mut ended = self.run();
            if ended.is_err()
                && let Err(error) = self.part.save()
            {
                ended = Err(Ended::Failed(error.into()));
            }
            // The receiver may be gone; the segments are saved.
            let _ = end.send((self.part, ended));
        };
        let started: io::Result<_> = thread.spawn(run);
        started.map(|_| outcome).map_err(|source| FetchError::Disk { path, source })
    }

    fn run(&mut self) -> Result<FlowCounts, Ended> {
        self.report();
        let mut news = self.news.blocking_recv();
        let mut written = 0;
        loop {
            match news {
                None => return Err(Ended::Over),
                Some(News::Fetched(counts)) => {
                    self.report();
                    return Ok(counts);
                }
                Some(News::Failed(why)) => return Err(Ended::News(why)),
                Some(News::Segment(number, data)) => {
                    self.part.write(number, &data).map_err(Ended::Failed)?;
                    written += 1;
                }
            }
            if written < TOGETHER_MAX
                && let Ok(more) = self.news.try_recv()
            {
                news = Some(more);
                continue;
            }
            self.consume(&mut written);
            self.part.save_now_and_then().map_err(|error| Ended::Failed(error.into()))?;
            news = self.news.blocking_recv();
        }
    }

    /// Returns the credit of the written segments to the flow.
    fn consume(&mut self, written: &mut usize) {
        let consumed = Command::Consumed { flow: self.flow, segments: std::mem::take(written) };
        // If the node has stopped, the queue ends.
        let _ = self.shared.node.command(consumed);
        self.report();
    }

    fn report(&self) {
        self.reported.send_replace(Progress {
            bytes: self.part.bytes(),
            resumed_bytes: self.part.resumed_bytes(),
            bytes_total: self.part.plan().bytes,
        });
    }
}
