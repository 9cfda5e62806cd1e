//! The lab itself: built, measured, broken and removed. Skipped with a printed reason where the
//! machine has no room for one.

mod support;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use paceline_netlab::{NetlabError, NetworkLab, Plan, sweep};
use serde_json::Value;
use support::{build, say_skipped, start_test};

const PORT: u16 = 7_701;
/// Few enough for a socket's default buffer to hold them all.
const DATAGRAMS: u64 = 200;
const ROLE: &str = "NETLAB_TEST_ROLE";
/// No member lives longer, whatever it waits for.
const MEMBER_AT_MOST: Duration = Duration::from_secs(20);

/// This program again, in a role of `the_member_roles`, inside a node.
fn start(lab: &NetworkLab, node: usize, role: &str) -> Child {
    start_test(lab, node, "the_member_roles", (ROLE, role))
}

/// Runs a role in each node and takes the last JSON object that each printed.
fn run(lab: &NetworkLab, roles: [&str; 2]) -> [Option<Value>; 2] {
    let children = [0, 1].map(|node| start(lab, node, roles[node]));
    children.map(|child| {
        let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
        assert!(status.success(), "{status}: {}", String::from_utf8_lossy(&stderr));
        let text = String::from_utf8_lossy(&stdout);
        let mut objects = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        objects.rfind(Value::is_object)
    })
}

