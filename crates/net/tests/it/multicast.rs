//! Multicast in time on loopback, where datagrams get lost at random.

use crate::support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use paceline_net::{EmulateChange, Peers};
use paceline_proto::core::{LinkFaults, Loss, NodeId, Payload, View};
use paceline_proto::slingshot::{Command, Config, Event, How, Slingshot};
use support::{PATIENCE, bind_all};

const NODES: u32 = 4;
const PACKETS: u64 = 200;

/// What node `from` sends as its packet of this number: of any length up to the largest.
fn content(from: u64, seq: u64) -> Vec<u8> {
    let bytes = (from * 331 + seq * 97) % 1000;
    (0..bytes).map(|at| (at ^ seq ^ from) as u8).collect()
}

#[tokio::test]
async fn every_member_gets_every_packet_though_a_tenth_gets_lost() {
    let config = Config::new(View::roster((0..NODES).map(NodeId::from)))
        .with_lost_after(PATIENCE)
        .build()
        .expect("within the ranges");
    let (bound, roster) = bind_all(NODES, |config| config);
    let start = |bound: paceline_net::Bound| {
        let slingshot = Slingshot::new(&config);
        bound.start(roster.clone(), slingshot, Arc::new(config.clone())).expect("started")
    };
    let mut nodes: Vec<_> = bound.into_iter().map(start).collect();
    let faults = LinkFaults { loss: Loss::Independent(0.1), ..LinkFaults::default() };
    for (node, _) in &nodes {
        let change = EmulateChange::Faults { to: Peers::All, faults };
        node.emulate(change).expect("the node runs");
    }
    for seq in 0..PACKETS {
        for (from, (node, _)) in (0..).zip(&nodes) {
            let payload = Payload::from(content(from, seq));
            node.command(Command::multicast(payload)).expect("the node runs");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut repaired = 0;
    for (me, (_, events)) in (0..).zip(&mut nodes) {
        let mut told = BTreeSet::new();
        while told.len() < (NODES as usize - 1) * PACKETS as usize {
            let next = tokio::time::timeout(PATIENCE, events.recv()).await;
            let event = next.expect("an event in time").expect("the node runs");
            let Event::Delivered { sender, seq, payload, how, .. } = event else {
                panic!("{event:?}")
            };
            assert_eq!(payload, Payload::from(content(sender.0, seq)));
            assert!(sender.0 != me && told.insert((sender, seq)), "{sender} {seq}");
            repaired += u32::from(how != How::Direct);
        }
    }
    assert!(repaired > 0, "a tenth of 2,400 got lost");
}
