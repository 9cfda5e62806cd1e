//! A job at its home: the next walk to begin, and the walks that have begun.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::config::{Config, Control, Generation, PacedConfig, Recovery};
use super::flights::{FLIGHTS_MAX, Flight, Flights, attempt_of};
use super::interface::{Job, JobReport, Walk};
use super::message::{Ended, Head, Traveller};
use super::rtt::{DelayDetector, RoundTrip, TimeoutStretch};
use super::walker::Walker;
use super::window::{LOCAL_DROP_WAIT_MIN, Window};
use crate::core::Instant;
use crate::graphshare::Vertex;

/// How long a walk may take before any has come back. Source: RFC 6298, section 2.1.
const FIRST_TIMEOUT: Duration = Duration::from_secs(1);
/// Walks that have to finish before the estimate of their time is used. Source: the slides, of a
/// source vertex.
const SAMPLES_MIN: u64 = 3;

/// A walk may take this many time-outs while no walk that began later has come home. Ours.
const PATIENCE: u32 = 4;

/// The usual time of a walk is divided into this many intervals, at whose ends it is checked. Ours.
const LOOKS: u64 = 32;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// Where a walk has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedAt {
    /// At its home.
    Home,
    /// At another server.
    Elsewhere,
}

/// A job.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) job: Job,
    pub(super) head: Arc<Head>,
    pub(super) report: JobReport,
    pace: Pace,
    /// Walks under way, and lost walks that wait to be sent again.
    flights: Flights,
    /// Tokens of lost walks that wait to be sent again, by their time and walk number.
    again: BTreeMap<(Instant, u64), u64>,
    /// The same walks, by when they are given up if they have not been begun until then.
    expiries: BTreeMap<(Instant, u64), Instant>,
    /// The next walk that was never begun, and the one after the last.
    next: u64,
    end: u64,
    /// Walks that are done and not yet consumed.
    unconsumed: usize,
    trip: RoundTrip,
    stretch: TimeoutStretch,
    delays: DelayDetector,
    /// The latest begin time among the walks that have come home.
    newest_home: Instant,
    began: Instant,
}

#[derive(Debug)]
enum Pace {
    Paced(Paced),
    Window(Window),
}

/// The paper's RG: one walk at a time, slower after a loss.
#[derive(Debug)]
struct Paced {
    config: PacedConfig,
    /// When the next walk is due.
    due: Instant,
    /// Generations that are still to be followed by a gap.
    slow: u32,
    /// Losses, or marks, since the last generation.
    signals: u32,
    /// With `Regenerate`: the source whose turn it is.
    vertex: VertexTurn,
}

/// Sources take turns: a source's walks all finish before the next one begins.
#[derive(Debug, Default)]
struct VertexTurn {
    place: usize,
    finished: u32,
    /// Its latest walks, when and as what they were begun.
    latest: VecDeque<(Instant, u64)>,
}

/// A home's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Begin a walk now.
    Now,
    /// Begin one then.
    At(Instant),
    /// Nothing, until a walk comes home or is missed.
    Nothing,
}

impl Run {
    pub(super) fn new(config: &Config, job: Job, head: Arc<Head>, now: Instant) -> Run {
        let pace = match config.generation {
            Generation::Paced(config) => Pace::Paced(Paced {
                config,
                due: now,
                slow: config.clean,
                signals: 0,
                vertex: VertexTurn::default(),
            }),
            Generation::Window(config) => Pace::Window(Window::new(config, now)),
            Generation::Supersteps(_) => unreachable!("jobs in supersteps are not runs"),
        };
        let end = job.walks_in_all();
        let walks = end - job.first;
        Run {
            next: job.first,
            job,
            head,
            report: JobReport { walks, ..JobReport::default() },
            end,
            pace,
            flights: Flights::default(),
            again: BTreeMap::new(),
            expiries: BTreeMap::new(),
            unconsumed: 0,
            trip: RoundTrip::default(),
            stretch: TimeoutStretch::default(),
            delays: DelayDetector::default(),
            newest_home: now,
            began: now,
        }
    }

