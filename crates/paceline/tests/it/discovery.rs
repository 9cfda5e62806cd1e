//! Hosts that find each other by names and files, and create one group together.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use paceline::{Event, Events, Group, Host, JoinError, NodeId, View};

use super::support::dns::NameServer;

const WITHIN: Duration = Duration::from_secs(30);

async fn host(id: u32) -> Host {
    Host::builder("test").id(NodeId::from(id)).start().await.unwrap()
}

/// Waits for a view of this many members.
async fn view_of(events: &mut Events, members: usize) -> View {
    let wanted = async {
        loop {
            if let Event::View(view) = events.recv().await.expect("the host runs")
                && view.len() == members
            {
                return View::clone(&view);
            }
        }
    };
    let found = tokio::time::timeout(WITHIN, wanted).await;
    found.unwrap_or_else(|_| panic!("no view of {members} members"))
}

fn refusal(joined: Result<(Group, Events), JoinError>) -> String {
    joined.err().expect("no member").to_string()
}

#[tokio::test]
async fn five_hosts_that_start_at_once_create_one_group_each_time() {
    for round in 0..20 {
        let mut hosts = Vec::new();
        for id in 0..5 {
            hosts.push(host(10 * round + id).await);
        }
        let addresses: Vec<String> = hosts.iter().map(|host| host.address().to_string()).collect();
        let starting: Vec<_> = hosts
            .into_iter()
            .map(|host| {
                let group = host.group("pods").within(WITHIN);
                tokio::spawn(group.peers(addresses.clone()).expect(3))
            })
            .collect();
        let mut members = Vec::new();
        for joined in starting {
            members.push(joined.await.unwrap().unwrap());
        }
        let mut views = Vec::new();
        for (_, events) in &mut members {
            views.push(view_of(events, 5).await);
        }
        assert!(views.iter().all(|view| *view == views[0]), "round {round}: {views:?}");
        for (group, _) in members {
            group.stop().await;
        }
    }
}

/// Each knows the first one only: they learn of each other from it.
#[tokio::test]
async fn hosts_that_know_one_of_them_create_a_group_and_later_ones_join_it() {
    let first = host(3).await;
    let peer = first.address().to_string();
    let expect =
        |host: Host| tokio::spawn(host.group("g").within(WITHIN).peers([peer.clone()]).expect(3));
    let starting = [expect(first), expect(host(1).await), expect(host(2).await)];
    let mut members = Vec::new();
    for joined in starting {
        members.push(joined.await.unwrap().unwrap());
    }
    let view = view_of(&mut members[0].1, 3).await;
    assert_eq!(view.members()[0].node, NodeId(1), "the least id creates the group");
    members.push(expect(host(0).await).await.unwrap().unwrap());
    for (_, events) in &mut members {
        view_of(events, 4).await;
    }
}

#[tokio::test]
async fn hosts_of_a_multicast_create_its_group_together() {
    let hosts = [host(1).await, host(2).await];
    let addresses: Vec<String> = hosts.iter().map(|host| host.address().to_string()).collect();
    let starting: Vec<_> = hosts
        .iter()
        .map(|host| {
            let group = host.multicast("prices").within(WITHIN);
            tokio::spawn(group.peers(addresses.clone()).expect(2))
        })
        .collect();
    for joined in starting {
        let (multicast, _events) = joined.await.unwrap().unwrap();
        assert_eq!(multicast.members().len(), 2);
    }
}

#[tokio::test]
async fn too_few_hosts_and_hosts_that_expect_another_number_are_told_so() {
    let soon = Duration::from_secs(2);
    let (one, other) = (host(1).await, host(2).await);
    let peers = [one.address().to_string(), other.address().to_string()];
    let said = refusal(one.group("g").peers(&peers).expect(1).await);
    assert_eq!(said, "expect is 1, expected 2 to 64");
    let limited = one.group("g").with_views(|views| views.with_members_max(2));
    assert_eq!(
        refusal(limited.peers(&peers).expect(3).await),
        "expect is 3, expected at most members_max"
    );
    let (one_said, other_said) = tokio::join!(
        one.group("few").within(soon).peers(&peers).expect(3),
        other.group("few").within(soon).peers(&peers).expect(3),
    );
    for said in [refusal(one_said), refusal(other_said)] {
        assert!(said.contains("fewer than 3 hosts found each other"), "{said}");
    }
    let (one, other) = (host(1).await, host(2).await);
    let peers = [one.address().to_string(), other.address().to_string()];
    let (one_said, other_said) = tokio::join!(
        one.group("odd").within(soon).peers(&peers).expect(2),
        other.group("odd").within(soon).peers(&peers).expect(3),
    );
    assert!(matches!(one_said.err(), Some(JoinError::OtherExpect { expect: 2 })));
    assert!(matches!(other_said.err(), Some(JoinError::OtherExpect { expect: 3 })));
}

