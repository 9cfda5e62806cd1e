//! What hosts tell each other of a service that one of them looks for and the other does not run.
//!
//! The body of a record of kind Service is one of
//!
//! ```text
//! 0  number (4)                 the sender runs no service of this number
//! 1  description                the service of the sender that the receiver does not run
//! 2  number (4)  description    what the sender runs under the name of that service
//! ```
//!
//! A description has a version (2) and three texts behind a length (2) each: kind, name and knobs.

use std::fmt;
use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use paceline_proto::core::{NodeId, ServiceNumber, Terms};
use thiserror::Error;

use crate::record::Refusal;

/// The longest text of a peer that is shown, characters.
const SHOWN_MAX: usize = 64;

/// A service, as hosts tell each other of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDescription {
    /// Its kind: `group`, `multicast`, ..
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What its hosts need alike.
    pub terms: Terms,
}

impl ServiceDescription {
    /// The number of the service.
    pub fn number(&self) -> ServiceNumber {
        ServiceNumber::of(&self.kind, &self.name).on(&self.terms)
    }

    /// How another service of this name differs; `None` if it does not.
    pub(crate) fn difference(&self, theirs: &ServiceDescription) -> Option<ServiceDifference> {
        if self.kind != theirs.kind {
            return Some(ServiceDifference::Kind { theirs: shown(&theirs.kind) });
        }
        let (ours, theirs) = (&self.terms, &theirs.terms);
        if ours.version != theirs.version {
            let (ours, theirs) = (ours.version, theirs.version);
            return Some(ServiceDifference::Version { ours, theirs });
        }
        let value = |terms: &Terms, knob: &str| {
            let known = terms.knobs.iter().find(|(name, _)| name == knob);
            known.map_or("none".to_owned(), |(_, value)| shown(value))
        };
        let mut knobs = ours.knobs.iter().chain(&theirs.knobs).map(|(knob, _)| knob);
        knobs.find_map(|knob| {
            let (ours, theirs) = (value(ours, knob), value(theirs, knob));
            (ours != theirs).then(|| ServiceDifference::Knob { knob: shown(knob), ours, theirs })
        })
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u16(self.terms.version);
        for text in [&self.kind, &self.name, &self.terms.knobs_line()] {
            // A text that is longer does not fit a datagram.
            out.put_u16(text.len().try_into().unwrap_or(u16::MAX));
            out.extend_from_slice(text.as_bytes());
        }
    }

    fn take(body: &mut Bytes) -> Option<ServiceDescription> {
        let version = body.try_get_u16().ok()?;
        let mut text = || {
            let bytes = usize::from(body.try_get_u16().ok()?);
            let text = (bytes <= body.len()).then(|| body.split_to(bytes))?;
            String::from_utf8(text.to_vec()).ok()
        };
        let (kind, name, knobs) = (text()?, text()?, text()?);
        Some(ServiceDescription { kind, name, terms: Terms::read(version, &knobs) })
    }
}

/// Kind and name: `group orders`.
impl fmt::Display for ServiceDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", shown(&self.kind), shown(&self.name))
    }
}

/// What a peer has written, in a form for logs and terminals.
fn shown(text: &str) -> String {
    text.escape_debug().take(SHOWN_MAX).collect()
}

/// How a service of a name differs at a peer from the one of this host. Hosts that differ so do not
/// hear each other.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ServiceDifference {
    /// It is of another kind.
    #[error("its kind is `{theirs}` there")]
    Kind {
        /// The kind at the peer.
        theirs: String,
    },
    /// Its messages have another version.
    #[error("the version of its messages is {theirs} there and {ours} here")]
    Version {
        /// The version at this host.
        ours: u16,
        /// The version at the peer.
        theirs: u16,
    },
    /// A knob that all its hosts need alike has another value.
    #[error("`{knob}` is {theirs} there and {ours} here")]
    Knob {
        /// The knob.
        knob: String,
        /// Its value at this host.
        ours: String,
        /// Its value at the peer.
        theirs: String,
    },
}

/// Why a service of this host and a peer do not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The peer runs no service of this kind and name.
    NotRun,
    /// It runs another one under this name.
    Differs(ServiceDifference),
}

/// A peer that answered, and does not run the same service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMismatch {
    /// The peer.
    pub node: NodeId,
    /// Where it is.
    pub address: SocketAddr,
    /// Why the service does not meet it.
    pub mismatch: Mismatch,
}

/// The body of a record of kind Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServiceNotice {
    /// The sender runs no service of this number.
    NotRun(ServiceNumber),
    /// The sender's service that the receiver does not run.
    Sought(ServiceDescription),
    /// What the sender runs under the name of the service of this number.
    Instead(ServiceNumber, ServiceDescription),
}

impl ServiceNotice {
    pub(crate) fn encode(&self) -> BytesMut {
        let mut out = BytesMut::new();
        match self {
            ServiceNotice::NotRun(number) => {
                out.put_u8(0);
                out.put_u32(number.0);
            }
            ServiceNotice::Sought(description) => {
                out.put_u8(1);
                description.put(&mut out);
            }
            ServiceNotice::Instead(number, description) => {
                out.put_u8(2);
                out.put_u32(number.0);
                description.put(&mut out);
            }
        }
        out
    }

