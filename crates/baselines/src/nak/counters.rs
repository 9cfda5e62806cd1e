//! What members count that ask a sender or a holder.

use crate::store::with_store;

with_store! {
    /// What members count that ask a sender or a holder.
    pub COUNTERS = "nak" {
        /// Answered, without room to note that further questions are not heard for a time.
        ANSWERS_FULL = "nak_answers_full", [packets];
        /// Asked for again right after the answer; not answered.
        ASK_QUIET = "nak_ask_quiet", [packets];
        /// Not supplied: `supplies_per_second` are used up.
        ASK_REFUSED = "nak_ask_refused", [packets];
        /// Asked for, and not kept here.
        ASK_UNKNOWN = "nak_ask_unknown", [packets];
        /// Missing, and asked for.
        ASKED = "nak_asked", [packets];
        /// Sent: the last number of a quiet sender.
        HEARTBEATS = "nak_heartbeats", [messages];
        /// Sent to a node that asked for them.
        SUPPLIED = "nak_supplied", [packets];
    }
}
