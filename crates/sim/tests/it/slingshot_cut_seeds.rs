//! Time-critical multicast where links are cut permanently. The promises are those of
//! `slingshot_seeds`: a packet that a member does not get from its sender comes from others, or is
//! reported lost, once the member knows of it.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::slingshot_swarm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use paceline_check::cuts::{Cuts, SEVERED};
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, Instant, NodeId, Payload, Rng, View};
use paceline_proto::slingshot::{Command, Config, Event, How, Pull, PullFrom, Rate, Slingshot};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Sim, SimConfig};
use slingshot_swarm::{FAULTS_MS, Scenario, at};

/// Counts the packets that reach a member although the link from their sender is cut.
struct Watch {
    cuts: Arc<Cuts>,
    across: Arc<AtomicU64>,
}

impl Tamper<Slingshot> for Watch {
    fn tamper(&mut self, _: &mut Slingshot, cx: &mut Context<'_, Slingshot>) {
        let reaches = |sender: NodeId| self.cuts.passes(sender, cx.node) || cx.now < self.cuts.at;
        let is_across = |event: &&Event| match event {
            Event::Delivered { sender, .. } => !reaches(*sender),
            _ => false,
        };
        let across = cx.outbox.events.iter().filter(is_across).count();
        self.across.fetch_add(across as u64, Ordering::Relaxed);
    }
}

fn run(seed: u64) -> Result<[u64; 4], String> {
    let mut rng = Rng::new(seed, 0x5e7e);
    let mut scenario = Scenario::draw(seed);
    scenario.suite = "slingshot_cut_seeds";
    scenario.rogue = None;
    let when = at(rng.below(FAULTS_MS));
    let Some(cuts) = Cuts::draw(&mut rng, scenario.nodes(), when) else {
        return Ok([0; 4]);
    };
    scenario.faults.extend(cuts.faults());
    let (cuts, across) = (Arc::new(cuts), Arc::new(AtomicU64::new(0)));
    let config = scenario.config.clone();
    let outcome = scenario.run_with(|_| {
        let watch = Watch { cuts: cuts.clone(), across: across.clone() };
        Wrapped::new(Slingshot::new(&config), Some(watch))
    })?;
    let across = across.load(Ordering::Relaxed);
    Ok([outcome.severed, across, outcome.totals.direct, outcome.totals.lost])
}

#[test]
fn seeds_tell_or_report_all_that_they_know_of_where_links_are_cut_for_good() {
    let (count, [severed, across, direct, lost]) = seeds::run_all(run);
    println!(
        "{count} seeds: {severed} messages severed, {across} packets came round a cut, {direct} \
         direct, {lost} lost"
    );
    assert!(count < 100 || severed > 100 * count, "the cuts did not act");
    assert!(count < 100 || across > count && direct > 0 && lost > 0, "the seeds tested nothing");
}

/// All reports of member 1 about packets of member 0.
#[derive(Default)]
struct Recorder {
    seqs: Vec<u64>,
    lost: u64,
}

impl Observer<Slingshot> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        match event {
            Event::Delivered { sender, seq, how, .. } if (sender.0, node.0) == (0, 1) => {
                assert!(!matches!(how, How::Direct), "packet {seq} crossed the cut");
                self.seqs.push(*seq);
            }
            Event::Lost { sender, first, end, .. } if (sender.0, node.0) == (0, 1) => {
                self.lost += end - first;
            }
            _ => {}
        }
    }
}

/// Of a lossless network one link is cut: packets come from other members. What is recovered of a
/// sender that was never heard is delivered with the next packet, so the last one may be missing.
#[test]
fn what_a_sender_multicasts_comes_from_others_where_its_link_is_cut() {
    for seed in 0..20 {
        let nodes = 4 + seed as u32 % 6;
        let pull = Pull { from: PullFrom::Holders, ..Pull::default() };
        let config = Config::new(View::roster((0..nodes).map(NodeId::from)))
            .with_rate(Rate { r: 4, c: 2 })
            .with_pull(Some(pull))
            .with_flush_after(Some(Duration::from_millis(10)));
        let config = config.build().expect("within the ranges");
        let mut sim_config = SimConfig::new(nodes as usize, seed);
        sim_config.network.link.delay = Duration::from_millis(1);
        sim_config.faults = FaultSupport::Any;
        let make = |_| Slingshot::new(&config);
        let mut sim = Sim::new(sim_config, Arc::new(config.clone()), make);
        sim.fault_at(at(0), Fault::Sever(NodeId(0), NodeId(1)));
        for number in 0..400 {
            let command = Command::multicast(Payload::Zeros(100));
            sim.command_at(at(1 + number * 2), NodeId::from(number % nodes), command);
        }
        let mut recorded = Recorder::default();
        sim.run_until(at(10_000), &mut recorded);
        recorded.seqs.sort_unstable();
        let sent = 400_u64.div_ceil(nodes.into());
        assert!(sim.counters().count(SEVERED) >= sent, "the cut did not act");
        let all: Vec<u64> = (0..sent - 1).collect();
        assert!(
            recorded.seqs.starts_with(&all),
            "seed {seed}, {nodes} members: {:?}",
            recorded.seqs
        );
        assert_eq!(recorded.lost, 0, "seed {seed}, {nodes} members");
    }
}
