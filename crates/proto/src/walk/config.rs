//! What a server of walks is set to.

use std::time::Duration;

use thiserror::Error;

/// Which walkers a queue turns away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discipline {
    /// Those that come when it is full.
    TailDrop,
    /// Some before it is full, more the longer it is. The paper's RQ.
    RedDrop,
    /// As few as with `TailDrop`; those that `RedDrop` would drop are marked, and their source
    /// hears of it. As ECN does for packets (RFC 3168).
    RedMark,
}

/// A walker queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Which walkers it turns away.
    pub discipline: Discipline,
    /// Average length, walkers, below which nothing is dropped or marked. Default 4,096, what a
    /// thread serves in a millisecond; the paper's is 5. Source: Floyd and Jacobson 1993, min_th.
    pub min_th: usize,
    /// Average length, walkers, from which on all are dropped or marked. Default 32,768, the
    /// paper's is 100. Source: as above, max_th.
    pub max_th: usize,
    /// The chance to be dropped or marked just below `max_th`, 0 to 1. Default 0.1. Source: max_p.
    pub max_p: f64,
    /// The part of the average that the length at each arrival makes up, above 0 to 1. Default 1:
    /// there is no averaging, as in the paper. Source: w_q.
    pub weight: f64,
    /// Whether the chance rises from `max_p` to 1 between `max_th` and twice that, instead of at
    /// once. Default false.
    pub is_gentle: bool,
    /// The most walkers; those that come then are lost. Default 65,536, the paper's is 100.
    pub limit: usize,
}

impl Default for QueueConfig {
    fn default() -> QueueConfig {
        QueueConfig {
            discipline: Discipline::RedMark,
            min_th: 4_096,
            max_th: 32_768,
            max_p: 0.1,
            weight: 1.0,
            is_gentle: false,
            limit: 65_536,
        }
    }
}

impl QueueConfig {
    fn check(&self) -> Result<(), ConfigError> {
        let QueueConfig { min_th, max_th, max_p, weight, limit, .. } = *self;
        if !(0.0..=1.0).contains(&max_p) {
            return wrong("max_p", &max_p, "0 to 1");
        }
        if !(weight > 0.0 && weight <= 1.0) {
            return wrong("weight", &weight, "above 0, to 1");
        }
        if max_th <= min_th {
            return wrong("max_th", &max_th, "more than min_th");
        }
        if limit == 0 || limit > 1 << 24 {
            return wrong("limit", &limit, "1 to 2^24");
        }
        Ok(())
    }

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

/// Walkers that travel together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleConfig {
    /// The most walkers in a datagram, 1 to 1,024. Default 1,024: as many as fit. 1 is the paper's.
    pub walkers_max: usize,
    /// How long a walker waits for others at most while its server has more to do; once that has
    /// nothing left to do, all leave. Default 200 us.
    pub deadline: Duration,
}

impl Default for BundleConfig {
    fn default() -> BundleConfig {
        BundleConfig { walkers_max: 1024, deadline: Duration::from_micros(200) }
    }
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

/// When sources slow down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// While walks get lost or are marked: the paper's RG.
    Loss,
    /// Never: the paper's "sleep0".
    Never,
    /// Always: the paper's "sleep1".
    Always,
}

/// What is done about walks that get lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Others are generated until so many have *finished*: the paper's. Favours short walks.
    Regenerate,
    /// The same walk is done again, over the same path. Every walk that was asked for is done.
    Reexecute,
}

/// Walks are generated one at a time, with pauses: the paper's RG, and its variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacedConfig {
    /// When it slows down.
    pub control: Control,
    /// What is done about walks that get lost.
    pub recovery: Recovery,
    /// Time from one generation to the next. Default 20 us, calibrated with `gap`; the slides state
    /// none.
    pub interval: Duration,
    /// What is added to it while the source is slow. Default 49 us: calibrated, so that a source
    /// that always pauses takes the published 69 s of experiment 1: 10,000 walks of each of 100
    /// vertices, one in `interval` + `gap` = 69 us. In the paper's program it is a sleep of 1 ns;
    /// how long that takes is not stated.
    pub gap: Duration,
    /// What is added until three walks of a source vertex have finished. Default 10 us.
    pub start_gap: Duration,
    /// Generations that a loss or mark makes slow. Default 3: the slides' x. With `Regenerate` they
    /// are counted from the last loss, with `Reexecute` each mark adds as many, to `window` at
    /// most: it is heard of once, where the paper's loss is found again at each look.
    pub clean: u32,
    /// How many of a vertex's latest walks are looked at for losses, with `Regenerate`; the most
    /// slow generations ahead, with `Reexecute`. Default 50. The slides state that walks within a
    /// range of ages count; the number is an assumption of this implementation.
    pub window: usize,
    /// Whether a source hears at once of a walker that its own server drops. Default true.
    pub is_direct: bool,
}

