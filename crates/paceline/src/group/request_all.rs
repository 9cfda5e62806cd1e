//! Requests to all members of a view, until a quorum has replied.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::Member;
use paceline_proto::group::{Quorum, RequestFailure, SendFailure, Tally, Verdict};
use thiserror::Error;
use tokio::task::JoinSet;

use super::{Group, RequestError};

/// How long a request to all members may take.
const WITHIN: Duration = Duration::from_secs(10);

/// The outcome of a request to all at one member: its reply or a failure. `None` if the member had
/// not answered when the request ended.
pub type MemberOutcome = Option<Result<Bytes, RequestFailure>>;

/// The outcomes of a request to all members of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replies {
    outcomes: Vec<(Member, MemberOutcome)>,
}

impl Replies {
    /// The members of the view that was asked, oldest first, each with its outcome.
    pub fn outcomes(&self) -> &[(Member, MemberOutcome)] {
        &self.outcomes
    }

    /// The members that replied, oldest first, and their replies.
    pub fn iter(&self) -> impl Iterator<Item = (Member, &Bytes)> {
        self.outcomes.iter().filter_map(|(member, outcome)| match outcome {
            Some(Ok(reply)) => Some((*member, reply)),
            Some(Err(_)) | None => None,
        })
    }

    /// Why members did not reply, oldest first.
    pub fn failures(&self) -> impl Iterator<Item = (Member, RequestFailure)> {
        self.outcomes.iter().filter_map(|(member, outcome)| match outcome {
            Some(Err(failure)) => Some((*member, *failure)),
            Some(Ok(_)) | None => None,
        })
    }
}

/// `n2 replied, n3: the member left before it replied, n4 has not answered`.
impl fmt::Display for Replies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (member, outcome)) in self.outcomes.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            match outcome {
                Some(Ok(_)) => write!(f, "{comma}{} replied", member.node)?,
                Some(Err(failure)) => write!(f, "{comma}{}: {failure}", member.node)?,
                None => write!(f, "{comma}{} has not answered", member.node)?,
            }
        }
        Ok(())
    }
}

/// Why a request to all members did not get its quorum. Unless nothing was sent, members may have
/// handled it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RequestAllError {
    /// Too few members replied, and the others cannot make up for it.
    #[error("too few members replied, {needed} are needed: {replies}")]
    Missed {
        /// Replies that it takes.
        needed: usize,
        /// What each member answered.
        replies: Replies,
    },
    /// The quorum is larger than the view. Nothing was sent.
    #[error("{needed} replies are needed, and the view has {members} members")]
    TooFewMembers {
        /// Replies that it takes.
        needed: usize,
        /// Members of the view.
        members: usize,
    },
    /// It was not sent, or the host has stopped.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// A request that is sent when it is awaited; made by [`Group::request_all`].
#[must_use = "a request is sent when it is awaited"]
pub struct PreparedRequestAll {
    group: Group,
    payload: Bytes,
    quorum: Quorum,
    within: Duration,
}

impl PreparedRequestAll {
    /// How long it may take. Default 10 s.
    pub fn within(self, time: Duration) -> PreparedRequestAll {
        PreparedRequestAll { within: time, ..self }
    }

    async fn ask_all(self) -> Result<Replies, RequestAllError> {
        let PreparedRequestAll { group, payload, quorum, within } = self;
        group.checked_len(&payload).map_err(RequestError::from)?;
        let no_view = || RequestError::from(SendFailure::NotAMember);
        let view = group.view().ok_or_else(no_view)?;
        let mut tally = Tally::new(&view, quorum);
        let needed = tally.needed();
        if tally.verdict() == Verdict::Missed {
            return Err(RequestAllError::TooFewMembers { needed, members: view.len() });
        }
        // Requests that are not answered when this set is dropped are cancelled.
        let mut asked = JoinSet::new();
        for &member in view.members() {
            let (group, payload) = (group.clone(), payload.clone());
            asked.spawn(async move { (member, group.ask(member, payload, within).await) });
        }
        while tally.verdict() == Verdict::Open {
            let Some(Ok((member, outcome))) = asked.join_next().await else { break };
            match outcome {
                Ok(reply) => tally.note(member, Ok(reply)),
                // It was in the view that is asked.
                Err(RequestError::Failed(RequestFailure::NotSent(SendFailure::NotInView))) => {
                    tally.note(member, Err(RequestFailure::Departed));
                }
                Err(RequestError::Failed(failure)) => tally.note(member, Err(failure)),
                Err(RequestError::Closed) => return Err(RequestError::Closed.into()),
            }
        }
        let is_met = tally.verdict() == Verdict::Met;
        let replies = Replies { outcomes: tally.into_outcomes() };
        if is_met { Ok(replies) } else { Err(RequestAllError::Missed { needed, replies }) }
    }
}

impl IntoFuture for PreparedRequestAll {
    type Output = Result<Replies, RequestAllError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask_all())
    }
}

impl Group {
    /// Sends a request to each member of the latest view that the events reported, this one
    /// included, and waits until the quorum has replied, or too few members are left that may still
    /// reply. Each member receives it as after [`Group::request`]; that member's bounds, its order
    /// and its time hold for each. What is not answered when it is over is cancelled. Members that
    /// join later are not asked.
    ///
    /// The application must read the [`Events`](crate::Events) meanwhile, and answer the request of
    /// this member to itself if its reply is to count.
    ///
    /// # Errors
    /// When it is awaited. If the quorum is missed, with the outcome of each member; if the view
    /// has fewer members than the quorum takes; if it cannot be sent; if the host has stopped.
    pub fn request_all(&self, payload: impl Into<Bytes>, quorum: Quorum) -> PreparedRequestAll {
        let (group, payload) = (self.clone(), payload.into());
        PreparedRequestAll { group, payload, quorum, within: WITHIN }
    }
}
