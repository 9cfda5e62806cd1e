use std::time::Duration;

use bytes::{BufMut, Bytes};
use sha2::{Digest as _, Sha256};

use super::data::Data;
use super::name::{Name, NameError};
use super::signature::Signer;
use super::tlv::{self, Element, Reader, kind};
use crate::core::DecodeError;

/// The lifetime of an Interest without an InterestLifetime.
pub const LIFETIME_DEFAULT: Duration = Duration::from_millis(4_000);

/// A request for the Data of a name.
///
/// Source: NDN packet format 0.3, "Interest packet".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// The name, or a prefix of it.
    pub name: Name,
    /// Data of longer names are an answer too.
    pub can_be_prefix: bool,
    /// Only Data that is still fresh is taken from a content store.
    pub must_be_fresh: bool,
    /// Distinguishes this Interest from others for the name: one that returns is a loop.
    pub nonce: u32,
    /// How long it is pending, ms; none stands for [`LIFETIME_DEFAULT`].
    pub lifetime_ms: Option<u32>,
    /// How many more hops it may go.
    pub hop_limit: Option<u8>,
    /// Rare elements, passed on as they came.
    pub extra: Option<Box<InterestExtra>>,
}

/// Elements of an Interest that forwarders of ours do not read, each whole with type and length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterestExtra {
    /// The ForwardingHint.
    forwarding_hint: Bytes,
    /// ApplicationParameters, signature, and whatever follows up to the end.
    parameters: Bytes,
}

impl InterestExtra {
    /// Bytes of its elements.
    pub(crate) fn encoded_len(&self) -> usize {
        self.forwarding_hint.len() + self.parameters.len()
    }

    /// The same in memory of its own, apart from the datagram that it came in.
    pub(crate) fn detached(&self) -> InterestExtra {
        let copy = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        InterestExtra {
            forwarding_hint: copy(&self.forwarding_hint),
            parameters: copy(&self.parameters),
        }
    }
}

impl Interest {
    /// An Interest for this very name.
    pub fn new(name: Name, nonce: u32) -> Interest {
        Interest {
            name,
            can_be_prefix: false,
            must_be_fresh: false,
            nonce,
            lifetime_ms: None,
            hop_limit: None,
            extra: None,
        }
    }

    /// An Interest with ApplicationParameters, whose digest is added to the name.
    pub fn with_parameters(
        name: &Name,
        nonce: u32,
        parameters: &[u8],
    ) -> Result<Interest, NameError> {
        let mut element = Vec::with_capacity(tlv::element_len(kind::PARAMETERS, parameters.len()));
        tlv::put_element(&mut element, kind::PARAMETERS, parameters);
        let name = name.component(kind::PARAMETERS_DIGEST as u16, &Sha256::digest(&element))?;
        let extra = InterestExtra { forwarding_hint: Bytes::new(), parameters: element.into() };
        Ok(Interest { extra: Some(Box::new(extra)), ..Interest::new(name, nonce) })
    }

    /// An Interest with ApplicationParameters, signed over the name and these. The nonce and the
    /// time, ms since 1970, protect against replay.
    pub fn signed(
        name: &Name,
        parameters: &[u8],
        signer: &Signer,
        (signature_nonce, time_ms): (u64, u64),
    ) -> Result<Interest, NameError> {
        let mut info = Vec::new();
        let signature_type = signer.signature_type().number();
        tlv::put_integer_element(&mut info, kind::SIGNATURE_TYPE, signature_type);
        if let Some(locator) = signer.locator() {
            tlv::put_head(&mut info, kind::KEY_LOCATOR, locator.element_len());
            locator.write_element(&mut info);
        }
        tlv::put_element(&mut info, kind::SIGNATURE_NONCE, &signature_nonce.to_be_bytes());
        tlv::put_integer_element(&mut info, kind::SIGNATURE_TIME, time_ms);
        let mut elements = Vec::new();
        tlv::put_element(&mut elements, kind::PARAMETERS, parameters);
        tlv::put_element(&mut elements, kind::INTEREST_SIGNATURE_INFO, &info);
        let mut signed = Vec::new();
        name.write(&mut signed);
        signed.extend_from_slice(&elements);
        let mut value = Vec::new();
        signer.sign(&signed, &mut value);
        tlv::put_element(&mut elements, kind::INTEREST_SIGNATURE_VALUE, &value);
        let name = name.component(kind::PARAMETERS_DIGEST as u16, &Sha256::digest(&elements))?;
        let extra = InterestExtra { forwarding_hint: Bytes::new(), parameters: elements.into() };
        Ok(Interest { extra: Some(Box::new(extra)), ..Interest::new(name, 0) })
    }

    /// False if the ApplicationParameters do not match the digest in the name. A node that acts on
    /// the parameters must check this first; a forwarder need not.
    pub fn parameters_fit(&self) -> bool {
        let elements = self.extra.as_ref().map_or(&[][..], |extra| &extra.parameters);
        elements.is_empty() || {
            let digest = Sha256::digest(elements);
            let mut components = self.name.components();
            components.any(|component| {
                u32::from(component.kind()) == kind::PARAMETERS_DIGEST
                    && component.value() == &digest[..]
            })
        }
    }

    /// How long it is pending.
    pub fn lifetime(&self) -> Duration {
        self.lifetime_ms.map_or(LIFETIME_DEFAULT, |ms| Duration::from_millis(ms.into()))
    }

