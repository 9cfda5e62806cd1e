//! IP multicast among nodes of one machine, and what a node makes of what comes to its port.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use paceline_net::record::{ClusterTag, Header, Kind, ServiceNumber, Session};
use paceline_net::{BindError, Bound, EmulateChange, Multicast, MulticastUse, NodeConfig, Peers};
use paceline_net::{Node, Roster};
use paceline_proto::core::{GroupId, Lane, LinkFaults, Loss, Membership, NodeId};
use socket2::SockRef;
use support::{Order, Post, Report, Running, TestMessage, bind, start};

/// Below the ports that the kernel hands out.
const PORT: u16 = 28_471;

/// A name that no other run of these tests has, so that runs side by side do not meet.
fn cluster_name(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn config(cluster: &str, node: u32, multicast: Multicast) -> NodeConfig {
    NodeConfig::new(cluster, NodeId::from(node)).with_seed(7).with_multicast(multicast)
}

/// As many nodes of a cluster of this name that multicast, and the roster of all.
fn natives(cluster: &str, count: u32) -> (Vec<Running>, Roster) {
    let bound: Vec<Bound> =
        (0..count).map(|node| bind(config(cluster, node, Multicast::native(PORT)))).collect();
    let members = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
    let roster = Roster::new(members).expect("distinct members");
    (bound.into_iter().map(|bound| start(bound, &roster)).collect(), roster)
}

async fn set(node: &mut Running, group: u32, membership: Membership) {
    node.order(Order::Set(GroupId(group), membership));
    node.find(|report| (*report == Report::Set).then_some(())).await;
}

fn send_group(node: &Running, group: u32, number: u64) {
    let message = TestMessage { lane: Lane::Datagram, number, payload: "to a group".into() };
    node.order(Order::SendGroup(GroupId(group), message));
}

fn traffic_out(node: &Running) -> u64 {
    node.node.stats().traffic.datagrams_out
}

/// The first of the cluster's addresses.
fn first(node: &Node<Post>) -> SocketAddrV4 {
    match node.multicast() {
        MulticastUse::Native { first, .. } => *first,
        other => panic!("no multicast on loopback: {other:?}"),
    }
}

#[tokio::test]
async fn one_datagram_reaches_all_who_have_joined_though_nobody_knew_its_sender() {
    let (mut nodes, _) = natives(&cluster_name("four"), 4);
    for node in &mut nodes[..3] {
        set(node, 5, Membership::Joined).await;
    }
    for number in 0..100 {
        send_group(&nodes[0], 5, number);
    }
    for node in &mut nodes[1..3] {
        assert_eq!(node.numbers(100).await, (0..100).collect::<Vec<_>>());
    }
    nodes[0].counted("multicast_own", 100).await;
    assert_eq!(traffic_out(&nodes[0]), 100 + 3, "three Hellos");
    assert_eq!(nodes[0].count("post_received") + nodes[3].count("post_received"), 0);
    assert_eq!(nodes[3].count("group_not_joined"), 0, "the kernel keeps it away");
    match nodes[0].node.multicast() {
        MulticastUse::Native { first, receive_bytes } => {
            assert_eq!((first.ip().octets()[0], first.port()), (239, PORT));
            assert_eq!(*receive_bytes, nodes[0].node.datagram_receive_bytes());
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn groups_that_share_an_address_are_told_apart_and_it_is_left_with_the_last() {
    let (mut nodes, _) = natives(&cluster_name("share"), 3);
    let mut others = nodes.split_off(1);
    let (a, b) = (&nodes[0], &mut others);
    // 1 and 16 have one address, 2 has another.
    for group in [1, 16, 2] {
        set(&mut b[0], group, Membership::Joined).await;
    }
    set(&mut b[1], 16, Membership::Joined).await;
    send_group(a, 1, 10);
    send_group(a, 16, 11);
    send_group(a, 2, 12);
    let mut numbers = b[0].numbers(3).await;
    numbers.sort_unstable();
    assert_eq!(numbers, [10, 11, 12]);
    assert_eq!(b[1].message().await.number, 11);
    assert_eq!((b[1].count("group_not_joined"), b[1].count("post_received")), (1, 1));

    set(&mut b[0], 1, Membership::Left).await;
    send_group(a, 1, 20);
    send_group(a, 16, 21);
    assert_eq!(b[0].message().await.number, 21);
    b[0].counted("group_not_joined", 1).await;
    set(&mut b[0], 16, Membership::Left).await;
    send_group(a, 16, 30);
    // Once one node has it, all that hear the address have it.
    assert_eq!(b[1].message().await.number, 21);
    assert_eq!(b[1].message().await.number, 30);
    send_group(a, 2, 31);
    assert_eq!(b[0].message().await.number, 31);
    assert_eq!(b[0].count("group_not_joined"), 1, "the kernel keeps it away");
}

#[tokio::test]
async fn clusters_on_one_port_do_not_hear_each_other() {
    let mut clusters = Vec::new();
    for name in ["one", "other"] {
        let (mut nodes, _) = natives(&cluster_name(name), 2);
        for node in &mut nodes {
            set(node, 7, Membership::Joined).await;
        }
        clusters.push(nodes);
    }
    assert_ne!(first(&clusters[0][0].node), first(&clusters[1][0].node));
    for number in 0..20 {
        send_group(&clusters[0][0], 7, number);
        send_group(&clusters[1][0], 7, 1000 + number);
    }
    for (cluster, from) in clusters.iter_mut().zip([0, 1000]) {
        assert_eq!(cluster[1].numbers(20).await, (from..from + 20).collect::<Vec<_>>());
        assert_eq!(cluster[1].count("record_foreign_cluster"), 0, "the kernel keeps it away");
    }
}

#[tokio::test]
async fn a_restarted_member_hears_after_one_question_at_most() {
    let name = cluster_name("restart");
    let (mut nodes, roster) = natives(&name, 2);
    let mut b = nodes.pop().expect("two nodes");
    set(&mut b, 1, Membership::Joined).await;
    send_group(&nodes[0], 1, 1);
    assert_eq!(b.message().await.number, 1);
    let addr = b.node.local_addr();
    b.node.stop().await;
    drop(b);
    let bound = Bound::bind(addr, config(&name, 1, Multicast::native(PORT))).expect("free again");
    let mut b = start(bound, &roster);
    set(&mut b, 1, Membership::Joined).await;
    send_group(&nodes[0], 1, 2);
    b.counted("record_unknown_session", 1).await;
    let message = loop {
        send_group(&nodes[0], 1, 3);
        tokio::select! {
            message = b.message() => break message,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    };
    assert_eq!(message.number, 3);
}

#[tokio::test]
async fn emulated_links_get_a_copy_each_and_end_buffers_lose_what_was_sent_once() {
    let (mut nodes, _) = natives(&cluster_name("emulated"), 3);
    for node in &mut nodes {
        set(node, 1, Membership::Joined).await;
    }
    let faults = LinkFaults { loss: Loss::Independent(1.0), ..LinkFaults::default() };
    let cut = EmulateChange::Faults { to: Peers::One(NodeId(1)), faults };
    nodes[0].node.emulate(cut).expect("the node runs");
    send_group(&nodes[0], 1, 1);
    assert_eq!(nodes[2].message().await.number, 1);
    assert_eq!(nodes[0].count("emulated_loss"), 1);
    nodes[0].node.emulate(EmulateChange::Partition(vec![NodeId(2)])).expect("the node runs");
    send_group(&nodes[0], 1, 2);
    nodes[0].counted("emulated_loss", 3).await;
    nodes[0].node.emulate(EmulateChange::Clear).expect("the node runs");
    assert_eq!(nodes[0].count("multicast_own"), 0);

    let lossy = EmulateChange::ReceiveLoss(Loss::Independent(0.5));
    nodes[1].node.emulate(lossy).expect("the node runs");
    tokio::task::yield_now().await;
    for number in 10..110 {
        send_group(&nodes[0], 1, number);
    }
    assert_eq!(nodes[2].numbers(100).await, (10..110).collect::<Vec<_>>());
    nodes[0].counted("multicast_own", 100).await;
    let lost = || nodes[1].count("emulated_receive_loss");
    nodes[1].counted("post_received", 20).await;
    nodes[1].counted("emulated_receive_loss", 20).await;
    while lost() + nodes[1].count("post_received") < 100 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn where_multicast_is_impossible_it_is_refused_or_copies_are_sent_as_asked() {
    // A socket that does not share the port.
    let taken = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let name = cluster_name("fallen");
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    for (addr, port) in [(any, port), (any, 0), ("[::1]:0".parse().expect("an address"), PORT)] {
        let error = Bound::bind(addr, config(&name, 0, Multicast::native(port)));
        let error = error.map(drop).expect_err("no multicast there");
        let is_no_v6 = addr.is_ipv6() && matches!(error, BindError::NotLocal { .. });
        assert!(matches!(error, BindError::Multicast { .. }) || is_no_v6, "{error}");
    }
    let bound: Vec<Bound> =
        (0..2).map(|node| bind(config(&name, node, Multicast::auto(port)))).collect();
    let members = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
    let roster = Roster::new(members).expect("two members");
    let mut nodes: Vec<Running> = bound.into_iter().map(|it| start(it, &roster)).collect();
    for node in &nodes {
        let way = node.node.multicast();
        assert!(matches!(way, MulticastUse::FellBack { reason } if !reason.is_empty()), "{way:?}");
    }
    set(&mut nodes[1], 3, Membership::Joined).await;
    send_group(&nodes[0], 3, 1);
    assert_eq!(nodes[1].message().await.number, 1);
    let auto = bind(config(&name, 9, Multicast::auto(PORT)));
    let alone = Roster::new([(NodeId(9), auto.local_addr())]).expect("one member");
    first(&start(auto, &alone).node);
}

/// A test's sender of raw records, as member 1 or as no member.
struct Played {
    socket: UdpSocket,
    cluster: ClusterTag,
    session: Session,
}

impl Played {
    fn record(&self, kind: Kind, sender: u32, body: &[u8]) -> Vec<u8> {
        let (cluster, session) = (self.cluster, self.session.tag());
        let (service, sender) = (kind.number(ServiceNumber::default()), NodeId::from(sender));
        let header = Header { kind, epoch: 0, service, cluster, sender, session, sequence: 0 };
        [&header.encode()[..], body].concat()
    }

    fn message(&self, sender: u32, group: u32) -> Vec<u8> {
        let body = [&group.to_be_bytes()[..], &[0; 8], &[9]].concat();
        self.record(Kind::Group, sender, &body)
    }

    fn send(&self, bytes: &[u8], to: impl Into<SocketAddr>) {
        self.socket.send_to(bytes, to.into()).expect("sent");
    }
}

#[tokio::test]
async fn what_does_not_belong_on_the_port_is_counted_and_dropped() {
    let name = cluster_name("hostile");
    let bound = bind(config(&name, 0, Multicast::native(PORT)));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    SockRef::from(&socket).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("loopback");
    socket.set_read_timeout(Some(support::PATIENCE)).expect("a time-out");
    let members = [(NodeId(0), bound.local_addr()), (NodeId(1), socket.local_addr().unwrap())];
    let mut node = start(bound, &Roster::new(members).expect("two members"));
    // Group 0 has the first address.
    set(&mut node, 0, Membership::Joined).await;
    let port = first(&node.node);
    let played = Played { socket, cluster: ClusterTag::of(&name), session: Session::new(1000, 1) };

    // A session that is not known is asked for where the roster says, and nowhere else.
    let forger = UdpSocket::bind("127.0.0.1:0").expect("a port");
    SockRef::from(&forger).set_multicast_if_v4(&Ipv4Addr::LOCALHOST).expect("loopback");
    forger.send_to(&played.message(1, 0), port).expect("sent");
    node.counted("record_unknown_session", 1).await;
    let mut asked = [0; 100];
    let length = played.socket.recv(&mut asked).expect("a question");
    assert_eq!((length, asked[1]), (32, 3), "a Who without a body");
    let hello = played.record(Kind::Hello, 1, played.session.as_bytes());
    played.send(&hello, node.node.local_addr());
    played.send(&played.message(1, 0), port);
    assert_eq!(node.find(|it| matches!(it, Report::TestMessage(..)).then_some(())).await, ());

    let spoilt = |place: usize, value: u8| {
        let mut bytes = played.message(1, 0);
        bytes[place] = value;
        bytes
    };
    let cases = [
        (played.record(Kind::Message, 1, &[0; 9]), "record_malformed"),
        (hello, "record_malformed"),
        (played.record(Kind::Who, 1, &[]), "record_malformed"),
        (played.record(Kind::Taken, 1, &[0]), "record_malformed"),
        (played.record(Kind::Group, 1, &[0; 3]), "record_malformed"),
        (played.message(1, 0)[..23].to_vec(), "record_malformed"),
        (played.record(Kind::Group, 1, &[0, 0, 0, 0, 77]), "record_undecodable"),
        (spoilt(0, 0x81), "record_foreign_version"),
        (spoilt(4, !played.message(1, 0)[4]), "record_unknown_service"),
        (spoilt(8, !played.message(1, 0)[8]), "record_foreign_cluster"),
        (played.message(5, 0), "record_unknown_sender"),
        (played.message(0, 0), "peer_has_own_id"),
        (played.message(1, 16), "group_not_joined"),
        (vec![0; 1], "record_foreign_version"),
    ];
    for (bytes, counter) in cases {
        // 16 shares its address with 1.
        if counter == "group_not_joined" {
            set(&mut node, 1, Membership::Joined).await;
        }
        let to = if counter == "group_not_joined" {
            SocketAddrV4::new(Ipv4Addr::from(u32::from(*port.ip()) + 1), port.port())
        } else {
            port
        };
        let before = node.count(counter);
        played.send(&bytes, to);
        node.counted(counter, before + 1).await;
    }
    assert_eq!(node.count("post_received"), 1);
    // The question went to node 0's member 1 only, and not to the forger's address.
    forger.set_nonblocking(true).expect("a socket");
    assert!(forger.recv(&mut asked).is_err());
}

#[tokio::test]
async fn what_is_sent_to_the_port_and_to_no_group_is_not_taken() {
    // A port of its own: the kernel gives such a datagram to one of the sockets that share it.
    let port = UdpSocket::bind("0.0.0.0:0").expect("a port").local_addr().expect("bound").port();
    let name = cluster_name("unicast");
    let bound = bind(config(&name, 0, Multicast::native(port)));
    let members = [(NodeId(0), bound.local_addr())];
    let node = start(bound, &Roster::new(members).expect("one member"));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let played = Played { socket, cluster: ClusterTag::of(&name), session: Session::new(1000, 1) };
    played.send(&played.message(1, 0), SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    node.counted("multicast_not_addressed", 1).await;
}
