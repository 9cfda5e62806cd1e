//! Each checker catches the bug planted for it.
//!
//! `Sabotage` sits around an honest member and tampers with what goes in and what comes out.

use crate::chain_swarm;

use chain_swarm::{Scenario, honest};
use paceline_check::checkers::chain::Rule;
use paceline_check::checkers::offered::Phase;
use paceline_check::{Tamper, Wrapped};
use paceline_proto::chain::{Chain, Command, Config, Event, Message, Timer, Topology};
use paceline_proto::core::{
    Context, Instant, Lane, NodeId, Outgoing, Payload, Protocol, View, ViewId,
};
use paceline_sim::Codec;
use std::time::Duration;

/// What one member does wrong, once or always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    FlipPayload,
    DeliverTwice,
    InventMessage,
    ChangeIncarnation,
    ChangeEnd,
    SwapDeliveries,
    SkipDelivery,
    DropDeliveries,
    RejectForNothing,
    ResendFrame,
    RenumberFrame,
    KeepHops,
    ReturnToOrigin,
    UseOldView,
    WrongLane,
    ForgeReceived,
    ForgeCredit,
    WithholdCredit,
    DropFrame,
    IgnoreStable,
    RearmForEver,
    StrayAck,
    YieldForEver,
}

struct Sabotage {
    bug: Bug,
    has_struck: bool,
    // Deliveries of another's messages so far, and one held back.
    deliveries: usize,
    kept: Option<Event>,
    // A delivery that was dropped and is yet to be consumed.
    unseen: Option<(NodeId, u64)>,
    // The last call was within this time of a block to pass on.
    is_passing_on: bool,
    passed_on_at: Instant,
    has_fired: bool,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage {
            bug,
            has_struck: false,
            deliveries: 0,
            kept: None,
            unseen: None,
            is_passing_on: false,
            passed_on_at: Instant::ZERO,
            has_fired: false,
        }
    }

    fn tamper_with_sends(
        &mut self,
        chain: &Chain,
        node: NodeId,
        sends: &mut Vec<Outgoing<Message>>,
    ) {
        let bug = self.bug;
        if bug == Bug::IgnoreStable {
            sends.retain(|send| !matches!(send.message, Message::Stable { .. }));
        }
        let Some(place) = sends.iter().position(|send| match &send.message {
            Message::Data(_) => !matches!(bug, Bug::ForgeReceived | Bug::ForgeCredit),
            Message::Ack { .. } => matches!(bug, Bug::ForgeReceived | Bug::ForgeCredit),
            _ => false,
        }) else {
            return;
        };
        if self.has_struck {
            return;
        }
        let members = chain.view().len();
        let to = sends[place].to;
        let mut copy = sends[place].clone();
        match (bug, &mut sends[place].message) {
            (Bug::ResendFrame, _) => sends.push(copy),
            (Bug::RenumberFrame, Message::Data(_)) => {
                if let Message::Data(frame) = &mut copy.message {
                    frame.link += 1;
                }
                sends.insert(place + 1, copy);
            }
            (Bug::KeepHops, Message::Data(frame)) => frame.hops_left = members as u32,
            (Bug::ReturnToOrigin, Message::Data(frame)) if frame.origin as usize != to.index() => {
                copy.to = chain.view().node(frame.origin as usize);
                if copy.to == node {
                    return;
                }
                sends.push(copy);
            }
            (Bug::UseOldView, Message::Data(frame)) => frame.view = ViewId(frame.view.0 + 1),
            (Bug::WrongLane, Message::Data(_)) => sends[place].lane = Lane::Datagram,
            (Bug::DropFrame, Message::Data(_)) => {
                sends.remove(place);
            }
            (Bug::StrayAck, Message::Data(frame)) => {
                let (view, incarnation) = (ViewId(frame.view.0 + 1), frame.incarnation);
                copy.message = Message::Ack { view, incarnation, received: 0, consumed: 0 };
                copy.lane = Lane::Datagram;
                sends.push(copy);
            }
            (Bug::ForgeReceived, Message::Ack { received, .. }) => *received += 1,
            (Bug::ForgeCredit, Message::Ack { received, consumed, .. })
                if *consumed < *received =>
            {
                *consumed = *received;
            }
            _ => return,
        }
        // A forged acknowledgement must overtake what it speaks of: it is forged again and again.
        self.has_struck = !matches!(bug, Bug::ForgeReceived | Bug::ForgeCredit);
    }

    fn tamper_with_events(&mut self, events: &mut Vec<Event>) {
        let bug = self.bug;
        let Some(place) = events.iter().position(|event| matches!(event, Event::Delivered { .. }))
        else {
            return;
        };
        self.deliveries += 1;
        if bug == Bug::DropDeliveries {
            events.retain(|event| match event {
                Event::Delivered { origin, end, .. } if *origin == NodeId(3) && *end > 40 => {
                    self.unseen = Some((*origin, *end));
                    false
                }
                _ => true,
            });
            return;
        }
        if self.has_struck || self.deliveries < 3 {
            return;
        }
        let copy = events[place].clone();
        let Event::Delivered { incarnation, seq, end, payload, .. } = &mut events[place] else {
            return;
        };
        match bug {
            Bug::FlipPayload if !payload.is_empty() => {
                let mut bytes = payload.to_bytes().to_vec();
                bytes[0] ^= 1;
                *payload = Payload::from(bytes);
            }
            Bug::DeliverTwice => events.push(copy),
            Bug::InventMessage => {
                (*seq, *end) = (*seq + 1000, *end + 1000);
            }
            Bug::ChangeIncarnation => *incarnation ^= 1,
            Bug::ChangeEnd => *end += 1,
            Bug::SkipDelivery => {
                events.remove(place);
            }
            Bug::SwapDeliveries => match self.kept.take() {
                None => {
                    self.kept = Some(events.remove(place));
                    return;
                }
                Some(kept) => events.push(kept),
            },
            Bug::RejectForNothing => {
                let reason = paceline_proto::chain::RejectReason::NotAMember;
                events.push(Event::Rejected { reason });
            }
            _ => return,
        }
        self.has_struck = true;
    }
}

