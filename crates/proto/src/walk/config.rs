//! The settings of a server of walks.

use std::time::Duration;

use crate::core::ConfigError;
use crate::core::knobs::{ABOVE_ZERO, knobs};
use crate::graphshare::{BundleConfig, Discipline, QueueConfig};

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

/// The treatment of lost walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Other walks are generated until the requested number has *finished*: the paper's. Favours
    /// short walks.
    Regenerate,
    /// The same walk is done again, over the same path. Every requested walk is done.
    Reexecute,
}

knobs! {
    /// Walks are generated one at a time, with pauses: the paper's RG, and its variants.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PacedConfig {
        /// Time from one generation to the next. Calibrated with `gap`; the slides state none.
        pub interval: Duration = Duration::from_micros(20), ABOVE_ZERO..;
        /// What is added to it while the source is slow. Calibrated, so that a source that always
        /// pauses takes the published 69 s of experiment 1: 10,000 walks of each of 100 vertices,
        /// one in `interval` + `gap` = 69 us. In the paper's program it is a sleep of 1 ns; how
        /// long that takes is not stated.
        pub gap: Duration = Duration::from_micros(49);
        /// What is added until three walks of a source vertex have finished.
        pub start_gap: Duration = Duration::from_micros(10);
        /// Generations that a loss or mark makes slow: the slides' x. With `Regenerate` they are
        /// counted from the last loss, with `Reexecute` each mark adds as many, to `window` at
        /// most: it is heard of once, where the paper's loss is found again at each look.
        pub clean: u32 [generations] = 3, 0..=1_000;
        /// How many of a vertex's latest walks are looked at for losses, with `Regenerate`; the
        /// most slow generations ahead, with `Reexecute`. The slides state that walks within a
        /// range of ages count; the number is an assumption of this implementation.
        pub window: usize [walks] = 50, 1..=1_000_000;
        /// Whether a source hears at once of a walker that its own server drops.
        pub is_direct: bool [flag; library] = true;
    }
    with {
        /// When it slows down.
        control: Control = Control::Loss;
        /// What is done about walks that get lost.
        recovery: Recovery = Recovery::Regenerate;
    }
}

impl PacedConfig {
    /// The paper's pace for walks of which none may be lost: marks slow sources down, six
    /// generations each, with which experiment 1 takes as long as with the paper's drops.
    pub fn exact() -> PacedConfig {
        PacedConfig { recovery: Recovery::Reexecute, clean: 6, ..PacedConfig::default() }
    }
}

knobs! {
    /// As many walks are under way as a window allows, which grows steadily and shrinks at marks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WindowConfig {
        /// Walks under way at the beginning.
        pub first: usize [walks] = 256, 1..;
        /// The most walks under way, of one job; about 100 bytes each and their paths.
        pub most: usize [walks] = 262_144, 1..;
        /// Walks that are generated at once, at least, while the window allows them.
        pub batch: usize [walks] = 32, 1..;
        /// By how many walks the window grows in a millisecond without a mark.
        pub growth_per_ms: usize [walks] = 64, 0..=1_000_000;
    }
    rules: |window| {
        let holds = window.most >= window.first;
        ConfigError::unless(holds, "most", window.most, "at least `first`")
    };
}

knobs! {
    /// All walks go in supersteps, one step in each: a bulk-synchronous engine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct StepConfig {
        /// The most walks of a home under way, about 100 bytes each and their paths; others begin
        /// with the superstep after one has ended. Fewer take more supersteps.
        pub active_max: usize [walks] = 65_536, 1..=1 << 24;
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

knobs! {
    /// What a server of walks is set to. The default is for networks; [`Config::paper`] is the
    /// paper's.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Config {
        /// Time that a hop takes its one worker, emulated. 0 for as long as it does take. The
        /// paper's servers: 4 us, and 4.5 us for the third.
        pub service: Duration = Duration::ZERO;
        /// Hops in a turn of the worker where `service` is 0. The default takes less than 100
        /// microseconds, after which the node sends and hears what has gathered.
        pub turn_hops: usize [hops; library] = 256, 1..;
        /// Times that a walk is begun before it counts as failed. With the default it is
        /// `walk_time_max` that ends it.
        pub attempts_max: u8 [times; library] = 255, 1..=255;
        /// The least time after which a walk is presumed lost. Processes that share a processor
        /// stand still for tens of milliseconds, all their walks with them. 0 with the paper's,
        /// 20 ms with its exact form. Source: as Linux's for TCP.
        pub timeout_min: Duration = Duration::from_millis(200);
        /// The longest a walk may take, with all its attempts.
        pub walk_time_max: Duration [time; library] = Duration::from_secs(60);
        /// Walks of a job that are under way, or done and not yet consumed by the application. No
        /// more are generated beyond it. The default is twice the largest window.
        pub results_max: usize [walks; library] = 524_288;
        /// Most remaining steps of the walkers of one client that wait at this server; walkers
        /// beyond it are dropped. As a home, this node has walks of at most half as many steps
        /// under way. A server needs at least its clients' value, or long walks are dropped on
        /// their way. A thread takes the default in about a second.
        pub home_steps_max: u64 [steps; library] = 1 << 24, 1 << 21..=1 << 48;
        /// Jobs at one time; more are refused.
        pub jobs_max: usize [jobs; library] = 64;
        /// Bytes of a graph that the server takes from clients, and again as many of rows that
        /// change.
        pub graph_bytes_max: usize [bytes; library] = 8 << 30;
    }
    with {
        /// Its walker queue.
        queue: QueueConfig = QueueConfig::default();
        /// Walkers that travel together.
        bundle: BundleConfig = BundleConfig::default();
        /// How it generates walks.
        generation: Generation = Generation::Window(WindowConfig::default());
    }
    rules: |config| {
        config.queue.check()?;
        config.bundle.check()?;
        match &config.generation {
            Generation::Paced(paced) => paced.check(),
            Generation::Window(window) => window.check(),
            Generation::Supersteps(steps) => steps.check(),
        }
    };
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

    /// The same servers and pace, with marks instead of drops, a queue for 10,000 walkers, and
    /// re-execution of lost walks: every requested walk is done, once.
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
}