    /// Walks under way.
    pub(super) fn in_flight(&self) -> usize {
        self.flights.len() - self.again.len()
    }

    /// Steps of these walks and of lost walks that wait to be sent again.
    pub(super) fn steps(&self) -> u64 {
        self.flights.steps()
    }

    /// These and lost walks that wait to be sent again, each with the token of its latest attempt.
    pub(super) fn flights(&self) -> impl Iterator<Item = (u64, &Flight)> {
        self.flights.iter()
    }

    /// Walkers with these tokens come home.
    pub(super) fn expect(&self, tokens: impl Iterator<Item = u64>) {
        self.flights.touch(tokens);
    }

    /// True if all walks are done or given up.
    pub(super) fn is_over(&self) -> bool {
        self.report.finished + self.report.failed >= self.report.walks
    }

    /// Its report, at its end.
    pub(super) fn into_report(self, now: Instant) -> JobReport {
        JobReport { took: now.since(self.began), ..self.report }
    }

    /// Bytes that it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        self.flights.memory_bytes() + self.again.len() * 6 * size_of::<Instant>()
    }

    fn regenerates(&self) -> bool {
        matches!(&self.pace, Pace::Paced(paced) if paced.config.recovery == Recovery::Regenerate)
    }

    /// When the next walk may begin. `steps_max`: no further walk begins while the walks under way
    /// have this many steps.
    pub(super) fn due(&self, config: &Config, now: Instant, steps_max: u64) -> Due {
        let has_more = self.regenerates() || self.next < self.end;
        // Lost walks that wait to be sent again keep their places.
        let begun = self.flights.len();
        let has_room = begun + self.unconsumed < config.results_max
            && (begun == 0 || self.flights.steps() < steps_max)
            && begun < self.job.in_flight_max.min(FLIGHTS_MAX);
        let again = self.again.first_key_value().map(|(&(at, _), _)| at);
        if self.is_over() {
            return Due::Nothing;
        }
        if !(has_more && has_room) && again.is_none_or(|at| at > now) {
            return again.map_or(Due::Nothing, Due::At);
        }
        match &self.pace {
            Pace::Paced(paced) if paced.due <= now => Due::Now,
            Pace::Paced(paced) => Due::At(paced.due),
            Pace::Window(window) if !window.has_room(self.in_flight(), self.left()) => Due::Nothing,
            Pace::Window(window) if window.paused() > now => Due::At(window.paused()),
            Pace::Window(_) => Due::Now,
        }
    }

    /// Walks that are still to be begun.
    fn left(&self) -> u64 {
        self.end - self.next.min(self.end) + self.again.len() as u64
    }

    /// Begins a walk. To be called when it is [due](Self::due).
    pub(super) fn generate(&mut self, config: &Config, now: Instant) -> Traveller {
        let (token, flight, walker) = if let Some(lost) = self.take_again(config, now) {
            let (token, flight) = self.flights.begin_again(lost, now).expect("it waits");
            (token, flight, self.walker(flight.walk, flight.source))
        } else {
            let place = match &self.pace {
                Pace::Paced(paced) if paced.config.recovery == Recovery::Regenerate => {
                    paced.vertex.place
                }
                _ => (self.next / u64::from(self.job.walks)) as usize,
            };
            let (walk, source) = (self.next, self.job.sources.vertex(place));
            self.next += 1;
            let walker = self.walker(walk, source);
            let flight = Flight {
                walk,
                source,
                length: walker.steps_left,
                attempt: 1,
                is_waiting: false,
                sent: now,
                first_sent: now,
            };
            (self.flights.begin(flight), flight, walker)
        };
        self.report.generated += 1;
        self.flights.set_deadline(token, self.look(config, &flight, now));
        match &mut self.pace {
            Pace::Paced(paced) => paced.on_generated(now, token, &self.flights, &self.trip),
            Pace::Window(window) => window.on_begun(now),
        }
        Traveller { token, walker, path: Vec::new(), drawn: 0, is_marked: false, detours: 0 }
    }

    fn walker(&self, walk: u64, source: Vertex) -> Walker {
        Walker::new(self.job.seed, walk, source, self.job.length)
    }

    /// The token of the next lost walk whose time to be sent again has come.
    fn take_again(&mut self, config: &Config, now: Instant) -> Option<u64> {
        let next = self.again.first_entry().filter(|next| next.key().0 <= now)?;
        let token = next.remove();
        let flight = self.flights.flight(token).expect("it waits");
        self.expiries.remove(&(flight.first_sent + config.walk_time_max, flight.walk));
        Some(token)
    }

    /// Cancels the next attempt of a lost walk.
    fn forget_again(&mut self, config: &Config, flight: &Flight) {
        let expiry = (flight.first_sent + config.walk_time_max, flight.walk);
        if let Some(at) = self.expiries.remove(&expiry) {
            self.again.remove(&(at, flight.walk));
        }
    }

    /// When a walk is taken for lost: none may take longer than the longest, with all its attempts.
    fn deadline(&self, config: &Config, flight: &Flight, now: Instant) -> Instant {
        let last = flight.first_sent + config.walk_time_max;
        // Walks that others replace are not waited for, but not remembered for ever either.
        if self.regenerates() {
            return last;
        }
        last.min(flight.sent + self.timeout(config, flight, now))
    }

    /// The latest time to check a walk again: the estimated time of walks may have shrunk by then.
    fn look(&self, config: &Config, flight: &Flight, now: Instant) -> Instant {
        let last = flight.first_sent + config.walk_time_max;
        if self.regenerates() {
            return last;
        }
        // Long walks need no check to the millisecond: checking several together is cheaper.
        let usual = self.usual(config, flight);
        let grain = (usual.as_millis() as u64 / LOOKS).max(1).next_power_of_two() * NANOS_PER_MILLI;
        let look = (now + usual).as_nanos().div_ceil(grain).saturating_mul(grain);
        last.min(Instant::from_nanos(look))
    }

    /// Until when an overdue walk is still waited for. While no walk that began later has come
    /// home, all may be late for one reason, such as a process that waits for its processor. Source
    /// of the idea: RFC 8985 (RACK), section 3.
    fn patience(&self, config: &Config, flight: &Flight, now: Instant) -> Instant {
        let is_unknown = self.trip.samples() < SAMPLES_MIN;
        // At the end of a job no walks begin after this one, and few are re-executed without need.
        let is_end = self.left() == 0;
        if self.regenerates() || is_unknown || is_end || self.newest_home > flight.sent {
            return now;
        }
        let timeout = self.timeout(config, flight, now);
        let end = (flight.sent + timeout * PATIENCE).min(flight.first_sent + config.walk_time_max);
        end.min(now + timeout / 2)
    }

    /// The usual upper bound of a walk's time, from other walks: longer for longer walks.
    fn usual(&self, config: &Config, flight: &Flight) -> Duration {
        let one = if self.trip.samples() < SAMPLES_MIN {
            FIRST_TIMEOUT
        } else {
            self.trip.timeout_of(flight.length + 2)
        };
        one.max(config.timeout_min).min(config.walk_time_max)
    }

    /// How long a walk may take. Does not grow with attempts: where too many walks are lost, the
    /// window shrinks instead.
    fn timeout(&self, config: &Config, flight: &Flight, now: Instant) -> Duration {
        let timeout = self.usual(config, flight).mul_f64(self.stretch.factor(now));
        timeout.min(config.walk_time_max)
    }

    /// A walker has come home; none if its walk is over.
    pub(super) fn on_ended(
        &mut self,
        config: &Config,
        now: Instant,
        ended: Ended,
        ended_at: EndedAt,
    ) -> Option<Walk> {
        let Some(flight) = self.flights.end(ended.token) else {
            self.report.late += 1;
            return None;
        };
        let attempt = attempt_of(ended.token);
        if flight.is_waiting || attempt < flight.attempt {
            // It was not lost after all.
            self.stretch.on_late(now, self.flights.len());
        }
        if flight.is_waiting {
            self.forget_again(config, &flight);
        }
        let begun = flight.begun(attempt);
        let took = begun.map(|begun| now.since(begun));
        self.newest_home = self.newest_home.max(begun.unwrap_or_default());
        // Walks that ended here may never have left: they say nothing of the ways of others.
        let way = took.filter(|_| ended_at == EndedAt::Elsewhere);
        // Per hop, so that long walks do not look late beside short ones. The ways to and from the
        // first vertex are about two more.
        let hop = way.map(|way| way / (ended.steps + 2));
        if let Some(sample) = if self.regenerates() { took } else { hop } {
            self.trip.sample(sample);
        }
        self.report.finished += 1;
        self.report.steps += u64::from(ended.steps);
        self.report.marked += u64::from(ended.is_marked);
        self.unconsumed += 1;
        match &mut self.pace {
            Pace::Paced(paced) => {
                paced.signals += u32::from(ended.is_marked);
                if paced.config.recovery == Recovery::Regenerate {
                    paced.vertex.finished += 1;
                    if paced.vertex.finished >= self.job.walks {
                        let place = paced.vertex.place + 1;
                        paced.vertex = VertexTurn { place, ..VertexTurn::default() };
                        self.flights.clear();
                        self.trip = RoundTrip::default();
                    }
                }
            }
            Pace::Window(window) => {
                let is_late = hop.is_some_and(|hop| self.delays.sample(now, hop));
                let is_marked = ended.is_marked || is_late;
                let in_flight = self.flights.len() - self.again.len();
                window.on_ended(now, begun, way, is_marked, in_flight);
            }
        }
        let (path, versions) = self.job.trail.read(ended.path);
        Some(Walk {
            walk: flight.walk,
            source: flight.source,
            end: ended.at,
            steps: ended.steps,
            stop: ended.stop,
            attempts: flight.attempt,
            path,
            versions,
        })
    }

    /// A walker was dropped by this server: its source learns of it at once, if so configured.
    pub(super) fn on_local_drop(&mut self, config: &Config, now: Instant, token: u64) -> Loss {
        // This walker is not missed if later walkers of its walk are under way.
        if self.flights.awaited(token).is_none() {
            return Loss::Ignored;
        }
        match &mut self.pace {
            Pace::Paced(paced) if !paced.config.is_direct => return Loss::Ignored,
            Pace::Paced(paced) => paced.signals += 1,
            Pace::Window(window) => window.on_local_drop(now),
        }
        self.report.direct += 1;
        // The loss is known: later looks are not to find it once more.
        self.mark_lost(config, now, LOCAL_DROP_WAIT_MIN, token)
    }

    /// A walker of its own was marked right here.
    pub(super) fn on_local_mark(&mut self, now: Instant, token: u64) {
        match &mut self.pace {
            Pace::Paced(paced) => paced.signals += 1,
            Pace::Window(window) => {
                let flight = self.flights.flight(token);
                let begun = flight.and_then(|flight| flight.begun(attempt_of(token)));
                window.on_local_mark(now, begun);
            }
        }
    }

    /// Sends walks again that have taken too long, or gives them up.
    pub(super) fn take_overdue(
        &mut self,
        config: &Config,
        now: Instant,
        mut give_up: impl FnMut(Flight),
    ) {
        let mut due = Vec::new();
        self.flights.take_due(now, &mut due);
        let in_flight = self.in_flight();
        for token in due {
            let Some(&flight) = self.flights.flight(token) else { continue };
            // The usual time of walks may have changed since.
            let patience = self.patience(config, &flight, now);
            let deadline = self.deadline(config, &flight, now).max(patience);
            if deadline > now {
                let look = self.look(config, &flight, now);
                self.flights.set_deadline(token, look.min(deadline));
                continue;
            }
            self.report.timeouts += 1;
            match &mut self.pace {
                // Those that others replace were looked for when they were news.
                Pace::Paced(paced) if paced.config.recovery == Recovery::Regenerate => {}
                Pace::Paced(paced) => paced.signals += 1,
                Pace::Window(window) => window.on_lost(in_flight),
            }
            if let Loss::Failed(flight) = self.mark_lost(config, now, Duration::ZERO, token) {
                give_up(flight);
            }
        }
        while let Some(next) = self.expiries.first_entry().filter(|next| next.key().0 <= now) {
            let ((_, walk), at) = next.remove_entry();
            let token = self.again.remove(&(at, walk)).expect("each waits until its expiry");
            let flight = self.flights.end(token).expect("it waits");
            self.report.failed += 1;
            give_up(flight);
        }
    }

    /// When a walk may be overdue.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let expiry = self.expiries.first_key_value().map(|(&(at, _), _)| at);
        self.flights.next_deadline().into_iter().chain(expiry).min()
    }

    /// The application has consumed this many walks.
    pub(super) fn on_consumed(&mut self, count: usize) {
        self.unconsumed = self.unconsumed.saturating_sub(count);
    }

    /// A walk is lost. It is sent again after `wait`, doubled with each attempt, or has failed.
    fn mark_lost(&mut self, config: &Config, now: Instant, wait: Duration, token: u64) -> Loss {
        let Some(&flight) = self.flights.flight(token) else { return Loss::Ignored };
        if self.regenerates() {
            self.flights.end(token);
            return Loss::Replaced;
        }
        let age = now.since(flight.first_sent);
        if flight.attempt >= config.attempts_max || age >= config.walk_time_max {
            self.flights.end(token);
            self.report.failed += 1;
            return Loss::Failed(flight);
        }
        let wait = wait * (1 << u32::from(flight.attempt - 1).min(10));
        let expiry = flight.first_sent + config.walk_time_max;
        let at = (now + wait).min(expiry);
        self.flights.set_waiting(token);
        self.again.insert((at, flight.walk), token);
        self.expiries.insert((expiry, flight.walk), at);
        Loss::Replaced
    }
}

