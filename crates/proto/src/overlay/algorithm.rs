use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::pastry::apart;
use super::{
    Chord, Kademlia, Key, Koorde, KoordeWalk, Leg, Pastry, Router, Shape, Space, Tapestry, Walk,
};
use crate::core::NodeId;

/// How nodes find the node responsible for a key. All nodes of an overlay must use the same.
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

    /// The table of node `own`, which knows no other node yet.
    pub fn router(self, space: Space, own: NodeId, shape: Shape) -> Box<dyn Router> {
        match self {
            Algorithm::Chord => Box::new(Chord::new(space, own, shape)),
            Algorithm::Koorde => Box::new(Koorde::new(space, own, shape)),
            Algorithm::Pastry => Box::new(Pastry::new(space, own, shape)),
            Algorithm::Tapestry => Box::new(Tapestry::new(space, own)),
            Algorithm::Kademlia => Box::new(Kademlia::new(space, own, shape)),
        }
    }

    /// How far `node` is from being responsible for `key`. The node for which this is least is
    /// responsible; the one for which it is least without that one holds the second replica, and
    /// so on.
    pub fn distance(self, key: Key, node: Key) -> Key {
        match self {
            Algorithm::Chord | Algorithm::Koorde => key.clockwise_to(node),
            Algorithm::Pastry => apart(key, node),
            Algorithm::Tapestry => node.digits_less(key),
            Algorithm::Kademlia => key ^ node,
        }
    }

    /// How far a message to `key` that has arrived at the node with key `at`, carrying `walk`,
    /// still has to go. Every hop lessens this, even if other tables are wrong, so a message cannot
    /// go in circles. Of two values the smaller is nearer.
    pub fn remaining(self, key: Key, at: Key, walk: Walk) -> (Key, Key) {
        match self {
            Algorithm::Chord => walk.leg().remaining(key, at),
            Algorithm::Koorde => Koorde::remaining(key, at, walk.koorde()),
            Algorithm::Pastry => Pastry::remaining(key, at, walk.leg()),
            Algorithm::Tapestry | Algorithm::Kademlia => (Key::ZERO, self.distance(key, at)),
        }
    }

    /// What a message carries at its first hop. Later ones have the same form.
    pub fn first_walk(self) -> Walk {
        match self {
            Algorithm::Chord | Algorithm::Pastry => Walk::Leg(Leg::default()),
            Algorithm::Koorde => Walk::Koorde(KoordeWalk::default()),
            Algorithm::Tapestry | Algorithm::Kademlia => Walk::None,
        }
    }

    /// True if a look-up of one key may ask several nodes at once
    /// ([`Config::with_parallel`](super::Config::with_parallel)).
    pub fn is_parallel(self) -> bool {
        self == Algorithm::Kademlia
    }

    /// The most copies of a record that nodes with tables of these sizes can place. Chord and
    /// Koorde keep them at the responsible node and its successors; tables of the others have more
    /// nodes near a key than copies are ever made.
    pub fn copies_max(self, shape: &Shape) -> usize {
        match self {
            Algorithm::Chord | Algorithm::Koorde => 1 + usize::from(shape.successors),
            Algorithm::Pastry | Algorithm::Tapestry | Algorithm::Kademlia => usize::MAX,
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
#[error(
    "`{text}` is not an algorithm: expected one of {}",
    Algorithm::ALL.map(Algorithm::name).join(", ")
)]
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
        assert_eq!(error, format!("`can` is not an algorithm: expected one of {all}"));
    }
}
