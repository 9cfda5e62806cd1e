//! The bug planted for each promise of time-critical multicast is caught.
//!
//! Every member has the bug. `Sabotage` tampers with what goes into an honest member and what comes
//! out; scenarios are drawn as for the seeds, without a rogue.

use crate::slingshot_swarm;

use std::collections::BTreeSet;
use std::time::Duration;

use paceline_check::checkers::slingshot::Rule;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, GroupId, NodeId, Outgoing, Payload};
use paceline_proto::slingshot::{
    Ages, Code, Config, Event, Fragment, Framing, How, Message, Name, NamesBuilder, Rate,
    RateControl, Repair, Slingshot, Timer,
};
use slingshot_swarm::{Scenario, recovered_share};

/// What members do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    ShortenPayload,
    AlterRecovered,
    ForeignIncarnation,
    TellOwn,
    DeliverTwice,
    /// Two packets of one number.
    SendTwice,
    /// A packet that its sender sends twice is delivered twice.
    SkipDedup,
    /// The sum has a bit wrong.
    WrongSum,
    /// The sum is of other packets than it names.
    WrongSet,
    /// The sum is right but for its length.
    WrongLength,
    /// Repairs say that their packets had just come.
    DenyAges,
    /// What was pulled is called recovered.
    ClaimRecovered,
    HideLate,
    FlagAllLate,
    TellAfterLost,
    DropLosses,
    LoseTooMany,
    /// The first packet of each sender is not reported.
    DropFirst,
    /// One delivery is reported after the next one of the same sender.
    SwapOrder,
    ExceedCopies,
    RepairItself,
    /// Repairs are sent again by the next call.
    RepeatRepairs,
    NeverFlush,
    /// More is parked than was configured.
    ParkMore,
    RearmForEver,
    /// Every second copy of a repair stays at home.
    WithholdCopies,
    /// Fragments are delivered as if they were messages.
    TellFragments,
    /// A message is delivered with its parts in another order.
    MixParts,
    /// The loss of a message is reported as that of its first packet.
    TellPart,
    DropMessageLosses,
    LoseMessageTwice,
    /// The deadline of a message counts from its last packet.
    HideLateMessages,
    /// A message of which only the end can come is reported lost.
    TellForeign,
    /// All packets of a message leave at once.
    Burst,
}

