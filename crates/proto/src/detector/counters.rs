//! What the failure detector counts.

crate::counters! {
    /// What the failure detector counts.
    pub COUNTERS = "detector" {
        /// Named another incarnation or run of this node.
        FOR_ANOTHER = "detector_for_another", [messages];
        /// Carries this node's own id, or another id than its sender's.
        FORGED_SOURCE = "detector_forged_source", [messages; fault];
        /// Names a generation of a member too far ahead.
        GENERATION_AHEAD = "detector_generation_ahead", [claims; fault];
        /// Said of this node's present generation that it is down; the next one begins.
        GENERATION_OVERTAKEN = "detector_generation_overtaken", [claims];
        /// Too long, or not decodable.
        MALFORMED = "detector_malformed", [messages; fault];
        /// The failure detector foca did not accept it.
        REFUSED = "detector_refused", [messages; fault];
        /// From a node that is not watched.
        STRANGER = "detector_stranger", [messages];
        /// Foca did not accept its own timer.
        TIMER_REFUSED = "detector_timer_refused", [timers; fault];
        /// Foca asked for a timer of a kind that is not in use.
        TIMER_UNKNOWN = "detector_timer_unknown", [timers; fault];
        /// Foca was to send to a node that is not watched.
        UNWATCHED_TARGET = "detector_unwatched_target", [messages];
    }
}
