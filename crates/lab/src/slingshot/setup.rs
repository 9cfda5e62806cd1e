//! Which protocol the members speak, and its knobs: the table `[protocol]`.

use std::time::Duration;

use paceline_proto::core::{NodeId, View};
use paceline_proto::slingshot::baselines::{ack, nak, srm};
use paceline_proto::slingshot::{
    Code, Config, ConfigError, Order, PartialCopies, Pull, PullFrom, Rate, RepairBy,
};

use super::overlap::Overlap;
use crate::LabError;
use crate::scenario::{KnownKeys, Table};

/// The protocol of a scenario, with what its members agree on.
#[derive(Clone, Debug, PartialEq)]
pub enum Setup {
    /// Receivers repair each other or, with `kind = "sender-fec"`, senders repair what they sent.
    Slingshot(Config),
    /// Requests and repairs to everybody: `kind = "srm"`.
    Srm(srm::Config),
    /// Questions to the sender, `kind = "nak"`, or to who has the packet, `"digest-pull"`.
    Nak(nak::Config),
    /// Every packet is acknowledged by every receiver: `kind = "ack"`.
    Ack(ack::Config),
}

/// The keys of `[workload]` and `[measure]`.
const WORKLOAD: (&str, &[&str]) =
    ("workload", &["senders", "groups", "group_size", "rate", "size", "start", "spacing"]);
const MEASURE: (&str, &[&str]) = (
    "measure",
    &["warmup", "drain", "throughput_within", "throughput_share", "rate_min", "rate_max"],
);

/// The keys of repairs, whoever sends them, and of the second phase.
const REPAIRS: (&str, &[&str]) = (
    "protocol",
    &[
        "r",
        "c",
        "window",
        "pull",
        "pull_after",
        "ask",
        "order",
        "deadline",
        "lost_after",
        "flush_after",
        "partial",
        "heartbeat_after",
        "keep",
        "check_wire",
    ],
);

/// The keys that the tables of a scenario of Slingshot accept.
pub(crate) const KEYS: KnownKeys =
    &[REPAIRS, ("protocol", &["code", "stagger", "repairs"]), WORKLOAD, MEASURE];

/// Those of `kind = "sender-fec"`.
pub(crate) const FEC_KEYS: KnownKeys = &[REPAIRS, WORKLOAD, MEASURE];

/// Those of `kind = "ack"`.
pub(crate) const ACK_KEYS: KnownKeys = &[
    (
        "protocol",
        &[
            "retry_after",
            "resends_max",
            "resends_per_second",
            "order",
            "deadline",
            "lost_after",
            "check_wire",
        ],
    ),
    WORKLOAD,
    MEASURE,
];

/// The keys of each kind of multicast in time.
pub(crate) const KINDS: [(&str, KnownKeys); 6] = [
    ("slingshot", KEYS),
    ("srm", SRM_KEYS),
    ("nak", NAK_KEYS),
    ("digest-pull", DIGEST_KEYS),
    ("sender-fec", FEC_KEYS),
    ("ack", ACK_KEYS),
];

/// Those of `kind = "srm"`.
pub(crate) const SRM_KEYS: KnownKeys = &[
    (
        "protocol",
        &[
            "distance",
            "timers",
            "c1",
            "c2",
            "d1",
            "d2",
            "session_every",
            "reports",
            "order",
            "deadline",
            "lost_after",
            "check_wire",
        ],
    ),
    WORKLOAD,
    MEASURE,
];

/// The keys of questions to single members.
const QUESTIONS: (&str, &[&str]) = (
    "protocol",
    &[
        "backoff",
        "retry_after",
        "asks_max",
        "answer",
        "order",
        "deadline",
        "heartbeat_after",
        "check_wire",
    ],
);

/// Those of `kind = "nak"`.
pub(crate) const NAK_KEYS: KnownKeys = &[QUESTIONS, WORKLOAD, MEASURE];

/// Those of `kind = "digest-pull"`.
pub(crate) const DIGEST_KEYS: KnownKeys =
    &[QUESTIONS, ("protocol", &["digest"]), WORKLOAD, MEASURE];

/// Repairs, or packets of each sender, whose packets at the end of a run are not judged: what
/// would bring them back, or show that they are missing, is not sent any more.
const TAIL: u64 = 4;
/// A question to a group is not heard for so long after its answer.
const QUIET: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum CodeName {
    Xor,
    Rlc,
}

