use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use paceline_lab::Progress;

use crate::ui::is_watched;

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

impl Drop for Bars {
    fn drop(&mut self) {
        self.finish();
    }
}
