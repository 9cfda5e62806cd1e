//! MIRCC in simulated networks: the topologies of the slides.

use crate::mircc_net;

use mircc_net::{Net, Received, at, with};
use paceline_proto::core::NodeId;
use paceline_proto::mircc::{Algorithm, Command, Config, ControllerConfig, Multipath, Pace};
use paceline_proto::ndn::Class;

struct Dumbbell {
    net: Net,
    consumers: Vec<NodeId>,
}

fn dumbbell(flows: usize, mbit: f64, trip_ms: f64) -> Dumbbell {
    let mut net = Net::default();
    let (left, right) = (net.node("left"), net.node("right"));
    let producer = net.node("producer");
    net.link(left, right, mbit * 1e6, trip_ms / 2.0 - 2.0);
    net.link(right, producer, 1e9, 1.0);
    let mut consumers = Vec::new();
    net.route("/p", left, right);
    net.route("/p", right, producer);
    for flow in 0..flows {
        let consumer = net.node(&format!("consumer {flow}"));
        net.link(consumer, left, 1e9, 1.0);
        net.route("/p", consumer, left);
        net.publish(producer, &format!("/p/{flow}"), 1 << 21);
        consumers.push(consumer);
    }
    Dumbbell { net, consumers }
}

fn config(algorithm: Algorithm) -> Config {
    Config { controller: ControllerConfig { algorithm, ..Default::default() }, ..Config::default() }
}

#[test]
fn flows_share_a_link_equally_while_others_come_and_go() {
    for algorithm in [Algorithm::Mircc, Algorithm::Rcp] {
        let Dumbbell { net, consumers } = dumbbell(3, 20.0, 28.0);
        let mut sim = net.start(1, config(algorithm));
        for (flow, &consumer) in consumers.iter().enumerate() {
            let fetch = with(1, &format!("/p/{flow}"), Pace::Rates, Multipath::Dual);
            sim.command_at(at(flow as f64 * 2.0), consumer, fetch);
            sim.command_at(at(6.0 + flow as f64 * 2.0), consumer, Command::Stop { flow: 1 });
        }
        let mut received = Received::default();
        sim.run_until(at(12.0), &mut received);
        let there = [&[0][..], &[0, 1], &[0, 1, 2], &[1, 2], &[2]];
        for (place, flows) in there.into_iter().enumerate() {
            let until = (place + 1) as f64 * 2.0;
            let fair = 19.0 / flows.len() as f64;
            for &flow in flows {
                let rate = received.rate(consumers[flow], until - 1.0, until, None);
                assert!((rate / fair - 1.0).abs() < 0.03, "{algorithm:?} at {until}: {rate}");
            }
        }
        assert_eq!(sim.counters().count("mircc_link_full"), 0);
        assert!(received.failed.is_empty(), "{:?}", received.failed);
    }
}

/// Consumer 1 has two paths behind a link of 15 Mbit/s, consumer 2 comes for the middle third.
fn slingshot(left: f64, right: f64, mode: Multipath) -> [[f64; 3]; 3] {
    let mut net = Net::default();
    let [c1, c2, e1, f2, e4, e3] = ["c1", "c2", "e1", "f2", "e4", "e3"].map(|name| net.node(name));
    net.link(c1, e1, 100e6, 1.0);
    net.link(c2, e1, 100e6, 1.0);
    net.link(e1, f2, 15e6, 5.0);
    net.link(f2, e4, left * 1e6, 5.0);
    net.link(f2, e3, right * 1e6, 5.0);
    net.route("/", c1, e1);
    net.route("/", c2, e1);
    net.route("/", e1, f2);
    net.route("/one", f2, e4);
    net.route("/one", f2, e3);
    net.route("/two", f2, e4);
    net.publish(e4, "/one", 1 << 21);
    net.publish(e3, "/one", 1 << 21);
    net.publish(e4, "/two", 1 << 21);
    let mut sim = net.start(1, Config::default());
    sim.command_at(at(0.0), c1, with(1, "/one", Pace::Rates, mode));
    sim.command_at(at(5.0), c2, with(1, "/two", Pace::Rates, mode));
    sim.command_at(at(10.0), c2, Command::Stop { flow: 1 });
    let mut received = Received::default();
    sim.run_until(at(15.0), &mut received);
    [(2.0, 5.0), (7.0, 10.0), (12.0, 15.0)].map(|(from, until)| {
        let rate = |node, class| received.rate(node, from, until, class);
        let secondary = Some(Class::Secondary);
        [rate(c1, Some(Class::Primary)), rate(c1, secondary), rate(c2, None)]
    })
}

#[test]
fn a_second_class_takes_what_the_best_path_leaves_and_yields_to_others() {
    let near = |rate: f64, expected: f64| (rate - expected).abs() < 0.05 * expected;
    for (left, right, secondary) in [(12.0, 9.0, 2.85), (10.0, 10.0, 4.75)] {
        let [before, during, after] = slingshot(left, right, Multipath::Dual);
        for [first, second, other] in [before, after] {
            assert!(near(first, 0.95 * left) && near(second, secondary), "{first} {second}");
            assert_eq!(other, 0.0);
        }
        let [first, second, other] = during;
        assert!(near(first + second, 7.125) && near(other, 7.125), "{during:?}");
        assert!(second < 0.3, "{during:?}");
    }
}

#[test]
fn the_simple_schemes_waste_or_take_too_much() {
    let [before, ..] = slingshot(12.0, 9.0, Multipath::Best);
    assert!(before[0] < 12.0, "the joint link is not full: {before:?}");
    let [_, during, _] = slingshot(12.0, 9.0, Multipath::Sum);
    assert!(during[0] > 1.8 * during[2], "two paths, two shares: {during:?}");
}

#[test]
fn an_object_is_fetched_whole_and_as_it_is() {
    let Dumbbell { mut net, consumers } = dumbbell(1, 10.0, 20.0);
    net.publish(NodeId(2), "/p/whole", 100);
    let mut sim = net.start(1, Config::default());
    sim.command_at(at(0.1), consumers[0], with(1, "/p/whole", Pace::Rates, Multipath::Dual));
    let mut received = Received::default();
    sim.run_until(at(5.0), &mut received);
    let (_, counts) = received.ended[&(consumers[0], 1)];
    assert_eq!((counts.segments, counts.content_bytes), (100, 100_000));
}
