//! Our packets against python-ndn's: what it writes we write, and what we write it reads.
//!
//! `PACELINE_PYTHON_NDN` is an interpreter that has it; `cargo xtask test` makes one. Without it
//! these tests say on standard error that they were skipped.

use std::collections::BTreeMap;
use std::io::Write;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytes::Bytes;
use paceline_proto::core::{Payload, decode_exact, encode_to_bytes};
use paceline_proto::ndn::{
    Body, Class, Data, Header, Interest, Meta, NackReason, Name, Packet, Signer, Token, Trust,
};
use serde_json::Value;

const VARIABLE: &str = "PACELINE_PYTHON_NDN";
const NONCE: u32 = 0x0102_0304;
const TIME_MS: u64 = 1_700_000_000_000;
const SIGNATURE_NONCE: u64 = 0x0102_0304_0506_0708;

/// The interpreter; `None`, with a message, if its variable is not set.
fn python() -> Option<PathBuf> {
    let found = std::env::var_os(VARIABLE).map(PathBuf::from);
    if found.is_none() {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        // Past the capture of output.
        let _ = writeln!(
            std::io::stderr(),
            "{test} skipped: {VARIABLE} is not set; `cargo xtask peers python-ndn` prints it"
        );
    }
    found
}

/// Runs one of the scripts, and gives what it prints.
fn run(python: &Path, script: &str, arguments: &[&str], input: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/python-ndn");
    let mut command = Command::new(python);
    command.arg("-I").arg(folder.join(script)).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{VARIABLE}={} cannot be run: {error}", python.display()));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(hex: &str) -> Bytes {
    let pairs = hex.as_bytes().chunks_exact(2);
    pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn encoded(packet: impl Into<Packet>) -> String {
    hex(&encode_to_bytes(&packet.into()))
}

fn interest(uri: &str, change: impl FnOnce(&mut Interest)) -> Interest {
    let mut interest = Interest::new(name(uri), NONCE);
    interest.lifetime_ms = Some(4_000);
    change(&mut interest);
    interest
}

fn data(uri: &str, content: impl Into<Payload>, change: impl FnOnce(&mut Meta)) -> Data {
    signed(uri, content, &Signer::Digest, change)
}

fn signed(
    uri: &str,
    content: impl Into<Payload>,
    signer: &Signer,
    change: impl FnOnce(&mut Meta),
) -> Data {
    // python-ndn writes the ContentType of a blob.
    let mut meta = Meta { content_type: Some(0), ..Meta::default() };
    change(&mut meta);
    Data::new(name(uri), meta, content.into(), signer)
}

fn fresh(meta: &mut Meta) {
    meta.freshness_ms = Some(1_000);
}

fn ed25519() -> Signer {
    let seed: [u8; 32] = std::array::from_fn(|place| place as u8);
    Signer::from_seed(&seed, name("/mircc/KEY/%01"))
}

const SEGMENT: &str = "/mircc/file/seg=7";
const BLOB: &str = "xxxxxxxxxxxxxxxx";

/// What we write of the same packets.
fn ours() -> BTreeMap<&'static str, String> {
    let plain = || interest(SEGMENT, |_| {});
    let small = || data(SEGMENT, BLOB, fresh);
    let nack =
        |reason| Packet { header: Header::default(), body: Body::Nack(reason, Box::new(plain())) };
    let with = |header: Header, body: Body| Packet { header, body };
    // The parameters of a registration: the prefix in ControlParameters.
    let parameters = unhex("6809070708056d69726363");
    let register = name("/localhost/nfd/rib/register").generic(&parameters).unwrap();
    let register = Interest::signed(&register, b"", &Signer::Digest, (SIGNATURE_NONCE, TIME_MS));
    let register = Interest { nonce: NONCE, lifetime_ms: Some(1_000), ..register.unwrap() };
    let pattern: Vec<u8> = (0..1_000).map(|place| (place % 251) as u8).collect();
    BTreeMap::from([
        ("interest", encoded(plain())),
        (
            "interest-discovery",
            encoded(interest("/mircc/file", |interest| {
                (interest.can_be_prefix, interest.must_be_fresh) = (true, true);
                (interest.lifetime_ms, interest.hop_limit) = (Some(1_000), Some(32));
            })),
        ),
        (
            "interest-no-lifetime",
            encoded(interest(SEGMENT, |interest| interest.lifetime_ms = None)),
        ),
        (
            "interest-implicit-digest",
            encoded(interest(&format!("/mircc/sha256digest={}", "ab".repeat(32)), |_| {})),
        ),
        ("interest-register-in-parameters", encoded(register)),
        ("data", encoded(small())),
        (
            "data-final-block",
            encoded(data(SEGMENT, BLOB, |meta| {
                fresh(meta);
                meta.final_segment = Some(70_000);
            })),
        ),
        ("data-empty", encoded(data(SEGMENT, "", |_| {}))),
        ("data-1000-bytes", encoded(data("/mircc/file/seg=65536", pattern, |_| {}))),
        ("data-ed25519", encoded(signed(SEGMENT, BLOB, &ed25519(), fresh))),
        ("data-null-signature", encoded(signed(SEGMENT, BLOB, &Signer::Null, |_| {}))),
        ("nack-congestion", encoded(nack(NackReason::Congestion))),
        ("nack-duplicate", encoded(nack(NackReason::Duplicate))),
        ("nack-no-route", encoded(nack(NackReason::NoRoute))),
        (
            "link-congestion-mark",
            encoded(with(Header { congestion_mark: 1, ..Header::default() }, Body::Data(small()))),
        ),
        (
            "link-pit-token",
            encoded(with(
                Header { token: Token::new(&[1, 2, 3, 4]), ..Header::default() },
                Body::Interest(plain()),
            )),
        ),
    ])
}

