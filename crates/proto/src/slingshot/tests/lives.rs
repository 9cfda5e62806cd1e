//! Senders that were not heard yet: what others say of them is not their own word.

use super::*;

#[test]
fn what_was_computed_is_told_once_any_member_vouches_for_its_sender() {
    let mut bench = Bench::new(published(4).with_pull(Some(Pull::default())));
    bench.repair(3, &[(1, 0)]);
    bench.repair(3, &[(1, 1), (1, 2)]);
    assert_eq!((bench.told().len(), bench.node.packets_unverified()), (0, 1));
    let supply = Supply { view: ViewId(0), rank: 1, data: packet(G, 1, 1) };
    bench.message(2, Message::Supply(supply));
    let mut told = bench.told();
    told.sort();
    let recovered = [0, 2].map(|seq| format!("g0/n1.{seq} recovered after 0ns"));
    assert_eq!(told, [&recovered[0], "g0/n1.1 pulled after 0ns", &recovered[1]]);
    assert_eq!(bench.node.packets_unverified(), 0);
}

#[test]
fn what_was_computed_of_a_sender_that_is_never_heard_is_not_kept_for_ever() {
    let mut bench = Bench::new(published(4));
    (0..80).for_each(|seq| bench.repair(3, &[(1, seq)]));
    assert_eq!(bench.node.packets_unverified(), 64);
    bench.pass(ms(500));
    assert_eq!((bench.node.packets_unverified(), bench.node.packets_missing()), (0, 0));
}