struct Sabotage {
    bug: Bug,
    copies: u64,
    lost: BTreeSet<(GroupId, NodeId, u64, u64)>,
    came: BTreeSet<(GroupId, NodeId, u64, u64)>,
    /// A packet that was in an earlier repair.
    named: Option<Name>,
    kept: Vec<Event>,
    repairs: Vec<Outgoing<Message>>,
    fragments: Vec<(GroupId, Message)>,
    heard: BTreeSet<(GroupId, NodeId, u64)>,
    is_rearmed: bool,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage {
            bug,
            copies: 0,
            lost: BTreeSet::new(),
            came: BTreeSet::new(),
            named: None,
            kept: Vec::new(),
            repairs: Vec::new(),
            fragments: Vec::new(),
            heard: BTreeSet::new(),
            is_rearmed: false,
        }
    }

    fn tamper_with_repairs(&mut self, node: NodeId, sends: &mut Vec<Outgoing<Message>>) {
        if self.bug == Bug::WithholdCopies {
            sends.retain(|_| {
                self.copies += 1;
                self.copies.is_multiple_of(2)
            });
        }
        if self.bug == Bug::RepeatRepairs {
            let now = sends.clone();
            sends.append(&mut self.repairs);
            self.repairs = now;
        }
        let Some(last) = sends.iter().rposition(|send| matches!(send.message, Message::Repair(_)))
        else {
            return;
        };
        match self.bug {
            Bug::ExceedCopies => {
                let is_taken = |to: &NodeId| sends.iter().any(|send| send.to == *to);
                let other = (0..2).map(NodeId).find(|to| *to != node && !is_taken(to));
                if let Some(to) = other {
                    let copy = Outgoing { to, ..sends[last].clone() };
                    sends.push(copy);
                }
            }
            Bug::RepairItself => sends[last].to = node,
            Bug::WrongSet => {
                if let Message::Repair(repair) = &mut sends[last].message {
                    let mut named: Vec<Name> = repair.names.iter().collect();
                    let before = self.named.replace(named[0]);
                    if let Some(before) = before.filter(|before| !named.contains(before)) {
                        named[0] = before;
                        let mut names = NamesBuilder::default();
                        named.into_iter().for_each(|name| names.push(name));
                        let (coded, names) = (repair.coded(), names.build());
                        *repair = Repair::new(repair.view, repair.seed, repair.ages, names, coded);
                    }
                }
            }
            Bug::DenyAges => {
                if let Message::Repair(repair) = &mut sends[last].message {
                    let (coded, names) = (repair.coded(), repair.names.clone());
                    let ages = Ages::default();
                    *repair = Repair::new(repair.view, repair.seed, ages, names, coded);
                }
            }
            Bug::WrongSum | Bug::WrongLength => {
                if let Message::Repair(repair) = &mut sends[last].message {
                    let mut coded = repair.coded();
                    if self.bug == Bug::WrongLength {
                        coded.lengths ^= 1;
                    } else if coded.body.is_empty() {
                        return;
                    } else {
                        coded.body = flipped(&coded.body);
                    }
                    let Repair { view, seed, ages, names, .. } = repair.clone();
                    *repair = Repair::new(view, seed, ages, names, coded);
                }
            }
            _ => {}
        }
    }

    /// Lets the packets of a message go with the last of them.
    fn hold_fragments(&mut self, sends: &mut Vec<(GroupId, Message)>) {
        let mut go = Vec::new();
        for send in sends.drain(..) {
            let fragment = match &send.1 {
                Message::Data(data) if data.framing == Framing::Fragment => {
                    Fragment::read(data.seq, &data.payload)
                }
                _ => None,
            };
            match fragment {
                None => go.push(send),
                Some(fragment) => {
                    self.fragments.push(send);
                    if fragment.index + 1 == fragment.packets {
                        go.append(&mut self.fragments);
                    }
                }
            }
        }
        *sends = go;
    }

    fn tamper_with_delivery(&mut self, node: NodeId, event: &mut Event) {
        let Event::Delivered { sender, incarnation, packets, payload, how, is_late, .. } = event
        else {
            return;
        };
        let is_recovered = matches!(how, How::Recovered { .. });
        match self.bug {
            Bug::ShortenPayload if !payload.is_empty() => {
                *payload = payload.slice(0..payload.len() - 1);
            }
            Bug::AlterRecovered if is_recovered && !payload.is_empty() => {
                *payload = flipped(payload);
            }
            Bug::ForeignIncarnation => *incarnation ^= 1,
            Bug::TellOwn => *sender = node,
            Bug::ClaimRecovered => {
                if let How::Pulled { after } = *how {
                    *how = How::Recovered { after };
                }
            }
            Bug::HideLate => *is_late = false,
            Bug::HideLateMessages if *packets > 1 => *is_late = false,
            Bug::MixParts if *packets > 1 => {
                let half = payload.len() / 2;
                let parts = [payload.slice(half..payload.len()), payload.slice(0..half)];
                *payload = Payload::concat(&parts);
            }
            Bug::FlagAllLate => *is_late = true,
            _ => {}
        }
    }

    fn tamper_with_events(&mut self, node: NodeId, events: &mut Vec<Event>) {
        events.iter_mut().for_each(|event| self.tamper_with_delivery(node, event));
        match self.bug {
            Bug::DeliverTwice => {
                let again = events.iter().find(|event| matches!(event, Event::Delivered { .. }));
                events.extend(again.cloned());
            }
            Bug::DropLosses => events.retain(|event| !matches!(event, Event::Lost { .. })),
            Bug::DropMessageLosses => {
                events.retain(|event| !matches!(event, Event::Lost { came: 1.., .. }));
            }
            Bug::LoseMessageTwice => {
                let again =
                    events.iter().find(|event| matches!(event, Event::Lost { came: 1.., .. }));
                events.extend(again.cloned());
            }
            Bug::TellPart => events.iter_mut().for_each(|event| {
                if let Event::Lost { first, end, came: came @ 1.., .. } = event {
                    (*end, *came) = (*first + 1, 0);
                }
            }),
            Bug::TellFragments | Bug::TellForeign => events.append(&mut self.kept),
            Bug::DropFirst => {
                events.retain(|event| !matches!(event, Event::Delivered { seq: 0, .. }));
            }
            Bug::LoseTooMany => events.iter_mut().for_each(|event| {
                if let Event::Lost { end, .. } = event {
                    *end += 20;
                }
            }),
            Bug::TellAfterLost => {
                for event in events.iter() {
                    if let &Event::Lost { group, sender, incarnation, first, end, .. } = event {
                        let lost = (first..end).map(|seq| (group, sender, incarnation, seq));
                        self.lost.extend(lost);
                    }
                }
                events.append(&mut self.kept);
            }
            Bug::SkipDedup => events.append(&mut self.kept),
            Bug::SwapOrder if self.kept.is_empty() => {
                self.kept.extend(events.pop_if(|event| matches!(event, Event::Delivered { .. })));
            }
            Bug::SwapOrder => {
                let Event::Delivered { sender: kept, .. } = &self.kept[0] else { return };
                let is_same = |event: &Event| match event {
                    Event::Delivered { sender, .. } => sender == kept,
                    _ => false,
                };
                if events.iter().any(is_same) {
                    events.append(&mut self.kept);
                }
            }
            _ => {}
        }
    }
}

