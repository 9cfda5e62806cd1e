//! The tables `[workload]` and `[measure]` of a scenario of time-critical multicast.

use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Scenario, Table};
use paceline_net::DATAGRAM_HEAD_BYTES;
use paceline_proto::core::Loss;
use paceline_proto::slingshot::{Order, Rate, tuner};

use super::overlap::Overlap;
use super::plan::{Plan, Spacing};
use super::search::Search;
use super::setup::Setup;

/// What a scenario does and measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The protocol, and what its members agree on.
    pub setup: Setup,
    /// In which order packets are delivered.
    pub order: Order,
    /// The plan of packets.
    pub plan: Plan,
    /// Whether messages pass through their encoding in the simulator.
    pub check_wire: bool,
    /// The group, as the closed forms know it.
    pub conditions: tuner::Conditions,
    /// Whether losses come in bursts, which the closed forms do not know.
    pub is_bursty: bool,
    /// The throughput that is searched for; none if the scenario runs once, at its own rate.
    pub search: Option<Search>,
}

/// Packets at receivers, at most: each takes a byte of the ledger.
const PAIRS_MAX: f64 = 4e9;
/// Bytes of the shortest packet: it carries who sent it, its number, and when.
const SIZE_MIN: u64 = 20;
impl Settings {
    /// Reads a scenario of a kind that multicasts in time.
    pub fn read(scenario: &Scenario) -> Result<Settings, LabError> {
        let nodes = scenario.topology.nodes;
        let mut protocol = scenario.protocol();
        if !(2..=1 << 16).contains(&nodes) {
            let problem = format!("{nodes} nodes");
            return Err(protocol.error("kind", problem, "[topology] nodes from 2 to 65536"));
        }
        let mut workload = scenario.workload();
        let overlap = read_overlap(&mut workload, scenario)?;
        let (setup, order) = Setup::read(scenario.service, &mut protocol, nodes, overlap.as_ref())?;
        let check_wire = protocol.boolean_or("check_wire", false)?;
        protocol.finish()?;
        if overlap.is_some() && order == Order::Fifo {
            let problem = "packets of several groups have no order among each other";
            return Err(workload.error("groups", problem, "order = \"unordered\" with groups"));
        }
        let senders = workload.integer_or("senders", 1..=nodes, nodes)?;
        let packets_per_second = workload.frequency_or("rate", 1000.0)?;
        if !(1e-3..=1e6).contains(&packets_per_second) {
            let problem = format!("`rate` is out of range: {packets_per_second}/s");
            return Err(workload.error("rate", problem, "0.001/s to 1000000/s, of all senders"));
        }
        let packet_bytes = read_size(&mut workload, scenario, &setup)?;
        let start = workload.duration_or("start", Duration::ZERO)?;
        let seed = scenario.seed;
        let spacings = [
            ("even", Spacing::Even),
            ("phases", Spacing::Phases { seed }),
            ("drawn", Spacing::Drawn { seed }),
        ];
        let spacing = workload.choice_or("spacing", &spacings, "even")?;
        workload.finish()?;
        let mut measure = scenario.measure();
        let warmup = measure.duration_or("warmup", Duration::from_secs(1))?;
        let drain = measure.duration_or("drain", Duration::from_secs(1))?;
        let sends_for = scenario.duration.saturating_sub(start + drain).as_secs_f64();
        let packets = (sends_for * packets_per_second) as u64;
        if packets as f64 * f64::from(nodes) > PAIRS_MAX {
            let problem =
                format!("{packets} packets at {nodes} nodes exceed the memory for their records");
            return Err(measure.error("drain", problem, "a shorter `duration` or a lower `rate`"));
        }
        // Those of one turn come in any order.
        let has_phases = matches!(spacing, Spacing::Phases { .. });
        let turn = if has_phases { u64::from(senders) } else { 0 };
        let datagrams = setup.datagrams(packet_bytes, scenario.topology.datagram_bytes_max);
        let tail = setup.tail(senders).div_ceil(datagrams) + turn;
        // By then each sender was heard, nearly everywhere: before, what is computed of its packets
        // cannot be verified.
        let groups = overlap.as_ref().map_or(1.0, Overlap::groups_per_node);
        let heard = (2.0 * f64::from(senders) * groups) as u64;
        let first = ((warmup.as_secs_f64() * packets_per_second) as u64).max(heard);
        let judged = first..packets.saturating_sub(tail);
        if judged.is_empty() {
            let problem = format!(
                "no packets to measure: of {packets} packets the first {first} and the last {tail} \
                 do not count"
            );
            return Err(measure.error("warmup", problem, "a longer `duration` or a higher `rate`"));
        }
        let search = Search::read(&mut measure, scenario, senders, packet_bytes)?;
        measure.finish()?;
        let deadline = (datagrams > 1).then(|| setup.deadline());
        let plan = Plan {
            packet_bytes,
            start,
            judged,
            datagrams,
            in_time: search.as_ref().map(|search| search.within).or(deadline),
            ..Plan::new(nodes, senders, packets_per_second, packets, spacing)
        };
        let plan = match overlap {
            Some(overlap) => plan.with_overlap(overlap),
            None => plan,
        };
        let topology = &scenario.topology;
        let passed_link = 1.0 - topology.link.loss.mean();
        let conditions = tuner::Conditions {
            latency: topology.link.delay + topology.link.jitter / 2,
            packet_bytes: packet_bytes as f64 / datagrams as f64,
            id_bytes: 10.0,
            ..tuner::Conditions::new(
                nodes,
                1.0 - passed_link * (1.0 - topology.receive_loss.mean()),
                packets_per_second * datagrams as f64,
            )
        };
        let is_burst = |loss| matches!(loss, Loss::GilbertElliott { .. });
        let is_bursty = is_burst(topology.receive_loss) || is_burst(topology.link.loss);
        Ok(Settings { setup, order, plan, check_wire, conditions, is_bursty, search })
    }

