//! The promises of gossip about its rounds. [`timely`](super::timely) checks its promises to
//! applications.

use std::collections::{BTreeMap, BTreeSet};

use paceline_baselines::gossip::{Config, Message, Origin, Timer};
use paceline_proto::core::{GroupId, Instant, Lane, NodeId, Protocol};
use paceline_proto::slingshot::{Data, Names, Supply};
use paceline_sim::{Input, Observer, Reply};

use super::report::{Broken, Report, Violation, rules};

rules! {
    /// A promise.
    pub enum Rule {
        /// The digest of a round goes to `fanout` others at most.
        Fanout => "fanout",
        /// Rounds begin `gossip_every` apart at least, each under a higher number.
        Rounds => "rounds",
        /// A digest tells only of packets that came to the gossiper, or that it sent, and that it
        /// has had for less than `rounds_held` rounds.
        Digest => "digest",
        /// A member solicits what the gossiper's digest offers, in answer to it, and no packet
        /// twice in a round of its own.
        Solicited => "solicited",
        /// It solicits `solicit_max` packets a round at most.
        SolicitMax => "solicit_max",
        /// Of each sender it solicits the most recent packets first.
        Recency => "recency",
        /// A member retransmits what it is asked for, to the one that asks, within the round of the
        /// digest.
        Current => "current round",
        /// It retransmits `retransmit_max` packets a round at most.
        RetransmitMax => "retransmit_max",
    }
}

/// A packet: its sender, the lower half of that one's incarnation, and its number.
type Packet = (NodeId, u32, u64);

/// What is known of a member in its present life.
#[derive(Debug, Default)]
struct Member {
    /// The last round in which it sent a digest, when the round began, and the receivers.
    round: Option<(u32, Instant)>,
    gossiped_to: BTreeSet<NodeId>,
    /// When packets came last, or were sent.
    had: BTreeMap<Packet, Instant>,
    /// By rank and number: what it solicited in this round.
    solicited: BTreeSet<(u16, u32)>,
    retransmitted: usize,
    /// What it handles.
    handles: Option<(NodeId, Message)>,
}

/// Watches members of one group, which have the ranks of their numbers.
///
/// Cost: logarithmic in the packets, and in all that a digest tells of.
#[derive(Debug)]
pub struct GossipLedger {
    config: Config,
    members: BTreeMap<NodeId, Member>,
    report: Report<Rule>,
}

impl GossipLedger {
    /// Nothing seen yet of members that share this configuration.
    pub fn new(config: &Config) -> GossipLedger {
        let config = config.clone();
        GossipLedger { config, members: BTreeMap::new(), report: Report::default() }
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }
}

impl Member {
    fn handle(&mut self, at: Instant, from: NodeId, message: &Message) {
        let came = match message {
            Message::Data(data) => Some(packet(from, data)),
            Message::Retransmission(Supply { rank, data, .. }) => {
                Some(packet(NodeId((*rank).into()), data))
            }
            Message::Digest { .. } | Message::Solicit { .. } => None,
        };
        self.had.extend(came.map(|packet| (packet, at)));
        self.handles = Some((from, message.clone()));
    }

    fn sends_digest(
        &mut self,
        config: &Config,
        at: Instant,
        (from, to): (NodeId, NodeId),
        (round, origins): (u32, &[Origin]),
    ) -> Result<(), Broken<Rule>> {
        match self.round {
            Some((last, _)) if last == round => {}
            Some((last, began)) if round < last || at.since(began) < config.gossip_every() => {
                let what = format!("round {round} follows round {last} of {began}");
                return Err((Rule::Rounds, what));
            }
            _ => {
                self.round = Some((round, at));
                self.gossiped_to.clear();
            }
        }
        self.gossiped_to.insert(to);
        if to == from || self.gossiped_to.len() > config.fanout() {
            let what = format!("the digest of round {round} goes to {:?}", self.gossiped_to);
            return Err((Rule::Fanout, what));
        }
        for (rank, life, seq) in origins.iter().flat_map(told) {
            let had = self.had.get(&(NodeId(rank.into()), life, seq.into()));
            if had.is_none_or(|&had| at.since(had) >= config.held_for()) {
                let what = format!("it tells of {rank}.{seq} of life {life}, had at {had:?}");
                return Err((Rule::Digest, what));
            }
        }
        Ok(())
    }

