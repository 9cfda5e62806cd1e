//! What a host of several services counts in the simulator.

crate::counters! {
    /// What a host of several services counts in the simulator.
    pub COUNTERS = "host" {
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
