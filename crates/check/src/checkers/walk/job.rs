use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_proto::core::Instant;
use paceline_proto::walk::{
    Config, Generation, Job, JobReport, Length, Recovery, UnderWay, Vertex, Walk,
};

use super::world::World;
use super::{Broken, Rule};

/// How much later than it should a walk may be given up: deadlines are a millisecond apart.
const TICK: Duration = Duration::from_millis(2);

/// A walk that was begun and is not done.
#[derive(Clone, Copy, Debug)]
struct Begun {
    first: Instant,
    /// As `first`, or when its job was asked for: attempts that are dropped where they are begun
    /// are not seen.
    earliest: Instant,
    attempt: u8,
}

/// The walks that were begun and are not done, by number and by age.
#[derive(Debug, Default)]
struct Open {
    walks: BTreeMap<u64, Begun>,
    ages: BTreeSet<(Instant, u64)>,
}

impl Open {
    fn begin(&mut self, walk: u64, new: Begun) -> &mut Begun {
        self.walks.entry(walk).or_insert_with(|| {
            self.ages.insert((new.first, walk));
            new
        })
    }

    fn end(&mut self, walk: u64) -> Option<Begun> {
        let begun = self.walks.remove(&walk)?;
        self.ages.remove(&(begun.first, walk));
        Some(begun)
    }

    fn oldest(&self) -> Option<(u64, &Begun)> {
        self.ages.first().map(|(_, walk)| (*walk, &self.walks[walk]))
    }
}

/// A job that was asked for.
#[derive(Debug)]
pub(super) struct JobLedger {
    job: Job,
    asked: Instant,
    regenerates: bool,
    open: Open,
    /// The walks under way, and which attempt at each.
    under_way: BTreeMap<u64, u8>,
    told: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    /// Walks that were reported or given up since the last check.
    just_over: Vec<u64>,
    /// Number of reported walks of each source.
    of_sources: BTreeMap<Vertex, u64>,
    /// Attempts of all walks that are over.
    attempts: u64,
    steps: u64,
    unconsumed: usize,
}

impl JobLedger {
    pub(super) fn new(job: Job, config: &Config, at: Instant) -> JobLedger {
        let recovery = match config.generation {
            Generation::Paced(paced) => paced.recovery,
            Generation::Window(_) | Generation::Supersteps(_) => Recovery::Reexecute,
        };
        JobLedger {
            job,
            asked: at,
            regenerates: recovery == Recovery::Regenerate,
            open: Open::default(),
            under_way: BTreeMap::new(),
            told: BTreeSet::new(),
            failed: BTreeSet::new(),
            just_over: Vec::new(),
            of_sources: BTreeMap::new(),
            attempts: 0,
            steps: 0,
            unconsumed: 0,
        }
    }

    fn walks(&self) -> u64 {
        self.job.sources.len() as u64 * u64::from(self.job.walks)
    }

    /// All walks are over: the job is to end.
    pub(super) fn is_over(&self) -> bool {
        (self.told.len() + self.failed.len()) as u64 >= self.walks()
    }

    /// How far it is, in words.
    pub(super) fn progress(&self) -> String {
        let (told, failed) = (self.told.len(), self.failed.len());
        format!("{told} done and {failed} abandoned of {} walks", self.walks())
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.unconsumed = self.unconsumed.saturating_sub(count);
    }

    /// Notes a reported walk.
    pub(super) fn tell(&mut self, world: &World, walk: &Walk) -> Result<(), Broken> {
        let number = walk.walk;
        if !self.told.insert(number) {
            return Err((Rule::Copies, format!("walk {number} is reported twice")));
        }
        if self.failed.contains(&number) {
            return Err((Rule::Copies, format!("walk {number} is reported, and was abandoned")));
        }
        self.check_source(walk)?;
        world.check(&self.job, walk)?;
        self.open.end(number);
        self.just_over.push(number);
        self.attempts += u64::from(walk.attempts);
        self.steps += u64::from(walk.steps);
        self.unconsumed += 1;
        Ok(())
    }

    fn check_source(&mut self, walk: &Walk) -> Result<(), Broken> {
        let Walk { walk: number, source, .. } = *walk;
        let sources = &self.job.sources;
        let told = self.of_sources.entry(source).or_default();
        *told += 1;
        let is_asked = if self.regenerates {
            let places = (0..sources.len()).filter(|&place| sources.vertex(place) == source);
            *told <= places.count() as u64 * u64::from(self.job.walks)
        } else {
            number < self.job.sources.len() as u64 * u64::from(self.job.walks)
                && sources.vertex((number / u64::from(self.job.walks)) as usize) == source
        };
        if !is_asked {
            let what = format!("walk {number} from {source} was not asked for");
            return Err((Rule::Copies, what));
        }
        Ok(())
    }

    /// A walk is given up.
    pub(super) fn fail(
        &mut self,
        at: Instant,
        (walk, attempt): (u64, u8),
        config: &Config,
    ) -> Result<(), Broken> {
        if self.told.contains(&walk) || !self.failed.insert(walk) {
            return Err((
                Rule::Copies,
                format!("walk {walk} is given up, and was done or given up"),
            ));
        }
        self.attempts += u64::from(attempt);
        self.just_over.push(walk);
        let begun = self.open.end(walk);
        let age = at.since(begun.map_or(self.asked, |begun| begun.earliest));
        if self.regenerates || attempt < config.attempts_max && age < config.walk_time_max {
            let what = format!("walk {walk} is given up at attempt {attempt}, after {age:?}");
            return Err((Rule::Completion, what));
        }
        Ok(())
    }

