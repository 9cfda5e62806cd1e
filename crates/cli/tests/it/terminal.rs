//! What commands print on a terminal, and into a pipe: text from other nodes must not control the
//! reader's terminal.
#![cfg(target_os = "linux")]

use crate::support;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use support::{Place, free_port};

/// What a terminal would obey: a new title, a cleared screen, in seven bits and in eight.
const HOSTILE: &[u8] = b"\x1b]0;evil\x07 \x1b[2J \xc2\x9b2J \xff\r";
const SHOWN: &str = "\\x1b]0;evil\\x07 \\x1b[2J \\x9b2J \\xff\\r";

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command with its output on a terminal; what the terminal got.
fn on_terminal(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let name = OsStr::from_bytes(name.as_bytes());
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    let twin = terminal.try_clone().unwrap();
    command.stdin(Stdio::piped()).stdout(terminal).stderr(twin);
    let mut child = command.spawn().unwrap();
    // Only the command holds the terminal's other end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    child.stdin.take().unwrap().write_all(input).unwrap();
    let (mut shown, mut part, mut controller) = (Vec::new(), [0; 4096], File::from(controller));
    // An error says that the other end was closed.
    while let Ok(length @ 1..) = controller.read(&mut part) {
        shown.extend_from_slice(&part[..length]);
    }
    child.wait().unwrap();
    shown
}

fn in_pipe(command: &mut Command, input: &[u8]) -> Vec<u8> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().stdout
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Runs a command both ways: on a terminal nothing is obeyed, and a pipe gets every byte.
fn is_shown_and_piped(command: impl Fn() -> Command, input: &[u8], shown: &str, piped: &[u8]) {
    let terminal = on_terminal(&mut command(), input);
    let text = String::from_utf8_lossy(&terminal);
    assert!(text.contains(shown), "{text:?}");
    assert!(!terminal.contains(&0x1b) && !terminal.contains(&0x07), "{text:?}");
    let pipe = in_pipe(&mut command(), input);
    assert!(contains(&pipe, piped), "{:?}", String::from_utf8_lossy(&pipe));
}

#[test]
fn messages_of_members_do_not_control_the_terminal() {
    let place = Place::new();
    let broadcast = ["broadcast", "--bootstrap", "--id", "1", "--count", "1"];
    let (input, piped) = ([HOSTILE, b"\n"].concat(), [b"1: ", HOSTILE, b"\n"].concat());
    is_shown_and_piped(|| place.command(&broadcast), &input, &format!("1: {SHOWN}"), &piped);
    let json = || place.command(&[&broadcast[..], &["--json"]].concat());
    let document = in_pipe(&mut json(), &input);
    assert!(contains(&document, b"\"text_base64\":\"G10wO2V2"), "{document:?}");
}

#[test]
fn names_that_nodes_give_themselves_do_not_control_the_terminal() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("served")).unwrap();
    place.write("served/file", "x");
    let start = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        (Running(child), line.trim().rsplit_once(" at ").unwrap().1.to_owned())
    };
    let (_serving, address) =
        start(&["serve", "served", "--prefix", "/p", "--bind", "127.0.0.1:0"]);
    let route = format!("/p={address}");
    let name = "evil \x1b[2J\x07";
    let forward = ["forward", "--bind", "127.0.0.1:0", "--face", &address, "--route", &route];
    let (_relay, relay) = start(&[&forward[..], &["--name", name]].concat());
    let trace = ["ndn", "traceroute", "/p/file", "--face", &relay];
    is_shown_and_piped(|| place.command(&trace), b"", "evil \\x1b[2J\\x07", name.as_bytes());
}

#[test]
fn values_do_not_control_the_terminal() {
    let place = Place::new();
    let peer = format!("127.0.0.1:{}", free_port());
    let host = ["node", "--service", "dht", "--bootstrap", "--bind", &peer];
    let mut host = place.command(&host);
    let mut host = Running(host.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(host.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listens on"), "{line}");
    let mut put = place.command(&["dht", "put", "--peer", &peer, "k"]);
    assert!(put.arg(OsStr::from_bytes(HOSTILE)).output().unwrap().status.success());
    let get = ["dht", "get", "k", "--peer", &peer];
    is_shown_and_piped(|| place.command(&get), b"", SHOWN, HOSTILE);
    assert_eq!(in_pipe(&mut place.command(&get), b""), HOSTILE);
    place.write("keys", "k\n");
    let many = ["dht", "get", "--keys-from", "keys", "--peer", &peer];
    let piped = [b"k,\"", HOSTILE, b"\"\n"].concat();
    is_shown_and_piped(|| place.command(&many), b"", &format!("k,\"{SHOWN}\""), &piped);
}
