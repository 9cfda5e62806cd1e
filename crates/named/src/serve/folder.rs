//! Files of a folder as Data.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::fs::Dir;
use paceline_proto::core::Payload;
use paceline_proto::ndn::{Data, Interest, Meta, Name, Signer};

use super::super::metadata::{FileMetadata, segments};
use super::digests::Digests;
use super::made::Made;
use super::opened::{Opened, Version};
use super::request::Request;

/// How long metadata is fresh: it describes the present version.
const METADATA_FRESHNESS_MS: u32 = 1;
/// ContentType of a producer's signed statement that the object does not exist. Source: NDN packet
/// format 0.3.
pub const CONTENT_TYPE_NACK: u64 = 3;

/// The answer to an Interest.
#[derive(Debug)]
pub enum Answer {
    /// A segment of a file.
    Segment(Data),
    /// Metadata of a file.
    Metadata(Data),
    /// A signed statement that the file does not exist.
    Absent(Data),
    /// No answer.
    Nothing,
}

/// How files and folders whose names begin with a dot are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// They are served like others.
    Served,
    /// Consumers cannot see them.
    Withheld,
}

impl Hidden {
    /// True if a file at this path below the folder may be served.
    fn shows(self, path: &Path) -> bool {
        let is_hidden = |step: &std::ffi::OsStr| step.as_encoded_bytes().starts_with(b".");
        self == Hidden::Served || !path.iter().any(is_hidden)
    }
}

/// A folder.
pub struct Folder {
    dir: Dir,
    prefix: Name,
    prefix_components: usize,
    hidden: Hidden,
    segment_bytes: usize,
    freshness_ms: u32,
    signer: Signer,
    opened: Opened,
    made: Made,
    digests: Digests,
}

impl Folder {
    pub fn new(
        dir: Dir,
        prefix: Name,
        hidden: Hidden,
        segment_bytes: usize,
        freshness: Duration,
        signer: Signer,
    ) -> io::Result<Folder> {
        Ok(Folder {
            dir,
            hidden,
            prefix_components: prefix.component_count(),
            prefix,
            segment_bytes,
            freshness_ms: u32::try_from(freshness.as_millis()).unwrap_or(u32::MAX),
            signer,
            opened: Opened::default(),
            made: Made::default(),
            digests: Digests::start()?,
        })
    }

    /// The answer to an Interest.
    pub fn answer(&mut self, interest: &Interest) -> Answer {
        if !self.prefix.is_prefix_of(&interest.name) {
            return Answer::Nothing;
        }
        if let Some(data) = self.made.find(&interest.name) {
            // Metadata is also requested again by its exact name, after the loss of an answer.
            return Answer::Segment(data.clone());
        }
        match Request::of(interest, self.prefix_components) {
            None => Answer::Nothing,
            Some(Request::Latest(path)) => {
                let version = self.latest(&path);
                version.map_or(Answer::Nothing, |version| self.segment(interest, &version, 0))
            }
            Some(Request::Segment(path, number, segment)) => {
                let is_shown = self.hidden.shows(&path);
                let version = is_shown.then(|| self.opened.version(&self.dir, &path, number));
                let version = version.flatten();
                version.map_or(Answer::Nothing, |version| self.segment(interest, &version, segment))
            }
            Some(Request::Metadata(path)) => self.metadata(interest, &path),
        }
    }

    /// The present version of a file that is served.
    fn latest(&mut self, path: &Path) -> Option<Version> {
        if self.hidden.shows(path) { self.opened.latest(&self.dir, path) } else { None }
    }

    fn segment(&mut self, interest: &Interest, version: &Version, number: u64) -> Answer {
        let Some(name) = self.name_of(interest, version) else { return Answer::Nothing };
        let name = name.with_segment(number);
        let size = self.segment_bytes as u64;
        let last = segments(version.bytes, size) - 1;
        if number > last {
            return Answer::Nothing;
        }
        let from = number * size;
        let mut content = vec![0; (version.bytes - from).min(size) as usize];
        if version.read(from, &mut content).is_err() {
            self.opened.forget(version);
            return Answer::Nothing;
        }
        let meta = Meta {
            freshness_ms: Some(self.freshness_ms),
            final_segment: Some(last),
            ..Meta::default()
        };
        let data = Data::new(name, meta, Payload::from(content), &self.signer);
        self.made.keep(&data);
        Answer::Segment(data)
    }

    fn metadata(&mut self, interest: &Interest, path: &Path) -> Answer {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = interest.name.version(now.as_nanos() as u64);
        let Ok(name) = name.map(|name| name.with_segment(0).detached()) else {
            return Answer::Nothing;
        };
        let freshness_ms = Some(METADATA_FRESHNESS_MS);
        let version = self.latest(path);
        let said = version.and_then(|version| self.describe(interest, &version));
        let Some(said) = said else {
            let meta =
                Meta { content_type: Some(CONTENT_TYPE_NACK), freshness_ms, ..Meta::default() };
            return Answer::Absent(Data::new(name, meta, Payload::from(""), &self.signer));
        };
        let meta = Meta { freshness_ms, final_segment: Some(0), ..Meta::default() };
        let data = Data::new(name, meta, Payload::from(said.encode()), &self.signer);
        self.made.keep(&data);
        Answer::Metadata(data)
    }

    fn describe(&self, interest: &Interest, version: &Version) -> Option<FileMetadata> {
        let size = self.segment_bytes as u64;
        Some(FileMetadata {
            name: self.name_of(interest, version)?,
            final_segment: Some(segments(version.bytes, size) - 1),
            segment_bytes: Some(size),
            bytes: Some(version.bytes),
            modified_nanos: Some(version.number),
            digest: self.digests.of(version),
        })
    }

    /// The name of the requested version, in memory of its own.
    fn name_of(&self, interest: &Interest, version: &Version) -> Option<Name> {
        let components = self.prefix_components + version.path.components().count();
        interest.name.truncated(components).version(version.number).ok()
    }
}
