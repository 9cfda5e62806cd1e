//! The promises of every time-critical multicast protocol, however it repairs losses.
//! [`slingshot`](super::slingshot) checks the promises of Slingshot alone.

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, NodeId, Payload, Protocol};
use paceline_proto::slingshot::{Command, Event};

use super::report::{Report, Violation, rules};
use paceline_sim::{Fault, Input, Observer, Reply};

rules! {
    /// A promise.
    pub enum Rule {
        /// A packet is delivered as its sender sent it.
        Integrity => "integrity",
        /// A packet is delivered or reported lost once.
        Once => "once",
        /// Where senders' order is promised, packets of one sender come in it.
        Order => "order",
        /// Between the first and the last packet of a sender that a member reports, each is
        /// delivered or reported lost, and nothing stays missing.
        Accounting => "accounting",
    }
}

/// A sender in one of its lives; 0 while the receiver does not know in which.
type Source = (NodeId, u64);

/// Watches members of group 0. Applications ask for [`Event::Sent`] of each packet.
///
/// Cost: logarithmic in the packets of a sender.
#[derive(Debug)]
pub struct TimelyLedger {
    is_ordered: bool,
    // By sender and ticket: what it was asked to send.
    asked: BTreeMap<(NodeId, u64), Payload>,
    // By sender and number, of all its lives.
    sent: BTreeMap<(NodeId, u64), Vec<Payload>>,
    // By receiver, in its current incarnation: the packets that it has reported, by sender.
    reported: BTreeMap<NodeId, BTreeMap<Source, BTreeSet<u64>>>,
    report: Report<Rule>,
    /// Packets delivered to members.
    pub delivered: u64,
    /// Packets reported lost to members.
    pub lost: u64,
}

impl TimelyLedger {
    /// Nothing seen yet. `is_ordered` if packets of one sender come in its order.
    pub fn new(is_ordered: bool) -> TimelyLedger {
        TimelyLedger {
            is_ordered,
            asked: BTreeMap::new(),
            sent: BTreeMap::new(),
            reported: BTreeMap::new(),
            report: Report::default(),
            delivered: 0,
            lost: 0,
        }
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Checks that a member has delivered or given up every packet known to it; `missing` counts
    /// the others. Call it for each live member after the faults and enough time to recover.
    pub fn check_accounts(&mut self, at: Instant, node: NodeId, missing: usize) {
        if missing > 0 {
            self.fail(Rule::Accounting, at, node, format!("{missing} packets stay missing"));
        }
        let hole = self.reported.get(&node).and_then(|reported| {
            reported.iter().find_map(|(&source, numbers)| {
                let pairs = numbers.iter().zip(numbers.iter().skip(1));
                let mut holes = pairs.flat_map(|(before, next)| before + 1..*next);
                let hole = holes.find(|&number| !is_in_unknown_life(reported, source, number));
                hole.map(|number| (source, number))
            })
        });
        if let Some(((sender, incarnation), number)) = hole {
            let what = format!("nothing was reported of {sender}.{number} of life {incarnation}");
            self.fail(Rule::Accounting, at, node, what);
        }
    }

    fn fail(&mut self, rule: Rule, at: Instant, node: NodeId, what: String) {
        self.report.note(at, node, (rule, what));
    }

    fn report(&mut self, at: Instant, node: NodeId, source: Source, number: u64) {
        let numbers = self.reported.entry(node).or_default().entry(source).or_default();
        let last = numbers.last().copied();
        let sender = source.0;
        if !numbers.insert(number) {
            self.fail(Rule::Once, at, node, format!("{sender}.{number} was reported twice"));
        } else if let Some(last) = last.filter(|&last| self.is_ordered && last > number) {
            let what = format!("{sender}.{number} was reported after {sender}.{last}");
            self.fail(Rule::Order, at, node, what);
        }
    }

    fn check_delivery(
        &mut self,
        at: Instant,
        node: NodeId,
        packet: (NodeId, u64),
        payload: &Payload,
    ) {
        let sent = self.sent.get(&packet).into_iter().flatten();
        if packet.0 == node || !sent.into_iter().any(|sent| sent == payload) {
            let what = format!("{}.{} was not sent with these bytes", packet.0, packet.1);
            self.fail(Rule::Integrity, at, node, what);
        }
    }
}

/// True if the packet was reported while the receiver did not know the sender's life, or, if that
/// is what `life` says, of any life.
fn is_in_unknown_life(
    reported: &BTreeMap<Source, BTreeSet<u64>>,
    (sender, life): Source,
    number: u64,
) -> bool {
    let (first, last) = if life == 0 { (1, u64::MAX) } else { (0, 0) };
    let mut others = reported.range((sender, first)..=(sender, last));
    others.any(|(_, numbers)| numbers.contains(&number))
}

impl<P: Protocol<Command = Command, Event = Event>> Observer<P> for TimelyLedger {
    fn before_call(&mut self, _: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        if let Input::Command(Command::Multicast { payload, ticket, .. }) = input {
            self.asked.insert((node, *ticket), payload.clone());
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        match event {
            Event::Sent { ticket, seq } => match self.asked.remove(&(node, *ticket)) {
                Some(payload) => self.sent.entry((node, *seq)).or_default().push(payload),
                None => self.fail(Rule::Once, at, node, format!("ticket {ticket} was sent twice")),
            },
            Event::Delivered { sender, incarnation, seq, payload, .. } => {
                self.delivered += 1;
                self.check_delivery(at, node, (*sender, *seq), payload);
                self.report(at, node, (*sender, *incarnation), *seq);
            }
            Event::Lost { sender, incarnation, first, end, .. } => {
                self.lost += end - first;
                (*first..*end).for_each(|seq| self.report(at, node, (*sender, *incarnation), seq));
            }
            Event::Overrun { .. }
            | Event::Tuned { .. }
            | Event::Slow { .. }
            | Event::Rejected { .. } => {}
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &Fault) {
        // A restarted member keeps no state of its previous run. A scenario may restart a member
        // that is alive; that has no effect.
        if let Fault::Crash(node) = fault {
            self.reported.remove(node);
        }
    }
}
