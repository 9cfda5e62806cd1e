//! The record header that frames all messages on the wire, and the sender's session.
//!
//! ```text
//! 0  version (1)  kind (1)  epoch (2)     4  service (4)
//! 8  cluster tag (4)                     12  session (4)
//! 16 sender (8)                          24  sequence (8)
//! 32 body
//! ```
//!
//! Integers are big-endian. On a stream a `u32` length of header and body precedes each record; a
//! datagram is one record. In plaintext the epoch is 0 and no tag follows the body. Where nodes
//! seal, the epoch is the generation of the key, and a tag (16) follows the body of a message,
//! which is encrypted (`docs/SECURITY.md`).
//!
//! In an open membership a node that repeats a nonce gets a *verification tag* (4) in return, a
//! secret between the two nodes, as in SCTP (RFC 9260, section 8.5). Messages to that one node, and
//! the Hello that opens a stream to it, carry the session's tag XOR this tag, which proves that
//! their sender receives at the peer's address. Messages to a multicast address carry the session's
//! tag alone.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut};
pub use paceline_proto::core::ServiceNumber;
use paceline_proto::core::{CounterId, NodeId, hash_prefix};
use paceline_seal::Number;
use rand::TryRng;
use rand::rngs::{SysError, SysRng};

use crate::counters;
use crate::nonces::{NONCE_BYTES, TAG_BYTES};

/// Length of the header in bytes.
pub const HEADER_BYTES: usize = 32;
/// Where the service number begins in the header.
const SERVICE_AT: usize = 4;
/// Where the epoch begins in the header.
const EPOCH_AT: usize = 2;
/// Where the session's tag begins in the header.
const SESSION_AT: usize = 12;
/// Where the sequence number begins in the header.
const SEQUENCE_AT: usize = 24;
/// Length of the length that precedes a record on a stream, in bytes.
pub const LENGTH_BYTES: usize = 4;
/// Length of a session in bytes: the body of a Hello.
pub const SESSION_BYTES: usize = 16;
/// Length of the group's number that precedes a message to a group, in bytes.
pub const GROUP_BYTES: usize = 4;
/// First byte of every record: version 3, top bit set, so that no text protocol starts like it.
pub const VERSION: u8 = 0x83;

/// What a record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the protocol.
    Message,
    /// The sender's full session (16). First on each stream, in both directions. By datagram, if
    /// the Who that it answers had a nonce, that one (8) and a verification tag (4) follow.
    Hello,
    /// Asks the receiver for a Hello, because a datagram of its came under an unknown session. If
    /// there is a nonce (8) the Hello must repeat it: proof that the receiver is at this address.
    Who,
    /// Tells the receiver that it is refused: another node has its id and is heard from (body: a
    /// byte 0), or a later start of its id is known (1). The nonce (8) of the Hello that it answers
    /// follows.
    Taken,
    /// A message of the protocol to a group: its number (4), then the message. Only by datagram.
    Group,
    /// Several messages to the receiver, each behind the number of its service (4) and its length
    /// (2). Only by datagram.
    Bundle,
    /// What the sender says of a service that one of the two looks for and the other does not run
    /// ([`ServiceDescription`](crate::ServiceDescription)). Only by datagram.
    Service,
}

impl Kind {
    fn tag(self) -> u8 {
        match self {
            Kind::Message => 1,
            Kind::Hello => 2,
            Kind::Who => 3,
            Kind::Taken => 4,
            Kind::Group => 5,
            Kind::Bundle => 6,
            Kind::Service => 7,
        }
    }

    fn from_tag(tag: u8) -> Option<Kind> {
        match tag {
            1 => Some(Kind::Message),
            2 => Some(Kind::Hello),
            3 => Some(Kind::Who),
            4 => Some(Kind::Taken),
            5 => Some(Kind::Group),
            6 => Some(Kind::Bundle),
            7 => Some(Kind::Service),
            _ => None,
        }
    }

