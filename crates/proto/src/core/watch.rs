use super::{Health, Member, NodeId};

/// Members of a service that a protocol wants to be watched: a request to a driver with a failure
/// detector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchList {
    /// The incarnation by which these members know this node.
    pub incarnation: u64,
    /// What all members must agree on while they watch each other, hashed: a view. Hosts compare
    /// it, with the detector's datagrams.
    pub mark: u64,
    /// The members. This node may be among them and is not watched.
    pub members: Vec<WatchedMember>,
}

/// A member of a service, and the run of the host that it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedMember {
    /// The member.
    pub member: Member,
    /// The incarnation of its host: while that answers, and has not said that its member ended, the
    /// member is up.
    pub host: u64,
}

/// News of a watched member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchNews {
    /// Its state has changed. The first state of a member is [`Health::Up`].
    Health(Health),
    /// Its host does not watch the same as this one: the two do not run the same services, or are
    /// in different views of one. Repeated about as often as the host is heard from while that
    /// lasts. The protocol should ask the member.
    Differs,
}

impl WatchList {
    /// The nodes to watch from this one.
    pub fn others(&self, me: NodeId) -> impl Iterator<Item = &WatchedMember> {
        self.members.iter().filter(move |watched| watched.member.node != me)
    }
}
