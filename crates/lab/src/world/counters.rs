//! What the worlds count themselves, and counts that other processes report.

use paceline_proto::core::{CounterSet, Counters};

use crate::LabError;

paceline_proto::counters! {
    /// What the lab adds.
    pub COUNTERS = "lab" {
        /// Receive buffer that the kernel granted, sum of all nodes.
        DATAGRAM_RECEIVE_BYTES = "datagram_receive_bytes", [bytes];
    }
}

/// Adds counts that come as text, from another process, of counters in these sets.
///
/// # Errors
/// If one of them is not declared.
pub(super) fn add_named(
    counters: &mut Counters,
    sets: &[&'static CounterSet],
    counted: impl IntoIterator<Item = (String, u64)>,
) -> Result<(), LabError> {
    for (name, n) in counted {
        let counter = sets.iter().find_map(|set| set.find(&name));
        let unknown =
            || LabError::Run(format!("a process counted `{name}`, which is not declared"));
        counters.add(counter.ok_or_else(unknown)?, n);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use paceline_proto::chain;

    use super::*;

    const SETS: &[&CounterSet] = &[&chain::counters::COUNTERS, &paceline_sim::counters::COUNTERS];

    #[test]
    fn counts_of_another_process_are_added_and_unknown_ones_are_refused() {
        let mut counters = Counters::default();
        let counted = [("chain_duplicate", 2), ("sim_lost", 1), ("chain_duplicate", 3)];
        let counted = counted.map(|(name, n)| (name.to_owned(), n));
        add_named(&mut counters, SETS, counted).unwrap();
        assert_eq!(counters.sorted(), [("chain_duplicate", 5), ("sim_lost", 1)]);
        let error = add_named(&mut counters, SETS, [("chain_duplicat".to_owned(), 1)]).unwrap_err();
        assert!(error.to_string().contains("`chain_duplicat`"), "{error}");
    }
}