impl Default for PacedConfig {
    fn default() -> PacedConfig {
        PacedConfig {
            control: Control::Loss,
            recovery: Recovery::Regenerate,
            interval: Duration::from_micros(20),
            gap: Duration::from_micros(49),
            start_gap: Duration::from_micros(10),
            clean: 3,
            window: 50,
            is_direct: true,
        }
    }
}

impl PacedConfig {
    /// The paper's pace for walks of which none may be lost: marks slow sources down, six
    /// generations each, with which experiment 1 takes as long as with the paper's drops.
    pub fn exact() -> PacedConfig {
        PacedConfig { recovery: Recovery::Reexecute, clean: 6, ..PacedConfig::default() }
    }
}

/// As many walks are under way as a window allows, which grows steadily and shrinks at marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowConfig {
    /// Walks under way at the beginning. Default 256.
    pub first: usize,
    /// The most walks under way, of one job. Default 262,144, about 100 bytes each and their paths.
    pub most: usize,
    /// Walks that are generated at once, at least, while there are so many. Default 32.
    pub batch: usize,
    /// By how many walks the window grows in a millisecond without a mark. Default 64.
    pub growth_per_ms: usize,
}

impl Default for WindowConfig {
    fn default() -> WindowConfig {
        WindowConfig { first: 256, most: 262_144, batch: 32, growth_per_ms: 64 }
    }
}

/// All walks go in supersteps, one step in each: a bulk-synchronous engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepConfig {
    /// The most walks of a home under way; others begin with the superstep after one has ended, 1
    /// to 2^24. Default 65,536, about 100 bytes each and their paths. Fewer take more supersteps.
    pub active_max: usize,
}

impl Default for StepConfig {
    fn default() -> StepConfig {
        StepConfig { active_max: 65_536 }
    }
}

/// How walks are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// One at a time, with pauses.
    Paced(PacedConfig),
    /// In batches, as a window allows. Lost walks are done again.
    Window(WindowConfig),
    /// As many as may be under way, in supersteps: each server takes a step with every walker that
    /// it has, and then all wait for each other. Queue and bundles do not count, nothing is dropped
    /// or marked, and nothing is done again.
    Supersteps(StepConfig),
}

/// What a server of walks is set to. The default is for networks; [`Config::paper`] is the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Its walker queue.
    pub queue: QueueConfig,
    /// Walkers that travel together.
    pub bundle: BundleConfig,
    /// How it generates walks.
    pub generation: Generation,
    /// Time that a hop takes its one worker, emulated. Default 0: as long as it does take. The
    /// paper's servers: 4 us, and 4.5 us for the third.
    pub service: Duration,
    /// Hops in a turn of the worker where `service` is 0. Default 256: less than 100
    /// microseconds, after which the node sends and hears what has gathered.
    pub turn_hops: usize,
    /// Times that a walk is begun before it counts as failed, 1 to 255. Default 255: it is
    /// `walk_time_max` that ends it.
    pub attempts_max: u8,
    /// The least time after which a walk is presumed lost. Default 200 ms: processes that share a
    /// processor stand still for tens of milliseconds, all their walks with them. 0 with the
    /// paper's, 20 ms with its exact form. Source: as Linux's for TCP.
    pub timeout_min: Duration,
    /// The longest a walk may take, with all its attempts. Default 60 s.
    pub walk_time_max: Duration,
    /// Walks of a job that are under way, or done and not yet consumed by the application. No more
    /// are generated beyond it. Default 524,288: twice the largest window.
    pub results_max: usize,
    /// Most remaining steps of the walkers of one client that wait at this server; walkers beyond
    /// it are dropped. As a home, this node has walks of at most half as many steps under way. A
    /// server needs at least its clients' value, or long walks are dropped on their way. 2^21 to
    /// 2^48, default 2^24, which a thread takes in about a second.
    pub home_steps_max: u64,
    /// Jobs at one time. Default 64; more are refused.
    pub jobs_max: usize,
    /// Bytes of a graph that the server takes from clients, and again as many of rows that change.
    /// Default 8 GiB.
    pub graph_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            queue: QueueConfig::default(),
            bundle: BundleConfig::default(),
            generation: Generation::Window(WindowConfig::default()),
            service: Duration::ZERO,
            turn_hops: 256,
            attempts_max: 255,
            timeout_min: Duration::from_millis(200),
            walk_time_max: Duration::from_secs(60),
            results_max: 524_288,
            home_steps_max: 1 << 24,
            jobs_max: 64,
            graph_bytes_max: 8 << 30,
        }
    }
}

