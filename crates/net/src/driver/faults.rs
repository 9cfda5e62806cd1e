//! Changes of the emulated faults.

use paceline_proto::core::{LinkFaults, Loss, NodeId};

use super::Driver;
use super::peers::Reach;
use crate::chassis::ready::Source;
use crate::emulate::{EmulateChange, Peers, ReceiveLoss};

impl Driver {
    pub(super) fn emulate(&mut self, change: EmulateChange) {
        match change {
            EmulateChange::Faults { to, faults } => self.set_faults(to, faults),
            EmulateChange::Partition(cut) => self.set_partition(&cut),
            EmulateChange::Reset(peer) => {
                if let Some(place) = self.peers.place(peer) {
                    self.reset(place);
                }
            }
            EmulateChange::Pause(duration) => self.paused_until = Some(self.chassis.now + duration),
            EmulateChange::ReceiveLoss(loss) => self.set_receive_loss(loss),
            EmulateChange::Clear => {
                self.set_faults(Peers::All, LinkFaults::default());
                self.set_partition(&[]);
                self.set_receive_loss(Loss::None);
                self.paused_until = None;
            }
        }
    }

    fn set_faults(&mut self, to: Peers, faults: LinkFaults) {
        self.chassis.change_faults(to, faults, |node| self.peers.place(node));
    }

    fn set_receive_loss(&mut self, loss: Loss) {
        self.receive_loss = ReceiveLoss::new(loss, self.seed, self.config.node);
    }

    fn set_partition(&mut self, cut: &[NodeId]) {
        self.is_cut = !cut.is_empty();
        for place in 0..self.peers.len() {
            let peer = self.peers.at(place);
            let reach = if cut.contains(&peer.node) { Reach::Cut } else { Reach::Open };
            if reach == peer.reach {
                continue;
            }
            peer.reach = reach;
            if reach == Reach::Open {
                // Sources that woke meanwhile were neither read nor written.
                self.chassis.again.extend(peer.incoming.map(Source::Incoming));
                self.chassis.again.push(Source::Outgoing(place));
            }
        }
    }
}
