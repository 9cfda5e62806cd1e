use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use paceline_lab::Progress;

/// Work that takes less shows no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// A progress bar on a terminal, nothing elsewhere.
#[derive(Debug)]
pub struct Bars {
    stop: Arc<AtomicBool>,
    shown: Mutex<Option<Shown>>,
}

#[derive(Debug)]
struct Shown {
    bar: ProgressBar,
    // Dropped with the bar, which ends the thread that waits to show it.
    _ended: Sender<()>,
}

impl Bars {
    pub(crate) fn new(stop: Arc<AtomicBool>) -> Bars {
        Bars { stop, shown: Mutex::new(None) }
    }

    fn with_bar(&self, f: impl FnOnce(&ProgressBar)) {
        if let Some(shown) = &*self.shown.lock().expect("no drawing panics") {
            f(&shown.bar);
        }
    }
}

impl Progress for Bars {
    fn start(&self, len: u64, what: &str) {
        if !is_watched() {
            return;
        }
        let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden());
        let style = "{msg} {wide_bar} {pos}/{len} {elapsed} {eta}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
        bar.set_message(what.to_owned());
        let (ended, waits) = channel::<()>();
        let later = bar.clone();
        std::thread::spawn(move || {
            if waits.recv_timeout(SHOWN_AFTER) == Err(RecvTimeoutError::Timeout) {
                later.set_draw_target(ProgressDrawTarget::stderr());
                later.enable_steady_tick(Duration::from_millis(200));
            }
        });
        let shown = Shown { bar, _ended: ended };
        *self.shown.lock().expect("no drawing panics") = Some(shown);
    }

    fn inc(&self, n: u64) {
        self.with_bar(|bar| bar.inc(n));
    }

    fn finish(&self) {
        if let Some(shown) = self.shown.lock().expect("no drawing panics").take() {
            shown.bar.finish_and_clear();
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A progress bar of bytes, on a terminal; nothing elsewhere.
#[derive(Debug)]
pub struct ByteBar(Option<ProgressBar>);

impl ByteBar {
    /// Nothing has come yet.
    pub fn new() -> ByteBar {
        ByteBar(is_watched().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = "{wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
            bar.set_style(
                ProgressStyle::with_template(style).expect("the template is well formed"),
            );
            bar
        }))
    }

    /// Sets the bytes present, and how many of them were present before.
    pub fn set(&self, bytes: u64, before: u64, total: Option<u64>) {
        let Some(bar) = &self.0 else { return };
        if let Some(total) = total {
            bar.set_length(total);
        }
        if bar.position() == 0 && before > 0 {
            // The remaining time is estimated from new bytes only.
            bar.set_position(before);
            bar.reset_eta();
        }
        bar.set_position(bytes);
    }

    /// Takes it away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.finish();
    }
}

/// True if a person looks at standard error.
fn is_watched() -> bool {
    io::stderr().is_terminal()
}
