//! What servers and clients of walks count.

crate::counters! {
    /// What servers and clients of walks count.
    pub COUNTERS = "walk" {
        /// About a barrier of another job or step, or not from a server.
        BARRIER_REFUSED = "walk_barrier_refused", [messages; fault];
        /// A stream broke in a step: its walkers are lost, and the job does not end.
        EXCHANGE_INCOMPLETE = "walk_exchange_incomplete", [exchanges];
        /// Silent for too long: its walkers are dropped.
        HOME_FORGOTTEN = "walk_home_forgotten", [homes];
        /// Their client has as many jobs here as it may.
        JOB_REFUSED = "walk_job_refused", [walkers];
        /// Ended after their job.
        OF_NO_JOB = "walk_of_no_job", [walks];
        /// Beyond the steps that their client may have waiting here.
        WALKER_BEYOND_CREDIT = "walker_beyond_credit", [walkers];
        /// Of one client more than have room here.
        WALKER_BEYOND_HOMES = "walker_beyond_homes", [walkers];
        /// Dropped by random early detection.
        WALKER_DROPPED_EARLY = "walker_dropped_early", [walkers];
        /// Dropped: the queue is full.
        WALKER_DROPPED_FULL = "walker_dropped_full", [walkers];
        /// Their client is silent for too long.
        WALKER_FORGOTTEN = "walker_forgotten", [walkers];
        /// No server has the edges that they need.
        WALKER_LOST = "walker_lost", [walkers];
        /// Of a graph that this server does not hold.
        WALKER_OF_OTHER_GRAPH = "walker_of_other_graph", [walkers];
        /// Passed on by a server, of a client that is silent here.
        WALKER_OF_SILENT_HOME = "walker_of_silent_home", [walkers];
        /// Neither from their client nor from a server of the graph.
        WALKER_OF_STRANGER = "walker_of_stranger", [walkers; fault];
        /// Of a kind that the graph does not allow, or with a path that fits no message.
        WALKER_REFUSED = "walker_refused", [walkers];
    }
}
