use std::time::Duration;

/// Where long work says how far it is, and asks whether to go on.
///
/// Shared among threads. The command line draws a bar; a test takes [`Quiet`].
pub trait Progress: Sync {
    /// `len` pieces of work begin; `what` names them for the user.
    fn start(&self, len: u64, what: &str) {
        let _ = (len, what);
    }
    /// `n` more pieces are done.
    fn inc(&self, n: u64) {
        let _ = n;
    }
    /// The work is over.
    fn finish(&self) {}
    /// True once the user asked to stop. What is finished by then is kept.
    fn stopped(&self) -> bool {
        false
    }
}

/// Says nothing and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}

/// Runs in real time that take longer show how many of their seconds are over.
const SHOWN_OVER: Duration = Duration::from_secs(2);

/// Tells of the seconds of a run in real time, and that it is over when dropped.
pub struct Seconds<'a> {
    progress: &'a dyn Progress,
    reported: u64,
    // 0 for a short run, which shows no progress.
    len: u64,
}

impl<'a> Seconds<'a> {
    /// Shows the progress of a run of this length.
    pub fn start(progress: &'a dyn Progress, len: Duration, what: &str) -> Seconds<'a> {
        let len = if len > SHOWN_OVER { len.as_secs_f64().ceil() as u64 } else { 0 };
        if len > 0 {
            progress.start(len, &format!("{what}, seconds"));
        }
        Seconds { progress, reported: 0, len }
    }

    /// So much of the run is over.
    pub fn reach(&mut self, elapsed: Duration) {
        let new = elapsed.as_secs().min(self.len).saturating_sub(self.reported);
        if new > 0 {
            self.reported += new;
            self.progress.inc(new);
        }
    }
}

impl Drop for Seconds<'_> {
    fn drop(&mut self) {
        if self.len > 0 {
            self.progress.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<u64>>);

    impl Progress for Recorder {
        fn start(&self, len: u64, _: &str) {
            self.0.lock().unwrap().push(len);
        }
        fn inc(&self, n: u64) {
            self.0.lock().unwrap().push(n);
        }
        fn finish(&self) {
            self.0.lock().unwrap().push(0);
        }
    }

    #[test]
    fn seconds_are_told_once_each_and_of_long_runs_only() {
        let reported = |len: u64| {
            let reported = Recorder::default();
            let mut seconds = Seconds::start(&reported, Duration::from_secs(len), "a run");
            for millis in [100, 1_100, 1_200, 3_400, 9_000] {
                seconds.reach(Duration::from_millis(millis));
            }
            drop(seconds);
            reported.0.into_inner().unwrap()
        };
        assert_eq!(reported(4), [4, 1, 2, 1, 0]);
        assert!(reported(2).is_empty());
    }
}