    fn solicits(
        &mut self,
        config: &Config,
        to: NodeId,
        round: u32,
        names: &Names,
    ) -> Result<(), Broken<Rule>> {
        let offered: BTreeSet<(u16, u32)> = match &self.handles {
            Some((from, Message::Digest { round: of, origins, .. }))
                if (*from, *of) == (to, round) =>
            {
                origins.iter().flat_map(told).map(|(rank, _, seq)| (rank, seq)).collect()
            }
            _ => BTreeSet::new(),
        };
        let mut last: BTreeMap<u16, u32> = BTreeMap::new();
        for name in names.iter() {
            let (rank, seq) = (name.rank, name.seq);
            if !offered.contains(&(rank, seq)) {
                return Err((Rule::Solicited, format!("{to} did not offer {rank}.{seq}")));
            }
            if !self.solicited.insert((rank, seq)) {
                return Err((Rule::Solicited, format!("{rank}.{seq} is solicited twice")));
            }
            if last.insert(rank, seq).is_some_and(|last| last < seq) {
                return Err((Rule::Recency, format!("{rank}.{seq} is solicited late")));
            }
        }
        let solicited = self.solicited.len();
        match solicited > config.solicit_max() {
            true => Err((Rule::SolicitMax, format!("it solicits {solicited} packets"))),
            false => Ok(()),
        }
    }

    fn retransmits(
        &mut self,
        config: &Config,
        to: NodeId,
        supply: &Supply,
    ) -> Result<(), Broken<Rule>> {
        let own_round = self.round.map(|(round, _)| round);
        let is_asked = match &self.handles {
            Some((from, Message::Solicit { round, names, .. })) => {
                let mut names = names.iter().map(|name| (name.rank, name.seq));
                let wanted = (supply.rank, supply.data.seq as u32);
                *from == to && Some(*round) == own_round && names.any(|name| name == wanted)
            }
            _ => false,
        };
        if !is_asked {
            let what = format!("{supply} is for {to}, in round {own_round:?}");
            return Err((Rule::Current, what));
        }
        self.retransmitted += 1;
        match self.retransmitted > config.retransmit_max() {
            true => {
                let what = format!("it retransmits {} packets", self.retransmitted);
                Err((Rule::RetransmitMax, what))
            }
            false => Ok(()),
        }
    }
}

fn packet(sender: NodeId, data: &Data) -> Packet {
    (sender, data.incarnation as u32, data.seq)
}

/// What an origin of a digest tells of: rank, life and number of each packet.
fn told(origin: &Origin) -> impl Iterator<Item = (u16, u32, u32)> + '_ {
    let mut end = origin.last.wrapping_add(1);
    let runs = origin.runs.iter().map(move |&run| {
        let of_run = (1..=u32::from(run)).map(move |back| end.wrapping_sub(back));
        end = end.wrapping_sub(run.into());
        of_run
    });
    runs.step_by(2).flatten().map(|seq| (origin.rank, origin.life, seq))
}

impl<P: Protocol<Message = Message, Timer = Timer>> Observer<P> for GossipLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        let member = self.members.entry(node).or_default();
        member.handles = None;
        match input {
            Input::Start => *member = Member::default(),
            Input::Message { from, message } => member.handle(at, *from, message),
            Input::Timer(Timer::Gossip) => {
                member.solicited.clear();
                member.retransmitted = 0;
            }
            _ => {}
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &Message) {
        let (config, member) = (&self.config, self.members.entry(from).or_default());
        let result = match message {
            Message::Digest { round, origins, .. } => {
                member.sends_digest(config, at, (from, to), (*round, origins))
            }
            Message::Solicit { round, names, .. } => member.solicits(config, to, *round, names),
            Message::Retransmission(supply) => member.retransmits(config, to, supply),
            Message::Data(_) => Ok(()),
        };
        self.report.judge(at, from, result);
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, _: GroupId, message: &Message) {
        if let Message::Data(data) = message {
            let member = self.members.entry(from).or_default();
            member.had.insert(packet(from, data), at);
        }
    }

    fn after_call(&mut self, _: Instant, _: NodeId, _: &P, reply: &mut Reply<P>) {
        if self.report.is_broken() {
            reply.stop();
        }
    }
}
