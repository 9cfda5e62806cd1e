//! The report of a checker: the first broken promise.

use std::fmt;

use paceline_proto::core::{Instant, NodeId};

/// Defines the promises of a protocol: an enum with the text by which reports name each of them.
macro_rules! rules {
    (
        $(#[$of:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $rule:ident => $text:literal,)+ }
    ) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $rule,)+
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$rule => $text,)+
                })
            }
        }
    };
}
pub(super) use rules;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<R> {
    /// The promise.
    pub rule: R,
    /// When.
    pub at: Instant,
    /// By which node.
    pub node: NodeId,
    /// What was seen, and what was expected.
    pub what: String,
}

impl<R: fmt::Display> fmt::Display for Violation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken at {} by {}: {}", self.rule, self.at, self.node, self.what)
    }
}

/// What a part of a checker found: the rule and how it was broken.
pub(super) type Broken<R> = (R, String);

/// What a checker found so far. Only the first violation counts: others may follow from it.
#[derive(Clone, Debug)]
pub struct Report<R> {
    first: Option<Violation<R>>,
}

impl<R> Default for Report<R> {
    fn default() -> Report<R> {
        Report { first: None }
    }
}

impl<R: Clone> Report<R> {
    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<R>> {
        self.first.as_ref()
    }

    /// True once a promise was broken: the run need not go on.
    pub fn is_broken(&self) -> bool {
        self.first.is_some()
    }

    /// The first promise that was broken, as an error.
    pub fn verdict(&self) -> Result<(), Violation<R>> {
        self.first.clone().map_or(Ok(()), Err)
    }

    /// A node broke a rule.
    pub(super) fn note(&mut self, at: Instant, node: NodeId, (rule, what): Broken<R>) {
        self.first.get_or_insert(Violation { rule, at, node, what });
    }

    /// What a part of the checker says of a node.
    pub(super) fn judge(&mut self, at: Instant, node: NodeId, result: Result<(), Broken<R>>) {
        if let Err(broken) = result {
            self.note(at, node, broken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    rules! {
        /// What a clock promises.
        pub enum Rule {
            /// It never stands still.
            Progress => "T1 progress",
            /// It never goes back.
            Order => "T2 order",
        }
    }

    #[test]
    fn a_report_keeps_the_first_violation_and_names_its_rule() {
        let mut report = Report::default();
        assert_eq!((report.is_broken(), report.verdict()), (false, Ok(())));
        report.judge(Instant::ZERO, NodeId(1), Ok(()));
        assert_eq!(report.violation(), None);
        report.judge(Instant::ZERO, NodeId(1), Err((Rule::Order, "7 after 8".into())));
        report.note(Instant::ZERO, NodeId(2), (Rule::Progress, "still 7".into()));
        let said = report.verdict().unwrap_err().to_string();
        let expected = format!("T2 order broken at {} by n1: 7 after 8", Instant::ZERO);
        assert_eq!(said, expected);
    }
}
