//! Fields of certificates and revocation lists (RFC 5280) that `webpki` checks and does not show.

use der::asn1::{AnyRef, BitStringRef, GeneralizedTime, OctetStringRef, UtcTime};
use der::oid::ObjectIdentifier;
use der::{DateTime, Decode, Error, Reader, SliceReader, Tag, Tagged};
use rustls_pki_types::{UnixTime, alg_id};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const CRL_NUMBER: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.20");

/// What has no end is valid until then (section 4.1.2.5).
pub(super) const NEVER: u64 = 253_402_300_799;

/// A certificate or a list, and the signature of it.
pub(super) struct Signed<'a> {
    pub(super) body: &'a [u8],
    pub(super) signature: &'a [u8],
}

impl<'a> Signed<'a> {
    /// The parts of a certificate or a list that is signed with Ed25519.
    pub(super) fn read(der: &'a [u8]) -> Result<Signed<'a>, Error> {
        let mut fields = SliceReader::new(sequence(der)?)?;
        let body = fields.tlv_bytes()?;
        let algorithm: AnyRef<'a> = fields.decode()?;
        let signature: BitStringRef<'a> = fields.decode()?;
        fields.finish()?;
        let signature = signature.as_bytes().filter(|_| is_ed25519(algorithm));
        Ok(Signed { body, signature: signature.ok_or(Tag::BitString.value_error())? })
    }
}

/// The first and the last moment at which a certificate is valid.
pub(super) fn validity(certificate: &[u8]) -> Result<(UnixTime, UnixTime), Error> {
    let mut fields = body(certificate)?;
    // Version, serial number, algorithm, issuer.
    for _ in 0..4 {
        fields.decode::<AnyRef<'_>>()?;
    }
    let validity: AnyRef<'_> = fields.decode()?;
    let mut fields = SliceReader::new(validity.value())?;
    Ok((time(fields.decode()?)?, time(fields.decode()?)?))
}

/// The only name in the subject of a certificate, without the tag of its sequence.
pub(super) fn common_name(subject: &[u8]) -> Result<String, Error> {
    let mut names = SliceReader::new(subject)?;
    let set: AnyRef<'_> = names.decode()?;
    names.finish()?;
    let mut fields = SliceReader::new(sequence(set.value())?)?;
    let kind: ObjectIdentifier = fields.decode()?;
    let name = fields.decode()?;
    fields.finish()?;
    if kind == COMMON_NAME { Ok(name) } else { Err(Tag::ObjectIdentifier.value_error().into()) }
}

/// The number of a revocation list, and when it was signed.
pub(super) fn number_and_date(list: &[u8]) -> Result<(u64, UnixTime), Error> {
    let mut fields = body(list)?;
    // Version, algorithm, issuer.
    for _ in 0..3 {
        fields.decode::<AnyRef<'_>>()?;
    }
    let signed_at = time(fields.decode()?)?;
    let mut last = fields.decode::<AnyRef<'_>>()?;
    while !fields.is_finished() {
        last = fields.decode()?;
    }
    let mut extensions = SliceReader::new(sequence(last.value())?)?;
    while !extensions.is_finished() {
        let extension: AnyRef<'_> = extensions.decode()?;
        let mut fields = SliceReader::new(extension.value())?;
        if fields.decode::<ObjectIdentifier>()? == CRL_NUMBER {
            let value: &OctetStringRef = fields.decode()?;
            return Ok((u64::from_der(value.as_bytes())?, signed_at));
        }
    }
    Err(Tag::Integer.value_error().into())
}

/// A date in the form of RFC 3339.
pub fn date(time: &UnixTime) -> String {
    let since = std::time::Duration::from_secs(time.as_secs());
    match DateTime::from_unix_duration(since) {
        Ok(date) => date.to_string(),
        Err(_) => format!("{} s after 1970", time.as_secs()),
    }
}

/// The moment this many seconds after the start of 1970.
pub(super) fn seconds(seconds: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds))
}

/// What is signed, field by field.
fn body(der: &[u8]) -> Result<SliceReader<'_>, Error> {
    SliceReader::new(sequence(Signed::read(der)?.body)?)
}

/// What is in a sequence that is all of these bytes.
fn sequence(der: &[u8]) -> Result<&[u8], Error> {
    let sequence = AnyRef::from_der(der)?;
    sequence.tag().assert_eq(Tag::Sequence)?;
    Ok(sequence.value())
}

fn time(field: AnyRef<'_>) -> Result<UnixTime, Error> {
    let since = match field.tag() {
        Tag::UtcTime => field.decode_as::<UtcTime>()?.to_unix_duration(),
        _ => field.decode_as::<GeneralizedTime>()?.to_unix_duration(),
    };
    Ok(UnixTime::since_unix_epoch(since))
}

fn is_ed25519(algorithm: AnyRef<'_>) -> bool {
    algorithm.value() == alg_id::ED25519.as_ref()
}
