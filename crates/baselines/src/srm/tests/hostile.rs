//! Members that break the rules, and configurations that cannot work.

use paceline_proto::core::{GroupId, Payload};
use paceline_proto::slingshot::{Data, Rate, checksum};

use super::*;

#[test]
fn a_request_for_what_cannot_be_leaves_nothing_but_a_count() {
    let cases: [(u16, u32, &str); 4] = [
        (9, 0, "srm_unknown_name"),
        (1, 5_000, "srm_name_too_far"),
        (0, 0, "srm_name_not_sent"),
        (1, u32::MAX / 2, "srm_name_too_far"),
    ];
    for (sender, seq, counter) in cases {
        let mut bench = Bench::srm(config(4));
        bench.data(1, 0);
        bench.request(2, sender, seq);
        assert_eq!(bench.count(counter), 1, "{counter}");
        assert_eq!((bench.node.packets_missing(), bench.node.answers()), (0, 0), "{counter}");
    }
}

#[test]
fn strangers_echoes_and_other_views_are_counted_and_dropped() {
    let mut bench = Bench::srm(config(4));
    bench.data(9, 0);
    bench.data(0, 0);
    assert_eq!((bench.count("srm_foreign_sender"), bench.count("srm_own_echo")), (1, 1));
    let mut names = NamesBuilder::default();
    names.push(Name { group: GroupId(7), rank: 1, seq: 0, checksum: 0 });
    let names = names.build();
    let request = |view| Message::Request { view, distance_us: 0, names: names.clone() };
    bench.message(1, request(ViewId(3)));
    bench.message(1, request(ViewId(0)));
    assert_eq!((bench.count("srm_foreign_view"), bench.count("srm_unknown_name")), (1, 1));
    let supply = Supply { view: ViewId(0), rank: 9, data: packet(G, 1, 0) };
    bench.message(1, Message::Repair { distance_us: 0, supply });
    assert_eq!(bench.count("srm_unknown_name"), 2);
    assert!(bench.told().is_empty() && bench.sent().is_empty());
}

#[test]
fn repairs_of_another_life_and_of_what_is_far_ahead_are_dropped() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.told();
    let mut data = packet(G, 1, 1);
    data.incarnation += 1;
    let supply = Supply { view: ViewId(0), rank: 1, data };
    bench.message(2, Message::Repair { distance_us: 0, supply });
    assert_eq!(bench.count("srm_other_incarnation"), 1);
    bench.repair(2, 1, 5_000);
    assert_eq!(bench.count("srm_too_far"), 1);
    bench.repair(2, 0, 0);
    assert_eq!(bench.node.packets_missing(), 0);
    assert!(bench.told().is_empty());
}

#[test]
fn a_session_message_that_lies_about_another_member_moves_nothing_far() {
    let mut bench = Bench::srm(config(4));
    bench.data(2, 0);
    let reached = vec![
        Reached { rank: 2, life: 102, last: 1 << 30 },
        Reached { rank: 9, life: 102, last: 1 },
        Reached { rank: 0, life: INCARNATION_LIFE, last: 77 },
    ];
    bench.message(1, Message::Session(Session { reached, ..session(1, 0) }));
    assert_eq!(bench.count("srm_name_too_far"), 1);
    assert_eq!(bench.count("srm_unknown_name"), 1);
    assert_eq!(bench.node.packets_missing(), 0);
}

/// Of the node under test.
const INCARNATION_LIFE: u32 = 7;

#[test]
fn what_is_missing_and_what_is_answered_are_bounded() {
    let base = config(4).base.with_missing_max(10).with_window_packets(32);
    let mut bench = Bench::srm(Config { base, ..config(4) }.with_answers_max(3));
    bench.data(1, 0);
    bench.data(1, 30);
    assert_eq!(bench.node.packets_missing(), 10);
    assert_eq!(bench.count("srm_missing_overflow"), 19);
    assert!(bench.node.requests.len() <= 10 + 64);
    for seq in 0..8 {
        bench.data(2, seq);
        bench.request(3, 2, seq as u32);
    }
    assert_eq!((bench.node.answers(), bench.count("srm_answers_full")), (3, 5));
}

#[test]
fn a_sender_that_starts_anew_ends_what_was_missing_of_it() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    let mut data = packet(G, 1, 0);
    data.incarnation = 500;
    data.checksum = checksum(G, 500, 0, &data.payload);
    bench.message(1, Message::Data(data));
    assert_eq!(bench.told(), ["n1.1..2 lost", "n1.0 direct"]);
    bench.pass(ms(30_000));
    assert!(bench.sent().is_empty());
}

#[test]
fn who_leaves_the_view_is_not_waited_for() {
    let mut bench = Bench::srm(config(4));
    bench.data(1, 0);
    bench.data(1, 2);
    bench.told();
    bench.view(1, &[(0, 7), (2, 102)]);
    assert_eq!(bench.told(), ["n1.1..2 lost"]);
    bench.data(1, 3);
    assert_eq!(bench.count("srm_foreign_sender"), 1);
    bench.view(0, &[(0, 7)]);
    assert_eq!(bench.count("srm_stale_view"), 1);
}

#[test]
fn commands_that_make_no_sense_are_rejected() {
    let mut bench = Bench::srm(config(2));
    let payload = Payload::Zeros(1200);
    bench.command(Command::Multicast { group: G, payload, ticket: 1 });
    bench.command(Command::Multicast { group: GroupId(5), payload: "x".into(), ticket: 2 });
    bench.command(Command::SetRate(Rate::new(8, 3).expect("within the ranges")));
    let told = bench.told();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told.iter().all(|line| line.starts_with("rejected")), "{told:?}");
    bench.command(Command::Members { group: GroupId(5), members: [NodeId(0)].into() });
    bench.command(Command::Multicast { group: GroupId(5), payload: "x".into(), ticket: 2 });
    assert_eq!(bench.told(), ["sent 2 as 0"]);
    let largest = bench.config.payload_bytes_max(1200);
    let data = packet(G, 1, 0);
    let payload = Payload::Zeros(largest as u32);
    let data = Data { payload, ..data };
    let supply = Supply { view: ViewId(0), rank: 0, data };
    assert_eq!(Message::Repair { distance_us: 0, supply }.wire_len(), 1200);
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let no_time = |config: Config, expected: &str| {
        let refused = config.build();
        assert_eq!(refused.unwrap_err().knob(), expected);
    };
    no_time(config(2).with_distance(Distance::Fixed(Duration::ZERO)), "distance");
    no_time(config(2).with_session_every(Duration::ZERO), "session_every");
    for factor in [f64::NAN, -1.0, 1001.0] {
        let factors = Factors { c1: factor, ..Factors::default() };
        assert!(config(2).with_timers(Timers::Fixed(factors)).build().is_err());
    }
    assert!(config(2).with_backoffs_max(0).build().is_err());
    assert!(config(2).with_backoffs_max(17).build().is_err());
    assert!(config(2).with_answers_max(0).build().is_err());
}
