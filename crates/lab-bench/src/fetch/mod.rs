//! `paceline bench fetch`: named data between processes at a fair rate, over several paths that
//! share a link, and over one path of 100 Mbit/s; in a network lab with shaped ports, or on
//! loopback.
//!
//! Two cases. *Slingshot* is the network of Mahdian et al. 2016, slides 16 and 25: two consumers at
//! E1, one link from there to F2, and two from F2 to producers at E4 and E3. The first consumer's
//! file is at both ends, the second one's at one of them, so that the first has two paths and the
//! second one. The second comes for the middle of the time. *Single* is one consumer, a forwarder
//! and a producer in a row.
//!
//! E1, E3 and E4 have one link each, which is their port in the lab; the port of F2 is wide. So
//! what a shaper counts is what its link carries, Interests of the other way included.

mod network;
mod phase;
mod processes;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use paceline_lab::LabError;
use paceline_lab::machine::load_average;
use paceline_lab::scenario::Rate;
use paceline_lab::{Progress, Seconds};
use paceline_lab_services::mircc::oracle::Problem;
use paceline_lab_services::mircc::topology::{Branch, Flows, Routing, Slingshot};
use paceline_proto::core::Rng;
use serde::Serialize;

use network::Network;
use phase::{Carried, Measured, judge};
pub use phase::{ConsumerRow, PhaseRow};
use processes::Running;

/// The nodes of both cases, by their places in the network.
const E1: usize = 0;
const F2: usize = 1;
const E4: usize = 2;
const E3: usize = 3;
/// The files: the first consumer's and the second one's.
const ONE: &str = "one.bin";
const TWO: &str = "two.bin";
/// What a segment takes on a link beside its content, at least, bytes. It is more, so files last a
/// little longer than they are to.
const SEGMENT_MORE_BYTES: usize = 100;
/// How much longer the first consumer's file lasts than what is measured of it.
const LONGER: f64 = 1.1;
/// How much longer a file takes at least than what is measured of it: a consumer's first sample,
/// with which measuring begins, comes up to a quarter of a second late, and a busy machine adds
/// to that.
const STAYS: Duration = Duration::from_secs(3);
/// How long a consumer may take until something comes.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// Interval at which processes are polled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where the processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchPlace {
    /// On loopback: the configured rates of faces stand for links.
    Loopback,
    /// Each node in a network namespace of its own, its port shaped as its link is. Linux, root.
    Netns,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchCase {
    /// Two consumers behind one link that forks.
    Slingshot,
    /// One consumer, one path.
    Single,
}

impl FetchCase {
    /// Both, in the order of a whole bench.
    pub const ALL: [FetchCase; 2] = [FetchCase::Slingshot, FetchCase::Single];

