//! The forms in which a peer is named.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error;

/// The most bytes of a file of peers.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Where the addresses of peers come from.
///
/// | form | addresses |
/// |---|---|
/// | `HOST:PORT` | all addresses of the host; resolved once |
/// | `dns:NAME:PORT` | all A and AAAA records of the name, with this port |
/// | `dns:_SERVICE._PROTOCOL.NAME` | the targets and ports of its SRV records (RFC 2782) |
/// | `file:PATH` | a form of the three above on each line; `#` begins a comment; at most 64 KiB |
/// | `env:VARIABLE` | the same, separated by commas, in an environment variable |
///
/// Names and files are asked again while the host is alone. A host whose name is `dns`, `file` or
/// `env` must be written with a dot at its end: `dns.:7000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerSource {
    /// A host.
    Host(String),
    /// The address records of a name.
    Addresses {
        /// The name.
        name: String,
        /// The port of each.
        port: u16,
    },
    /// The SRV records of a name.
    Services(String),
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

/// Why a text names no peers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{problem}; expected {expected}")]
pub struct PeerFormError {
    problem: String,
    expected: &'static str,
}

const FORMS: &str = "HOST:PORT, dns:NAME:PORT, dns:_SERVICE._PROTOCOL.NAME, file:PATH or \
                     env:VARIABLE";
const LISTED_FORMS: &str = "HOST:PORT, dns:NAME:PORT or dns:_SERVICE._PROTOCOL.NAME";

impl FromStr for PeerSource {
    type Err = PeerFormError;

    fn from_str(text: &str) -> Result<PeerSource, PeerFormError> {
        let wrong = |problem: &str, expected| {
            Err(PeerFormError { problem: format!("`{text}` {problem}"), expected })
        };
        if text.is_empty() {
            return wrong("is empty", FORMS);
        }
        if let Some(path) = text.strip_prefix("file:") {
            return match path {
                "" => wrong("names no file", "file:PATH"),
                path => Ok(PeerSource::File(path.into())),
            };
        }
        if let Some(name) = text.strip_prefix("env:") {
            return match name {
                "" => wrong("names no variable", "env:VARIABLE"),
                name => Ok(PeerSource::Variable(name.to_owned())),
            };
        }
        let (name, is_dns) = match text.strip_prefix("dns:") {
            Some(name) => (name, true),
            None => (text, false),
        };
        if is_dns && name.starts_with('_') {
            return match name.contains(':') {
                true => wrong("has a port, but SRV records have their own", FORMS),
                false if simple_dns::Name::new(name).is_err() => wrong("is no name", FORMS),
                false => Ok(PeerSource::Services(name.to_owned())),
            };
        }
        let expected = if is_dns { "dns:NAME:PORT" } else { FORMS };
        let Some((host, port)) = name.rsplit_once(':') else {
            return wrong("has no port", expected);
        };
        let Ok(port) = port.parse::<u16>() else {
            return wrong("has a port that is not a number from 0 to 65535", expected);
        };
        if host.is_empty() {
            return wrong("names no host", expected);
        }
        if !is_dns {
            return Ok(PeerSource::Host(text.to_owned()));
        }
        if simple_dns::Name::new(host).is_err() || host.contains(['[', ':']) {
            return wrong("is no name", expected);
        }
        Ok(PeerSource::Addresses { name: host.to_owned(), port })
    }
}

impl PeerSource {
    /// True if it may name other peers when it is asked again.
    pub(crate) fn may_change(&self) -> bool {
        !matches!(self, PeerSource::Host(_) | PeerSource::Variable(_))
    }

    /// Reads a form that stands in a file or a variable.
    fn listed(text: &str) -> Result<PeerSource, PeerFormError> {
        match text.parse()? {
            PeerSource::File(_) | PeerSource::Variable(_) => Err(PeerFormError {
                problem: format!("`{text}` names another list"),
                expected: LISTED_FORMS,
            }),
            source => Ok(source),
        }
    }
}

impl fmt::Display for PeerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PeerSource::Host(host) => f.write_str(host),
            PeerSource::Addresses { name, port } => write!(f, "dns:{name}:{port}"),
            PeerSource::Services(name) => write!(f, "dns:{name}"),
            PeerSource::File(path) => write!(f, "file:{}", path.display()),
            PeerSource::Variable(name) => write!(f, "env:{name}"),
        }
    }
}

