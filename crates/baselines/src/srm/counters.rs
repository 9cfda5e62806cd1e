//! What members of SRM count.

use crate::store::with_store;

with_store! {
    /// What members of SRM count.
    pub COUNTERS = "srm" {
        /// To be repaired, and not kept any more.
        ANSWER_GONE = "srm_answer_gone", [packets];
        /// Not to be repaired: `answers_max` repairs wait.
        ANSWERS_FULL = "srm_answers_full", [packets];
        /// Put off, because another member asked.
        BACKOFFS = "srm_backoffs", [requests];
        /// Echoes a time that was not sent.
        ECHO_WRONG = "srm_echo_wrong", [messages; fault];
        /// Repaired, and here already.
        REPAIR_DUPLICATE = "srm_repair_duplicate", [packets];
        /// Repaired for the group.
        REPAIRS = "srm_repairs", [packets];
        /// Heard right after the repair; not answered.
        REQUEST_DEAF = "srm_request_deaf", [requests];
        /// Heard while an own request waits.
        REQUEST_DUPLICATE = "srm_request_duplicate", [requests];
        /// Heard while a repair waits.
        REQUEST_KNOWN = "srm_request_known", [requests];
        /// Sent.
        REQUESTS = "srm_requests", [requests];
        /// Sent: what this member has received.
        SESSIONS = "srm_sessions", [messages];
        /// Not repaired, because another member was faster.
        SUPPRESSED = "srm_suppressed", [packets];
    }
}
