use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How nodes find who is responsible for a key. All nodes of an overlay need the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// A ring with fingers. Stoica et al. 2003.
    #[default]
    Chord,
    /// A ring with the edges of a de Bruijn graph. Kaashoek and Karger 2003.
    Koorde,
    /// Prefixes of digits, with the nearest nodes at the end. Rowstron and Druschel 2001.
    Pastry,
    /// Prefixes of digits, with surrogates at the end. Zhao et al. 2004.
    Tapestry,
    /// Buckets by the exclusive-or of keys. Maymounkov and Mazières 2002.
    Kademlia,
}

impl Algorithm {
    /// All five.
    pub const ALL: [Algorithm; 5] = [
        Algorithm::Chord,
        Algorithm::Koorde,
        Algorithm::Pastry,
        Algorithm::Tapestry,
        Algorithm::Kademlia,
    ];

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Chord => "chord",
            Algorithm::Koorde => "koorde",
            Algorithm::Pastry => "pastry",
            Algorithm::Tapestry => "tapestry",
            Algorithm::Kademlia => "kademlia",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that names no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{text}` is no algorithm: one of {}", Algorithm::ALL.map(Algorithm::name).join(", "))]
pub struct UnknownAlgorithm {
    /// The text.
    pub text: String,
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Algorithm, UnknownAlgorithm> {
        let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        found.ok_or_else(|| UnknownAlgorithm { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_the_algorithm_that_has_it() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        let error = "can".parse::<Algorithm>().unwrap_err().to_string();
        let all = "chord, koorde, pastry, tapestry, kademlia";
        assert_eq!(error, format!("`can` is no algorithm: one of {all}"));
    }
}
