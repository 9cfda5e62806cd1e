use std::collections::BTreeMap;

use paceline_lab::LabError;
use paceline_proto::core::NodeId;
use serde::Deserialize;

use super::Durations;

/// What the driver of a member prints, a line each.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "report", rename_all = "snake_case")]
pub(super) enum Report {
    /// It is a member.
    Joined,
    /// Messages reach all members.
    Ready {
        /// Of the peer.
        version: String,
        /// Of Java.
        java: String,
    },
    /// The measured time is over.
    Finished(Finished),
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Finished {
    cpu_seconds: f64,
    sent: u64,
    origins: Vec<Origin>,
    latency_us: Vec<(u64, u64)>,
    send_us: Vec<(u64, u64)>,
}

/// What it delivered of one origin.
#[derive(Debug, PartialEq, Deserialize)]
struct Origin {
    origin: u64,
    messages: u64,
    bytes: u64,
    /// Messages that were not the next ones of their thread.
    misplaced: u64,
}

/// What one member measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemberPart {
    /// Messages that it sent within the measured time.
    pub(crate) sent: u64,
    /// Messages and bytes delivered that count, by origin.
    pub(crate) delivered: BTreeMap<NodeId, (u64, u64)>,
    /// From the call that sent a message to its delivery here, own messages left out.
    pub(crate) latency: Durations,
    /// What the calls that sent a message took.
    pub(crate) send: Durations,
    /// Processor time within the measured time, user and system.
    pub(crate) cpu_seconds: f64,
}

impl Finished {
    /// What the member of this peer measured.
    pub(super) fn part(self, name: &str) -> Result<MemberPart, LabError> {
        let misplaced: u64 = self.origins.iter().map(|origin| origin.misplaced).sum();
        if misplaced > 0 {
            let problem = format!("{name} delivered {misplaced} messages out of order");
            return Err(LabError::Run(problem));
        }
        let delivered = |of: &Origin| (NodeId(of.origin), (of.messages, of.bytes));
        let delivered: BTreeMap<_, _> = self.origins.iter().map(delivered).collect();
        Ok(MemberPart {
            sent: self.sent,
            delivered,
            latency: self.latency_us.into_iter().collect(),
            send: self.send_us.into_iter().collect(),
            cpu_seconds: self.cpu_seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Report {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    #[test]
    fn lines_of_the_driver_are_understood() {
        assert_eq!(read(r#"{"report":"joined"}"#), Report::Joined);
        let ready = r#"{"report":"ready","version":"5.5.6.Final","java":"17.0.15"}"#;
        let (version, java) = ("5.5.6.Final".to_owned(), "17.0.15".to_owned());
        assert_eq!(read(ready), Report::Ready { version, java });
        let finished = r#"{"report":"finished","cpu_seconds":1.250000,"sent":0,
            "origins":[{"origin":0,"messages":3,"bytes":600,"misplaced":0},
            {"origin":1,"messages":0,"bytes":0,"misplaced":0}],
            "latency_us":[[12,2],[2048,1]],"send_us":[]}"#;
        let Report::Finished(finished) = read(finished) else { panic!("it has finished") };
        let part = finished.part("JGroups").expect("all came in order");
        assert_eq!(part.delivered[&NodeId(0)], (3, 600));
        assert_eq!(part.latency, [(12, 2), (2_048, 1)].into_iter().collect());
        assert_eq!((part.sent, part.send.count(), part.cpu_seconds), (0, 0, 1.25));
        assert!(serde_json::from_str::<Report>(r#"{"report":"left"}"#).is_err());
    }

    #[test]
    fn messages_out_of_order_fail_the_run() {
        let origin = Origin { origin: 1, messages: 9, bytes: 9, misplaced: 2 };
        let (latency_us, send_us) = (Vec::new(), Vec::new());
        let (cpu_seconds, sent, origins) = (0.0, 9, vec![origin]);
        let finished = Finished { cpu_seconds, sent, origins, latency_us, send_us };
        let error = finished.part("JGroups").unwrap_err();
        assert_eq!((error.exit_status(), error.to_string().contains("2 messages")), (1, true));
    }
}
