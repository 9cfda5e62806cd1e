//! Counters of drivers of sockets.

paceline_proto::counters! {
    /// Counters of drivers of sockets.
    pub COUNTERS = "net" {
        /// Closed without a Hello, because too many wait.
        ACCEPT_EVICTED = "accept_evicted", [connections];
        /// The listener could not accept one.
        ACCEPT_FAILED = "accept_failed", [connections];
        /// Closed: no Hello came in time.
        ACCEPT_TIMED_OUT = "accept_timed_out", [connections];
        /// Dropped, oldest first, since too many wait.
        DATAGRAM_QUEUE_OVERFLOW = "datagram_queue_overflow", [datagrams];
        /// Refused by the kernel.
        DATAGRAM_SEND_FAILED = "datagram_send_failed", [datagrams];
        /// Longer than a datagram may be.
        DATAGRAM_UNSENDABLE = "datagram_unsendable", [messages];
        /// Doubled by the scenario.
        EMULATED_DUPLICATE = "emulated_duplicate", [datagrams];
        /// Lost by the scenario.
        EMULATED_LOSS = "emulated_loss", [datagrams];
        /// Lost by the scenario at the receiver.
        EMULATED_RECEIVE_LOSS = "emulated_receive_loss", [datagrams];
        /// The application had dropped its receiving side.
        EVENT_DISCARDED = "event_discarded", [events];
        /// Reading from peers paused, because the application did not receive its events.
        EVENT_HELD_PEERS = "event_held_peers", [pauses];
        /// Closed.
        FACES_CLOSED = "faces_closed", [faces];
        /// Dropped: there was no room for one more face.
        FACES_FULL = "faces_full", [datagrams];
        /// Opened by a message from an unknown address.
        FACES_OPENED = "faces_opened", [faces];
        /// Longer than a packet may be.
        FACES_OVERSIZED = "faces_oversized", [datagrams];
        /// Not decodable.
        FACES_UNDECODABLE = "faces_undecodable", [datagrams];
        /// From an address without a face, at a node that does not accept unknown ones.
        FACES_UNKNOWN = "faces_unknown", [datagrams];
        /// Not sent: an unproven face gets at most three times the bytes received from it.
        FACES_UNPROVEN_ALLOWANCE = "faces_unproven_allowance", [datagrams];
        /// Not sent: unproven faces of one network have used up their rate.
        FACES_UNPROVEN_RATE = "faces_unproven_rate", [datagrams];
        /// For streams, groups or views, which faces do not have.
        FACES_UNSUPPORTED = "faces_unsupported", [requests];
        /// Closed to make room for another.
        FACES_YIELDED = "faces_yielded", [faces];
        /// Of a group that this node has not joined.
        GROUP_NOT_JOINED = "group_not_joined", [datagrams];
        /// Dropped: the node holds more than `memory_bytes_max`.
        MEMORY_DATAGRAM_DROPPED = "memory_datagram_dropped", [datagrams];
        /// Waited for a proof and dropped: the node holds more than `memory_bytes_max`.
        MEMORY_PROOF_DROPPED = "memory_proof_dropped", [messages];
        /// Broken, since their queues held too much: the node holds more than `memory_bytes_max`.
        MEMORY_QUEUE_BROKEN = "memory_queue_broken", [streams];
        /// Closed in the middle of a record: the node holds more than `memory_bytes_max`.
        MEMORY_RECORD_CLOSED = "memory_record_closed", [streams];
        /// Closed before their handshake: too many are under way, or began in this second.
        HANDSHAKE_EVICTED = "handshake_evicted", [connections];
        /// Ended without a session.
        HANDSHAKE_FAILED = "handshake_failed", [handshakes];
        /// Ended with a session.
        HANDSHAKE_MADE = "handshake_made", [handshakes];
        /// The kernel did not join or leave the address.
        MULTICAST_MEMBERSHIP_FAILED = "multicast_membership_failed", [groups];
        /// Came to the multicast port, and not to an address of the cluster.
        MULTICAST_NOT_ADDRESSED = "multicast_not_addressed", [datagrams];
        /// The node's own datagrams looped back.
        MULTICAST_OWN = "multicast_own", [datagrams];
        /// Named by a peer, and invalid.
        PEER_BAD_ADDRESS = "peer_bad_address", [addresses];
        /// Sent: a challenge with a nonce.
        PEER_CHALLENGED = "peer_challenged", [messages];
        /// From a stranger with this node's id.
        PEER_HAS_OWN_ID = "peer_has_own_id", [messages];
        /// Named by a peer, beyond loopback, at a node limited to loopback.
        PEER_HINT_NOT_LOOPBACK = "peer_hint_not_loopback", [addresses];
        /// Another node refused this one: its id is in use.
        PEER_ID_TAKEN = "peer_id_taken", [messages];
        /// Another node refused this one: it knows a later start.
        PEER_LATER_START_KNOWN = "peer_later_start_known", [messages];
        /// Proved to be at another address than the known one.
        PEER_MOVED = "peer_moved", [peers];
        /// Repeated a nonce at its address.
        PEER_PROVEN = "peer_proven", [peers];
        /// Came with a newer session.
        PEER_RESTARTED = "peer_restarted", [peers];
        /// Not taken in: there was no room.
        PEER_TABLE_FULL = "peer_table_full", [peers];
        /// Wait for their turn: hints cause 256 a second at most.
        PROOF_DELAYED = "proof_delayed", [questions];
        /// Waited for the proof of an address that did not come, or had no room to wait.
        PROOF_DROPPED = "proof_dropped", [messages];
        /// Did not return the nonce in time.
        PROOF_FAILED = "proof_failed", [addresses];
        /// Abandoned: more than 1,024 challenges are pending.
        PROOF_TABLE_FULL = "proof_table_full", [questions];
        /// Waited for the proof of an address.
        PROOF_WAITED_FOR = "proof_waited_for", [messages];
        /// Of another cluster.
        RECORD_FOREIGN_CLUSTER = "record_foreign_cluster", [records];
        /// Of another key epoch.
        RECORD_FOREIGN_EPOCH = "record_foreign_epoch", [records];
        /// Of a service that this node does not run.
        RECORD_UNKNOWN_SERVICE = "record_unknown_service", [records];
        /// Of another version of the format.
        RECORD_FOREIGN_VERSION = "record_foreign_version", [records];
        /// Not sealed by the peer whose session it names.
        RECORD_FORGED = "record_forged", [records];
        /// A Hello of a run that starts more than five minutes ahead of this clock.
        RECORD_FUTURE_SESSION = "record_future_session", [records];
        /// From a node with the id of a recently active one.
        RECORD_ID_IN_USE = "record_id_in_use", [records];
        /// The header is invalid.
        RECORD_MALFORMED = "record_malformed", [records];
        /// Of an earlier run.
        RECORD_OLD_SESSION = "record_old_session", [records];
        /// A number of a stream's records was left out or repeated.
        RECORD_OUT_OF_SEQUENCE = "record_out_of_sequence", [records];
        /// Longer than `record_bytes_max`.
        RECORD_OVERSIZED = "record_oversized", [records];
        /// Received before, or too late to tell.
        RECORD_REPLAYED = "record_replayed", [records];
        /// Incomplete after `record_within`; the stream is closed.
        RECORD_TIMED_OUT = "record_timed_out", [records];
        /// The protocol could not decode the message.
        RECORD_UNDECODABLE = "record_undecodable", [records];
        /// From a node that is not in the roster.
        RECORD_UNKNOWN_SENDER = "record_unknown_sender", [records];
        /// Of a run that is not announced, or without its verification tag; at a node that seals,
        /// of no session with it.
        RECORD_UNKNOWN_SESSION = "record_unknown_session", [records];
        /// Another member answers at the address.
        RECORD_WRONG_MEMBER = "record_wrong_member", [records];
        /// To a face that does not exist.
        SEND_UNKNOWN_FACE = "send_unknown_face", [messages];
        /// To a node outside the roster.
        SEND_UNKNOWN_MEMBER = "send_unknown_member", [messages];
        /// A peer runs another kind of service under the name of one of this node.
        SERVICE_OTHER_KIND = "service_other_kind", [notices];
        /// A peer's service of the same kind and name has another value of a knob that all need
        /// alike.
        SERVICE_OTHER_KNOBS = "service_other_knobs", [notices];
        /// Its messages have another version.
        SERVICE_OTHER_VERSION = "service_other_version", [notices];
        /// Dropped before they left, because the session with the peer had ended.
        SESSION_ENDED_DROPPED = "session_ended_dropped", [datagrams];
        /// From unknown senders, beyond 1,024 a second.
        STRANGER_UNANSWERED = "stranger_unanswered", [records];
        /// Established, and broken.
        STREAM_BROKEN = "stream_broken", [streams];
        /// Waited for a stream that broke.
        STREAM_BYTES_LOST = "stream_bytes_lost", [bytes];
        /// To connect; they are repeated.
        STREAM_DIAL_FAILED = "stream_dial_failed", [attempts];
        /// Sent while the peer was `Down`.
        STREAM_DISCARDED = "stream_discarded", [messages];
        /// Closed by the protocol.
        STREAM_DISCONNECTED = "stream_disconnected", [streams];
        /// Broken: more than `stream_queue_bytes_max` waited.
        STREAM_QUEUE_OVERFLOW = "stream_queue_overflow", [streams];
        /// Longer than a record may be.
        STREAM_UNSENDABLE = "stream_unsendable", [messages];
        /// A refusal that answers no message of this node; ignored.
        TAKEN_UNASKED = "taken_unasked", [messages];
    }
}
