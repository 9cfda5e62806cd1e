use std::time::Duration;

use super::{Lane, NodeId, Rng, mix};

/// The faults of a link.
///
/// The simulator's links and the socket emulator draw from this one model, so a scenario means
/// the same in both. The default is a perfect link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFaults {
    /// One-way delay added to every message. Default 0.
    pub delay: Duration,
    /// Upper bound of a uniform extra delay. Datagrams overtake each other; streams do not.
    /// Default 0.
    pub jitter: Duration,
    /// How messages get lost. Default none.
    pub loss: Loss,
    /// Probability in `[0, 1]` that a datagram arrives twice. Default 0.
    pub duplicate: f64,
    /// Probability in `[0, 1]` that a datagram is held back by `reorder_delay`. Default 0.
    pub reorder: f64,
    /// How long a reordered datagram is held back. Default 1 ms.
    pub reorder_delay: Duration,
    /// What one loss costs on a stream, where TCP resends: added delay. Default 200 ms, Linux's
    /// smallest retransmission time-out.
    pub stream_resend_after: Duration,
}

/// A loss process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// Nothing is lost.
    #[default]
    None,
    /// Each message is lost with this probability, independently.
    Independent(f64),
    /// Bursts: a two-state chain that changes state before each message (Gilbert 1960,
    /// Elliott 1963).
    GilbertElliott {
        /// Probability to go from the good state to the bad one.
        good_to_bad: f64,
        /// Probability to go back.
        bad_to_good: f64,
        /// Probability of loss in the bad state.
        bad_loss: f64,
    },
}

impl Loss {
    /// The long-run share of messages lost.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::None => 0.0,
            Loss::Independent(probability) => probability,
            Loss::GilbertElliott { good_to_bad, bad_to_good, bad_loss } => {
                let turns = good_to_bad + bad_to_good;
                if turns > 0.0 { bad_loss * good_to_bad / turns } else { 0.0 }
            }
        }
    }
}

impl Default for LinkFaults {
    fn default() -> Self {
        LinkFaults {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: Loss::None,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_delay: Duration::from_millis(1),
            stream_resend_after: Duration::from_millis(200),
        }
    }
}

impl LinkFaults {
    /// True if the link neither delays nor harms anything.
    pub fn is_perfect(&self) -> bool {
        self.delay.is_zero() && self.is_steady()
    }

    /// True if the link does the same to every message: it delays each by as much.
    pub fn is_steady(&self) -> bool {
        self.jitter.is_zero()
            && self.loss == Loss::None
            && self.duplicate == 0.0
            && self.reorder == 0.0
    }
}

/// The fate of one message: the extra delay of each copy that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It is lost.
    None,
    /// It arrives once.
    One(Duration),
    /// It arrives twice.
    Two(Duration, Duration),
}

/// The state of one direction of one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkState {
    bad: bool,
}

impl LinkState {
    /// Draws the fate of the next message. On a stream a loss turns into delay.
    pub fn draw(&mut self, faults: &LinkFaults, lane: Lane, rng: &mut Rng) -> Copies {
        let lost = match faults.loss {
            Loss::None => false,
            Loss::Independent(probability) => rng.chance(probability),
            Loss::GilbertElliott { good_to_bad, bad_to_good, bad_loss } => {
                let turn = if self.bad { bad_to_good } else { good_to_bad };
                self.bad ^= rng.chance(turn);
                self.bad && rng.chance(bad_loss)
            }
        };
        let mut delay = faults.delay;
        if !faults.jitter.is_zero() {
            delay += faults.jitter.mul_f64(rng.unit());
        }
        match lane {
            Lane::Stream if lost => Copies::One(delay + faults.stream_resend_after),
            Lane::Stream => Copies::One(delay),
            Lane::Datagram if lost => Copies::None,
            Lane::Datagram => {
                if rng.chance(faults.reorder) {
                    delay += faults.reorder_delay;
                }
                if rng.chance(faults.duplicate) {
                    Copies::Two(delay, delay + faults.reorder_delay)
                } else {
                    Copies::One(delay)
                }
            }
        }
    }
}

/// The receive buffer of a node, where datagrams get lost: one loss process for all senders.
///
/// The simulator's receivers and the socket emulator draw from it alike.
#[derive(Clone, Debug)]
pub struct EndBuffer {
    state: LinkState,
    rng: Rng,
}

impl EndBuffer {
    /// The end buffer of a node in a run of this seed. Its draws depend on nothing else.
    pub fn new(seed: u64, node: NodeId) -> EndBuffer {
        EndBuffer { state: LinkState::default(), rng: Rng::new(seed, mix(node.0) ^ 0xe4d_b0ff) }
    }

    /// True if the next datagram that arrives is lost.
    pub fn loses(&mut self, loss: Loss) -> bool {
        let faults = LinkFaults { loss, ..LinkFaults::default() };
        self.state.draw(&faults, Lane::Datagram, &mut self.rng) == Copies::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost_share(loss: Loss) -> (f64, f64) {
        let faults = LinkFaults { loss, ..LinkFaults::default() };
        let (mut state, mut rng) = (LinkState::default(), Rng::new(3, 0));
        let (mut lost, mut runs, mut previous) = (0u32, 0u32, false);
        for _ in 0..200_000 {
            let gone = state.draw(&faults, Lane::Datagram, &mut rng) == Copies::None;
            lost += u32::from(gone);
            runs += u32::from(gone && !previous);
            previous = gone;
        }
        (f64::from(lost) / 200_000.0, f64::from(lost) / f64::from(runs.max(1)))
    }

    #[test]
    fn loss_has_the_mean_it_claims_and_bursts_come_in_runs() {
        let independent = Loss::Independent(0.05);
        let bursts = Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.2, bad_loss: 1.0 };
        let (share, run) = lost_share(independent);
        assert!((share - independent.mean()).abs() < 0.003, "{share}");
        assert!(run < 1.2, "{run}");
        let (share, run) = lost_share(bursts);
        assert!((share - bursts.mean()).abs() < 0.006, "{share} against {}", bursts.mean());
        assert!((run - 5.0).abs() < 0.6, "{run}");
    }

    #[test]
    fn an_end_buffer_draws_by_seed_and_node_alone() {
        let drawn = |seed, node| -> Vec<bool> {
            let mut buffer = EndBuffer::new(seed, NodeId(node));
            (0..200).map(|_| buffer.loses(Loss::Independent(0.3))).collect()
        };
        assert_eq!(drawn(1, 2), drawn(1, 2));
        assert_ne!(drawn(1, 2), drawn(1, 3));
        assert_ne!(drawn(1, 2), drawn(2, 2));
        assert!((30..90).contains(&drawn(1, 2).iter().filter(|&&lost| lost).count()));
    }

    #[test]
    fn a_stream_pays_for_a_loss_with_delay() {
        let faults = LinkFaults { loss: Loss::Independent(1.0), ..LinkFaults::default() };
        let fate = LinkState::default().draw(&faults, Lane::Stream, &mut Rng::new(1, 1));
        assert_eq!(fate, Copies::One(Duration::from_millis(200)));
    }
}
