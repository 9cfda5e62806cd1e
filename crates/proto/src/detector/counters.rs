//! Counters of the failure detector.

crate::counters! {
    /// Counters of the failure detector.
    pub COUNTERS = "detector" {
        /// Named another incarnation or run of this node.
        FOR_ANOTHER = "detector_for_another", [messages];
        /// Comes under this node's own id.
        FORGED_SOURCE = "detector_forged_source", [messages; fault];
        /// Names a generation of a member too far ahead.
        GENERATION_AHEAD = "detector_generation_ahead", [claims; fault];
        /// Declared this node's current generation down; the next one begins.
        GENERATION_OVERTAKEN = "detector_generation_overtaken", [claims];
        /// Too long, or not decodable.
        MALFORMED = "detector_malformed", [messages; fault];
        /// The failure detector foca did not accept it.
        REFUSED = "detector_refused", [messages; fault];
        /// From a node that is not watched.
        STRANGER = "detector_stranger", [messages];
        /// Foca did not accept its own timer.
        TIMER_REFUSED = "detector_timer_refused", [timers; fault];
        /// Foca requested an unsupported kind of timer.
        TIMER_UNKNOWN = "detector_timer_unknown", [timers; fault];
        /// Foca addressed a node that is not watched.
        UNWATCHED_TARGET = "detector_unwatched_target", [messages];
    }
}
