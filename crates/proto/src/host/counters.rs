//! What a host counts of its services.

crate::counters! {
    /// What a host counts of its services.
    pub COUNTERS = "host" {
        /// Sent by the failure detector.
        DETECTOR_SENT = "host_detector_sent", [datagrams];
        /// Say that a member ended which no service watches in this incarnation.
        ENDED_UNWATCHED = "host_ended_unwatched", [messages];
        /// Do not watch the same as this host; its services are told.
        PEER_DIFFERS = "host_peer_differs", [hosts];
        /// Dropped, the oldest of their service, since too many bytes of it wait for the link.
        LINK_DROPPED = "host_link_dropped", [datagrams];
        /// Of a service's messages to other hosts, with the heads down to Ethernet's. On sockets
        /// only; repeats by TCP are not counted.
        LINK_SENT = "host_link_sent", [bytes];
        /// Waited for the turn of their service on the link.
        LINK_WAITED = "host_link_waited", [messages];
        /// For a service that the host does not run.
        UNKNOWN_SERVICE = "host_unknown_service", [messages];
        /// Not a message of the service that they are for.
        UNDECODABLE = "host_undecodable", [messages; fault];
        /// To a group that the service has not joined, and that shares its number in the network
        /// with one that is joined.
        FOREIGN_GROUP = "host_foreign_group", [messages];
        /// Of the application, for a service that the host does not run, or of another protocol.
        INPUT_UNKNOWN_SERVICE = "host_input_unknown_service", [inputs; fault];
    }
}
