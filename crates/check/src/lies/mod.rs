//! Messages that are well-formed and false: each field is drawn as true, nearly true, or extreme.

mod chain;
mod group;
mod multicast;
mod ndn;
mod overlay;
mod slingshot;
mod walk;

use bytes::Bytes;
use paceline_proto::core::{
    GroupId, Lane, Member, NodeId, Payload, Protocol, Rng, ViewId, Wire, encode_to_bytes,
};
use paceline_proto::ndn::Name;
use paceline_proto::overlay::{Algorithm, Key};

/// Draws until one is of a wanted kind.
const ALIKE_TRIES: u32 = 64;

/// Messages that can be drawn.
pub trait Draw: Wire + Sized {
    /// Draws one.
    fn draw(source: &mut Source<'_>) -> Self;

    /// Draws another of the same kind; none if the draws do not find one.
    fn draw_alike(&self, source: &mut Source<'_>) -> Option<Self> {
        draw_alike(self, source)
    }

    /// Its kind: the name of a counter.
    fn kind(&self) -> &'static str;

    /// All kinds.
    fn kinds() -> Vec<&'static str>;

    /// How messages of its kind travel.
    fn lane(&self) -> Lane {
        Lane::Datagram
    }
}

fn draw_alike<M: Draw>(message: &M, source: &mut Source<'_>) -> Option<M> {
    (0..ALIKE_TRIES).map(|_| M::draw(source)).find(|drawn| drawn.kind() == message.kind())
}

impl<M: Draw> Draw for Box<M> {
    fn draw(source: &mut Source<'_>) -> Box<M> {
        Box::new(M::draw(source))
    }

    fn draw_alike(&self, source: &mut Source<'_>) -> Option<Box<M>> {
        (**self).draw_alike(source).map(Box::new)
    }

    fn kind(&self) -> &'static str {
        (**self).kind()
    }

    fn kinds() -> Vec<&'static str> {
        M::kinds()
    }

    fn lane(&self) -> Lane {
        (**self).lane()
    }
}

/// What strangers know: views, ids and addresses, which a node sends to any node that asks. They
/// never see a message between members.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The latest view.
    pub view: u64,
    /// Its digest.
    pub digest: u64,
    /// The honest nodes, each in its latest incarnation.
    pub members: Vec<Member>,
    /// Groups that members multicast to.
    pub groups: u32,
    /// Vertices of the graph.
    pub vertices: u32,
    /// The plan by which servers have them.
    pub plan: u64,
    /// Most steps that walkers of strangers are still to take.
    pub steps_max: u32,
    /// The algorithm of an overlay.
    pub algorithm: Algorithm,
    /// Keys of an overlay that strangers read. What they write is under keys of their own.
    pub keys: Vec<Key>,
    /// Names of objects.
    pub names: Vec<Name>,
}

impl Known {
    /// Notes a node, in place of its earlier incarnation.
    pub fn note(&mut self, node: Member) {
        match self.members.iter_mut().find(|member| member.node == node.node) {
            Some(member) => *member = node,
            None => self.members.push(node),
        }
    }
}

/// What fields are drawn from.
pub struct Source<'a> {
    /// Random numbers.
    pub rng: &'a mut Rng,
    /// What is known, of one member at least.
    pub known: &'a Known,
    /// The sender.
    pub me: Member,
    /// It is a member: what it says of others is heard.
    pub is_member: bool,
}

