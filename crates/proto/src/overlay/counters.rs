//! Counters of an overlay.

crate::counters! {
    /// Counters of an overlay.
    pub COUNTERS = "overlay" {
        /// Sent: an acknowledgement of a step.
        ACK = "overlay_ack", [messages];
        /// Sent: a ping to the oldest unconfirmed address.
        ADDRESS_ASKED = "overlay_address_asked", [messages];
        /// Another node names another address than the owner did.
        ADDRESS_DISPUTED = "overlay_address_disputed", [addresses];
        /// There was no room to keep one more.
        ADDRESSES_FULL = "overlay_addresses_full", [addresses];
        /// The application asked a node to join a table that it is in.
        ALREADY_IN = "overlay_already_in", [commands];
        /// Asked for once more, after a failure.
        ASKED_AGAIN = "overlay_asked_again", [keys];
        /// A reply that does not match its request.
        BAD_ANSWER = "overlay_bad_answer", [messages; fault];
        /// A record whose key, version or size cannot be right.
        BAD_RECORD = "overlay_bad_record", [records; fault];
        /// Refused for lack of room.
        BUSY = "overlay_busy", [targets];
        /// Sent: records to replicas, and the answers.
        COPY = "overlay_copy", [messages];
        /// Not sent, because too many wait for the disk.
        DISK_BEHIND = "overlay_disk_behind", [answers];
        /// Had arrived before; answered again.
        DUPLICATE = "overlay_duplicate", [messages];
        /// Their lifetime ended.
        EXPIRED = "overlay_expired", [records];
        /// Of a key that this node does not keep.
        FAR_RECORD = "overlay_far_record", [records];
        /// Sent: a look-up, except those of upkeep.
        FIND = "overlay_find", [messages];
        /// Removed from the tables: did not answer, or is not a member.
        FORGOTTEN = "overlay_forgotten", [nodes];
        /// Sent: the answer to a look-up, except those of upkeep.
        FOUND = "overlay_found", [messages];
        /// Had been lost, and answered.
        FOUND_AGAIN = "overlay_found_again", [nodes];
        /// Not found, while a replica may hold a value.
        GET_UNSETTLED = "overlay_get_unsettled", [keys];
        /// All attempts failed.
        GIVEN_UP = "overlay_given_up", [keys];
        /// Dropped here: the responsible nodes have them.
        HANDED_OVER = "overlay_handed_over", [records];
        /// That targets took to their destinations, except those of upkeep.
        HOPS = "overlay_hops", [hops];
        /// Not forwarded: `in_flight_max` messages are in flight.
        IN_FLIGHT_FULL = "overlay_in_flight_full", [messages];
        /// Refused: `in_flight_max` are in progress on behalf of others.
        JOBS_FULL = "overlay_jobs_full", [requests];
        /// A reply that arrived after the request had been sent to another node.
        LATE = "overlay_late", [messages];
        /// Not accepted by the table that the node joins.
        LEFT_BEHIND = "overlay_left_behind", [records];
        /// In the routing table, except those of upkeep.
        LOOKUPS = "overlay_lookups", [lookups];
        /// Lost for so long that their records are considered lost.
        LOSSES_ACCEPTED = "overlay_losses_accepted", [nodes];
        /// Stopped replying, and may have held records.
        LOST = "overlay_lost", [nodes];
        /// Named by another node and no nearer to the key; not asked.
        NO_PROGRESS = "overlay_no_progress", [nodes; fault];
        /// There was no next hop.
        NO_ROUTE = "overlay_no_route", [targets];
        /// The node that was asked is not a member.
        NOT_MEMBER = "overlay_not_member", [messages];
        /// Refused: the store is full.
        OVER_QUOTA = "overlay_over_quota", [records];
        /// Not forwarded: its sender has its share of `in_flight_max` in flight.
        PEER_IN_FLIGHT_FULL = "overlay_peer_in_flight_full", [messages];
        /// Sent: pings.
        PING = "overlay_ping", [messages];
        /// Sent: the answer.
        PONG = "overlay_pong", [messages];
        /// Sent: writes.
        PUT = "overlay_put", [messages];
        /// Written to a node that does not own the key.
        PUT_ELSEWHERE = "overlay_put_elsewhere", [keys];
        /// A write or a page that is tried again once the owner's neighbours have settled.
        PUT_OFF = "overlay_put_off", [keys];
        /// Sent: answers to writes.
        PUT_REPLY = "overlay_put_reply", [messages];
        /// Not written, because the owner's neighbours have not settled.
        PUT_UNSETTLED = "overlay_put_unsettled", [keys];
        /// Sent straight to an owner whose range was known.
        RANGE_HITS = "overlay_range_hits", [targets];
        /// The application's request was not valid.
        REJECTED = "overlay_rejected", [requests];
        /// Copied or asked for, because a replica lacked them.
        REPAIRED = "overlay_repaired", [records];
        /// A look-up for upkeep that had to wait for room.
        REQUESTS_FULL = "overlay_requests_full", [requests];
        /// Sent again, unanswered.
        RESENT = "overlay_resent", [messages];
        /// Read back from the disk.
        RESTORED = "overlay_restored", [records];
        /// Sent: outcomes of targets, to their initiator.
        RESULT = "overlay_result", [messages];
        /// Sent: targets in transit, except those of upkeep.
        ROUTE = "overlay_route", [messages];
        /// Sent: questions for pages of records, and for what neighbours hold; and the answers.
        SCAN = "overlay_scan", [messages];
        /// Not given, while other nodes may hold records that this node does not know of.
        SCAN_UNSETTLED = "overlay_scan_unsettled", [pages];
        /// Divided, because its targets did not fit one datagram.
        SPLIT = "overlay_split", [messages];
        /// A reply to a request that has ended.
        STALE = "overlay_stale", [messages];
        /// Sent: questions for the state of a node, and the answers.
        STAT = "overlay_stat", [messages];
        /// Reached their destinations, except those of upkeep.
        TARGETS_ENDED = "overlay_targets_ended", [targets];
        /// Had no hop left.
        TTL = "overlay_ttl", [targets];
        /// Given up after all attempts.
        UNANSWERED = "overlay_unanswered", [messages];
        /// Sent to keep tables and copies.
        UPKEEP = "overlay_upkeep", [messages];
        /// In the routing table, for upkeep.
        UPKEEP_LOOKUPS = "overlay_upkeep_lookups", [lookups];
        /// A version too far ahead of what is known.
        VERSION_REFUSED = "overlay_version_refused", [records; fault];
    }
}
