//! Hosts that fail or are cut off permanently: the remaining hosts never call a stored key absent.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use overlay_swarm::{at, config, join};
use paceline_proto::core::{Instant, LinkFaults, MembershipCommand, NodeId, Payload};
use paceline_proto::overlay::{
    Algorithm, Command, Event, FailReason, Item, Key, Operation, Outcome, Overlay, Style,
};
use paceline_sim::{Fault, FaultSupport, NetworkConfig, Observer, Reply, Sim, SimConfig};

/// Keys that are stored before hosts fail.
const KEYS: u32 = 60;
/// A get has an outcome within this.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Recorder(BTreeMap<u64, BTreeMap<Key, Outcome>>);

impl Observer<Overlay> for Recorder {
    fn on_event(&mut self, _: Instant, _: NodeId, event: &Event, _: &mut Reply<Overlay>) {
        if let Event::Outcome { id, outcomes } = event {
            self.0.entry(*id).or_default().extend(outcomes.iter().cloned());
        }
    }
}

struct Run {
    algorithm: Algorithm,
    sim: Sim<'static, Overlay>,
    recorded: Recorder,
    next_id: u64,
}

fn keys() -> Vec<Key> {
    (0..KEYS).map(|number| Key::of(&number.to_be_bytes())).collect()
}

fn item(key: Key) -> Item {
    let value = Payload::from(key.to_bytes().to_vec());
    Item { key, value, lifetime: Duration::from_secs(3600) }
}

fn items() -> Vec<Item> {
    keys().into_iter().map(item).collect()
}

impl Run {
    /// Hosts that joined one by one and hold all keys, with this many copies each.
    fn new(algorithm: Algorithm, hosts: u32, copies: usize) -> Run {
        let config = config(11)
            .with_algorithm(algorithm)
            .with_copies(copies)
            .build()
            .expect("within the ranges");
        let mut sim_config = SimConfig::new(hosts as usize + 2, 11);
        sim_config.faults = FaultSupport::Any;
        sim_config.network = NetworkConfig {
            link: LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() },
            ..NetworkConfig::default()
        };
        let shared = config.clone();
        let make = move |node| Overlay::new(&shared, node);
        let sim = Sim::new(sim_config, Arc::new(config), make);
        let mut run = Run { algorithm, sim, recorded: Recorder::default(), next_id: 0 };
        run.command(at(1), 0, MembershipCommand::Bootstrap { address: Default::default() }.into());
        for host in 1..hosts {
            run.command(at(50 + 100 * u64::from(host)), host, join([0]));
        }
        run.until(at(50 + 100 * u64::from(hosts) + 4000));
        let stored = run.ask(0, Operation::Put(items()));
        let copies = copies.min(hosts as usize);
        assert!(
            stored.values().all(|recorded| *recorded == Outcome::Stored { copies }),
            "{stored:?}"
        );
        run.wait(Duration::from_secs(4));
        run
    }

    fn command(&mut self, when: Instant, host: u32, command: Command) {
        self.sim.command_at(when, NodeId::from(host), command);
    }

    fn until(&mut self, end: Instant) {
        self.sim.run_until(end, &mut self.recorded);
    }

    fn wait(&mut self, time: Duration) {
        self.until(self.sim.now() + time);
    }

    fn ask(&mut self, host: u32, operation: Operation) -> BTreeMap<Key, Outcome> {
        self.ask_for(host, operation, ANSWER)
    }

    /// The outcomes that come within a time.
    fn ask_for(
        &mut self,
        host: u32,
        operation: Operation,
        time: Duration,
    ) -> BTreeMap<Key, Outcome> {
        let id = self.next_id;
        self.next_id += 1;
        let command = Command::Request { id, operation, style: Style::Recursive };
        self.command(self.sim.now(), host, command);
        self.wait(time);
        self.recorded.0.remove(&id).unwrap_or_default()
    }

    fn get(&mut self, host: u32) -> BTreeMap<Key, Outcome> {
        let recorded = self.ask(host, Operation::Get(keys()));
        assert_eq!(recorded.len(), KEYS as usize, "{}: each key has an outcome", self.algorithm);
        recorded
    }

    /// Cuts these hosts off from all others.
    fn cut(&mut self, hosts: impl IntoIterator<Item = u32>) {
        let part = hosts.into_iter().map(NodeId::from).collect();
        self.sim.fault_at(self.sim.now(), Fault::Partition(vec![part]));
    }

    /// Asks a host again and again for a time. None of the keys is absent: how many are found.
    fn none_is_absent(&mut self, host: u32, time: Duration) -> usize {
        let end = self.sim.now() + time;
        let mut found = 0;
        while self.sim.now() < end {
            let recorded = self.get(host);
            for (key, outcome) in &recorded {
                let is_sure = matches!(outcome, Outcome::Found { .. });
                let is_unsure = matches!(
                    outcome,
                    Outcome::Failed(FailReason::Unsettled | FailReason::TimedOut)
                );
                assert!(is_sure || is_unsure, "{} at {host}: {key} is {outcome:?}", self.algorithm);
            }
            found = recorded
                .values()
                .filter(|recorded| matches!(recorded, Outcome::Found { .. }))
                .count();
        }
        found
    }

    fn all_are_found(&mut self, host: u32) {
        for (key, outcome) in self.get(host) {
            let is_found = matches!(outcome, Outcome::Found { .. });
            assert!(is_found, "{} at {host}: {key} is {outcome:?}", self.algorithm);
        }
    }
}

