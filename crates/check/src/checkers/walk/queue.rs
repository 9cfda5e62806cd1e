use paceline_proto::walk::{Census, Discipline, QueueConfig};

use super::{Broken, Rule};

/// A queue between two calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) length: usize,
    pub(super) average: f64,
}

/// What a call did to the queues of a server, one for each home.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<'a> {
    pub(super) before: &'a [Queue],
    /// The same, and after them those of new homes.
    pub(super) after: &'a [Queue],
    /// Walkers that may have entered them from elsewhere.
    pub(super) entered_max: usize,
    /// True if the worker may have taken some out.
    pub(super) is_worked: bool,
}

impl Change<'_> {
    /// Holds what was dropped and marked against the discipline.
    pub(super) fn check(&self, config: &QueueConfig, census: &Census) -> Result<(), Broken> {
        let Change { before, after, entered_max, is_worked } = *self;
        let Census { dropped_early: early, dropped_full: full, marked, .. } = *census;
        let broken = |what: String| Err((Rule::Queue, what));
        let QueueConfig { min_th, max_th, limit, .. } = *config;
        let waiting = |queues: &[Queue]| queues.iter().map(|queue| queue.length).sum::<usize>();
        if waiting(after) > limit {
            return broken(format!("{} walkers, at most {limit}", waiting(after)));
        }
        if let Some(queue) = after.iter().find(|of| !(0.0..=limit as f64).contains(&of.average)) {
            return broken(format!("an average of {}, at most {limit}", queue.average));
        }
        // A served walker frees its place before it enters again, so only arriving walkers add.
        let more = entered_max.saturating_sub(1);
        if full > 0 && waiting(before) + more < limit {
            let were = waiting(before) + more;
            return broken(format!("{full} dropped as if {limit} were here, {were} were"));
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
        let none = Queue::default();
        let pairs = || before.iter().chain(std::iter::repeat(&none)).zip(after);
        let average_max = pairs().map(|(before, _)| {
            let longest = (before.length + more) as f64;
            if config.weight < 1.0 { before.average.max(longest) } else { longest }
        });
        let average_max = average_max.fold(0.0, f64::max);
        if signals > 0 && average_max < min_th as f64 {
            return broken(format!(
                "{signals} signalled at {average_max}, from {min_th} on at most"
            ));
        }
        // All are signalled from here on, if none was taken out.
        let sure = if config.is_gentle { 2 * max_th } else { max_th };
        let is_pressed = |before: &Queue| {
            before.length >= sure
                && (config.weight >= 1.0 || before.average >= sure as f64 + 1e-6)
                && !is_worked
        };
        let pressed = pairs().filter(|(before, _)| is_pressed(before));
        let grown: u64 =
            pressed.map(|(before, after)| after.length.saturating_sub(before.length) as u64).sum();
        match config.discipline {
            Discipline::RedDrop if grown > 0 => {
                broken(format!("{grown} entered above {sure}, where all are dropped"))
            }
            Discipline::RedMark if marked < grown => {
                broken(format!("{grown} entered above {sure}, of which {marked} were marked"))
            }
            _ => Ok(()),
        }
    }
}
