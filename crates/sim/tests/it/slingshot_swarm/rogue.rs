//! A member whose heartbeats are damaged in transit, and whose repairs, requests and answers are
//! damaged, forged or old.

use paceline_check::Tamper;
use paceline_check::lies::damaged;
use paceline_proto::core::{Context, GroupId, Outgoing, Payload, Rng, Wire};
use paceline_proto::parts::fec::Coded;
use paceline_proto::slingshot::{Message, Name, NamesBuilder, Repair, Slingshot};

/// Messages that are sent again later.
const KEPT_MAX: usize = 32;

#[derive(Default)]
pub struct Rogue {
    kept: Vec<Message>,
}

impl Tamper<Slingshot> for Rogue {
    fn tamper(&mut self, _: &mut Slingshot, cx: &mut Context<'_, Slingshot>) {
        let mut sends = Vec::new();
        for send in std::mem::take(&mut cx.outbox.sends) {
            if self.kept.len() < KEPT_MAX {
                self.kept.push(send.message.clone());
            }
            let message = match cx.rng.below(4) {
                0 => Some(send.message),
                1 => damaged::<Slingshot>(&send.message, cx.shared, cx.rng),
                2 => Some(self.kept[cx.rng.below(self.kept.len() as u32) as usize].clone()),
                _ => Some(made_up(send.message, cx.rng)),
            };
            if let Some(message) = message
                && message.wire_len() <= cx.datagram_bytes_max
            {
                sends.push(Outgoing { message, ..send });
            }
        }
        cx.outbox.sends = sends;
        let groups = std::mem::take(&mut cx.outbox.group_sends).into_iter().filter_map(
            |(group, message)| {
                // The ledger takes what packets are for what is sent of them.
                let is_sound = matches!(message, Message::Data(_)) || cx.rng.chance(0.5);
                Some((
                    group,
                    if is_sound {
                        message
                    } else {
                        damaged::<Slingshot>(&message, cx.shared, cx.rng)?
                    },
                ))
            },
        );
        cx.outbox.group_sends = groups.collect();
    }
}

/// A repair that is not the sum of what it names, under a checksum of its own that fits.
fn made_up(message: Message, rng: &mut Rng) -> Message {
    let Message::Repair(repair) = message else { return message };
    let mut named: Vec<Name> = repair.names.iter().collect();
    let place = rng.below(named.len() as u32) as usize;
    let (mut seed, Coded { mut lengths, mut body }) = (repair.seed, repair.coded());
    let name = &mut named[place];
    match rng.below(9) {
        0 => name.seq = name.seq.wrapping_add(rng.below(80)).wrapping_sub(40),
        1 => name.rank = rng.below(12) as u16,
        2 => name.checksum ^= 1 << rng.below(32),
        3 => name.group = GroupId(rng.below(4)),
        4 if named.len() > 1 => _ = named.swap_remove(place),
        5 => named.swap(0, place),
        6 => lengths ^= 1 << rng.below(11),
        7 => seed = rng.next_u32(),
        _ => {
            let mut bytes = body.to_bytes().to_vec();
            bytes.iter_mut().for_each(|byte| *byte ^= rng.below(2) as u8);
            body = Payload::from(bytes);
        }
    }
    let mut names = NamesBuilder::default();
    named.into_iter().for_each(|name| names.push(name));
    Message::Repair(Repair::new(
        repair.view,
        seed,
        repair.ages,
        names.build(),
        Coded { lengths, body },
    ))
}
