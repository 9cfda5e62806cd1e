use std::fmt::{self, Display, Formatter, Write};

/// Bytes from elsewhere, as text that a terminal shows and does not obey: control characters and
/// bytes that are not UTF-8 are written as `\x1b`, and characters that change the direction of
/// writing as `\u{202e}`.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a> {
    bytes: &'a [u8],
    keeps_lines: bool,
}

impl<'a> Printable<'a> {
    /// A part of a line: line feeds and tabs are escaped as well, so that nothing in it looks like
    /// another line.
    pub fn line(bytes: &'a [u8]) -> Printable<'a> {
        Printable { bytes, keeps_lines: false }
    }

    /// Lines, with line feeds and tabs as they are.
    pub fn text(bytes: &'a [u8]) -> Printable<'a> {
        Printable { bytes, keeps_lines: true }
    }

    fn write(self, c: char, f: &mut Formatter<'_>) -> fmt::Result {
        match c {
            '\n' | '\t' if self.keeps_lines => f.write_char(c),
            '\n' => f.write_str("\\n"),
            '\t' => f.write_str("\\t"),
            '\r' => f.write_str("\\r"),
            // All of them are below 256.
            c if c.is_control() => write!(f, "\\x{:02x}", u32::from(c)),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                write!(f, "{}", c.escape_unicode())
            }
            c => f.write_char(c),
        }
    }
}

impl Display for Printable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for chunk in self.bytes.utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| self.write(c, f))?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_the_rest_is_shown() {
        let bytes = b"\x1b]52;c;eA==\x07\r\n\x7f \xff\xc3\xa4\xc2\x9b\ttab";
        let line = Printable::line(bytes).to_string();
        assert_eq!(line, "\\x1b]52;c;eA==\\x07\\r\\n\\x7f \\xff\u{e4}\\x9b\\ttab");
        let text = Printable::text(bytes).to_string();
        assert_eq!(text, "\\x1b]52;c;eA==\\x07\\r\n\\x7f \\xff\u{e4}\\x9b\ttab");
        assert_eq!(Printable::text("a\u{202e}b".as_bytes()).to_string(), "a\\u{202e}b");
    }
}
