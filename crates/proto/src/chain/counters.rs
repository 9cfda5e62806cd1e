//! Counters of the broadcast.

crate::counters! {
    /// Counters of the broadcast.
    pub COUNTERS = "chain" {
        /// An `Ack` or `LinkAck` for what was never sent.
        ACK_OUT_OF_RANGE = "chain_ack_out_of_range", [messages; fault];
        /// Arrived while its view ends.
        AFTER_THE_VIEW = "chain_after_the_view", [blocks];
        /// Beyond what was granted; the connection is closed.
        BEYOND_CREDIT = "chain_beyond_credit", [blocks; fault];
        /// The payload is longer than `block_bytes_max`.
        BLOCK_OVERSIZED = "chain_block_oversized", [blocks; fault];
        /// Left in a block with others.
        BUNDLED = "chain_bundled", [messages];
        /// Of a message of more blocks than the largest message has.
        COUNT_OUT_OF_RANGE = "chain_count_out_of_range", [blocks; fault];
        /// Had arrived before, under another link number.
        DUPLICATE = "chain_duplicate", [blocks; fault];
        /// A frame, acknowledgement or probe of another incarnation than the view names or, where
        /// the view names none, than was heard first: a member restarted.
        FOREIGN_INCARNATION = "chain_foreign_incarnation", [messages; fault];
        /// The origin has no rank in the view.
        FOREIGN_ORIGIN = "chain_foreign_origin", [frames; fault];
        /// From a node outside the view.
        FOREIGN_SENDER = "chain_foreign_sender", [messages; fault];
        /// Of another view.
        FOREIGN_VIEW = "chain_foreign_view", [messages; fault];
        /// A broken hop resumed.
        HOP_RESUMED = "chain_hop_resumed", [hops];
        /// Had to be forwarded with no hop left.
        HOPS_EXHAUSTED = "chain_hops_exhausted", [blocks; fault];
        /// `hops left` is N or more.
        HOPS_OUT_OF_RANGE = "chain_hops_out_of_range", [frames; fault];
        /// Its link number had arrived before.
        LINK_DUPLICATE = "chain_link_duplicate", [frames];
        /// A link number was left out.
        LINK_GAP = "chain_link_gap", [frames; fault];
        /// Blocks that do not form a message, or pipelined messages that overlap.
        MISFIT_BLOCK = "chain_misfit_block", [blocks; fault];
        /// Arrived at a node that is not in the view.
        NOT_A_MEMBER = "chain_not_a_member", [frames; fault];
        /// An own block came back.
        OWN_FRAME_RETURNED = "chain_own_frame_returned", [blocks; fault];
        /// Sent by an origin whose window is closed and has not moved: asks a member for credit.
        PROBES_SENT = "chain_probes_sent", [messages];
        /// The application's message was too large, or this node is not a member.
        REJECTED = "chain_rejected", [messages];
        /// Sent again on a hop, `Skip` included.
        RESENT = "chain_resent", [frames];
        /// A `Resume` beyond what was sent.
        RESUME_OUT_OF_RANGE = "chain_resume_out_of_range", [messages; fault];
        /// A `Resync` of a sender that is behind what has arrived.
        RESYNC_OUT_OF_RANGE = "chain_resync_out_of_range", [messages; fault];
        /// A `Skip` arrived in place of a frame.
        SKIPPED = "chain_skipped", [frames];
        /// Asked to install a view older than the current one.
        STALE_VIEW = "chain_stale_view", [views];
    }
}
