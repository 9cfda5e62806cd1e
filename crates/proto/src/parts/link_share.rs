//! One link shared by the services of a host: who sends next.
//!
//! Between services the link is shared by deficit round robin in bytes, by weight
//! (`deficit_rounds`); messages by stream and by datagram are charged alike. Within a service the
//! paths take turns, so that a path that takes nothing at present holds up no other. On a path
//! messages leave in the order in which they were sent.
//!
//! A message leaves at once if its path takes it, nothing waits for that path, and the rate of the
//! link permits it. The rate is that of all paths together; without one only the paths limit. So
//! where services together stay below the link's rate, nothing waits here.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::deficit_rounds::DeficitRounds;
use super::token_bucket::TokenBucket;
use crate::core::{Instant, Lane, NodeId, ServiceNumber};

/// What a service of weight 1 may send at each visit, bytes.
const QUANTUM_BYTES: usize = 4096;
/// What may leave in a burst after a rest is what the rate earns in this time: late timers of a
/// driver of sockets cost no throughput.
const BURST: Duration = Duration::from_millis(1);
/// A driver hands over nothing more for a stream while this many bytes wait behind it, where
/// nothing overtakes them. It is less than a chain keeps there, which otherwise would get less than
/// its share beside a service that keeps more.
pub const PORT_BYTES: usize = 16 << 10;
/// Services whose deficit is kept while nothing of them waits.
const RESTING_MAX: usize = 64;
/// The largest weight.
pub const WEIGHT_MAX: u32 = 1_000;

/// Where a message goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The receiver; `None` for a multicast address.
    pub to: Option<NodeId>,
    /// How it travels.
    pub lane: Lane,
}

impl Path {
    /// The stream to a node.
    pub fn stream(to: NodeId) -> Path {
        Path { to: Some(to), lane: Lane::Stream }
    }
}

/// A message that waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// Whose it is.
    pub service: ServiceNumber,
    /// Where it goes.
    pub path: Path,
    /// What it is charged with.
    pub bytes: usize,
    /// The message.
    pub message: T,
}

/// What a service has waiting.
#[derive(Debug)]
struct Line<T> {
    service: ServiceNumber,
    quantum_bytes: usize,
    // None is empty. The first is the one whose turn it is.
    paths: VecDeque<PathQueue<T>>,
    datagram_bytes: usize,
}

#[derive(Debug)]
struct PathQueue<T> {
    path: Path,
    bytes: usize,
    messages: VecDeque<(usize, T)>,
}

#[derive(Debug)]
struct Pacer {
    bytes_per_second: f64,
    bucket: TokenBucket,
}

/// What the services of a host have waiting for a link.
#[derive(Debug)]
pub struct LinkShare<T> {
    // None is empty but for the one whose turn it is.
    lines: DeficitRounds<Line<T>>,
    // Of the services that do not have the weight 1.
    weights: BTreeMap<ServiceNumber, u32>,
    // What is left of the deficits of services of which nothing waits, at most a quantum of each,
    // the latest first. A service that keeps little waiting, and sends more when that has left,
    // would get less than its share without it.
    resting: VecDeque<(ServiceNumber, usize)>,
    pacer: Option<Pacer>,
    bytes: usize,
    datagram_bytes_max: usize,
}

impl<T> LinkShare<T> {
    /// A link of this rate, if it is known, in bytes a second. A service may have
    /// `datagram_bytes_max` bytes of datagrams waiting.
    pub fn new(bytes_per_second: Option<u64>, datagram_bytes_max: usize) -> LinkShare<T> {
        let pacer = |rate| Pacer { bytes_per_second: rate, bucket: TokenBucket::full(BURST) };
        LinkShare {
            lines: DeficitRounds::default(),
            weights: BTreeMap::new(),
            resting: VecDeque::new(),
            pacer: bytes_per_second.map(|rate| pacer(rate.max(1) as f64)),
            bytes: 0,
            datagram_bytes_max,
        }
    }

