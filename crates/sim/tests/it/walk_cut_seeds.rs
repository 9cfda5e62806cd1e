//! Walks where links are cut permanently. The promises are those of `walk_seeds`: every job ends,
//! and each of its walks is reported or given up. Once the faults are over, a job of a client loses
//! no walk if it needs only servers among which all links work.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::walk_swarm;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use paceline_check::cuts::Cuts;
use paceline_check::{Tamper, Wrapped, seeds};
use paceline_proto::core::{Context, NodeId, Rng};
use paceline_proto::walk::{Event, Job, JobId, Kind, Length, QueueConfig, Server, Sources, Trail};
use walk_swarm::draw::regenerates;
use walk_swarm::{FAULTS_MS, Scenario, at, millis};

/// Jobs that begin after the faults have these numbers and higher ones.
const LATE: u64 = 1_000_000;
const WALKS: u32 = 5;

/// Counts the walks of late jobs.
#[derive(Clone, Default)]
struct Late {
    walks: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    ended: Arc<AtomicU64>,
}

impl Tamper<Server> for Late {
    fn tamper(&mut self, _: &mut Server, cx: &mut Context<'_, Server>) {
        let add = |count: &AtomicU64, more: u64| _ = count.fetch_add(more, Ordering::Relaxed);
        for event in &cx.outbox.events {
            match event {
                Event::Walks(job, walks) if job.0 >= LATE => add(&self.walks, walks.len() as u64),
                Event::Failed(job, ..) if job.0 >= LATE => add(&self.failed, 1),
                Event::Ended(job, ..) if job.0 >= LATE => add(&self.ended, 1),
                Event::Refused(job, why) if job.0 >= LATE => panic!("{job:?} was refused: {why:?}"),
                _ => {}
            }
        }
    }
}

/// Of half of the seeds all vertices lie in the core: what is cut off are clients, and servers that
/// own nothing.
fn run(seed: u64) -> Result<[u64; 5], String> {
    let mut rng = Rng::new(seed, 0x5e7e);
    let mut scenario = Scenario::draw(seed);
    scenario.suite = "walk_cut_seeds";
    let when = at(rng.below(FAULTS_MS));
    let Some(cuts) = Cuts::draw(&mut rng, scenario.nodes(), when) else {
        return Ok([0; 5]);
    };
    // What is lost is replaced by other walks, without end where a server is cut off.
    if scenario.configs.iter().any(regenerates) {
        return Ok([0; 5]);
    }
    scenario.faults.extend(cuts.faults());
    let servers = scenario.servers;
    let core: Vec<u16> =
        cuts.core.iter().filter(|n| **n < NodeId::from(servers)).map(|n| n.0 as u16).collect();
    // So that all walks that need a server that is cut off are given up within the run.
    for config in &mut scenario.configs {
        config.walk_time_max = config.walk_time_max.min(millis(500));
    }
    let is_core_enough = !core.is_empty() && rng.chance(0.5);
    let late = Late::default();
    if is_core_enough {
        for owner in scenario.owners.iter_mut().filter(|owner| !core.contains(owner)) {
            *owner = core[rng.below(core.len() as u32) as usize];
        }
        for (number, &node) in (0..).zip(&cuts.core) {
            let config = &mut scenario.configs[node.index()];
            config.attempts_max = 255;
            // With time-outs of 0 all attempts begin before the first one can be back.
            config.timeout_min = config.timeout_min.max(millis(20));
            config.queue = QueueConfig::default();
            config.jobs_max = config.jobs_max.max(20);
            scenario.jobs.push((at(FAULTS_MS) + millis(500), node, late_job(number, seed)));
        }
    }
    let wanted = if is_core_enough { cuts.core.len() as u64 } else { 0 };
    let outcome = scenario.run_with(|_, config, part| {
        let server = Server::new(config, part).expect("what is drawn is possible");
        Wrapped::new(server, Some(late.clone()))
    })?;
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (ended, walks) = (count(&late.ended), count(&late.walks));
    if (ended, walks, count(&late.failed)) != (wanted, wanted * u64::from(WALKS), 0) {
        let failed = count(&late.failed);
        return Err(format!(
            "of {wanted} jobs in the core {ended} ended, {walks} walks were done, {failed} \
             failed\n{}\n{scenario:#?}",
            seeds::replay(scenario.suite, seed)
        ));
    }
    let totals = outcome.totals;
    Ok([outcome.severed, wanted, totals.finished, totals.failed, totals.ended])
}

fn late_job(number: u64, seed: u64) -> Job {
    Job {
        id: JobId(LATE + number),
        seed,
        kind: Kind::Uniform,
        length: Length::Steps(10),
        sources: Sources::Range(0..1),
        walks: WALKS,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }
}

#[test]
fn seeds_end_every_job_where_links_are_cut_for_good() {
    let (count, [severed, late, finished, failed, ended]) = seeds::run_all(run);
    println!(
        "{count} seeds: {severed} messages severed, {ended} jobs ended, {finished} walks told, \
         {failed} given up, {late} jobs in the core lost none"
    );
    assert!(count < 100 || severed > 10 * count, "the cuts did not act");
    assert!(count < 100 || late > count && failed > count, "the seeds tested nothing");
}
