use paceline_proto::core::field::{List, messages};
use paceline_proto::core::{GroupId, ViewId};
use paceline_proto::slingshot::{Data, Names, Supply};

use super::digest::{Lines, Origin};

/// Origins that a digest tells of, at most; all that fit a datagram of 65,535 bytes.
const ORIGINS_MAX: usize = 4096;

/// Bytes of a digest before its origins.
pub(super) const DIGEST_BYTES_MIN: usize = 19;

messages! {
    /// What members send to each other.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Message {
        /// A packet, to a group.
        0 => Data(data: Data) ["{data}"],
        /// To a member drawn at random: what the gossiper holds.
        1 => Digest {
            /// The gossiper's round.
            round: u32,
            /// The view in which the origins have their ranks.
            view: ViewId,
            /// The group of the packets.
            group: GroupId,
            /// By sender.
            origins: Vec<Origin> as List<ORIGINS_MAX, 1>,
        } ["digest round {round} {view} {group}:{}", Lines(origins)],
        /// To the gossiper, from a member that misses these of its packets, the most recent first.
        2 => Solicit {
            /// The gossiper's round.
            round: u32,
            /// The view in which the senders of the packets have the ranks of the names.
            view: ViewId,
            /// The packets.
            names: Names,
        } ["solicit round {round} {view}:{names}"],
        /// The answer, a message for each packet.
        3 => Retransmission(supply: Supply) ["retransmission {supply}"],
    }
}