    /// Gives a service a weight, 1 to [`WEIGHT_MAX`], or the nearest of these; others have 1. It
    /// holds for what the service begins to send after a rest.
    pub fn set_weight(&mut self, service: ServiceNumber, weight: u32) {
        match weight.clamp(1, WEIGHT_MAX) {
            1 => self.weights.remove(&service),
            weight => self.weights.insert(service, weight),
        };
    }

    /// True if a message leaves at once, and then it is charged. `is_open` says that its path takes
    /// it. If this is false the message has to be [pushed](LinkShare::push).
    pub fn admit(&mut self, now: Instant, path: Path, bytes: usize, is_open: bool) -> bool {
        let is_free = is_open && self.next_at() <= now && !self.is_awaited(path);
        if is_free {
            self.charge(now, bytes);
        }
        is_free
    }

    /// Charges the link with what leaves without waiting: the host's own messages.
    pub fn charge(&mut self, now: Instant, bytes: usize) {
        if let Some(Pacer { bytes_per_second, bucket }) = &mut self.pacer {
            bucket.take(now, bytes as f64, *bytes_per_second);
        }
    }

    /// Lets a message wait. Returns the number of datagrams of the service that were dropped for
    /// it, the oldest of its path first.
    pub fn push(&mut self, waiting: Waiting<T>) -> usize {
        let Waiting { service, path, bytes, message } = waiting;
        let weight = self.weights.get(&service).map_or(1, |&weight| weight as usize);
        if self.line(service).is_none() {
            let quantum_bytes = weight * QUANTUM_BYTES;
            let line = Line { service, quantum_bytes, paths: VecDeque::new(), datagram_bytes: 0 };
            let rested = self.resting.iter().position(|&(of, _)| of == service);
            let deficit = rested.and_then(|place| self.resting.remove(place));
            self.lines.push_again(line, deficit.map_or(0, |(_, deficit)| deficit));
        }
        let mut lines = self.lines.iter_mut();
        let line = lines.find(|line| line.service == service).expect("it was added");
        let place = line.paths.iter().position(|queue| queue.path == path).unwrap_or_else(|| {
            line.paths.push_back(PathQueue { path, bytes: 0, messages: VecDeque::new() });
            line.paths.len() - 1
        });
        let queue = &mut line.paths[place];
        queue.messages.push_back((bytes, message));
        queue.bytes += bytes;
        self.bytes += bytes;
        if path.lane == Lane::Datagram {
            line.datagram_bytes += bytes;
        }
        let mut dropped = 0;
        while line.datagram_bytes > self.datagram_bytes_max
            && let Some(bytes) = line.drop_datagram(path)
        {
            self.bytes -= bytes;
            dropped += 1;
        }
        dropped
    }

    /// Takes the next message in turn among those with an open path. `None` if no message has one,
    /// or the link's rate does not permit one yet.
    pub fn pop(&mut self, now: Instant, is_open: impl Fn(Path) -> bool) -> Option<Waiting<T>> {
        if self.next_at() > now {
            return None;
        }
        self.end_turn_if_empty();
        let head = |line: &mut Line<T>| {
            let place = line.paths.iter().position(|queue| is_open(queue.path))?;
            line.paths.rotate_left(place);
            line.paths[0].messages.front().map(|&(bytes, _)| bytes)
        };
        let line = self.lines.next(|line| line.quantum_bytes, head)?;
        let service = line.service;
        let mut queue = line.paths.pop_front().expect("it has a path that is open");
        let (bytes, message) = queue.messages.pop_front().expect("no path is empty");
        let path = queue.path;
        queue.bytes -= bytes;
        if path.lane == Lane::Datagram {
            line.datagram_bytes -= bytes;
        }
        if !queue.messages.is_empty() {
            line.paths.push_back(queue);
        }
        self.bytes -= bytes;
        self.charge(now, bytes);
        Some(Waiting { service, path, bytes, message })
    }

