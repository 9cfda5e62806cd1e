//! Settings that a client sends to the servers together with a graph: how they queue and bundle the
//! walkers that pass them.

use std::time::Duration;

use bytes::{BufMut, Bytes};

use crate::core::Rng;
use crate::core::field::Field;
use crate::core::knobs::knobs;
use crate::core::{ConfigError, DecodeError, Payload, take_u8, take_u16, take_u32, take_u64};

/// Which walkers a queue turns away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Those that come when it is full.
    TailDrop,
    /// Some before it is full, more the longer it is. The paper's RQ.
    RedDrop,
    /// As few as with `TailDrop`. Walkers that `RedDrop` would drop are marked, which signals
    /// congestion to their source, as ECN does for packets (RFC 3168).
    RedMark,
}

knobs! {
    /// A walker queue.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct QueueConfig {
        /// Average length below which nothing is dropped or marked. The default is what a thread
        /// serves in a millisecond; the paper's is 5. Source: Floyd and Jacobson 1993, min_th.
        pub min_th: usize [walkers] = 4_096;
        /// Average length from which on all are dropped or marked, more than `min_th`. The paper's
        /// is 100. Source: as above, max_th.
        pub max_th: usize [walkers] = 32_768, 1..;
        /// The chance to be dropped or marked just below `max_th`. Source: max_p.
        pub max_p: f64 = 0.1, 0.0..=1.0;
        /// The part of the average that the length at each arrival makes up. At 1 there is no
        /// averaging, as in the paper. Source: w_q.
        pub weight: f64 = 1.0, f64::MIN_POSITIVE..=1.0;
        /// Whether the chance rises from `max_p` to 1 between `max_th` and twice that, instead of
        /// at once.
        pub is_gentle: bool = false;
        /// The most walkers; those that come then are lost. The paper's is 100.
        pub limit: usize [walkers] = 65_536, 1..=1 << 24;
    }
    with {
        /// Which walkers it turns away.
        discipline: Discipline = Discipline::RedMark;
    }
    rules: |queue| {
        let holds = queue.max_th > queue.min_th;
        ConfigError::unless(holds, "max_th", queue.max_th, "more than min_th")
    };
}

impl QueueConfig {
    /// The paper's: drops from 5 on, and all at 100.
    pub fn paper() -> QueueConfig {
        QueueConfig {
            discipline: Discipline::RedDrop,
            min_th: 5,
            max_th: 100,
            limit: 100,
            ..QueueConfig::default()
        }
    }
}

knobs! {
    /// Walkers that travel together.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct BundleConfig {
        /// The most walkers in a datagram. The default is as many as fit; 1 is the paper's.
        pub walkers_max: usize [walkers] = 1024, 1..=BundleConfig::WALKERS_MAX;
        /// How long a walker waits for others at most while its server has more to do; once that
        /// has nothing left to do, all leave.
        pub deadline: Duration
            = Duration::from_micros(200), Duration::ZERO..=BundleConfig::DEADLINE_MAX;
    }
}

impl BundleConfig {
    /// The most walkers in a datagram.
    pub const WALKERS_MAX: usize = 1024;
    /// The longest deadline.
    pub const DEADLINE_MAX: Duration = Duration::from_secs(1);
}

/// How walkers pass a server, as a client asks for it together with the graph that it supplies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PassConfig {
    /// Its walker queue.
    pub queue: QueueConfig,
    /// Walkers that travel together. A server sends at most [`BundleConfig::DEADLINE_MAX`] late.
    pub bundle: BundleConfig,
}

impl PassConfig {
    /// Checks that all is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.queue.check()?;
        self.bundle.check()
    }
}

/// Disciplines, each by its place in a message.
const DISCIPLINES: [Discipline; 3] =
    [Discipline::TailDrop, Discipline::RedDrop, Discipline::RedMark];

/// Values out of range are refused when they are read, so that no server applies them.
impl Field for PassConfig {
    const BYTES_MIN: usize = 1 + 4 + 4 + 8 + 8 + 1 + 4 + 2 + 4;

    fn bytes(_: &PassConfig) -> usize {
        PassConfig::BYTES_MIN
    }

    fn put<'a>(pass: &'a PassConfig, head: &mut impl BufMut) -> Option<&'a Payload> {
        let PassConfig { queue, bundle } = pass;
        let place = DISCIPLINES.iter().position(|other| *other == queue.discipline);
        head.put_u8(place.expect("all disciplines are listed") as u8);
        head.put_u32(queue.min_th as u32);
        head.put_u32(queue.max_th as u32);
        head.put_u64(queue.max_p.to_bits());
        head.put_u64(queue.weight.to_bits());
        head.put_u8(queue.is_gentle.into());
        head.put_u32(queue.limit as u32);
        head.put_u16(bundle.walkers_max as u16);
        head.put_u32(bundle.deadline.as_micros() as u32);
        None
    }

    fn take(bytes: &mut Bytes, _: &'static str) -> Result<PassConfig, DecodeError> {
        let out_of = |field, value| DecodeError::OutOfRange { field, value };
        let place = take_u8(bytes)?;
        let discipline = DISCIPLINES.get(usize::from(place));
        let discipline = *discipline.ok_or_else(|| out_of("discipline", place.into()))?;
        let (min_th, max_th) = (take_u32(bytes)? as usize, take_u32(bytes)? as usize);
        let (max_p, weight) = (f64::from_bits(take_u64(bytes)?), f64::from_bits(take_u64(bytes)?));
        let gentle = take_u8(bytes)?;
        if gentle > 1 {
            return Err(out_of("gentle", gentle.into()));
        }
        let limit = take_u32(bytes)? as usize;
        let is_gentle = gentle == 1;
        let queue = QueueConfig { discipline, min_th, max_th, max_p, weight, is_gentle, limit };
        let walkers_max = take_u16(bytes)?.into();
        let deadline = Duration::from_micros(take_u32(bytes)?.into());
        let pass = PassConfig { queue, bundle: BundleConfig { walkers_max, deadline } };
        pass.check().map_err(|error| out_of(error.knob(), 0))?;
        Ok(pass)
    }

    fn any(rng: &mut Rng) -> PassConfig {
        let min_th = rng.below(1000) as usize;
        let queue = QueueConfig {
            discipline: DISCIPLINES[rng.below(3) as usize],
            min_th,
            max_th: min_th + 1 + rng.below(1000) as usize,
            max_p: rng.unit(),
            weight: 0.01 + 0.9 * rng.unit(),
            is_gentle: bool::any(rng),
            limit: 1 + rng.below(1 << 24) as usize,
        };
        let deadline = Duration::from_micros(rng.below(1_000_001).into());
        let walkers_max = 1 + rng.below(BundleConfig::WALKERS_MAX as u32) as usize;
        PassConfig { queue, bundle: BundleConfig { walkers_max, deadline } }
    }
}
