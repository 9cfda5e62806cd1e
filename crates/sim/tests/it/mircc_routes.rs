//! Failing next hops, as seen by a client without path labels.

use crate::mircc_net;

use std::time::Duration;

use mircc_net::{Net, Received, at, with};
use paceline_check::checkers::mircc::MirccLedger;
use paceline_proto::core::{Instant, NodeId};
use paceline_proto::mircc::{Config, Forwarder, Multipath, Pace, Strategy};
use paceline_proto::ndn::Signer;
use paceline_sim::{Fault, Sim};

/// Segments of the object that is fetched.
const SEGMENTS: usize = 80_000;

/// A consumer behind a relay, from which a cheap and a costly route lead to a producer each.
struct Ways {
    sim: Sim<'static, Forwarder>,
    ledger: MirccLedger,
    received: Received,
    cheap: NodeId,
    costly: NodeId,
    relay: NodeId,
    consumer: NodeId,
}

impl Ways {
    fn new(strategy: Strategy, [cheap_ms, costly_ms]: [f64; 2]) -> Ways {
        let mut net = Net::default();
        let [consumer, relay, cheap, costly] =
            ["consumer", "relay", "cheap", "costly"].map(|called| net.node(called));
        net.link(consumer, relay, 100e6, 2.0);
        net.link(relay, cheap, 50e6, cheap_ms);
        net.link(relay, costly, 50e6, costly_ms);
        net.route("/p", consumer, relay);
        net.route("/p", relay, cheap);
        let setup = net.setups.get_mut(&relay).unwrap();
        setup.routes.push(("/p".parse().unwrap(), costly, 10));
        setup.strategies.push(("/p".parse().unwrap(), strategy));
        for producer in [cheap, costly] {
            net.publish(producer, "/p/file", SEGMENTS);
        }
        let config = Config { signer: Signer::Null, ..Config::default() };
        let setups = net.setups.values().cloned().collect();
        let ledger = MirccLedger::new(&config, setups, None);
        let sim = net.start(1, config);
        let received = Received::default();
        Ways { sim, ledger, received, cheap, costly, relay, consumer }
    }

    /// As a stock client does, with a window and without labels.
    fn fetch(&mut self) {
        let fetch = with(1, "/p/file", Pace::Cubic, Multipath::Best);
        self.sim.command_at(at(0.1), self.consumer, fetch);
    }

    fn run_until(&mut self, seconds: f64) {
        let mut observer = (&mut self.ledger, &mut self.received);
        self.sim.run_until(at(seconds), &mut observer);
        if let Some(violation) = self.ledger.violation() {
            panic!("{violation}");
        }
    }

    /// Times without a segment of more than a quarter of a second, between the start and `until`.
    fn silences(&self, until: f64) -> Vec<Duration> {
        let segments = self.received.segments.get(&self.consumer);
        let times = segments.into_iter().flatten().map(|&(at, ..)| at);
        let mut all: Vec<Instant> = vec![at(0.1)];
        all.extend(times.filter(|&time| time <= at(until)));
        all.push(at(until));
        let gaps = all.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.filter(|&gap| gap > Duration::from_millis(250)).collect()
    }

    fn interests_out(&self, to: NodeId) -> u64 {
        let mut faces = self.sim.node(self.relay).faces();
        faces.find(|face| face.peer == to).expect("a face").counts.interests_out
    }
}

#[test]
fn a_route_that_leads_to_nobody_delays_a_stock_client_once_and_for_less_than_two_seconds() {
    for strategy in [Strategy::BestRoute, Strategy::Adaptive] {
        let mut ways = Ways::new(strategy, [5.0, 5.0]);
        ways.sim.fault_at(at(0.0), Fault::Crash(ways.cheap));
        ways.fetch();
        ways.run_until(6.0);
        let silences = ways.silences(6.0);
        assert!(silences.len() <= 1, "{strategy:?}: {silences:?}");
        assert!(silences.iter().all(|&s| s < Duration::from_secs(2)), "{strategy:?}: {silences:?}");
        assert!(ways.received.rate(ways.consumer, 3.0, 6.0, None) > 40.0, "{strategy:?}");
        // Probes, ever more rarely.
        assert!((1..=8).contains(&ways.interests_out(ways.cheap)));
    }
}

#[test]
fn multicast_notices_nothing_of_a_route_that_leads_to_nobody() {
    let mut ways = Ways::new(Strategy::Multicast, [5.0, 5.0]);
    ways.sim.fault_at(at(0.0), Fault::Crash(ways.cheap));
    ways.fetch();
    ways.run_until(3.0);
    assert_eq!(ways.silences(3.0), []);
}

#[test]
fn a_producer_that_crashes_is_left_for_another() {
    let mut ways = Ways::new(Strategy::BestRoute, [5.0, 5.0]);
    ways.fetch();
    ways.run_until(2.0);
    assert!(ways.interests_out(ways.cheap) > 5_000 && ways.interests_out(ways.costly) == 0);
    ways.sim.fault_at(at(2.0), Fault::Crash(ways.cheap));
    ways.run_until(6.0);
    let before = ways.interests_out(ways.costly);
    assert!(before > 3_000, "{before}");
    let silences = ways.silences(6.0);
    assert!(silences.len() <= 1, "{silences:?}");
    assert!(silences.iter().all(|&s| s < Duration::from_secs(2)), "{silences:?}");
}

#[test]
fn the_adaptive_strategy_takes_the_faster_way_though_it_costs_more() {
    let mut ways = Ways::new(Strategy::Adaptive, [30.0, 5.0]);
    ways.fetch();
    ways.run_until(4.0);
    let (cheap, costly) = (ways.interests_out(ways.cheap), ways.interests_out(ways.costly));
    assert!(costly > 20 * cheap, "{cheap} to the slow one, {costly} to the fast one");
}
