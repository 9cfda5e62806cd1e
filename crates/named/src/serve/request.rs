//! Parsing of names below the prefix.

use std::path::PathBuf;

use paceline_proto::ndn::tlv::kind;
use paceline_proto::ndn::{Component, Interest};

/// The keyword of a file's metadata.
pub const METADATA: &str = "metadata";

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first segment of the present version.
    Latest(PathBuf),
    /// The name of the present version, and more.
    Metadata(PathBuf),
    /// A segment of a version.
    Segment(PathBuf, u64, u64),
}

impl Request {
    /// The request in an Interest, below a prefix of `prefix_components` components; `None` if it
    /// is invalid.
    pub fn of(interest: &Interest, prefix_components: usize) -> Option<Request> {
        let mut rest = interest.name.components().skip(prefix_components).peekable();
        let mut path = PathBuf::new();
        while let Some(component) = rest.next_if(|next| u32::from(next.kind()) == kind::GENERIC) {
            path.push(step(component.value())?);
        }
        let tail: Vec<Component<'_>> = rest.collect();
        if path.as_os_str().is_empty() || tail.len() > 2 {
            return None;
        }
        let number = |place: usize, kind: u32| {
            let component = tail.get(place).filter(|one| u32::from(one.kind()) == kind)?;
            component.number()
        };
        let is_metadata = tail.first().is_some_and(|first| {
            u32::from(first.kind()) == kind::KEYWORD && first.value() == METADATA.as_bytes()
        });
        match (tail.len(), interest.can_be_prefix) {
            (0, true) => Some(Request::Latest(path)),
            (1, true) if is_metadata => Some(Request::Metadata(path)),
            (1, true) => Some(Request::Segment(path, number(0, kind::VERSION)?, 0)),
            (2, _) => {
                Some(Request::Segment(path, number(0, kind::VERSION)?, number(1, kind::SEGMENT)?))
            }
            _ => None,
        }
    }
}

/// A component as a step down in a path. It cannot lead elsewhere.
#[cfg(unix)]
fn step(value: &[u8]) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;

    let is_step = !matches!(value, b"" | b"." | b"..") && !value.iter().any(|b| b"/\0".contains(b));
    is_step.then(|| std::ffi::OsString::from_vec(value.to_vec()))
}

/// As above, on systems where file names are text and more characters are special.
#[cfg(not(unix))]
fn step(value: &[u8]) -> Option<std::ffi::OsString> {
    let text = std::str::from_utf8(value).ok()?;
    let is_step = !matches!(text, "" | "." | "..") && !text.contains(['/', '\\', ':', '\0']);
    is_step.then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(uri: &str, can_be_prefix: bool) -> Option<Request> {
        let interest = Interest { can_be_prefix, ..Interest::new(uri.parse().unwrap(), 1) };
        Request::of(&interest, 1)
    }

    #[test]
    fn names_below_the_prefix_are_files_versions_and_segments() {
        let path = PathBuf::from("a b/c.txt");
        let uri = "/p/a%20b/c.txt";
        assert_eq!(request(uri, true), Some(Request::Latest(path.clone())));
        assert_eq!(request(uri, false), None, "there is no Data of that very name");
        let metadata = Some(Request::Metadata(path.clone()));
        assert_eq!(request(&format!("{uri}/32=metadata"), true), metadata);
        for (tail, can_be_prefix) in [("v=7/seg=3", false), ("v=7/seg=3", true)] {
            let segment = Some(Request::Segment(path.clone(), 7, 3));
            assert_eq!(request(&format!("{uri}/{tail}"), can_be_prefix), segment);
        }
        assert_eq!(request(&format!("{uri}/v=7"), true), Some(Request::Segment(path, 7, 0)));
        for tail in ["v=7", "seg=3", "v=7/v=7", "seg=3/v=7", "32=other", "v=7/seg=3/seg=3"] {
            assert_eq!(request(&format!("{uri}/{tail}"), false), None, "{tail}");
        }
    }

    #[test]
    fn no_component_is_a_step_out_of_the_folder() {
        // `...` and `....` stand for nothing and for one dot; percents hide the others.
        for uri in [
            "/p",
            "/p/...",
            "/p/....",
            "/p/.....",
            "/p/a/.....",
            "/p/..%2Fx",
            "/p/%2Fetc%2Fpasswd",
            "/p/a%00b",
            "/p/.....%2F",
        ] {
            assert_eq!(request(uri, true), None, "{uri}");
        }
        assert_eq!(request("/p/......", true), Some(Request::Latest(PathBuf::from("..."))));
    }
}
