//! What a host counts that is asked for its status, or asks for another's.

crate::counters! {
    /// What a host counts that is asked for its status, or asks for another's.
    pub COUNTERS = "status" {
        /// Beyond those that may wait for their answers, or asked twice.
        ASK_REFUSED = "status_ask_refused", [questions];
        /// To a question that this host did not ask, or has replaced.
        ANSWER_UNASKED = "status_answer_unasked", [answers];
    }
}
