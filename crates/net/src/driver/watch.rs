//! The failure detector of the host: one for all services.

use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{Instant, Lane, NodeId, ServiceNumber};
use paceline_proto::host::{Call, Carrier, HostDetector};

use super::carry::Carrying;
use super::{Deadline, Driver, Notice};
use crate::chassis::ready::Source;
use crate::chassis::services::FIRST;
use crate::datagrams::arrivals::Ask;
use crate::record::Refusal;

/// Time for which verdicts of the detector wait for datagrams to be read, at most: a flood from
/// some hosts must not keep others alive.
const VERDICT_PUT_OFF_MAX: Duration = Duration::from_secs(1);

impl Driver {
    /// Calls the detector and carries out what it asks for. Calls no handler.
    pub(super) fn with_detector<R>(
        &mut self,
        call: impl FnOnce(&mut HostDetector, Instant) -> R,
    ) -> R {
        let result = call(&mut self.detector, self.chassis.now);
        let out = &mut self.detector.out;
        out.counters.drain_into(&mut self.chassis.counters);
        for (service, node, news) in out.news.drain(..) {
            let (call, to) = (Call::Watched(node, news), Some(vec![service]));
            self.notices.push(Notice { call, to });
        }
        let mut sends = std::mem::take(&mut out.sends);
        // The place is that of a service's timers; the detector arms none by it.
        let mut carrying = Carrying { driver: self, service: FIRST, number: ServiceNumber::NODE };
        for (to, message) in sends.drain(..) {
            carrying.send(to, Lane::Datagram, &message);
        }
        self.detector.out.sends = sends;
        let deadline = self.detector.deadline();
        if deadline < self.detector_wakes {
            self.detector_wakes = deadline;
            self.deadlines.set(deadline, Deadline::Detector);
        }
        result
    }

    /// A datagram for the detector has come from a known peer.
    pub(super) fn receive_detector(&mut self, from: NodeId, message: Bytes) -> Result<(), Refusal> {
        let received = self.with_detector(|detector, now| detector.receive(now, from, message));
        received.map_err(|_| Refusal::Undecodable)
    }

    /// Something of the detector is due, such as a verdict on a host that has not answered. What
    /// has arrived is read first, since the answer may wait behind a burst of other datagrams.
    pub(super) fn poll_detector(&mut self) {
        if !self.holds_peers() {
            self.receive_datagrams(Ask::Now);
        }
        let has_more = self.chassis.again.contains(&Source::Datagrams);
        if has_more && self.chassis.now.since(self.detector_wakes) < VERDICT_PUT_OFF_MAX {
            // In the next turn, after more of them.
            return self.deadlines.set(self.chassis.now, Deadline::Detector);
        }
        self.detector_wakes = Instant::MAX;
        self.with_detector(|detector, now| detector.poll(now));
    }
}
