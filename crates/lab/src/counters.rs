//! All counters: of protocols, the simulator, the socket drivers, and the lab.

use paceline_proto::core::{CounterId, CounterSet, Counters};
use paceline_proto::slingshot::baselines::{ack, gossip, nak, srm};
use paceline_proto::{chain, detector, group, mircc, overlay, slingshot, walk};

use crate::LabError;

paceline_proto::counters! {
    /// What the lab adds.
    pub COUNTERS = "lab" {
        /// What the kernel granted for datagrams that have arrived, of all nodes together.
        DATAGRAM_RECEIVE_BYTES = "datagram_receive_bytes", [bytes];
    }
}

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
    &paceline_sim::counters::COUNTERS,
    &paceline_net::counters::COUNTERS,
    &COUNTERS,
];

/// The counter of this name.
pub(crate) fn find(name: &str) -> Option<CounterId> {
    SETS.iter().find_map(|set| set.find(name))
}

/// Adds counts that come as text, from another process.
///
/// # Errors
/// If one of them is not declared.
pub(crate) fn add_named(
    counters: &mut Counters,
    counted: impl IntoIterator<Item = (String, u64)>,
) -> Result<(), LabError> {
    for (name, n) in counted {
        let counter = find(&name);
        let unknown =
            || LabError::Run(format!("a process counted `{name}`, which is not declared"));
        counters.add(counter.ok_or_else(unknown)?, n);
    }
    Ok(())
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

    #[test]
    fn counts_of_another_process_are_added_and_unknown_ones_are_refused() {
        let mut counters = Counters::default();
        let counted = [("chain_duplicate", 2), ("sim_lost", 1), ("chain_duplicate", 3)];
        let counted = counted.map(|(name, n)| (name.to_owned(), n));
        add_named(&mut counters, counted).unwrap();
        assert_eq!(counters.sorted(), [("chain_duplicate", 5), ("sim_lost", 1)]);
        let error = add_named(&mut counters, [("chain_duplicat".to_owned(), 1)]).unwrap_err();
        assert!(error.to_string().contains("`chain_duplicat`"), "{error}");
    }
}
