use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use super::name::Name;
use super::signature::{SignatureType, Signer, Trust, VerifyError};
use super::tlv::{self, Element, Reader, kind};
use crate::core::{DecodeError, Payload};

/// Named content. A clone shares it.
///
/// Data that came from the network is kept, and passed on, as its original bytes. Data made here
/// without a signature is kept as its parts, which are encoded when it is sent.
///
/// Source: NDN packet format 0.3, "Data packet".
#[derive(Clone)]
pub struct Data(Arc<Whole>);

struct Whole {
    name: Name,
    meta: Meta,
    signature_type: SignatureType,
    encoded_len: usize,
    form: Form,
}

enum Form {
    /// As bytes: those of the whole element, and where its parts are.
    Wire { whole: Payload, content: Range<usize>, signed: Range<usize>, value: Range<usize> },
    /// As parts, with a signature of none.
    Parts { content: Payload, value_len: usize },
}

/// The MetaInfo of Data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// What kind of content; none is the same as 0, a blob, but not written.
    pub content_type: Option<u64>,
    /// How long it is fresh after it arrived in a content store, ms. None: not at all.
    pub freshness_ms: Option<u32>,
    /// The number of the object's last segment.
    pub final_segment: Option<u64>,
}

/// SignatureInfo of a signature of none.
const NULL_INFO: [u8; 5] = [kind::SIGNATURE_INFO as u8, 3, kind::SIGNATURE_TYPE as u8, 1, 200];
/// SignatureValue of it.
const NULL_VALUE: [u8; 2] = [kind::SIGNATURE_VALUE as u8, 0];

