//! `paceline serve`, `forward`, `fetch` and `ndn` as processes on loopback, and python-ndn with
//! them.

use crate::support;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use serde_json::Value;
use support::{Place, keys};

const VARIABLE: &str = "PACELINE_PYTHON_NDN";

/// A process that says where it listens, and ends with the test.
struct Running {
    child: Child,
    address: String,
    said: BufReader<ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once(" at ").unwrap_or_else(|| panic!("{line}")).1;
        let address = address.to_owned();
        Running { child, address, said }
    }

    fn face(&self) -> String {
        format!("udp://{}", self.address)
    }

    /// Waits for a line that has this in it.
    fn wait_for(&mut self, what: &str) {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert!(self.said.read_line(&mut line).unwrap() > 0, "it ended before `{what}`");
        }
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// What it prints when it is asked to end.
    fn ended(mut self) -> String {
        self.interrupt();
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert!(self.child.wait().unwrap().success(), "{printed}");
        printed
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that look like nothing else, the same each time.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..bytes).map(|_| next()).collect()
}

/// A place with a file to serve.
fn place(bytes: usize) -> (Place, Vec<u8>) {
    let place = Place::new();
    let content = noise(bytes);
    std::fs::create_dir(place.path().join("served")).unwrap();
    std::fs::write(place.path().join("served/file.bin"), &content).unwrap();
    (place, content)
}

fn serve(place: &Place, more: &[&str]) -> Running {
    let serve = ["serve", "served", "--prefix", "/p", "--bind", "127.0.0.1:0"];
    Running::start(place.command(&[&serve[..], more].concat()))
}

fn forward(place: &Place, more: &[&str]) -> Running {
    let forward = ["forward", "--bind", "127.0.0.1:0"];
    Running::start(place.command(&[&forward[..], more].concat()))
}

/// A forwarder with one route: names with the prefix are there.
fn forward_to(place: &Place, to: &Running, rate: &str, more: &[&str]) -> Running {
    let (face, route) = (format!("{}={rate}", to.face()), format!("/p={}", to.address));
    forward(place, &[&["--face", &face, "--route", &route], more].concat())
}

