use std::collections::BTreeSet;
use std::sync::Arc;

use paceline_proto::core::{GroupId, Instant, Lane, NodeId, View, Wire};
use paceline_proto::slingshot::{
    Ages, Code, Command, Config, Data, Event, Heartbeat, How, Message, Rate, Repair, Slingshot,
    Timer,
};

use super::super::report::{Report, Violation};
use super::life::{Delivery, Life};
use super::messages::Messages;
use super::packets::Packets;
use super::repairs::{Cause, check_sum};
use super::{Broken, Member, Rule};
use paceline_sim::{Fault, Input, Observer, Reply, Sim};

/// How packets were reported, over all members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// As they came from their senders.
    pub direct: u64,
    /// Computed from repairs.
    pub recovered: u64,
    /// From members that were asked.
    pub pulled: u64,
    /// Not at all.
    pub lost: u64,
    /// After the deadline.
    pub late: u64,
}

/// Watches members that start with the same configuration.
///
/// Cost: of each packet's names, logarithmic in how many packets there were.
#[derive(Debug)]
pub struct SlingshotLedger {
    config: Config,
    /// Of each node, since its last command.
    rates: Vec<Rate>,
    packets: Packets,
    messages: Messages,
    lives: Vec<Life>,
    /// Nodes that stood still until then: what they owe could not be done sooner.
    stood_until: Vec<Instant>,
    /// Members that send what they should not; they promise nothing.
    rogues: BTreeSet<NodeId>,
    bins_per_packet: usize,
    totals: Totals,
    report: Report<Rule>,
}