impl Data {
    /// Makes Data. With [`Signer::Null`] nothing is copied or hashed, nor are zeros written out.
    pub fn new(name: Name, meta: Meta, content: Payload, signer: &Signer) -> Data {
        let body_len = name.element_len()
            + meta.element_len()
            + tlv::element_len(kind::CONTENT, content.len());
        if let Signer::Null = signer {
            let value_len = body_len + NULL_INFO.len() + NULL_VALUE.len();
            return Data(Arc::new(Whole {
                name,
                meta,
                signature_type: SignatureType::Null,
                encoded_len: tlv::element_len(kind::DATA, value_len),
                form: Form::Parts { content, value_len },
            }));
        }
        let info = signature_info(signer);
        let value_len = body_len
            + tlv::element_len(kind::SIGNATURE_INFO, info.len())
            + tlv::element_len(kind::SIGNATURE_VALUE, signer.value_len());
        let encoded_len = tlv::element_len(kind::DATA, value_len);
        let mut whole = Vec::with_capacity(encoded_len);
        tlv::put_head(&mut whole, kind::DATA, value_len);
        let from = whole.len();
        write_body(&name, &meta, &content, &mut whole);
        let content = whole.len() - content.len()..whole.len();
        tlv::put_element(&mut whole, kind::SIGNATURE_INFO, &info);
        let signed = from..whole.len();
        tlv::put_head(&mut whole, kind::SIGNATURE_VALUE, signer.value_len());
        let value = whole.len()..encoded_len;
        let mut signature = Vec::with_capacity(signer.value_len());
        signer.sign(&whole[signed.clone()], &mut signature);
        whole.extend_from_slice(&signature);
        Data(Arc::new(Whole {
            name,
            meta,
            signature_type: signer.signature_type(),
            encoded_len,
            form: Form::Wire { whole: whole.into(), content, signed, value },
        }))
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// Its content, shared.
    pub fn content(&self) -> Payload {
        match &self.0.form {
            Form::Wire { whole, content, .. } => whole.slice(content.clone()),
            Form::Parts { content, .. } => content.clone(),
        }
    }

    /// Its MetaInfo.
    pub fn meta(&self) -> &Meta {
        &self.0.meta
    }

    /// What kind of content: 0 is a blob, 2 a key, 3 a refusal by the producer.
    pub fn content_type(&self) -> u64 {
        self.0.meta.content_type.unwrap_or(0)
    }

    /// How long it is fresh after it arrived in a content store.
    pub fn freshness(&self) -> Option<Duration> {
        self.0.meta.freshness_ms.map(|ms| Duration::from_millis(ms.into()))
    }

    /// The number of the object's last segment, if the Data carries it.
    pub fn final_segment(&self) -> Option<u64> {
        self.0.meta.final_segment
    }

    /// How it is signed.
    pub fn signature_type(&self) -> SignatureType {
        self.0.signature_type
    }

    /// The name of the key that it is signed with, where there is one.
    pub fn key_locator(&self) -> Option<Name> {
        let Form::Wire { whole: Payload::Bytes(bytes), .. } = &self.0.form else {
            return None;
        };
        let data = Reader::new(bytes).element().ok()??;
        let info = find(Reader::within(&data), kind::SIGNATURE_INFO)?;
        let locator = find(Reader::within(&info), kind::KEY_LOCATOR)?;
        let name = find(Reader::within(&locator), kind::NAME)?;
        Name::read(bytes, &name).ok()
    }

    /// Verifies that its signature is of the kind that `trust` requires, and valid.
    pub fn verify(&self, trust: &Trust) -> Result<(), VerifyError> {
        match &self.0.form {
            Form::Wire { whole: Payload::Bytes(bytes), signed, value, .. } => {
                trust.check(self.0.signature_type, &bytes[signed.clone()], &bytes[value.clone()])
            }
            _ => trust.check(SignatureType::Null, &[], &[]),
        }
    }

    /// The SHA-256 digest of the whole element, by which an Interest can ask for this very Data.
    pub fn implicit_digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_bytes()).into()
    }

    /// Bytes of the whole element. Known, not counted.
    pub fn encoded_len(&self) -> usize {
        self.0.encoded_len
    }

    /// The whole element. Shared where it is held as bytes.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0.form {
            Form::Wire { whole, .. } => whole.to_bytes(),
            Form::Parts { .. } => {
                let mut bytes = BytesMut::with_capacity(self.encoded_len());
                self.write(&mut bytes);
                bytes.freeze()
            }
        }
    }

    /// The same Data in memory of its own. Decoded Data shares the bytes of its datagram, and keeps
    /// the whole buffer alive where the datagram is one of many in it.
    pub fn detached(&self) -> Data {
        match &self.0.form {
            Form::Wire { whole: Payload::Bytes(bytes), .. } => {
                let bytes = Bytes::copy_from_slice(bytes);
                let again = Reader::new(&bytes).element().ok().flatten();
                let again = again.and_then(|element| Data::read(&bytes, &element).ok());
                again.expect("what was read once is read again")
            }
            _ => self.clone(),
        }
    }

    /// True if both are the same one, without a look at the bytes.
    pub fn is_same(&self, other: &Data) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Writes the head of the element and returns what follows, or writes all of it.
    pub(super) fn encode(&self, out: &mut BytesMut) -> Option<&Payload> {
        match &self.0.form {
            Form::Wire { whole, .. } => Some(whole),
            Form::Parts { .. } => {
                self.write(out);
                None
            }
        }
    }

    /// Writes the whole element.
    pub fn write(&self, out: &mut impl BufMut) {
        match &self.0.form {
            Form::Wire { whole, .. } => whole.for_each_chunk(|chunk| out.put_slice(chunk)),
            Form::Parts { content, value_len } => {
                tlv::put_head(out, kind::DATA, *value_len);
                write_body(&self.0.name, &self.0.meta, content, out);
                out.put_slice(&NULL_INFO);
                out.put_slice(&NULL_VALUE);
            }
        }
    }

    /// Reads `element` of `bytes`, and shares these.
    pub fn read(bytes: &Bytes, element: &Element<'_>) -> Result<Data, DecodeError> {
        let start = element.start;
        let mut reader = Reader::within(element);
        let name = match reader.element()? {
            Some(name) if name.kind == kind::NAME => Name::read(bytes, &name)?,
            _ => return Err(DecodeError::Missing("name")),
        };
        let mut meta = Meta::default();
        let mut content = reader.position()..reader.position();
        let mut signature = None;
        let mut value = None;
        // How far the order of the specification was followed. Each stands at most once.
        let mut reached = 0;
        while let Some(element) = reader.element()? {
            match element.kind {
                kind::META_INFO if reached < 1 => {
                    reached = 1;
                    meta = Meta::read(&element)?;
                    content = element.end()..element.end();
                }
                kind::CONTENT if reached < 2 => {
                    reached = 2;
                    content = element.range();
                }
                kind::SIGNATURE_INFO if reached < 3 => {
                    reached = 3;
                    signature = Some((read_signature_type(&element)?, element.end()));
                }
                kind::SIGNATURE_VALUE if reached == 3 => {
                    reached = 4;
                    value = Some(element.range());
                }
                other => tlv::skip(other)?,
            }
        }
        let (signature_type, signed_end) =
            signature.ok_or(DecodeError::Missing("SignatureInfo"))?;
        let value = value.ok_or(DecodeError::Missing("SignatureValue"))?;
        let here = |range: Range<usize>| range.start - start..range.end - start;
        Ok(Data(Arc::new(Whole {
            name,
            meta,
            signature_type,
            encoded_len: element.end() - start,
            form: Form::Wire {
                whole: Payload::Bytes(bytes.slice(start..element.end())),
                content: here(content),
                signed: here(element.from..signed_end),
                value: here(value),
            },
        })))
    }
}

