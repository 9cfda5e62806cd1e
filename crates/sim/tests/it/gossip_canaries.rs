//! The bug planted for each promise of gossip's rounds is caught. Every member has the bug; runs
//! are drawn as for the seeds.

use crate::timely_swarm;

use paceline_baselines::gossip::{Config, Gossip, Message};
use paceline_check::checkers::gossip::Rule;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId, Outgoing};
use paceline_proto::slingshot::NamesBuilder;
use timely_swarm::{Baseline, Scenario};

/// What members do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The digest of a round goes to another member, too.
    ExceedFanout,
    /// A digest goes to the member itself.
    GossipToSelf,
    /// Another round begins at once.
    HurryRounds,
    /// A digest tells of the packet after the last one.
    ClaimNext,
    /// Packets are kept for twice as many rounds.
    KeepLong,
    /// What is not offered is solicited.
    SolicitNext,
    SolicitTwice,
    SolicitMore,
    OldestFirst,
    /// A solicitation is answered in whichever round.
    AnswerLate,
    /// A retransmission goes to another member as well.
    AnswerAll,
    RetransmitMore,
}

struct Sabotage {
    bug: Bug,
    round: u32,
}

impl Sabotage {
    fn wrap(config: &Config, bug: Option<Bug>) -> Wrapped<Gossip> {
        let kept = match bug {
            Some(Bug::KeepLong) => config.clone().with_rounds_held(2 * config.rounds_held()),
            _ => config.clone(),
        };
        let wrapped = Wrapped::new(Gossip::new(&kept), bug.map(|bug| Sabotage { bug, round: 0 }));
        match bug {
            Some(Bug::SolicitMore) => wrapped.with_shared(config.clone().with_solicit_max(4096)),
            Some(Bug::RetransmitMore) => {
                wrapped.with_shared(config.clone().with_retransmit_max(4096))
            }
            _ => wrapped,
        }
    }

    /// Another one for each message.
    fn tamper_with(&mut self, me: NodeId, sent: &Outgoing<Message>) -> Option<Outgoing<Message>> {
        let other = (0..2).map(NodeId).find(|&node| node != me && node != sent.to);
        match (self.bug, &sent.message) {
            (Bug::ExceedFanout, Message::Digest { .. })
            | (Bug::AnswerAll, Message::Retransmission(_)) => {
                Some(Outgoing { to: other?, ..sent.clone() })
            }
            (Bug::GossipToSelf, Message::Digest { .. }) => {
                Some(Outgoing { to: me, ..sent.clone() })
            }
            (Bug::HurryRounds, Message::Digest { round, view, group, origins }) => {
                let (round, view, group) = (round + 1, *view, *group);
                let message = Message::Digest { round, view, group, origins: origins.clone() };
                Some(Outgoing { message, ..sent.clone() })
            }
            (Bug::SolicitTwice, Message::Solicit { .. }) => Some(sent.clone()),
            _ => None,
        }
    }
}

impl Tamper<Gossip> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Gossip,
        _: &mut Context<'_, Gossip>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        match (self.bug, message) {
            (Bug::SolicitNext, Message::Digest { origins, .. }) => {
                origins[0].last += 1;
                origins[0].runs[0] += 1;
            }
            (Bug::AnswerLate, Message::Solicit { round, .. }) => *round = self.round,
            _ => {}
        }
        1
    }

    fn tamper(&mut self, _: &mut Gossip, cx: &mut Context<'_, Gossip>) {
        let me = cx.node;
        for sent in &mut cx.outbox.sends {
            match &mut sent.message {
                Message::Digest { round, origins, .. } => {
                    self.round = *round;
                    if self.bug == Bug::ClaimNext {
                        origins[0].last += 1;
                    }
                }
                Message::Solicit { names, .. } if self.bug == Bug::OldestFirst => {
                    let mut reversed = NamesBuilder::default();
                    let forward: Vec<_> = names.iter().collect();
                    forward.into_iter().rev().for_each(|name| reversed.push(name));
                    *names = reversed.build();
                }
                _ => {}
            }
        }
        let more: Vec<_> =
            cx.outbox.sends.iter().filter_map(|sent| self.tamper_with(me, sent)).collect();
        cx.outbox.sends.extend(more);
    }
}

#[test]
fn every_planted_bug_of_gossip_is_caught_by_the_rule_it_was_planted_for() {
    let planted = [
        (Bug::ExceedFanout, Rule::Fanout),
        (Bug::GossipToSelf, Rule::Fanout),
        (Bug::HurryRounds, Rule::Rounds),
        (Bug::ClaimNext, Rule::Digest),
        (Bug::KeepLong, Rule::Digest),
        (Bug::SolicitNext, Rule::Solicited),
        (Bug::SolicitTwice, Rule::Solicited),
        (Bug::SolicitMore, Rule::SolicitMax),
        (Bug::OldestFirst, Rule::Recency),
        (Bug::AnswerLate, Rule::Current),
        (Bug::AnswerAll, Rule::Current),
        (Bug::RetransmitMore, Rule::RetransmitMax),
    ];
    seeds::catch_all(planted, |seed, bug| {
        let scenario = Scenario::draw(seed, Baseline::Gossip);
        scenario.run_gossip(|config| Sabotage::wrap(config, bug)).map(|_| ())
    });
}