/// The consequence of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The job does not act on the loss, or not yet.
    Ignored,
    /// Another walk, or the same once more, takes its place.
    Replaced,
    /// The walk has failed.
    Failed(Flight),
}

impl Paced {
    fn on_generated(&mut self, now: Instant, token: u64, flights: &Flights, trip: &RoundTrip) {
        if self.config.recovery == Recovery::Regenerate {
            if self.control_is_loss() && self.misses_one(now, flights, trip) {
                self.signals += 1;
            }
            self.vertex.latest.push_back((now, token));
            if self.vertex.latest.len() > self.config.window {
                self.vertex.latest.pop_front();
            }
        }
        let signals = std::mem::take(&mut self.signals);
        self.slow = match self.config.recovery {
            // The paper's x: the slow phase ends after this many walkers without a loss.
            Recovery::Regenerate if signals > 0 => self.config.clean,
            // Each mark counts once, whereas the paper's controller finds the same loss repeatedly.
            Recovery::Reexecute => {
                (self.slow + signals * self.config.clean).min(self.config.window as u32)
            }
            Recovery::Regenerate => self.slow,
        };
        let gap = match self.config.control {
            Control::Never => Duration::ZERO,
            Control::Always => self.config.gap,
            Control::Loss if trip.samples() < SAMPLES_MIN => self.config.start_gap,
            Control::Loss if self.slow > 0 => {
                self.slow -= 1;
                self.config.gap
            }
            Control::Loss => Duration::ZERO,
        };
        self.due = self.due + self.config.interval + gap;
        // A generator that was held up for long does not catch up.
        let behind = self.config.interval * 64;
        self.due = self.due.max(now - behind);
    }

    fn control_is_loss(&self) -> bool {
        self.config.control == Control::Loss
    }

    /// True if one of the vertex's latest walks is not home although it has been under way for
    /// longer than T; those that took five times that are no news.
    fn misses_one(&self, now: Instant, flights: &Flights, trip: &RoundTrip) -> bool {
        if trip.samples() < SAMPLES_MIN {
            return false;
        }
        let timeout = trip.timeout();
        let latest = &self.vertex.latest;
        let stale = timeout * 5;
        let first = latest.partition_point(|&(sent, _)| sent + stale <= now);
        let overdue = now - timeout;
        latest
            .range(first..)
            .take_while(|&&(sent, _)| sent < overdue)
            .any(|&(_, token)| flights.flight(token).is_some())
    }
}
