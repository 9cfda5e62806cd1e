//! Loss and partitions, by packet filter on the switch.

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
    /// Whether the filter's table stands.
    installed: bool,
}

impl NetworkLab {
    /// Drops this share of the packets that `from` sends and `to` would receive, unicast and
    /// multicast, each packet independently. Replaces an earlier share of the pair; 0 heals it.
    ///
    /// A packet here is what the kernel moves at once: for a stream up to a burst of the shaper,
    /// so the loss a TCP connection sees is coarser than the loss of a wire. Address resolution
    /// is never dropped.
    pub fn drop_share(&mut self, from: usize, to: usize, share: f64) -> Result<(), NetlabError> {
        self.check_node(from)?;
        self.check_node(to)?;
        if !(0.0..=1.0).contains(&share) {
            return Err(NetlabError::Share(share));
        }
        self.set_share(from, to, share);
        self.apply_faults()
    }

    /// Drops everything between two nodes, both ways.
    pub fn partition(&mut self, a: usize, b: usize) -> Result<(), NetlabError> {
        self.check_node(a)?;
        self.check_node(b)?;
        self.set_share(a, b, 1.0);
        self.set_share(b, a, 1.0);
        self.apply_faults()
    }

    /// Removes every fault.
    pub fn heal(&mut self) -> Result<(), NetlabError> {
        self.faults.dropped.clear();
        self.apply_faults()
    }

    fn set_share(&mut self, from: usize, to: usize, share: f64) {
        match (share * f64::from(PARTS)).round() as u32 {
            0 => self.faults.dropped.remove(&(to, from)),
            parts => self.faults.dropped.insert((to, from), parts),
        };
    }

    /// Puts the faults in force, in one transaction.
    fn apply_faults(&mut self) -> Result<(), NetlabError> {
        if !self.faults.installed && self.faults.dropped.is_empty() {
            return Ok(());
        }
        tool::require(&["nft"])?;
        let mut script = String::new();
        if !self.faults.installed {
            script.push_str("add table netdev faults\n");
            for node in 0..self.nodes() {
                // The chain stands where packets leave the switch towards the node, so copies of
                // one multicast packet are judged receiver by receiver.
                let _ = writeln!(
                    script,
                    "add chain netdev faults to{node} \
                     {{ type filter hook egress device p{node} priority 0; }}"
                );
            }
        }
        script.push_str("flush table netdev faults\n");
        for (&(to, from), &parts) in &self.faults.dropped {
            let sender = self.address(from);
            let share = match parts {
                PARTS => String::new(),
                _ => format!("numgen random mod {PARTS} < {parts} "),
            };
            let _ = writeln!(
                script,
                "add rule netdev faults to{to} ip saddr {sender} {share}counter drop"
            );
        }
        let switch = self.switch();
        let nft = tool::path("nft");
        tool::run_with_input("ip", &["netns", "exec", &switch, &nft, "-f", "-"], &script)?;
        self.faults.installed = true;
        Ok(())
    }
}
