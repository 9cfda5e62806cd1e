use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::sync::watch;

/// The exit status of a program that ended by Ctrl-C.
const INTERRUPTED: i32 = 130;

/// How a command ends after the first Ctrl-C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Soon: after [`ENDS_WITHIN`] the process is ended, whatever it does.
    Soon,
    /// Once the part that runs is finished; a second Ctrl-C ends it at once.
    AfterItsPart,
}

/// Time that a command has for its ending: to leave a group and to save what it has.
const ENDS_WITHIN: Duration = Duration::from_millis(4_500);

/// True once the user asked to stop. It stays true, so a later waiter learns of it as well.
static ASKED: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

/// The message shown at the first Ctrl-C.
static SAID_WHEN_STOPPED: OnceLock<&str> = OnceLock::new();

/// From now on the first Ctrl-C says this on standard error. Call it once.
pub fn say_when_stopped(text: &'static str) {
    let _ = SAID_WHEN_STOPPED.set(text);
}

/// From now on SIGINT and SIGTERM set `stop`; another one later ends the process.
#[cfg(not(windows))]
pub fn heed(stop: Arc<AtomicBool>, ending: Ending) -> io::Result<()> {
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    /// `timeout` signals the process it started and then its whole group: that is one wish.
    const ONE_WISH: Duration = Duration::from_millis(300);

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let mut first: Option<Instant> = None;
    let heed = move || {
        for _ in signals.forever() {
            stop.store(true, Ordering::Relaxed);
            ASKED.send_replace(true);
            if first.is_none() && ending == Ending::Soon {
                end_later();
            }
            if let (None, Some(text)) = (first, SAID_WHEN_STOPPED.get()) {
                eprintln!("\n{text}");
            }
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_WISH {
                std::process::exit(INTERRUPTED);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(heed).map(drop)
}

/// Ends the process, unless it ends by itself before.
#[cfg(not(windows))]
fn end_later() {
    let end = || {
        std::thread::sleep(ENDS_WITHIN);
        eprintln!("error: stopped after {ENDS_WITHIN:?}, before it had finished");
        std::process::exit(INTERRUPTED);
    };
    // Without a thread, the second Ctrl-C does it.
    let _ = std::thread::Builder::new().name("ending".to_owned()).spawn(end);
}

/// From now on Ctrl-C sets `stop`; another one ends the process.
#[cfg(windows)]
pub fn heed(stop: Arc<AtomicBool>, _ending: Ending) -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the second signal finds the flag that the first one set.
        signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(())
}

/// Returns once the user asked to stop, also if that was before.
#[cfg(not(windows))]
pub async fn asked() {
    // The sender lives as long as the process.
    let _ = ASKED.subscribe().wait_for(|asked| *asked).await;
}

/// Returns once the user asks to stop.
#[cfg(windows)]
pub async fn asked() {
    // Without it, a second Ctrl-C ends the process.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Returns once standard output is a pipe whose reader has gone, as after `| head -1`.
#[cfg(unix)]
pub async fn output_closed() {
    use rustix::event::{PollFd, PollFlags, poll};

    let (told, closed) = tokio::sync::oneshot::channel();
    let watch = move || {
        let output = io::stdout();
        loop {
            // Asks for nothing: errors and hang-ups are reported all the same.
            let mut watched = [PollFd::new(&output, PollFlags::empty())];
            match poll(&mut watched, None) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) if watched[0].revents().intersects(PollFlags::ERR | PollFlags::HUP) => {
                    // The command may have ended by itself.
                    let _ = told.send(());
                    return;
                }
                // It was closed from the start, or cannot be watched.
                _ => return,
            }
        }
    };
    let watching = std::thread::Builder::new().name("output".to_owned()).spawn(watch);
    if watching.is_err() || closed.await.is_err() {
        std::future::pending().await
    }
}

/// Never returns: it is not known here.
#[cfg(not(unix))]
pub async fn output_closed() {
    std::future::pending().await
}
