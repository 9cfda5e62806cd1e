//! The bug planted for the promise of hosts that create a group, one group, is caught.

use crate::gather_swarm::{Run, Trouble};

use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId, Protocol};
use paceline_proto::group::{Contact, FoundingBallot, Group, Message};

use crate::group_swarm::config;

/// What each host does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A host promises to an attempt, and accepts it, although it has promised to a later one.
    PromiseTwice,
    /// A promise does not name what was accepted before.
    ForgetAccepted,
    /// A proposer takes silence for consent.
    NoQuorum,
}

struct Sabotage {
    bug: Bug,
    contact: Option<Contact>,
    is_prepare: bool,
    forged: Vec<FoundingBallot>,
}

impl Tamper<Group> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Group,
        _: &mut Context<'_, Group>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        self.is_prepare = matches!(message, Message::GatherPrepare { .. });
        1
    }

    fn tamper(&mut self, group: &mut Group, cx: &mut Context<'_, Group>) {
        for send in &mut cx.outbox.sends {
            match (&mut send.message, self.bug) {
                (Message::Gather { contact, .. }, _) => self.contact = Some(contact.clone()),
                (Message::GatherRejected { ballot, .. }, Bug::PromiseTwice) => {
                    let (ballot, contact) = (*ballot, self.contact.clone());
                    send.message = match contact.filter(|_| self.is_prepare) {
                        Some(contact) => Message::GatherPromise { ballot, contact, accepted: None },
                        None => Message::GatherAccepted { ballot },
                    };
                }
                (Message::GatherPromise { accepted, .. }, Bug::ForgetAccepted) => *accepted = None,
                (Message::GatherAccept { ballot, .. }, Bug::NoQuorum) => self.forged.push(*ballot),
                _ => {}
            }
        }
        while let Some(ballot) = self.forged.pop() {
            for silent in 0..5 {
                group.handle_message(cx, NodeId(silent), Message::GatherAccepted { ballot });
            }
        }
    }
}

#[test]
fn planted_bugs_that_create_two_groups_are_caught() {
    let planted = [Bug::PromiseTwice, Bug::ForgetAccepted, Bug::NoQuorum];
    seeds::catch_all(planted.map(|bug| (bug, "D1 one group")), |seed, bug| {
        let run = Run::draw(seed, 5, 3, Trouble::Network);
        let make = move |_| {
            let sabotage = |bug| {
                let forged = Vec::new();
                Sabotage { bug, contact: None, is_prepare: false, forged }
            };
            Wrapped::new(Group::new(&config()), bug.map(sabotage))
        };
        run.run(make).map(drop)
    });
}

/// Two of five are no majority: two pairs create a group each.
#[test]
fn a_number_that_is_not_more_than_half_may_create_two_groups() {
    let runs = (0..1_000).map(|seed| Run::draw(seed, 5, 2, Trouble::Network));
    let found = runs.into_iter().find_map(|run| {
        let config = config();
        run.run(move |_| Group::new(&config)).err()
    });
    let found = found.expect("no seed shows it");
    assert!(found.starts_with("D1 one group"), "{found}");
}
