use std::time::Duration;

/// The health of this member itself: 0 is well, 8 is worst.
///
/// A slow member sees others as slow. Signs of that raise the score, and an answer in time lowers
/// it. Every time-out is multiplied by the score plus one. Source: Lifeguard, section 4.1 (the
/// local health multiplier).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LocalHealth(u8);

impl LocalHealth {
    /// The worst score; Lifeguard's.
    const WORST: u8 = 8;

    /// Evidence that this member is slow: it was paused, was suspected, or suspected others
    /// wrongly.
    pub fn worsen(&mut self) {
        self.0 = (self.0 + 1).min(Self::WORST);
    }

    /// A probe was answered in time.
    pub fn improve(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// A time-out as this member should wait for it.
    pub fn stretch(self, time: Duration) -> Duration {
        time * (1 + u32::from(self.0))
    }

    #[cfg(test)]
    pub fn score(self) -> u8 {
        self.0
    }
}
