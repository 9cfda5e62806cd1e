//! Two hosts shake hands, byte for byte, without a network.

use std::time::Duration;

use paceline_seal::identity::{
    CertificateError, ClusterKey, Grant, HostKey, Identity, Role, UnixTime,
};
use paceline_seal::{
    Agreed, Credentials, GREETING_BYTES_MAX, Handshake, HandshakeError, Secret, Suite,
};

fn cluster(byte: u8) -> ClusterKey {
    ClusterKey::generate(Secret::new([byte; 32]), Suite::fastest())
}

fn key(byte: u8) -> HostKey {
    HostKey::generate(&Secret::new([byte; 32]))
}

fn identity(cluster: &ClusterKey, byte: u8) -> Identity {
    Identity::self_certified(cluster, key(byte), UnixTime::now()).expect("a certificate")
}

fn credentials(cluster: &ClusterKey, byte: u8) -> Credentials {
    Credentials::new(&identity(cluster, byte)).expect("this processor can")
}

/// How each side of a handshake ended.
type Ended = Result<Agreed, HandshakeError>;

/// Carries bytes both ways in pieces of `piece` bytes, the n-th through `change`, until each side
/// has ended or nothing moves any more.
fn shake(
    mut sides: [Handshake; 2],
    piece: usize,
    mut change: impl FnMut(usize, &mut Vec<u8>),
) -> [Option<Ended>; 2] {
    let mut ended = [None, None];
    let mut carried = 0;
    loop {
        let mut has_moved = false;
        for from in [0, 1] {
            let mut bytes = sides[from].send();
            if bytes.is_empty() {
                continue;
            }
            has_moved = true;
            change(carried, &mut bytes);
            carried += 1;
            let to = 1 - from;
            for piece in bytes.chunks(piece) {
                if ended[to].is_some() {
                    break;
                }
                let received = sides[to].receive(piece).and_then(|()| sides[to].finish());
                ended[to] = received.transpose();
            }
        }
        if !has_moved {
            return ended;
        }
    }
}

fn agreed(ended: [Option<Ended>; 2]) -> [Agreed; 2] {
    ended.map(|side| side.expect("it has ended").expect("it has agreed"))
}

fn dialled(one: &Credentials, two: &Credentials) -> [Handshake; 2] {
    [one.dial(b"one").unwrap(), two.accept(b"two").unwrap()]
}

#[test]
fn hosts_of_a_cluster_agree_on_a_secret_and_on_who_they_are() {
    let here = cluster(1);
    let (one, two) = (credentials(&here, 2), credentials(&here, 3));
    for piece in [1, 7, 100, usize::MAX] {
        let [of_one, of_two] = agreed(shake(dialled(&one, &two), piece, |_, _| {}));
        assert_eq!((of_one.peer.id, of_two.peer.id), (key(3).id(), key(2).id()));
        assert_eq!((&of_one.greeting[..], &of_two.greeting[..]), (&b"two"[..], &b"one"[..]));
        assert_eq!(of_one.name, of_two.name);
        assert_eq!(of_one.secret.datagrams(1, 2), of_two.secret.datagrams(1, 2));
        let [again, _] = agreed(shake(dialled(&one, &two), piece, |_, _| {}));
        assert_ne!(of_one.name, again.name);
        assert_ne!(of_one.secret.datagrams(1, 2), again.secret.datagrams(1, 2));
    }
}

#[test]
fn a_host_of_another_cluster_is_refused_by_both() {
    let (here, there) = (cluster(1), cluster(9));
    let (ours, theirs) = (credentials(&here, 2), credentials(&there, 2));
    let [dialler, acceptor] = shake(dialled(&theirs, &ours), usize::MAX, |_, _| {});
    // The dialler sees the acceptor's certificate first, and ends there.
    assert!(matches!(dialler, Some(Err(HandshakeError::NotAdmitted(CertificateError::Signer(_))))));
    assert!(matches!(acceptor, Some(Err(HandshakeError::Refused(_)))), "{acceptor:?}");
}

#[test]
fn a_host_whose_certificate_is_over_or_revoked_is_refused_by_the_other_with_the_reason() {
    let here = cluster(1);
    let (ca, now) = (here.ca(), UnixTime::now());
    let good = credentials(&here, 2);
    let over = {
        let early = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs() - 7200));
        let grant = Grant {
            role: Role::Member,
            label: "late".parse().unwrap(),
            not_before: early,
            not_after: UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs() - 3600)),
        };
        let certificate = ca.sign(&key(3).public(), &grant).unwrap();
        Identity::signed(key(3), certificate, ca.authority(), early).unwrap()
    };
    let late = Credentials::new(&over).unwrap();
    let [at_late, at_good] = shake(dialled(&late, &good), usize::MAX, |_, _| {});
    assert!(matches!(
        at_good,
        Some(Err(HandshakeError::NotAdmitted(CertificateError::Expired(_))))
    ));
    assert!(matches!(at_late, Some(Err(HandshakeError::Refused(_)))), "{at_late:?}");
    let [at_good, _] = shake(dialled(&good, &late), usize::MAX, |_, _| {});
    assert!(matches!(
        at_good,
        Some(Err(HandshakeError::NotAdmitted(CertificateError::Expired(_))))
    ));
}

#[test]
fn a_change_of_any_byte_on_the_way_leaves_no_session_or_has_no_effect() {
    let here = cluster(1);
    let (one, two) = (credentials(&here, 2), credentials(&here, 3));
    let mut lengths = Vec::new();
    agreed(shake(dialled(&one, &two), usize::MAX, |_, bytes| lengths.push(bytes.len())));
    let (mut tried, mut ignored) = (0, 0);
    for (flight, &length) in lengths.iter().enumerate() {
        for at in (0..length).step_by(17).chain([length - 1]) {
            let mut receiver = None;
            let ended = shake(dialled(&one, &two), usize::MAX, |number, bytes| {
                if number == flight && at < bytes.len() {
                    bytes[at] ^= 1 << (at % 8);
                    receiver = Some(1 - number % 2);
                }
            });
            let receiver = receiver.expect("the byte was changed");
            tried += 1;
            if matches!(ended[receiver], Some(Ok(_))) {
                // The head of a record: type and version are constant, and not looked at.
                let [one, two] = agreed(ended);
                assert_eq!((one.name, &one.greeting[..]), (two.name, &b"two"[..]));
                ignored += 1;
            }
        }
    }
    assert!(tried > 100 && ignored < 10, "{ignored} of {tried} bytes, of {lengths:?}");
}

#[test]
fn what_is_not_a_handshake_is_refused_and_bounded() {
    let here = cluster(1);
    let accept = || credentials(&here, 2).accept(b"two").unwrap();
    let refused = accept().receive(b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(refused, Err(HandshakeError::Misbehaved(_))), "{refused:?}");
    // A record of TLS that announces 16 KiB, and then no end of empty ones.
    let mut handshake = accept();
    let empty = [0x16, 3, 1, 0, 0].repeat(100);
    let ended = (0..1000).find_map(|_| handshake.receive(&empty).err());
    assert!(ended.is_some());
}

#[test]
fn a_greeting_has_a_length_that_fits() {
    let one = credentials(&cluster(1), 2);
    assert!(one.dial(&[7; GREETING_BYTES_MAX]).is_ok());
    let refused = [one.dial(&[]), one.dial(&[7; GREETING_BYTES_MAX + 1]), one.accept(&[])];
    for refused in refused {
        assert!(matches!(refused.err(), Some(HandshakeError::Greeting(0 | 257))));
    }
}
