//! What members count that acknowledge every packet.

use crate::store::with_store;

with_store! {
    /// What members count that acknowledge every packet.
    pub COUNTERS = "ack" {
        /// Sent: acknowledgements.
        ACKS = "ack_acks", [messages];
        /// Not acknowledged after `resends_max` resends, or not kept any more.
        GIVEN_UP = "ack_given_up", [copies];
        /// Not resent any more: `pending_max` others wait for acknowledgements.
        PENDING_FULL = "ack_pending_full", [packets];
        /// `resends_per_second` were used up.
        RESEND_DEFERRED = "ack_resend_deferred", [copies];
        /// Sent again to a member that did not acknowledge.
        RESENT = "ack_resent", [copies];
    }
}