    /// The settings for nodes on sockets, whose datagrams begin with a head of the node's.
    pub(super) fn on_sockets(mut self, scenario: &Scenario) -> Settings {
        let datagram = scenario.topology.datagram_bytes_max.saturating_sub(DATAGRAM_HEAD_BYTES);
        self.plan.datagrams = self.setup.datagrams(self.plan.packet_bytes, datagram);
        self
    }

    /// True if the packets of one sender must come in the order in which it sent them.
    pub fn is_ordered(&self) -> bool {
        self.order == Order::Fifo
    }

    /// What the closed forms predict. None where they do not apply: without repairs by receivers,
    /// where losses come in bursts, with several groups, where messages take several packets, and
    /// where bins are mostly sent before they are full.
    pub fn predicted(&self) -> Option<tuner::Prediction> {
        let is_one_group = self.plan.overlap().is_none();
        let applies = !self.is_bursty && is_one_group && self.plan.datagrams == 1;
        let config = self.setup.repairs().filter(|_| applies)?;
        let Rate { r, c } = config.rate();
        let bins = config.code().bins();
        let filled_after = (r * bins) as f64 / self.conditions.packets_per_second;
        if config.flush_after().is_some_and(|after| after.as_secs_f64() < filled_after) {
            return None;
        }
        let setting = tuner::Setting { r: r as u8, c: c as u8, code: config.code().for_tuner() };
        // Each of several bins sees its share of the packets.
        let packets_per_second = self.conditions.packets_per_second / bins as f64;
        let conditions = tuner::Conditions { packets_per_second, ..self.conditions };
        Some(tuner::predict(setting, &conditions))
    }
}

/// Several groups, of which each packet goes to one; none if there is one group of all.
fn read_overlap(table: &mut Table<'_>, scenario: &Scenario) -> Result<Option<Overlap>, LabError> {
    let nodes = scenario.topology.nodes;
    let groups = table.integer_or("groups", 1..=1024u32, 1)?;
    let group_size = table.integer_or("group_size", 2..=nodes, nodes)?;
    Ok((groups > 1).then(|| Overlap::drawn(nodes, groups, group_size, scenario.seed)))
}

fn read_size(table: &mut Table<'_>, scenario: &Scenario, setup: &Setup) -> Result<usize, LabError> {
    let bytes = table.size_or("size", 1024u64)?;
    let datagram = scenario.topology.datagram_bytes_max;
    let bytes_max = setup.message_bytes_max(datagram) as u64;
    if (SIZE_MIN..=bytes_max).contains(&bytes) {
        return Ok(bytes as usize);
    }
    let problem = format!("`size` is out of range: {bytes} bytes");
    let accepted = match bytes_max >= SIZE_MIN {
        true if setup.takes_messages() => format!(
            "\"{SIZE_MIN}B\" to \"{bytes_max}B\": the least of message_bytes_max, what is sent \
             within the deadline at message_bytes_per_second, half of window_packets in datagrams \
             of {datagram} bytes ([topology] datagram), and a quarter of bytes_max"
        ),
        true => format!(
            "\"{SIZE_MIN}B\" to \"{bytes_max}B\": a packet, and a repair with its packet numbers \
             where there are such, must fit a datagram of {datagram} bytes ([topology] datagram)"
        ),
        false => format!("a [topology] datagram above {datagram} bytes: no packet fits this one"),
    };
    Err(table.error("size", problem, &accepted))
}

#[cfg(test)]
mod tests {
    use super::super::KINDS;
    use super::*;
    use crate::catalog::CATALOG;

