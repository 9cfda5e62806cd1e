//! Input: which senders may say what, and what of it reaches foca.
//!
//! foca takes every member that it hears of into its group. Here the caller sets the list of
//! watched members, so claims about others are removed before foca reads them. A member that
//! watches us but that we do not watch gets its answers from this module.

use foca::{Header, Message, Notification, Runtime, State};

use super::counters;
use super::identity::Identity;
use super::packet::{Claim, Packet};
use super::surroundings::Sink;
use super::{Detector, Output};

impl Detector {
    pub(super) fn receive_gossip(
        &mut self,
        header: Header<Identity>,
        mut claims: Vec<Claim>,
        out: &mut Output,
    ) {
        let around = &mut self.around;
        if !around.is_mine(header.dst.member) {
            return out.counters.add(counters::FOR_ANOTHER, 1);
        }
        let place = around.place_of(header.src.member);
        match place {
            Some(place) => {
                let watched = &mut around.watched[place];
                watched.is_heard = true;
                watched.generation = watched.generation.max(header.src.generation);
                self.overtake(header.dst, &claims, out);
            }
            None => {
                out.counters.add(counters::STRANGER, 1);
                self.supersede(header.src, out);
            }
        }
        let was_claimed = self.answer_claims(&claims, out);
        let mut far = 0;
        claims.retain(|claim| {
            let Identity { member, generation } = *claim.id();
            let Some(place) = self.around.place_of(member) else { return false };
            let is_near = Identity::is_near(self.around.watched[place].generation, generation);
            far += u64::from(!is_near);
            is_near
        });
        if far > 0 {
            out.counters.add(counters::GENERATION_AHEAD, far);
        }

        let is_for_me_now = header.dst == self.around.me;
        if place.is_some() && (is_for_me_now || header.message == Message::Announce) {
            self.note_answer(&header, claims, out);
        } else {
            self.answer_by_hand(&header, out);
        }
        // So that the sender learns at once that we live, and under which name.
        if was_claimed && !matches!(header.message, Message::Ping(_)) {
            self.introduce(header.src, Message::Gossip, out);
        }
    }

    /// Other members may believe in a generation of this member that it never had. They ignore all
    /// its claims until its generation is higher than that.
    fn overtake(&mut self, named: Identity, claims: &[Claim], out: &mut Output) {
        let around = &self.around;
        let named = [named].into_iter().chain(claims.iter().map(|claim| *claim.id()));
        let of_me = named.filter(|id| around.is_mine(id.member)).map(|id| id.generation);
        let present = around.me.generation;
        let later = of_me.filter(|&of_me| of_me > present && Identity::is_near(present, of_me));
        let Some(next) = later.max().and_then(|claimed| claimed.checked_add(1)) else { return };
        out.counters.add(counters::GENERATION_OVERTAKEN, 1);
        let next = Identity { generation: next, ..around.me };
        let mut sink = Sink { around: &mut self.around, out };
        self.foca.change_identity(next, &mut sink).expect("a header always encodes");
        sink.notify(Notification::Rejoin(&next));
    }

    /// A sender that foca knows under the name in the header.
    fn note_answer(&mut self, header: &Header<Identity>, claims: Vec<Claim>, out: &mut Output) {
        let around = &mut self.around;
        if let Some(probe) = around.probe.as_mut().filter(|probe| !probe.is_answered) {
            match header.message {
                Message::Ack(number) if (header.src, number) == (probe.target, probe.number) => {
                    probe.is_answered = true;
                    around.local.improve();
                }
                // Others reach it and we do not.
                Message::ForwardedAck { origin, probe_number }
                    if (origin, probe_number) == (probe.target, probe.number) =>
                {
                    probe.is_answered = true;
                    around.local.worsen();
                }
                _ => {}
            }
        }
        let packet = Packet::Gossip { header: header.clone(), claims }.encode_for_foca();
        let sink = Sink { around: &mut self.around, out };
        if self.foca.handle_data(&packet, sink).is_err() {
            out.counters.add(counters::REFUSED, 1);
        }
    }

    /// Answers a sender that is not watched, or that knows this member under an older identity: the
    /// answer only says that this member is alive.
    fn answer_by_hand(&mut self, header: &Header<Identity>, out: &mut Output) {
        let answer = match header.message {
            Message::Ping(number) => Message::Ack(number),
            Message::IndirectPing { origin, probe_number } => {
                Message::IndirectAck { target: origin, probe_number }
            }
            // It looks for us, though we do not look for it.
            Message::Announce => Message::Gossip,
            Message::TurnUndead if header.dst == self.around.me => {
                self.apply(Claim::down(header.dst), out);
                Message::Gossip
            }
            _ => return,
        };
        self.introduce(header.src, answer, out);
    }

    /// A gossip from us without claims.
    fn introduce(&mut self, to: Identity, message: Message<Identity>, out: &mut Output) {
        out.sends.push((to.member.node, self.around.gossip(to, message, Vec::new())));
    }

    /// Answers what is claimed of this member: a suspicion is refuted, and after being declared
    /// down it takes its next generation. True if there was such a claim.
    fn answer_claims(&mut self, claims: &[Claim], out: &mut Output) -> bool {
        let around = &mut self.around;
        let of_me = || claims.iter().filter(|claim| around.is_mine(claim.id().member));
        let present = || of_me().filter(|claim| *claim.id() == around.me);
        let is_down = present().any(|claim| claim.state() == State::Down);
        let suspected = present().filter(|claim| claim.state() == State::Suspect);
        let suspected = suspected.map(|claim| claim.incarnation()).max();
        // A claim of an older name, or one that was refuted before, needs an answer only.
        let is_alive = |claim: &Claim| claim.state() == State::Alive && *claim.id() == around.me;
        let was_claimed = of_me().any(|claim| !is_alive(claim));
        if is_down {
            self.apply(Claim::down(self.around.me), out);
        } else if let Some(refutations) = suspected.filter(|&k| k >= around.refutations) {
            around.local.worsen();
            if refutations < u16::MAX {
                around.refutations = refutations + 1;
            }
            self.apply(Claim::new(self.around.me, refutations, State::Suspect), out);
        }
        was_claimed
    }

    /// Handles a packet of another incarnation of a node. If the watched one was heard before, this
    /// one is newer: after a message of a new incarnation none of an older one arrives.
    fn supersede(&mut self, stranger: Identity, out: &mut Output) {
        let Some(place) = self.around.place(stranger.member.node) else { return };
        let watched = &mut self.around.watched[place];
        if watched.is_heard && !watched.is_superseded {
            watched.is_superseded = true;
            if let Some(known) = self.known(stranger.member.node) {
                self.apply(Claim::new(*known.id(), known.incarnation(), State::Down), out);
            }
        }
    }
}
