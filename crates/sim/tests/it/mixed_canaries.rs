//! Hosts with bugs that confuse their services: the checkers of a service must notice.

use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId, ServiceNumber};
use paceline_proto::group;
use paceline_proto::host::{Host, Message};

use crate::mixed_swarm::{AUDIT, ORDERS, PRICES, STOCK, Scenario};

/// What a host does wrong.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// It gives a message for one group to the other.
    WrongMachine,
    /// It tells the application of one group a view of the other.
    ForeignView,
    /// It does not tell a service's application of some event.
    Untold(ServiceNumber),
}

/// Tampers with one event or message in [`EVERY`].
struct Confused {
    bug: Bug,
    seen: u32,
}

/// Which of the messages or events that it could spoil a host does spoil.
const EVERY: u32 = 20;

impl Confused {
    fn strikes(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(EVERY)
    }
}

impl Tamper<Host> for Confused {
    fn admits(
        &mut self,
        _: &mut Host,
        _: &mut Context<'_, Host>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        if matches!(self.bug, Bug::WrongMachine) && message.service == ORDERS && self.strikes() {
            message.service = AUDIT;
        }
        1
    }

    fn tamper(&mut self, _: &mut Host, cx: &mut Context<'_, Host>) {
        let events = &mut cx.outbox.events;
        match self.bug {
            Bug::WrongMachine => {}
            Bug::ForeignView => {
                for event in events.iter_mut().filter(|event| event.service == ORDERS) {
                    if let Some(group::Event::View(_)) = event.event.downcast_ref() {
                        event.service = AUDIT;
                    }
                }
            }
            Bug::Untold(service) => {
                events.retain(|event| event.service != service || !self.strikes());
            }
        }
    }
}

/// What a run says in which every host has the bug.
fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let confused = || bug.map(|bug| Confused { bug, seen: 0 });
    Scenario::draw(seed).run(|_, host| Wrapped::new(host, confused())).map(drop)
}

#[test]
fn what_confuses_services_is_noticed() {
    seeds::catch_all(
        [
            (Bug::WrongMachine, "V1 exclusion"),
            (Bug::ForeignView, "C10 primary"),
            (Bug::Untold(ORDERS), "D3 direct outcome"),
            (Bug::Untold(AUDIT), "D3 direct outcome"),
            (Bug::Untold(STOCK), "D6 outcome"),
            (Bug::Untold(PRICES), "integrity"),
        ],
        verdict,
    );
}