    /// The service number in a record of this kind that a node sends for a service.
    pub fn number(self, service: ServiceNumber) -> ServiceNumber {
        match self {
            Kind::Message | Kind::Group => service,
            Kind::Hello | Kind::Who | Kind::Taken | Kind::Bundle | Kind::Service => {
                ServiceNumber::NODE
            }
        }
    }
}

/// The first four bytes of the hash of a cluster's name, behind the public key of its authority if
/// it has one: keeps clusters apart that share a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterTag(pub u32);

impl ClusterTag {
    /// The tag of the cluster called `name`.
    pub fn of(name: &str) -> ClusterTag {
        ClusterTag(hash_prefix(name.as_bytes()))
    }

    /// The tag of the cluster called `name` whose hosts this key certifies.
    pub fn of_sealed(name: &str, authority: &[u8; 32]) -> ClusterTag {
        ClusterTag(hash_prefix(&[&authority[..], name.as_bytes()].concat()))
    }
}

/// One run of one member: start time in milliseconds since 1970, then eight random bytes.
///
/// Sessions of a member are ordered by their bytes, so by start time first. The newest one wins and
/// older ones are refused for ever; a member whose clock was set back across a restart stays
/// refused until its clock has caught up. A start more than [`AHEAD_MAX`] in the future is refused,
/// so that a forged or mistaken one cannot lock a member out for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session([u8; SESSION_BYTES]);

/// How far a member's clock may be ahead of this node's.
pub const AHEAD_MAX: Duration = Duration::from_secs(5 * 60);

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

impl Session {
    /// A session that starts now.
    ///
    /// # Errors
    /// If the operating system gives no random bytes.
    pub fn start() -> Result<Session, SysError> {
        // Zero is kept for "incarnation not known".
        let random = SysRng.try_next_u64()?.max(1);
        Ok(Session::new(since_1970().as_millis() as u64, random))
    }

    /// The session that started `start_ms` milliseconds after 1970 with these random bits.
    pub fn new(start_ms: u64, incarnation: u64) -> Session {
        let mut bytes = [0; SESSION_BYTES];
        bytes[..8].copy_from_slice(&start_ms.to_be_bytes());
        bytes[8..].copy_from_slice(&incarnation.to_be_bytes());
        Session(bytes)
    }

    /// Reads a session in its wire form.
    pub fn from_body(body: &[u8]) -> Option<Session> {
        let session = Session(body.try_into().ok()?);
        (session.incarnation() != 0).then_some(session)
    }

    /// The session that a Hello announces; its header must carry the tag of this session.
    ///
    /// # Errors
    /// If it is not a Hello, or a malformed one.
    pub(crate) fn announced(header: &Header, body: &[u8]) -> Result<Session, Refusal> {
        let (session, echo) = body.split_at_checked(SESSION_BYTES).ok_or(Refusal::Malformed)?;
        let session = Session::from_body(session).ok_or(Refusal::Malformed)?;
        if !echo.is_empty() && echo.len() != NONCE_BYTES + TAG_BYTES {
            return Err(Refusal::Malformed);
        }
        if header.kind != Kind::Hello || session.tag() != header.session {
            return Err(Refusal::Malformed);
        }
        session.check_start()?;
        Ok(session)
    }

    /// Checks that it does not start later than a member's clock may be ahead.
    pub(crate) fn check_start(&self) -> Result<(), Refusal> {
        match self.is_ahead_of(since_1970()) {
            true => Err(Refusal::FutureSession),
            false => Ok(()),
        }
    }

    /// True if it starts later after 1970 than a member's clock may be at `now`.
    fn is_ahead_of(&self, now: Duration) -> bool {
        let start_ms = u64::from_be_bytes(self.0[..8].try_into().expect("eight bytes"));
        u128::from(start_ms) > (now + AHEAD_MAX).as_millis()
    }

