//! Discovery of the versions and segments under a name.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use paceline_proto::ndn::tlv::kind;
use paceline_proto::ndn::{Data, Interest, NackReason, Name, PathLabel};

use super::super::Answer;
use super::super::error::AskError;
use super::super::metadata::{Digest, FileMetadata, MetadataError};
use super::part::Plan;
use super::{Fetch, FetchError};

/// The keyword of a file's metadata.
const METADATA: &str = "metadata";
/// How long one Interest waits.
const LIFETIME: Duration = Duration::from_secs(1);
/// Wait for metadata before the first segment is requested as well. Producers that do not support
/// metadata do not answer.
const HEAD_START: Duration = Duration::from_millis(100);
/// Longest wait for metadata after the first segment.
const GRACE: Duration = Duration::from_millis(200);
/// ContentType of a producer's signed statement that the object does not exist. Source: NDN packet
/// format 0.3.
const CONTENT_TYPE_NACK: u64 = 3;

/// Metadata, and the path that it came by.
pub(super) type Said = (FileMetadata, PathLabel);

/// The result of discovery.
pub enum Found {
    /// Segments.
    Object {
        /// The layout of the object.
        plan: Plan,
        /// The digest of the whole object.
        digest: Digest,
        /// The first segment, if it has come already.
        first: Option<Data>,
        /// The path that the answer came by.
        path: PathLabel,
    },
    /// The object as one Data.
    Whole(Data),
}

impl Fetch {
    /// Finds the object.
    pub(super) async fn discover(&self) -> Result<Found, FetchError> {
        let name = self.name.clone();
        if name.segment().is_some() {
            let answer = self.ask(Interest::new(name, 0)).await?;
            return Ok(Found::Whole(answer.data));
        }
        let last = name.components().last().map(|component| u32::from(component.kind()));
        if last == Some(kind::VERSION) {
            return self.first(name).await;
        }
        let metadata = self.metadata(PathLabel::EMPTY, self.answer_within);
        let mut metadata = pin!(metadata);
        let mut is_over = false;
        match tokio::time::timeout(HEAD_START, &mut metadata).await {
            Ok(Ok(Some(said))) => return self.described(said).await,
            Ok(Err(error @ (FetchError::Absent { .. } | FetchError::Unverified { .. }))) => {
                return Err(error);
            }
            // The producer does not support metadata.
            Ok(_) => is_over = true,
            Err(_) => {}
        }
        let discovery = Interest { can_be_prefix: true, must_be_fresh: true, ..asking(name) };
        let discovery = self.ask(discovery);
        let mut discovery = pin!(discovery);
        let found = loop {
            tokio::select! {
                said = &mut metadata, if !is_over => match said {
                    Ok(Some(said)) => return self.described(said).await,
                    Err(error @ FetchError::Absent { .. }) => return Err(error),
                    _ => is_over = true,
                },
                found = &mut discovery => break found,
            }
        };
        let found = match found {
            Ok(found) => found,
            // A producer may support only segments.
            Err(FetchError::Unanswered { name, within }) => {
                let first = asking(name.with_segment(0));
                return match self.ask_for(first, LIFETIME).await {
                    Ok(answer) => self.begun(answer),
                    Err(_) => Err(FetchError::Unanswered { name, within }),
                };
            }
            Err(error) => return Err(error),
        };
        if is_metadata(found.data.name()) {
            let said = self.understand(&found.data)?;
            return self.described((said, found.path)).await;
        }
        let grace = GRACE.max(found.round_trip * 4);
        if let Some(said) = self.metadata_late(is_over, metadata, found.path, grace).await {
            return self.described(said).await;
        }
        match found.data.name().segment() {
            None => Ok(Found::Whole(found.data)),
            Some(0) => self.begun(found),
            // A content store on the way has another version.
            Some(_) => self.first(found.data.name().without_segment().detached()).await,
        }
    }

    /// Metadata that comes after the first segment, if any: from the pending request, or by the
    /// path of the segment.
    async fn metadata_late(
        &self,
        is_over: bool,
        asked: impl Future<Output = Result<Option<Said>, FetchError>>,
        path: PathLabel,
        within: Duration,
    ) -> Option<Said> {
        let asked = async { if is_over { pending().await } else { asked.await } };
        let steered = async {
            if path.is_empty() { pending().await } else { self.metadata(path, within).await }
        };
        let (mut asked, mut steered) = (pin!(asked), pin!(steered));
        let said = async {
            tokio::select! {
                Ok(Some(said)) = &mut asked => Some(said),
                Ok(Some(said)) = &mut steered => Some(said),
                else => None,
            }
        };
        tokio::time::timeout(within, said).await.ok().flatten()
    }