impl SlingshotLedger {
    /// A ledger for the roster of this configuration, some of whose members are rogues.
    pub fn new(config: &Config, rogues: impl IntoIterator<Item = NodeId>) -> SlingshotLedger {
        let mut packets = Packets::default();
        packets.note_view(config.roster());
        let nodes = config.roster().members().iter().map(|member| member.node.index() + 1).max();
        let nodes = nodes.unwrap_or(0);
        SlingshotLedger {
            rates: vec![config.rate(); nodes],
            packets,
            messages: Messages::default(),
            lives: (0..nodes).map(|_| Life::default()).collect(),
            stood_until: vec![Instant::ZERO; nodes],
            rogues: rogues.into_iter().collect(),
            bins_per_packet: if config.has_overlap() { config.regions_max() } else { 1 },
            totals: Totals::default(),
            report: Report::default(),
            config: config.clone(),
        }
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// The totals so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Checks that every packet was reported, and no work is left. Call it after the faults and
    /// enough time to recover.
    pub fn check_quiescent<P: Member>(&mut self, sim: &Sim<P>) -> Result<(), Violation<Rule>> {
        let at = sim.now();
        let pending = sim.events_pending();
        if pending > 0 {
            let what = format!("{pending} events are pending");
            self.fail(at, NodeId(0), (Rule::Quiescence, what));
        }
        let mut holes = 0;
        for node in (0..self.lives.len() as u64).map(NodeId) {
            if self.rogues.contains(&node) || !sim.is_alive(node) {
                continue;
            }
            self.check_member_quiescent(at, node, sim.node(node).slingshot());
            let (of_node, example) = self.lives[node.index()].holes(&self.messages);
            holes += of_node;
            if let Some(example) = example.filter(|_| self.config.unread_max().is_none()) {
                let what = format!("never reported {example} and {} more", of_node - 1);
                self.fail(at, node, (Rule::Accounting, what));
            }
        }
        let overrun = sim.counters().count("slingshot_overrun");
        if holes > overrun {
            let what = format!("{holes} packets were never reported, {overrun} are accounted for");
            self.fail(at, NodeId(0), (Rule::Accounting, what));
        }
        self.report.verdict()
    }

    fn check_member_quiescent(&mut self, at: Instant, node: NodeId, member: &Slingshot) {
        let has_overrun = self.config.unread_max().is_some();
        let life = &mut self.lives[node.index()];
        if let Err(broken) = life.check_due(Instant::MAX, has_overrun, &self.messages) {
            self.fail(at, node, broken);
        }
        let (incomplete, queued) = (member.incomplete_bytes(), member.queued().0);
        if incomplete > 0 || queued > 0 {
            let what = format!("keeps {incomplete} bytes of messages, and {queued} to send");
            self.fail(at, node, (Rule::Memory, what));
        }
        let missing = member.packets_missing();
        if missing > 0 {
            let what = format!("misses {missing} packets and says nothing");
            self.fail(at, node, (Rule::Accounting, what));
        }
        let unverified = member.packets_unverified();
        if unverified > 0 {
            let what = format!("keeps {unverified} packets that it never verified");
            self.fail(at, node, (Rule::Memory, what));
        }
    }

    /// Checks, for `members` that hear all others, that the share of recovered packets is within
    /// three standard deviations of the prediction, plus its error. Call it at the end of a run
    /// with independent loss and without phase 2.
    pub fn check_share(
        &mut self,
        at: Instant,
        members: u64,
        predicted: f64,
        error: f64,
    ) -> Result<f64, Violation<Rule>> {
        let lost = self.packets.sent_total() * (members - 1) - self.totals.direct;
        let share = self.totals.recovered as f64 / lost.max(1) as f64;
        let deviation = (predicted * (1.0 - predicted) / lost.max(1) as f64).sqrt();
        if (share - predicted).abs() > 3.0 * deviation + error {
            let what = format!("{share:.4} of {lost} recovered, {predicted:.4} predicted");
            self.fail(at, NodeId(0), (Rule::Share, what));
        }
        self.report.verdict().map(|()| share)
    }

    fn fail(&mut self, at: Instant, node: NodeId, broken: Broken) {
        if !self.rogues.contains(&node) {
            self.report.note(at, node, broken);
        }
    }

    fn receive(&mut self, at: Instant, node: NodeId, from: NodeId, message: &Message) {
        // What a stranger says is no sign of anything.
        if self.config.roster().rank(from).is_none() {
            return;
        }
        let life = &mut self.lives[node.index()];
        match message {
            Message::Data(Data { group, .. }) | Message::Heartbeat(Heartbeat { group, .. })
                if !life.are_together(*group, node, from) => {}
            Message::Data(data) => {
                let packet = self.packets.number(from, data);
                life.note_sign(at, data.group, from, data.seq + 1);
                let source = (data.group, from, data.incarnation);
                life.hear(source, data.seq, true);
                if life.receive(at, packet) {
                    life.fires.receive(self.bins_per_packet);
                    let by = at + self.config.lost_after();
                    match self.messages.of(source, data.seq) {
                        Some((first, _)) => {
                            life.receive_part(source, first, data.seq);
                            life.expect(by, source, first);
                        }
                        None => life.expect(by, source, data.seq),
                    }
                }
            }
            Message::Repair(repair) => {
                let named = self.packets.named(repair.view, &repair.names);
                for (place, &(_, group, sender, seq)) in named.iter().enumerate() {
                    life.note_sign(at, group, sender, seq + 1);
                    let age = repair.ages.at(place, named.len());
                    life.note_claim((group, sender, seq), at - age);
                }
                let packets: Vec<u32> = named.iter().map(|named| named.0).collect();
                life.solvable.add(self.config.code(), &packets);
            }
            Message::Heartbeat(Heartbeat { group, incarnation, next }) => {
                life.note_sign(at, *group, from, *next);
                life.hear((*group, from, *incarnation), *next, true);
            }
            Message::Supply(supply) => {
                let Some(sender) = self.packets.member(supply.view, supply.rank) else { return };
                if !life.are_together(supply.data.group, node, sender) {
                    return;
                }
                life.note_sign(at, supply.data.group, sender, supply.data.seq + 1);
                let data = &supply.data;
                life.hear((data.group, sender, data.incarnation), data.seq, false);
                life.supply(self.packets.number(sender, data));
            }
            Message::Ask { .. } | Message::Pulse(_) | Message::Report(_) => {}
        }
    }

    fn check_repair(
        &mut self,
        at: Instant,
        from: NodeId,
        to: NodeId,
        repair: &Repair,
    ) -> Result<(), Broken> {
        if to == from || self.config.roster().rank(to).is_none() {
            return Err((Rule::Overhead, format!("sent a repair to {to}")));
        }
        let rate = self.rates[from.index()];
        let life = &mut self.lives[from.index()];
        // Bins of several regions may hold the same packets. Each rounds its share of `c` up.
        let copies_max = rate.c + self.bins_per_packet - 1;
        if !life.fires.copy(to, repair, copies_max)? {
            return Ok(());
        }
        life.fires.spend(repair, self.config.code(), rate)?;
        let named = self.packets.named(repair.view, &repair.names);
        let packets: Vec<u32> = named.iter().map(|named| named.0).collect();
        if packets.is_empty() || packets.iter().any(|&packet| !life.has_received(packet)) {
            return Err((Rule::Repair, "sent a repair of what it did not receive".into()));
        }
        if let Code::Xor { .. } = self.config.code() {
            check_sum(repair, &packets, &self.packets)?;
        }
        for place in [0, packets.len() - 1] {
            let age = at.since(life.received_at(packets[place]));
            let told = repair.ages.at(place, packets.len());
            if told != Ages::new(age, age).at(0, 1) {
                let what = format!("sent a repair of what came {age:?} ago and said {told:?}");
                return Err((Rule::Time, what));
            }
        }
        Ok(())
    }

    fn check_event(&mut self, at: Instant, node: NodeId, event: &Event) -> Result<(), Broken> {
        let life = &mut self.lives[node.index()];
        match event {
            Event::Delivered {
                group,
                sender,
                incarnation,
                seq,
                packets,
                payload,
                how,
                is_late,
            } => {
                life.unread += *packets as usize;
                let (source, seq) = ((*group, *sender, *incarnation), *seq);
                let sent = self.packets.sent(source, seq);
                let packet = sent.filter(|_| *sender != node);
                let is_sent = |&sent: &u32| match self.messages.of(source, seq) {
                    None => *packets == 1 && self.packets.payload(sent) == Some(payload),
                    Some(_) => {
                        self.messages.whole(source, seq) == Some(((*packets).into(), payload))
                    }
                };
                let Some(packet) = packet.filter(is_sent) else {
                    let what = format!(
                        "delivered {group}/{sender}.{seq}, which differs from what \
                        was sent"
                    );
                    return Err((Rule::Integrity, what));
                };
                let totals = &mut self.totals;
                *match how {
                    How::Direct => &mut totals.direct,
                    How::Recovered { .. } => &mut totals.recovered,
                    How::Pulled { .. } => &mut totals.pulled,
                } += 1;
                totals.late += u64::from(*is_late);
                let (how, is_late) = (*how, *is_late);
                let end = seq + u64::from(*packets);
                let of_message = (seq + 1..end).map(|seq| self.packets.sent(source, seq));
                let of_message = std::iter::once(Some(packet)).chain(of_message);
                let packets = of_message.collect::<Option<Vec<u32>>>().unwrap_or_default();
                let delivery = Delivery { at, source, seq, end, packets, how, is_late };
                life.deliver(&delivery, &self.config, &self.messages)
            }
            Event::Lost { group, sender, incarnation, first, end, came } => {
                life.unread += 1;
                self.totals.lost += end - first;
                let source = (*group, *sender, *incarnation);
                if self.config.unread_max().is_none() {
                    life.check_lost_messages(source, *first..*end, *came, &self.messages)?;
                }
                let order = self.config.order();
                (*first..*end).try_for_each(|seq| {
                    life.check_loss(source, seq, order, &self.packets, &self.messages)
                })
            }
            Event::Overrun { .. } => {
                life.unread += 1;
                life.overruns += 1;
                Ok(())
            }
            Event::Sent { .. }
            | Event::Rejected { .. }
            | Event::Tuned { .. }
            | Event::Slow { .. } => Ok(()),
        }
    }

    fn check_bounds(&self, at: Instant, node: NodeId, member: &Slingshot) -> Result<(), Broken> {
        let config = &self.config;
        let (held_packets, held_bytes) = member.packets_held();
        let (parked_packets, parked_bytes) = member.parked();
        let ((held_max, bytes_max), parked_max) = (config.held_max(), config.parked_bounds());
        let bins = member.regions().count();
        let binned_max = match config.code() {
            Code::Xor { stagger } => stagger * config.names_max(),
            Code::Rlc { window } => window,
        };
        let unread = self.lives[node.index()].unread;
        // A message counts as often as it has packets, and is delivered if there is room for one.
        let longest = config.window_packets() / 2;
        for (what, value, most) in [
            ("packets held", held_packets, held_max),
            ("bytes held", held_bytes, bytes_max),
            ("packets missing", member.packets_missing(), config.missing_max()),
            ("senders", member.flows(), config.flows_max()),
            ("repairs parked", member.repairs_parked(), parked_max.0),
            ("packets parked", parked_packets, parked_max.1),
            ("bytes parked", parked_bytes, parked_max.2),
            ("packets unverified", member.packets_unverified(), 64),
            ("packets binned", member.packets_binned(), bins * binned_max),
            ("unread", unread, config.unread_max().map_or(usize::MAX, |most| most + longest)),
            ("bytes of messages", member.incomplete_bytes(), bytes_max),
        ] {
            if value > most {
                return Err((Rule::Memory, format!("{value} {what}, at most {most}")));
            }
        }
        if let (Some(after), Some(since)) = (config.flush_after(), member.waits_since())
            && since + after < at
            && at > self.stood_until[node.index()]
        {
            let what = format!("a packet waits in a bin since {since}, longer than {after:?}");
            return Err((Rule::Memory, what));
        }
        Ok(())
    }
}

impl<P: Member> Observer<P> for SlingshotLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        let cause = match input {
            Input::Message { message: Message::Data(_), .. } => Cause::Data,
            Input::Timer(Timer::Flush) => Cause::Flush,
            _ => Cause::Other,
        };
        self.lives[node.index()].fires.begin_call(cause);
        match input {
            Input::Message { from, message } => self.receive(at, node, *from, message),
            Input::View(view) => self.packets.note_view(view as &Arc<View>),
            Input::Command(Command::Multicast { group, payload, .. }) => {
                self.messages.ask(*group, node, payload);
            }
            Input::Command(Command::SetRate(rate)) if rate.r <= self.config.names_max() => {
                // Packets in a bin keep the `c` that was in force when they arrived.
                let known = &mut self.rates[node.index()];
                *known = Rate { c: known.c.max(rate.c), ..*rate };
            }
            Input::Command(Command::Members { group, members }) => {
                self.lives[node.index()].regroup(*group, members.clone());
            }
            Input::Command(Command::Consumed { events }) => {
                let unread = &mut self.lives[node.index()].unread;
                *unread = unread.saturating_sub(*events);
            }
            _ => {}
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Err(broken) = self.check_event(at, node, event) {
            self.fail(at, node, broken);
            reply.stop();
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &Message) {
        let Message::Repair(repair) = message else { return };
        let checked = match lane {
            Lane::Datagram => self.check_repair(at, from, to, repair),
            Lane::Stream => Err((Rule::Overhead, "sent a repair by stream".into())),
        };
        if let Err(broken) = checked {
            let broken = (broken.0, format!("{} ({} bytes to {to})", broken.1, message.wire_len()));
            self.fail(at, from, broken);
        }
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, _: GroupId, message: &Message) {
        let Message::Data(data) = message else { return };
        let before = self.packets.sent((data.group, from, data.incarnation), data.seq);
        let packet = self.packets.send(from, data);
        let per_second = self.config.message_bytes_per_second();
        let sound = self.messages.send(from, data);
        let sound = sound.and_then(|()| self.messages.check_pace(at, from, data, per_second));
        if let Err(broken) = sound {
            self.fail(at, from, broken);
        }
        self.lives[from.index()].solvable.learn(packet);
        if before.is_some() {
            let what = format!("sent {}/{from}.{} a second time", data.group, data.seq);
            self.fail(at, from, (Rule::Once, what));
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let place = node.index();
        self.lives[place].part(node);
        let mut checked = self.check_bounds(at, node, protocol.slingshot());
        if checked.is_ok() && at > self.stood_until[place] {
            let has_overrun = self.config.unread_max().is_some();
            checked = self.lives[place].check_due(at, has_overrun, &self.messages);
        }
        if let Err(broken) = checked {
            self.fail(at, node, broken);
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        match fault {
            Fault::Crash(node) => {
                self.lives[node.index()] = Life::default();
                self.messages.restart(*node);
                self.rates[node.index()] = self.config.rate();
            }
            Fault::Pause(node, time) => {
                let until = &mut self.stood_until[node.index()];
                *until = (*until).max(at + *time);
            }
            _ => {}
        }
    }
}