impl Tamper<Chain> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Chain,
        cx: &mut Context<'_, Chain>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        if matches!(message, Message::Data(frame) if frame.hops_left > 0) {
            self.passed_on_at = cx.now;
        }
        1
    }

    fn fires(&mut self, _: &mut Chain, _: &mut Context<'_, Chain>, _: Timer) -> bool {
        self.has_fired = true;
        true
    }

    fn commands(
        &mut self,
        _: &mut Chain,
        cx: &mut Context<'_, Chain>,
        command: &mut Command,
    ) -> bool {
        self.bug != Bug::WithholdCredit
            || !matches!(command, Command::Consumed { origin, .. } if *origin != cx.node)
    }

    fn tamper(&mut self, chain: &mut Chain, cx: &mut Context<'_, Chain>) {
        self.is_passing_on = cx.now.since(self.passed_on_at) < Duration::from_millis(20);
        self.tamper_with_sends(chain, cx.node, &mut cx.outbox.sends);
        self.tamper_with_events(&mut cx.outbox.events);
        if let Some((origin, end)) = self.unseen.take() {
            chain.handle_command(cx, Command::Consumed { origin, end });
        }
        if std::mem::take(&mut self.has_fired) && self.bug == Bug::RearmForEver {
            cx.set_timer(Duration::from_secs(1), Timer::Ack);
        }
    }

    fn admission(&self, chain: &Chain) -> usize {
        // The rule that was: own messages wait as long as there is something to pass on.
        let yields = self.bug == Bug::YieldForEver && self.is_passing_on;
        if yields { 0 } else { chain.admission() }
    }
}