#[test]
fn a_file_is_fetched_through_a_forwarder_with_what_was_measured_as_json() {
    let (place, content) = place(2_000_000);
    let serving = serve(&place, &["--json"]);
    let relay = forward_to(&place, &serving, "100Mbit", &["--name", "relay", "--json"]);
    let face = relay.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face];
    let (ran, document) = place.json(&fetch);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    assert_eq!((&document["bytes"], &document["segments"]), (&2_000_000.into(), &2_000.into()));
    assert_eq!(document["sha256"].as_str().unwrap().len(), 64);
    assert!(document["link_mbit_per_s"].as_f64() > document["mbit_per_s"].as_f64());
    let ran = place.run(&[&fetch[..], &["--multipath", "best", "--rate", "50Mbit"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("2000000 bytes in"), "{}", ran.stdout);
    assert!(ran.stdout.contains("intact, origin unknown"), "{}", ran.stdout);

    let (_, pings) =
        place.json(&["ndn", "ping", "/p", "-c", "2", "--interval", "1ms", "--face", &face]);
    assert_eq!((&pings["sent"], &pings["answered"]), (&2.into(), &2.into()));
    let path = pings["pings"][0]["path"].as_str().unwrap();
    assert_eq!(path.split('.').count(), 2, "the consumer's face and the forwarder's: {path}");
    let (_, traced) =
        place.json(&["ndn", "traceroute", "/p/file.bin", "--all-paths", "--path", &face]);
    let hops = traced["paths"][0]["hops"].as_array().unwrap();
    let nodes: Vec<&str> = hops.iter().filter_map(|hop| hop["node"].as_str()).collect();
    assert_eq!(nodes, ["relay", &serving.address], "{traced}");

    let report: Value = serde_json::from_str(&relay.ended()).unwrap();
    let up = report["faces"].as_array().unwrap();
    let up = up.iter().find(|face| face["address"] == serving.address).unwrap();
    assert!(up["data_in"].as_u64().unwrap() >= 4_000, "{report}");
    assert!(up["primary_bits_per_second"].as_u64().unwrap() > 0, "{report}");
    let served: Value = serde_json::from_str(&serving.ended()).unwrap();
    assert!(served["segments"].as_u64().unwrap() >= 2_000, "{served}");
    assert_eq!(served["prefix"], "/p");
}

#[test]
fn a_fetch_tells_how_far_it_is_in_lines_of_json() {
    let (place, content) = place(400_000);
    let serving = serve(&place, &[]);
    let face = serving.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face, "--rate", "8Mbit"];
    let ran = place.run(&[&fetch[..], &["--json", "--stats", "50ms"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (whole, lines) = lines.split_last().unwrap();
    assert_eq!(whole["bytes"], 400_000);
    assert!(whole["sha256"].is_string(), "{whole}");
    // At 8 Mbit/s it takes 0.4 s and more.
    assert!(lines.len() >= 3, "{}", ran.stdout);
    let column = |key: &str| -> Vec<u64> {
        lines.iter().map(|line| line[key].as_u64().unwrap_or_else(|| panic!("{line}"))).collect()
    };
    let (content_bytes, link_bytes) = (column("content_bytes"), column("link_bytes"));
    assert!(content_bytes.is_sorted() && content_bytes.last() <= Some(&(content.len() as u64)));
    assert!(content_bytes.iter().any(|&bytes| bytes > 0), "{}", ran.stdout);
    assert!(content_bytes.iter().zip(&link_bytes).all(|(content, link)| content <= link));
    let text = place.run(&[&fetch[..], &["--no-resume", "--stats=100ms"]].concat());
    assert!(text.stdout.contains("Mbit/s so far"), "{}", text.stdout);
    assert!(place.error(&[&fetch[..], &["--stats", "0s"]].concat(), 2).contains(
        "expected an \
        interval"
    ));
}

#[test]
fn a_fetch_that_is_killed_goes_on_where_it_was() {
    let (place, content) = place(3_000_000);
    let serving = serve(&place, &[]);
    let relay = forward_to(&place, &serving, "20Mbit", &[]);
    let face = relay.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face];
    let mut child = place.command(&fetch).stderr(Stdio::piped()).spawn().unwrap();
    // What has come is noted once a second; the first note says nothing yet.
    let note = place.path().join("out.part.json");
    let has_some = || {
        let text = std::fs::read_to_string(&note).unwrap_or_default();
        let note = serde_json::from_str::<Value>(&text).unwrap_or_default();
        note["had"].as_array().is_some_and(|had| !had.is_empty())
    };
    while !has_some() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended too soon");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.path().join("out").exists());
    let (ran, document) = place.json(&fetch);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    let resumed = document["resumed_bytes"].as_u64().unwrap();
    assert!(resumed > 0 && resumed < 3_000_000, "{document}");
    assert_eq!(document["segments"].as_u64().unwrap(), 3_000 - resumed / 1_000);
}

#[test]
fn a_fetch_that_is_interrupted_says_what_it_keeps() {
    let (place, _) = place(3_000_000);
    let serving = serve(&place, &[]);
    let relay = forward_to(&place, &serving, "5Mbit", &[]);
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &relay.face()];
    let child = place.command(&fetch).stderr(Stdio::piped()).spawn().unwrap();
    while !place.path().join("out.part.json").exists() {
        std::thread::yield_now();
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("run the command again") && said.contains("error: stopped"), "{said}");
    assert!(place.path().join("out.part").exists() && !place.path().join("out").exists());
}

#[test]
fn a_producer_registers_by_itself_and_lets_go_when_it_ends() {
    let (place, content) = place(100_000);
    let relay = forward(&place, &["--accept-registrations"]);
    let face = relay.face();
    let mut serving = serve(&place, &["--face", &face, "--register"]);
    serving.wait_for("registered at");
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face];
    let ran = place.run(&fetch);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    serving.ended();
    let said = place.error(&fetch, 1);
    assert!(said.contains("no route leads to /p/file.bin"), "{said}");

    // Without being asked to, a forwarder takes none; and none but those that it was asked to.
    let registers = |relay: &Running, prefix: &str| {
        let face = relay.face();
        place.error(&["serve", "served", "--prefix", prefix, "--register", "--face", &face], 1)
    };
    let said = registers(&forward(&place, &[]), "/p");
    assert!(said.contains("does not accept registrations"), "{said}");
    let apps = forward(&place, &["--accept-registrations", "/apps"]);
    let said = registers(&apps, "/p");
    assert!(said.contains("403 registration of this prefix is not allowed"), "{said}");
}

