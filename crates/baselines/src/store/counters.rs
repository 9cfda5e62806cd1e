//! What members count of the packets that they send, get and keep.

/// Declares counters, and those of a [`Store`](super::Store), which every protocol with one has
/// under its own name.
macro_rules! with_store {
    (
        $(#[$doc:meta])*
        $vis:vis $set:ident = $protocol:literal { $($own:tt)* }
    ) => {
        paceline_proto::slingshot::counters::with_ledger! {
            $(#[$doc])*
            $vis $set = $protocol {
                $($own)*
                /// Arrived after they were given up.
                AFTER_LOST = concat!($protocol, "_after_lost"), [packets];
                /// Had arrived before.
                DUPLICATE = concat!($protocol, "_duplicate"), [packets];
                /// Not kept as long as `keep` says, for lack of room.
                EVICTED_EARLY = concat!($protocol, "_evicted_early"), [packets];
                /// Not begun: `flows_max` are under way.
                FLOWS_FULL = concat!($protocol, "_flows_full"), [flows];
                /// Of a group that this node is not in.
                FOREIGN_GROUP = concat!($protocol, "_foreign_group"), [messages];
                /// From a node that is not in the group.
                FOREIGN_SENDER = concat!($protocol, "_foreign_sender"), [messages];
                /// Of another view than this one and the one before.
                FOREIGN_VIEW = concat!($protocol, "_foreign_view"), [messages];
                /// The checksum is another than that of the packet.
                NAME_MISMATCH = concat!($protocol, "_name_mismatch"), [names; fault];
                /// Of an own packet that was never sent.
                NAME_NOT_SENT = concat!($protocol, "_name_not_sent"), [names; fault];
                /// Too far ahead of the packets that came.
                NAME_TOO_FAR = concat!($protocol, "_name_too_far"), [names];
                /// Of a packet that is not looked after any more.
                NAME_TOO_OLD = concat!($protocol, "_name_too_old"), [names];
                /// From another incarnation than the view names.
                OTHER_INCARNATION = concat!($protocol, "_other_incarnation"), [messages];
                /// An own message came back.
                OWN_ECHO = concat!($protocol, "_own_echo"), [messages];
                /// The application's message or group was not accepted.
                REJECTED = concat!($protocol, "_rejected"), [messages];
                /// Sent by the application.
                SENT = concat!($protocol, "_sent"), [packets];
                /// Asked to install a view older than the current one.
                STALE_VIEW = concat!($protocol, "_stale_view"), [views];
                /// Too far ahead of the packets that came.
                TOO_FAR = concat!($protocol, "_too_far"), [packets];
                /// Not looked after any more.
                TOO_OLD = concat!($protocol, "_too_old"), [packets];
                /// Of no member of the view.
                UNKNOWN_NAME = concat!($protocol, "_unknown_name"), [names; fault];
                /// Sent again, and here already.
                UNNEEDED = concat!($protocol, "_unneeded"), [packets];
                /// Has more members than names can tell apart.
                VIEW_TOO_LARGE = concat!($protocol, "_view_too_large"), [views];
            }
        }

        /// Those of the store.
        pub(super) static STORE: $crate::store::Counts =
            $crate::store::Counts {
                ledger: &LEDGER,
                sent: SENT,
                rejected: REJECTED,
                too_old: TOO_OLD,
                too_far: TOO_FAR,
                unneeded: UNNEEDED,
                evicted_early: EVICTED_EARLY,
                flows_full: FLOWS_FULL,
                own_echo: OWN_ECHO,
                foreign_sender: FOREIGN_SENDER,
                foreign_group: FOREIGN_GROUP,
                foreign_view: FOREIGN_VIEW,
                stale_view: STALE_VIEW,
                view_too_large: VIEW_TOO_LARGE,
                other_incarnation: OTHER_INCARNATION,
                unknown_name: UNKNOWN_NAME,
                name_mismatch: NAME_MISMATCH,
                name_not_sent: NAME_NOT_SENT,
                name_too_old: NAME_TOO_OLD,
                name_too_far: NAME_TOO_FAR,
                duplicate: DUPLICATE,
                after_lost: AFTER_LOST,
            };
    };
}
pub(crate) use with_store;
