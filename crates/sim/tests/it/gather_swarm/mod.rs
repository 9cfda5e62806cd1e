//! One seed, hosts that start together and create one group, one set of faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_check::checkers::group::{GroupLedger, Host};
use paceline_check::swarm::Options;
use paceline_check::{Swarm, seeds};
use paceline_proto::core::{Instant, LinkFaults, Loss, Member, NodeId, Rng, ViewId};
use paceline_proto::group::{Command, Config, Event, Expect, Gather, counters};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, NetworkConfig, Observer, Reply, Shape, Sim, SimConfig,
};

use crate::group_swarm::{at, config, honest};

/// Faults end at this time, ms.
const FAULTS_MS: u64 = 8_000;
/// All hosts that run are in one view at this time, ms.
const END_MS: u64 = 30_000;

/// Which faults a seed draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    Nothing,
    /// Lost, doubled and late messages, hosts that pause, links that are cut for some time.
    Network,
    /// Lost, doubled and late messages, and one host that crashes.
    Crash,
    /// The same, and the host starts again.
    Restart,
}

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Run {
    pub seed: u64,
    pub hosts: u32,
    pub expect: u32,
    config: Config,
    codec: Codec,
    acts: Vec<(Instant, Command, NodeId)>,
    faults: Vec<(Instant, Fault)>,
    crashed: Option<NodeId>,
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub digest: Digest,
    /// The first view of the group, as its members were told it.
    pub founders: Vec<Member>,
    /// When all hosts that run were members, ms.
    pub whole_at_ms: u64,
    pub attempts: u64,
}

impl Run {
    /// Draws a run of `hosts` hosts, of which `expect` create the group.
    pub fn draw(seed: u64, hosts: u32, expect: u32, trouble: Trouble) -> Run {
        let mut rng = Rng::new(seed, 0x6a7e);
        let codec = if rng.chance(0.5) { Codec::CheckWire } else { Codec::Typed };
        let mut run = Run {
            seed,
            hosts,
            expect,
            config: config(),
            codec,
            acts: Vec::new(),
            faults: Vec::new(),
            crashed: None,
        };
        let span = if rng.chance(0.5) { 20 } else { 600 };
        // All know all, or all know one, by which they find each other.
        let known = (trouble == Trouble::Network && rng.chance(0.3)).then(|| rng.below(hosts));
        for host in 0..hosts {
            let when = at(1 + u64::from(rng.below(span)));
            run.acts.push((when, run.gather(host, known), NodeId::from(host)));
        }
        if trouble != Trouble::Nothing {
            run.draw_link(&mut rng);
        }
        match trouble {
            Trouble::Nothing => {}
            Trouble::Network => run.draw_cuts(&mut rng),
            Trouble::Crash | Trouble::Restart => run.draw_crash(&mut rng, trouble),
        }
        let end = at(FAULTS_MS);
        run.faults.push((end, Fault::Heal));
        run.faults.push((end, Fault::Link { from: None, to: None, link: calm() }));
        run
    }

    /// The command to a host that knows all others, or this one.
    fn gather(&self, host: u32, known: Option<u32>) -> Command {
        let is_peer = |&other: &u32| other != host && known.is_none_or(|known| known == other);
        let peers = (0..self.hosts).filter(is_peer).map(NodeId::from).collect();
        let expect = Expect::new(self.expect).expect("within the range");
        Gather { address: Bytes::new(), peers, expect }.into()
    }

    fn draw_link(&mut self, rng: &mut Rng) {
        let link = LinkFaults {
            delay: Duration::from_micros(u64::from(rng.below(3000))),
            jitter: Duration::from_micros(u64::from(rng.below(60_000))),
            loss: Loss::Independent(rng.unit() * 0.3),
            duplicate: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
            reorder: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
            reorder_delay: Duration::from_millis(u64::from(1 + rng.below(200))),
            stream_resend_after: Duration::from_millis(u64::from(1 + rng.below(30))),
        };
        self.faults.push((at(0), Fault::Link { from: None, to: None, link }));
    }

    fn draw_cuts(&mut self, rng: &mut Rng) {
        let hosts = self.hosts;
        // Most of what is to be disturbed happens in the first second.
        let when = |rng: &mut Rng| {
            let within = if rng.chance(0.7) { 1_000 } else { 5_000 };
            u64::from(rng.below(within))
        };
        for _ in 0..rng.below(5) {
            let pause = Duration::from_millis(u64::from(20 + rng.below(3_000)));
            self.faults.push((at(when(rng)), Fault::Pause(NodeId::from(rng.below(hosts)), pause)));
        }
        for _ in 0..rng.below(4) {
            let begin = when(rng);
            let fault = if rng.chance(0.6) {
                let part = (0..hosts).filter(|_| rng.chance(0.5)).map(NodeId::from).collect();
                Fault::Partition(vec![part])
            } else {
                Fault::Block(NodeId::from(rng.below(hosts)), NodeId::from(rng.below(hosts)))
            };
            self.faults.push((at(begin), fault));
            self.faults.push((at(begin + 100 + u64::from(rng.below(3_000))), Fault::Heal));
        }
    }

