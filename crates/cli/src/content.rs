//! Bytes in JSON documents.

use base64ct::{Base64, Encoding};

/// Bytes as text, or in base64 (RFC 4648, section 4) if they are not UTF-8: for two keys, of which
/// a document has one.
pub fn text_or_base64(bytes: &[u8]) -> (Option<&str>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(_) => (None, Some(Base64::encode_string(bytes))),
    }
}

/// The bytes of text in one or the other key; what was expected if it is in none or in both.
pub fn from_text_or_base64(
    name: &str,
    text: Option<String>,
    base64: Option<String>,
) -> Result<Vec<u8>, String> {
    match (text, base64) {
        (Some(text), None) => Ok(text.into_bytes()),
        (None, Some(base64)) => Base64::decode_vec(&base64)
            .map_err(|_| format!("`{name}_base64` is not base64 with its padding")),
        (None, None) => Err(format!("missing field `{name}`")),
        (Some(_), Some(_)) => Err(format!("both `{name}` and `{name}_base64`: expected one")),
    }
}
