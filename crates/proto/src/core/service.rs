use super::knobs::Knobs;

/// The first four bytes of the hash of a service's kind and name, with the kind's length before
/// both: keeps services apart that share a cluster. By default it is that of a service without kind
/// or name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceNumber(pub u32);

impl ServiceNumber {
    /// The number in a node's own records: Hello, Who and Taken.
    pub const NODE: ServiceNumber = ServiceNumber(0);

    /// The number of the service of this kind with this name.
    pub fn of(kind: &str, name: &str) -> ServiceNumber {
        let length = (kind.len() as u64).to_be_bytes();
        let hash = hash_prefix(&[&length, kind.as_bytes(), name.as_bytes()].concat());
        ServiceNumber(hash.max(1))
    }

    /// The number of the service of this number on these terms: hosts that differ in the terms have
    /// different services. The usual terms leave a number as it is.
    pub fn on(self, terms: &Terms) -> ServiceNumber {
        if *terms == Terms::default() {
            return self;
        }
        let (number, version) = (self.0.to_be_bytes(), terms.version.to_be_bytes());
        let knobs = terms.knobs_line();
        let hash = hash_prefix(&[&number[..], &version, knobs.as_bytes()].concat());
        ServiceNumber(hash.max(1))
    }
}

/// The most knobs that are read of a peer's terms: to compare them costs time.
const KNOBS_MAX: usize = 32;

/// What all hosts of a service need alike to understand each other: the version of its messages,
/// and the knobs by which they read and bound what the others send. By default version 1 and no
/// knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The version of the messages.
    pub version: u16,
    /// The knobs, as text, by name.
    pub knobs: Vec<(String, String)>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { version: 1, knobs: Vec::new() }
    }
}

impl Terms {
    /// Adds knobs of a configuration, by their names. Names that it does not have are left out.
    pub fn with_knobs<K: Knobs>(mut self, config: &K, names: &[&str]) -> Terms {
        let named = K::KNOBS.iter().filter(|knob| names.contains(&knob.name));
        self.knobs.extend(named.filter_map(|knob| {
            let value = config.value(knob.name)?;
            Some((knob.name.to_owned(), knob.show(value)))
        }));
        self
    }

    /// Adds a knob.
    pub fn with(mut self, name: &str, value: impl ToString) -> Terms {
        self.knobs.push((name.to_owned(), value.to_string()));
        self
    }

    /// The knobs in one line: `window_bytes=1MiB;requests_max=256`.
    pub fn knobs_line(&self) -> String {
        let knobs: Vec<String> =
            self.knobs.iter().map(|(name, value)| format!("{name}={value}")).collect();
        knobs.join(";")
    }

    /// Reads what [`Terms::knobs_line`] wrote; at most 32 knobs.
    pub fn read(version: u16, line: &str) -> Terms {
        let knobs = line.split(';').filter_map(|knob| knob.split_once('=')).take(KNOBS_MAX);
        let knobs = knobs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Terms { version, knobs: knobs.collect() }
    }
}

impl Default for ServiceNumber {
    fn default() -> ServiceNumber {
        ServiceNumber::of("", "")
    }
}

/// The first four bytes of the hash (BLAKE3) of these bytes.
pub fn hash_prefix(bytes: &[u8]) -> u32 {
    let hash = blake3::hash(bytes);
    u32::from_be_bytes(hash.as_bytes()[..4].try_into().expect("a hash has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_read_back_and_each_part_of_them_makes_another_number() {
        let number = ServiceNumber::of("group", "g");
        assert_eq!(number.on(&Terms::default()), number);
        let terms = Terms::default().with("one", 1).with("two", "2KiB");
        assert_eq!(terms.knobs_line(), "one=1;two=2KiB");
        assert_eq!(Terms::read(1, "one=1;two=2KiB"), terms);
        assert_eq!(Terms::read(1, ""), Terms::default());
        assert_eq!(Terms::read(1, &"k=v;".repeat(1_000)).knobs.len(), KNOBS_MAX);
        let others = [
            Terms::default(),
            Terms { version: 2, ..Terms::default() },
            Terms { version: 2, ..terms.clone() },
            Terms::default().with("one", 1),
            Terms::default().with("one", 2).with("two", "2KiB"),
            terms,
        ];
        let mut numbers: Vec<_> = others.iter().map(|terms| number.on(terms)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), others.len());
    }
}
