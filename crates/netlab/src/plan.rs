use std::collections::BTreeMap;

use super::NetlabError;

/// The most nodes a lab may have: addresses end at 10.77.0.200.
pub const NODES_MAX: usize = 200;

const RATE_BITS_PER_SECOND_MIN: u64 = 100_000;
const RATE_BITS_PER_SECOND_MAX: u64 = 100_000_000_000;

/// TCP payload of a full frame with the timestamp option, and the frame as tbf counts it: with
/// its Ethernet header, without preamble, gap and checksum.
const SEGMENT_PAYLOAD_BYTES: f64 = 1448.0;
const SEGMENT_FRAME_BYTES: f64 = 1514.0;

/// The smallest burst of [`Port::of_rate`]: three full frames.
const PORT_BURST_BYTES_MIN: u64 = 3 * 1514;
/// The smallest queue of [`Port::of_rate`].
const PORT_QUEUE_BYTES_MIN: u64 = 64 << 10;

/// Shaping of a node's port, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its rate, bits per second, 100 kbit to 100 Gbit.
    pub rate_bits_per_second: u64,
    /// Bytes it may send at once.
    pub burst_bytes: u64,
    /// Bytes it may hold before it drops, the burst included.
    pub queue_bytes_max: u64,
}

impl Port {
    /// A port like a slow link: its burst is what the rate carries in 4 ms, at least three full
    /// frames (4,542 bytes), and its queue what it carries in 50 ms, at least 64 KiB.
    ///
    /// The lab's default burst of 80 kB, which suits streams, is 70 ms of a link of 9 Mbit: a
    /// sender that paces itself by milliseconds would not notice the link at all. The shaper cuts
    /// trains of datagrams that are longer than the burst into frames.
    pub fn of_rate(rate_bits_per_second: u64) -> Port {
        let bytes_in = |milliseconds: u64| rate_bits_per_second / 8_000 * milliseconds;
        Port {
            rate_bits_per_second,
            burst_bytes: bytes_in(4).max(PORT_BURST_BYTES_MIN),
            queue_bytes_max: bytes_in(50).max(PORT_QUEUE_BYTES_MIN),
        }
    }
}

/// What to build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of nodes, 2 to [`NODES_MAX`].
    pub nodes: usize,
    /// Rate of every port in both directions, bits per second, 100 kbit to 100 Gbit.
    pub rate_bits_per_second: u64,
    /// Bytes a port may send at once. Default: what the rate carries in 1 ms, at least 80 kB.
    ///
    /// The floor is a segment-offloaded packet of 64 KiB with the headers of its frames, 68.6 kB.
    /// Under it the shaper cuts such packets into frames and lets them out one at a time: at
    /// 100 Mbit a receiver of iperf3 then wakes up for each and spends 10 s of CPU a GB instead
    /// of 1, for a round trip under load of 3 ms instead of 4.5. At 1 Gbit, 64 KiB loses packets
    /// and 0.4 % of the rate to the granularity of timers.
    ///
    /// The first burst is free: measure over seconds, or 80 kB show as rate.
    pub burst_bytes: u64,
    /// Bytes a port may hold before it drops, the burst included. Default: what the rate carries
    /// in 8 ms, at least 512 KiB.
    ///
    /// Two TCP senders into one port then lose tens of packets a second at 100 Mbit and none at
    /// 1 Gbit; with half of it, hundreds. A full queue delays by 42 ms at 100 Mbit.
    pub queue_bytes_max: u64,
    // Ports with other shaping, by node.
    ports: BTreeMap<usize, Port>,
}

impl Plan {
    /// A plan with the default shaping for this rate.
    pub fn new(nodes: usize, rate_bits_per_second: u64) -> Plan {
        let bytes_per_millisecond = rate_bits_per_second / 8_000;
        Plan {
            nodes,
            rate_bits_per_second,
            burst_bytes: bytes_per_millisecond.max(80_000),
            queue_bytes_max: (8 * bytes_per_millisecond).max(512 << 10),
            ports: BTreeMap::new(),
        }
    }

    /// The same plan with a port of another rate at this node, in both directions, with the burst
    /// and the queue of [`Port::of_rate`].
    ///
    /// The lab is a star, so a link between two nodes is the narrower one of their ports. A tree
    /// whose inner nodes have wide ports has each of its links at a leaf.
    pub fn with_rate(mut self, node: usize, rate_bits_per_second: u64) -> Plan {
        self.ports.insert(node, Port::of_rate(rate_bits_per_second));
        self
    }

    /// The shaping of a node's port.
    pub fn port(&self, node: usize) -> Port {
        let Plan { rate_bits_per_second, burst_bytes, queue_bytes_max, .. } = *self;
        let common = Port { rate_bits_per_second, burst_bytes, queue_bytes_max };
        self.ports.get(&node).copied().unwrap_or(common)
    }

