use super::*;
use crate::core::laws::{self, hex};
use proptest::prelude::*;

const GROUP: ServiceNumber = ServiceNumber(7);
const OTHER: ServiceNumber = ServiceNumber(8);

fn place(place: u32) -> ServicePlace {
    ServicePlace { place, generation: 0 }
}

/// Hosts that exchange what they send, without loss, after a millisecond.
struct Hosts {
    hosts: Vec<HostDetector>,
    now: Instant,
    under_way: Vec<(NodeId, NodeId, HostMessage)>,
    /// News of each host, since it was last taken.
    news: Vec<Vec<(ServicePlace, NodeId, WatchNews)>>,
    /// Those that neither send nor receive.
    silent: Vec<usize>,
    detector_datagrams: u64,
    detector_bytes: u64,
}

/// The incarnation of a host.
fn run(node: usize) -> u64 {
    100 + node as u64
}

fn watched(node: usize, member: u64) -> WatchedMember {
    let member = Member { node: NodeId(node as u64), incarnation: member };
    WatchedMember { member, host: run(node) }
}

impl Hosts {
    fn new(count: usize) -> Hosts {
        let host = |node: usize| {
            let me = Member { node: NodeId(node as u64), incarnation: run(node) };
            HostDetector::new(detector::Config::default(), me, 1)
        };
        Hosts {
            hosts: (0..count).map(host).collect(),
            now: Instant::ZERO,
            under_way: Vec::new(),
            news: vec![Vec::new(); count],
            silent: Vec::new(),
            detector_datagrams: 0,
            detector_bytes: 0,
        }
    }

    /// All of these watch each other for a service.
    fn watch(&mut self, service: (ServicePlace, ServiceNumber), mark: u64, nodes: &[usize]) {
        for &node in nodes {
            self.list(node, service, mark, nodes);
        }
    }

    fn list(
        &mut self,
        node: usize,
        service: (ServicePlace, ServiceNumber),
        mark: u64,
        nodes: &[usize],
    ) {
        let members = nodes.iter().map(|&node| watched(node, 1)).collect();
        let list = WatchList { incarnation: 1, mark, members };
        self.hosts[node].watch(self.now, service, &list);
    }

    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += Duration::from_millis(1);
            for (from, to, message) in std::mem::take(&mut self.under_way) {
                if !self.silent.contains(&to.index()) {
                    let bytes = crate::core::encode_to_bytes(&message);
                    self.hosts[to.index()].receive(self.now, from, bytes).unwrap();
                }
            }
            for (node, host) in self.hosts.iter_mut().enumerate() {
                if self.silent.contains(&node) {
                    continue;
                }
                if host.deadline() <= self.now {
                    host.poll(self.now);
                }
                self.news[node].append(&mut host.out.news);
                let from = NodeId(node as u64);
                for (to, message) in host.out.sends.drain(..) {
                    let is_detectors = matches!(message, HostMessage::Detector { .. });
                    self.detector_datagrams += u64::from(is_detectors);
                    if is_detectors {
                        self.detector_bytes += crate::core::Wire::wire_len(&message) as u64;
                    }
                    self.under_way.push((from, to, message));
                }
            }
        }
    }

    fn is_told(&self, node: usize, service: ServicePlace, of: usize, news: WatchNews) -> bool {
        self.news[node].contains(&(service, NodeId(of as u64), news))
    }
}

const DOWN: WatchNews = WatchNews::Health(Health::Down);
const SECOND: Duration = Duration::from_secs(1);

#[test]
fn traffic_at_rest_is_the_same_for_one_service_and_for_a_hundred() {
    let at_rest = |services: u32| {
        let mut hosts = Hosts::new(5);
        for service in 0..services {
            hosts.watch((place(service), ServiceNumber(service + 1)), 3, &[0, 1, 2, 3, 4]);
        }
        hosts.run_for(5 * SECOND);
        let before = (hosts.detector_datagrams, hosts.detector_bytes);
        hosts.run_for(20 * SECOND);
        assert!(hosts.news.iter().all(Vec::is_empty), "{:?}", hosts.news);
        let datagrams = hosts.detector_datagrams - before.0;
        assert_eq!((hosts.detector_bytes - before.1) / datagrams, 30, "as its knobs say");
        datagrams
    };
    let one = at_rest(1);
    assert!((1_000..1_300).contains(&one), "{one}");
    assert_eq!(one, at_rest(100));
}

