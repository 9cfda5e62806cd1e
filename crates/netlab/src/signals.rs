//! Ctrl-C as a flag: the handler stores the signal's number, nothing else.

use std::sync::Once;
use std::sync::atomic::{AtomicI32, Ordering};

static RECEIVED: AtomicI32 = AtomicI32::new(0);
static INSTALL: Once = Once::new();

extern "C" fn remember(signal: libc::c_int) {
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Installs the handler for SIGINT, SIGTERM and SIGHUP, once a process.
///
/// System calls are not restarted after the handler ran, so a `poll` returns at once. The first
/// signal sets the flag; a second one of the same kind ends the process as if never caught.
pub fn watch() {
    INSTALL.call_once(|| {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: the action is zeroed, which is a valid empty mask, and the handler only
            // stores to an atomic, which is safe at any point of the program.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = remember as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    });
}

/// The signal that arrived since [`watch`], if any.
pub fn interrupted() -> Option<i32> {
    match RECEIVED.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}
