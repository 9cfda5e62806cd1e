//! Counters of the simulator.

paceline_proto::counters! {
    /// Counters of the simulator.
    pub COUNTERS = "sim" {
        /// Between two outputs of a call.
        CRASHED_AMID = "sim_crashed_amid", [crashes];
        /// In flight when a reset or crash cut them off.
        CUT_OFF = "sim_cut_off", [messages];
        /// Longer than a datagram may be.
        DATAGRAM_OVERSIZED = "sim_datagram_oversized", [messages];
        /// Closed by the protocol; without faults in the scenario they are only counted.
        DISCONNECTED = "sim_disconnected", [connections];
        /// Lost by chance.
        LOST = "sim_lost", [datagrams];
        /// Lost at the receiver's end buffer.
        LOST_AT_RECEIVER = "sim_lost_at_receiver", [datagrams];
        /// To a node without a wire from the sender.
        NO_WIRE = "sim_no_wire", [messages];
        /// Lost by a partition.
        PARTITIONED = "sim_partitioned", [datagrams];
        /// Found the buffer of a port full, with `streams = "tcp"`.
        PORT_FULL = "sim_port_full", [packets];
        /// Found a port's queue full.
        QUEUE_FULL = "sim_queue_full", [datagrams];
        /// On a stream to a peer that is `Down`.
        SENT_WHILE_DOWN = "sim_sent_while_down", [messages];
        /// On a link that is cut permanently.
        SEVERED = "sim_severed", [messages];
        /// For a paused node that holds 212,992 bytes already.
        SOCKET_FULL = "sim_socket_full", [datagrams];
        /// That a stream found by acknowledgements.
        TCP_FAST_RETRANSMITS = "sim_tcp_fast_retransmits", [losses];
        /// Sent again by streams.
        TCP_RESENT = "sim_tcp_resent", [segments];
        /// Expiries of a stream's retransmission timer.
        TCP_TIME_OUTS = "sim_tcp_time_outs", [timeouts];
        /// Due at a crashed node.
        TO_CRASHED = "sim_to_crashed", [events];
        /// To a node that does not exist.
        UNKNOWN_DESTINATION = "sim_unknown_destination", [messages];
    }
}