impl Config {
    /// The paper's experiment 1: a hop takes 4 us, a walker is a datagram, RED drops, sources
    /// pause.
    pub fn paper() -> Config {
        Config {
            queue: QueueConfig::paper(),
            bundle: BundleConfig { walkers_max: 1, deadline: Duration::ZERO },
            generation: Generation::Paced(PacedConfig::default()),
            service: Duration::from_micros(4),
            timeout_min: Duration::ZERO,
            results_max: usize::MAX,
            ..Config::default()
        }
    }

    /// The same servers and pace with marks instead of drops, a queue that has room for 10,000, and
    /// lost walks done again: every walk that is asked for is done, once.
    pub fn exact() -> Config {
        let queue =
            QueueConfig { discipline: Discipline::RedMark, limit: 10_000, ..QueueConfig::paper() };
        Config {
            queue,
            generation: Generation::Paced(PacedConfig::exact()),
            timeout_min: Duration::from_millis(20),
            ..Config::paper()
        }
    }

    /// Checks that all is in its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.queue.check()?;
        self.bundle.check()?;
        if self.attempts_max == 0 {
            return wrong("attempts_max", &0, "1 to 255");
        }
        if self.turn_hops == 0 {
            return wrong("turn_hops", &0, "1 at least");
        }
        if !(1 << 21..=1 << 48).contains(&self.home_steps_max) {
            return wrong("home_steps_max", &self.home_steps_max, "2^21 to 2^48");
        }
        match self.generation {
            Generation::Paced(PacedConfig { interval, .. }) if interval.is_zero() => {
                wrong("interval", &"0", "more than 0")
            }
            Generation::Paced(PacedConfig { window: 0, .. }) => wrong("window", &0, "1 at least"),
            Generation::Window(WindowConfig { first, most, batch, .. })
                if first == 0 || most < first || batch == 0 =>
            {
                wrong("window", &format!("{first} to {most} by {batch}"), "each 1 at least, rising")
            }
            Generation::Supersteps(StepConfig { active_max })
                if !(1..=1 << 24).contains(&active_max) =>
            {
                wrong("active_max", &active_max, "1 to 2^24")
            }
            _ => Ok(()),
        }
    }
}

impl BundleConfig {
    /// The most walkers in a datagram.
    pub const WALKERS_MAX: usize = 1024;
    /// The longest deadline.
    pub const DEADLINE_MAX: Duration = Duration::from_secs(1);

    fn check(&self) -> Result<(), ConfigError> {
        if !(1..=BundleConfig::WALKERS_MAX).contains(&self.walkers_max) {
            return wrong("walkers_max", &self.walkers_max, "1 to 1,024");
        }
        if self.deadline > BundleConfig::DEADLINE_MAX {
            return wrong("deadline", &format!("{:?}", self.deadline), "1 s at most");
        }
        Ok(())
    }
}

fn wrong(key: &'static str, value: &dyn ToString, range: &'static str) -> Result<(), ConfigError> {
    Err(ConfigError { key, value: value.to_string(), range })
}

/// A setting out of its range. Whoever set it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{key}` is {value}: {range} is possible")]
pub struct ConfigError {
    /// The setting.
    pub key: &'static str,
    /// What it was to be.
    pub value: String,
    /// What it may be.
    pub range: &'static str,
}