/// Four members, all sending thirty messages round the chain, with nothing wrong but the bug.
fn scenario() -> Scenario {
    let ring = vec![0u32, 1, 2, 3];
    let drawn = Scenario::draw(1);
    let config = Config::new(View::roster(ring.iter().map(|&node| NodeId::from(node))))
        .with_topology(Some(Topology::Chain))
        .with_block_bytes_max(1000)
        .with_message_bytes_max(3000)
        .with_window_blocks(8)
        .with_window_bytes(8000)
        .with_ack_blocks(2)
        .build()
        .expect("within the ranges");
    let mut network = drawn.network.clone();
    network.rate_bits_per_second = Some(100_000_000);
    network.queue_bytes_max = None;
    network.link = Default::default();
    Scenario {
        config,
        senders: ring.iter().map(|&node| NodeId::from(node)).collect(),
        ring,
        installs_view: true,
        draws_topologies: false,
        network,
        faults: Vec::new(),
        messages: 30,
        // A frame whose fields were tampered with would not even decode.
        codec: Codec::Typed,
        keeps_to_admission: true,
        consumes_within_ms: 2,
        ..drawn
    }
}

/// The same members; 1 and 2 submit whatever is admitted, for two seconds.
fn saturated() -> Scenario {
    let (from, until) = (Instant::from_nanos(10_000_000), Instant::from_nanos(2_010_000_000));
    let senders = vec![NodeId(1), NodeId(2)];
    let phase = Phase { from, until, senders, message_bytes: 1000 };
    Scenario { senders: Vec::new(), phases: vec![phase], ..scenario() }
}

fn verdict(bug: Option<Bug>) -> Result<(), String> {
    verdict_of(scenario(), bug)
}

fn verdict_of(scenario: Scenario, bug: Option<Bug>) -> Result<(), String> {
    let config = scenario.config.clone();
    let make = move |node: NodeId| {
        let sabotage = bug.filter(|_| node == NodeId(2)).map(Sabotage::new);
        Wrapped::new(Chain::new(&config), sabotage)
    };
    scenario.run(make).map(|_| ())
}

#[test]
fn every_planted_bug_is_caught_by_the_checker_it_was_planted_for() {
    assert_eq!(verdict(None), Ok(()), "without a bug nothing is found");
    let scenario = scenario();
    scenario.run(honest(&scenario.config)).expect("nor without the wrapper");
    let planted = [
        (Bug::FlipPayload, Rule::Integrity),
        (Bug::DeliverTwice, Rule::Integrity),
        (Bug::ChangeIncarnation, Rule::Integrity),
        (Bug::ChangeEnd, Rule::Integrity),
        (Bug::InventMessage, Rule::Integrity),
        (Bug::SwapDeliveries, Rule::Fifo),
        (Bug::SkipDelivery, Rule::Fifo),
        (Bug::DropDeliveries, Rule::Validity),
        (Bug::RejectForNothing, Rule::Validity),
        (Bug::ResendFrame, Rule::Transmission),
        (Bug::RenumberFrame, Rule::Transmission),
        (Bug::KeepHops, Rule::Transmission),
        (Bug::ReturnToOrigin, Rule::Transmission),
        (Bug::UseOldView, Rule::Transmission),
        (Bug::WrongLane, Rule::Transmission),
        (Bug::ForgeReceived, Rule::Stability),
        (Bug::ForgeCredit, Rule::Flow),
        (Bug::WithholdCredit, Rule::Flow),
        (Bug::DropFrame, Rule::Transmission),
        (Bug::IgnoreStable, Rule::Quiescence),
        (Bug::RearmForEver, Rule::Quiescence),
        (Bug::StrayAck, Rule::Balance),
    ];
    for (bug, rule) in planted {
        let Err(found) = verdict(Some(bug)) else { panic!("{bug:?} went unnoticed") };
        let found = found.lines().next().unwrap_or_default();
        println!("{bug:?}: {found}");
        assert!(found.starts_with(&rule.to_string()), "{bug:?}: {found}");
    }
}

#[test]
fn a_member_that_yields_as_long_as_others_send_is_caught() {
    assert_eq!(verdict_of(saturated(), None), Ok(()), "without the bug nothing is found");
    let found = verdict_of(saturated(), Some(Bug::YieldForEver)).expect_err("it starves");
    let found = found.lines().next().unwrap_or_default();
    println!("{found}");
    assert!(found.starts_with(&Rule::Flow.to_string()) && found.contains("admitted"), "{found}");
}