    /// The same plan with this burst.
    pub fn with_burst_bytes(mut self, burst_bytes: u64) -> Plan {
        self.burst_bytes = burst_bytes;
        self
    }

    /// The same plan with this queue.
    pub fn with_queue_bytes_max(mut self, queue_bytes_max: u64) -> Plan {
        self.queue_bytes_max = queue_bytes_max;
        self
    }

    /// TCP payload that one direction of a port carries, bytes per second: the rate times
    /// 1448/1514, which is the payload of a full frame over the frame as the shaper counts it.
    ///
    /// 11.96 MB/s at 100 Mbit and 119.55 at 1 Gbit; iperf3 on the lab measures 11.96 and 119.5.
    pub fn payload_bytes_per_second(&self) -> f64 {
        self.rate_bits_per_second as f64 / 8.0 * SEGMENT_PAYLOAD_BYTES / SEGMENT_FRAME_BYTES
    }

    /// [`Plan::payload_bytes_per_second`] in MB/s (10^6 bytes).
    pub fn limit_mb(&self) -> f64 {
        self.payload_bytes_per_second() / 1e6
    }

    pub(super) fn check(&self) -> Result<(), NetlabError> {
        let refuse = |field, value, range| Err(NetlabError::Plan { field, value, range });
        if !(2..=NODES_MAX).contains(&self.nodes) {
            return refuse("nodes", self.nodes as u64, "2 to 200");
        }
        if let Some(&node) = self.ports.keys().find(|&&node| node >= self.nodes) {
            return Err(NetlabError::NoSuchNode { node, last: self.nodes - 1 });
        }
        (0..self.nodes).try_for_each(|node| self.port(node).check())
    }
}

impl Port {
    fn check(&self) -> Result<(), NetlabError> {
        let refuse = |field, value, range| Err(NetlabError::Plan { field, value, range });
        let rate = self.rate_bits_per_second;
        if !(RATE_BITS_PER_SECOND_MIN..=RATE_BITS_PER_SECOND_MAX).contains(&rate) {
            return refuse("rate_bits_per_second", rate, "100 kbit to 100 Gbit");
        }
        if !(2048..=1 << 30).contains(&self.burst_bytes) {
            return refuse("burst_bytes", self.burst_bytes, "2 KiB to 1 GiB");
        }
        if !(self.burst_bytes..=1 << 30).contains(&self.queue_bytes_max) {
            return refuse("queue_bytes_max", self.queue_bytes_max, "the burst to 1 GiB");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_payload_share_of_the_rate() {
        assert!((Plan::new(4, 100_000_000).limit_mb() - 11.955).abs() < 0.001);
        assert!((Plan::new(4, 1_000_000_000).limit_mb() - 119.55).abs() < 0.01);
    }

    #[test]
    fn defaults_scale_with_the_rate_and_have_a_floor() {
        let slow = Plan::new(2, 100_000_000);
        assert_eq!((slow.burst_bytes, slow.queue_bytes_max), (80_000, 512 << 10));
        let fast = Plan::new(2, 1_000_000_000);
        assert_eq!((fast.burst_bytes, fast.queue_bytes_max), (125_000, 1_000_000));
        assert!(slow.check().is_ok() && fast.check().is_ok());
    }

    #[test]
    fn a_plan_out_of_range_names_its_field() {
        let message = |plan: Plan| plan.check().unwrap_err().to_string();
        assert_eq!(message(Plan::new(1, 1_000_000)), "nodes is 1, and may be 2 to 200");
        assert!(message(Plan::new(2, 1)).starts_with("rate_bits_per_second is 1"));
        let tight = Plan::new(2, 1_000_000).with_queue_bytes_max(4096);
        assert!(message(tight).starts_with("queue_bytes_max is 4096"));
        let slow = Plan::new(3, 1_000_000).with_rate(1, 99_999);
        assert!(message(slow).starts_with("rate_bits_per_second is 99999"));
        let unknown_node = Plan::new(3, 1_000_000).with_rate(3, 1_000_000);
        assert_eq!(message(unknown_node), "there is no node 3: the lab has nodes 0 to 2");
    }

    #[test]
    fn a_node_may_have_a_port_of_its_own_whose_burst_is_of_milliseconds() {
        let plan = Plan::new(3, 1_000_000_000).with_rate(1, 15_000_000).with_rate(2, 9_000_000);
        assert!(plan.check().is_ok());
        let rates = [0, 1, 2].map(|node| plan.port(node).rate_bits_per_second);
        assert_eq!(rates, [1_000_000_000, 15_000_000, 9_000_000]);
        let port = plan.port(1);
        assert_eq!((port.burst_bytes, port.queue_bytes_max), (7_500, 93_750));
        let port = plan.port(2);
        assert_eq!((port.burst_bytes, port.queue_bytes_max), (4_542, 64 << 10));
    }
}
