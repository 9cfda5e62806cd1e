//! What sealing costs on this machine: a handshake, and records of several lengths.
//!
//! ```sh
//! cargo run --release -p paceline-seal --example costs
//! ```

use std::time::{Duration, Instant};

use paceline_seal::identity::{ClusterKey, HostKey, Identity, UnixTime};
use paceline_seal::{Credentials, Order, ReceiveLane, Secret, SendLane, Suite};

/// Handshakes that are timed.
const HANDSHAKES: u32 = 500;
/// Bytes that are sealed for each length.
const SEALED_BYTES: usize = 256 << 20;

fn main() {
    let [dialler, acceptor] = handshakes();
    println!("handshake    {dialler:>9.1?} of the dialler, {acceptor:.1?} of the acceptor");
    for suite in Suite::ALL.into_iter().filter(|suite| suite.is_available()) {
        for bytes in [64, 1_200, 8 << 10, 64 << 10] {
            let [sealing, opening] = records(suite, bytes);
            println!("{suite:<18} {bytes:>6} B  seal {sealing:>9.2?}  open {opening:>9.2?}");
        }
    }
}

/// Processor time of each side of a handshake: nothing waits here.
fn handshakes() -> [Duration; 2] {
    let cluster = ClusterKey::generate(Secret::new([1; 32]), Suite::fastest());
    let [one, two] = [2, 3].map(|byte| {
        let key = HostKey::generate(&Secret::new([byte; 32]));
        let identity = Identity::self_certified(&cluster, key, UnixTime::now());
        Credentials::new(&identity.expect("a certificate")).expect("this processor can")
    });
    let mut spent = [Duration::ZERO; 2];
    for _ in 0..HANDSHAKES {
        let begun = Instant::now();
        let dialled = one.dial(b"one").expect("a greeting that fits");
        spent[0] += begun.elapsed();
        let begun = Instant::now();
        let accepted = two.accept(b"two").expect("a greeting that fits");
        spent[1] += begun.elapsed();
        let mut sides = [dialled, accepted];
        let mut from = 0;
        loop {
            let begun = Instant::now();
            let bytes = sides[from].send();
            spent[from] += begun.elapsed();
            if bytes.is_empty() {
                break;
            }
            from = 1 - from;
            let begun = Instant::now();
            sides[from].receive(&bytes).expect("an honest peer");
            let agreed = sides[from].finish().expect("an honest peer");
            spent[from] += begun.elapsed();
            drop(agreed);
        }
    }
    spent.map(|time| time / HANDSHAKES)
}

/// Time to seal and to open one record.
fn records(suite: Suite, bytes: usize) -> [Duration; 2] {
    let key = Secret::new([7; 32]);
    let mut sending = SendLane::new(suite, key.clone()).expect("it is available");
    let mut receiving = ReceiveLane::new(suite, key, Order::InTurn).expect("it is available");
    let count = (SEALED_BYTES / bytes).min(1 << 20);
    let (mut text, header) = (vec![7; bytes], [9; 32]);
    let mut spent = [Duration::ZERO; 2];
    // Many in a row, so that the clock is read rarely.
    for _ in 0..count / 64 {
        let begun = Instant::now();
        let number = sending.number();
        let mut tags = Vec::with_capacity(64);
        let mut sealed = vec![text.clone(); 64];
        let copied = begun.elapsed();
        for text in &mut sealed {
            tags.push(sending.seal(&header, text));
        }
        spent[0] += begun.elapsed() - copied;
        let begun = Instant::now();
        for (at, (text, tag)) in sealed.iter_mut().zip(&tags).enumerate() {
            let number = paceline_seal::Number::of(number.sequence + at as u64);
            receiving.open(number, &header, text, tag).expect("the same key");
        }
        spent[1] += begun.elapsed();
        text.clone_from(&sealed[0]);
    }
    spent.map(|time| time / (count / 64 * 64) as u32)
}