/// Waits for a file by which members in different namespaces tell each other how far they are.
fn wait_for(file: &Path) {
    let end = Instant::now() + Duration::from_secs(5);
    while !file.exists() {
        assert!(Instant::now() < end, "{} does not appear", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn namespace_exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

fn connect(address: Ipv4Addr) -> TcpStream {
    let end = Instant::now() + Duration::from_secs(3);
    loop {
        match TcpStream::connect((address, PORT)) {
            Ok(stream) => return stream,
            Err(error) if Instant::now() > end => panic!("{address}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Not a test of its own: what members do, one role a process.
#[test]
fn the_member_roles() {
    let role = std::env::var(ROLE).unwrap_or_default();
    if !role.is_empty() {
        std::thread::spawn(|| {
            std::thread::sleep(MEMBER_AT_MOST);
            eprintln!("too late");
            std::process::exit(3);
        });
    }
    match role.split_once(' ').unwrap_or((&role, "")) {
        ("sink", _) => {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            let (mut bytes, mut seconds, mut started) = (0, 0.0, None);
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => break,
                    count => bytes += count,
                }
                seconds = started.get_or_insert_with(Instant::now).elapsed().as_secs_f64();
            }
            println!("\n{{\"bytes\":{bytes},\"seconds\":{seconds}}}");
        }
        ("source", address) => {
            let mut stream = connect(address.parse().unwrap());
            let end = Instant::now() + Duration::from_millis(1200);
            while Instant::now() < end {
                stream.write_all(&[7; 16 << 10]).unwrap();
            }
        }
        ("meet", nodes) => {
            let nodes: u8 = nodes.parse().unwrap();
            let socket = UdpSocket::bind(("0.0.0.0", PORT)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let mut heard = BTreeSet::new();
            // A node that has heard of all continues for the others.
            let mut rounds_left = 20;
            while rounds_left > 0 {
                rounds_left -= i32::from(heard.len() == usize::from(nodes));
                for node in 1..=nodes {
                    socket.send_to(&[0], (Ipv4Addr::new(10, 77, 0, node), PORT)).unwrap();
                }
                let end = Instant::now() + Duration::from_millis(100);
                while Instant::now() < end {
                    if let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
                        heard.insert(from.ip());
                    }
                }
            }
            println!("\n{{\"heard\":{}}}", heard.len());
        }
        ("hear", folder) => {
            let socket = UdpSocket::bind(("0.0.0.0", PORT)).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            std::fs::write(Path::new(folder).join("ready"), "").unwrap();
            let said = Path::new(folder).join("said");
            let mut heard = 0;
            loop {
                match socket.recv(&mut [0; 64]) {
                    Ok(_) => heard += 1,
                    Err(_) if said.exists() => break,
                    Err(_) => {}
                }
            }
            println!("\n{{\"heard\":{heard}}}");
        }
        ("say", to) => {
            let (address, folder) = to.split_once(' ').unwrap();
            wait_for(&Path::new(folder).join("ready"));
            let socket = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            for _ in 0..DATAGRAMS {
                socket.send_to(b"hello", (address, PORT)).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
            std::fs::write(Path::new(folder).join("said"), "").unwrap();
        }
        ("stay", _) => std::thread::sleep(MEMBER_AT_MOST),
        _ => {}
    }
}

/// How many of [`DATAGRAMS`] that node 0 sends to node 1 arrive.
fn heard(lab: &NetworkLab) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let hear = format!("hear {}", folder.path().display());
    let say = format!("say {} {}", lab.address(1), folder.path().display());
    let [_, result] = run(lab, [&say, &hear]);
    result.expect("the hearer reports")["heard"].as_u64().unwrap()
}

#[test]
fn a_stream_fills_the_shaped_link_and_no_more() {
    let Some(lab) = build(Plan::new(2, 100_000_000)) else {
        return;
    };
    let [report, _] = run(&lab, ["sink", &format!("source {}", lab.address(0))]);
    let report = report.expect("the sink reports");
    let rate = report["bytes"].as_f64().unwrap() / report["seconds"].as_f64().unwrap() / 1e6;
    let limit = lab.plan().limit_mb();
    assert!((0.7 * limit..1.1 * limit).contains(&rate), "{rate} MB/s of {limit}");
}

#[test]
fn a_port_of_its_own_rate_counts_what_passes_it_and_lets_no_more_through() {
    let Some(lab) = build(Plan::new(2, 1_000_000_000).with_rate(0, 20_000_000)) else {
        return;
    };
    let [report, _] = run(&lab, ["sink", &format!("source {}", lab.address(0))]);
    let report = report.expect("the sink reports");
    let bytes = report["bytes"].as_f64().unwrap();
    let rate = bytes * 8.0 / report["seconds"].as_f64().unwrap();
    // The payload of a full frame is 1448 of 1514 bytes.
    let limit = 20e6 * 1448.0 / 1514.0;
    assert!((0.7 * limit..1.1 * limit).contains(&rate), "{rate} bit/s of {limit}");
    let [narrow, wide] = [0, 1].map(|node| {
        let traffic = lab.traffic(node).unwrap();
        [traffic.received.1, traffic.sent.1]
    });
    // What was sent again is counted too.
    let received = narrow[0].bytes as f64;
    assert!((bytes * 1.04..bytes * 1.3).contains(&received), "{received} bytes for {bytes}");
    let frame = received / narrow[0].packets as f64;
    assert!((1_000.0..=1_514.0).contains(&frame), "frames of {frame} bytes");
    assert!(narrow[1].bytes > 0 && narrow[1].bytes < narrow[0].bytes / 10);
    assert!(wide[1].bytes >= narrow[0].bytes);
    assert!(matches!(lab.traffic(2), Err(NetlabError::NoSuchNode { node: 2, last: 1 })));
}

#[test]
fn all_of_many_nodes_reach_each_other() {
    const NODES: usize = 40;
    let Some(lab) = build(Plan::new(NODES, 100_000_000)) else {
        return;
    };
    let role = format!("meet {NODES}");
    let members: Vec<Child> = (0..NODES).map(|node| start(&lab, node, &role)).collect();
    for (node, member) in members.into_iter().enumerate() {
        let Output { status, stderr, .. } = member.wait_with_output().unwrap();
        assert!(status.success(), "node {node}: {}", String::from_utf8_lossy(&stderr));
    }
}

#[test]
fn loss_partition_and_healing_are_what_was_asked() {
    let Some(mut lab) = build(Plan::new(2, 1_000_000_000)) else {
        return;
    };
    match lab.drop_share(0, 1, 0.5) {
        Err(error @ (NetlabError::MissingTools { .. } | NetlabError::Unsupported { .. })) => {
            say_skipped(&error);
            return;
        }
        result => result.unwrap(),
    }
    // 100 are expected; seven standard deviations either side.
    let half = heard(&lab);
    assert!((50..=150).contains(&half), "{half} of {DATAGRAMS} at a loss of one half");
    lab.partition(0, 1).unwrap();
    assert_eq!(heard(&lab), 0);
    lab.heal().unwrap();
    lab.drop_datagrams(1, 0.5).unwrap();
    let half = heard(&lab);
    assert!((50..=150).contains(&half), "{half} of {DATAGRAMS} at a loss of one half");
    lab.drop_datagrams(1, 1.0).unwrap();
    assert_eq!(heard(&lab), 0);
    lab.heal().unwrap();
    assert_eq!(heard(&lab), DATAGRAMS);
}

#[test]
fn a_dropped_lab_takes_its_processes_with_it() {
    let Some(lab) = build(Plan::new(2, 100_000_000)) else {
        return;
    };
    let names = [lab.switch(), lab.namespace(0), lab.namespace(1)];
    assert!(names.iter().all(|name| namespace_exists(name)));
    let mut member = start(&lab, 1, "stay");
    drop(lab);
    assert!(!names.iter().any(|name| namespace_exists(name)), "{names:?}");
    assert!(!member.wait().unwrap().success(), "it was not killed");
}

#[test]
fn what_a_dead_process_left_is_swept_and_the_rest_is_not() {
    let Some(lab) = build(Plan::new(2, 100_000_000)) else {
        return;
    };
    // No process has this id: the kernel's end at 4194304.
    let left = format!("paceline-4999999-{}-0-n0", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &left]).status();
    assert!(made.is_ok_and(|status| status.success()));
    // Another test's build may have swept it by now, which is fine.
    sweep().unwrap();
    assert!(!namespace_exists(&left));
    assert!(namespace_exists(&lab.switch()));
}

#[test]
fn misuse_is_refused_before_anything_changes() {
    assert!(matches!(
        NetworkLab::build(Plan::new(201, 100_000_000)),
        Err(NetlabError::Plan { field: "nodes", value: 201, .. })
    ));
    let Some(mut lab) = build(Plan::new(2, 100_000_000)) else {
        return;
    };
    assert!(matches!(lab.partition(0, 2), Err(NetlabError::NoSuchNode { node: 2, last: 1 })));
    assert!(matches!(lab.drop_share(0, 1, 1.5), Err(NetlabError::Share(_))));
    assert!(matches!(lab.drop_datagrams(1, -0.5), Err(NetlabError::Share(_))));
}
