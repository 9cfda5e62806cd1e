//! Serving the files of a folder under a prefix.

mod digests;
mod folder;
mod made;
mod opened;
mod request;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use paceline_proto::mircc::{Command, SEGMENT_BYTES_MAX};
use paceline_proto::ndn::{Interest, KeyError, NackReason, Name, NameError, Signer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::mpsc;

use super::{Forwarder, Shared};
use folder::{Answer, Folder, Hidden};

/// Interests that may wait to be answered. Further ones get a Nack for congestion.
const WAITING_MAX: usize = 4_096;

/// Why a folder cannot be served.
#[derive(Debug, Error)]
pub enum ServeError {
    /// It is not a folder, or cannot be read.
    #[error("{}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The size of segments is out of range: at least a byte, at most the room in a packet.
    #[error("segments of {bytes} bytes, expected 1 to {SEGMENT_BYTES_MAX}")]
    SegmentBytes {
        /// The size asked for.
        bytes: usize,
    },
    /// The prefix is already served.
    #[error("{prefix} is already served")]
    Taken {
        /// The prefix.
        prefix: Name,
    },
    /// The prefix is reserved for the forwarder itself.
    #[error("cannot serve {prefix}: names below it denote the forwarder itself")]
    Reserved {
        /// The prefix.
        prefix: Name,
    },
    /// No thread could be started.
    #[error("cannot start a thread to read files: {0}")]
    Thread(io::Error),
    /// The forwarder has stopped.
    #[error("the forwarder has stopped")]
    Closed,
}

/// Why a key cannot sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignerError {
    /// It is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Its name would be too long.
    #[error(transparent)]
    Name(#[from] NameError),
}

/// The configuration of serving a folder; made by [`Forwarder::serve`].
#[derive(Clone)]
pub struct Serve {
    forwarder: Forwarder,
    folder: PathBuf,
    prefix: Name,
    hidden: Hidden,
    segment_bytes: usize,
    freshness: Duration,
    signer: Signer,
}

/// A folder that is being served. Dropping it ends that.
pub struct Serving {
    shared: Arc<Shared>,
    prefix: Name,
    counts: Arc<Counts>,
}

/// Counts of Interests and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeCounts {
    /// Interests received.
    pub asked: u64,
    /// Segments sent.
    pub segments: u64,
    /// Their bytes of content.
    pub content_bytes: u64,
    /// Metadata sent.
    pub metadata: u64,
    /// Interests for objects that do not exist or are not served.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    segments: AtomicU64,
    content_bytes: AtomicU64,
    metadata: AtomicU64,
    refused: AtomicU64,
}

impl Serve {
    pub(super) fn new(forwarder: Forwarder, folder: PathBuf, prefix: Name) -> Serve {
        Serve {
            forwarder,
            folder,
            prefix,
            hidden: Hidden::Withheld,
            segment_bytes: 1_000,
            freshness: Duration::from_secs(10),
            signer: Signer::Digest,
        }
    }

    /// Bytes of content in a segment, 1 to 8,000. Default 1,000: with a name, a signature and the
    /// fields that forwarders add, this fits one Ethernet frame. IP cuts longer packets, which are
    /// lost with any fragment.
    pub fn segment_bytes(mut self, bytes: usize) -> Serve {
        self.segment_bytes = bytes;
        self
    }

    /// Serves files and folders whose names begin with a dot as well: by default they are private.
    pub fn hidden_files(mut self) -> Serve {
        self.hidden = Hidden::Served;
        self
    }

    /// How long a segment is fresh in content stores. Its content never changes, but a forwarder
    /// may answer a request for the present version with it. Default 10 s.
    pub fn freshness(mut self, time: Duration) -> Serve {
        self.freshness = time;
        self
    }

    /// How Data is signed. Default: with its digest.
    pub fn signer(mut self, signer: Signer) -> Serve {
        self.signer = signer;
        self
    }

