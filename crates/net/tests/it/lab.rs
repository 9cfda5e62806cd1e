//! IP multicast, and packets longer than a link's, between machines, as far as network namespaces
//! on a bridge are machines. Skipped with a printed reason where there is no network lab.

#[path = "../../../netlab/tests/support/mod.rs"]
mod netlab_support;

use crate::support;
use crate::support::oracle;

use std::path::{Path, PathBuf};
use std::time::Duration;

use netlab_support::{say_skipped, start_test};
use paceline_net::{
    Bound, BoundFaces, Exposure, FacesConfig, Multicast, MulticastUse, NodeConfig, Roster,
};
use paceline_netlab::{NetlabError, NetworkLab, Plan};
use paceline_proto::core::{GroupId, Lane, Membership, NodeId};
use support::{Order, PATIENCE, Report, TestMessage, start};

const ROLE: &str = "NET_LAB_TEST_NODE";
const NODES: u32 = 4;
const PORT: u16 = 7_800;
const MULTICAST_PORT: u16 = 7_801;
const MESSAGES: u64 = 500;
/// Messages to a group with each turn of a node.
const BURST: u64 = 10;
/// After this long without a message nothing is under way.
const SETTLE: Duration = Duration::from_millis(500);

/// Lengths of questions, and how many of each at a time: some leave in trains, some in fragments.
const QUESTIONS: [(usize, u32); 4] = [(8_795, 5), (1_400, 40), (8_000, 5), (1_467, 40)];
const ROUNDS: usize = 10;

/// The role of this process: its node, and where nodes meet. `None` in the process of the tests.
fn role() -> Option<(u32, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    let (node, folder) = role.split_once(' ').expect("a node and a folder");
    Some((node.parse().expect("a node"), PathBuf::from(folder)))
}

/// Not a test of its own: a node of the lab, that sends to all and prints what it has counted.
#[tokio::test]
async fn the_node_of_a_lab() {
    let Some((node, folder)) = role() else { return };
    let members = (0..NODES).map(|node| {
        (NodeId::from(node), format!("10.77.0.{}:{PORT}", node + 1).parse().expect("an address"))
    });
    let roster = Roster::new(members).expect("distinct members");
    let config = NodeConfig::new("in the lab", NodeId::from(node))
        .with_exposure(Exposure::InsecurePlaintext)
        .with_multicast(Multicast::native(MULTICAST_PORT));
    let addr = roster.addr(NodeId::from(node)).expect("a member");
    let bound = Bound::bind(addr, config).expect("an address and multicast");
    let mut running = start(bound, &roster);
    assert!(matches!(running.node.multicast(), MulticastUse::Native { .. }));
    // The last one has not joined.
    if node + 1 < NODES {
        running.order(Order::Set(GroupId(3), Membership::Joined));
    }
    // Streams wait for nodes that start later, and announce all sessions.
    for peer in (0..NODES).filter(|&peer| peer != node) {
        running.send(peer, Lane::Stream, 0, "");
    }
    running.numbers(NODES as usize - 1).await;
    meet(&folder, node, NODES, "ready").await;
    for number in 0..MESSAGES {
        let message = TestMessage { lane: Lane::Datagram, number, payload: vec![7; 500].into() };
        running.order(Order::SendGroup(GroupId(3), message));
        if number % BURST == BURST - 1 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    meet(&folder, node, NODES, "said").await;
    let mut heard = 0;
    while let Ok(report) = tokio::time::timeout(SETTLE, running.next()).await {
        heard += u64::from(matches!(report, Report::TestMessage(..)));
    }
    let stats = running.node.stats();
    println!("\nheard {heard} out {} {:?}", stats.traffic.datagrams_out, stats.counters.sorted());
}

/// Not a test of its own: a node of the lab with faces. The first answers, the second asks and
/// prints how many answers came and what it has counted.
#[tokio::test]
async fn the_faces_of_a_lab() {
    let Some((node, folder)) = role() else { return };
    let addr = |node: u32| format!("10.77.0.{}:{PORT}", node + 1).parse().expect("an address");
    let config = FacesConfig::new(addr(node))
        .with_exposure(Exposure::InsecurePlaintext)
        .with_accepts_unknown(node == 0)
        .with_faces_allowed(["10.77.0.0/24".parse().expect("a range")]);
    let faces = if node == 0 { vec![] } else { vec![addr(0)] };
    let bound = BoundFaces::bind(config).expect("an address");
    let mut running = oracle::start(bound, &faces);
    meet(&folder, node, 2, "ready").await;
    if node == 0 {
        return meet(&folder, node, 2, "answered").await;
    }
    let mut answered = 0;
    for _ in 0..ROUNDS {
        for (bytes, count) in QUESTIONS {
            running.order(oracle::Order::AskMany(NodeId(0), count, bytes));
            for _ in 0..count {
                let Ok(answer) = tokio::time::timeout(SETTLE, running.answer()).await else {
                    break;
                };
                answered += u32::from(answer.2 == bytes);
            }
        }
    }
    meet(&folder, node, 2, "answered").await;
    let stats = running.node.stats();
    let sends = stats.traffic.datagram_sends;
    println!("\nanswered {answered} sends {sends} {:?}", stats.counters.sorted());
}

/// Waits until all nodes have come to this point.
async fn meet(folder: &Path, node: u32, nodes: u32, point: &str) {
    std::fs::write(folder.join(format!("{point}{node}")), "").expect("a file");
    let is_there = |node| folder.join(format!("{point}{node}")).exists();
    let all = async {
        while !(0..nodes).all(is_there) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("all come in time");
}

/// What a process for each node printed in a line that begins so, as words. Those that did not
/// print it are left out.
fn run(lab: &NetworkLab, nodes: u32, test: &str, begins: &str) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let start = |node: u32| {
        let role = format!("{node} {}", folder.path().display());
        start_test(lab, node as usize, test, (ROLE, &role))
    };
    let children: Vec<_> = (0..nodes).map(start).collect();
    let lines = children.into_iter().filter_map(|child| {
        let output = child.wait_with_output().expect("an end");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}{complaint}");
        let line = text.lines().find(|line| line.starts_with(begins))?;
        Some(line.split(' ').map(str::to_owned).collect())
    });
    lines.collect()
}