    fn draw_crash(&mut self, rng: &mut Rng, trouble: Trouble) {
        // Half of the time the one that proposes first.
        let host = if rng.chance(0.5) { 0 } else { rng.below(self.hosts) };
        let crash = u64::from(rng.below(1_000));
        self.faults.push((at(crash), Fault::Crash(NodeId::from(host))));
        if trouble == Trouble::Restart {
            let again = crash + 1 + u64::from(rng.below(500));
            self.faults.push((at(again), Fault::Restart(NodeId::from(host))));
            self.acts.push((at(again + 1), self.gather(host, None), NodeId::from(host)));
        } else {
            self.crashed = Some(NodeId::from(host));
        }
    }

    /// Runs it with hosts made by `make`.
    pub fn run<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        let mut config = SimConfig::new(self.hosts as usize, self.seed);
        config.network = NetworkConfig {
            shape: Shape::Mesh,
            rate_bits_per_second: Some(100_000_000),
            link: calm(),
            ..NetworkConfig::default()
        };
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let mut sim = Sim::new(config, Arc::new(self.config.clone()), make);
        for (when, command, host) in &self.acts {
            sim.command_at(*when, *host, command.clone());
        }
        for (when, fault) in &self.faults {
            sim.fault_at(*when, fault.clone());
        }
        let wanted = (0..self.hosts).map(NodeId::from).filter(|host| Some(*host) != self.crashed);
        let wanted: Vec<NodeId> = wanted.collect();
        let founders = Founders { hosts: wanted.len(), ..Founders::default() };
        let mut observers = (GroupLedger::new(&self.config), founders);
        sim.run_until(at(END_MS), &mut observers);
        let (ledger, founders) = observers;
        if let Some(second) = founders.second {
            return Err(format!("D1 one group: {:?} and {second:?}", founders.first));
        }
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        ledger.check_converged(&sim, &wanted).map_err(|broken| broken.to_string())?;
        Ok(Outcome {
            digest: sim.digest(),
            founders: founders.first,
            whole_at_ms: founders
                .whole_at
                .map_or(END_MS, |at| at.since(Instant::ZERO).as_millis() as u64),
            attempts: sim.counters().count(counters::FOUNDING_ATTEMPTS.name()),
        })
    }
}

fn calm() -> LinkFaults {
    LinkFaults { delay: Duration::from_micros(200), ..LinkFaults::default() }
}

/// D1: all first views that hosts were told are one.
#[derive(Debug, Default)]
struct Founders {
    hosts: usize,
    first: Vec<Member>,
    second: Option<Vec<Member>>,
    // The number of members that each host was told last.
    members: BTreeMap<NodeId, usize>,
    whole_at: Option<Instant>,
}

impl<P: Host> Observer<P> for Founders {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        let Event::View(view) = event else { return };
        if view.id() == ViewId(1) {
            if self.first.is_empty() {
                self.first = view.members().to_vec();
            } else if self.first != view.members() {
                self.second = Some(view.members().to_vec());
            }
        }
        self.members.insert(node, view.len());
        let is_whole =
            self.members.values().filter(|&&len| len == self.hosts).count() == self.hosts;
        if is_whole {
            self.whole_at.get_or_insert(at);
        }
    }
}

impl Swarm for Run {
    type Outcome = Outcome;

    const OPTIONS: Options<Run> = &[
        ("crashes", |run| {
            run.faults.retain(|(_, it)| !matches!(it, Fault::Crash(_) | Fault::Restart(_)));
            run.crashed = None;
        }),
        ("pauses", |run| run.faults.retain(|(_, it)| !matches!(it, Fault::Pause(..)))),
        ("partitions", |run| {
            run.faults.retain(|(_, it)| !matches!(it, Fault::Partition(_) | Fault::Block(..)));
        }),
        ("link faults", |run| run.faults.retain(|(_, it)| !matches!(it, Fault::Link { .. }))),
        ("the codec", |run| run.codec = Codec::Typed),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn suite(&self) -> &'static str {
        "gather_seeds"
    }

    fn describe(&self) -> String {
        let faults = self.faults.iter().map(|(when, fault)| format!("{when} {fault:?}"));
        let acts = self.acts.iter().map(|(when, act, host)| format!("{when} {host} {act:?}"));
        let lines: Vec<String> = acts.chain(faults).collect();
        format!("{} hosts, {} create the group\n{}", self.hosts, self.expect, lines.join("\n"))
    }

    fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    fn run_honest(&self) -> Result<Outcome, String> {
        self.run(honest(&self.config))
    }

    fn digest(outcome: &Outcome) -> Digest {
        outcome.digest
    }
}

/// Runs drawn runs, and prints how long it took until all hosts were in one view.
pub fn run_all(what: &str, draw: impl Fn(u64) -> Run + Sync) {
    let whole_ms = std::sync::Mutex::new(Vec::new());
    let (count, [attempts]) = seeds::run_all(|seed| {
        let outcome = draw(seed).run_repeated()?;
        whole_ms.lock().expect("no panic under the lock").push(outcome.whole_at_ms);
        Ok([outcome.attempts])
    });
    let mut whole_ms = whole_ms.into_inner().expect("no panic");
    whole_ms.sort_unstable();
    let (median, last) = (whole_ms[whole_ms.len() / 2], whole_ms.last().expect("some"));
    println!(
        "{what}: {count} seeds, one group each, {attempts} attempts, whole after {median} ms \
         (median), {last} ms at most"
    );
}
