use paceline_proto::core::GroupId;
use paceline_proto::core::field::messages;
use paceline_proto::slingshot::{Data, check_seq};

messages! {
    /// What members send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A packet, to a group.
        0 => Data(data: Data) ["{data}"],
        /// A packet from its sender to one member, again.
        1 => Again(data: Data) ["again {data}"],
        /// To the sender of a packet: it has arrived.
        2 => Ack {
            /// The packet's group.
            group: GroupId,
            /// The incarnation of its sender.
            incarnation: u64,
            /// Its number.
            seq: u64 where check_seq,
        } ["ack {group} seq {seq}"],
    }
}