impl Tamper<Slingshot> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Slingshot,
        _: &mut Context<'_, Slingshot>,
        from: NodeId,
        message: &mut Message,
    ) -> usize {
        let Message::Data(data) = message else { return 1 };
        let name = (data.group, from, data.incarnation, data.seq);
        let is_again = match self.bug {
            Bug::TellAfterLost => self.lost.contains(&name),
            Bug::SkipDedup => !self.came.insert(name),
            Bug::TellFragments => data.framing == Framing::Fragment,
            _ => false,
        };
        if self.bug == Bug::TellForeign
            && self.heard.insert((data.group, from, data.incarnation))
            && data.framing == Framing::Fragment
            && let Some(fragment) = Fragment::read(data.seq, &data.payload)
            && (fragment.index > 0 && data.seq >= 16)
        {
            self.kept.push(Event::Lost {
                group: data.group,
                sender: from,
                incarnation: data.incarnation,
                first: fragment.first_seq(data.seq),
                end: fragment.end(data.seq),
                came: 1,
            });
        }
        if is_again {
            self.kept.push(Event::Delivered {
                group: data.group,
                sender: from,
                incarnation: data.incarnation,
                seq: data.seq,
                packets: 1,
                payload: data.payload.clone(),
                how: How::Direct,
                is_late: self.bug == Bug::TellAfterLost,
            });
        }
        1
    }

    fn fires(&mut self, _: &mut Slingshot, _: &mut Context<'_, Slingshot>, timer: Timer) -> bool {
        self.bug != Bug::NeverFlush || timer != Timer::Flush
    }

    fn tamper(&mut self, _: &mut Slingshot, cx: &mut Context<'_, Slingshot>) {
        let outbox = &mut *cx.outbox;
        self.tamper_with_repairs(cx.node, &mut outbox.sends);
        self.tamper_with_events(cx.node, &mut outbox.events);
        if self.bug == Bug::SendTwice {
            let again = outbox.group_sends.clone();
            outbox.group_sends.extend(again);
        }
        if self.bug == Bug::Burst {
            self.hold_fragments(&mut outbox.group_sends);
        }
        let fires_again = self.bug == Bug::RearmForEver
            && (outbox.timers.iter().any(|&(_, timer)| timer == Timer::Gap) || self.is_rearmed);
        if fires_again && cx.now.as_nanos() > 1_000_000_000 {
            self.is_rearmed = true;
            cx.set_timer(Duration::from_secs(1), Timer::Gap);
        }
    }
}