/// Reads the lines of a file of peers.
pub(super) fn read_lines(bytes: &[u8]) -> Result<Vec<PeerSource>, String> {
    if bytes.len() > FILE_BYTES_MAX {
        return Err(format!("is longer than {} KiB", FILE_BYTES_MAX >> 10));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let mut sources = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let form = line.split('#').next().unwrap_or_default().trim();
        if !form.is_empty() {
            let source = PeerSource::listed(form);
            sources.push(source.map_err(|error| format!("line {number}: {error}"))?);
        }
    }
    Ok(sources)
}

/// Reads the value of a variable.
pub(super) fn read_list(text: &str) -> Result<Vec<PeerSource>, String> {
    let forms = text.split(',').map(str::trim).filter(|form| !form.is_empty());
    forms.map(|form| PeerSource::listed(form).map_err(|error| error.to_string())).collect()
}

/// The most bytes that are read of a file of peers: one more than it may have.
pub(super) const FILE_READ_MAX: u64 = FILE_BYTES_MAX as u64 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read_and_written_as_it_is() {
        let addresses = |name: &str, port| PeerSource::Addresses { name: name.to_owned(), port };
        for (text, source) in [
            ("10.0.0.1:7000", PeerSource::Host("10.0.0.1:7000".to_owned())),
            ("[::1]:7000", PeerSource::Host("[::1]:7000".to_owned())),
            ("dns.:7000", PeerSource::Host("dns.:7000".to_owned())),
            ("dns:web.example:7000", addresses("web.example", 7000)),
            ("dns:_p._tcp.web.example", PeerSource::Services("_p._tcp.web.example".to_owned())),
            ("file:/etc/peers", PeerSource::File("/etc/peers".into())),
            ("env:PEERS", PeerSource::Variable("PEERS".to_owned())),
        ] {
            assert_eq!(text.parse(), Ok(source.clone()));
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn a_bad_form_says_what_is_wrong_and_what_would_do() {
        let long = format!("dns:{}:1", "a".repeat(64));
        for (text, problem, expected) in [
            ("", "`` is empty", "HOST:PORT, dns:NAME:PORT"),
            ("127.0.0.1", "`127.0.0.1` has no port", "HOST:PORT, dns:NAME:PORT"),
            ("host:port", "a port that is not a number", "HOST:PORT"),
            (":7000", "names no host", "HOST:PORT"),
            ("dns:web", "`dns:web` has no port", "dns:NAME:PORT"),
            ("dns:web:70000", "a port that is not a number", "dns:NAME:PORT"),
            ("dns:_p._tcp.web:70", "SRV records have their own", "dns:_SERVICE._PROTOCOL.NAME"),
            (&long, "is no name", "dns:NAME:PORT"),
            ("file:", "names no file", "file:PATH"),
            ("env:", "names no variable", "env:VARIABLE"),
        ] {
            let said = text.parse::<PeerSource>().unwrap_err().to_string();
            assert!(said.contains(problem) && said.contains(expected), "{text}: {said}");
        }
    }

    #[test]
    fn a_file_has_a_form_on_each_line_and_comments() {
        let text = "# peers\n\n 10.0.0.1:7000 # first\ndns:web:7000\r\n";
        let sources = read_lines(text.as_bytes()).unwrap();
        let forms: Vec<String> = sources.iter().map(PeerSource::to_string).collect();
        assert_eq!(forms, ["10.0.0.1:7000", "dns:web:7000"]);
        let said = read_lines(b"10.0.0.1:7000\nweb\n").unwrap_err();
        assert!(said.starts_with("line 2: `web` has no port"), "{said}");
        let said = read_lines(b"file:other").unwrap_err();
        assert!(said.contains("names another list; expected HOST:PORT"), "{said}");
        assert!(read_lines(&[0xff]).unwrap_err().contains("UTF-8"));
        assert!(read_lines(&vec![b'#'; FILE_READ_MAX as usize]).unwrap_err().contains("64 KiB"));
    }
}
