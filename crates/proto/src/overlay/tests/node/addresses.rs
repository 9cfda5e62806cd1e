//! Who is believed about where a node is.

use bytes::Bytes;

use super::*;

/// Says to node 1 where a node is; returns what its driver is told.
fn tell(net: &mut Net, from: u32, about: u32, address: &'static str) -> Vec<(NodeId, Bytes)> {
    let addresses = Addresses(Some([(n(about), Bytes::from_static(address.as_bytes()))].into()));
    let mut told = Vec::new();
    net.call(n(1), |node, cx| {
        node.handle_message(cx, n(from), Message { body: Body::Pong { exchange: 0 }, addresses });
        told = std::mem::take(&mut cx.outbox.contacts);
    });
    told
}

fn known(net: &Net, about: u32) -> &Bytes {
    let rest = net.nodes[&n(1)].rest_if_any().expect("it was told something");
    rest.addresses.get(n(about)).expect("it was told this one")
}

#[test]
fn what_a_node_says_of_itself_is_not_replaced_by_what_others_say_of_it() {
    let mut net = Net::new(config(), &[(1, &[1], &[2])]);
    // Of a node that has not spoken the latest word counts.
    assert_eq!(tell(&mut net, 3, 2, "false:1"), [(n(2), Bytes::from_static(b"false:1"))]);
    assert_eq!(tell(&mut net, 4, 2, "other:1").len(), 1);
    assert_eq!(known(&net, 2), "other:1");
    // Its own word replaces any, and stays.
    assert_eq!(tell(&mut net, 2, 2, "true:1"), [(n(2), Bytes::from_static(b"true:1"))]);
    assert!(tell(&mut net, 2, 2, "true:1").is_empty());
    assert!(tell(&mut net, 4, 2, "true:1").is_empty());
    // The driver hears what others say, and asks there.
    assert_eq!(tell(&mut net, 3, 2, "false:1").len(), 1);
    assert_eq!(known(&net, 2), "true:1");
    assert_eq!(net.counter("address_disputed"), 1);
    // It has moved, and says so.
    assert_eq!(tell(&mut net, 2, 2, "new:1").len(), 1);
    assert_eq!(known(&net, 2), "new:1");
}

#[test]
fn a_node_that_does_not_answer_may_be_where_others_say() {
    let mut net = Net::new(config(), &[(1, &[1], &[2])]);
    tell(&mut net, 2, 2, "old:1");
    net.silent.push(n(2));
    net.request(1, 5, Operation::Locate(vec![key(1)]), Style::Iterative);
    net.wait(Duration::from_secs(20));
    assert!(net.counter("forgotten") > 0);
    assert_eq!(tell(&mut net, 3, 2, "new:1").len(), 1);
    assert_eq!(known(&net, 2), "new:1");
    assert_eq!(net.counter("address_disputed"), 0);
}

#[test]
fn only_addresses_of_guests_that_nobody_names_any_more_are_forgotten() {
    let config = config().with_upkeep_every(Some(Duration::from_secs(10)));
    let mut net = Net::new(config, &[(1, &[1], &[2])]);
    tell(&mut net, 2, 2, "member:1");
    for guest in 100..1_100 {
        tell(&mut net, guest, guest, "guest:1");
    }
    let is_known = |net: &Net, about: u32| {
        net.nodes[&n(1)].rest_if_any().is_some_and(|rest| rest.addresses.get(n(about)).is_some())
    };
    // From now on it looks after its table.
    net.call(n(1), |node, cx| node.handle_timer(cx, Timer::Upkeep));
    net.wait(Duration::from_secs(200));
    assert!((100..1_100).all(|guest| is_known(&net, guest)));
    tell(&mut net, 3, 500, "guest:1");
    net.wait(Duration::from_secs(200));
    let known: Vec<u32> = (2..1_100).filter(|&node| is_known(&net, node)).collect();
    assert_eq!(known, [2, 500]);
}