fn flipped(payload: &Payload) -> Payload {
    let mut bytes = payload.to_bytes().to_vec();
    bytes[0] ^= 1;
    Payload::from(bytes)
}

fn sabotaged(config: &Config, bug: Option<Bug>) -> Wrapped<Slingshot> {
    let wide = config.clone().with_parked_max(1024);
    let own = if bug == Some(Bug::ParkMore) { &wide } else { config };
    Wrapped::new(Slingshot::new(own), bug.map(Sabotage::new))
}

fn verdict(seed: u64, bug: Option<Bug>) -> Result<(), String> {
    let mut scenario = Scenario { rogue: None, ..Scenario::draw(seed) };
    // The calls of a paced sender are far apart: what some bugs do with the next one would be
    // against the rule of time as well.
    scenario.config = scenario.config.with_rate_control(RateControl::Fixed);
    scenario.run_with(|_| sabotaged(&scenario.config, bug)).map(|_| ())
}

#[test]
fn every_planted_bug_is_caught_by_the_rule_it_was_planted_for() {
    let planted = [
        (Bug::ShortenPayload, Rule::Integrity),
        (Bug::AlterRecovered, Rule::Integrity),
        (Bug::ForeignIncarnation, Rule::Integrity),
        (Bug::TellOwn, Rule::Integrity),
        (Bug::DeliverTwice, Rule::Once),
        (Bug::SendTwice, Rule::Once),
        (Bug::SkipDedup, Rule::Once),
        (Bug::WrongSum, Rule::Repair),
        (Bug::WrongSet, Rule::Repair),
        (Bug::WrongLength, Rule::Repair),
        (Bug::ClaimRecovered, Rule::Repair),
        (Bug::HideLate, Rule::Time),
        (Bug::FlagAllLate, Rule::Time),
        (Bug::TellAfterLost, Rule::Time),
        (Bug::DenyAges, Rule::Time),
        (Bug::DropLosses, Rule::Accounting),
        (Bug::LoseTooMany, Rule::Accounting),
        (Bug::DropFirst, Rule::Accounting),
        (Bug::SwapOrder, Rule::Accounting),
        (Bug::ExceedCopies, Rule::Overhead),
        (Bug::RepairItself, Rule::Overhead),
        (Bug::RepeatRepairs, Rule::Overhead),
        (Bug::NeverFlush, Rule::Memory),
        (Bug::ParkMore, Rule::Memory),
        (Bug::RearmForEver, Rule::Quiescence),
        (Bug::TellFragments, Rule::Integrity),
        (Bug::MixParts, Rule::Integrity),
        (Bug::TellPart, Rule::Accounting),
        (Bug::DropMessageLosses, Rule::Accounting),
        (Bug::LoseMessageTwice, Rule::Accounting),
        (Bug::HideLateMessages, Rule::Time),
        (Bug::TellForeign, Rule::Accounting),
        (Bug::Burst, Rule::Pace),
    ];
    seeds::catch_all(planted, verdict);
}

#[test]
fn repairs_that_stay_at_home_show_in_the_share_that_is_recovered() {
    let share = |bug: Option<Bug>| {
        let (rate, code) = (Rate { r: 8, c: 3 }, Code::Xor { stagger: 1 });
        recovered_share(rate, code, 0.01, |config| sabotaged(config, bug))
    };
    let found = share(Some(Bug::WithholdCopies)).expect_err("half of the repairs are missing");
    println!("{found}");
    assert!(found.starts_with(&Rule::Share.to_string()), "{found}");
    share(None).expect("nothing is wrong without the bug");
}