    const SMALL: &str = "[topology]\nnodes = 3\n[protocol]\nkind = \"slingshot\"";

    fn read(sets: &[&str]) -> Result<Settings, LabError> {
        let file = CATALOG.parse("t.toml", SMALL).unwrap();
        Settings::read(&file.with_sets(sets)?.resolve().unwrap())
    }

    #[test]
    fn every_key_can_be_set_without_its_table_and_is_read() {
        for (kind, tables) in KINDS.iter().map(|kind| (kind, crate::catalog::CATALOG.keys(kind))) {
            let kind = format!("protocol.kind={kind}");
            for (table, key) in tables.all() {
                // No key accepts a value of this type, so the code that reads the key reports an
                // error.
                let path = format!("{table}.{key}=1979-05-27");
                let code = if key == "window" { "protocol.code=rlc" } else { "seed=1" };
                let error = read(&[&kind, &path, code]).unwrap_err().to_string();
                assert!(error.contains(&format!("`{key}`")), "{path}: {error}");
                assert!(!error.contains("unknown key"), "{kind}: {path}: {error}");
            }
        }
    }

    #[test]
    fn what_cannot_work_is_said_with_key_and_remedy() {
        for (sets, said) in [
            (&["protocol.r=33"][..], "`r` is out of range: 33"),
            (&["protocol.c=0"], "`c` is out of range: 0"),
            (&["protocol.window=16"], "`window` with code = \"rlc\" only"),
            (&["protocol.code=rlc", "protocol.window=4"], "window is 4, expected at least 2"),
            (&["protocol.code=rlc", "protocol.stagger=4"], "`stagger` with code = \"xor\" only"),
            (&["protocol.lost_after=10ms"], "lost_after is 10"),
            (&["workload.senders=4"], "accepted: a whole number from 1 to 3"),
            (&["workload.rate=0/s"], "0.001/s to 1000000/s"),
            (&["workload.size=2MiB"], "\"20B\" to \"1048576B\""),
            (&["workload.size=1MiB", "deadline=50ms"], "what is sent within the deadline"),
            (&["protocol.kind=ack", "workload.size=1200B"], "\"20B\" to \"1175B\""),
            (&["duration=1s"], "no packets to measure"),
            (&["protocol.kind=srm", "protocol.r=8"], "unknown key `r`"),
            (&["protocol.kind=srm", "protocol.distance=0s"], "distance"),
            (
                &["protocol.kind=srm", "protocol.timers=adaptive", "protocol.c1=1"],
                "timers = \"fixed\" only",
            ),
            (&["protocol.kind=ack", "protocol.retry_after=0s"], "retry_after"),
            (&["protocol.kind=gossip", "protocol.fanout=0"], "`fanout` is out of range"),
            (&["protocol.kind=gossip", "protocol.lost_after=1s"], "unknown key `lost_after`"),
            (
                &["protocol.kind=sender-fec", "protocol.window=4"],
                "window is 4, expected at least 2",
            ),
            (&["protocol.kind=sender-fec", "protocol.code=xor"], "unknown key `code`"),
            (&["protocol.kind=nak", "protocol.digest_names=8"], "unknown key `digest_names`"),
            (&["protocol.kind=nak", "protocol.retry_after=0s"], "retry_after"),
            (
                &["protocol.kind=digest-pull", "protocol.digest_names=65"],
                "`digest_names` is out of range",
            ),
            (&["protocol.ask=holders"], "`ask` is called `pull_from` now"),
            (&["partial=scaled"], "`partial` is called `partial_copies` now"),
            (&["topology.nodes=1"], "nodes from 2 to 65536"),
        ] {
            let error = read(sets).unwrap_err().to_string();
            assert!(error.contains(said), "{sets:?}: {error}");
            assert_eq!(read(sets).unwrap_err().exit_status(), 2);
        }
    }

    #[test]
    fn losses_at_receivers_may_come_in_bursts_of_a_mean_length() {
        let loss = |sets: &[&str]| {
            let file = CATALOG.parse("t.toml", SMALL).unwrap().with_sets(sets).unwrap();
            file.resolve().map(|scenario| scenario.topology.receive_loss)
        };
        let bursts = loss(&["receive_loss=1%", "receive_burst=5"]).unwrap();
        assert!((bursts.mean() - 0.01).abs() < 1e-12, "{bursts:?}");
        let error = loss(&["receive_burst=5"]).unwrap_err().to_string();
        assert!(error.contains("receive_loss"), "{error}");
        let error = loss(&["receive_loss=90%", "receive_burst=2"]).unwrap_err().to_string();
        assert!(error.contains("longer bursts or less loss"), "{error}");
    }
}
