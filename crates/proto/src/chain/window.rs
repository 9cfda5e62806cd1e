//! Limits the part of its window that an origin uses by the pipeline, so that origins get equal
//! shares.
//!
//! A member receives the blocks of a pipelined message from several members and forwards them to
//! several. Its downlink may be the bottleneck, for instance if it sends nothing itself. The
//! senders to it then share that link, and each of them serves its origins alike. So an origin
//! whose blocks arrive with few others gets more than one whose blocks arrive with many, and no
//! member sees the whole queue. With equal windows, throughput is inverse to round-trip time.
//!
//! But each member receives what each origin sends, so an origin can compare. If it gets more
//! through than the slowest other origin with a full window, it lowers its window in proportion. It
//! raises the window again once it gets less. Each link of the pipeline carries about the same
//! amount of each origin, so equal shares are max-min fair there. In the other topologies the
//! queues suffice.

use super::flow::Flow;

/// The whole window, in the unit of [`Window::part`].
const WHOLE: u32 = 1024;
/// The least part.
const PART_MIN: u32 = WHOLE / 4;
/// Windows that an origin sends from one comparison to the next: long messages come in bursts.
const WINDOWS_COMPARED: usize = 2;
/// The most by which the window grows at once, in the unit of [`Window::part`].
const GROWTH_MAX: u32 = WHOLE * 5 / 4;

/// The window of an origin by the pipeline.
#[derive(Debug)]
pub(super) struct Window {
    /// The part of the configured window that it uses.
    part: u32,
    // Bytes received by the last comparison, by rank.
    received: Vec<u64>,
}

impl Default for Window {
    fn default() -> Window {
        Window { part: WHOLE, received: Vec::new() }
    }
}

impl Window {
    /// Bytes that may be in flight, of `window_bytes` configured.
    pub(super) fn bytes(&self, window_bytes: usize, block_bytes_max: usize) -> usize {
        let part = window_bytes as u64 * u64::from(self.part) / u64::from(WHOLE);
        (part as usize).max(2 * block_bytes_max)
    }

    /// Compares what the origin of rank `own` got through with what the others did, once it is
    /// enough to tell.
    pub(super) fn compare(&mut self, own: u32, flows: &[Flow], window_bytes: usize) {
        let before = |received: &[u64], rank: u32| received.get(rank as usize).copied();
        let since = |flow: &Flow| {
            flow.received_bytes - before(&self.received, flow.rank).unwrap_or_default()
        };
        let Some(mine) = flows.iter().find(|flow| flow.rank == own).map(since) else { return };
        if mine < (WINDOWS_COMPARED * window_bytes) as u64 {
            return;
        }
        let is_full = |flow: &&Flow| flow.rank != own && flow.held_bytes >= window_bytes / 2;
        let least = flows.iter().filter(is_full).map(since).min();
        let ratio = least.map_or(GROWTH_MAX, |least| {
            let ratio = u128::from(least) * u128::from(WHOLE) / u128::from(mine);
            ratio.min(GROWTH_MAX.into()) as u32
        });
        self.part = (self.part * ratio / WHOLE).clamp(PART_MIN, WHOLE);
        for flow in flows {
            let rank = flow.rank as usize;
            if self.received.len() <= rank {
                self.received.resize(rank + 1, 0);
            }
            self.received[rank] = flow.received_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_BYTES: usize = 1000;

    /// Flows of ranks 0, 1, ... that received and hold these bytes.
    fn flows(flows: &[(u64, usize)]) -> Vec<Flow> {
        let with = |(rank, &(received_bytes, held_bytes))| {
            let mut flow = Flow::new(rank, 1);
            (flow.received_bytes, flow.held_bytes) = (received_bytes, held_bytes);
            flow
        };
        (0..).zip(flows).map(with).collect()
    }

    fn bytes(window: &Window) -> usize {
        window.bytes(WINDOW_BYTES, 10)
    }

    #[test]
    fn an_origin_ahead_of_a_full_one_lowers_its_window_and_raises_it_when_it_is_behind() {
        let mut window = Window::default();
        window.compare(0, &flows(&[(1999, 0), (1000, 1000)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 1000, "not enough was sent to tell");
        window.compare(0, &flows(&[(2000, 0), (1000, 1000)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 500);
        window.compare(0, &flows(&[(4000, 0), (3200, 1000)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 549, "since the last time it got 2000 and the other 2200");
        window.compare(0, &flows(&[(6000, 0), (3200, 1000)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 250, "never below a quarter");
        window.compare(0, &flows(&[(8000, 0), (9200, 1000)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 312, "at most a quarter more at once");
        assert_eq!(window.bytes(WINDOW_BYTES, 400), 800, "two blocks fit");
    }

    #[test]
    fn origins_that_send_little_lower_no_window() {
        let mut window = Window::default();
        window.compare(1, &flows(&[(10, 499), (2000, 0), (900, 499)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 1000);
        window.compare(1, &flows(&[(10, 499), (4000, 0), (2800, 500)]), WINDOW_BYTES);
        assert_eq!(bytes(&window), 949, "since the last time 1900 of 2000");
        (3..9).for_each(|n| window.compare(1, &flows(&[(10, 0), (n * 2000, 0)]), WINDOW_BYTES));
        assert_eq!(bytes(&window), 1000, "alone it gets its window back");
    }
}
