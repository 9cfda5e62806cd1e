//! All counters: of protocols, the simulator, the socket drivers, and the lab.

use paceline_baselines::{ack, gossip, nak, srm};
use paceline_lab::world;
use paceline_proto::core::{CounterId, CounterSet};
use paceline_proto::{
    chain, detector, graphshare, group, host, mircc, overlay, slingshot, status, walk,
};

/// Every set of counters there is.
pub static SETS: &[&CounterSet] = &[
    &chain::counters::COUNTERS,
    &group::counters::COUNTERS,
    &detector::counters::COUNTERS,
    &overlay::counters::COUNTERS,
    &slingshot::counters::COUNTERS,
    &srm::counters::COUNTERS,
    &nak::counters::COUNTERS,
    &ack::counters::COUNTERS,
    &gossip::counters::COUNTERS,
    &mircc::counters::COUNTERS,
    &walk::counters::COUNTERS,
    &graphshare::counters::COUNTERS,
    &host::counters::COUNTERS,
    &status::counters::COUNTERS,
    &paceline_sim::counters::COUNTERS,
    &paceline_net::counters::COUNTERS,
    &world::counters::COUNTERS,
];

/// The counter of this name.
pub(crate) fn find(name: &str) -> Option<CounterId> {
    SETS.iter().find_map(|set| set.find(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_is_declared_once_and_says_what_is_counted() {
        let mut names = BTreeSet::new();
        for counter in SETS.iter().flat_map(|set| set.counters) {
            assert!(names.insert(counter.name), "{} is declared twice", counter.name);
            let is_of_words = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(counter.name.chars().all(is_of_words), "{}", counter.name);
            assert!(counter.help.ends_with('.'), "{}: {}", counter.name, counter.help);
        }
        assert!(names.len() > 400, "{}", names.len());
    }
}