#[test]
fn a_registration_does_not_lead_names_away_from_the_operators_route() {
    let (place, content) = place(2_000);
    let serving = serve(&place, &[]);
    let relay = forward_to(&place, &serving, "100Mbit", &["--accept-registrations"]);
    let face = relay.face();
    std::fs::create_dir(place.path().join("forged")).unwrap();
    place.write("forged/file.bin", "forged");
    for prefix in ["/p", "/p/file.bin"] {
        let forged = ["serve", "forged", "--prefix", prefix, "--register", "--face", &face];
        let said = place.error(&forged, 1);
        assert!(said.contains("403 the operator routes this prefix to another face"), "{said}");
    }
    for _ in 0..10 {
        let ran = place.run(&["fetch", "/p/file.bin", "-o", "out", "--face", &face]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    }
}

#[cfg(unix)]
#[test]
fn a_folder_is_served_without_its_hidden_files_and_never_with_the_private_key() {
    let (place, _) = place(10);
    place.write("served/.env", "password");
    std::fs::create_dir(place.path().join("served/.git")).unwrap();
    place.write("served/.git/config", "token");
    let fetch = |serving: &Running, file: &str| {
        let name = format!("/p/{file}");
        place.run(&["fetch", &name, "-o", "out", "--face", &serving.face()])
    };
    let serving = serve(&place, &[]);
    assert_eq!(fetch(&serving, "file.bin").status, 0);
    for file in [".env", ".git/config"] {
        let ran = fetch(&serving, file);
        assert_eq!(ran.status, 1, "{file}: {}", ran.stdout);
        assert!(ran.stderr.contains("the producer has no object"), "{}", ran.stderr);
    }
    let serving = serve(&place, &["--hidden"]);
    assert_eq!(fetch(&serving, ".env").status, 0);
    assert_eq!(std::fs::read_to_string(place.path().join("out")).unwrap(), "password");

    for name in ["served/key.pem", "key.pem"] {
        place.write(name, PRIVATE);
    }
    std::os::unix::fs::symlink("served/key.pem", place.path().join("link.pem")).unwrap();
    let refused = |key: &str| {
        let serve = ["serve", "served", "--prefix", "/p", "--bind", "127.0.0.1:0", "--key", key];
        place.error(&serve, 2)
    };
    for key in ["served/key.pem", "link.pem"] {
        let said = refused(key);
        assert!(said.contains("which is served") && said.contains(key), "{said}");
    }
    let said = refused("key.pem");
    assert!(said.contains("run `chmod 600 key.pem`"), "{said}");
    close(&place, "key.pem");
    serve(&place, &["--key", "key.pem"]);
}

/// Takes a file away from all but its owner.
fn close(place: &Place, name: &str) {
    #[cfg(unix)]
    {
        let owner = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(place.path().join(name), owner).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_fetch_writes_nothing_through_a_symbolic_link() {
    let (place, content) = place(3_000);
    let serving = serve(&place, &[]);
    let face = serving.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face];
    place.write("victim", "precious");
    for name in ["out.part", "out.part.json", "out.part.json.new"] {
        let link = place.path().join(name);
        // A journal is read where a part is there.
        place.write("out.part", "");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("victim", &link).unwrap();
        let said = place.error(&fetch, 1);
        assert!(said.contains(name) && said.contains("symbolic link"), "{said}");
        assert_eq!(std::fs::read_to_string(place.path().join("victim")).unwrap(), "precious");
        assert!(!place.path().join("out").exists());
        std::fs::remove_file(link).unwrap();
    }
    assert_eq!(place.run(&fetch).status, 0);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
}

const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n\
    -----END PUBLIC KEY-----\n";

#[test]
fn what_is_signed_is_fetched_with_the_key_that_fits() {
    let (place, content) = place(100_000);
    place.write("key.pem", PRIVATE);
    close(&place, "key.pem");
    place.write("pub.pem", PUBLIC);
    let serving = serve(&place, &["--key", "key.pem"]);
    let face = serving.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face];
    let said = place.error(&fetch, 1);
    assert!(said.contains("an unknown key") && said.contains("--key"), "{said}");
    let ran = place.run(&[&fetch[..], &["--key", "pub.pem"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("intact, signed with the key"), "{}", ran.stdout);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    let said = place.error(&[&fetch[..], &["--key", "key.pem"]].concat(), 2);
    assert!(said.contains("key.pem: not an Ed25519 public key"), "{said}");
    let said = place.error(&["serve", "served", "--prefix", "/p", "--key", "pub.pem"], 2);
    assert!(said.contains("not an Ed25519 private key"), "{said}");
}

#[test]
fn statistics_come_as_lines_until_it_is_asked_to_end() {
    let place = Place::new();
    let mut relay =
        forward(&place, &["--stats", "20ms", "--json", "--face", "udp://127.0.0.1:9=1Mbit"]);
    let mut lines = BufReader::new(relay.child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        assert_eq!(
            keys(&line),
            [
                "address",
                "faces",
                "failed_over",
                "hops_down",
                "pending",
                "routes",
                "seconds",
                "store_hits",
                "stored",
                "stored_bytes",
                "withheld"
            ]
        );
        assert_eq!(line["faces"][0]["primary_bits_per_second"], 950_000);
    }
    relay.interrupt();
    let left = lines.map_while(Result::ok).filter(|line| line.starts_with('{')).count();
    assert!(left >= 1 && relay.child.wait().unwrap().success());
}

#[test]
fn an_address_that_is_not_allowed_gets_no_segment() {
    let (place, content) = place(5_000);
    let serving = serve(&place, &["--json", "--face-allow", "127.0.0.2/32"]);
    // An Interest for what begins with /p/file.bin.
    let ask = |from: &str, nonce: u8| {
        let name = [&[8, 1, b'p', 8, 8][..], b"file.bin"].concat();
        let body =
            [&[7, name.len() as u8][..], &name, &[0x21, 0, 0x0a, 4, 0, 0, 0, nonce]].concat();
        let socket = std::net::UdpSocket::bind((from, 0)).unwrap();
        let interest = [&[5, body.len() as u8][..], &body].concat();
        socket.send_to(&interest, serving.address.as_str()).unwrap();
        socket
    };
    let forged = ask("127.0.0.1", 1);
    let mut answer = [0; 2_000];
    let length = ask("127.0.0.2", 2).recv(&mut answer).unwrap();
    assert!(length > 1_000, "{length} bytes");
    // It was asked before.
    forged.set_nonblocking(true).unwrap();
    assert!(forged.recv(&mut answer).is_err());
    let face = serving.face();
    let fetch = ["fetch", "/p/file.bin", "-o", "out", "--face", &face, "--bind", "127.0.0.2:0"];
    let ran = place.run(&fetch);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(std::fs::read(place.path().join("out")).unwrap() == content);
    let document: Value = serde_json::from_str(&serving.ended()).unwrap();
    assert_eq!(document["withheld"], 1);
}

#[test]
fn what_cannot_be_is_refused_with_what_would_do() {
    let (place, _) = place(10);
    let refused = |arguments: &[&str], why: &str| {
        let said = place.error(arguments, 2);
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    refused(&["forward", "--bind", "0.0.0.0:0"], "--insecure-plaintext");
    refused(&["forward", "--face", "tcp://127.0.0.1:1"], "expected udp");
    refused(&["forward", "--face", "127.0.0.1:1=10"], "no unit");
    refused(&["forward", "--route", "/p"], "PREFIX=HOST:PORT");
    let to_nobody = ["forward", "--bind", "127.0.0.1:0", "--route", "/p=127.0.0.1:1"];
    refused(&to_nobody, "which has no face");
    refused(&["forward", "--bind", "127.0.0.1:0", "--headroom", "2"], "headroom is 2");
    refused(&["forward", "--stats", "0s"], "expected an interval");
    refused(&["forward", "--face-allow", "10.1.0.0/8"], "--face-allow");
    refused(&["forward", "--face-allow", "10.1.0.0/8"], "write 10.0.0.0/8");
    refused(&["serve", "served", "--prefix", "/p", "--face-allow", "10.0.0.0/33"], "0 to 32");
    refused(&["serve", "served", "--prefix", "/p", "--face-allow", "lan"], "not an IP address");
    refused(&["forward", "--bind", "127.0.0.1:0", "--pending-bytes", "0B"], "pending_bytes_max");
    refused(&["serve", "none", "--prefix", "/p", "--bind", "127.0.0.1:0"], "none: ");
    refused(&["serve", "served", "--prefix", "p"], "/like/this");
    refused(&["serve", "served", "--prefix", "/p", "--register"], "--face");
    let long = ["serve", "served", "--prefix", "/p", "--bind", "127.0.0.1:0"];
    refused(&[&long[..], &["--segment-bytes", "9000"]].concat(), "1 to 8000");
    refused(&["fetch", "/p/f"], "--out");
    refused(&["fetch", "/p/f", "-o", "x", "--face", "192.0.2.1"], "--insecure-plaintext");
    refused(&["fetch", "/p/f", "-o", "x", "--key", "none.pem"], "none.pem");
    let both = ["--key", "a", "--insecure-anything"];
    refused(&[&["fetch", "/p/f", "-o", "x"], &both[..]].concat(), "cannot be used with");
    refused(&["ndn", "ping", "/p", "-c", "0"], "1");
}

#[test]
fn nobody_and_nothing_there_are_failures() {
    let (place, _) = place(10);
    let serving = serve(&place, &[]);
    let face = serving.face();
    let said = place.error(&["fetch", "/p/none", "-o", "x", "--face", &face], 1);
    assert!(said.contains("the producer has no object /p/none"), "{said}");
    let said = place.error(&["fetch", "/p/...../x", "-o", "x", "--face", &face], 1);
    assert!(said.contains("no route leads to"), "{said}");
    // A bound socket that no process reads.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = socket.local_addr().unwrap().to_string();
    let fetch = ["fetch", "/p/f", "-o", "x", "--face", &silent, "--answer-within", "1ms"];
    assert!(place.error(&fetch, 1).contains("no Data for /p/f within"));
    let (ran, pings) = place.json(&["ndn", "ping", "/q", "-c", "1", "--face", &face]);
    assert_eq!((ran.status, &pings["answered"]), (1, &0.into()));
    assert!(pings["pings"][0]["error"].as_str().unwrap().contains("no route"), "{pings}");
    assert!(place.error(&["ndn", "traceroute", "/q", "--face", &face], 1).contains("no route"));
    assert!(!place.path().join("x").exists());
}

/// The interpreter that has python-ndn; `None`, with a message, where it is not installed.
fn python() -> Option<PathBuf> {
    let found = std::env::var_os(VARIABLE).map(PathBuf::from);
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let _ = writeln!(
            std::io::stderr(),
            "{test} skipped: {VARIABLE} is not set; `cargo xtask peers python-ndn` prints it"
        );
    }
    found
}

fn script(python: &Path, name: &str, arguments: &[&str]) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/python-ndn");
    let mut command = Command::new(python);
    command.arg("-I").arg(folder.join(name)).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn spawned(command: &mut Command) -> Child {
    let python = command.get_program().to_owned();
    let failed = |error| panic!("{VARIABLE}={} cannot be run: {error}", python.display());
    command.spawn().unwrap_or_else(failed)
}

#[test]
fn a_stock_client_fetches_several_megabytes_through_one_forwarder() {
    let Some(python) = python() else { return };
    let (place, content) = place(3_000_123);
    let serving = serve(&place, &[]);
    let relay = forward_to(&place, &serving, "100Mbit", &[]);
    let (host, port) = relay.address.split_once(':').unwrap();
    // By its own fetcher, one Interest at a time, and with many under way.
    for window in ["1", "32"] {
        let out = place.path().join("out").display().to_string();
        let arguments = [host, port, "/p/file.bin", &out, "--window", window];
        let output = spawned(&mut script(&python, "fetch.py", &arguments)).wait_with_output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "window {window}: {said}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["segments"], 3_001, "{document}");
        assert!(std::fs::read(&out).unwrap() == content, "window {window}: another file");
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn a_stock_producer_registers_and_is_fetched_from() {
    let Some(python) = python() else { return };
    let (place, content) = place(2_000_123);
    let file = place.path().join("served/file.bin").display().to_string();
    for api in ["1", "2"] {
        let relay = forward(&place, &["--rate", "100Mbit", "--accept-registrations"]);
        let (host, port) = relay.address.split_once(':').unwrap();
        let prefix = format!("/stock/{api}");
        let arguments = [host, port, &prefix, &file, "--api", api];
        let mut producer = spawned(&mut script(&python, "produce.py", &arguments));
        let mut ready = String::new();
        BufReader::new(producer.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let Some(name) = ready.strip_prefix("READY ") else {
            let mut said = String::new();
            producer.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("api {api}: {ready}{said}");
        };
        let face = relay.face();
        let (ran, document) = place.json(&["fetch", name.trim(), "-o", "out", "--face", &face]);
        assert_eq!(ran.status, 0, "api {api}: {}", ran.stderr);
        let (ping, pinged) = place.json(&["ndn", "ping", name.trim(), "-c", "1", "--face", &face]);
        producer.kill().unwrap();
        producer.wait().unwrap();
        assert!(std::fs::read(place.path().join("out")).unwrap() == content, "api {api}");
        assert_eq!((&document["segments"], &document["sha256"]), (&1_953.into(), &Value::Null));
        let rate = &document["paths"][0]["primary_bits_per_second"];
        assert!(rate.as_u64().is_some_and(|rate| rate > 0), "{document}");
        assert_eq!((ping.status, &pinged["pings"][0]["node"]), (0, &Value::Null), "{pinged}");
    }
}