/// One group, whose first member is at 127.0.0.3.
async fn founder() -> (Group, Events, SocketAddr) {
    let bind = SocketAddr::from(([127, 0, 0, 3], 0));
    let host = Host::builder("test").id(NodeId(1)).bind(bind).start().await.unwrap();
    let address = host.address();
    let (group, events) = host.group("g").bootstrap().await.unwrap();
    (group, events, address)
}

#[tokio::test]
async fn a_name_that_has_no_address_then_one_then_three_is_asked_until_a_member_answers() {
    let mut server = NameServer::start().await;
    let (_group, _events, address) = founder().await;
    server.set_addresses("pods.test", &[]);
    let joiner =
        Host::builder("test").id(NodeId(2)).dns_server(server.address).start().await.unwrap();
    let peer = format!("dns:pods.test:{}", address.port());
    let joining = tokio::spawn(joiner.group("g").within(WITHIN).peers([peer]).join());
    server.answers(4).await;
    assert!(!joining.is_finished());
    let [silent, gone, member] = [7, 8, 3].map(|last| Ipv4Addr::new(127, 0, 0, last));
    server.set_addresses("pods.test", &[silent]);
    server.answers(4).await;
    assert!(!joining.is_finished());
    server.set_addresses("pods.test", &[silent, gone, member]);
    let (joined, _events) = joining.await.unwrap().unwrap();
    assert_eq!(joined.members(), [NodeId(1), NodeId(2)]);
}

#[tokio::test]
async fn srv_records_give_targets_and_ports() {
    let server = NameServer::start().await;
    let (_group, _events, address) = founder().await;
    server.set_addresses("pod-0.test", &[Ipv4Addr::new(127, 0, 0, 3)]);
    let services = [("gone.test", 1), ("pod-0.test", address.port())];
    server.set_services("_paceline._udp.test", &services);
    let joiner =
        Host::builder("test").id(NodeId(2)).dns_server(server.address).start().await.unwrap();
    let joining = joiner.group("g").within(WITHIN).peers(["dns:_paceline._udp.test"]).join();
    let (joined, _events) = joining.await.unwrap();
    assert_eq!(joined.members(), [NodeId(1), NodeId(2)]);
}

#[tokio::test]
async fn the_error_says_which_name_is_wrong_and_which_form() {
    let server = NameServer::start().await;
    server.set_addresses("empty.test", &[]);
    let joiner =
        Host::builder("test").id(NodeId(2)).dns_server(server.address).start().await.unwrap();
    let builder = || joiner.group("g").within(Duration::from_millis(1200));
    let peers = ["dns:empty.test:7", "dns:wrong.test:7", "dns:_a._tcp.wrong.test", "127.0.0.9:7"];
    let said = refusal(builder().peers(peers).join().await);
    for part in [
        "(dns:empty.test:7: no addresses)",
        "(dns:wrong.test:7: the name does not exist)",
        "(dns:_a._tcp.wrong.test: the name does not exist)",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("(127.0.0.9"), "{said}");
    let joiner = host(3).await;
    let builder = || joiner.group("g");
    for (peer, parts) in [
        ("127.0.0.1", ["peer `127.0.0.1` has no port", "expected HOST:PORT"]),
        ("dns:web", ["peer `dns:web` has no port", "expected dns:NAME:PORT"]),
        ("no.such.host.invalid:1", ["peer `no.such.host.invalid:1`", "cannot be resolved"]),
        ("file:/no/such/file", ["peers of `file:/no/such/file`", "No such file"]),
        ("env:PACELINE_NO_SUCH", ["peers of `env:PACELINE_NO_SUCH`", "is not set"]),
        // Which cargo sets to a version.
        ("env:CARGO_PKG_VERSION", ["peers of `env:CARGO_PKG_VERSION`", "has no port"]),
    ] {
        let said = refusal(builder().peers([peer]).join().await);
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[tokio::test]
async fn a_file_is_read_again_until_a_member_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peers");
    std::fs::write(&path, "# none yet\n").unwrap();
    let (_group, _events, address) = founder().await;
    let peer = format!("file:{}", path.display());
    let joining = tokio::spawn(host(2).await.group("g").within(WITHIN).peers([peer]).join());
    tokio::task::yield_now().await;
    std::fs::write(&path, format!("127.0.0.1:1 # nothing there\n{address}\n")).unwrap();
    let (joined, _events) = joining.await.unwrap().unwrap();
    assert_eq!(joined.members(), [NodeId(1), NodeId(2)]);
    std::fs::write(&path, "127.0.0.1:1\nweb\n").unwrap();
    let said =
        refusal(host(4).await.group("g").peers([format!("file:{}", path.display())]).join().await);
    assert!(said.contains("line 2: `web` has no port"), "{said}");
}