    /// The body of a Hello.
    pub fn as_bytes(&self) -> &[u8; SESSION_BYTES] {
        &self.0
    }

    /// The random half, by which protocols identify a member's run. Never 0.
    pub fn incarnation(&self) -> u64 {
        u64::from_be_bytes(self.0[8..].try_into().expect("eight bytes"))
    }

    /// The tag in headers: the first four bytes of the session's BLAKE3 hash.
    pub fn tag(&self) -> u32 {
        hash_prefix(&self.0)
    }
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record carries.
    pub kind: Kind,
    /// The generation of the key that seals the record; 0 in plaintext.
    pub epoch: u16,
    /// The sender's service.
    pub service: ServiceNumber,
    /// The sender's cluster.
    pub cluster: ClusterTag,
    /// The sender.
    pub sender: NodeId,
    /// [`Session::tag`] of the sender, XOR the verification tag where there is one.
    pub session: u32,
    /// On a stream the number of records before this one; on datagrams the sender's count.
    pub sequence: u64,
}

impl Header {
    /// The header in its wire form.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut out = &mut bytes[..];
        out.put_u8(VERSION);
        out.put_u8(self.kind.tag());
        out.put_u16(self.epoch);
        out.put_u32(self.service.0);
        out.put_u32(self.cluster.0);
        out.put_u32(self.session);
        out.put_u64(self.sender.0);
        out.put_u64(self.sequence);
        bytes
    }

    /// The kind of the record that begins so; `None` if it is not a record.
    pub(crate) fn kind_of(record: &[u8]) -> Option<Kind> {
        Kind::from_tag(*record.get(1)?)
    }

    /// Turns the header at the front of a message's record into that of a bundle; returns the
    /// message's service.
    pub(crate) fn make_bundle(record: &mut [u8]) -> ServiceNumber {
        record[1] = Kind::Bundle.tag();
        let service = record[SERVICE_AT..].first_chunk_mut().expect("a header is longer");
        ServiceNumber(u32::from_be_bytes(std::mem::take(service)))
    }

    /// Writes this header's session into a record, in place of what stands there.
    pub(crate) fn write_session(&self, record: &mut [u8]) {
        Header::write_session_tag(record, self.session);
    }

    /// The session's tag in this record.
    pub(crate) fn session_of(record: &[u8]) -> u32 {
        let tag = record[SESSION_AT..].first_chunk().expect("a header is longer");
        u32::from_be_bytes(*tag)
    }

    /// Writes a session's tag into a record, in place of what stands there.
    pub(crate) fn write_session_tag(record: &mut [u8], tag: u32) {
        record[SESSION_AT..SESSION_AT + 4].copy_from_slice(&tag.to_be_bytes());
    }

    /// Writes the number under which a record is sealed into it, in place of what stands there.
    pub(crate) fn write_number(record: &mut [u8], number: Number) {
        record[EPOCH_AT..EPOCH_AT + 2].copy_from_slice(&number.generation.to_be_bytes());
        record[SEQUENCE_AT..SEQUENCE_AT + 8].copy_from_slice(&number.sequence.to_be_bytes());
    }

    /// The number under which the record is sealed.
    pub(crate) fn number(&self) -> Number {
        Number { generation: self.epoch, sequence: self.sequence }
    }

    /// Splits a header off the front of a record and checks the version and the cluster. Whether
    /// the node runs the service and knows the epoch is left to the caller.
    pub fn decode<B>(record: &mut B, cluster: ClusterTag) -> Result<Header, Refusal>
    where
        B: Buf + Deref<Target = [u8]>,
    {
        if record.first().is_some_and(|&version| version != VERSION) {
            return Err(Refusal::ForeignVersion);
        }
        if record.len() < HEADER_BYTES {
            return Err(Refusal::Malformed);
        }
        let mut bytes = &record[1..HEADER_BYTES];
        let (kind, epoch) = (bytes.get_u8(), bytes.get_u16());
        let service = ServiceNumber(bytes.get_u32());
        if bytes.get_u32() != cluster.0 {
            return Err(Refusal::ForeignCluster);
        }
        let kind = Kind::from_tag(kind).ok_or(Refusal::Malformed)?;
        let session = bytes.get_u32();
        let header = Header {
            kind,
            epoch,
            service,
            cluster,
            sender: NodeId(bytes.get_u64()),
            session,
            sequence: bytes.get_u64(),
        };
        record.advance(HEADER_BYTES);
        Ok(header)
    }
}