impl Source<'_> {
    /// A number: small, the greatest, or any.
    pub fn word(&mut self) -> u64 {
        match self.rng.below(4) {
            0 => u64::from(self.rng.below(4)),
            1 => u64::MAX - u64::from(self.rng.below(2)),
            _ => self.rng.next_u64(),
        }
    }

    /// The same of 32 bits.
    pub fn half(&mut self) -> u32 {
        match self.rng.below(4) {
            0 => self.rng.below(4),
            1 => u32::MAX - self.rng.below(2),
            _ => self.rng.next_u32(),
        }
    }

    /// The digest of a view: half of them the latest one's.
    pub fn digest(&mut self) -> u64 {
        if self.flag() { self.known.digest } else { self.word() }
    }

    /// The number of a view: mostly the latest.
    pub fn view(&mut self) -> ViewId {
        ViewId(match self.rng.below(8) {
            0 => self.word(),
            1 => self.known.view.saturating_sub(1),
            2 => self.known.view + 1,
            3 => self.known.view + 2 + u64::from(self.rng.below(1000)),
            _ => self.known.view,
        })
    }

    /// One of the honest nodes.
    pub fn honest(&mut self) -> Member {
        self.known.members[self.rng.below(self.known.members.len() as u32) as usize]
    }

    /// A node in an incarnation: mostly an honest one in its own.
    pub fn member(&mut self) -> Member {
        let honest = self.honest();
        match self.rng.below(5) {
            0 => self.me,
            1 => Member { node: NodeId::from(self.rng.next_u32()), incarnation: self.word() },
            2 => Member { incarnation: self.word(), ..honest },
            _ => honest,
        }
    }

    /// The rank of a member: mostly one that there is.
    pub fn rank(&mut self) -> u32 {
        if self.rng.chance(0.1) { self.rng.next_u32() } else { self.rng.below(8) }
    }

    /// A group: mostly one that there is.
    pub fn group(&mut self) -> GroupId {
        GroupId(match self.rng.chance(0.1) {
            true => self.half(),
            false => self.rng.below(self.known.groups.max(1)),
        })
    }

    /// A list of at most `most` drawn items.
    pub fn some<T>(&mut self, most: u32, mut draw: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let count = self.rng.below(most + 1);
        (0..count).map(|_| draw(self)).collect()
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.rng.below(all.len() as u32) as usize]
    }

    /// True in half of the cases.
    pub fn flag(&mut self) -> bool {
        self.rng.chance(0.5)
    }

    /// Content that no honest node sends.
    pub fn payload(&mut self) -> Payload {
        let bytes = [0, 5, 40][self.rng.below(3) as usize];
        Payload::Bytes(Bytes::from_static(&LIE[..bytes]))
    }
}

/// The message with some bits flipped, or cut short; none if a node would not even decode it.
pub fn damaged<P: Protocol>(
    message: &P::Message,
    shared: &P::Shared,
    rng: &mut Rng,
) -> Option<P::Message> {
    let mut bytes = encode_to_bytes(message).to_vec();
    if rng.chance(0.2) {
        bytes.truncate(rng.below(bytes.len() as u32) as usize);
    }
    for _ in 0..1 + rng.below(8) {
        let bits = bytes.len() as u32 * 8;
        if bits > 0 {
            let bit = rng.below(bits) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    P::decode(shared, bytes.into()).ok()
}

/// What strangers say where content is wanted.
pub const LIE: &[u8; 40] = b"a lie of forty bytes, told by a stranger";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Debug;

    use paceline_proto::core::{DecodeError, decode_exact};

    use super::*;

    /// What is drawn is well-formed, of every kind that there is and of no other.
    fn is_sound<M: Draw + Debug + PartialEq>() {
        is_sound_by(Algorithm::default(), decode_exact::<M>);
    }

    /// The same, of an overlay by this algorithm.
    fn is_sound_by<M: Draw + Debug + PartialEq>(
        algorithm: Algorithm,
        decode: impl Fn(Bytes) -> Result<M, DecodeError>,
    ) {
        let me = Member { node: NodeId(9), incarnation: 77 };
        let mut known = Known { view: 3, groups: 2, vertices: 20, plan: 5, ..Known::default() };
        known.algorithm = algorithm;
        for node in 0..5 {
            known.note(Member { node: NodeId(node), incarnation: 100 + node });
        }
        known.keys = (0..9u8).map(|number| Key::of(&[number])).collect();
        known.names = vec!["/p/0".parse().unwrap(), "/p/1".parse().unwrap()];
        let mut rng = Rng::new(1, 2);
        let mut kinds = BTreeSet::new();
        for _ in 0..20_000 {
            let mut source = Source { rng: &mut rng, known: &known, me, is_member: false };
            let message = M::draw(&mut source);
            let bytes = encode_to_bytes(&message);
            assert_eq!(bytes.len(), message.wire_len(), "{message:?}");
            assert_eq!(decode(bytes).as_ref(), Ok(&message));
            kinds.insert(message.kind());
        }
        assert_eq!(kinds, M::kinds().into_iter().collect());
    }

    #[test]
    fn messages_are_well_formed_and_of_every_kind() {
        use paceline_proto::{chain, group, multicast, ndn, overlay, slingshot, walk};
        is_sound::<chain::Message>();
        is_sound::<group::Message>();
        is_sound::<slingshot::Message>();
        is_sound::<multicast::Message>();
        is_sound::<walk::Message>();
        is_sound::<Box<ndn::Packet>>();
        for algorithm in Algorithm::ALL {
            is_sound_by(algorithm, |bytes| overlay::Message::decode_for(algorithm, bytes));
        }
    }
}
