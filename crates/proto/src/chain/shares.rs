//! The rate of each of several senders where all links are alike and every hop serves origins
//! alike: the max-min fair shares over the members' uplinks and downlinks.

use super::{Schedule, Topology};

/// Blocks that stand for an object whose message has more: the pipeline's share depends on their
/// number only by a part in this many.
const BLOCKS_MAX: usize = 1024;

/// How often each member's uplink carries a block of `origin`, by rank, on average over a message
/// of `message_blocks` blocks.
fn uplink_loads(
    topology: Topology,
    members: usize,
    origin: usize,
    message_blocks: usize,
) -> Vec<f64> {
    let mut loads = vec![0.0; members];
    for position in 0..members {
        loads[(origin + position) % members] = match topology {
            Topology::Pipeline => {
                let blocks = message_blocks.clamp(1, BLOCKS_MAX);
                let schedule = Schedule::new(members, position, blocks);
                let sends = schedule.steps().iter().filter(|step| step.send.is_some());
                sends.count() as f64 / blocks as f64
            }
            _ => topology.children(position, members).count() as f64,
        };
    }
    loads
}

/// The rate of blocks of each of `senders` (ranks), as a share of what one link carries, when all
/// of them saturate: raised together until a link is full, which stops those that use it, and so
/// on (Bertsekas & Gallager, *Data Networks*, 6.5.2). Messages have `message_blocks` blocks each.
/// One sender alone by the pipeline gets less: its schedule has log2 N - 1 steps more than blocks.
pub fn fair_shares(
    topology: Topology,
    members: usize,
    senders: &[usize],
    message_blocks: usize,
) -> Vec<f64> {
    if members < 2 {
        return vec![f64::INFINITY; senders.len()];
    }
    // By sender: its load on each uplink, then on each downlink.
    let loads: Vec<Vec<f64>> = senders
        .iter()
        .map(|&sender| {
            let mut loads = uplink_loads(topology, members, sender, message_blocks);
            loads.extend((0..members).map(|rank| if rank == sender { 0.0 } else { 1.0 }));
            loads
        })
        .collect();
    let mut left = vec![1.0; 2 * members];
    let mut shares = vec![0.0; senders.len()];
    let mut open: Vec<usize> = (0..senders.len()).collect();
    while !open.is_empty() {
        let load = |link: usize| open.iter().map(|&sender| loads[sender][link]).sum::<f64>();
        let used = (0..left.len()).map(|link| (link, load(link))).filter(|&(_, load)| load > 0.0);
        let used: Vec<(usize, f64)> = used.collect();
        let step = used.iter().map(|&(link, load)| left[link] / load).fold(f64::MAX, f64::min);
        open.iter().for_each(|&sender| shares[sender] += step);
        used.iter().for_each(|&(link, load)| left[link] -= load * step);
        let is_stopped = |sender: usize| {
            used.iter().any(|&(link, _)| left[link] < 1e-9 && loads[sender][link] > 0.0)
        };
        open.retain(|&sender| !is_stopped(sender));
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(topology: Topology, members: usize, senders: &[usize]) -> f64 {
        fair_shares(topology, members, senders, 1).iter().sum()
    }

    #[test]
    fn shares_are_those_of_the_closed_forms() {
        for members in 2..20 {
            let n = members as f64;
            let all: Vec<usize> = (0..members).collect();
            for topology in Topology::ALL {
                let limit = sum(topology, members, &all);
                assert!((limit - n / (n - 1.0)).abs() < 1e-6, "{topology}, {members}: {limit}");
            }
            assert!((sum(Topology::Unicast, members, &[0]) - 1.0 / (n - 1.0)).abs() < 1e-9);
            assert!((sum(Topology::Chain, members, &[0]) - 1.0).abs() < 1e-9);
            let log_ceil = f64::from(members.next_power_of_two().ilog2());
            assert!((sum(Topology::Tree, members, &[1]) - 1.0 / log_ceil).abs() < 1e-9);
        }
    }

    #[test]
    fn by_the_chain_senders_share_the_fullest_hop_equally() {
        for senders in [&[0, 1][..], &[0, 2], &[1, 3, 4], &[0, 1, 2, 3, 4, 5, 6]] {
            let shares = fair_shares(Topology::Chain, 8, senders, 1);
            let each = 1.0 / senders.len() as f64;
            assert!(
                shares.iter().all(|share| (share - each).abs() < 1e-9),
                "{senders:?} {shares:?}"
            );
        }
    }
}
