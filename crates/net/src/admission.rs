//! Admission of the application's commands: two counters that only grow.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use tokio::sync::Notify;

/// Bytes submitted so far, and their bound.
///
/// The bound is what the protocol has handled plus what it admits beyond that, so commands in the
/// queue count as submitted. While anything is admitted one more command passes, whatever its size.
/// Neither counter ever wraps in practice (2^64 bytes).
#[derive(Debug, Default)]
pub(crate) struct Admission {
    submitted: AtomicU64,
    limit: AtomicU64,
    waiting: AtomicUsize,
    raised: Notify,
}

impl Admission {
    /// Takes `bytes` if anything is left.
    pub(crate) fn try_take(&self, bytes: usize) -> bool {
        let limit = self.limit.load(SeqCst);
        self.submitted
            .fetch_update(SeqCst, SeqCst, |submitted| {
                (submitted < limit).then(|| submitted.saturating_add(bytes as u64))
            })
            .is_ok()
    }

    /// Takes `bytes` as soon as anything is left, or the node has stopped.
    pub(crate) async fn take(&self, bytes: usize) {
        if self.try_take(bytes) {
            return;
        }
        let _waiting = Waiting::enter(&self.waiting);
        loop {
            let raised = self.raised.notified();
            tokio::pin!(raised);
            // Registered before the second look, so a raise in between is not missed.
            raised.as_mut().enable();
            if self.try_take(bytes) {
                return;
            }
            raised.await;
        }
    }

    /// The driver's side: moves the bound and wakes waiting submitters.
    pub(crate) fn set_limit(&self, limit: u64) {
        if self.limit.swap(limit, SeqCst) < limit && self.waiting.load(SeqCst) > 0 {
            self.raised.notify_waiters();
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Waiting<'a> {
        waiting.fetch_add(1, SeqCst);
        Waiting(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn one_command_of_any_size_passes_while_anything_is_left() {
        let admission = Admission::default();
        assert!(!admission.try_take(1));
        admission.set_limit(10);
        assert!(admission.try_take(1000));
        assert!(!admission.try_take(1));
        admission.set_limit(1000);
        assert!(!admission.try_take(1));
        admission.set_limit(1001);
        assert!(admission.try_take(1));
    }

    #[tokio::test]
    async fn a_waiter_passes_once_the_bound_is_raised() {
        let admission = Arc::new(Admission::default());
        let waiter = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.take(5).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        admission.set_limit(1);
        waiter.await.expect("the waiter ends");
        assert!(!admission.try_take(1));
    }
}
