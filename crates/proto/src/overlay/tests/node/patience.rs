//! Requests that other nodes put off.

use super::super::super::request::State;
use super::*;

/// Node 0 asks node 1, which knows no way for these keys that is nearer.
fn without_a_way(config: Config, keys: &[u8]) -> Net {
    let mut net = Net::new(config, &[(0, keys, &[1])]);
    let space = net.config.space();
    let is_far = |node: &NodeId| space.key(*node).to_bytes()[0] == 0xff;
    let far = (10..).map(NodeId).find(is_far).expect("one in 256");
    net.table(1).ways.extend(keys.iter().map(|&key| (key, vec![far])));
    net
}

#[test]
fn a_key_without_a_route_is_asked_for_until_there_is_one() {
    let config = config().with_attempts(2).with_answer_within(Duration::from_secs(6));
    let mut net = without_a_way(config, &[1]);
    net.request(0, 1, Operation::Locate(vec![key(1), key(2)]), Style::Iterative);
    net.wait(Duration::from_secs(9));
    assert_eq!(net.outcomes().keys().collect::<Vec<_>>(), [&key(2)]);
    assert!(net.counter("asked_again") > 2, "more often than by attempts that count");
    net.table(1).ways.clear();
    net.wait(Duration::from_secs(3));
    assert_eq!(net.outcomes()[&key(1)], Outcome::Located(n(1)));
}

#[test]
fn only_keys_that_nodes_put_off_outlive_the_last_attempt() {
    let keys = [1, 2, 3, 4, 5];
    let mut net = without_a_way(config(), &keys);
    net.request(0, 1, Operation::Locate(keys.map(key).into()), Style::Iterative);
    let attempts = net.config.attempts();
    let request = net.nodes.get_mut(&n(0)).unwrap().state().requests.get_mut(0).unwrap();
    let why = [
        FailReason::NoRoute,
        FailReason::Busy,
        FailReason::Unsettled,
        FailReason::TimedOut,
        FailReason::Unreplicated,
    ];
    for (slot, why) in request.slots.iter_mut().zip(why) {
        (slot.state, slot.why) = (State::Waiting, why);
    }
    request.attempt = attempts - 1;
    net.wait(Duration::from_secs(3));
    let failed = why[3..].iter().map(|why| Outcome::Failed(*why));
    let expected: BTreeMap<Key, Outcome> = [key(4), key(5)].into_iter().zip(failed).collect();
    assert_eq!(net.outcomes(), expected);
    // As long as all attempts may take: 12 s.
    net.wait(Duration::from_secs(8));
    assert_eq!(net.outcomes(), BTreeMap::new());
    net.wait(Duration::from_secs(4));
    let failed = Outcome::Failed(FailReason::NoRoute);
    let expected: BTreeMap<Key, Outcome> = [1, 2, 3].map(|byte| (key(byte), failed.clone())).into();
    assert_eq!(net.outcomes(), expected);
}

#[test]
fn a_write_goes_on_until_a_failure_near_its_key_is_settled() {
    let config = config()
        .with_upkeep_every(Some(Duration::from_secs(2)))
        .with_ack_after(Some(Duration::from_millis(50)));
    let mut net = without_a_way(config, &[1, 2]);
    net.request(0, 1, Operation::Put(vec![put(1, "a")]), Style::Iterative);
    net.request(0, 2, Operation::Locate(vec![key(2)]), Style::Iterative);
    let failed = Outcome::Failed(FailReason::NoRoute);
    // 3 s an attempt, of which there are four.
    net.wait(Duration::from_secs(16));
    assert_eq!(net.outcomes(), BTreeMap::from([(key(2), failed.clone())]));
    // Neighbours look after a node at least each 8 s, and each table settles within 6.4 s: 20.8 s.
    net.wait(Duration::from_secs(4));
    assert_eq!(net.outcomes(), BTreeMap::new());
    net.wait(Duration::from_secs(4));
    assert_eq!(net.outcomes(), BTreeMap::from([(key(1), failed)]));
}

#[test]
fn a_node_that_is_settled_stays_so_when_answers_come_later() {
    let config = config().with_upkeep_every(Some(Duration::from_millis(100)));
    let mut net = Net::new(config, &[(0, &[], &[1])]);
    net.table(0).replicas = vec![n(0), n(1)];
    let sample = |net: &mut Net, millis, times| {
        let node = net.nodes.get_mut(&n(0)).expect("a node of this test");
        (0..times).for_each(|_| node.rtt.sample(Duration::from_millis(millis)));
    };
    let is_settled = |net: &mut Net| {
        let mut settled = false;
        net.call(n(0), |node, cx| settled = node.is_settled(cx));
        settled
    };
    sample(&mut net, 1, 20);
    assert!(!is_settled(&mut net), "the neighbour is new");
    net.now += Duration::from_secs(1);
    assert!(is_settled(&mut net));
    sample(&mut net, 900, 20);
    assert!(is_settled(&mut net), "the neighbours are those of before");
    net.table(0).replicas = vec![n(0), n(2)];
    assert!(!is_settled(&mut net), "another neighbour");
    net.now += Duration::from_secs(1);
    assert!(!is_settled(&mut net), "now it takes longer to miss one");
    net.now += Duration::from_secs(20);
    assert!(is_settled(&mut net));
}