    fn name(self) -> &'static str {
        match self {
            FetchCase::Slingshot => "slingshot",
            FetchCase::Single => "single",
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// Where.
    pub place: FetchPlace,
    /// Rate of the link that both consumers of the slingshot share, E1 to F2.
    pub joint: Rate,
    /// Rate of the link to E4.
    pub left: Rate,
    /// Rate of the link to E3.
    pub right: Rate,
    /// Where the second consumer's file is.
    pub second: Branch,
    /// Rate of both links of the single path.
    pub single: Rate,
    /// Measured time of each phase.
    pub duration: Duration,
    /// Time before that, in which rates settle.
    pub settle: Duration,
    /// Bytes of a segment.
    pub segment_bytes: usize,
    /// The required link utilisation, as a share of capacity.
    pub least: f64,
    /// How far consumers may be from the same share of what is theirs, as a share.
    pub apart: f64,
}

/// What was measured of a case.
#[derive(Clone, Debug, Serialize)]
pub struct FetchRow {
    /// `slingshot` or `single`.
    pub case: &'static str,
    /// Its phases, in their order.
    pub phases: Vec<PhaseRow>,
    /// The files that were fetched.
    pub files: Vec<FileRow>,
    /// The requirements that were missed, a line each.
    pub missed: Vec<String>,
    /// Load average of the last minute when the case ended.
    pub load: f64,
}

/// A file that was fetched.
#[derive(Clone, Debug, Serialize)]
pub struct FileRow {
    /// The consumer: `C1` or `C2`.
    pub consumer: &'static str,
    /// Its bytes.
    pub bytes: u64,
    /// From the first segment to the last.
    pub seconds: f64,
    /// Of the file, meanwhile.
    pub goodput_mbit: f64,
    /// Whether the producer's digest fits.
    pub is_verified: bool,
    /// Interests that nothing came for in time.
    pub timeouts: u64,
    /// Interests that were refused.
    pub nacks: u64,
    /// Segments that came twice.
    pub duplicates: u64,
}

/// Runs one case; `program` is this program, started again as `serve`, `forward` and `fetch`.
pub fn run(
    plan: &FetchPlan,
    case: FetchCase,
    program: &Path,
    progress: &dyn Progress,
) -> Result<FetchRow, LabError> {
    let folder = tempfile::tempdir()
        .map_err(|error| LabError::Run(format!("cannot create a temporary folder: {error}")))?;
    let stage = Stage { plan, folder: folder.path(), program, progress };
    let mut row = match case {
        FetchCase::Slingshot => stage.slingshot()?,
        FetchCase::Single => stage.single()?,
    };
    for phase in &row.phases {
        row.missed.extend(phase.missed.iter().map(|why| format!("{}: {why}", phase.phase)));
    }
    for file in row.files.iter().filter(|file| !file.is_verified) {
        row.missed
            .push(format!("{} did not report that the digest of its file matches", file.consumer));
    }
    Ok(row)
}

/// What all cases have.
struct Stage<'a> {
    plan: &'a FetchPlan,
    folder: &'a Path,
    program: &'a Path,
    progress: &'a dyn Progress,
}

