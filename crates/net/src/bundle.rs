//! Several messages to one node in one datagram.
//!
//! Messages that a turn of the driver sends to one node share a datagram, whatever their services
//! are: the first leaves as a record of its own unless a second one joins it. None waits for that:
//! the turn ends with the datagrams handed to the kernel. A message in a bundle costs 6 bytes
//! instead of 60 for the headers of record, UDP and IPv4.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::record::{HEADER_BYTES, Header, Kind, Refusal, ServiceNumber};

/// The number of the service and the length, which precede each message.
const ENTRY_BYTES: usize = 6;

/// Number of bytes by which this record grows if a message of `bytes` bytes joins it; `None` if it
/// takes none.
pub(crate) fn growth(record: &[u8], bytes: usize) -> Option<usize> {
    let head = match Header::kind_of(record)? {
        Kind::Message => ENTRY_BYTES,
        Kind::Bundle => 0,
        Kind::Hello | Kind::Who | Kind::Taken | Kind::Group | Kind::Service => return None,
    };
    let is_short = |bytes: usize| u16::try_from(bytes).is_ok();
    let fits = is_short(bytes) && is_short(record.len() - HEADER_BYTES);
    fits.then_some(head + ENTRY_BYTES + bytes)
}

/// Adds a message, which `write` appends, to the record that begins at `from`, at the end of `out`.
/// A record of a message becomes a bundle first.
pub(crate) fn add(
    out: &mut BytesMut,
    from: usize,
    (service, bytes): (ServiceNumber, usize),
    write: impl FnOnce(&mut BytesMut),
) {
    let body = from + HEADER_BYTES;
    if Header::kind_of(&out[from..]) == Some(Kind::Message) {
        let first_bytes = out.len() - body;
        out.put_bytes(0, ENTRY_BYTES);
        out.copy_within(body..body + first_bytes, body + ENTRY_BYTES);
        let first = Header::make_bundle(&mut out[from..]);
        out[body..body + ENTRY_BYTES].copy_from_slice(&entry(first, first_bytes));
    }
    out.put_slice(&entry(service, bytes));
    write(out);
}

fn entry(service: ServiceNumber, bytes: usize) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..4].copy_from_slice(&service.0.to_be_bytes());
    entry[4..].copy_from_slice(&(bytes as u16).to_be_bytes());
    entry
}

/// The messages of a bundle, in order. Ends with an error where the bytes are not a bundle.
pub(crate) struct Entries {
    body: Bytes,
}

impl Entries {
    /// Those of the record with this body.
    pub(crate) fn of(body: Bytes) -> Entries {
        Entries { body }
    }
}

impl Iterator for Entries {
    type Item = Result<(ServiceNumber, Bytes), Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.body.is_empty() {
            return None;
        }
        if self.body.len() >= ENTRY_BYTES {
            let service = ServiceNumber(self.body.get_u32());
            let bytes = usize::from(self.body.get_u16());
            if bytes <= self.body.len() {
                return Some(Ok((service, self.body.split_to(bytes))));
            }
        }
        self.body.clear();
        Some(Err(Refusal::Malformed))
    }
}

#[cfg(test)]
mod tests {
    use paceline_proto::core::NodeId;

    use super::*;
    use crate::record::ClusterTag;

    fn record(kind: Kind, service: u32, body: &[u8]) -> BytesMut {
        let header = Header {
            kind,
            epoch: 0,
            service: ServiceNumber(service),
            cluster: ClusterTag(1),
            sender: NodeId(2),
            session: 3,
            sequence: 4,
        };
        let mut record = BytesMut::from(&header.encode()[..]);
        record.extend_from_slice(body);
        record
    }

    fn added(messages: &[(u32, &[u8])]) -> BytesMut {
        let mut out = BytesMut::from(&b"another datagram"[..]);
        let from = out.len();
        out.extend_from_slice(&record(Kind::Message, messages[0].0, messages[0].1));
        for &(service, message) in &messages[1..] {
            let more = growth(&out[from..], message.len()).expect("it takes some");
            let before = out.len();
            add(&mut out, from, (ServiceNumber(service), message.len()), |out| {
                out.extend_from_slice(message);
            });
            assert_eq!(out.len() - before, more);
        }
        assert_eq!(out.split_to(from), "another datagram");
        out
    }

    #[test]
    fn messages_of_any_length_and_service_come_out_as_they_went_in() {
        let long = vec![9; 5000];
        let messages: [(u32, &[u8]); 5] =
            [(7, b"first"), (8, b""), (0, b"host"), (7, &long), (8, b"x")];
        for several in 2..=messages.len() {
            let mut record = added(&messages[..several]).freeze();
            let header = Header::decode(&mut record, ClusterTag(1)).expect("a header");
            assert_eq!((header.kind, header.service), (Kind::Bundle, ServiceNumber::NODE));
            assert_eq!((header.sender, header.session, header.sequence), (NodeId(2), 3, 4));
            let entries: Vec<_> = Entries::of(record).map(Result::unwrap).collect();
            let read = entries.iter().map(|(service, message)| (service.0, &message[..]));
            assert!(read.eq(messages[..several].iter().copied()), "{several}");
        }
    }

    #[test]
    fn a_bundle_has_the_bytes_that_the_format_names() {
        let record = added(&[(0x0102_0304, b"ab"), (5, b"c")]);
        assert_eq!(&record[..8], [0x83, 6, 0, 0, 0, 0, 0, 0]);
        let entries = [&[1, 2, 3, 4, 0, 2][..], b"ab", &[0, 0, 0, 5, 0, 1], b"c"].concat();
        assert_eq!(&record[HEADER_BYTES..], entries);
    }

    #[test]
    fn nothing_joins_what_is_not_a_message_or_too_long() {
        for kind in [Kind::Hello, Kind::Who, Kind::Taken, Kind::Group] {
            assert_eq!(growth(&record(kind, 0, b"body"), 1), None, "{kind:?}");
        }
        assert_eq!(growth(b"", 1), None);
        let message = |bytes: usize| record(Kind::Message, 1, &vec![0; bytes]);
        assert_eq!(growth(&message(65_535), 65_535), Some(12 + 65_535));
        assert_eq!(growth(&message(65_536), 1), None);
        assert_eq!(growth(&message(1), 65_536), None);
    }

    #[test]
    fn a_bundle_that_is_cut_anywhere_gives_what_is_whole_and_then_an_error() {
        let record = added(&[(1, b"abc"), (2, b""), (3, b"de")]).freeze();
        let body = record.slice(HEADER_BYTES..);
        // Where each message ends.
        let ends = [9, 15, 23];
        assert_eq!(body.len(), 23);
        for cut in 0..=body.len() {
            let read: Vec<_> = Entries::of(body.slice(..cut)).collect();
            let whole = ends.iter().filter(|&&end| end <= cut).count();
            assert_eq!(read.iter().filter(|entry| entry.is_ok()).count(), whole, "{cut}");
            let is_whole = cut == 0 || ends.contains(&cut);
            assert_eq!(read.len(), whole + usize::from(!is_whole), "{cut}");
        }
    }
}