    /// Ends the turn of a service that has sent all that waited, and has had no more since.
    fn end_turn_if_empty(&mut self) {
        let Some(line) = self.lines.iter().next().filter(|line| line.paths.is_empty()) else {
            return;
        };
        let (service, quantum_bytes) = (line.service, line.quantum_bytes);
        let deficit = self.lines.remove_first().min(quantum_bytes);
        if deficit > 0 {
            self.resting.truncate(RESTING_MAX - 1);
            self.resting.push_front((service, deficit));
        }
    }

    /// From when on the link's rate permits a message; [`Instant::ZERO`] without a rate.
    pub fn next_at(&self) -> Instant {
        self.pacer.as_ref().map_or(Instant::ZERO, |pacer| pacer.bucket.next_at())
    }

    /// Bytes of a service that wait for a path.
    pub fn waiting_bytes(&self, service: ServiceNumber, path: Path) -> usize {
        let queue = self.line(service).and_then(|line| line.queue(path));
        queue.map_or(0, |queue| queue.bytes)
    }

    /// Bytes of datagrams of a service that wait for one path, the one for which most wait.
    pub fn waiting_datagram_bytes(&self, service: ServiceNumber) -> usize {
        let Some(line) = self.line(service).filter(|line| line.datagram_bytes > 0) else {
            return 0;
        };
        let datagrams = line.paths.iter().filter(|queue| queue.path.lane == Lane::Datagram);
        datagrams.map(|queue| queue.bytes).max().unwrap_or(0)
    }

    /// Bytes of all services that wait for a path.
    pub fn path_bytes(&self, path: Path) -> usize {
        self.lines.iter().filter_map(|line| line.queue(path)).map(|queue| queue.bytes).sum()
    }

    /// Drops what waits for a path; returns its bytes.
    pub fn discard_path(&mut self, path: Path) -> usize {
        self.discard(|_, of| of == path)
    }

    /// Drops all datagrams that wait; returns how many there were.
    pub fn discard_datagrams(&mut self) -> usize {
        let queues = self.lines.iter().flat_map(|line| &line.paths);
        let datagrams = queues.filter(|queue| queue.path.lane == Lane::Datagram);
        let count = datagrams.map(|queue| queue.messages.len()).sum();
        self.discard(|_, path| path.lane == Lane::Datagram);
        count
    }

    /// The paths for which something waits; those for which several services wait come several
    /// times.
    pub fn paths(&self) -> impl Iterator<Item = Path> {
        self.lines.iter().flat_map(|line| line.paths.iter().map(|queue| queue.path))
    }

    /// Bytes that wait.
    pub fn queued_bytes(&self) -> usize {
        self.bytes
    }

    /// True if the link has a rate.
    pub fn is_paced(&self) -> bool {
        self.pacer.is_some()
    }

    /// True if nothing waits.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn discard(&mut self, is_meant: impl Fn(ServiceNumber, Path) -> bool) -> usize {
        let mut discarded = 0;
        self.lines.retain(|line| {
            let (service, datagram_bytes) = (line.service, &mut line.datagram_bytes);
            line.paths.retain(|queue| {
                let is_meant = is_meant(service, queue.path);
                if is_meant {
                    discarded += queue.bytes;
                    if queue.path.lane == Lane::Datagram {
                        *datagram_bytes -= queue.bytes;
                    }
                }
                !is_meant
            });
            !line.paths.is_empty()
        });
        self.bytes -= discarded;
        discarded
    }

    /// True if a message to this path has to wait behind others: for the path, or for the link.
    fn is_awaited(&self, path: Path) -> bool {
        match self.pacer {
            Some(_) => !self.is_empty(),
            None => self.lines.iter().any(|line| line.queue(path).is_some()),
        }
    }

    fn line(&self, service: ServiceNumber) -> Option<&Line<T>> {
        self.lines.iter().find(|line| line.service == service)
    }
}

