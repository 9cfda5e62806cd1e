//! Traffic through the shapers of a port.

use std::time::Instant;

use serde::Deserialize;

use super::{NetlabError, NetworkLab, tool};

/// Traffic through a shaper since the lab was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Traffic {
    /// Bytes of Ethernet frames, with their headers, without preamble, gap and checksum; a train
    /// counts as the frames that it becomes.
    pub bytes: u64,
    /// Frames.
    pub packets: u64,
    /// Frames, or trains, dropped because the queue was full.
    #[serde(rename = "drops")]
    pub dropped: u64,
}

/// Traffic through a node's port at some time, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTraffic {
    /// To the node, and when it was looked at.
    pub received: (Instant, Traffic),
    /// From it, and when it was looked at.
    pub sent: (Instant, Traffic),
}

impl NetworkLab {
    /// Traffic through a node's port so far. Runs `tc` twice, which takes some milliseconds, and
    /// more on a busy machine: so each count has an instant of its own, the middle of its run.
    pub fn traffic(&self, node: usize) -> Result<PortTraffic, NetlabError> {
        self.check_node(node)?;
        Ok(PortTraffic {
            received: passed(&self.switch(), &format!("p{node}"))?,
            sent: passed(&self.namespace(node), "e0")?,
        })
    }
}

fn passed(namespace: &str, device: &str) -> Result<(Instant, Traffic), NetlabError> {
    let arguments = ["-n", namespace, "-s", "-j", "qdisc", "show", "dev", device, "root"];
    let begun = Instant::now();
    let said = tool::run("tc", &arguments)?;
    let at = begun + begun.elapsed() / 2;
    let traffic = read(&said).ok_or_else(|| NetlabError::Failed {
        command: format!("tc {}", arguments.join(" ")),
        reason: format!("it tells of no shaper: {}", said.trim()),
    })?;
    Ok((at, traffic))
}

/// Parses the output of `tc -s -j qdisc show`.
fn read(said: &str) -> Option<Traffic> {
    #[derive(Deserialize)]
    struct Discipline {
        kind: String,
        #[serde(flatten)]
        traffic: Traffic,
    }
    let disciplines: Vec<Discipline> = serde_json::from_str(said).ok()?;
    let shaper = disciplines.into_iter().find(|discipline| discipline.kind == "tbf")?;
    Some(shaper.traffic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_prints_is_read_and_anything_else_is_not() {
        let said = r#"[{"kind":"tbf","handle":"8001:","root":true,"options":{"rate":1875000,
            "burst":7500,"lat":42000},"bytes":98304,"packets":72,"drops":3,"overlimits":9,
            "requeues":0,"backlog":0,"qlen":0}]"#;
        assert_eq!(read(said), Some(Traffic { bytes: 98_304, packets: 72, dropped: 3 }));
        for other in ["", "[]", r#"[{"kind":"noqueue","bytes":0,"packets":0,"drops":0}]"#] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