/// Equal if the bytes are.
impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        if self.is_same(other) {
            return true;
        }
        if self.encoded_len() != other.encoded_len() || self.name() != other.name() {
            return false;
        }
        match (&self.0.form, &other.0.form) {
            (Form::Parts { content, .. }, Form::Parts { content: others, .. }) => {
                self.meta() == other.meta() && content == others
            }
            _ => self.to_bytes() == other.to_bytes(),
        }
    }
}

impl Eq for Data {}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Data")
            .field("name", self.name())
            .field("meta", self.meta())
            .field("content_bytes", &self.content().len())
            .field("signature", &self.signature_type())
            .finish()
    }
}

impl Meta {
    fn value_len(&self) -> usize {
        let freshness = |ms: u32| tlv::integer_element_len(kind::FRESHNESS, ms.into());
        self.content_type.map_or(0, |number| tlv::integer_element_len(kind::CONTENT_TYPE, number))
            + self.freshness_ms.map_or(0, freshness)
            + self.final_segment.map_or(0, |segment| {
                let component = tlv::integer_element_len(kind::SEGMENT, segment);
                tlv::element_len(kind::FINAL_BLOCK_ID, component)
            })
    }

    /// Left out where there is nothing in it.
    fn element_len(&self) -> usize {
        match self.value_len() {
            0 => 0,
            len => tlv::element_len(kind::META_INFO, len),
        }
    }

    fn write(&self, out: &mut impl BufMut) {
        let len = self.value_len();
        if len == 0 {
            return;
        }
        tlv::put_head(out, kind::META_INFO, len);
        if let Some(number) = self.content_type {
            tlv::put_integer_element(out, kind::CONTENT_TYPE, number);
        }
        if let Some(ms) = self.freshness_ms {
            tlv::put_integer_element(out, kind::FRESHNESS, ms.into());
        }
        if let Some(segment) = self.final_segment {
            let len = tlv::integer_element_len(kind::SEGMENT, segment);
            tlv::put_head(out, kind::FINAL_BLOCK_ID, len);
            tlv::put_integer_element(out, kind::SEGMENT, segment);
        }
    }

    fn read(element: &Element<'_>) -> Result<Meta, DecodeError> {
        let mut meta = Meta::default();
        let mut reader = Reader::within(element);
        let mut reached = 0;
        while let Some(element) = reader.element()? {
            match element.kind {
                kind::CONTENT_TYPE if reached < 1 => {
                    reached = 1;
                    meta.content_type = Some(tlv::integer_field("ContentType", element.value)?);
                }
                kind::FRESHNESS if reached < 2 => {
                    reached = 2;
                    let ms = tlv::integer_field("FreshnessPeriod", element.value)?;
                    meta.freshness_ms = Some(u32::try_from(ms).unwrap_or(u32::MAX));
                }
                kind::FINAL_BLOCK_ID if reached < 3 => {
                    reached = 3;
                    // Another component than a segment number is the producer's own affair.
                    let last = Reader::within(&element).element()?;
                    let last = last.filter(|component| component.kind == kind::SEGMENT);
                    meta.final_segment = last.and_then(|number| tlv::integer(number.value));
                }
                other => tlv::skip(other)?,
            }
        }
        Ok(meta)
    }
}

/// Name, meta and content.
fn write_body(name: &Name, meta: &Meta, content: &Payload, out: &mut impl BufMut) {
    name.write_element(out);
    meta.write(out);
    tlv::put_head(out, kind::CONTENT, content.len());
    content.for_each_chunk(|chunk| out.put_slice(chunk));
}

/// The value of SignatureInfo.
fn signature_info(signer: &Signer) -> Vec<u8> {
    let mut info = Vec::new();
    tlv::put_integer_element(&mut info, kind::SIGNATURE_TYPE, signer.signature_type().number());
    if let Some(locator) = signer.locator() {
        tlv::put_head(&mut info, kind::KEY_LOCATOR, locator.element_len());
        locator.write_element(&mut info);
    }
    info
}

/// The first element of this type.
fn find<'a>(mut reader: Reader<'a>, kind: u32) -> Option<Element<'a>> {
    loop {
        let element = reader.element().ok()??;
        if element.kind == kind {
            return Some(element);
        }
    }
}

fn read_signature_type(info: &Element<'_>) -> Result<SignatureType, DecodeError> {
    let mut reader = Reader::within(info);
    let number = match reader.element()? {
        Some(element) if element.kind == kind::SIGNATURE_TYPE => {
            tlv::integer_field("SignatureType", element.value)?
        }
        _ => return Err(DecodeError::Missing("SignatureType")),
    };
    let mut located = false;
    while let Some(element) = reader.element()? {
        match element.kind {
            kind::KEY_LOCATOR if !located => located = true,
            other => tlv::skip(other)?,
        }
    }
    Ok(SignatureType::of_number(number))
}
