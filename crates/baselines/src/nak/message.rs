use paceline_proto::core::ViewId;
use paceline_proto::core::field::messages;
use paceline_proto::slingshot::{Data, Heartbeat, Names, Supply};

messages! {
    /// What members send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A packet, to a group.
        0 => Data(data: Data) ["{data}"],
        /// A packet, to a group, and what its sender has received.
        1 => Digest {
            /// The view in which the senders of the packets have these ranks.
            view: ViewId,
            /// The last packets that the sender has received.
            names: Names,
            /// The packet.
            data: Data,
        } ["{data}, has {view}:{names}"],
        /// To a member that should have these packets: which of them does it have?
        2 => Ask {
            /// The view.
            view: ViewId,
            /// The packets.
            names: Names,
        } ["ask {view}:{names}"],
        /// From a silent sender, to a group: without the checksum that it has in Slingshot.
        3 => Heartbeat(heartbeat: Heartbeat) ["{heartbeat}"],
        /// The answer to a question, a message for each packet.
        4 => Supply(supply: Supply) ["supply {supply}"],
    }
}

/// Bytes that `names` names of one group, and their view, add to a packet.
pub(super) const fn digest_bytes(names: usize) -> usize {
    if names == 0 { 0 } else { 8 + Names::bytes(names, 1) }
}