    /// The bytes of ApplicationParameters; none without.
    pub fn parameters(&self) -> Option<Bytes> {
        let elements = &self.extra.as_ref()?.parameters;
        let first = Reader::new(elements).element().ok()??;
        (first.kind == kind::PARAMETERS).then(|| elements.slice(first.range()))
    }

    /// True if `data` is an answer, fresh or not. Where the name ends in a digest of whole Data,
    /// the digest is computed.
    pub fn matches(&self, data: &Data) -> bool {
        if self.name == *data.name() || self.can_be_prefix && data.name().starts_with(&self.name) {
            return true;
        }
        self.name
            .implicit_digest()
            .is_some_and(|(name, digest)| name == *data.name() && digest == data.implicit_digest())
    }

    /// Bytes of the whole element.
    pub fn encoded_len(&self) -> usize {
        let value = self.value_len();
        tlv::element_len(kind::INTEREST, value)
    }

    fn value_len(&self) -> usize {
        let lifetime = |ms: u32| tlv::integer_element_len(kind::LIFETIME, ms.into());
        let extra = |extra: &InterestExtra| extra.forwarding_hint.len() + extra.parameters.len();
        self.name.element_len()
            + if self.can_be_prefix { 2 } else { 0 }
            + if self.must_be_fresh { 2 } else { 0 }
            + 6
            + self.lifetime_ms.map_or(0, lifetime)
            + if self.hop_limit.is_some() { 3 } else { 0 }
            + self.extra.as_deref().map_or(0, extra)
    }

    /// Writes the whole element.
    pub fn write(&self, out: &mut impl BufMut) {
        tlv::put_head(out, kind::INTEREST, self.value_len());
        self.name.write_element(out);
        if self.can_be_prefix {
            tlv::put_element(out, kind::CAN_BE_PREFIX, &[]);
        }
        if self.must_be_fresh {
            tlv::put_element(out, kind::MUST_BE_FRESH, &[]);
        }
        if let Some(extra) = &self.extra {
            out.put_slice(&extra.forwarding_hint);
        }
        tlv::put_element(out, kind::NONCE, &self.nonce.to_be_bytes());
        if let Some(ms) = self.lifetime_ms {
            tlv::put_integer_element(out, kind::LIFETIME, ms.into());
        }
        if let Some(hops) = self.hop_limit {
            tlv::put_element(out, kind::HOP_LIMIT, &[hops]);
        }
        if let Some(extra) = &self.extra {
            out.put_slice(&extra.parameters);
        }
    }

    /// Reads the value of `element` of `bytes`, and shares these.
    #[inline]
    pub fn read(bytes: &Bytes, element: &Element<'_>) -> Result<Interest, DecodeError> {
        let mut reader = Reader::within(element);
        let name = match reader.element()? {
            Some(name) if name.kind == kind::NAME => Name::read(bytes, &name)?,
            _ => return Err(DecodeError::Missing("name")),
        };
        if name.is_root() {
            return Err(DecodeError::Missing("name component"));
        }
        let mut interest = Interest::new(name, 0);
        let mut nonce = None;
        // How far the order of the specification was followed. Each stands at most once.
        let mut reached = 0;
        while let Some(Element { kind, value, start, .. }) = reader.element()? {
            match kind {
                kind::CAN_BE_PREFIX if reached < 1 => {
                    reached = 1;
                    interest.can_be_prefix = is_empty("CanBePrefix", value)?;
                }
                kind::MUST_BE_FRESH if reached < 2 => {
                    reached = 2;
                    interest.must_be_fresh = is_empty("MustBeFresh", value)?;
                }
                kind::FORWARDING_HINT if reached < 3 => {
                    reached = 3;
                    let hint = bytes.slice(start..reader.position());
                    interest.extra.get_or_insert_default().forwarding_hint = hint;
                }
                kind::NONCE if reached < 4 => {
                    reached = 4;
                    let value = value.try_into().map_err(|_| length("Nonce", value))?;
                    nonce = Some(u32::from_be_bytes(value));
                }
                kind::LIFETIME if reached < 5 => {
                    reached = 5;
                    let ms = tlv::integer_field("InterestLifetime", value)?;
                    interest.lifetime_ms = Some(u32::try_from(ms).unwrap_or(u32::MAX));
                }
                kind::HOP_LIMIT if reached < 6 => {
                    reached = 6;
                    let &[hops] = value else { return Err(length("HopLimit", value)) };
                    interest.hop_limit = Some(hops);
                }
                kind::PARAMETERS if reached < 7 => {
                    reached = 7;
                    // All that follows belongs to them; the loop goes on to look at it.
                    let parameters = bytes.slice(start..element.end());
                    interest.extra.get_or_insert_default().parameters = parameters;
                }
                other => tlv::skip(other)?,
            }
        }
        interest.nonce = nonce.ok_or(DecodeError::Missing("Nonce"))?;
        Ok(interest)
    }
}

/// True, or an error where a flag has a value.
fn is_empty(field: &'static str, value: &[u8]) -> Result<bool, DecodeError> {
    if value.is_empty() { Ok(true) } else { Err(length(field, value)) }
}

fn length(field: &'static str, value: &[u8]) -> DecodeError {
    DecodeError::OutOfRange { field, value: value.len() as u64 }
}