impl<T> Line<T> {
    /// Drops the oldest datagram that waits for this path, but not its last one, or else one that
    /// waits for another path; returns its bytes, `None` if there is no other.
    fn drop_datagram(&mut self, path: Path) -> Option<usize> {
        let is_long = |queue: &PathQueue<T>| queue.path == path && queue.messages.len() > 1;
        let is_other =
            |queue: &PathQueue<T>| queue.path.lane == Lane::Datagram && queue.path != path;
        let place = self.paths.iter().position(is_long);
        let place = place.or_else(|| self.paths.iter().position(is_other))?;
        let queue = &mut self.paths[place];
        let (bytes, _) = queue.messages.pop_front()?;
        queue.bytes -= bytes;
        self.datagram_bytes -= bytes;
        if queue.messages.is_empty() {
            self.paths.remove(place);
        }
        Some(bytes)
    }

    fn queue(&self, path: Path) -> Option<&PathQueue<T>> {
        self.paths.iter().find(|queue| queue.path == path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 12_500_000;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn stream(to: u64) -> Path {
        Path { to: Some(NodeId(to)), lane: Lane::Stream }
    }

    fn datagram(to: u64) -> Path {
        Path { to: Some(NodeId(to)), lane: Lane::Datagram }
    }

    fn waiting(service: u32, path: Path, bytes: usize, message: u64) -> Waiting<u64> {
        Waiting { service: ServiceNumber(service), path, bytes, message }
    }

    /// Services of these weights send messages of these sizes to these many peers, as fast as they
    /// leave, by stream and by datagram in turn; returns the bytes of each in a second.
    fn shares(services: &[(u32, usize, u64)], rate: Option<u64>) -> Vec<usize> {
        let mut share = LinkShare::new(rate, 1 << 20);
        let mut sent = vec![0; services.len()];
        let mut next = vec![0; services.len()];
        for (service, &(weight, ..)) in services.iter().enumerate() {
            share.set_weight(ServiceNumber(service as u32), weight);
        }
        let (mut now, end) = (at(0), at(1_000_000));
        while now < end && sent.iter().sum::<usize>() < RATE as usize {
            for (service, &(_, bytes, peers)) in services.iter().enumerate() {
                // At most some are waiting, and always some: half by stream, half by datagram.
                let number = ServiceNumber(service as u32);
                let path = |n: u64| match n % 2 {
                    0 => stream(n / 2 % peers),
                    _ => datagram(n / 2 % peers),
                };
                while (0..2 * peers).map(|n| share.waiting_bytes(number, path(n))).sum::<usize>()
                    < 300_000
                {
                    share.push(waiting(service as u32, path(next[service]), bytes, 0));
                    next[service] += 1;
                }
            }
            match share.pop(now, |_| true) {
                Some(left) => sent[left.service.0 as usize] += left.bytes,
                None => now = share.next_at(),
            }
        }
        sent
    }

    #[test]
    fn services_share_by_weight_whatever_they_send_to_whomever() {
        let cases: [&[(u32, usize, u64)]; 5] = [
            &[(1, 1_000, 1), (1, 65_000, 7)],
            &[(1, 100, 3), (1, 8_000, 1), (1, 1_200, 7), (1, 30_000, 2)],
            &[(1, 1_000, 1), (3, 1_000, 1)],
            &[(4, 60_000, 2), (1, 200, 5), (2, 1_500, 1)],
            &[(1, 9_000, 1), (1_000, 9_000, 1)],
        ];
        for services in cases {
            for rate in [Some(RATE), None] {
                let sent = shares(services, rate);
                let (all, weights): (usize, u32) =
                    (sent.iter().sum(), services.iter().map(|&(weight, ..)| weight).sum());
                assert!(all.abs_diff(RATE as usize) < 100_000, "{services:?}: {all}");
                for (bytes, &(weight, longest, _)) in sent.iter().zip(services) {
                    let due = all as f64 * f64::from(weight) / f64::from(weights);
                    // A round of the others and a message.
                    let slack = weight as usize * QUANTUM_BYTES + longest + 65_000;
                    assert!(bytes.abs_diff(due as usize) <= slack, "{services:?}: {sent:?}");
                }
            }
        }
    }

    #[test]
    fn the_datagrams_that_wait_are_those_to_the_receiver_with_most() {
        let mut share = LinkShare::new(Some(RATE), 1 << 20);
        let of =
            |share: &LinkShare<u64>, service| share.waiting_datagram_bytes(ServiceNumber(service));
        assert_eq!(of(&share, 1), 0);
        for (service, path, bytes) in [
            (1, datagram(1), 1_000),
            (1, datagram(2), 1_000),
            (1, datagram(2), 500),
            (1, stream(2), 9_000),
            (2, datagram(2), 700),
            (3, stream(1), 700),
        ] {
            share.push(waiting(service, path, bytes, 0));
        }
        assert_eq!([of(&share, 1), of(&share, 2), of(&share, 3)], [1_500, 700, 0]);
        let multicast = Path { to: None, lane: Lane::Datagram };
        share.push(waiting(1, multicast, 2_000, 0));
        assert_eq!(of(&share, 1), 2_000);
    }

    /// As a protocol that keeps little waiting: what it sends next comes once all has left, before
    /// the next message of the link or some messages later.
    #[test]
    fn services_that_have_nothing_waiting_for_a_moment_get_their_weights() {
        for (rate, late) in [(Some(RATE), 0), (None, 0), (None, 1), (None, 3)] {
            let weights = if late == 0 { [1, 4, 2] } else { [1, 1, 1] };
            let (mut share, mut sent) = (LinkShare::new(rate, 1 << 20), [0; 3]);
            for (service, weight) in weights.into_iter().enumerate() {
                share.set_weight(ServiceNumber(service as u32), weight);
            }
            let (mut now, mut rested) = (at(0), [0; 3]);
            while now < at(1_000_000) && sent.iter().sum::<usize>() < RATE as usize {
                // The first keeps one message, the second two, the third many.
                for (service, (bytes, keeps)) in
                    [(8_570, 1), (8_570, 2), (1_000, 300)].iter().enumerate()
                {
                    let number = ServiceNumber(service as u32);
                    if share.waiting_bytes(number, stream(1)) > 0 {
                        rested[service] = 0;
                    } else if rested[service] < late && service < 2 {
                        rested[service] += 1;
                    } else {
                        for _ in 0..*keeps {
                            share.push(waiting(service as u32, stream(1), *bytes, 0));
                        }
                    }
                }
                match share.pop(now, |_| true) {
                    Some(left) => sent[left.service.0 as usize] += left.bytes,
                    None => now = share.next_at(),
                }
            }
            let (all, total): (usize, u32) = (sent.iter().sum(), weights.iter().sum());
            for (bytes, weight) in sent.into_iter().zip(weights) {
                let share = bytes as f64 / all as f64 * f64::from(total) / f64::from(weight);
                assert!((share - 1.0).abs() < 0.05, "{rate:?}, {late} later: {sent:?}");
            }
        }
    }

    #[test]
    fn the_rate_is_kept_and_a_rest_earns_a_millisecond_of_it() {
        let mut share = LinkShare::new(Some(RATE), 1 << 20);
        // 1,250 bytes take 100 us.
        let admitted = |share: &mut LinkShare<u64>, now| {
            (0..99).take_while(|_| share.admit(now, datagram(1), 1_250, true)).count()
        };
        assert_eq!(admitted(&mut share, at(5_000)), 11);
        assert_eq!(share.next_at(), at(5_100));
        assert_eq!(admitted(&mut share, at(5_099)), 0);
        assert_eq!(admitted(&mut share, at(5_250)), 2);
        // The host's own messages leave whatever the rate, and are charged.
        share.charge(at(5_250), 12_500);
        assert_eq!(share.next_at(), at(6_300));
        let mut without = LinkShare::<u64>::new(None, 1 << 20);
        assert_eq!(admitted(&mut without, at(0)), 99);
    }

    #[test]
    fn messages_of_a_path_leave_in_order_and_a_closed_path_holds_up_no_other() {
        let mut share = LinkShare::new(None, 1 << 20);
        for number in 0..40 {
            let path = [stream(1), stream(2), datagram(1)][number % 3];
            share.push(waiting(number as u32 % 2, path, 100 + number, number as u64));
        }
        assert!(!share.admit(at(0), stream(1), 1, true), "others wait for it");
        assert!(
            share.admit(at(0), datagram(2), 1, true) && !share.admit(at(0), stream(3), 1, false)
        );
        let mut order = BTreeMap::<_, Vec<u64>>::new();
        let is_open = |path: Path| path != stream(1);
        while let Some(left) = share.pop(at(0), is_open) {
            assert_ne!(left.path, stream(1));
            order
                .entry((left.service.0, left.path.to, left.path.lane as u8))
                .or_default()
                .push(left.message);
        }
        assert!(order.len() == 4 && order.values().all(|numbers| numbers.is_sorted()), "{order:?}");
        let left: usize = (0..2).map(|of| share.waiting_bytes(ServiceNumber(of), stream(1))).sum();
        assert!(left > 0 && left == share.queued_bytes());
        assert_eq!(share.pop(at(0), is_open), None);
        assert_eq!((share.discard_path(stream(1)), share.is_empty()), (left, true));
    }

    #[test]
    fn a_service_that_floods_drops_its_own_oldest_datagrams() {
        let mut share = LinkShare::new(Some(1), 10_000);
        share.push(waiting(7, datagram(1), 900, 0));
        let dropped: usize = (0..100)
            .map(|number| share.push(waiting(8, datagram(number % 3), 1_000, number)))
            .sum();
        assert_eq!(dropped, 90);
        assert_eq!(share.waiting_bytes(ServiceNumber(7), datagram(1)), 900);
        // Streams lose nothing here: their bound is the driver's.
        assert_eq!((0..100).map(|n| share.push(waiting(8, stream(1), 1_000, n))).sum::<usize>(), 0);
        assert_eq!(share.queued_bytes(), 900 + 10_000 + 100_000);
        assert_eq!(share.discard(|of, _| of == ServiceNumber(7)), 900);
        assert_eq!(share.discard_datagrams(), 10);
        assert_eq!(
            (share.queued_bytes(), share.waiting_bytes(ServiceNumber(8), stream(1))),
            (100_000, 100_000)
        );
        // However many peers it floods.
        let dropped: usize = (0..100).map(|n| share.push(waiting(9, datagram(n), 1_000, n))).sum();
        assert_eq!((dropped, share.discard(|of, _| of == ServiceNumber(9))), (90, 10_000));
        // What was dropped makes room again.
        assert_eq!(
            (0..10).map(|n| share.push(waiting(8, datagram(1), 1_000, n))).sum::<usize>(),
            0
        );
    }

    #[test]
    fn one_message_waits_for_a_round_of_the_others_however_much_these_have_waiting() {
        let mut share = LinkShare::new(Some(RATE), 1 << 30);
        for number in 0..10_000 {
            share.push(waiting(number as u32 % 3, datagram(number % 9), 1_200, number));
        }
        let mut now = at(0);
        while now < at(100_000) {
            now = match share.pop(now, |_| true) {
                Some(_) => now,
                None => share.next_at(),
            };
        }
        share.push(waiting(9, stream(1), 500, 0));
        let mut before = 0;
        let mine = loop {
            match share.pop(now, |_| true) {
                Some(left) if left.service == ServiceNumber(9) => break now,
                Some(left) => before += left.bytes,
                None => now = share.next_at(),
            }
        };
        // A quantum and a message of each.
        assert!(before <= 3 * (QUANTUM_BYTES + 1_200), "{before}");
        assert!(mine.since(at(100_000)) < Duration::from_millis(2));
    }
}
