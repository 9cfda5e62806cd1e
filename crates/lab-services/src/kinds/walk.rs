use paceline_lab::scenario::Keys;
use paceline_proto::core::Knobs;
use paceline_proto::walk::{
    BundleConfig, Config, PacedConfig, QueueConfig, StepConfig, WindowConfig,
};

/// The keys of scenarios of walks.
pub(super) const KEYS: Keys = Keys {
    named: NAMED,
    knobs: &[
        QueueConfig::KNOBS,
        BundleConfig::KNOBS,
        PacedConfig::KNOBS,
        WindowConfig::KNOBS,
        StepConfig::KNOBS,
        Config::KNOBS,
    ],
    renamed: RENAMED,
};

/// Former names of knobs.
const RENAMED: &[(&str, &str)] = &[
    ("x", "clean"),
    ("growth", "growth_per_ms"),
    ("active", "active_max"),
    ("bundle", "walkers_max"),
];

const NAMED: &[(&str, &[&str])] = &[
    ("protocol", &["method", "last_service", "check_wire"]),
    ("workload", &["block", "A", "B", "C", "walks", "walk", "alpha", "p", "q", "length", "paths"]),
    ("measure", &["figures"]),
];
