//! Whether a service has left, for those that wait for it.

use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

const RUNNING: u8 = 0;
const LEFT: u8 = 1;
const ENDED: u8 = 2;

/// Whether a service has left or ended. The first of the two counts.
#[derive(Debug, Default)]
pub(crate) struct Departure {
    state: AtomicU8,
    changed: Notify,
}

impl Departure {
    /// The protocol has left ([`Protocol::is_departure`](paceline_proto::core::Protocol)).
    pub(crate) fn note_left(&self) {
        self.set(LEFT);
    }

    /// The service has ended.
    pub(crate) fn note_ended(&self) {
        self.set(ENDED);
    }

    fn set(&self, state: u8) {
        // A service that has left ends later.
        let _ = self.state.compare_exchange(RUNNING, state, Ordering::AcqRel, Ordering::Acquire);
        self.changed.notify_waiters();
    }

    /// Waits until the protocol has left or the service has ended; true if it has left.
    pub(crate) async fn departed(&self) -> bool {
        loop {
            let mut changed = pin!(self.changed.notified());
            // From here on a change is noticed.
            changed.as_mut().enable();
            match self.state.load(Ordering::Acquire) {
                RUNNING => changed.await,
                state => return state == LEFT,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn the_first_end_of_a_service_counts_and_wakes_all_that_wait() {
        let departure = Departure::default();
        let mut waiting = [pin!(departure.departed()), pin!(departure.departed())];
        let cx = &mut Context::from_waker(Waker::noop());
        for one in &mut waiting {
            assert_eq!(one.as_mut().poll(cx), Poll::Pending);
        }
        departure.note_left();
        departure.note_ended();
        for one in &mut waiting {
            assert_eq!(one.as_mut().poll(cx), Poll::Ready(true));
        }
        let ended = Departure::default();
        ended.note_ended();
        assert_eq!(pin!(ended.departed()).poll(cx), Poll::Ready(false));
    }
}