impl Stage<'_> {
    fn slingshot(&self) -> Result<FetchRow, LabError> {
        let FetchPlan { joint, left, right, second, settle, duration, .. } = *self.plan;
        let expected = expected(self.plan)?;
        let phase = (settle + duration).as_secs_f64();
        let stays = phase + STAYS.as_secs_f64();
        self.write(TWO, expected.shared[1] * stays)?;
        let first = expected.alone * (2.0 * phase + STAYS.as_secs_f64());
        self.write(ONE, (first + expected.shared[0] * stays) * LONGER)?;

        let ports = [(E1, joint), (E4, left), (E3, right)];
        let network = Network::build(self.plan.place, 4, &ports, self.program, self.progress)?;
        let (served, segment_bytes) = (self.folder.join("served"), self.plan.segment_bytes);
        let end_of_two = if second == Branch::Left { E4 } else { E3 };
        let two = format!("/p/{TWO}");
        let mut servers = vec![
            network.serve("the producer at E4", (E4, left), &served, segment_bytes)?,
            network.serve("the producer at E3", (E3, right), &served, segment_bytes)?,
            network.forward(
                "the forwarder F2",
                F2,
                &[(E1, joint), (E4, left), (E3, right)],
                &[("/p", E4), ("/p", E3), (&two, end_of_two)],
            )?,
            network.forward("the forwarder E1", E1, &[(F2, joint)], &[("/p", F2)])?,
        ];

        let total = settle * 3 + duration * 3 + STAYS * 2;
        let mut clock = Clock::new(self.progress, total, "slingshot");
        let mut first = network.fetch("consumer C1", E1, (E1, None), ONE, self.folder)?;
        clock.begin(&mut first, &mut servers)?;
        let before = clock.measure(self.plan, &network, &mut servers, &mut [&mut first])?;

        let mut other = network.fetch("consumer C2", E1, (E1, None), TWO, self.folder)?;
        clock.begin(&mut other, &mut servers)?;
        let during =
            clock.measure(self.plan, &network, &mut servers, &mut [&mut first, &mut other])?;
        let within = settle + duration + STAYS * 2;
        let mut missed = Vec::new();
        if !clock.end(&mut other, &mut servers, Some(&mut first), within)? {
            missed.push("C2 did not complete its fetch within twice the expected time".to_owned());
        }
        let second_file = other.whole();
        drop(other);
        let after = clock.measure(self.plan, &network, &mut servers, &mut [&mut first])?;
        // The rest of it is a tenth, at the least rate that is no miss some more.
        if !clock.end(&mut first, &mut servers, None, total)? {
            missed.push("C1 did not complete its fetch within twice the expected time".to_owned());
        }
        let files = [("C1", first.whole()), ("C2", second_file)];
        let alone = [expected.alone];
        let phases = [
            ("alone", before, &alone[..]),
            ("shared", during, &expected.shared[..]),
            ("after", after, &alone[..]),
        ];
        Ok(self.row(FetchCase::Slingshot, phases.to_vec(), &files, missed))
    }

    fn single(&self) -> Result<FetchRow, LabError> {
        let FetchPlan { single, settle, duration, .. } = *self.plan;
        let expected = [single.bits_per_second() as f64];
        self.write(ONE, expected[0] * (settle + duration + STAYS).as_secs_f64() * LONGER)?;
        let ports = [(E1, single), (E4, single)];
        let network = Network::build(self.plan.place, 3, &ports, self.program, self.progress)?;
        let (served, segment_bytes) = (self.folder.join("served"), self.plan.segment_bytes);
        let mut servers = vec![
            network.serve("the producer", (E4, single), &served, segment_bytes)?,
            network.forward("the forwarder", F2, &[(E4, single)], &[("/p", E4)])?,
        ];
        let mut clock = Clock::new(self.progress, settle + duration + STAYS, "single path");
        let mut first = network.fetch("the consumer", E1, (F2, Some(single)), ONE, self.folder)?;
        clock.begin(&mut first, &mut servers)?;
        let measured = clock.measure(self.plan, &network, &mut servers, &mut [&mut first])?;
        let mut missed = Vec::new();
        if !clock.end(&mut first, &mut servers, None, settle + duration + STAYS * 2)? {
            missed.push("C1 did not complete its fetch within twice the expected time".to_owned());
        }
        let files = [("C1", first.whole())];
        let phases = vec![("alone", measured, &expected[..])];
        Ok(self.row(FetchCase::Single, phases, &files, missed))
    }

    fn row(
        &self,
        case: FetchCase,
        phases: Vec<(&'static str, Measured, &[f64])>,
        files: &[(&'static str, Option<processes::Whole>)],
        missed: Vec<String>,
    ) -> FetchRow {
        let phases = phases
            .into_iter()
            .map(|(name, measured, expected)| judge(name, &measured, expected, self.plan));
        let file = |(consumer, whole): &(&'static str, Option<processes::Whole>)| {
            let whole = whole.as_ref()?;
            Some(FileRow {
                consumer,
                bytes: whole.bytes,
                seconds: whole.transfer_seconds,
                goodput_mbit: whole.mbit_per_s,
                is_verified: whole.sha256.is_some(),
                timeouts: whole.timeouts,
                nacks: whole.nacks,
                duplicates: whole.duplicates,
            })
        };
        FetchRow {
            case: case.name(),
            phases: phases.collect(),
            files: files.iter().filter_map(file).collect(),
            missed,
            load: load_average().map_or(f64::NAN, |load| load[0]),
        }
    }

    /// Writes a file to serve whose segments take `link_bits` bits of a link, or a little more.
    fn write(&self, name: &str, link_bits: f64) -> Result<(), LabError> {
        let segment = self.plan.segment_bytes as f64;
        let share = segment / (segment + SEGMENT_MORE_BYTES as f64);
        let bytes = (link_bits / 8.0 * share) as u64;
        let served = self.folder.join("served");
        let path = served.join(name);
        let write = || {
            std::fs::create_dir_all(&served)?;
            let mut file = std::fs::File::create(&path)?;
            let mut rng = Rng::new(bytes, 0);
            let mut block = vec![0; 1 << 16];
            let mut left = bytes;
            while left > 0 {
                for eight in block.chunks_exact_mut(8) {
                    eight.copy_from_slice(&rng.next_u64().to_le_bytes());
                }
                let length = left.min(block.len() as u64);
                file.write_all(&block[..length as usize])?;
                left -= length;
            }
            Ok(())
        };
        write().map_err(LabError::write(&path))
    }
}

/// What links hold for consumers, bit/s.
struct Expected {
    alone: f64,
    shared: Vec<f64>,
}

/// What each consumer of the slingshot would get if flows were given all of a link, by the oracle.
fn expected(plan: &FetchPlan) -> Result<Expected, LabError> {
    let slingshot = Slingshot {
        joint_rate: plan.joint,
        left_rate: plan.left,
        right_rate: plan.right,
        second: plan.second,
        ..Slingshot::default()
    };
    let flows = Flows::new(&slingshot.build()?, Routing::Multi, 1.0, 16)?;
    let capacities = flows.problem.capacities().to_vec();
    let alone = Problem::new(capacities, vec![flows.problem.flows()[0].clone()])?;
    let totals = |problem: &Problem| problem.dual_class(1.1).totals();
    Ok(Expected { alone: totals(&alone)[0], shared: totals(&flows.problem) })
}

/// Waits, looking at processes and telling how far the case is.
struct Clock<'a> {
    progress: &'a dyn Progress,
    began: Instant,
    seconds: Seconds<'a>,
}

impl<'a> Clock<'a> {
    fn new(progress: &'a dyn Progress, total: Duration, what: &str) -> Clock<'a> {
        Clock { progress, began: Instant::now(), seconds: Seconds::start(progress, total, what) }
    }

    fn look(&mut self, servers: &mut [Running]) -> Result<(), LabError> {
        if self.progress.stopped() {
            return Err(LabError::StoppedEarly);
        }
        self.seconds.reach(self.began.elapsed());
        std::thread::sleep(LOOK_EVERY);
        servers.iter_mut().try_for_each(Running::check)
    }

    /// Waits until something has come.
    fn begin(&mut self, consumer: &mut Running, servers: &mut [Running]) -> Result<(), LabError> {
        let end = Instant::now() + BEGINS_WITHIN;
        while !consumer.has_begun() {
            self.look(servers)?;
            consumer.check()?;
            if Instant::now() >= end {
                let why = format!("a consumer received nothing within {BEGINS_WITHIN:?}");
                return Err(LabError::Run(why));
            }
        }
        Ok(())
    }

    fn pass(
        &mut self,
        time: Duration,
        servers: &mut [Running],
        consumers: &mut [&mut Running],
    ) -> Result<(), LabError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.look(servers)?;
            for consumer in &mut *consumers {
                if consumer.has_ended()? {
                    let why = "a consumer completed its fetch before the measurement ended: it was \
                               faster than its links, or --seconds is too short";
                    return Err(LabError::Run(why.to_owned()));
                }
            }
        }
        Ok(())
    }

    /// Lets rates settle, and measures.
    fn measure(
        &mut self,
        plan: &FetchPlan,
        network: &Network,
        servers: &mut [Running],
        consumers: &mut [&mut Running],
    ) -> Result<Measured, LabError> {
        self.pass(plan.settle, servers, consumers)?;
        let nodes = network.nodes();
        let look =
            || nodes.clone().map(|node| network.traffic(node)).collect::<Result<Vec<_>, _>>();
        let (before, from) = (look()?, Instant::now());
        self.pass(plan.duration, servers, consumers)?;
        let (after, to) = (look()?, Instant::now());
        let ports = before.into_iter().zip(after).map(|(before, after)| before.zip(after));
        let samples = consumers.iter().map(|consumer| consumer.between(from, to));
        Ok(Measured {
            seconds: (to - from).as_secs_f64(),
            ports: ports
                .map(|port| port.map(|(before, after)| Carried::new(before, after)))
                .collect(),
            consumers: samples.collect(),
        })
    }

    /// Waits until a consumer has its file; false if that takes too long.
    fn end(
        &mut self,
        consumer: &mut Running,
        servers: &mut [Running],
        mut other: Option<&mut Running>,
        within: Duration,
    ) -> Result<bool, LabError> {
        let end = Instant::now() + within;
        while !consumer.has_ended()? {
            self.look(servers)?;
            if let Some(other) = &mut other {
                other.check()?;
            }
            if Instant::now() >= end {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