macro_rules! for_each_router {
    ($($test:ident),* $(,)?) => {$(
        #[test]
        fn $test() {
            Algorithm::ALL.into_iter().for_each(each::$test);
        }
    )*};
}

for_each_router!(
    the_last_of_six_that_is_left_calls_no_stored_key_absent_and_finds_all_when_they_are_back,
    the_smaller_part_of_many_calls_no_stored_key_absent,
    hosts_that_join_a_part_that_was_cut_off_call_no_stored_key_absent,
    hosts_that_failed_one_after_the_other_or_left_make_no_key_uncertain,
    a_key_that_was_never_stored_is_absent_once_the_operator_accepts_the_losses,
    a_host_that_hears_nobody_and_still_speaks_is_missing,
    a_host_that_only_others_reach_is_not_written_for,
    what_the_greater_part_writes_is_not_absent_in_the_smaller,
    a_key_that_was_removed_without_its_host_and_written_again_there_is_not_absent,
);

mod each {
    use super::*;

    pub fn the_last_of_six_that_is_left_calls_no_stored_key_absent_and_finds_all_when_they_are_back(
        algorithm: Algorithm,
    ) {
        for is_paused in [false, true] {
            let mut run = Run::new(algorithm, 6, 3);
            if is_paused {
                for host in 0..5 {
                    let pause = Fault::Pause(NodeId(host), Duration::from_secs(120));
                    run.sim.fault_at(run.sim.now(), pause);
                }
            } else {
                run.cut(0..5);
            }
            let found = run.none_is_absent(5, Duration::from_secs(110));
            assert!(found > 0 && found < KEYS as usize, "{} holds {found}", algorithm);
            run.sim.fault_at(run.sim.now(), Fault::Heal);
            run.wait(Duration::from_secs(60));
            run.all_are_found(5);
            run.all_are_found(0);
        }
    }

    pub fn the_smaller_part_of_many_calls_no_stored_key_absent(algorithm: Algorithm) {
        for left in [2, 5] {
            let mut run = Run::new(algorithm, 24, 3);
            run.cut(0..24 - left);
            for host in 24 - left..24 {
                run.none_is_absent(host, Duration::from_secs(15));
            }
            run.sim.fault_at(run.sim.now(), Fault::Heal);
            run.wait(Duration::from_secs(90));
            run.all_are_found(23);
        }
    }

