//! The words of a command, each taken as what it must be.

use std::time::Duration;

use paceline_proto::core::knobs::{Kind, Knobs, Value};
use paceline_proto::core::{Instant, NodeId};

/// The words of a command that were not taken yet. What is left at the end is an error, so a
/// command cannot be misspelled without notice.
#[derive(Clone)]
pub struct Words<'a> {
    words: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
    // How many nodes the run has; none before it has begun.
    nodes: Option<u32>,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a str, nodes: Option<u32>) -> Words<'a> {
        let is_option = |word: &&str| word.contains('=') && !word.starts_with('/');
        let (options, mut words): (Vec<_>, Vec<_>) = text.split_whitespace().partition(is_option);
        words.reverse();
        let options = options.into_iter().filter_map(|word| word.split_once('=')).collect();
        Words { words, options, nodes }
    }

    /// From now on nodes are those of a run of this many.
    pub fn set_nodes(&mut self, nodes: u32) {
        self.nodes = Some(nodes);
    }

    /// The next word, which is expected to be this.
    pub fn word(&mut self, expected: &str) -> Result<&'a str, String> {
        self.words.pop().ok_or_else(|| format!("expected {expected}"))
    }

    /// All words that are left, at least one.
    pub fn rest(&mut self, expected: &str) -> Result<Vec<&'a str>, String> {
        let mut words = vec![self.word(expected)?];
        words.extend(std::mem::take(&mut self.words).into_iter().rev());
        Ok(words)
    }

    /// `n3`, a node of the run.
    pub fn node(&mut self) -> Result<NodeId, String> {
        let word = self.word("a node")?;
        self.check(node(word)?)
    }

    /// `n1,n3`.
    pub fn list(&self, list: &str) -> Result<Vec<NodeId>, String> {
        list.split(',').map(|word| self.check(node(word)?)).collect()
    }

    /// `n1`, or `n1..n4` for all of them.
    pub fn nodes(&mut self) -> Result<Vec<NodeId>, String> {
        let word = self.word("a node")?;
        let (first, last) = word.split_once("..").unwrap_or((word, word));
        let (first, last) = (self.check(node(first)?)?, self.check(node(last)?)?);
        Ok((first.0..=last.0).map(NodeId).collect())
    }

    /// True if the next word is a node, or several.
    pub fn begin_with_node(&self) -> bool {
        self.words.last().is_some_and(|word| node(word.split('.').next().unwrap_or(word)).is_ok())
    }

    /// `20ms` from now, or `until 20ms` from the beginning.
    pub fn until(&mut self, now: Instant) -> Result<Instant, String> {
        match self.word("a time")? {
            "until" => {
                let word = self.word("a time")?;
                let until = Instant::ZERO + time(word)?;
                if until >= now { Ok(until) } else { Err(format!("{word} is over")) }
            }
            word => Ok(now + time(word)?),
        }
    }

    /// All nodes of the run.
    pub fn all_nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.unwrap_or(0)).map(NodeId::from)
    }

    /// A time as `20ms`.
    pub fn time(&mut self) -> Result<Duration, String> {
        time(self.word("a time")?)
    }

    /// A number of bytes.
    pub fn bytes(&mut self) -> Result<usize, String> {
        number(self.word("a number of bytes")?)
    }

    /// The value of `key=value`, if the command has it.
    pub fn option(&mut self, key: &str) -> Option<&'a str> {
        let place = self.options.iter().position(|(name, _)| *name == key)?;
        Some(self.options.remove(place).1)
    }

    /// The number of `key=number`, if the command has it.
    pub fn number<N: TryFrom<u64>>(&mut self, key: &str) -> Result<Option<N>, String> {
        self.option(key).map(number).transpose().map_err(|what| format!("{key}: {what}"))
    }

    /// Sets the knobs of a configuration that the command names.
    pub fn set_knobs<K: Knobs>(&mut self, config: &mut K) -> Result<(), String> {
        for knob in K::KNOBS {
            if let Some(text) = self.option(knob.name) {
                let value = match knob.kind {
                    _ if text == "none" => Value::Nothing,
                    Kind::Integer | Kind::Bytes => Value::Integer(number(text)?),
                    Kind::Time => Value::Time(time(text)?),
                    _ => return Err(format!("{} cannot be set in a transcript", knob.name)),
                };
                config.set(knob.name, value).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), String> {
        match (self.words.last(), self.options.first()) {
            (None, None) => Ok(()),
            (Some(word), _) => Err(format!("unexpected `{word}`")),
            (None, Some((key, _))) => Err(format!("unexpected `{key}=`")),
        }
    }

    /// The node, if it is one of the run's.
    pub fn check(&self, node: NodeId) -> Result<NodeId, String> {
        match self.nodes {
            Some(nodes) if node >= NodeId::from(nodes) => {
                Err(format!("{node} is not one of {nodes} nodes"))
            }
            _ => Ok(node),
        }
    }
}

/// `n3`.
pub fn node(word: &str) -> Result<NodeId, String> {
    let number = word.strip_prefix('n').and_then(|number| number.parse().ok());
    number.map(NodeId).ok_or_else(|| format!("`{word}` is not a node"))
}

pub fn number<N: TryFrom<u64>>(word: &str) -> Result<N, String> {
    let number = word.parse().ok().and_then(|number: u64| N::try_from(number).ok());
    number.ok_or_else(|| format!("`{word}` is not such a number"))
}

/// Milliseconds, as all times are shown.
pub fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}

pub fn time(word: &str) -> Result<Duration, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let nanos = units.into_iter().find_map(|(unit, nanos)| {
        let number: f64 = word.strip_suffix(unit)?.parse().ok()?;
        (number >= 0.0).then_some((number * nanos).round() as u64)
    });
    nanos.map(Duration::from_nanos).ok_or_else(|| format!("`{word}` is not a time in us, ms or s"))
}
