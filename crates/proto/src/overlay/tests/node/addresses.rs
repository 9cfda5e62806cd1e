//! Which sources of an address take precedence.

use bytes::Bytes;

use super::*;

/// Sends node 1 the address of a node; returns the contacts that its driver gets.
fn tell(net: &mut Net, from: u32, about: u32, address: &'static str) -> Vec<(NodeId, Bytes)> {
    let addresses = Addresses(Some([(n(about), Bytes::from_static(address.as_bytes()))].into()));
    let mut told = Vec::new();
    net.call(n(1), |node, cx| {
        node.handle_message(cx, n(from), Message { body: Body::Pong { exchange: 0 }, addresses });
        told = std::mem::take(&mut cx.outbox.links.contacts);
    });
    told
}

fn known(net: &Net, about: u32) -> &Bytes {
    let state = net.nodes[&n(1)].state_if_any().expect("it has received an address");
    &state.addresses[&n(about)].address
}

#[test]
fn what_a_node_says_of_itself_is_not_replaced_by_what_others_say_of_it() {
    let mut net = Net::new(config(), &[(1, &[1], &[2])]);
    // For a node that was not heard itself, the latest report counts.
    assert_eq!(tell(&mut net, 3, 2, "false:1"), [(n(2), Bytes::from_static(b"false:1"))]);
    assert_eq!(tell(&mut net, 4, 2, "other:1").len(), 1);
    assert_eq!(known(&net, 2), "other:1");
    // Its own report replaces any other, and stays.
    assert_eq!(tell(&mut net, 2, 2, "true:1"), [(n(2), Bytes::from_static(b"true:1"))]);
    assert!(tell(&mut net, 2, 2, "true:1").is_empty());
    assert!(tell(&mut net, 4, 2, "true:1").is_empty());
    // The driver gets the addresses that others report, and verifies them.
    assert_eq!(tell(&mut net, 3, 2, "false:1").len(), 1);
    assert_eq!(known(&net, 2), "true:1");
    assert_eq!(net.counter("address_disputed"), 1);
    // It has moved, and reports that.
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

/// Node 1, which knows where it is, keeps its table in repair and has node 2 in it.
fn member_with_address() -> Net {
    let config = config().with_upkeep_every(Some(Duration::from_secs(1)));
    let mut net = Net::new(config, &[(1, &[1], &[2])]);
    for node in [1, 2] {
        net.call(n(node), |overlay, cx| {
            overlay.state().address = Bytes::from(format!("at:{node}"));
            overlay.handle_start(cx);
        });
    }
    net
}

#[test]
fn a_node_of_the_table_that_moved_and_tells_only_others_is_asked_where_it_is() {
    let mut net = member_with_address();
    tell(&mut net, 2, 2, "old:1");
    net.wait(Duration::from_secs(9));
    assert_eq!((net.counter("address_asked"), &known(&net, 2)[..]), (0, &b"old:1"[..]));
    // Reports of others do not count, but a pong carries its sender's address.
    tell(&mut net, 3, 2, "at:2");
    assert_eq!(known(&net, 2), "old:1");
    net.wait(Duration::from_secs(15));
    assert_eq!(known(&net, 2), "at:2");
    // Once, and not again before ten seconds have passed.
    let asked = net.counter("address_asked");
    assert!((1..=3).contains(&asked), "asked {asked} times");
}

#[test]
fn addresses_of_nodes_that_are_not_in_the_table_are_forgotten() {
    let mut net = member_with_address();
    for client in 100..200 {
        tell(&mut net, client, client, "client:1");
    }
    let count = |net: &Net| net.nodes[&n(1)].addresses().count();
    assert_eq!(count(&net), 100);
    net.wait(Duration::from_secs(20));
    tell(&mut net, 150, 150, "client:1");
    net.wait(Duration::from_secs(20));
    let kept: Vec<NodeId> = net.nodes[&n(1)].addresses().map(|(node, _)| node).collect();
    assert_eq!(kept, [n(2), n(150)]);
}
