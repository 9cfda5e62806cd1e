//! What can be read of a service without keeping it.

use std::fmt;
use std::sync::Weak;

use paceline_proto::core::Counters;

use crate::chassis::services::ServiceShared;

/// Reads what a service counts, and does not keep the service; made by
/// [`Handle::observer`](crate::Node::observer). Clones are of the same service.
#[derive(Clone)]
pub struct Observer {
    service: Weak<ServiceShared>,
}

impl Observer {
    pub(crate) fn new(service: Weak<ServiceShared>) -> Observer {
        Observer { service }
    }

    /// What the service's protocol has counted at the end of the last turn, without its node's
    /// counts. Nothing once it has ended.
    pub fn counters(&self) -> Counters {
        self.service.upgrade().map_or(Counters::default(), |service| service.counters())
    }

    /// True once the service has ended and all its handles are dropped.
    pub fn has_ended(&self) -> bool {
        self.service.strong_count() == 0
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("has_ended", &self.has_ended()).finish()
    }
}
