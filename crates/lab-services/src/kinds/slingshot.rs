use paceline_baselines::{ack, gossip, nak, srm};
use paceline_lab::scenario::Keys;
use paceline_proto::core::Knobs;
use paceline_proto::slingshot::{Config, Pull, Rate};

/// The keys of `[workload]` and `[measure]`.
const WORKLOAD: (&str, &[&str]) =
    ("workload", &["senders", "groups", "group_size", "rate", "size", "start", "spacing"]);
const MEASURE: (&str, &[&str]) = (
    "measure",
    &["warmup", "drain", "throughput_within", "throughput_share", "rate_min", "rate_max"],
);

/// Former names of knobs.
const RENAMED: &[(&str, &str)] = &[
    ("pull_after", "pull_after_min"),
    ("ask", "pull_from"),
    ("partial", "partial_copies"),
    ("digest", "digest_names"),
];

/// Keys of `[protocol]` that a kind reads by name, and knobs that it has all of.
macro_rules! keys {
    ([$($named:expr),*] $(, $knobs:expr)*) => {
        Keys {
            named: &[$(("protocol", $named),)* WORKLOAD, MEASURE],
            knobs: &[$($knobs),*],
            renamed: RENAMED,
        }
    };
}

/// Knobs of [`Config`] that every kind has.
pub(crate) const COMMON: &[&str] = &["order", "deadline"];
/// Those that `kind = "sender-fec"` has besides.
pub(crate) const FEC: &[&str] =
    &["keep", "lost_after", "flush_after", "partial_copies", "heartbeat_after"];
/// Knobs of [`nak::Config`] that `kind = "nak"` has.
pub(crate) const NAK: &[&str] = &["backoff", "retry_after", "asks_max"];

/// The keys that the tables of a scenario of Slingshot accept.
pub(super) const KEYS: Keys = keys!(
    [&["pull", "code", "window", "stagger", "check_wire"]],
    Config::KNOBS,
    Rate::KNOBS,
    Pull::KNOBS
);

/// Those of `kind = "sender-fec"`.
pub(super) const FEC_KEYS: Keys =
    keys!([COMMON, FEC, &["pull", "window", "check_wire"]], Rate::KNOBS, Pull::KNOBS);

/// Those of `kind = "ack"`.
pub(super) const ACK_KEYS: Keys =
    keys!([COMMON, &["lost_after", "check_wire"]], ack::Config::KNOBS);

/// Those of `kind = "gossip"`.
pub(super) const GOSSIP_KEYS: Keys = keys!([COMMON, &["check_wire"]], gossip::Config::KNOBS);

/// Those of `kind = "srm"`.
pub(super) const SRM_KEYS: Keys = keys!(
    [COMMON, &["lost_after", "distance", "timers", "check_wire"]],
    srm::Config::KNOBS,
    srm::Factors::KNOBS
);

/// Those of `kind = "nak"`.
pub(super) const NAK_KEYS: Keys =
    keys!([COMMON, NAK, &["heartbeat_after", "answer", "check_wire"]]);

/// Those of `kind = "digest-pull"`.
pub(super) const DIGEST_KEYS: Keys =
    keys!([COMMON, &["heartbeat_after", "answer", "check_wire"]], nak::Config::KNOBS);
