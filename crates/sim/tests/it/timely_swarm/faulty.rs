//! A member with a planted bug in its reports to the application.

use paceline_check::Tamper;
use paceline_proto::core::{Context, Payload, Protocol};
use paceline_proto::slingshot::{Event, How};

/// What members do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A byte of each delivered packet is another one.
    AlterPayload,
    DeliverTwice,
    /// What comes back after a loss is not delivered.
    DropRecovered,
    /// A delivery is held back until after the next one of the same sender.
    SwapOrder,
}

pub struct Faulty {
    bug: Bug,
    kept: Option<Event>,
}

impl Faulty {
    pub fn new(bug: Bug) -> Faulty {
        Faulty { bug, kept: None }
    }

    fn tell<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>, mut event: Event) {
        let Event::Delivered { sender, payload, how, .. } = &mut event else {
            return cx.deliver(event);
        };
        match self.bug {
            Bug::AlterPayload => {
                let mut bytes = payload.to_bytes().to_vec();
                bytes[0] ^= 1;
                *payload = Payload::from(bytes);
            }
            Bug::DeliverTwice => cx.deliver(event.clone()),
            Bug::DropRecovered if *how != How::Direct => return,
            Bug::DropRecovered => {}
            Bug::SwapOrder => match self.kept.take() {
                None => {
                    self.kept = Some(event);
                    return;
                }
                Some(kept) => {
                    let is_same =
                        matches!(&kept, Event::Delivered { sender: of, .. } if of == sender);
                    let (first, second) = if is_same { (event, kept) } else { (kept, event) };
                    cx.deliver(first);
                    return cx.deliver(second);
                }
            },
        }
        cx.deliver(event);
    }
}

impl<P: Protocol<Event = Event>> Tamper<P> for Faulty {
    fn tamper(&mut self, _: &mut P, cx: &mut Context<'_, P>) {
        for event in std::mem::take(&mut cx.outbox.events) {
            self.tell(cx, event);
        }
    }
}