impl Setup {
    /// Reads the knobs of a protocol, by its name, and the order that it promises.
    pub(super) fn read(
        kind: &str,
        table: &mut Table<'_>,
        nodes: u32,
        overlap: Option<&Overlap>,
    ) -> Result<(Setup, Order), LabError> {
        let orders = [("unordered", Order::Unordered), ("fifo", Order::Fifo)];
        let order = table.choice_or("order", &orders, "unordered")?;
        let deadline = table.duration_or("deadline", Duration::from_millis(200))?;
        let base = Config::new(View::roster((0..nodes).map(NodeId)))
            .with_order(order)
            .with_deadline(deadline);
        let base = match overlap {
            Some(overlap) => base.with_groups(overlap.configured()),
            None => base,
        };
        let setup = match kind {
            "srm" => Setup::Srm(read_srm(table, base)?),
            "nak" => Setup::Nak(read_nak(table, base, false)?),
            "digest-pull" => Setup::Nak(read_nak(table, base, true)?),
            "ack" => Setup::Ack(read_ack(table, base)?),
            "sender-fec" => Setup::Slingshot(read_fec(table, base)?),
            _ => Setup::Slingshot(read_slingshot(table, base)?),
        };
        Ok((setup, order))
    }

    /// What its members know of repairs that receivers send unasked, if they send any.
    pub fn repairs(&self) -> Option<&Config> {
        match self {
            Setup::Slingshot(config)
                if config.has_repairs() && config.repair_by() == RepairBy::Receivers =>
            {
                Some(config)
            }
            _ => None,
        }
    }

    /// The largest payload, bytes, where a datagram carries so many.
    pub(super) fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        match self {
            Setup::Slingshot(config) => config.payload_bytes_max(datagram_bytes_max),
            Setup::Srm(config) => config.payload_bytes_max(datagram_bytes_max),
            Setup::Nak(config) => config.payload_bytes_max(datagram_bytes_max),
            Setup::Ack(config) => config.payload_bytes_max(datagram_bytes_max),
        }
    }

    /// How many packets of the group at the end of a run are not judged.
    pub(super) fn tail(&self, senders: u32) -> u64 {
        let span = match self {
            // A block of each sender's own packets.
            Setup::Slingshot(config) if config.repair_by() == RepairBy::Sender => {
                config.names_max() as u64 * u64::from(senders)
            }
            Setup::Slingshot(config) => match config.code() {
                Code::Xor { stagger } => (config.rate().r * stagger) as u64,
                Code::Rlc { window } => window as u64,
            },
            Setup::Srm(_) | Setup::Nak(_) | Setup::Ack(_) => senders.into(),
        };
        TAIL * span
    }
}

fn read_slingshot(table: &mut Table<'_>, base: Config) -> Result<Config, LabError> {
    let rate = Rate {
        r: table.integer_or("r", 1..=32usize, 8)?,
        c: table.integer_or("c", 1..=32usize, 3)?,
    };
    let codes = [("xor", CodeName::Xor), ("rlc", CodeName::Rlc)];
    let code = match table.choice_or("code", &codes, "xor")? {
        CodeName::Xor if table.has("window") => {
            let problem = "`window` is of the random linear code";
            return Err(table.error("window", problem, "`window` with code = \"rlc\" only"));
        }
        CodeName::Rlc if table.has("stagger") => {
            let problem = "`stagger` is of the exclusive or";
            return Err(table.error("stagger", problem, "`stagger` with code = \"xor\" only"));
        }
        CodeName::Xor => Code::Xor { stagger: table.integer_or("stagger", 1..=64usize, 1)? },
        CodeName::Rlc => Code::Rlc { window: table.integer_or("window", 2..=128usize, 32)? },
    };
    let config =
        base.with_rate(rate).with_repairs(table.boolean_or("repairs", true)?).with_code(code);
    read_times(table, config, true)
}

/// Sender-based forward error correction: `c` repairs of each `r` packets of a sender.
fn read_fec(table: &mut Table<'_>, base: Config) -> Result<Config, LabError> {
    let rate = Rate {
        r: table.integer_or("r", 1..=32usize, 8)?,
        c: table.integer_or("c", 1..=32usize, 3)?,
    };
    let window = table.integer_or("window", 2..=128usize, rate.r.max(2))?;
    let config =
        base.with_rate(rate).with_repair_by(RepairBy::Sender).with_code(Code::Rlc { window });
    read_times(table, config, false)
}

/// The second phase, and the times that do not depend on whose packets are repaired.
fn read_times(table: &mut Table<'_>, base: Config, pulls: bool) -> Result<Config, LabError> {
    let pull_after = table.duration_or("pull_after", Pull::default().after_min)?;
    let asked = [("sender", PullFrom::Sender), ("holders", PullFrom::Holders)];
    let from = table.choice_or("ask", &asked, "sender")?;
    let pull = Pull { from, after_min: pull_after, ..Pull::default() };
    let flush_after = table.duration_or("flush_after", Duration::from_millis(10))?;
    let copies = [("all", PartialCopies::All), ("scaled", PartialCopies::Scaled)];
    let config = base
        .with_pull(table.boolean_or("pull", pulls)?.then_some(pull))
        .with_keep(table.duration_or("keep", Duration::from_secs(1))?)
        .with_lost_after(table.duration_or("lost_after", Duration::from_millis(500))?)
        .with_flush_after((!flush_after.is_zero()).then_some(flush_after))
        .with_partial_copies(table.choice_or("partial", &copies, "all")?)
        .with_heartbeat_after(read_heartbeat(table)?);
    config.build().map_err(|error| refused(table, &error))
}

