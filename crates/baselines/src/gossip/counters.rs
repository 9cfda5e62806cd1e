//! What members count that gossip.

use crate::store::with_store;

with_store! {
    /// What members count that gossip.
    pub COUNTERS = "gossip" {
        /// Asked for, and not kept here.
        ASK_UNKNOWN = "gossip_ask_unknown", [packets];
        /// Sent: digests, each to one member.
        DIGESTS = "gossip_digests", [messages];
        /// Not retransmitted: `retransmit_max` were in this round.
        RETRANSMIT_REFUSED = "gossip_retransmit_refused", [packets];
        /// Sent to a node that solicited them.
        RETRANSMITTED = "gossip_retransmitted", [packets];
        /// Not solicited: `solicit_max` were in this round.
        SOLICIT_DEFERRED = "gossip_solicit_deferred", [packets];
        /// Solicited in another round than the present one.
        SOLICIT_LATE = "gossip_solicit_late", [packets];
        /// Missing, and solicited.
        SOLICITED = "gossip_solicited", [packets];
    }
}
