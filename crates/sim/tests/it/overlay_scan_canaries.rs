//! The bug planted for each promise of scans is caught. The bug is in every node.

use crate::scanners;

use paceline_check::checkers::scan::Rule;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::Context;
use paceline_proto::overlay::{Body, Event, Outcome, Overlay};
use scanners::Survey;

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The responsible node leaves out the first record of each page.
    OmitRecord,
    /// The responsible node answers with another value.
    OtherValue,
    /// A page is said to end before its last record.
    EndEarly,
}

struct Sabotage(Bug);

impl Sabotage {
    fn spoil_message(&self, body: &mut Body) {
        match (body, self.0) {
            (Body::ScanReply { records, .. }, Bug::OmitRecord) if !records.is_empty() => {
                records.remove(0);
            }
            (Body::ScanReply { records, .. }, Bug::OtherValue) => {
                for record in records {
                    record.value = Some("other".into());
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
            if let Outcome::Page(page) = outcome
                && self.0 == Bug::EndEarly
                && let [first, _, ..] = &page.records[..]
            {
                page.until = first.key;
            }
        }
    }
}

impl Tamper<Overlay> for Sabotage {
    fn tamper(&mut self, _: &mut Overlay, cx: &mut Context<'_, Overlay>) {
        cx.outbox.sends.iter_mut().for_each(|send| self.spoil_message(&mut send.message.body));
        cx.outbox.events.iter_mut().for_each(|event| self.spoil_event(event));
    }
}

fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let survey = Survey::draw(seed);
    let config = survey.config();
    let make = move |node| Wrapped::new(Overlay::new(&config, node), bug.map(Sabotage));
    survey.run(make).map(|_| ())
}

#[test]
fn a_bug_against_each_promise_of_scans_is_caught() {
    let planted = [
        (Bug::OmitRecord, Rule::Complete),
        (Bug::OtherValue, Rule::Written),
        (Bug::EndEarly, Rule::Once),
    ];
    seeds::catch_all(planted, verdict);
}
