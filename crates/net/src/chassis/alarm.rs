//! The one alarm that wakes a node for its earliest deadline.
//!
//! The runtime's own timers tick in milliseconds, ten packets or more at the rates that protocols
//! pace. Linux has a timer that is a file descriptor and keeps microseconds; elsewhere the
//! runtime's does.

use std::io;
use std::task::Waker;

use paceline_proto::core::Instant;

use crate::chassis::deadlines::Clock;

/// Wakes once at an instant or later.
pub(crate) struct Alarm {
    clock: Clock,
    waker: Waker,
    rings_at: Instant,
    timer: imp::Timer,
}

impl Alarm {
    /// An alarm that is off; when it rings it wakes `waker`. Needs a runtime.
    pub(crate) fn new(clock: Clock, waker: Waker) -> io::Result<Alarm> {
        Ok(Alarm { clock, waker, rings_at: Instant::MAX, timer: imp::Timer::new()? })
    }

    /// Sets the alarm in place of its former setting; [`Instant::MAX`] turns it off.
    pub(crate) fn set(&mut self, at: Instant) {
        if at == self.rings_at {
            return;
        }
        self.rings_at = at;
        let after = (at != Instant::MAX).then(|| at.since(self.clock.now()));
        if self.timer.set(after, &self.waker).is_ready() {
            self.acknowledge();
            self.waker.wake_by_ref();
        }
    }

    /// Notes that the alarm has rung: the next setting is new even if it is the same.
    pub(crate) fn acknowledge(&mut self) {
        self.rings_at = Instant::MAX;
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod imp {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::io::unix::AsyncFd;

    use crate::sys;

    /// A timer file descriptor.
    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            sys::create_timer().map(Timer)
        }

        /// Ready if the time was over before the waker was in place, or the timer cannot be set.
        pub(super) fn set(&mut self, after: Option<Duration>, waker: &Waker) -> Poll<()> {
            let mut cx = Context::from_waker(waker);
            // Ignore an earlier expiry: setting the timer clears it in the kernel too.
            if let Poll::Ready(Ok(mut rung)) = self.0.poll_read_ready(&mut cx) {
                rung.clear_ready();
            }
            if sys::set_timer(self.0.get_ref(), after).is_err() {
                return Poll::Ready(());
            }
            self.0.poll_read_ready(&mut cx).map(drop)
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod imp {
    use std::future::Future;
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::time::Sleep;

    /// A timer of the runtime.
    pub(super) struct Timer(Option<Pin<Box<Sleep>>>);

    impl Timer {
        pub(super) fn new() -> io::Result<Timer> {
            Ok(Timer(None))
        }

        /// Ready if the time is over.
        pub(super) fn set(&mut self, after: Option<Duration>, waker: &Waker) -> Poll<()> {
            let Some(after) = after else {
                self.0 = None;
                return Poll::Pending;
            };
            let sleep = self.0.insert(Box::pin(tokio::time::sleep(after)));
            sleep.as_mut().poll(&mut Context::from_waker(waker))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;
    use std::time::Duration;

    use tokio::sync::Notify;

    use super::*;

    #[derive(Default)]
    struct Bell(Notify);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.notify_one();
        }
    }

    fn alarm() -> (Alarm, Arc<Bell>, Clock) {
        let (bell, clock) = (Arc::new(Bell::default()), Clock::start());
        let alarm = Alarm::new(clock, Waker::from(Arc::clone(&bell))).expect("a timer");
        (alarm, bell, clock)
    }

    #[tokio::test]
    async fn an_alarm_rings_at_its_time_or_later_and_again_when_set_again() {
        let (mut alarm, bell, clock) = alarm();
        for _ in 0..3 {
            let at = clock.now() + Duration::from_micros(300);
            alarm.set(at);
            bell.0.notified().await;
            assert!(clock.now() >= at);
            alarm.acknowledge();
        }
        // Long past.
        alarm.set(Instant::from_nanos(1));
        bell.0.notified().await;
    }

    #[tokio::test]
    async fn only_the_last_setting_rings() {
        let (mut alarm, bell, clock) = alarm();
        alarm.set(clock.now() + Duration::from_millis(1));
        alarm.set(Instant::MAX);
        tokio::time::sleep(Duration::from_millis(5)).await;
        let at = clock.now() + Duration::from_millis(5);
        alarm.set(clock.now() + Duration::from_secs(3600));
        alarm.set(at);
        bell.0.notified().await;
        assert!(clock.now() >= at);
    }
}
