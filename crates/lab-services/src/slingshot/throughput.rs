//! The figures of throughput: the rate at which each protocol saturates a link.

use super::ask::{Ask, What};

/// Bits a second of each link of `slingshot/throughput`.
const LINK: f64 = 20e6;
/// Bits on the link of a packet of 1 KiB without the protocol's header: 66 bytes of framing.
const PACKET: f64 = 8.0 * (1024.0 + 66.0);
/// Bits on the link of an acknowledgement: 22 bytes and framing.
const ACKNOWLEDGEMENT: f64 = 8.0 * (22.0 + 66.0);
/// The share of packets that a receiver loses.
const LOSS: f64 = 0.01;
/// Members.
const MEMBERS: f64 = 64.0;
/// Repairs of packets received, at (8,3).
const REPAIRS: f64 = 3.0 / 8.0;
/// Where all members send, each receives all packets but its own.
const RECEIVED: f64 = 1.0 - 1.0 / MEMBERS;

/// How much of the rate that fills a link is reached at least. Headers, names and questions take
/// some of the rest, and queues delay packets before a link is full.
const REACHED: f64 = 0.85;
/// A run of two seconds passes at a rate slightly above the link's, which its queue takes in.
const QUEUED: f64 = 1.02;

/// A protocol, how many members send, its settings, and the band of its throughput.
type Case = (&'static str, u32, &'static [&'static str], (f64, f64));

/// The settings of a search in `slingshot/throughput`, what makes it small, and its figure.
pub(super) type ThroughputSearch = (Vec<String>, &'static str, Ask);

/// One search for each protocol, with 64 senders and with one. Retransmission timers of 2 ms are
/// shorter than a short queue on this link, so protocols that wait for answers get 8 ms.
pub(super) fn searches() -> Vec<ThroughputSearch> {
    let members = MEMBERS;
    let others = members - 1.0;
    const RETRY: &str = "retry_after=8ms";
    let full = |rate: f64| (REACHED * rate, QUEUED * rate);
    // The next packet of the same sender, or the last of its block, comes after the deadline at
    // every rate that the link carries, and later still at lower ones.
    let never = (0.0, 0.0);
    let cases: [Case; 10] = [
        ("slingshot", 64, &[], full(LINK / (RECEIVED * PACKET * (1.0 + (1.0 - LOSS) * REPAIRS)))),
        ("slingshot", 1, &[], full(LINK / (PACKET * (1.0 + (1.0 - LOSS) * REPAIRS)))),
        ("nak", 64, &[RETRY, "rate_min=1500/s"], never),
        // Its sender repairs each loss of each receiver over one link.
        ("nak", 1, &[RETRY], full(LINK / (PACKET * (1.0 + LOSS * others)))),
        (
            "digest-pull",
            64,
            &[RETRY, "rate_min=1000/s"],
            full(LINK / (RECEIVED * PACKET * (1.0 + LOSS))),
        ),
        (
            "ack",
            64,
            &[RETRY, "rate_min=1000/s"],
            full(LINK / (RECEIVED * (PACKET * (1.0 + LOSS) + ACKNOWLEDGEMENT))),
        ),
        // All acknowledgements come over the link of the one sender.
        ("ack", 1, &[RETRY], full(LINK / (others * ACKNOWLEDGEMENT))),
        ("sender-fec", 64, &["flush_after=0s", "duration=4s", "rate_min=1500/s"], never),
        ("sender-fec", 1, &["flush_after=0s"], full(LINK / (PACKET * (1.0 + REPAIRS)))),
        // Each packet that one receiver at least has lost is sent to the whole group again, how
        // often depends on its timers.
        (
            "srm",
            1,
            &["timers=adaptive", "distance=2ms", "rate_max=600/s", "rate_min=50/s", "duration=5s"],
            (50.0, LINK / (PACKET * (2.0 - (1.0 - LOSS).powf(others)))),
        ),
    ];
    let search = |&(kind, senders, sets, (low, high)): &Case| {
        let id = format!("throughput/{kind}/{senders}");
        let mut own = vec![format!("protocol.kind={kind}"), format!("senders={senders}")];
        own.extend(sets.iter().map(|&set| set.to_owned()));
        // A run must be longer than its tail that is not judged.
        let quick = match (kind, senders) {
            ("sender-fec", 64) | ("srm", _) => "duration=3s",
            _ => "duration=1500ms",
        };
        (own, quick, Ask::new(id, What::Throughput, low, high))
    };
    cases.iter().map(search).collect()
}
