use paceline_lab::scenario::Keys;
use paceline_proto::core::Knobs;
use paceline_proto::mircc::{Config, ControllerConfig, ShaperConfig};

/// The keys of scenarios of named data.
pub(super) const KEYS: Keys = Keys {
    named: NAMED,
    knobs: &[ControllerConfig::KNOBS, ShaperConfig::KNOBS, Config::KNOBS],
    renamed: RENAMED,
};

/// Former names of knobs.
const RENAMED: &[(&str, &str)] = &[
    ("eta", "headroom"),
    ("beta", "queue_weight"),
    ("shaper_queue", "shaper_queue_max"),
    ("pending", "pending_max"),
    ("pending_bytes", "pending_bytes_max"),
    ("store", "store_bytes_max"),
    ("frame", "frame_bytes"),
    ("window", "window_max"),
];

const NAMED: &[(&str, &[&str])] = &[
    ("protocol", &["controller", "multipath", "pace", "strategy", "signature", "check_wire"]),
    (
        "workload",
        &[
            "network",
            "file",
            "routing",
            "flows",
            "bottleneck",
            "host_rate",
            "host_delay",
            "hop_delay",
            "joint",
            "left",
            "right",
            "second",
            "upper",
            "lower",
            "ways",
            "producer",
            "consumers",
            "plan",
            "step",
            "segment",
            "segments",
            "short",
            "long",
            "long_share",
        ],
    ),
    ("measure", &["figures", "settle"]),
];