#[test]
fn a_silent_host_is_down_for_each_service_that_watches_it_and_for_no_other() {
    let mut hosts = Hosts::new(4);
    hosts.watch((place(0), GROUP), 1, &[0, 1, 2, 3]);
    hosts.watch((place(1), OTHER), 1, &[0, 1, 2]);
    hosts.run_for(2 * SECOND);
    hosts.silent.push(3);
    hosts.run_for(5 * SECOND);
    for node in 0..3 {
        assert!(hosts.is_told(node, place(0), 3, DOWN), "{:?}", hosts.news[node]);
        assert!(hosts.news[node].iter().all(|&(service, ..)| service == place(0)));
    }
    // A service that names it now learns at once that it is down.
    hosts.list(0, (place(1), OTHER), 2, &[0, 1, 2, 3]);
    hosts.run_for(Duration::from_millis(1));
    assert!(hosts.is_told(0, place(1), 3, DOWN));
    hosts.silent.clear();
    hosts.run_for(3 * SECOND);
    let up = WatchNews::Health(Health::Up);
    assert!(hosts.is_told(0, place(0), 3, up) && hosts.is_told(0, place(1), 3, up));
}

#[test]
fn a_service_that_ends_is_down_at_once_while_its_host_goes_on() {
    let mut hosts = Hosts::new(3);
    hosts.watch((place(0), GROUP), 1, &[0, 1, 2]);
    hosts.watch((place(1), OTHER), 1, &[0, 1, 2]);
    hosts.run_for(SECOND);
    hosts.hosts[2].end(hosts.now, place(0));
    hosts.run_for(Duration::from_millis(3));
    for node in 0..2 {
        assert_eq!(hosts.news[node], [(place(0), NodeId(2), DOWN)]);
    }
    // The next one of the same host is another member.
    let ended = HostMessage::Ended { service: GROUP.0, incarnation: 1 };
    let members = vec![watched(0, 1), watched(1, 1), watched(2, 9)];
    for node in 0..2 {
        let list = WatchList { incarnation: 1, mark: 2, members: members.clone() };
        hosts.hosts[node].watch(hosts.now, (place(0), GROUP), &list);
        hosts.news[node].clear();
        let late = crate::core::encode_to_bytes(&ended);
        hosts.hosts[node].receive(hosts.now, NodeId(2), late).unwrap();
        assert_eq!(hosts.hosts[node].out.counters.count("host_ended_unwatched"), 1);
    }
    let list = WatchList { incarnation: 9, mark: 2, members };
    hosts.hosts[2].watch(hosts.now, (place(0), GROUP), &list);
    hosts.run_for(5 * SECOND);
    assert!(hosts.news.iter().all(Vec::is_empty), "{:?}", hosts.news);
}

#[test]
fn hosts_that_differ_are_told_until_they_agree() {
    let mut hosts = Hosts::new(3);
    hosts.watch((place(0), GROUP), 1, &[0, 1, 2]);
    hosts.watch((place(1), OTHER), 1, &[0, 1, 2]);
    hosts.run_for(2 * SECOND);
    // The group went on without node 2, which does not know.
    hosts.watch((place(0), GROUP), 2, &[0, 1]);
    hosts.run_for(Duration::from_millis(900));
    let differ = |hosts: &Hosts, node: usize, of: usize| {
        let of = NodeId(of as u64);
        let is_it = |news: &&(ServicePlace, NodeId, WatchNews)| {
            **news == (place(0), of, WatchNews::Differs)
        };
        hosts.news[node].iter().filter(is_it).count()
    };
    assert_eq!(differ(&hosts, 2, 0), 0, "views are not installed at the same time");
    hosts.run_for(5 * SECOND);
    assert!(differ(&hosts, 2, 0) > 1 && differ(&hosts, 2, 1) > 1);
    assert!(hosts.is_told(0, place(1), 2, WatchNews::Differs), "whichever service it is");
    assert_eq!(differ(&hosts, 0, 1), 0, "these agree");
    hosts.list(2, (place(0), GROUP), 0, &[]);
    hosts.run_for(2 * SECOND);
    hosts.news.iter_mut().for_each(Vec::clear);
    hosts.run_for(5 * SECOND);
    assert!(hosts.news.iter().all(Vec::is_empty), "{:?}", hosts.news);
}

/// A member of a later run of host 1.
fn later(run: u64) -> WatchedMember {
    let member = Member { node: NodeId(1), incarnation: 5 };
    WatchedMember { member, host: run }
}

