//! The requests: their keys, requesters, times and bundles.

use std::time::Duration;

use paceline_proto::core::{NodeId, Payload, mix};
use paceline_proto::overlay::{Item, Key, Operation, Outcome, Style};

/// Where nodes have their tables from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// From joining, and looking after them.
    Joined,
    /// They are filled as if every node knew every other.
    Ideal,
}

/// Which keys travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grouping {
    /// Each on its own.
    Serial,
    /// Consecutive ones of the list as it is.
    Random,
    /// Consecutive ones of the sorted list.
    Clustered,
}

impl Grouping {
    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Grouping::Serial => "serial",
            Grouping::Random => "random",
            Grouping::Clustered => "clustered",
        }
    }
}

/// What is done with keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A value is written.
    Put,
    /// The value is read.
    Get,
    /// A payload is delivered to the application of the responsible node.
    Send,
}

/// When a bundle is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// So long after the one before it, by whichever requester.
    Open(Duration),
    /// Once the requester's one before it is answered.
    Closed,
}

/// All keys once, in one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What is done.
    pub action: Action,
    /// How bundles travel.
    pub style: Style,
    /// Which keys are a bundle.
    pub grouping: Grouping,
    /// How many nodes ask, in turn; `None` if any node may be drawn for each bundle.
    pub clients: Option<u32>,
    /// When the first bundle is sent.
    pub begins: Duration,
    /// The number of its first bundle.
    pub first_bundle: u32,
}

/// What a run asks for.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where tables come from.
    pub tables: Tables,
    /// Between the joins of two nodes.
    pub join_every: Duration,
    /// One after the other.
    pub phases: Vec<Phase>,
    /// When bundles are sent.
    pub pace: Pace,
    /// Keys of a bundle.
    pub bundle: usize,
    /// All keys, in the order of the list.
    pub keys: Vec<Key>,
    /// All keys, sorted within windows of the list.
    pub sorted: Vec<Key>,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// How long nodes keep a value.
    pub lifetime: Duration,
    /// What requesters are drawn from.
    pub seed: u64,
}

impl Plan {
    /// The keys of a list of this many.
    pub fn keys(count: usize, seed: u64) -> Vec<Key> {
        let name = |number: u64| [mix(seed), number].map(u64::to_be_bytes).concat();
        (0..count as u64).map(|number| Key::of(&name(number))).collect()
    }

    /// The keys sorted within consecutive windows; 0 for one window of all.
    pub fn sorted(keys: &[Key], window: usize) -> Vec<Key> {
        let mut sorted = keys.to_vec();
        let window = if window == 0 { keys.len().max(1) } else { window };
        sorted.chunks_mut(window).for_each(<[Key]>::sort_unstable);
        sorted
    }

    /// Keys of a bundle of this phase.
    pub fn bundle_of(&self, grouping: Grouping) -> usize {
        if grouping == Grouping::Serial { 1 } else { self.bundle }
    }

    /// Bundles of a phase.
    pub fn bundles_of(&self, grouping: Grouping) -> u32 {
        self.keys.len().div_ceil(self.bundle_of(grouping)) as u32
    }

    /// Bundles of all phases.
    pub fn bundles(&self) -> u32 {
        self.phases.last().map_or(0, |last| last.first_bundle + self.bundles_of(last.grouping))
    }

    /// The phase of a bundle.
    pub fn phase_of(&self, bundle: u32) -> usize {
        self.phases.partition_point(|phase| phase.first_bundle <= bundle).saturating_sub(1)
    }

    /// A bundle's phase and keys.
    pub fn contents(&self, bundle: u32) -> (usize, &[Key]) {
        let number = self.phase_of(bundle);
        let phase = &self.phases[number];
        let keys = match phase.grouping {
            Grouping::Clustered => &self.sorted,
            Grouping::Serial | Grouping::Random => &self.keys,
        };
        let size = self.bundle_of(phase.grouping);
        let from = (bundle - phase.first_bundle) as usize * size;
        (number, &keys[from..keys.len().min(from + size)])
    }

    /// The requester of a bundle. A bundle of one key has the same requester however keys are
    /// grouped.
    pub fn requester(&self, bundle: u32, nodes: u32) -> NodeId {
        let (number, keys) = self.contents(bundle);
        let phase = &self.phases[number];
        let drawn = |what: u64| (mix(self.seed ^ mix(what)) % u64::from(nodes)) as u32;
        match phase.clients {
            None => {
                // Keys are hashes: eight of their bytes are as good as all.
                let bytes = keys[0].to_bytes().into_iter().take(8);
                let first = bytes.fold(0, |sum, byte| sum << 8 | u64::from(byte));
                NodeId::from(drawn(first ^ mix(phase.action as u64 + 1)))
            }
            Some(clients) => {
                // The same ones in each phase, apart from each other.
                let client = (bundle - phase.first_bundle) % clients;
                NodeId::from((drawn(0) + client * (nodes / clients).max(1)) % nodes)
            }
        }
    }

    /// When a bundle is sent, if those before it are answered.
    pub fn due(&self, bundle: u32) -> Duration {
        let phase = &self.phases[self.phase_of(bundle)];
        match self.pace {
            Pace::Closed => phase.begins,
            Pace::Open(every) => phase.begins + every * (bundle - phase.first_bundle),
        }
    }

    /// What a bundle asks for.
    pub fn operation(&self, bundle: u32) -> Operation {
        let (phase, keys) = self.contents(bundle);
        match self.phases[phase].action {
            Action::Get => Operation::Get(keys.to_vec()),
            Action::Put => {
                let item =
                    |&key: &Key| Item { key, value: self.value(key), lifetime: self.lifetime };
                Operation::Put(keys.iter().map(item).collect())
            }
            Action::Send => Operation::Send { keys: keys.to_vec(), payload: self.payload(bundle) },
        }
    }

    /// What is sent to the keys of a bundle: its number, and nothing up to the size of a value.
    pub fn payload(&self, bundle: u32) -> Payload {
        let mut payload = bundle.to_be_bytes().to_vec();
        payload.resize(self.value_bytes.max(payload.len()), 0);
        Payload::from(payload)
    }

    /// The bundle that was sent with this payload, if there is one.
    pub fn bundle_sent(&self, payload: &Payload) -> Option<u32> {
        let bytes = payload.to_bytes();
        let number = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
        (number < self.bundles()).then_some(number)
    }

    /// What is written under a key.
    pub fn value(&self, key: Key) -> Payload {
        let mut value = key.to_bytes().repeat(self.value_bytes.div_ceil(Key::BYTES));
        value.truncate(self.value_bytes);
        Payload::from(value)
    }

    /// True if this may become of a key in a phase.
    pub fn is_right(&self, phase: usize, key: Key, outcome: &Outcome) -> bool {
        match (self.phases[phase].action, outcome) {
            (Action::Put, Outcome::Stored { .. }) => true,
            (Action::Get, Outcome::Found { value, .. }) => *value == self.value(key),
            (Action::Send, Outcome::Delivered) => true,
            _ => false,
        }
    }
}
