//! A catalog of two services, for the tests of this crate's readers.

use super::{Catalog, Keys, ServiceKind};

const KEYS: Keys = Keys {
    named: &[("protocol", &["topology"]), ("workload", &["senders", "size", "messages"])],
    knobs: &[],
    renamed: &[],
};

macro_rules! scenario {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/", $name, ".toml")),
        )
    };
}

/// One service of streams, one of datagrams.
pub(crate) static CATALOG: Catalog = Catalog {
    kinds: &[
        ServiceKind::of_streams("chain", KEYS),
        ServiceKind::of_datagrams("slingshot", Keys::NONE),
    ],
    scenarios: &[scenario!("chain/ten"), scenario!("slingshot/repair")],
    counters: &[],
};
