//! Golden vectors: encodings that tests of protocols hold as text of hexadecimal digits, or as
//! arrays of bytes with one written in hexadecimal.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Fewer digits than this are a constant, not an encoding.
const DIGITS_MIN: usize = 6;

/// Every vector in the sources of the protocols, as hexadecimal digits, with how often it is there.
pub fn vectors(tree: &Path) -> Result<BTreeMap<String, usize>, String> {
    let mut found = BTreeMap::new();
    let crates = ["crates/proto", "crates/baselines"].map(|folder| tree.join(folder));
    // A tree from before the baselines were a crate has them in `crates/proto`.
    let mut folders: Vec<_> = crates.into_iter().filter(|folder| folder.is_dir()).collect();
    while let Some(folder) = folders.pop() {
        let failed = |error| format!("cannot read {}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                for vector in texts(&text).chain(arrays(&text)) {
                    *found.entry(vector).or_default() += 1;
                }
            }
        }
    }
    Ok(found)
}

/// String literals of nothing but hexadecimal digits and white space.
fn texts(source: &str) -> impl Iterator<Item = String> {
    // A quote inside a literal or a comment shifts what lies between quotes, and a shifted piece is
    // no hexadecimal text: so pieces need not be distinguished from literals.
    source.split('"').filter_map(|piece| {
        let text: String = piece.chars().filter(|c| !c.is_whitespace() && *c != '\\').collect();
        let is_hex = text.len() >= DIGITS_MIN && text.chars().all(|c| c.is_ascii_hexdigit());
        is_hex.then_some(text)
    })
}

/// Array literals of bytes.
fn arrays(source: &str) -> impl Iterator<Item = String> {
    source.split('[').filter_map(|piece| {
        let (inside, _) = piece.split_once(']')?;
        if !inside.contains("0x") {
            return None;
        }
        let elements = inside.split(',').map(str::trim).filter(|element| !element.is_empty());
        let bytes: Option<Vec<String>> =
            elements.map(|element| byte(element).map(|byte| format!("{byte:02x}"))).collect();
        bytes.map(|bytes| bytes.concat()).filter(|text| text.len() >= DIGITS_MIN)
    })
}

fn byte(literal: &str) -> Option<u8> {
    let literal = literal.strip_suffix("u8").unwrap_or(literal).replace('_', "");
    match literal.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16).ok(),
        None => literal.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_arrays_of_bytes_are_vectors_and_other_literals_are_not() {
        let source = r#"
            const GOLDEN: [&str; 2] = ["00 0102 \
                 0304", "the text", "12", "0a0b0c"];
            let bytes = [0x74, 3, 0u8, 0xff];
            let numbers = [1, 2, 3, 4];
            let wide = [0x100, 1, 2, 3];
        "#;
        assert_eq!(texts(source).collect::<Vec<_>>(), ["0001020304", "0a0b0c"]);
        assert_eq!(arrays(source).collect::<Vec<_>>(), ["740300ff"]);
    }

    #[test]
    fn this_tree_has_vectors() {
        let found = vectors(crate::shell::root()).expect("the protocols are there");
        assert!(found.len() > 30, "{found:#?}");
    }
}
