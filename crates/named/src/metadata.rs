//! Metadata of a file.

use bytes::Bytes;
use paceline_proto::core::DecodeError;
use paceline_proto::ndn::Name;
use paceline_proto::ndn::tlv::{self, Reader, kind};
use thiserror::Error;

/// Type numbers. Those from 0xF500 on are ndn6-file-server's; the last is ours, and even, so that
/// others skip it.
mod field {
    pub const SEGMENT_BYTES: u32 = 0xf500;
    pub const BYTES: u32 = 0xf502;
    pub const MODIFIED: u32 = 0xf50c;
    pub const DIGEST: u32 = 0xf580;
}

/// The SHA-256 of a whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Digest {
    /// The metadata has no digest.
    #[default]
    Unknown,
    /// The producer is computing it: ask again.
    Pending,
    /// This.
    Known([u8; 32]),
}

/// The metadata of a file's present version.
///
/// Other producers give only the name (Realtime Data Retrieval), or the name and the sizes
/// (ndn6-file-server); the digest is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMetadata {
    /// The name of the version; segment numbers follow it.
    pub name: Name,
    /// The number of the last segment.
    pub final_segment: Option<u64>,
    /// Bytes of content of each segment but the last.
    pub segment_bytes: Option<u64>,
    /// Bytes of the file.
    pub bytes: Option<u64>,
    /// When it was changed last, nanoseconds since 1970.
    pub modified_nanos: Option<u64>,
    /// The digest of its content.
    pub digest: Digest,
}

/// Why metadata is invalid. The producer is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MetadataError {
    /// It cannot be read.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The sizes and the number of segments do not fit each other.
    #[error("its sizes are inconsistent")]
    Sizes,
    /// It is of another file.
    #[error("it belongs to another name")]
    Name,
}

impl FileMetadata {
    /// Encodes it as the content of a Data.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.name.write_element(&mut out);
        if let Some(last) = self.final_segment {
            tlv::put_head(
                &mut out,
                kind::FINAL_BLOCK_ID,
                tlv::integer_element_len(kind::SEGMENT, last),
            );
            tlv::put_integer_element(&mut out, kind::SEGMENT, last);
        }
        let numbers = [
            (field::SEGMENT_BYTES, self.segment_bytes),
            (field::BYTES, self.bytes),
            (field::MODIFIED, self.modified_nanos),
        ];
        for (kind, number) in numbers {
            if let Some(number) = number {
                tlv::put_integer_element(&mut out, kind, number);
            }
        }
        match &self.digest {
            Digest::Unknown => {}
            Digest::Pending => tlv::put_element(&mut out, field::DIGEST, &[]),
            Digest::Known(digest) => tlv::put_element(&mut out, field::DIGEST, digest),
        }
        out
    }

    /// Reads the content of a Data.
    ///
    /// # Errors
    /// If there is no name, a field is invalid, or the sizes do not fit each other.
    pub fn decode(bytes: &Bytes) -> Result<FileMetadata, MetadataError> {
        let mut reader = Reader::new(bytes);
        let name = match reader.element()? {
            Some(name) if name.kind == kind::NAME => Name::read(bytes, &name)?.detached(),
            _ => return Err(DecodeError::Missing("name").into()),
        };
        let mut metadata = FileMetadata {
            name,
            final_segment: None,
            segment_bytes: None,
            bytes: None,
            modified_nanos: None,
            digest: Digest::Unknown,
        };
        while let Some(element) = reader.element()? {
            let number = |name| tlv::integer_field(name, element.value).map(Some);
            match element.kind {
                kind::FINAL_BLOCK_ID => {
                    let last = Reader::within(&element).element()?;
                    let last = last.filter(|component| component.kind == kind::SEGMENT);
                    metadata.final_segment = last.and_then(|last| tlv::integer(last.value));
                }
                field::SEGMENT_BYTES => metadata.segment_bytes = number("SegmentSize")?,
                field::BYTES => metadata.bytes = number("Size")?,
                field::MODIFIED => metadata.modified_nanos = number("mtime")?,
                field::DIGEST => {
                    metadata.digest = match element.value.try_into() {
                        Ok(digest) => Digest::Known(digest),
                        Err(_) => Digest::Pending,
                    };
                }
                _ => {}
            }
        }
        metadata.check()?;
        Ok(metadata)
    }

    fn check(&self) -> Result<(), MetadataError> {
        if self.segment_bytes == Some(0) {
            return Err(MetadataError::Sizes);
        }
        if let (Some(segment_bytes), Some(bytes)) = (self.segment_bytes, self.bytes) {
            let last = segments(bytes, segment_bytes) - 1;
            if self.final_segment.is_some_and(|said| said != last) {
                return Err(MetadataError::Sizes);
            }
        }
        Ok(())
    }

    /// How many segments the file has, if the metadata gives it.
    pub fn segments(&self) -> Option<u64> {
        match (self.segment_bytes, self.bytes) {
            (Some(segment_bytes), Some(bytes)) => Some(segments(bytes, segment_bytes)),
            _ => self.final_segment.and_then(|last| last.checked_add(1)),
        }
    }
}

/// How many segments a file of `bytes` bytes has: one, if it is empty.
pub fn segments(bytes: u64, segment_bytes: u64) -> u64 {
    bytes.div_ceil(segment_bytes).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> FileMetadata {
        FileMetadata {
            name: "/p/file/v=1700000000000000000".parse().unwrap(),
            final_segment: Some(2),
            segment_bytes: Some(1_000),
            bytes: Some(2_001),
            modified_nanos: Some(1_700_000_000_000_000_000),
            digest: Digest::Known([7; 32]),
        }
    }

    fn decoded(metadata: &FileMetadata) -> Result<FileMetadata, MetadataError> {
        FileMetadata::decode(&Bytes::from(metadata.encode()))
    }

    #[test]
    fn what_is_said_comes_back_whole_or_in_part() {
        let whole = metadata();
        assert_eq!(decoded(&whole), Ok(whole.clone()));
        assert_eq!(whole.segments(), Some(3));
        let pending = FileMetadata { digest: Digest::Pending, ..whole.clone() };
        assert_eq!(decoded(&pending), Ok(pending.clone()));
        // Only the fields that Realtime Data Retrieval requires.
        let mut bytes = Vec::new();
        whole.name.write_element(&mut bytes);
        let plain = FileMetadata::decode(&bytes.into()).unwrap();
        assert_eq!(
            (&plain.name, plain.segments(), plain.digest),
            (&whole.name, None, Digest::Unknown)
        );
    }

    #[test]
    fn metadata_that_contradicts_itself_or_is_cut_short_is_refused() {
        for (last, segment_bytes, bytes) in [(3, 1_000, 2_001), (2, 0, 2_001), (2, 1_000, 3_001)] {
            let wrong = FileMetadata {
                final_segment: Some(last),
                segment_bytes: Some(segment_bytes),
                bytes: Some(bytes),
                ..metadata()
            };
            assert_eq!(
                decoded(&wrong),
                Err(MetadataError::Sizes),
                "{last} {segment_bytes} {bytes}"
            );
        }
        let whole = metadata().encode();
        let name = metadata().name.element_len();
        for end in (0..name).chain(name + 1..name + 5) {
            assert!(FileMetadata::decode(&Bytes::copy_from_slice(&whole[..end])).is_err(), "{end}");
        }
    }

    #[test]
    fn an_empty_file_has_one_segment() {
        assert_eq!([0, 1, 1_000, 1_001].map(|bytes| segments(bytes, 1_000)), [1, 1, 1, 2]);
    }
}