    /// Signs with the Ed25519 key in this PEM text (PKCS #8), under the name
    /// `PREFIX/KEY/ID`: the first eight bytes of the public key's SHA-256.
    ///
    /// # Errors
    /// If it is not such a key.
    pub fn key_pem(self, pem: &str) -> Result<Serve, SignerError> {
        let signer = Signer::from_pem(pem, Name::root())?;
        let Signer::Ed25519 { key, .. } = signer else { return Err(KeyError::Private.into()) };
        let id = Sha256::digest(key.verifying_key().to_bytes());
        let locator = self.prefix.generic(b"KEY")?.generic(&id[..8])?;
        Ok(self.signer(Signer::Ed25519 { key, locator }))
    }

    /// Starts to serve: Interests that reach the forwarder for names with the prefix are answered.
    ///
    /// Serves files below the folder, and targets of symbolic links that stay within it; nothing
    /// else, whatever the name in an Interest. Hides names that begin with a dot, unless
    /// [`Serve::hidden_files`] is set.
    ///
    /// # Errors
    /// If the folder cannot be read, a knob is out of range, or the prefix is taken.
    pub fn start(self) -> Result<Serving, ServeError> {
        let Serve { forwarder, folder, prefix, hidden, segment_bytes, freshness, signer } = self;
        if !(1..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            return Err(ServeError::SegmentBytes { bytes: segment_bytes });
        }
        let is_reserved = prefix
            .components()
            .next()
            .is_none_or(|first| matches!(first.value(), b"localhost" | b"localhop"));
        if is_reserved {
            return Err(ServeError::Reserved { prefix });
        }
        let dir = open(&folder).map_err(|source| ServeError::Folder { folder, source })?;
        let folder = Folder::new(dir, prefix.clone(), hidden, segment_bytes, freshness, signer)
            .map_err(ServeError::Thread)?;
        let shared = forwarder.shared;
        let asked = shared.pending.open_service(&prefix, WAITING_MAX);
        let Some(asked) = asked else { return Err(ServeError::Taken { prefix }) };
        let counts = Arc::new(Counts::default());
        let serving =
            Serving { shared: shared.clone(), prefix: prefix.clone(), counts: counts.clone() };
        let answer = move || answer(folder, asked, &shared, &counts);
        let thread = std::thread::Builder::new().name("paceline-serve".to_owned());
        thread.spawn(answer).map_err(ServeError::Thread)?;
        let begun = serving.shared.node.command(Command::Serve(prefix));
        begun.map(|()| serving).map_err(|_| ServeError::Closed)
    }
}

fn open(folder: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(folder, ambient_authority())
}

/// Answers Interests until their queue ends.
fn answer(
    mut folder: Folder,
    mut asked: mpsc::Receiver<Box<Interest>>,
    shared: &Shared,
    counts: &Counts,
) {
    let add = |count: &AtomicU64, number: u64| count.fetch_add(number, Ordering::Relaxed);
    while let Some(interest) = asked.blocking_recv() {
        add(&counts.asked, 1);
        let command = match folder.answer(&interest) {
            Answer::Segment(data) => {
                add(&counts.segments, 1);
                add(&counts.content_bytes, data.content().len() as u64);
                Command::Answer(data)
            }
            Answer::Metadata(data) => {
                add(&counts.metadata, 1);
                Command::Answer(data)
            }
            Answer::Absent(data) => {
                add(&counts.refused, 1);
                Command::Answer(data)
            }
            Answer::Nothing => {
                add(&counts.refused, 1);
                Command::Refuse(interest, NackReason::NoRoute)
            }
        };
        if shared.node.command(command).is_err() {
            return;
        }
    }
}

impl Serving {
    /// The prefix.
    pub fn prefix(&self) -> &Name {
        &self.prefix
    }

    /// The counts so far.
    pub fn counts(&self) -> ServeCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServeCounts {
            asked: read(&self.counts.asked),
            segments: read(&self.counts.segments),
            content_bytes: read(&self.counts.content_bytes),
            metadata: read(&self.counts.metadata),
            refused: read(&self.counts.refused),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.pending.close_service(&self.prefix);
        // A node that has stopped serves nothing.
        let _ = self.shared.node.command(Command::Unserve(self.prefix.clone()));
    }
}
