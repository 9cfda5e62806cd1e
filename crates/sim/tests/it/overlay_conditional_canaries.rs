//! The bug planted for each promise of conditional writes is caught. The bug is in every node.

use crate::contenders;

use contenders::Contest;
use paceline_check::checkers::conditional::Rule;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId};
use paceline_proto::overlay::{
    Answer, Body, Event, Expect, FailReason, Message, Outcome, Overlay, PutIfAnswer, PutIfItem,
    Version,
};

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The responsible node takes each condition for one that holds.
    IgnoreCondition,
    /// A writer that does not know whether its write was carried out says that it was refused.
    DenyOwnWrite,
    /// The responsible node names another version than the record has.
    NameOtherVersion,
    /// Values are read with the version that they had before they were written.
    ReadNoVersion,
}

struct Sabotage(Bug);

impl Sabotage {
    fn spoil_message(&self, body: &mut Body) {
        match (body, self.0) {
            (Body::PutIfReply { answers, .. }, Bug::NameOtherVersion) => {
                for answer in answers {
                    if let PutIfAnswer::Stored { version, .. } = answer {
                        version.count += 1;
                    }
                }
            }
            (Body::Result { answers, .. }, Bug::ReadNoVersion) => {
                for (_, answer) in answers {
                    if let Answer::Found { version, .. } = answer {
                        *version = Version::default();
                    }
                }
            }
            _ => {}
        }
    }

    fn spoil_event(&self, event: &mut Event) {
        let Event::Outcome { outcomes, .. } = event else {
            return;
        };
        for (_, outcome) in outcomes {
            if self.0 == Bug::DenyOwnWrite
                && let Outcome::Failed(FailReason::Indeterminate | FailReason::TimedOut) = outcome
            {
                *outcome = Outcome::Differs { found: None };
            }
        }
    }
}

impl Tamper<Overlay> for Sabotage {
    fn admits(
        &mut self,
        overlay: &mut Overlay,
        cx: &mut Context<'_, Overlay>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        if let (Body::PutIf { items, .. }, Bug::IgnoreCondition) = (&mut message.body, self.0) {
            let held = |item: &PutIfItem| overlay.store()?.get(item.item.key, cx.now);
            let met = |item: &PutIfItem| {
                let version = held(item).filter(|held| held.value.is_some());
                let version = version.map(|held| Expect::Version(held.stamp.version));
                PutIfItem { expect: version.unwrap_or(Expect::Absent), ..item.clone() }
            };
            *items = items.iter().map(met).collect();
        }
        1
    }

    fn tamper(&mut self, _: &mut Overlay, cx: &mut Context<'_, Overlay>) {
        cx.outbox.sends.iter_mut().for_each(|send| self.spoil_message(&mut send.message.body));
        cx.outbox.events.iter_mut().for_each(|event| self.spoil_event(event));
    }
}

fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let contest = Contest::draw(seed);
    let config = contest.config();
    let make = move |node| Wrapped::new(Overlay::new(&config, node), bug.map(Sabotage));
    contest.run(make).map(|_| ())
}

#[test]
fn a_bug_against_each_promise_of_conditional_writes_is_caught() {
    let planted = [
        (Bug::IgnoreCondition, Rule::Exclusion),
        (Bug::DenyOwnWrite, Rule::Refusal),
        (Bug::NameOtherVersion, Rule::Version),
        (Bug::ReadNoVersion, Rule::Survival),
    ];
    seeds::catch_all(planted, verdict);
}
