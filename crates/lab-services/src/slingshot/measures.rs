//! The measurements of a run: the share of lost packets that were recovered, and how soon.

use std::time::Duration;

use super::ledger::{Fate, Ledger};
use super::watch::Watch;

/// The numbers of a run, of the packets that are judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// Packets at receivers.
    pub pairs: u64,
    /// Those that did not come from their sender: dropped, as the simulator saw.
    pub lost: u64,
    /// Of these, by repairs: how long after they would have arrived, ms, ascending. They would have
    /// taken as long as those that came took on average.
    pub recovered_ms: Vec<f64>,
    /// By questions, the same.
    pub pulled_ms: Vec<f64>,
    /// Of these, reported lost.
    pub reported: u64,
    /// Of these, neither delivered nor reported.
    pub unreported: u64,
    /// Repairs beside packets received, as a share of both.
    pub overhead: f64,
    /// Packets at receivers that came within [`Plan::in_time`](super::Plan::in_time).
    pub pairs_in_time: u64,
    /// Judged packets.
    pub packets: u64,
    /// Those that all their receivers had within that time.
    pub packets_in_time: u64,
    /// The highest rate at which enough packets were in time, packets a second; 0 if none was found
    /// or searched for.
    pub throughput: f64,
    /// All that is not packets of their senders, for each of these received; 0 on sockets.
    pub extra: f64,
}

impl Measures {
    /// What a ledger says, and what the simulator saw. On sockets a packet counts as lost if it
    /// did not reach the protocol from its sender.
    pub fn of(ledger: &Ledger, watch: Option<&Watch>, overhead: f64) -> Measures {
        let plan = ledger.plan();
        let mut measures = Measures { overhead, ..Measures::default() };
        let is_lost = |packet, node, fate| match watch {
            Some(watch) if plan.datagrams == 1 => !watch.has_arrived(packet, node),
            // Of a message, if any of its packets did not come from the sender.
            Some(_) => fate != Fate::Direct,
            None => fate != Fate::Direct && !ledger.was_overtaken(packet, node),
        };
        measures.count_in_time(ledger);
        for (packet, node) in plan.judged_pairs() {
            measures.pairs += 1;
            let fate = ledger.fate(packet, node);
            if !is_lost(packet, node, fate) {
                continue;
            }
            measures.lost += 1;
            match fate {
                Fate::Lost => measures.reported += 1,
                Fate::Unreported => measures.unreported += 1,
                Fate::Direct | Fate::Recovered | Fate::Pulled => {}
            }
        }
        let way = ledger.direct().mean_nanos();
        for again in ledger.again() {
            let fate = ledger.fate(again.packet, again.node);
            if !plan.judged.contains(&again.packet) || !is_lost(again.packet, again.node, fate) {
                continue;
            }
            let ms = (again.nanos as f64 - way).max(0.0) / 1e6;
            match fate {
                Fate::Recovered => measures.recovered_ms.push(ms),
                _ => measures.pulled_ms.push(ms),
            }
        }
        measures.recovered_ms.sort_unstable_by(f64::total_cmp);
        measures.pulled_ms.sort_unstable_by(f64::total_cmp);
        measures
    }

    fn count_in_time(&mut self, ledger: &Ledger) {
        let plan = ledger.plan();
        if plan.in_time.is_none() {
            return;
        }
        let mut slow = ledger.slow().to_vec();
        slow.sort_unstable();
        let (mut last_missed, mut missed) = (None, 0);
        for (packet, node) in plan.judged_pairs() {
            let came = !matches!(ledger.fate(packet, node), Fate::Unreported | Fate::Lost);
            match came && slow.binary_search(&(packet, node)).is_err() {
                true => self.pairs_in_time += 1,
                // Pairs come packet by packet.
                false => {
                    missed += u64::from(last_missed != Some(packet));
                    last_missed = Some(packet);
                }
            }
        }
        self.packets = plan.judged.end - plan.judged.start;
        self.packets_in_time = self.packets - missed;
    }

    /// The share of packets at receivers that were in time. NaN if there were none.
    pub fn in_time(&self) -> f64 {
        self.pairs_in_time as f64 / self.pairs as f64
    }

    /// The share of packets that were in time at all their receivers. NaN if there were none.
    pub fn in_time_at_all(&self) -> f64 {
        self.packets_in_time as f64 / self.packets as f64
    }

    /// The share of lost packets that repairs brought back. NaN if nothing was lost.
    pub fn recovered(&self) -> f64 {
        self.recovered_ms.len() as f64 / self.lost as f64
    }

    /// The same within a time.
    pub fn recovered_within(&self, time: Duration) -> f64 {
        let ms = time.as_secs_f64() * 1e3;
        self.recovered_ms.partition_point(|&took| took <= ms) as f64 / self.lost as f64
    }

    /// The mean recovery time, ms. NaN if nothing was recovered.
    pub fn mean_ms(&self) -> f64 {
        self.recovered_ms.iter().sum::<f64>() / self.recovered_ms.len() as f64
    }

    /// The time by which this share of what was recovered was, ms.
    pub fn percentile_ms(&self, share: f64) -> f64 {
        at_share(&self.recovered_ms, share, self.recovered_ms.len())
    }

    /// The time by which this share of all that was lost was recovered, ms. NaN if it never was.
    pub fn time_until_ms(&self, share: f64) -> f64 {
        at_share(&self.recovered_ms, share, self.lost as usize)
    }

    /// The share of packets that were delivered or reported lost. NaN if there were none.
    pub fn reported_share(&self) -> f64 {
        (self.pairs - self.unreported) as f64 / self.pairs as f64
    }

    /// The share of lost packets that came back, by repairs or by questions. NaN if nothing was
    /// lost.
    pub fn back(&self) -> f64 {
        (self.recovered_ms.len() + self.pulled_ms.len()) as f64 / self.lost as f64
    }

    /// The mean time of these, ms. NaN if there are none.
    pub fn back_mean_ms(&self) -> f64 {
        let sum = self.recovered_ms.iter().sum::<f64>() + self.pulled_ms.iter().sum::<f64>();
        sum / (self.recovered_ms.len() + self.pulled_ms.len()) as f64
    }

    /// The time by which this share of all that was lost came back.
    pub fn time_until_back_ms(&self, share: f64) -> f64 {
        at_share(&self.back_ms(), share, self.lost as usize)
    }

    /// How long each of these took, ms, ascending.
    pub fn back_ms(&self) -> Vec<f64> {
        let mut all = [&self.recovered_ms[..], &self.pulled_ms[..]].concat();
        all.sort_unstable_by(f64::total_cmp);
        all
    }
}

fn at_share(sorted: &[f64], share: f64, of: usize) -> f64 {
    let needed = (share * of as f64).ceil() as usize;
    sorted.get(needed.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_that_was_lost() {
        let measures = Measures {
            lost: 10,
            recovered_ms: (1..=8).map(f64::from).collect(),
            pulled_ms: vec![20.0],
            ..Measures::default()
        };
        assert_eq!(measures.recovered(), 0.8);
        assert_eq!(measures.recovered_within(Duration::from_millis(5)), 0.5);
        assert_eq!(measures.mean_ms(), 4.5);
        assert_eq!(measures.time_until_ms(0.8), 8.0);
        assert!(measures.time_until_ms(0.81).is_nan());
        assert_eq!(measures.time_until_back_ms(0.9), 20.0);
        assert_eq!((measures.back(), measures.back_mean_ms()), (0.9, 56.0 / 9.0));
        assert_eq!(measures.percentile_ms(0.5), 4.0);
        assert!(Measures::default().mean_ms().is_nan());
    }
}