    pub fn hosts_that_join_a_part_that_was_cut_off_call_no_stored_key_absent(algorithm: Algorithm) {
        let mut run = Run::new(algorithm, 6, 3);
        run.cut(0..5);
        run.wait(Duration::from_secs(10));
        run.command(run.sim.now(), 6, join([5]));
        run.wait(Duration::from_secs(5));
        run.none_is_absent(6, Duration::from_secs(20));
        run.none_is_absent(5, Duration::from_secs(20));
    }

    pub fn hosts_that_failed_one_after_the_other_or_left_make_no_key_uncertain(
        algorithm: Algorithm,
    ) {
        let mut run = Run::new(algorithm, 10, 3);
        for host in 4..7 {
            run.sim.fault_at(run.sim.now(), Fault::Crash(NodeId(host)));
            run.wait(Duration::from_secs(40));
        }
        for host in 7..10 {
            run.command(run.sim.now(), host, MembershipCommand::Leave.into());
            run.wait(Duration::from_secs(10));
        }
        run.all_are_found(1);
        let never: Vec<Key> = (0..40u64).map(|number| Key::of(&number.to_be_bytes())).collect();
        let recorded = run.ask(2, Operation::Get(never));
        assert!(
            recorded.values().all(|recorded| *recorded == Outcome::Absent),
            "{}: {recorded:?}",
            algorithm
        );
        assert_eq!(recorded.len(), 40);
    }

    pub fn a_key_that_was_never_stored_is_absent_once_the_operator_accepts_the_losses(
        algorithm: Algorithm,
    ) {
        let mut run = Run::new(algorithm, 6, 3);
        (0..5).for_each(|host| run.sim.fault_at(run.sim.now(), Fault::Crash(NodeId(host))));
        run.none_is_absent(5, Duration::from_secs(20));
        run.command(run.sim.now(), 5, Command::AcceptLosses);
        let recorded = run.get(5);
        let absent = recorded.values().filter(|recorded| **recorded == Outcome::Absent).count();
        let found =
            recorded.values().filter(|recorded| matches!(recorded, Outcome::Found { .. })).count();
        assert!(absent > 0 && absent + found == KEYS as usize, "{}: {recorded:?}", algorithm);
    }

    pub fn a_host_that_hears_nobody_and_still_speaks_is_missing(algorithm: Algorithm) {
        let mut run = Run::new(algorithm, 12, 1);
        let held = |run: &Run, host| run.sim.node(host).store().map_or(0, |store| store.len());
        let deaf = (1..12).map(NodeId).max_by_key(|&host| held(&run, host)).expect("eleven hosts");
        let missing = held(&run, deaf);
        assert!(missing > 0, "{}", algorithm);
        for host in (0..12).map(NodeId).filter(|&host| host != deaf) {
            run.sim.fault_at(run.sim.now(), Fault::Block(host, deaf));
        }
        run.wait(Duration::from_secs(10));
        let found = run.none_is_absent(0, Duration::from_secs(60));
        assert_eq!(found, KEYS as usize - missing, "{}", algorithm);
    }

