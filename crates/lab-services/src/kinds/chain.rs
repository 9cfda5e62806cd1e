use paceline_lab::scenario::Keys;
use paceline_proto::chain::Config;
use paceline_proto::core::Knobs;

/// The keys of a broadcast's tables.
pub(super) const KEYS: Keys = Keys {
    named: &[("protocol", PROTOCOL_KEYS), ("workload", WORKLOAD_KEYS), ("measure", MEASURE_KEYS)],
    knobs: &[Config::KNOBS],
    renamed: RENAMED,
};

/// Keys of `[protocol]` that are no knobs.
pub(super) const PROTOCOL_KEYS: &[&str] = &["topology", "check_wire"];

/// Former names of knobs.
pub(super) const RENAMED: &[(&str, &str)] = &[
    ("block", "block_bytes_max"),
    ("message_max", "message_bytes_max"),
    ("window", "window_bytes"),
    ("hop", "hop_bytes"),
    ("queue", "queue_bytes"),
];

/// Keys of `[workload]`.
pub(super) const WORKLOAD_KEYS: &[&str] = &[
    "senders",
    "size",
    "blocks",
    "messages",
    "rate",
    "quiet",
    "quiet_rate",
    "start",
    "spread",
    "read_rate",
    "content",
];

/// Keys of `[measure]`.
pub(super) const MEASURE_KEYS: &[&str] = &["figures", "warmup"];