#[test]
fn packets_are_those_that_python_ndn_writes_now() {
    let Some(python) = python() else { return };
    let printed: Value = serde_json::from_str(&run(&python, "golden.py", &[], "")).unwrap();
    let vectors = printed["vectors"].as_object().unwrap();
    let theirs = |key: &str| vectors[key].as_str().unwrap_or_else(|| panic!("no vector {key}"));
    for (key, bytes) in ours() {
        assert_eq!(bytes, theirs(key), "{key}");
    }
    // Encodings that we never write are read as well, and forwarded unchanged.
    let mut packets = 0;
    for (key, bytes) in vectors {
        if key.starts_with("name") || key.starts_with("content") {
            continue;
        }
        packets += 1;
        let bytes = unhex(bytes.as_str().unwrap());
        let packet: Packet = decode_exact(bytes.clone()).unwrap_or_else(|e| panic!("{key}: {e}"));
        assert_eq!(hex(&encode_to_bytes(&packet)), hex(&bytes), "{key}");
        match packet.body {
            Body::Data(data) if key == "data-ed25519" => {
                assert_eq!(data.verify(&ed25519().trust()), Ok(()), "{key}");
                assert_eq!(data.key_locator(), ed25519().locator().cloned());
            }
            Body::Data(data) if key != "data-null-signature" => {
                assert_eq!(data.verify(&Trust::Digest), Ok(()), "{key}");
            }
            Body::Interest(interest) => assert!(interest.parameters_fit(), "{key}"),
            _ => {}
        }
    }
    assert!(packets >= 19, "there were {packets}");
    let long = name("/mircc/a%00%FF/32=metadata/v=1700000000000/seg=256");
    for (key, name) in [("name", long), ("name-empty", Name::root())] {
        let mut element = Vec::new();
        name.write_element(&mut element);
        assert_eq!(hex(&element), theirs(key), "{key}");
    }
}

#[test]
fn python_ndn_understands_what_we_write_and_skips_what_is_ours() {
    let Some(python) = python() else { return };
    let mut header = Header { congestion_mark: 3, ..Header::default() };
    header.add_hop(NonZeroU16::MAX, None);
    header.add_hop(NonZeroU16::MIN, Some(9_500_000));
    header.token = Token::new(b"token");
    header.stamps.primary_bits_per_second = 12_000_000;
    header.stamps.secondary_bits_per_second = 1;
    let stamped = Packet { header: header.clone(), body: Body::Data(data(SEGMENT, BLOB, fresh)) };
    let steering = Header { class: Class::Secondary, round_trip_micros: Some(28_000), ..header };
    let steered = Packet { header: steering.clone(), body: interest_body() };
    let refused = Packet {
        header: steering,
        body: Body::Nack(NackReason::Congestion, Box::new(interest(SEGMENT, |_| {}))),
    };
    let keyed = Packet::from(signed(SEGMENT, BLOB, &ed25519(), fresh));
    let mut broken = encode_to_bytes(&Packet::from(data(SEGMENT, BLOB, fresh))).to_vec();
    *broken.last_mut().unwrap() ^= 1;
    let lines = [stamped, steered, refused, keyed].map(|packet| hex(&encode_to_bytes(&packet)));
    let input = [&lines[..], &[hex(&broken)]].concat().join("\n") + "\n";
    let public = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";
    let printed = run(&python, "decode.py", &["--ed25519-public-key", public], &input);
    let read: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [data, interest, nack, keyed, broken] = &read[..] else { panic!("{printed}") };

    assert_eq!((&data["kind"], &data["accepted"]), (&"data".into(), &true.into()), "{data}");
    assert_eq!((&data["congestion_mark"], &data["pit_token"]), (&3.into(), &"746f6b656e".into()));
    assert_eq!(data["content"], hex(BLOB.as_bytes()));
    assert_eq!((&interest["kind"], &interest["nonce"]), (&"interest".into(), &NONCE.into()));
    assert_eq!(interest["name"], SEGMENT);
    assert_eq!((&nack["kind"], &nack["nack_reason"]), (&"nack".into(), &50.into()), "{nack}");
    assert_eq!((&keyed["signature_type"], &keyed["ed25519_is_right"]), (&5.into(), &true.into()));
    assert_eq!((&broken["kind"], &broken["accepted"]), (&"data".into(), &false.into()), "{broken}");
}

fn interest_body() -> Body {
    Body::Interest(interest(SEGMENT, |_| {}))
}
