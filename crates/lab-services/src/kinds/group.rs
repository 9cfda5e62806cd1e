use paceline_lab::scenario::Keys;
use paceline_proto::core::Knobs;
use paceline_proto::group::Config;
use paceline_proto::{chain, detector};

use super::chain::{MEASURE_KEYS, PROTOCOL_KEYS, RENAMED, WORKLOAD_KEYS};

/// The keys of a group's tables: a broadcast's, and some more.
pub(super) const KEYS: Keys = Keys {
    named: &[
        ("protocol", PROTOCOL_KEYS),
        ("workload", WORKLOAD_KEYS),
        ("workload", &["join_after"]),
        ("measure", MEASURE_KEYS),
    ],
    knobs: &[chain::Config::KNOBS, detector::Config::KNOBS, Config::KNOBS],
    renamed: RENAMED,
};
