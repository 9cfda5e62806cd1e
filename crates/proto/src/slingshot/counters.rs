//! What members of a multicast in time count.

use crate::core::CounterId;

/// A protocol's counters of what its members were told.
#[derive(Debug)]
pub struct LedgerCounts {
    /// Delivered as they were sent.
    pub direct: CounterId,
    /// Delivered out of a repair.
    pub recovered: CounterId,
    /// Delivered because this node asked for them.
    pub pulled: CounterId,
    /// Delivered after the deadline.
    pub late: CounterId,
    /// Given up.
    pub lost: CounterId,
    /// Not delivered: the application has too much unread.
    pub overrun: CounterId,
    /// Missing beyond the bound, and given up.
    pub missing_overflow: CounterId,
}

/// Declares counters, and those of what the application was told, which every protocol with a
/// [`Ledger`](super::ledger::Ledger) has under its own name.
#[doc(hidden)]
#[macro_export]
macro_rules! with_ledger {
    (
        $(#[$doc:meta])*
        $vis:vis $set:ident = $protocol:literal { $($own:tt)* }
    ) => {
        $crate::counters! {
            $(#[$doc])*
            $vis $set = $protocol {
                $($own)*
                /// Came from their sender, and were delivered or added to a message.
                DIRECT = concat!($protocol, "_direct"), [packets];
                /// Delivered after `deadline`, alone or in a message.
                LATE = concat!($protocol, "_late"), [packets];
                /// Given up, alone or with their message.
                LOST = concat!($protocol, "_lost"), [packets];
                /// Missing beyond `missing_max`, and given up.
                MISSING_OVERFLOW = concat!($protocol, "_missing_overflow"), [packets];
                /// Not delivered: the application has `unread_max` unread.
                OVERRUN = concat!($protocol, "_overrun"), [packets];
                /// Came after a request of this node, and were delivered or added to a message.
                PULLED = concat!($protocol, "_pulled"), [packets];
                /// Came from a repair, and were delivered or added to a message.
                RECOVERED = concat!($protocol, "_recovered"), [packets];
            }
        }

        /// Those of the ledger.
        pub(super) static LEDGER: $crate::slingshot::counters::LedgerCounts =
            $crate::slingshot::counters::LedgerCounts {
                direct: DIRECT,
                recovered: RECOVERED,
                pulled: PULLED,
                late: LATE,
                lost: LOST,
                overrun: OVERRUN,
                missing_overflow: MISSING_OVERFLOW,
            };
    };
}
#[doc(inline)]
pub use with_ledger;

with_ledger! {
    /// What a member of Slingshot counts.
    pub COUNTERS = "slingshot" {
        /// Arrived after they were given up.
        AFTER_LOST = "slingshot_after_lost", [packets];
        /// Missing, and asked for later: `pull_asks_max` are asked for already.
        ASK_DEFERRED = "slingshot_ask_deferred", [packets];
        /// Not supplied: the second phase is off, or `pull_supplies_per_second` are used up.
        ASK_REFUSED = "slingshot_ask_refused", [packets];
        /// Asked for, and not kept here.
        ASK_UNKNOWN = "slingshot_ask_unknown", [packets];
        /// Missing, and asked for.
        ASKED = "slingshot_asked", [packets];
        /// Packets of a sender began too late to follow the ones before.
        BEGUN_ANEW = "slingshot_begun_anew", [flows];
        /// Not sent: a bin has fewer members than copies.
        COPIES_TOO_MANY = "slingshot_copies_too_many", [repairs];
        /// Of the setting, because less or more came in time than was predicted.
        CORRECTED = "slingshot_corrected", [changes];
        /// Had arrived before.
        DUPLICATE = "slingshot_duplicate", [packets];
        /// Not kept as long as `keep` says, for lack of room.
        EVICTED_EARLY = "slingshot_evicted_early", [packets];
        /// Not begun: `flows_max` are under way.
        FLOWS_FULL = "slingshot_flows_full", [flows];
        /// Slow before, and followed again.
        FOLLOWED_AGAIN = "slingshot_followed_again", [receivers];
        /// Of a group that this node is not in.
        FOREIGN_GROUP = "slingshot_foreign_group", [messages];
        /// From a node that is not in the group.
        FOREIGN_SENDER = "slingshot_foreign_sender", [messages];
        /// Of another view than this one and the one before.
        FOREIGN_VIEW = "slingshot_foreign_view", [messages];
        /// Of a message that was given up, or that began before its sender was heard.
        FRAGMENT_UNNEEDED = "slingshot_fragment_unneeded", [packets];
        /// Contradict themselves, or other packets of their message; dropped.
        FRAGMENT_WRONG = "slingshot_fragment_wrong", [packets; fault];
        /// Its numbers went on from before.
        GONE_BACK = "slingshot_gone_back", [flows];
        /// Sent: the last number of a quiet sender.
        HEARTBEATS = "slingshot_heartbeats", [messages];
        /// Put off: the host held more datagrams than may leave at once.
        HELD_UP = "slingshot_held_up", [packets];
        /// Of several packets, and delivered.
        MESSAGES = "slingshot_messages", [messages];
        /// Of several packets, and given up after some of these came.
        MESSAGES_LOST = "slingshot_messages_lost", [messages];
        /// Of several packets, and given up because incomplete messages have `bytes_max`, or those
        /// of their sender half of it.
        MESSAGES_OVERFLOWED = "slingshot_messages_overflowed", [messages];
        /// Of several packets, all of which were sent.
        MESSAGES_SENT = "slingshot_messages_sent", [messages];
        /// The checksum is another than that of the packet.
        NAME_MISMATCH = "slingshot_name_mismatch", [names; fault];
        /// Of an own packet that was never sent.
        NAME_NOT_SENT = "slingshot_name_not_sent", [names; fault];
        /// Too far ahead of the packets that came.
        NAME_TOO_FAR = "slingshot_name_too_far", [names];
        /// Of a packet that is not looked after any more.
        NAME_TOO_OLD = "slingshot_name_too_old", [names];
        /// From another incarnation than the view names.
        OTHER_INCARNATION = "slingshot_other_incarnation", [messages];
        /// Came after its repair.
        OVERTAKEN = "slingshot_overtaken", [packets];
        /// An own message came back.
        OWN_ECHO = "slingshot_own_echo", [messages];
        /// Name a rank outside the view, or a round-trip time out of range; dropped.
        PULSE_WRONG = "slingshot_pulse_wrong", [messages; fault];
        /// Sent: the rate of this sender.
        PULSES = "slingshot_pulses", [messages];
        /// Arrived, and are of a sender of the group.
        PULSES_RECEIVED = "slingshot_pulses_received", [messages];
        /// Came another way, or had been given up.
        RECOVERED_UNNEEDED = "slingshot_recovered_unneeded", [packets];
        /// Too many wait for a first packet of their sender.
        RECOVERED_UNVERIFIED = "slingshot_recovered_unverified", [packets];
        /// Do not match the checksum that the repair names.
        RECOVERED_WRONG = "slingshot_recovered_wrong", [packets; fault];
        /// The application's message or group was not accepted.
        REJECTED = "slingshot_rejected", [messages];
        /// Parked, and dropped for lack of room.
        REPAIR_EVICTED = "slingshot_repair_evicted", [repairs];
        /// Miss more packets than can be solved for.
        REPAIR_HOPELESS = "slingshot_repair_hopeless", [repairs];
        /// Longer than a datagram; not sent.
        REPAIR_OVERSIZED = "slingshot_repair_oversized", [repairs];
        /// Kept until more packets come.
        REPAIR_PARKED = "slingshot_repair_parked", [repairs];
        /// Say nothing that others did not.
        REPAIR_REDUNDANT = "slingshot_repair_redundant", [repairs];
        /// No packet of theirs is missing.
        REPAIR_UNNEEDED = "slingshot_repair_unneeded", [repairs];
        /// Contradict others.
        REPAIR_WRONG = "slingshot_repair_wrong", [repairs; fault];
        /// Sent.
        REPAIRS = "slingshot_repairs", [repairs];
        /// Sent for bins that were not full.
        REPAIRS_PARTIAL = "slingshot_repairs_partial", [repairs];
        /// Arrived.
        REPAIRS_RECEIVED = "slingshot_repairs_received", [repairs];
        /// Of a receiver, while this node follows none in the group; dropped.
        REPORT_UNASKED = "slingshot_report_unasked", [messages];
        /// Contradict themselves, or answer what was not sent yet; dropped.
        REPORT_WRONG = "slingshot_report_wrong", [messages; fault];
        /// Sent: what this receiver measured.
        REPORTS = "slingshot_reports", [messages];
        /// Arrived, and are sound.
        REPORTS_RECEIVED = "slingshot_reports_received", [messages];
        /// Of the setting, because conditions changed.
        RETUNED = "slingshot_retuned", [changes];
        /// Sent by the application.
        SENT = "slingshot_sent", [packets];
        /// Want less than `rate_min`, and are not followed any longer.
        SLOW_RECEIVERS = "slingshot_slow_receivers", [receivers];
        /// Asked to install a view older than the current one.
        STALE_VIEW = "slingshot_stale_view", [views];
        /// Sent to a node that asked for them.
        SUPPLIED = "slingshot_supplied", [packets];
        /// Supplied, and here already.
        SUPPLY_UNNEEDED = "slingshot_supply_unneeded", [packets];
        /// Name more packets than a repair may.
        TOO_MANY_NAMES = "slingshot_too_many_names", [repairs; fault];
        /// Not looked after any more.
        TOO_OLD = "slingshot_too_old", [packets];
        /// Of no member of the view.
        UNKNOWN_NAME = "slingshot_unknown_name", [names; fault];
        /// Left without a repair.
        UNPROTECTED = "slingshot_unprotected", [packets];
        /// Has more members than names can tell apart.
        VIEW_TOO_LARGE = "slingshot_view_too_large", [views];
    }
}
