//! What the nodes that share a graph count.

crate::counters! {
    /// What the nodes that share a graph count.
    pub COUNTERS = "graphshare" {
        /// A chunk of a graph out of order; it is asked for again.
        CHUNK_MISPLACED = "walk_chunk_misplaced", [messages];
        /// A chunk that does not fit its graph or the memory.
        CHUNK_REFUSED = "walk_chunk_refused", [messages; fault];
        /// About graphs, at a server that takes none, or not from its client.
        UPKEEP_REFUSED = "walk_upkeep_refused", [messages];
    }
}
