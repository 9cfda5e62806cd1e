use crate::core::NodeId;

/// The last messages that were answered and must not be acted on twice.
pub(super) struct Recent {
    at: u8,
    is_full: bool,
    exchanges: [u32; Recent::LEN],
    senders: [NodeId; Recent::LEN],
}

impl Default for Recent {
    fn default() -> Recent {
        let (exchanges, senders) = ([0; Recent::LEN], [NodeId(0); Recent::LEN]);
        Recent { at: 0, is_full: false, exchanges, senders }
    }
}

impl Recent {
    const LEN: usize = 32;

    /// Notes a message. False if it was there already.
    pub fn note(&mut self, from: NodeId, exchange: u32) -> bool {
        let count = if self.is_full { Recent::LEN } else { usize::from(self.at) };
        let mut seen = self.exchanges[..count].iter().zip(&self.senders[..count]);
        if seen.any(|known| known == (&exchange, &from)) {
            return false;
        }
        let at = usize::from(self.at);
        (self.exchanges[at], self.senders[at]) = (exchange, from);
        self.at = (self.at + 1) % Recent::LEN as u8;
        self.is_full |= self.at == 0;
        true
    }
}