    /// Reads exactly these bytes.
    pub(crate) fn decode(mut body: Bytes) -> Result<ServiceNotice, Refusal> {
        let notice = ServiceNotice::take(&mut body).ok_or(Refusal::Malformed)?;
        if body.is_empty() { Ok(notice) } else { Err(Refusal::Malformed) }
    }

    fn take(body: &mut Bytes) -> Option<ServiceNotice> {
        let number = |body: &mut Bytes| body.try_get_u32().ok().map(ServiceNumber);
        Some(match body.try_get_u8().ok()? {
            0 => ServiceNotice::NotRun(number(body)?),
            1 => ServiceNotice::Sought(ServiceDescription::take(body)?),
            2 => ServiceNotice::Instead(number(body)?, ServiceDescription::take(body)?),
            _ => return None,
        })
    }
}

/// The service of these that has the name of another one and differs from it, of the same kind
/// before others; with the difference.
pub(crate) fn namesake<'a>(
    services: impl Iterator<Item = &'a ServiceDescription>,
    other: &ServiceDescription,
) -> Option<(&'a ServiceDescription, ServiceDifference)> {
    let named = services.filter(|own| own.name == other.name);
    let own = named.min_by_key(|own| own.kind != other.kind)?;
    Some((own, own.difference(other)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(knobs: &[(&str, &str)]) -> ServiceDescription {
        let terms =
            knobs.iter().fold(Terms::default(), |terms, (knob, value)| terms.with(knob, value));
        ServiceDescription { kind: "group".to_owned(), name: "orders".to_owned(), terms }
    }

    #[test]
    fn notices_read_back_and_nothing_else_is_one() {
        let description = group(&[("window_bytes", "1MiB")]);
        let number = ServiceNumber(7);
        for notice in [
            ServiceNotice::NotRun(number),
            ServiceNotice::Sought(description.clone()),
            ServiceNotice::Instead(number, description),
        ] {
            let bytes = notice.encode().freeze();
            assert_eq!(ServiceNotice::decode(bytes.clone()), Ok(notice));
            for end in 0..bytes.len() {
                assert_eq!(
                    ServiceNotice::decode(bytes.slice(..end)),
                    Err(Refusal::Malformed),
                    "{end}"
                );
            }
            let longer = Bytes::from([&bytes[..], b"x"].concat());
            assert_eq!(ServiceNotice::decode(longer), Err(Refusal::Malformed));
        }
        assert_eq!(ServiceNotice::decode(Bytes::from_static(&[3])), Err(Refusal::Malformed));
        // A name that is not UTF-8.
        let mut bytes = ServiceNotice::Sought(group(&[])).encode();
        let at = bytes.len() - 3;
        bytes[at] = 0xff;
        assert_eq!(ServiceNotice::decode(bytes.freeze()), Err(Refusal::Malformed));
    }

    #[test]
    fn the_first_difference_is_named() {
        let ours = group(&[("a", "1"), ("b", "2")]);
        let knob = |knob: &str, ours: &str, theirs: &str| {
            let [knob, ours, theirs] = [knob, ours, theirs].map(str::to_owned);
            Some(ServiceDifference::Knob { knob, ours, theirs })
        };
        assert_eq!(ours.difference(&ours), None);
        assert_eq!(ours.difference(&group(&[("b", "2"), ("a", "1")])), None);
        assert_eq!(ours.difference(&group(&[("a", "1"), ("b", "3")])), knob("b", "2", "3"));
        assert_eq!(ours.difference(&group(&[("a", "1")])), knob("b", "2", "none"));
        assert_eq!(group(&[("a", "1")]).difference(&ours), knob("b", "none", "2"));
        let mut theirs = ours.clone();
        theirs.terms.version = 9;
        let version = ServiceDifference::Version { ours: 1, theirs: 9 };
        assert_eq!(ours.difference(&theirs), Some(version));
        theirs.kind = "walks\u{1b}[2J".to_owned();
        let kind = ServiceDifference::Kind { theirs: "walks\\u{1b}[2J".to_owned() };
        assert_eq!(ours.difference(&theirs), Some(kind));
    }

    #[test]
    fn a_service_of_the_same_kind_is_compared_before_others() {
        let mut walks = group(&[]);
        walks.kind = "walks".to_owned();
        let ours = [walks.clone(), group(&[("a", "1")])];
        let (own, difference) = namesake(ours.iter(), &group(&[("a", "2")])).expect("one differs");
        assert_eq!((own, difference.to_string()), (&ours[1], "`a` is 2 there and 1 here".into()));
        assert_eq!(namesake(ours.iter(), &ours[1]), None);
        let others = [walks];
        let (_, difference) = namesake(others.iter(), &ours[1]).expect("one differs");
        assert_eq!(difference.to_string(), "its kind is `group` there");
        let mut other = ours[1].clone();
        other.name = "other".to_owned();
        assert_eq!(namesake(ours.iter(), &other), None);
    }
}
