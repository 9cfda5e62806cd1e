//! What a packet costs a member of a multicast group, and what a member keeps: over growing groups,
//! and over growing numbers of groups that a member is in.

mod member;

use std::time::Duration;

use paceline_lab::machine::process_cpu;
use paceline_lab::{LabError, Progress};
use paceline_proto::core::{NodeId, Rng, View};
use paceline_proto::slingshot::{Config, Slingshot};
use serde::Serialize;

use self::member::{Member, Traffic};

/// One row: a member of `groups` groups of `members` members.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Members of each group.
    pub members: u32,
    /// Groups that the member is in.
    pub groups: usize,
    /// Distinct sets of these groups that other members share; the member fills one bin for each.
    pub regions: usize,
    /// Packets that came to it from their senders.
    pub packets: u64,
    /// Processor time for each of these, repairs received and sent included, nanoseconds.
    pub ns_per_packet: f64,
    /// Bytes of its state in the end, without the payloads.
    pub state_bytes: usize,
    /// Bytes of the payloads that it keeps for repairs that name them.
    pub payload_bytes: usize,
    /// Repairs that it sent for each packet.
    pub repairs_sent_per_packet: f64,
    /// Repairs that came for each packet.
    pub repairs_received_per_packet: f64,
    /// Of the packets that did not come from their senders, the share that repairs brought.
    pub recovered: f64,
}

/// How large it grows, and how thoroughly it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The most members, and the most groups. Default 1,024.
    pub most: u32,
    /// Packets of each row. Default 200,000.
    pub packets: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { most: 1_024, packets: 200_000 }
    }
}

/// Members of one group.
const MEMBERS: [u32; 4] = [16, 64, 256, 1_024];
/// Numbers of groups; each has `GROUP_MEMBERS` of the `NODES` nodes.
const GROUPS: [u32; 4] = [1, 16, 256, 1_024];
const GROUP_MEMBERS: u32 = 64;
const NODES: u32 = 1_024;
const SEED: u64 = 1;

/// Measures one group of more and more members, and then more and more groups.
pub fn run(settings: Settings, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let sizes = MEMBERS.iter().filter(|&&members| members <= settings.most);
    let counts = GROUPS.iter().filter(|&&groups| groups <= settings.most);
    let plans: Vec<(u32, u32, u32)> = sizes
        .map(|&members| (1, members, members))
        .chain(counts.map(|&groups| (groups, GROUP_MEMBERS, NODES)))
        .collect();
    progress.start(plans.len() as u64, "slingshot");
    let mut rows = Vec::with_capacity(plans.len());
    for &(groups, members, nodes) in &plans {
        if progress.stopped() {
            return Err(LabError::Stopped { finished: rows.len(), total: plans.len() });
        }
        rows.push(measure(groups, members, nodes, settings));
        progress.inc(1);
    }
    progress.finish();
    Ok(rows)
}

/// Measures a member of `groups` groups, each of `members` of the `nodes` nodes.
fn measure(groups: u32, members: u32, nodes: u32, settings: Settings) -> Row {
    let mut rng = Rng::new(SEED, 2);
    let traffic = Traffic {
        groups: (0..groups).map(|_| drawn(&mut rng, members, nodes)).collect(),
        nodes,
        packets: settings.packets,
        packets_per_second: 10_000,
        packet_bytes: 1_000,
        loss: 0.01,
    };
    let roster = View::roster((0..nodes).map(NodeId::from));
    let config = Config::new(roster).with_pull(None).with_groups([]).with_overlap(groups > 1);
    let config = config.build().expect("these settings are in range");
    let arrivals = traffic.arrivals(&config);
    let mut member = Member::new(config, &traffic.groups);
    let before = thread_cpu();
    member.handle(&arrivals);
    let took = thread_cpu().saturating_sub(before);

    let packets = arrivals.packets - arrivals.lost;
    let counted = |name: &str| member.outbox.counters.count(name) as f64;
    let per_packet = |name: &str| counted(name) / packets as f64;
    Row {
        members,
        groups: groups as usize,
        regions: member.node.regions().count(),
        packets,
        ns_per_packet: took.as_nanos() as f64 / packets as f64,
        state_bytes: size_of::<Slingshot>() + member.node.heap_bytes(),
        payload_bytes: member.node.packets_held().1,
        repairs_sent_per_packet: per_packet("slingshot_repairs"),
        repairs_received_per_packet: per_packet("slingshot_repairs_received"),
        recovered: counted("slingshot_recovered") / arrivals.lost as f64,
    }
}

/// Processor time of this thread; of the process, in hundredths of a second, where the system does
/// not say more.
fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    nanos.map_or_else(process_cpu, Duration::from_nanos)
}

/// Node 0 and some of the others, sorted.
fn drawn(rng: &mut Rng, members: u32, nodes: u32) -> Vec<u32> {
    let mut others: Vec<u32> = (1..nodes).collect();
    for place in 0..members as usize - 1 {
        let other = place + rng.below((others.len() - place) as u32) as usize;
        others.swap(place, other);
    }
    others.truncate(members as usize - 1);
    others.sort_unstable();
    std::iter::once(0).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    #[test]
    fn what_is_lost_comes_back_in_any_number_of_groups() {
        let settings = Settings { most: 1_024, packets: 20_000 };
        let rows = run(settings, &Quiet).expect("no one stops it");
        let sizes: Vec<(u32, usize)> = rows.iter().map(|row| (row.members, row.groups)).collect();
        let of_groups = [1, 16, 256, 1_024].map(|groups| (64, groups));
        let of_members = [16, 64, 256, 1_024].map(|members| (members, 1));
        assert_eq!(sizes, [of_members, of_groups].concat());
        for row in rows {
            // Of senders that were heard a few times only, more stays lost.
            assert!(row.recovered > 0.6 && row.recovered < 0.99, "{row:?}");
            assert!(row.ns_per_packet > 0.0 && row.state_bytes > 1_000, "{row:?}");
            assert_eq!(row.groups == 1, row.regions == 1, "{row:?}");
        }
    }
}
