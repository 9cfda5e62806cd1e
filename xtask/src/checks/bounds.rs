//! Measured figures, and their bounds.

use crate::table;

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// No requirement.
    None,
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// At least this in every attempt: a condition of correctness, which no repetition excuses.
    AlwaysAtLeast(f64),
    /// At most this in every attempt.
    AlwaysAtMost(f64),
}

impl Bound {
    /// Whether the figure keeps the bound. Without a figure only [`Bound::None`] is kept.
    pub fn keeps(self, measured: Option<f64>) -> bool {
        match (self, measured) {
            (Bound::None, _) => true,
            (_, None) => false,
            (Bound::AtLeast(low) | Bound::AlwaysAtLeast(low), Some(measured)) => measured >= low,
            (Bound::AtMost(high) | Bound::AlwaysAtMost(high), Some(measured)) => measured <= high,
        }
    }

    /// Whether every attempt must keep the bound, not only the best one.
    fn counts_always(self) -> bool {
        matches!(self, Bound::AlwaysAtLeast(_) | Bound::AlwaysAtMost(_))
    }

    fn text(self) -> String {
        match self {
            Bound::None => String::new(),
            Bound::AtLeast(low) => format!(">= {low}"),
            Bound::AtMost(high) => format!("<= {high}"),
            Bound::AlwaysAtLeast(low) => format!(">= {low}, always"),
            Bound::AlwaysAtMost(high) => format!("<= {high}, always"),
        }
    }
}

/// One measured figure with its goal, which is reported, and its floor, which is a condition.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What was measured, with its unit.
    pub name: String,
    /// The figure, if the run gave one.
    pub measured: Option<f64>,
    /// What the project wants to reach.
    pub goal: Bound,
    /// What it must keep.
    pub floor: Bound,
}

impl Figure {
    /// Whether the floor is kept.
    pub fn passes(&self) -> bool {
        self.floor.keeps(self.measured)
    }

    /// Whether the figure breaks a floor that every attempt must keep.
    pub fn breaks_always(&self) -> bool {
        self.floor.counts_always() && !self.passes()
    }

    /// Whether the goal is reached.
    pub fn reaches_goal(&self) -> bool {
        self.goal.keeps(self.measured)
    }

    fn verdict(&self) -> &'static str {
        match (self.floor, self.goal) {
            _ if !self.passes() => "FAILED",
            (Bound::None, Bound::None) => "shown",
            (_, Bound::None) => "passed",
            _ if self.reaches_goal() => "goal reached",
            (Bound::None, _) => "below goal",
            _ => "passed, below goal",
        }
    }
}

/// Measures until all figures pass, at most `attempts` times, and returns the attempt that keeps
/// the most floors: other load on the machine lowers speeds. The first attempt that breaks a floor
/// of correctness ([`Bound::AlwaysAtMost`]) is returned at once, whatever the other attempts gave.
pub fn best_of(
    attempts: usize,
    measure: impl Fn() -> Result<Vec<Figure>, String>,
) -> Result<Vec<Figure>, String> {
    let kept = |figures: &[Figure]| figures.iter().filter(|figure| figure.passes()).count();
    let mut best = measure()?;
    for _ in 1..attempts {
        if kept(&best) == best.len() || best.iter().any(Figure::breaks_always) {
            break;
        }
        let figures = measure()?;
        if figures.iter().any(Figure::breaks_always) || kept(&figures) > kept(&best) {
            best = figures;
        }
    }
    Ok(best)
}

/// Prints the figures.
pub fn print(figures: &[Figure]) {
    let row = |figure: &Figure| {
        vec![
            figure.name.clone(),
            figure.measured.map_or("-".into(), |measured| format!("{measured:.2}")),
            figure.goal.text(),
            figure.floor.text(),
            figure.verdict().to_string(),
        ]
    };
    let rows: Vec<_> = figures.iter().map(row).collect();
    table::print(&["figure", "measured", "goal", "floor", "verdict"], &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_whole_attempt_counts_or_that_of_which_most_passes() {
        let taken = |attempts: &[[f64; 2]]| {
            let made = std::cell::Cell::new(0);
            let measure = || {
                let figure = |&measured: &f64| Figure {
                    name: "rate".into(),
                    measured: Some(measured),
                    goal: Bound::None,
                    floor: Bound::AtLeast(1.0),
                };
                let figures = attempts[made.get()].iter().map(figure).collect();
                made.set(made.get() + 1);
                Ok(figures)
            };
            let best = best_of(attempts.len(), measure).unwrap();
            let best: Vec<f64> = best.iter().filter_map(|figure| figure.measured).collect();
            (best, made.get())
        };
        assert_eq!(taken(&[[0.0, 0.0], [1.0, 2.0], [3.0, 3.0]]), (vec![1.0, 2.0], 2));
        assert_eq!(taken(&[[0.0, 0.0], [0.0, 2.0], [0.5, 3.0]]), (vec![0.0, 2.0], 3));
    }

    #[test]
    fn an_attempt_that_breaks_a_floor_of_correctness_counts_whatever_the_others_gave() {
        // Speed and packets lost, by attempt.
        let taken = |attempts: &[[f64; 2]]| {
            let made = std::cell::Cell::new(0);
            let measure = || {
                let [speed, lost] = attempts[made.get()];
                made.set(made.get() + 1);
                let figure = |measured: f64, floor| Figure {
                    name: String::new(),
                    measured: Some(measured),
                    goal: Bound::None,
                    floor,
                };
                Ok(vec![figure(speed, Bound::AtLeast(1.0)), figure(lost, Bound::AlwaysAtMost(0.0))])
            };
            let best = best_of(attempts.len(), measure).unwrap();
            (best.iter().all(Figure::passes), made.get())
        };
        assert_eq!(taken(&[[0.5, 0.0], [2.0, 0.0]]), (true, 2), "speed may be repeated");
        assert_eq!(taken(&[[2.0, 1.0], [2.0, 0.0]]), (false, 1), "a loss may not");
        assert_eq!(taken(&[[0.5, 0.0], [2.0, 1.0], [2.0, 0.0]]), (false, 2));
        assert_eq!(taken(&[[0.5, 0.0], [0.1, 1.0], [2.0, 0.0]]), (false, 2));
    }

    #[test]
    fn a_missing_figure_fails_its_floor() {
        let mut figure = Figure {
            name: "rate".into(),
            measured: None,
            goal: Bound::AtLeast(2.0),
            floor: Bound::AtLeast(1.0),
        };
        assert_eq!((figure.passes(), figure.verdict()), (false, "FAILED"));
        figure.measured = Some(1.5);
        assert_eq!((figure.passes(), figure.verdict()), (true, "passed, below goal"));
        figure.measured = Some(2.0);
        assert_eq!(figure.verdict(), "goal reached");
        figure.floor = Bound::None;
        figure.measured = None;
        assert_eq!((figure.passes(), figure.verdict()), (true, "below goal"));
    }
}
