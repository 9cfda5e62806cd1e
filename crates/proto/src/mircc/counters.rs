//! Counters of a forwarder.

crate::counters! {
    /// Counters of a forwarder.
    pub COUNTERS = "mircc" {
        /// The application answered an Interest that is not pending.
        ANSWER_UNASKED = "mircc_answer_unasked", [answers];
        /// Sent without a share of the link: most Interests of their face time out.
        DEPRIORITIZED = "mircc_deprioritized", [Interests];
        /// A duplicate made by the link.
        DUPLICATE_INTEREST = "mircc_duplicate_interest", [Interests];
        /// Evicted to make room for Interests of another face.
        EVICTED = "mircc_evicted", [Interests];
        /// Not answered in their lifetime.
        EXPIRED = "mircc_expired", [Interests];
        /// Sent again over another next hop.
        FAILED_OVER = "mircc_failed_over", [Interests];
        /// A fragment that had arrived before.
        FRAGMENT_DUPLICATE = "mircc_fragment_duplicate", [packets];
        /// A fragment that does not fit the others.
        FRAGMENT_REFUSED = "mircc_fragment_refused", [packets];
        /// A next hop does not answer.
        HOP_DOWN = "mircc_hop_down", [hops];
        /// Had no hop left.
        HOP_LIMIT = "mircc_hop_limit", [Interests];
        /// A next hop answers again.
        HOP_UP = "mircc_hop_up", [hops];
        /// Dropped: the queue of the link is full.
        LINK_FULL = "mircc_link_full", [packets];
        /// Came back to a forwarder that they had passed.
        LOOPS = "mircc_loops", [Interests];
        /// Waited for a face that closed.
        LOST_WITH_FACE = "mircc_lost_with_face", [packets];
        /// Of flows from one path to another.
        MOVES = "mircc_moves", [moves];
        /// The name is longer than 2,048 bytes.
        NAME_TOO_LONG = "mircc_name_too_long", [Interests];
        /// Published with a segment length out of range.
        OBJECT_REFUSED = "mircc_object_refused", [objects];
        /// Answered a probe of a next hop that was down.
        PROBE_ANSWERED = "mircc_probe_answered", [Data];
        /// The application's, to a neighbour that has no face.
        QUESTION_WITHOUT_FACE = "mircc_question_without_face", [Interests];
        /// The application's, beyond the bound of open questions.
        QUESTIONS_FULL = "mircc_questions_full", [Interests];
        /// Reassembled from fragments.
        REASSEMBLED = "mircc_reassembled", [packets];
        /// Reassembled from fragments, and not decodable.
        REASSEMBLED_UNDECODABLE = "mircc_reassembled_undecodable", [packets];
        /// Dropped with fragments missing.
        REASSEMBLY_DROPPED = "mircc_reassembly_dropped", [packets];
        /// Refused: pending Interests have `pending_bytes_max` bytes.
        REFUSED_BYTES = "mircc_refused_bytes", [Interests];
        /// Refused: their face has its share of pending Interests.
        REFUSED_FACE = "mircc_refused_face", [Interests];
        /// Refused: `pending_max` Interests are pending.
        REFUSED_FULL = "mircc_refused_full", [Interests];
        /// To a neighbour that has no face.
        ROUTE_WITHOUT_FACE = "mircc_route_without_face", [routes];
        /// Answered from the content store.
        STORED = "mircc_stored", [Data];
        /// Carry a path label that leads nowhere.
        UNKNOWN_LABEL = "mircc_unknown_label", [Interests];
        /// From a node that has no face.
        UNKNOWN_NEIGHBOUR = "mircc_unknown_neighbour", [packets];
        /// No pending Interest matches, or it was answered before.
        UNSOLICITED = "mircc_unsolicited", [Data];
        /// No pending Interest matches.
        UNSOLICITED_NACK = "mircc_unsolicited_nack", [Nacks];
    }
}
