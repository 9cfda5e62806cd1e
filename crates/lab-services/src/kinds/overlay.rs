use paceline_lab::scenario::Keys;
use paceline_proto::core::Knobs;
use paceline_proto::overlay::{Config, Shape};

/// The keys of an overlay's tables.
pub(super) const KEYS: Keys =
    Keys { named: NAMED, knobs: &[Config::KNOBS, Shape::KNOBS], renamed: &[] };

const NAMED: &[(&str, &[&str])] = &[
    ("protocol", &["algorithm", "tables", "check_wire"]),
    (
        "workload",
        &[
            "keys",
            "size",
            "lifetime",
            "bundle",
            "window",
            "actions",
            "style",
            "grouping",
            "clients",
            "every",
            "phase",
            "join_every",
            "start",
        ],
    ),
    ("measure", &["figures"]),
];