/// Why a record was not accepted. Each has a counter of its own; a stream is closed as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has another version, or is not a record at all.
    ForeignVersion,
    /// It belongs to another cluster.
    ForeignCluster,
    /// It belongs to a key epoch that this node does not know.
    ForeignEpoch,
    /// It belongs to a service that this node does not run.
    UnknownService,
    /// Its sender is not in the roster.
    UnknownSender,
    /// It is too short, its kind is unknown, or it is not allowed here.
    Malformed,
    /// It is longer than `record_bytes_max`.
    Oversized,
    /// The protocol cannot decode its body.
    Undecodable,
    /// Its sender has not announced the session, or does not know the verification tag.
    UnknownSession,
    /// Its sender has since restarted.
    OldSession,
    /// It announces a session whose start is too far in the future.
    FutureSession,
    /// A stream skipped or repeated a record.
    OutOfSequence,
    /// Another member answers at the address that the roster gives for the one dialled.
    WrongMember,
    /// A node with the same id answers at another address.
    IdInUse,
    /// It was received before, or is too old to tell.
    Replayed,
    /// Its tag does not fit: it was not sealed by the peer.
    Forged,
}

impl Refusal {
    /// All refusals.
    pub const ALL: [Refusal; 16] = [
        Refusal::ForeignVersion,
        Refusal::ForeignCluster,
        Refusal::ForeignEpoch,
        Refusal::UnknownService,
        Refusal::UnknownSender,
        Refusal::Malformed,
        Refusal::Oversized,
        Refusal::Undecodable,
        Refusal::UnknownSession,
        Refusal::OldSession,
        Refusal::FutureSession,
        Refusal::OutOfSequence,
        Refusal::WrongMember,
        Refusal::IdInUse,
        Refusal::Replayed,
        Refusal::Forged,
    ];

