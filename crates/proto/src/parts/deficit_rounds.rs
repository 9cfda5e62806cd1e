//! Deficit round robin: lines of waiting things are served in turn, by bytes.
//!
//! Source: Shreedhar & Varghese, *Efficient Fair Queueing using Deficit Round Robin*, SIGCOMM 1995.
//! Each visit raises a line's deficit by its quantum, and things leave while the deficit covers
//! them. Over any time in which two lines of one quantum both have things that may leave, the bytes
//! that left of them differ by at most a quantum and a thing each (their Lemma 2), however long the
//! things of either are.

use std::collections::VecDeque;

/// The lines with something waiting, in the order of their turns.
#[derive(Debug)]
pub(crate) struct DeficitRounds<L> {
    turns: VecDeque<Turn<L>>,
    // The first line has received its quantum for this visit.
    is_visited: bool,
}

#[derive(Debug)]
struct Turn<L> {
    deficit: usize,
    line: L,
}

impl<L> Default for DeficitRounds<L> {
    fn default() -> Self {
        DeficitRounds { turns: VecDeque::new(), is_visited: false }
    }
}

impl<L> DeficitRounds<L> {
    /// True if there is no line.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// All lines, the one whose turn it is first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &L> {
        self.turns.iter().map(|turn| &turn.line)
    }

    /// All lines, the one whose turn it is first.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut L> {
        self.turns.iter_mut().map(|turn| &mut turn.line)
    }

    /// Adds a line, which is served last in the round.
    pub(crate) fn push(&mut self, line: L) {
        self.push_again(line, 0);
    }

    /// Adds a line that was [removed](DeficitRounds::remove_first) with this deficit.
    pub(crate) fn push_again(&mut self, line: L, deficit: usize) {
        self.turns.push_back(Turn { deficit, line });
    }

    /// The line whose turn it is, charged with the bytes of what leaves. `head` says how many that
    /// are, or `None` while nothing of the line may leave; `quantum` is positive. `None` if nothing
    /// of any line may leave.
    pub(crate) fn next(
        &mut self,
        quantum: impl Fn(&L) -> usize,
        mut head: impl FnMut(&mut L) -> Option<usize>,
    ) -> Option<&mut L> {
        let was_visited = self.is_visited;
        let mut skipped = 0;
        while skipped < self.turns.len() {
            let Turn { deficit, line } = &mut self.turns[0];
            let bytes = head(line);
            if bytes.is_some() && !self.is_visited {
                self.is_visited = true;
                *deficit += quantum(line);
            }
            match bytes {
                Some(bytes) if bytes <= *deficit => {
                    *deficit -= bytes;
                    return Some(&mut self.turns[0].line);
                }
                Some(_) => skipped = 0,
                None => skipped += 1,
            }
            self.is_visited = false;
            self.turns.rotate_left(1);
        }
        // All were passed over, so the order is as before.
        self.is_visited = was_visited;
        None
    }

    /// Removes the line that [`DeficitRounds::next`] returned: nothing of it waits any more.
    /// Returns what is left of its deficit.
    pub(crate) fn remove_first(&mut self) -> usize {
        self.is_visited = false;
        self.turns.pop_front().map_or(0, |turn| turn.deficit)
    }

    /// Removes the lines for which `keep` is false.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut L) -> bool) {
        let mut place = 0;
        self.turns.retain_mut(|turn| {
            let keeps = keep(&mut turn.line);
            self.is_visited &= keeps || place > 0;
            place += 1;
            keeps
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(rounds: &mut DeficitRounds<(char, usize)>, may: impl Fn(char) -> bool) -> String {
        let mut order = String::new();
        for _ in 0..12 {
            let next = rounds.next(|_| 10, |&mut (name, bytes)| may(name).then_some(bytes));
            order.extend(next.map(|&mut (name, _)| name));
        }
        order
    }

    fn lines() -> DeficitRounds<(char, usize)> {
        let mut rounds = DeficitRounds::default();
        for line in [('a', 10), ('b', 5), ('c', 20)] {
            rounds.push(line);
        }
        rounds
    }

    #[test]
    fn lines_leave_by_bytes_and_one_that_may_not_leave_is_passed_over() {
        assert_eq!(served(&mut lines(), |_| true), "abbabbcabbab");
        assert_eq!(served(&mut lines(), |name| name != 'b'), "aacaacaacaac");
        assert_eq!(served(&mut lines(), |_| false), "");
    }

    #[test]
    fn asking_while_nothing_may_leave_changes_nothing() {
        let (mut asked, mut other) = (lines(), lines());
        for _ in 0..9 {
            let next = |rounds: &mut DeficitRounds<_>, may: bool| {
                let next =
                    rounds.next(|_| 10, |&mut (_, bytes): &mut (char, _)| may.then_some(bytes));
                next.copied()
            };
            assert_eq!(next(&mut asked, false), None);
            assert_eq!(next(&mut asked, true), next(&mut other, true));
        }
    }

    #[test]
    fn a_line_that_is_removed_leaves_the_turns_of_the_others() {
        let mut rounds = lines();
        assert_eq!(rounds.next(|_| 10, |line| Some(line.1)).copied(), Some(('a', 10)));
        rounds.retain(|line| line.0 != 'a');
        assert_eq!(served(&mut rounds, |_| true), "bbbbcbbbbcbb");
        rounds.retain(|_| false);
        assert!(rounds.is_empty() && rounds.iter().next().is_none());
        rounds.push(('d', 1));
        assert_eq!(rounds.next(|_| 10, |line| Some(line.1)).copied(), Some(('d', 1)));
        rounds.remove_first();
        assert!(rounds.is_empty());
    }
}