/// What each node heard, and how many datagrams it sent.
fn run_multicast(lab: &NetworkLab) -> Vec<(u64, u64)> {
    let lines = run(lab, NODES, "lab::the_node_of_a_lab", "heard ");
    assert_eq!(lines.len(), NODES as usize);
    let count = |word: &String| word.parse().expect("a count");
    lines.iter().map(|words| (count(&words[1]), count(&words[3]))).collect()
}

/// A lab of this many nodes, or nothing where there can be none.
fn build(nodes: u32) -> Option<NetworkLab> {
    netlab_support::build(Plan::new(nodes as usize, 1_000_000_000))
}

#[test]
fn packets_longer_than_a_links_arrive_whole_and_shorter_ones_leave_in_trains() {
    let Some(lab) = build(2) else { return };
    let lines = run(&lab, 2, "lab::the_faces_of_a_lab", "answered ");
    let [words] = &lines[..] else { panic!("{lines:?}") };
    let asked: u32 = QUESTIONS.repeat(ROUNDS).iter().map(|(_, count)| count).sum();
    assert_eq!(words[1], asked.to_string(), "{words:?}");
    let sends: u32 = words[3].parse().expect("a count");
    assert!(sends <= asked / 4, "{words:?}");
    assert_eq!(words[4], "[]", "nothing was refused: {words:?}");
}

#[test]
fn what_a_node_sends_once_crosses_the_bridge_to_all_who_have_joined() {
    let Some(mut lab) = build(NODES) else { return };
    // A node that has joined hears all others.
    let others = u64::from(NODES - 1) * MESSAGES;
    for (node, (heard, out)) in run_multicast(&lab).into_iter().enumerate() {
        let expected = if node + 1 < NODES as usize { others } else { 0 };
        assert_eq!(heard, expected, "node {node}");
        // And Hellos.
        assert!((MESSAGES..MESSAGES + 10).contains(&out), "node {node} sent {out}");
    }
    match lab.drop_datagrams_everywhere(0.2) {
        Err(error @ (NetlabError::MissingTools { .. } | NetlabError::Unsupported { .. })) => {
            return say_skipped(&error);
        }
        result => result.expect("a filter"),
    }
    for (node, (heard, _)) in run_multicast(&lab).into_iter().enumerate().take(NODES as usize - 1) {
        // 300 are expected to get lost, with a deviation of 16 if each is judged by itself.
        let lost = others - heard;
        assert!((200..400).contains(&lost), "node {node} lost {lost} of {others}");
    }
}
