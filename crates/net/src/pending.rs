//! Replies of a node for which callers wait.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};

/// The requests of an application that its node has not answered, by number, each with the sender
/// of the channel on which a caller waits.
///
/// Once the table is closed, because the node has stopped, it holds no sender, so that each
/// receiver ends.
#[derive(Debug)]
pub struct Pending<K, S> {
    // `None` once it is closed.
    requests: Mutex<Option<HashMap<K, S>>>,
}

impl<K, S> Default for Pending<K, S> {
    fn default() -> Self {
        Pending { requests: Mutex::new(Some(HashMap::new())) }
    }
}

impl<K: Eq + Hash, S> Pending<K, S> {
    /// Adds a request.
    ///
    /// # Errors
    /// Gives the sender back if the table is closed.
    pub fn add(&self, key: K, sender: S) -> Result<(), S> {
        match &mut *self.lock() {
            Some(requests) => {
                requests.insert(key, sender);
                Ok(())
            }
            None => Err(sender),
        }
    }

    /// Calls `change` with the sender of a request, if the request is pending.
    pub fn with<T>(&self, key: &K, change: impl FnOnce(&mut S) -> T) -> Option<T> {
        self.lock().as_mut()?.get_mut(key).map(change)
    }

    /// Removes a request.
    pub fn remove(&self, key: &K) -> Option<S> {
        self.lock().as_mut()?.remove(key)
    }

    /// Removes all requests, and returns them.
    pub fn take_all(&self) -> HashMap<K, S> {
        self.lock().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Removes all requests, and returns them. Accepts none from now on.
    pub fn close(&self) -> HashMap<K, S> {
        self.lock().take().unwrap_or_default()
    }

    /// True once [`close`](Pending::close) was called.
    pub fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    // A panic while the lock is held leaves the table intact.
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<K, S>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T> Pending<K, oneshot::Sender<T>> {
    /// Adds a request that has one reply.
    pub fn expect(&self, key: K) -> oneshot::Receiver<T> {
        let (sender, receiver) = oneshot::channel();
        // The receiver of a closed table ends at once.
        let _ = self.add(key, sender);
        receiver
    }

    /// Passes the reply to its caller. False if the request is not pending.
    pub fn answer(&self, key: &K, reply: T) -> bool {
        // The receiver may have stopped waiting.
        self.remove(key).map(|sender| _ = sender.send(reply)).is_some()
    }
}

impl<K: Eq + Hash, T> Pending<K, mpsc::UnboundedSender<T>> {
    /// Adds a request that has any number of replies. Their queue has no bound of its own.
    pub fn expect_many(&self, key: K) -> mpsc::UnboundedReceiver<T> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver of a closed table ends at once.
        let _ = self.add(key, sender);
        receiver
    }

    /// Passes a reply to its caller; the request stays.
    pub fn send(&self, key: &K, reply: T) {
        // The receiver may have stopped waiting.
        self.with(key, |sender| _ = sender.send(reply));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_reaches_the_caller_that_waits_for_it() {
        let pending = Pending::default();
        let (mut one, mut other) = (pending.expect(1), pending.expect(2));
        assert!(pending.answer(&2, "two"));
        assert!(!pending.answer(&2, "again") && !pending.answer(&3, "three"));
        assert_eq!(other.try_recv(), Ok("two"));
        assert_eq!(one.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    #[test]
    fn a_queue_receives_replies_until_its_request_is_removed() {
        let pending = Pending::default();
        let mut replies = pending.expect_many("job");
        ["a", "b"].into_iter().for_each(|reply| pending.send(&"job", reply));
        assert!(pending.remove(&"job").is_some());
        pending.send(&"job", "c");
        assert_eq!([(); 3].map(|()| replies.blocking_recv()), [Some("a"), Some("b"), None]);
    }

    #[test]
    fn a_closed_table_ends_the_receivers_it_had_and_those_it_gives_out() {
        let pending: Pending<u8, oneshot::Sender<()>> = Pending::default();
        let before = pending.expect(1);
        assert_eq!((pending.close().len(), pending.is_closed()), (1, true));
        assert!(before.blocking_recv().is_err() && pending.expect(2).blocking_recv().is_err());
        assert!(pending.add(3, oneshot::channel().0).is_err() && pending.take_all().is_empty());
    }
}