fn read_srm(table: &mut Table<'_>, base: Config) -> Result<srm::Config, LabError> {
    let lost_after = table.duration_or("lost_after", Duration::from_secs(60))?;
    let base = base
        .with_keep(lost_after)
        .with_lost_after(lost_after)
        .with_window_packets(1 << 16)
        .with_packets_max(1 << 16)
        .with_bytes_max(64 << 20);
    let distance = match table.duration_optional("distance")? {
        Some(distance) => srm::Distance::Fixed(distance),
        None => srm::Distance::Estimated { first: Duration::from_secs(1) },
    };
    let timers =
        match table.choice_or("timers", &[("fixed", false), ("adaptive", true)], "fixed")? {
            false => {
                let published = srm::Factors::default();
                srm::Timers::Fixed(srm::Factors {
                    c1: table.number_or("c1", 0.0..=1000.0, published.c1)?,
                    c2: table.number_or("c2", 0.0..=1000.0, published.c2)?,
                    d1: table.number_or("d1", 0.0..=1000.0, published.d1)?,
                    d2: table.number_or("d2", 0.0..=1000.0, published.d2)?,
                })
            }
            true => {
                if let Some(key) = ["c1", "c2", "d1", "d2"].into_iter().find(|key| table.has(key)) {
                    let problem = format!("`{key}` is found at run time");
                    return Err(table.error(key, problem, "factors with timers = \"fixed\" only"));
                }
                srm::Timers::Adaptive
            }
        };
    let reports = [("all", srm::Reports::All), ("own", srm::Reports::Own)];
    let config = srm::Config::new(base)
        .with_distance(distance)
        .with_timers(timers)
        .with_session_every(table.duration_or("session_every", Duration::from_secs(1))?)
        .with_reports(table.choice_or("reports", &reports, "all")?);
    config.build().map_err(|error| refused(table, &error))
}

fn read_nak(
    table: &mut Table<'_>,
    base: Config,
    has_digest: bool,
) -> Result<nak::Config, LabError> {
    let answers =
        [("unicast", nak::Answer::Unicast), ("group", nak::Answer::Group { quiet: QUIET })];
    let base = base.with_heartbeat_after(read_heartbeat(table)?);
    let config = match has_digest {
        true => {
            let names = table.integer_or("digest", 1..=64usize, 8)?;
            nak::Config::digest(base).with_digest(names)
        }
        false => nak::Config::sender(base),
    };
    let config = config
        .with_backoff(table.duration_or("backoff", Duration::from_millis(1))?)
        .with_retry_after(table.duration_or("retry_after", Duration::from_millis(2))?)
        .with_asks_max(table.integer_or("asks_max", 1..=255u8, 50)?)
        .with_answer(table.choice_or("answer", &answers, "unicast")?);
    config.build().map_err(|error| refused(table, &error))
}

fn read_ack(table: &mut Table<'_>, base: Config) -> Result<ack::Config, LabError> {
    let base = base.with_lost_after(table.duration_or("lost_after", Duration::from_millis(500))?);
    let config = ack::Config::new(base)
        .with_retry_after(table.duration_or("retry_after", Duration::from_millis(2))?)
        .with_resends_max(table.integer_or("resends_max", 1..=255u8, 50)?)
        .with_resends_per_second(table.integer_or(
            "resends_per_second",
            1..=10_000_000u32,
            20_000,
        )?);
    config.build().map_err(|error| refused(table, &error))
}

/// After how much silence a heartbeat is sent. Zero stands for never.
fn read_heartbeat(table: &mut Table<'_>) -> Result<Option<Duration>, LabError> {
    let after = table.duration_or("heartbeat_after", Duration::from_millis(100))?;
    Ok((!after.is_zero()).then_some(after))
}

fn refused(table: &Table<'_>, error: &ConfigError) -> LabError {
    let key = match error {
        ConfigError::NoTime { knob: "after_min" } => "pull_after",
        ConfigError::NoTime { knob } => knob,
        ConfigError::OutOfRange { knob, .. } => knob.rsplit('.').next().unwrap_or(knob),
        ConfigError::SameGroup { .. } => "kind",
    };
    table.error(key, error.to_string(), "see docs/protocols/slingshot.md for the ranges")
}
