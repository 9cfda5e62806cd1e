use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit status of a program that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// From now on SIGINT and SIGTERM set `stop`; another one later ends the process.
#[cfg(not(windows))]
pub fn heed(stop: Arc<AtomicBool>) -> io::Result<()> {
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    /// `timeout` signals the process it started and then its whole group: that is one wish.
    const ONE_WISH: Duration = Duration::from_millis(300);

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let mut first: Option<Instant> = None;
    let heed = move || {
        for _ in signals.forever() {
            stop.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_WISH {
                std::process::exit(INTERRUPTED);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(heed).map(drop)
}

/// From now on Ctrl-C sets `stop`; another one ends the process.
#[cfg(windows)]
pub fn heed(stop: Arc<AtomicBool>) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(())
}
