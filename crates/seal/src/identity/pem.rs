//! The text form of keys and certificates (RFC 7468).

use der::pem::{LineEnding, decode_vec, encode_string};
use zeroize::Zeroizing;

use super::form::FormError;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";

/// What stands between two lines with a label. It is overwritten when dropped.
pub(super) struct Block {
    pub(super) label: String,
    pub(super) bytes: Zeroizing<Vec<u8>>,
}

/// All blocks of a text. What stands between them is left out.
pub(super) fn blocks(text: &str) -> Result<Vec<Block>, FormError> {
    let (mut blocks, mut rest) = (Vec::new(), text);
    while let Some(begin) = rest.find(BEGIN) {
        let block = &rest[begin..];
        let end = block.find(END).ok_or(FormError::Pem)?;
        let length = block[end..].find('\n').map_or(block.len(), |line| end + line);
        let (label, bytes) =
            decode_vec(block[..length].trim_end().as_bytes()).map_err(|_| FormError::Pem)?;
        blocks.push(Block { label: label.to_owned(), bytes: Zeroizing::new(bytes) });
        rest = &block[length..];
    }
    if blocks.is_empty() { Err(FormError::NoBlock) } else { Ok(blocks) }
}

/// The one block of a text, if it has this label.
pub(super) fn only(text: &str, label: &'static str) -> Result<Zeroizing<Vec<u8>>, FormError> {
    let [bytes] = exactly(text, [label])?;
    Ok(bytes)
}

/// The blocks of a text, if they have these labels in this order.
pub(super) fn exactly<const COUNT: usize>(
    text: &str,
    labels: [&'static str; COUNT],
) -> Result<[Zeroizing<Vec<u8>>; COUNT], FormError> {
    let blocks = blocks(text)?;
    if !blocks.iter().map(|block| block.label.as_str()).eq(labels) {
        return Err(FormError::Labels { wanted: labels.join(", ") });
    }
    let bytes: Vec<_> = blocks.into_iter().map(|block| block.bytes).collect();
    Ok(bytes.try_into().unwrap_or_else(|_| unreachable!("as many blocks as labels")))
}

/// A block of text.
pub(super) fn encode(label: &str, bytes: &[u8]) -> String {
    encode_string(label, LineEnding::LF, bytes).expect("a label of this crate, and some KiB")
}
