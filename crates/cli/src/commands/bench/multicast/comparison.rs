use paceline_lab::figure::number;
use paceline_lab_bench::multicast::{
    FlowControl, MulticastComparison, MulticastPeer, MulticastPlan,
};

use crate::commands::bench::comparison::{self, Shown};

/// A sender that keeps its rate may be some packets late at the end of the measured time.
const SENT_SHARE_MIN: f64 = 0.99;

/// A table of both.
pub(super) fn describe(plan: &MulticastPlan, comparison: &MulticastComparison) -> String {
    let MulticastPeer::Aeron = comparison.peer;
    let setting = comparison.pairs.first().map_or(String::new(), |pair| {
        let flow_control = match pair.peer.flow_control {
            FlowControl::Min => "min",
            FlowControl::Max => "max",
        };
        format!(
            "{} members, {} senders, {} packets of {} B a second, {} % lost at each\n\
             Paceline {}, Aeron with flow control {flow_control}",
            plan.members,
            plan.senders,
            number(plan.packets_per_second),
            plan.packet_bytes,
            number(plan.loss * 100.0),
            super::setting(&pair.paceline),
        )
    });
    let table = comparison::describe(&setting, "Aeron", comparison, shown);
    let shares = comparison.pairs.iter().map(|pair| pair.peer.sent_share);
    table + &sent_too_few(shares.fold(1.0, f64::min))
}

/// What to say where the peer sent fewer packets than it was to send, in the run with the fewest.
fn sent_too_few(share: f64) -> String {
    if share >= SENT_SHARE_MIN {
        return String::new();
    }
    let percent = number(share * 100.0);
    format!("\nAeron sent only {percent} % of the packets in a run: it was kept from its rate\n")
}

fn shown(figure: &'static str) -> Shown {
    match figure {
        "all_p50_ms" => ("sending to delivery, median", "ms", 1.0),
        "all_p99_ms" => ("99th percentile", "ms", 1.0),
        "all_p999_ms" => ("99.9th percentile", "ms", 1.0),
        "all_mean_ms" => ("mean", "ms", 1.0),
        "delivered_within_10ms" => ("delivered within 10 ms", "%", 100.0),
        "missing" => ("not delivered", "packets", 1.0),
        "frames_per_packet" => ("frames that arrive", "/packet", 1.0),
        "bytes_per_packet" => ("their bytes", "/packet", 1.0),
        "sending_cores" => ("processor time", "cores", 1.0),
        other => (other, "", 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_was_kept_from_its_rate_is_told() {
        assert_eq!(sent_too_few(0.995), "");
        assert!(sent_too_few(0.56).contains("only 56 %"), "{}", sent_too_few(0.56));
    }
}