    pub fn a_host_that_only_others_reach_is_not_written_for(algorithm: Algorithm) {
        let mut run = Run::new(algorithm, 12, 1);
        for host in 6..12 {
            run.sim.fault_at(run.sim.now(), Fault::Block(NodeId(host), NodeId(5)));
            run.sim.fault_at(run.sim.now(), Fault::Block(NodeId(5), NodeId(host)));
        }
        run.wait(Duration::from_secs(60));
        let fresh = |number: u32| Key::of(&(1_000 + u64::from(number)).to_be_bytes());
        let item = |number: u32| {
            let lifetime = Duration::from_secs(3600);
            Item { key: fresh(number), value: Payload::from(vec![1]), lifetime }
        };
        let mut stored = Vec::new();
        for host in [0, 11] {
            let items = (host * 10..host * 10 + 50).map(item).collect();
            let recorded = run.ask(host, Operation::Put(items));
            let is_stored =
                |(_, recorded): &(_, Outcome)| matches!(recorded, Outcome::Stored { .. });
            stored.extend(recorded.into_iter().filter(is_stored).map(|(key, _)| key));
        }
        assert!(stored.len() > 50, "{}: only {} were stored", algorithm, stored.len());
        for host in [1, 5, 8, 10] {
            let absent = run.ask(host, Operation::Get(stored.clone()));
            let absent =
                absent.into_iter().filter(|(_, recorded)| *recorded == Outcome::Absent).count();
            assert_eq!(absent, 0, "{} at {host}: stored keys are absent", algorithm);
        }
    }
    /// The others have the marks of what was removed until they have handed them over.
    pub fn a_key_that_was_removed_without_its_host_and_written_again_there_is_not_absent(
        algorithm: Algorithm,
    ) {
        let mut marks = 0;
        for after in (1500..2700).step_by(20) {
            let mut run = Run::new(algorithm, 3, 1);
            run.cut([1]);
            run.wait(Duration::from_secs(10));
            let removed = run.ask(0, Operation::Remove(keys()));
            assert!(removed.values().all(|recorded| *recorded == Outcome::Removed));
            run.sim.fault_at(run.sim.now(), Fault::Heal);
            run.wait(Duration::from_millis(after));
            let recorded = run.ask_for(1, Operation::Put(items()), Duration::from_millis(20));
            let is_stored =
                |(_, recorded): &(_, Outcome)| matches!(recorded, Outcome::Stored { .. });
            let stored: Vec<Key> =
                recorded.into_iter().filter(is_stored).map(|(key, _)| key).collect();
            let holds = |host: u32, key: Key, is_removed: bool| {
                let held = run.sim.node(NodeId::from(host)).store()?.get(key, run.sim.now())?;
                (held.value.is_none() == is_removed).then_some(())
            };
            let is_marked = |&&key: &&Key| {
                let marked = holds(0, key, true).or(holds(2, key, true));
                marked.and(holds(1, key, false)).is_some()
            };
            marks += stored.iter().filter(is_marked).count();
            run.cut([1]);
            let end = run.sim.now() + Duration::from_secs(60);
            while run.sim.now() < end {
                let recorded = run.ask(0, Operation::Get(stored.clone()));
                let absent =
                    recorded.values().filter(|recorded| **recorded == Outcome::Absent).count();
                assert_eq!(absent, 0, "{}: cut again {after} ms after it was back", algorithm);
            }
        }
        assert!(marks > 0, "{}: all marks were handed over at once", algorithm);
    }

    pub fn what_the_greater_part_writes_is_not_absent_in_the_smaller(algorithm: Algorithm) {
        for (hosts, copies, cut) in
            [(3, 3, 1), (3, 2, 1), (4, 3, 1), (5, 3, 2), (6, 3, 1), (6, 8, 1), (6, 3, 3)]
        {
            let mut run = Run::new(algorithm, hosts, copies);
            run.cut(0..cut);
            run.wait(Duration::from_secs(15));
            let fresh = (1_000..1_040u64).map(|number| item(Key::of(&number.to_be_bytes())));
            let recorded = run.ask(cut, Operation::Put(fresh.collect()));
            let is_stored = |recorded: &Outcome| matches!(recorded, Outcome::Stored { .. });
            let stored: Vec<Key> = recorded
                .into_iter()
                .filter(|(_, recorded)| is_stored(recorded))
                .map(|(key, _)| key)
                .collect();
            assert!(stored.len() > 30, "{}: {} of 40 are stored", algorithm, stored.len());
            // For longer than it takes to make new copies of what failed nodes held.
            for _ in 0..9 {
                let recorded = run.ask(0, Operation::Get(stored.clone()));
                let absent =
                    recorded.values().filter(|recorded| **recorded == Outcome::Absent).count();
                assert_eq!(absent, 0, "{}: {cut} of {hosts}, {copies} copies", algorithm);
            }
        }
    }
}