    /// The name of its counter.
    pub const fn counter(self) -> CounterId {
        match self {
            Refusal::ForeignVersion => counters::RECORD_FOREIGN_VERSION,
            Refusal::ForeignCluster => counters::RECORD_FOREIGN_CLUSTER,
            Refusal::ForeignEpoch => counters::RECORD_FOREIGN_EPOCH,
            Refusal::UnknownService => counters::RECORD_UNKNOWN_SERVICE,
            Refusal::UnknownSender => counters::RECORD_UNKNOWN_SENDER,
            Refusal::Malformed => counters::RECORD_MALFORMED,
            Refusal::Oversized => counters::RECORD_OVERSIZED,
            Refusal::Undecodable => counters::RECORD_UNDECODABLE,
            Refusal::UnknownSession => counters::RECORD_UNKNOWN_SESSION,
            Refusal::OldSession => counters::RECORD_OLD_SESSION,
            Refusal::FutureSession => counters::RECORD_FUTURE_SESSION,
            Refusal::OutOfSequence => counters::RECORD_OUT_OF_SEQUENCE,
            Refusal::WrongMember => counters::RECORD_WRONG_MEMBER,
            Refusal::IdInUse => counters::RECORD_ID_IN_USE,
            Refusal::Replayed => counters::RECORD_REPLAYED,
            Refusal::Forged => counters::RECORD_FORGED,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn golden() -> Header {
        Header {
            kind: Kind::Message,
            epoch: 0,
            service: ServiceNumber::of("group", "chat"),
            cluster: ClusterTag::of("paceline"),
            sender: NodeId(0x3132_3334_0000_0007),
            session: Session::new(0x0102_0304_0506_0708, 0x1112_1314_1516_1718).tag(),
            sequence: 0x2122_2324_2526_2728,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_header_has_the_bytes_it_always_had() {
        assert_eq!(
            hex(&golden().encode()),
            "8301000068481c2d94b2c88e104e93b531323334000000072122232425262728"
        );
    }

    #[test]
    fn a_header_reads_back_and_leaves_the_body() {
        let mut record = Bytes::from([&golden().encode()[..], b"body"].concat());
        let read = Header::decode(&mut record, golden().cluster);
        assert_eq!(read, Ok(golden()));
        assert_eq!(&record[..], b"body");
    }

    #[test]
    fn each_fault_of_a_header_has_its_refusal() {
        let with = |place: usize, value: u8| {
            let mut bytes = golden().encode();
            bytes[place] = value;
            Header::decode(&mut Bytes::copy_from_slice(&bytes), golden().cluster)
        };
        assert_eq!(with(0, 0x82), Err(Refusal::ForeignVersion));
        assert_eq!(with(0, b'G'), Err(Refusal::ForeignVersion));
        assert_eq!(with(1, 9), Err(Refusal::Malformed));
        assert_eq!(with(3, 1).map(|header| header.epoch), Ok(1));
        assert_eq!(with(8, 0), Err(Refusal::ForeignCluster));
        assert_eq!(with(4, 0).map(|header| header.service.0), Ok(0x0048_1c2d));
        let mut short = Bytes::copy_from_slice(&golden().encode()[..31]);
        assert_eq!(Header::decode(&mut short, golden().cluster), Err(Refusal::Malformed));
    }

    #[test]
    fn any_value_of_any_part_of_a_header_is_refused_for_that_or_read_back() {
        let (cluster, right) = (golden().cluster, golden().encode());
        let read = |bytes: &[u8; HEADER_BYTES]| {
            Header::decode(&mut Bytes::copy_from_slice(bytes), cluster)
        };
        // Version and kind together, the epoch, each half of service and cluster: all there are.
        for (place, value) in [0, 2, 4, 6, 8, 10]
            .into_iter()
            .flat_map(|place| (0..=u16::MAX).map(move |v| (place, v)))
        {
            let mut bytes = right;
            bytes[place..place + 2].copy_from_slice(&value.to_be_bytes());
            let is_right = bytes == right;
            let refusal = match place {
                0 if bytes[0] != VERSION => Some(Refusal::ForeignVersion),
                0 if !(1..=7).contains(&bytes[1]) => Some(Refusal::Malformed),
                8 | 10 if !is_right => Some(Refusal::ForeignCluster),
                _ => None,
            };
            match (read(&bytes), refusal) {
                (Ok(header), None) => assert_eq!(header.encode(), bytes),
                (read, refusal) => assert_eq!(read.err(), refusal, "{}", hex(&bytes)),
            }
        }
        // What else there is may be anything.
        for (place, value) in (12..HEADER_BYTES).flat_map(|at| (0..=u8::MAX).map(move |v| (at, v)))
        {
            let mut bytes = right;
            bytes[place] = value;
            assert_eq!(read(&bytes).map(|header| header.encode()), Ok(bytes));
        }
    }

    #[test]
    fn a_later_start_is_a_newer_session_whatever_the_random_bytes() {
        assert!(Session::new(2, 1) > Session::new(1, u64::MAX));
        assert_eq!(Session::new(2, 9).incarnation(), 9);
        assert_eq!(Session::from_body(&[0; 16]), None);
        assert_eq!(Session::from_body(&[1; 15]), None);
    }

    #[test]
    fn every_refusal_has_a_counter_of_its_own() {
        let mut names = Refusal::ALL.map(|refusal| refusal.counter().name()).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Refusal::ALL.len());
    }
}