    /// Asks for metadata, by a path if one is known; `None` if none comes.
    pub(super) async fn metadata(
        &self,
        path: PathLabel,
        within: Duration,
    ) -> Result<Option<Said>, FetchError> {
        let name = self.name.keyword(METADATA)?;
        let interest = Interest { can_be_prefix: true, must_be_fresh: true, ..asking(name) };
        match self.forwarder.ask_within(&interest, path, within).await {
            Err(AskError::Closed) => Err(FetchError::Closed),
            Err(_) => Ok(None),
            Ok(answer) => self.understand(&answer.data).map(|said| Some((said, answer.path))),
        }
    }

    fn understand(&self, data: &Data) -> Result<FileMetadata, FetchError> {
        let name = self.name.clone();
        self.verify(data)?;
        if data.content_type() == CONTENT_TYPE_NACK {
            return Err(FetchError::Absent { name });
        }
        let said = FileMetadata::decode(&data.content().to_bytes());
        let said = said.and_then(|said| match self.name.is_prefix_of(&said.name) {
            true => Ok(said),
            false => Err(MetadataError::Name),
        });
        said.map_err(|why| FetchError::Metadata { name, why })
    }

    /// Finds the object of some metadata.
    async fn described(&self, (said, path): Said) -> Result<Found, FetchError> {
        let segments = said.segments();
        match said.segment_bytes {
            // Segments have places in the file only if their length is known.
            None => match self.first(said.name).await? {
                Found::Object { plan, first, .. } => {
                    let plan = Plan { segments: plan.segments.or(segments), ..plan };
                    Ok(Found::Object { plan, digest: said.digest, first, path })
                }
                whole @ Found::Whole(_) => Ok(whole),
            },
            Some(segment_bytes) => {
                let plan = Plan { name: said.name, segment_bytes, segments, bytes: said.bytes };
                Ok(Found::Object { plan, digest: said.digest, first: None, path })
            }
        }
    }

    /// Asks for the first segment of a version.
    async fn first(&self, version: Name) -> Result<Found, FetchError> {
        let answer = self.ask(asking(version.with_segment(0))).await?;
        self.begun(answer)
    }

    /// The layout according to the first segment.
    fn begun(&self, Answer { data: first, path, .. }: Answer) -> Result<Found, FetchError> {
        let segments = first.final_segment().and_then(|last| last.checked_add(1));
        let (name, bytes) =
            (first.name().without_segment().detached(), first.content().len() as u64);
        if bytes == 0 && segments != Some(1) {
            return Err(FetchError::Uneven { name, segment: 0, bytes, expected: 1 });
        }
        let all = (segments == Some(1)).then_some(bytes);
        let plan = Plan { name, segment_bytes: bytes.max(1), segments, bytes: all };
        Ok(Found::Object { plan, digest: Digest::Unknown, first: Some(first), path })
    }

    /// Sends an Interest, and rejects Data that is not signed as it must be.
    async fn ask(&self, interest: Interest) -> Result<Answer, FetchError> {
        self.ask_for(interest, self.answer_within).await
    }

    async fn ask_for(&self, interest: Interest, within: Duration) -> Result<Answer, FetchError> {
        let name = interest.name.clone();
        match self.forwarder.ask_within(&interest, PathLabel::EMPTY, within).await {
            Ok(answer) => self.verify(&answer.data).map(|()| answer),
            Err(AskError::Refused(NackReason::NoRoute)) => Err(FetchError::NoRoute { name }),
            Err(AskError::Unanswered(within)) => Err(FetchError::Unanswered { name, within }),
            Err(AskError::Closed) => Err(FetchError::Closed),
            Err(why) => Err(FetchError::Refused { name, why }),
        }
    }

    fn verify(&self, data: &Data) -> Result<(), FetchError> {
        let failed = |why| FetchError::Unverified { name: data.name().clone(), why };
        data.verify(&self.trust).map_err(failed)
    }
}

fn asking(name: Name) -> Interest {
    Interest { lifetime_ms: Some(LIFETIME.as_millis() as u32), ..Interest::new(name, 0) }
}

fn is_metadata(name: &Name) -> bool {
    let mut components = name.components();
    components
        .any(|one| u32::from(one.kind()) == kind::KEYWORD && one.value() == METADATA.as_bytes())
}
