//! The sources of work that woke the driver, so that a turn touches only those.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use paceline_proto::host::ServicePlace;

/// Something the driver waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Commands and views from the application, to this service.
    Inputs(ServicePlace),
    /// Emulation and stop.
    Controls,
    /// The application, which has received enough events for peers to be read again.
    Events,
    /// The earliest deadline.
    Deadline,
    /// The TCP listener.
    Listener,
    /// A handshake that has ended.
    Handshakes,
    /// The UDP socket, either direction.
    Datagrams,
    /// The multicast socket.
    Multicast,
    /// The stream dialled to this peer.
    Outgoing(usize),
    /// The accepted stream in this slot.
    Incoming(usize),
}

/// The sources that woke since the driver last looked, and the task to wake for them.
#[derive(Debug, Default)]
pub(crate) struct ReadyList {
    state: Mutex<ReadyState>,
}

#[derive(Debug, Default)]
struct ReadyState {
    woken: Vec<Arc<SourceWaker>>,
    task: Option<Waker>,
}

impl ReadyList {
    /// A waker that puts `source` on the list and wakes the task.
    pub(crate) fn waker(self: &Arc<Self>, source: Source) -> Waker {
        Waker::from(Arc::new(SourceWaker {
            source,
            listed: AtomicBool::new(false),
            list: Arc::clone(self),
        }))
    }

    /// Takes the list; `task` is woken from now on.
    pub(crate) fn take(&self, task: &Waker, woken: &mut Vec<Source>) {
        let mut state = self.lock();
        match &mut state.task {
            Some(known) => known.clone_from(task),
            unknown => *unknown = Some(task.clone()),
        }
        for waker in state.woken.drain(..) {
            // Cleared before the source is polled: a wake-up during the poll lists it again.
            waker.listed.store(false, Ordering::Release);
            woken.push(waker.source);
        }
    }

    /// Forgets task and sources: the driver has ended, and wakers outlive it.
    pub(crate) fn clear(&self) {
        let ended = std::mem::take(&mut *self.lock());
        drop(ended);
    }

    // A panic while the lock is held leaves the list intact, so poison means nothing here.
    fn lock(&self) -> std::sync::MutexGuard<'_, ReadyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct SourceWaker {
    source: Source,
    listed: AtomicBool,
    list: Arc<ReadyList>,
}

impl Wake for SourceWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.listed.swap(true, Ordering::AcqRel) {
            return;
        }
        let task = {
            let mut state = self.list.lock();
            state.woken.push(Arc::clone(self));
            // One wake-up per batch is enough: the task takes the whole list.
            if state.woken.len() == 1 { state.task.clone() } else { None }
        };
        if let Some(task) = task {
            task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_listed_once_however_often_it_wakes() {
        let list = Arc::new(ReadyList::default());
        let of_first = Source::Inputs(crate::chassis::services::FIRST);
        let (inputs, listener) = (list.waker(of_first), list.waker(Source::Listener));
        inputs.wake_by_ref();
        inputs.wake_by_ref();
        listener.wake_by_ref();
        let mut woken = Vec::new();
        list.take(Waker::noop(), &mut woken);
        assert_eq!(woken, [of_first, Source::Listener]);
        woken.clear();
        list.take(Waker::noop(), &mut woken);
        assert_eq!(woken, []);
        inputs.wake_by_ref();
        list.take(Waker::noop(), &mut woken);
        assert_eq!(woken, [of_first]);
    }
}
