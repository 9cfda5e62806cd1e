//! Loss and partitions, by packet filter on the switch.
//!
//! All rules apply where packets leave the switch towards a node, so each receiver's copy of a
//! multicast packet is judged separately.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{NetlabError, NetworkLab, tool};

/// Shares are kept in parts of this many.
const PARTS: u32 = 1_000_000;

/// The faults in force.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Parts of [`PARTS`] that are dropped, by (receiver, sender).
    dropped: BTreeMap<(usize, usize), u32>,
    /// Parts of [`PARTS`] of all datagrams that are dropped, by receiver.
    datagrams: BTreeMap<usize, u32>,
    /// Whether nodes hand over one datagram at a time.
    is_single: bool,
    /// Whether the filter's table is installed.
    installed: bool,
}

impl NetworkLab {
    /// Drops this share of the packets that `from` sends and `to` would receive, unicast and
    /// multicast, each packet independently. Replaces an earlier share of the pair; 0 heals it.
    ///
    /// A packet here is a unit of the kernel: for a stream up to a burst of the shaper, so a TCP
    /// connection sees coarser loss than on a wire. ARP packets are never dropped.
    pub fn drop_share(&mut self, from: usize, to: usize, share: f64) -> Result<(), NetlabError> {
        self.check_node(from)?;
        self.check_node(to)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(NetlabError::Share(share));
        }
        self.set_share(from, to, share);
        self.apply_faults()
    }

    /// Drops all packets between two nodes, in both directions.
    pub fn partition(&mut self, a: usize, b: usize) -> Result<(), NetlabError> {
        self.check_node(a)?;
        self.check_node(b)?;
        self.set_share(a, b, 1.0);
        self.set_share(b, a, 1.0);
        self.apply_faults()
    }

    /// Drops this share of the UDP datagrams that arrive at `to` from any sender, unicast and
    /// multicast, each independently: what a full receive buffer does, but not in bursts. Streams
    /// pass. Replaces an earlier share of the node; 0 heals it.
    ///
    /// While a share is in force, nodes hand packets over one by one (`gso_max_segs 1`), so that a
    /// train of datagrams is not judged as one packet. That costs them processor time.
    pub fn drop_datagrams(&mut self, to: usize, share: f64) -> Result<(), NetlabError> {
        self.check_node(to)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(NetlabError::Share(share));
        }
        match parts(share) {
            0 => self.faults.datagrams.remove(&to),
            parts => self.faults.datagrams.insert(to, parts),
        };
        self.hand_over_singly(!self.faults.datagrams.is_empty())?;
        self.apply_faults()
    }

    /// Drops this share of the UDP datagrams at every node, as [`NetworkLab::drop_datagrams`] does
    /// at one.
    pub fn drop_datagrams_everywhere(&mut self, share: f64) -> Result<(), NetlabError> {
        (0..self.nodes()).try_for_each(|node| self.drop_datagrams(node, share))
    }

    /// Removes every fault.
    pub fn heal(&mut self) -> Result<(), NetlabError> {
        self.faults.dropped.clear();
        self.faults.datagrams.clear();
        self.hand_over_singly(false)?;
        self.apply_faults()
    }

    fn hand_over_singly(&mut self, is_single: bool) -> Result<(), NetlabError> {
        if self.faults.is_single == is_single {
            return Ok(());
        }
        let segments = if is_single { "1" } else { "65535" };
        for node in 0..self.nodes() {
            let namespace = self.namespace(node);
            let arguments =
                ["-n", &namespace, "link", "set", "dev", "e0", "gso_max_segs", segments];
            tool::run("ip", &arguments)?;
        }
        self.faults.is_single = is_single;
        Ok(())
    }

    fn set_share(&mut self, from: usize, to: usize, share: f64) {
        match parts(share) {
            0 => self.faults.dropped.remove(&(to, from)),
            parts => self.faults.dropped.insert((to, from), parts),
        };
    }

    /// Puts the faults in force, in one transaction.
    fn apply_faults(&mut self) -> Result<(), NetlabError> {
        let is_empty = self.faults.dropped.is_empty() && self.faults.datagrams.is_empty();
        if !self.faults.installed && is_empty {
            return Ok(());
        }
        tool::require(&["nft"])?;
        let mut script = String::new();
        if !self.faults.installed {
            script.push_str("add table netdev faults\n");
            for node in 0..self.nodes() {
                let _ = writeln!(
                    script,
                    "add chain netdev faults to{node} \
                     {{ type filter hook egress device p{node} priority 0; }}"
                );
            }
        }
        script.push_str("flush table netdev faults\n");
        for (&(to, from), &parts) in &self.faults.dropped {
            let (sender, share) = (self.address(from), by_chance(parts));
            let _ = writeln!(
                script,
                "add rule netdev faults to{to} ip saddr {sender} {share}counter drop"
            );
        }
        for (&to, &parts) in &self.faults.datagrams {
            let share = by_chance(parts);
            let _ = writeln!(
                script,
                "add rule netdev faults to{to} ip protocol udp {share}counter drop"
            );
        }
        let switch = self.switch();
        let nft = tool::path("nft");
        tool::run_with_input("ip", &["netns", "exec", &switch, &nft, "-f", "-"], &script)?;
        self.faults.installed = true;
        Ok(())
    }
}

fn parts(share: f64) -> u32 {
    (share * f64::from(PARTS)).round() as u32
}

/// The condition that a rule has beyond its addresses.
fn by_chance(parts: u32) -> String {
    match parts {
        PARTS => String::new(),
        _ => format!("numgen random mod {PARTS} < {parts} "),
    }
}
