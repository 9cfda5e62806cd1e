use paceline_proto::walk::{Census, Discipline, QueueConfig};

use super::{Broken, Rule};

/// A queue between two calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) length: usize,
    pub(super) average: f64,
}

/// What a call did to a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) before: Queue,
    pub(super) after: Queue,
    /// Walkers that may have entered it from elsewhere.
    pub(super) entered_max: usize,
    /// True if the worker may have taken some out.
    pub(super) is_worked: bool,
}

impl Change {
    /// Holds what was dropped and marked against the discipline.
    pub(super) fn check(&self, config: &QueueConfig, census: &Census) -> Result<(), Broken> {
        let Change { before, after, entered_max, is_worked } = *self;
        let Census { dropped_early: early, dropped_full: full, marked, .. } = *census;
        let broken = |what: String| Err((Rule::Queue, what));
        let QueueConfig { min_th, max_th, limit, .. } = *config;
        if after.length > limit {
            return broken(format!("{} walkers, at most {limit}", after.length));
        }
        if !(0.0..=limit as f64).contains(&after.average) {
            return broken(format!("an average of {}, at most {limit}", after.average));
        }
        // Who is served makes room before he comes again, so only those from elsewhere add.
        let longest = before.length + entered_max.saturating_sub(1);
        if full > 0 && longest < limit {
            return broken(format!("{full} dropped as if {limit} were here, {longest} were"));
        }
        let (signals, never) = match config.discipline {
            Discipline::TailDrop => (0, early + marked),
            Discipline::RedDrop => (early, marked),
            Discipline::RedMark => (marked, early),
        };
        if never > 0 {
            let what = format!("{early} dropped early, {marked} marked: {:?}", config.discipline);
            return broken(what);
        }
        let average_max = match config.weight < 1.0 {
            true => before.average.max(longest as f64),
            false => longest as f64,
        };
        if signals > 0 && average_max < min_th as f64 {
            return broken(format!(
                "{signals} signalled at {average_max}, from {min_th} on at most"
            ));
        }
        // All are signalled from here on, if none was taken out.
        let sure = if config.is_gentle { 2 * max_th } else { max_th };
        let is_pressed = before.length >= sure
            && (config.weight >= 1.0 || before.average >= sure as f64 + 1e-6)
            && !is_worked;
        let grown = after.length.saturating_sub(before.length) as u64;
        match config.discipline {
            Discipline::RedDrop if is_pressed && grown > 0 => {
                broken(format!("{grown} entered above {sure}, where all are dropped"))
            }
            Discipline::RedMark if is_pressed && marked < grown => {
                broken(format!("{grown} entered above {sure}, of which {marked} were marked"))
            }
            _ => Ok(()),
        }
    }
}