    /// What has changed since the last look: the walks in `less` are no longer under way, those in
    /// `more` now are. A walk at another attempt is in both.
    pub(super) fn look<'a>(
        &mut self,
        at: Instant,
        (less, more): (
            impl Iterator<Item = &'a UnderWay> + Clone,
            impl Iterator<Item = &'a UnderWay>,
        ),
        (config, stood): (&Config, Duration),
    ) -> Result<(), Broken> {
        for of in less.clone() {
            self.under_way.remove(&of.walk);
        }
        for UnderWay { walk, attempt, .. } in more {
            if self.under_way.insert(*walk, *attempt).is_some() {
                let what = format!("two attempts at walk {walk} are under way");
                return Err((Rule::Copies, what));
            }
            self.attempt(at, (*walk, *attempt), config)?;
        }
        let mut just_over = std::mem::take(&mut self.just_over).into_iter();
        if let Some(walk) = just_over.find(|walk| self.under_way.contains_key(walk)) {
            let what = format!("walk {walk} is over and under way");
            return Err((Rule::Copies, what));
        }
        if self.regenerates {
            // Whose walks are complete has no further need of the others.
            for of in less.filter(|of| !self.under_way.contains_key(&of.walk)) {
                self.open.end(of.walk);
            }
        }
        let count = self.under_way.len();
        if count > self.job.in_flight_max {
            let what = format!("{count} walks under way, at most {}", self.job.in_flight_max);
            return Err((Rule::Credits, what));
        }
        if count + self.unconsumed > config.results_max {
            let (unconsumed, most) = (self.unconsumed, config.results_max);
            let what = format!("{count} under way and {unconsumed} not consumed, at most {most}");
            return Err((Rule::Credits, what));
        }
        let age_max = config.walk_time_max + TICK + stood;
        let old = self.open.oldest().filter(|(_, begun)| at.since(begun.first) > age_max);
        if let Some((walk, begun)) = old {
            let what = format!("walk {walk} has not ended, begun at {}: {begun:?}", begun.first);
            return Err((Rule::Completion, what));
        }
        Ok(())
    }

    /// A walk is under way that was not, or at another attempt.
    fn attempt(
        &mut self,
        at: Instant,
        (walk, attempt): (u64, u8),
        config: &Config,
    ) -> Result<(), Broken> {
        if self.told.contains(&walk) || self.failed.contains(&walk) {
            let what = format!("walk {walk} is over and under way");
            return Err((Rule::Copies, what));
        }
        let earliest = if attempt > 1 { self.asked } else { at };
        let begun = self.open.begin(walk, Begun { first: at, earliest, attempt });
        if attempt < begun.attempt || attempt > config.attempts_max {
            let (was, most) = (begun.attempt, config.attempts_max);
            let what = format!("attempt {attempt} at walk {walk}, after {was}, at most {most}");
            return Err((Rule::Completion, what));
        }
        begun.attempt = attempt;
        Ok(())
    }

    /// The job has ended.
    pub(super) fn end(
        self,
        at: Instant,
        report: &JobReport,
        is_cancelled: bool,
    ) -> Result<(), Broken> {
        if !is_cancelled && !self.is_over() {
            return Err((Rule::Completion, format!("a job ends with {}", self.progress())));
        }
        let (told, failed) = (self.told.len() as u64, self.failed.len() as u64);
        let seen = (self.walks(), told, failed, self.steps, at.since(self.asked));
        let JobReport { walks, finished, failed, steps, took, generated, .. } = *report;
        if seen != (walks, finished, failed, steps, took) {
            return Err((Rule::Report, format!("{report:?} where {seen:?} was seen")));
        }
        let exact = !self.regenerates && !is_cancelled;
        if exact && generated != self.attempts || generated < self.attempts {
            let what = format!("{generated} generated, of {} attempts", self.attempts);
            return Err((Rule::Report, what));
        }
        Ok(())
    }
}

/// Why a server must refuse a job, as text.
pub(super) fn refusal<'a>(
    job: &Job,
    config: &Config,
    world: &World,
    mut running: impl ExactSizeIterator<Item = &'a Job>,
) -> Option<&'static str> {
    let sources = || (0..job.sources.len()).map(|place| job.sources.vertex(place));
    if running.len() >= config.jobs_max {
        Some("too many jobs")
    } else if running.any(|other| other.id == job.id) {
        Some("one of the same name")
    } else if job.kind.check(world.is_labelled()).is_err() {
        Some("an impossible kind")
    } else if job.length.steps_max() > Length::STEPS_MAX {
        Some("too long walks")
    } else if job.walks == 0 || job.sources.is_empty() {
        Some("no walks")
    } else if sources().any(|source| source >= world.vertices()) {
        Some("a source that is not a vertex")
    } else {
        None
    }
}

impl JobLedger {
    pub(super) fn job(&self) -> &Job {
        &self.job
    }
}
