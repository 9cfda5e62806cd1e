//! Counters of a group.

crate::counters! {
    /// Counters of a group.
    pub COUNTERS = "group" {
        /// The application asked a node to create or join a group that it is in.
        ALREADY_IN = "group_already_in", [commands];
        /// This member began to propose the next view.
        ATTEMPTS = "group_attempts", [attempts];
        /// An answer to a request that had timed out or was cancelled.
        ANSWER_LATE = "group_answer_late", [answers];
        /// The application's answer was not accepted.
        ANSWER_REFUSED = "group_answer_refused", [answers];
        /// An answer to a request that this member has not sent, or has to another member.
        ANSWER_UNASKED = "group_answer_unasked", [answers; fault];
        /// A promise with a proposal that is not valid, or with origins outside the view.
        BAD_PROMISE = "group_bad_promise", [messages; fault];
        /// A proposal that is not valid, or without blocks that this member has received.
        BAD_PROPOSAL = "group_bad_proposal", [messages; fault];
        /// A report that names its sender or no rank of the view.
        BAD_REPORT = "group_bad_report", [messages; fault];
        /// An own block that some members lack and no member forwards: its view ends.
        BLOCK_LOST = "group_block_lost", [blocks];
        /// An acknowledgement of what was never sent.
        DIRECT_ACK_OUT_OF_RANGE = "group_direct_ack_out_of_range", [messages; fault];
        /// Beyond the window; the connection is closed.
        DIRECT_BEYOND_CREDIT = "group_direct_beyond_credit", [blocks; fault];
        /// Had arrived before.
        DIRECT_DUPLICATE = "group_direct_duplicate", [blocks];
        /// From or to an incarnation that is not in the view.
        DIRECT_FOREIGN_MEMBER = "group_direct_foreign_member", [messages];
        /// Of another view.
        DIRECT_FOREIGN_VIEW = "group_direct_foreign_view", [blocks];
        /// The stream lost its predecessor; all are sent again.
        DIRECT_GAP = "group_direct_gap", [blocks];
        /// Sender or receiver left before it was acknowledged.
        DIRECT_GIVEN_UP = "group_direct_given_up", [messages];
        /// Blocks that do not form a message; the connection is closed.
        DIRECT_MISFIT = "group_direct_misfit", [blocks; fault];
        /// The application's message was not accepted.
        DIRECT_REFUSED = "group_direct_refused", [messages];
        /// Sent again.
        DIRECT_RESENT = "group_direct_resent", [blocks];
        /// Of a view that is not installed here yet, beyond `early_bytes_max`; the connection is
        /// closed.
        EARLY_OVERFLOW = "group_early_overflow", [messages];
        /// The other members continued without this member; it joins again as another incarnation.
        EXCLUDED = "group_excluded", [views];
        /// A member requested a block that this one has freed.
        FETCH_MISSED = "group_fetch_missed", [blocks];
        /// A flushed block from a node outside the view.
        FLUSHED_BY_STRANGER = "group_flushed_by_stranger", [blocks; fault];
        /// A flushed block that no proposal asks for.
        FLUSHED_IN_VAIN = "group_flushed_in_vain", [blocks];
        /// An attempt under another member's name.
        FOREIGN_BALLOT = "group_foreign_ballot", [messages; fault];
        /// A nonce for another request to join.
        FOREIGN_CHALLENGE = "group_foreign_challenge", [messages];
        /// A view without the joiner's token, or not from a member of the view.
        FOREIGN_INSTALL = "group_foreign_install", [messages];
        /// A request to join that neither its joiner nor a member sent.
        FOREIGN_JOIN = "group_foreign_join", [messages];
        /// An attempt of a node outside the view.
        FOREIGN_PROPOSER = "group_foreign_proposer", [messages];
        /// A report from a node outside the view, or of another view.
        FOREIGN_REPORT = "group_foreign_report", [messages];
        /// A nonce that was not asked for.
        FOREIGN_RESPONSE = "group_foreign_response", [messages];
        /// This host began to propose the creation of the group.
        FOUNDING_ATTEMPTS = "group_founding_attempts", [attempts];
        /// A message of hosts that create a group, at a node that creates none.
        FOUNDING_ELSEWHERE = "group_founding_elsewhere", [messages];
        /// A message of a host that creates the group with another number of hosts.
        FOUNDING_OTHER_EXPECT = "group_founding_other_expect", [messages];
        /// The host of a member differs from this one in what they watch each other for; the member
        /// is asked whether it is in the present view.
        HOSTS_DIFFER = "group_hosts_differ", [members];
        /// A request to join at a node that is not a member.
        JOIN_ELSEWHERE = "group_join_elsewhere", [messages];
        /// An answer to an attempt that is over.
        LATE_ANSWER = "group_late_answer", [messages];
        /// A view older than the present one.
        LATE_INSTALL = "group_late_install", [messages];
        /// A request to leave from another incarnation, or at a node that is not a member.
        LEAVE_ELSEWHERE = "group_leave_elsewhere", [messages];
        /// A view begins without this member because of a dead link; counted at each member, for
        /// each one left out.
        LEFT_OUT = "group_left_out", [members];
        /// A link of this member is dead.
        LINK_DEAD = "group_link_dead", [links];
        /// Does not say, however often it is asked, that it is in the present view, while its host
        /// is up and differs from this one.
        MEMBER_ABSENT = "group_member_absent", [members];
        /// The detector considers a member down.
        MEMBER_DOWN = "group_member_down", [members];
        /// The detector suspects a member.
        MEMBER_SUSPECTED = "group_member_suspected", [members];
        /// The detector considers a member up.
        MEMBER_UP = "group_member_up", [members];
        /// Another member's view has the same number and other members.
        OTHER_VIEW = "group_other_view", [members; fault];
        /// The proposer lacks blocks that all others of its attempt have, because of lossy links.
        OWN_FLUSH_LATE = "group_own_flush_late", [attempts];
        /// Beyond the bounds of unanswered requests; the connection is closed.
        REQUEST_BEYOND_BOUNDS = "group_request_beyond_bounds", [requests; fault];
        /// The application's request was not accepted.
        REQUEST_REFUSED = "group_request_refused", [requests];
        /// Was not answered in time.
        REQUEST_TIMED_OUT = "group_request_timed_out", [requests];
        /// A round too far ahead.
        ROUND_AHEAD = "group_round_ahead", [messages; fault];
        /// There is no higher round to attempt.
        ROUNDS_USED_UP = "group_rounds_used_up", [attempts; fault];
        /// A proposal that this member has not promised to accept.
        UNPROMISED_ACCEPT = "group_unpromised_accept", [messages];
        /// Refused: the proposer's last three attempts failed, and another member without such
        /// failures proposes; links cut in one direction cause it.
        VAIN_ATTEMPT = "group_vain_attempt", [attempts];
    }
}
