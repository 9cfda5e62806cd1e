use std::convert::Infallible;

use rand_core::TryRng;

use crate::core::{Member, NodeId, Rng};

/// How far a claimed generation may be ahead of the last one that the member itself announced. A
/// receiver that misses more has missed for minutes that the member was down, again and again. A
/// liar that uses up one generation per round trip needs 4 million round trips to exhaust them.
const GENERATIONS_AHEAD_MAX: u32 = 1024;

/// A member as foca knows it.
///
/// In foca being down is final for an identity. A member that learns that it was declared down
/// takes the next generation and is back at once, with the same incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The member that is watched.
    pub member: Member,
    /// How often it was declared down and came back. 0 at first.
    pub generation: u32,
}

impl Identity {
    /// A member of which no generation is known: the first.
    pub fn first(member: Member) -> Identity {
        Identity { member, generation: 0 }
    }

    /// Whether a claimed generation is believed of a member that last announced `generation`. Only
    /// the member itself takes its next generation. So only a lie names a later one, and the member
    /// overtakes that as long as generations are left.
    pub fn is_near(generation: u32, claimed: u32) -> bool {
        claimed.saturating_sub(generation) <= GENERATIONS_AHEAD_MAX
    }
}

impl foca::Identity for Identity {
    type Addr = NodeId;

    fn renew(&self) -> Option<Identity> {
        let generation = self.generation.checked_add(1)?;
        Some(Identity { generation, ..*self })
    }

    fn addr(&self) -> NodeId {
        self.member.node
    }

    /// The later generation stays. Two incarnations of a node never meet here: only the one that is
    /// watched comes as far as foca. The order is total nevertheless, so that all would agree.
    fn win_addr_conflict(&self, adversary: &Identity) -> bool {
        (self.generation, self.member.incarnation)
            > (adversary.generation, adversary.member.incarnation)
    }
}

/// Our generator under the trait that foca asks for.
pub(super) struct Dice(pub Rng);

impl TryRng for Dice {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.0.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(4) {
            chunk.copy_from_slice(&self.0.next_u32().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}