#[test]
fn a_restarted_host_is_another_one_whichever_list_comes_first() {
    for lists_first in [true, false] {
        let mut hosts = Hosts::new(3);
        hosts.watch((place(0), GROUP), 1, &[0, 1, 2]);
        hosts.watch((place(1), OTHER), 1, &[0, 1, 2]);
        hosts.run_for(SECOND);
        let me = Member { node: NodeId(1), incarnation: 999 };
        let list = |member| WatchList {
            incarnation: 1,
            mark: 2,
            members: vec![watched(0, 1), member, watched(2, 1)],
        };
        let names_it = |hosts: &mut Hosts| {
            for node in [0, 2] {
                hosts.hosts[node].watch(hosts.now, (place(0), GROUP), &list(later(999)));
            }
        };
        if lists_first {
            names_it(&mut hosts);
        }
        hosts.hosts[1] = HostDetector::new(detector::Config::default(), me, 2);
        let own = WatchList { incarnation: 5, ..list(later(999)) };
        hosts.hosts[1].watch(hosts.now, (place(0), GROUP), &own);
        hosts.run_for(2 * SECOND);
        for node in [0, 2] {
            // The member of the run that is over.
            assert!(hosts.is_told(node, place(1), 1, DOWN), "{:?}", hosts.news[node]);
            let of_group = hosts.news[node].iter().filter(|news| news.0 == place(0));
            let downs = of_group.filter(|news| news.2 == DOWN).count();
            assert_eq!(downs, usize::from(!lists_first), "{:?}", hosts.news[node]);
        }
        names_it(&mut hosts);
        hosts.list(0, (place(1), OTHER), 3, &[0, 2]);
        hosts.list(2, (place(1), OTHER), 3, &[0, 2]);
        hosts.run_for(2 * SECOND);
        hosts.news.iter_mut().for_each(Vec::clear);
        hosts.run_for(5 * SECOND);
        assert!(hosts.news.iter().all(Vec::is_empty), "{:?}", hosts.news);
    }
}

#[test]
fn a_run_that_a_list_makes_up_does_not_harm_the_members_of_the_host() {
    let mut hosts = Hosts::new(3);
    hosts.watch((place(0), GROUP), 1, &[0, 1, 2]);
    hosts.run_for(SECOND);
    let members = vec![watched(0, 1), later(31_337), watched(2, 1)];
    let list = WatchList { incarnation: 1, mark: 1, members };
    hosts.hosts[0].watch(hosts.now, (place(1), OTHER), &list);
    hosts.run_for(6 * SECOND);
    assert!(hosts.is_told(0, place(1), 1, DOWN), "no host runs it");
    let of_group = |news: &&(ServicePlace, NodeId, WatchNews)| {
        news.0 == place(0) && news.2 != WatchNews::Differs
    };
    let told = hosts.news.iter().flatten().filter(of_group).count();
    assert_eq!(told, 0, "{:?}", hosts.news);
}

#[test]
fn state_is_that_of_the_lists() {
    let mut hosts = Hosts::new(4);
    for service in 0..10 {
        hosts.watch((place(service), ServiceNumber(service + 1)), 1, &[0, 1, 2, 3]);
    }
    let host = &mut hosts.hosts[0];
    let full = host.memory_bytes();
    assert!((1_000..20_000).contains(&full), "{full}");
    assert_eq!(host.watched().count(), 3);
    for service in 0..10 {
        match service % 2 {
            0 => host.end(hosts.now, place(service)),
            _ => host.watch(
                hosts.now,
                (place(service), ServiceNumber(service + 1)),
                &WatchList::default(),
            ),
        }
    }
    assert_eq!((host.memory_bytes(), host.watched().count()), (0, 0));
    host.poll(hosts.now + 10 * SECOND);
    assert_eq!(host.deadline(), Instant::MAX);
}

#[test]
fn messages_have_this_form() {
    let datagram = Bytes::from_static(b"abc");
    let detector = HostMessage::Detector { tie: 0x0102_0304, datagram };
    assert_eq!(hex(&detector), "0001020304616263");
    let ended = HostMessage::Ended { service: 7, incarnation: 0x0809 };
    assert_eq!(hex(&ended), "01000000070000000000000809");
    let page = include_str!("../../../../../docs/protocols/detector.md");
    assert_eq!(laws::documented(&HostMessage::rows(), page), [0, 1]);
}

proptest! {
    #[test]
    fn a_datagram_of_the_detector_survives_its_encoding(message in laws::any_of::<HostMessage>()) {
        laws::survives(&message)?;
    }
}

/// The other message ends where its bytes end, so that it cannot be cut short.
fn ended() -> impl Strategy<Value = HostMessage> {
    let parts = (any::<u32>(), any::<u64>());
    parts.prop_map(|(service, incarnation)| HostMessage::Ended { service, incarnation })
}

laws::laws!(HostMessage, ended(), 2u8..=255);
