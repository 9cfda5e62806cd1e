//! What a flow leaves out, waits for, and gives up.

use super::*;
use crate::core::Wire;

fn consumer() -> Bench {
    Bench::new(Config::default(), &[(1, FaceConfig::default(), &["/"])])
}

fn fetch(segments: u64) -> Fetch {
    Fetch { segments: Some(segments), ..Fetch::new(1, name("/o")) }
}

/// Answers whatever is asked, at once, until this time is over. Returns the numbers of segments in
/// the order in which they were asked for.
fn serve(bench: &mut Bench, time: Duration) -> Vec<u64> {
    let until = bench.now + time;
    let mut asked = Vec::new();
    loop {
        for (_, packet) in bench.packets() {
            let Body::Interest(interest) = packet.body else { panic!("it asks") };
            asked.extend(interest.name.segment());
            bench.from(1, data(&interest.name.to_string()));
        }
        if !bench.outbox.sends.is_empty() {
            continue;
        }
        let next = bench.outbox.timers.iter().map(|&(at, _)| at).min();
        let Some(next) = next.filter(|&next| next <= until) else { break };
        bench.pass(next.since(bench.now));
    }
    bench.now = until;
    asked
}

#[test]
fn what_the_application_has_is_not_asked_for() {
    let mut bench = consumer();
    bench.command(Command::Fetch(Fetch { had: vec![0..2, 3..4, 6..9], ..fetch(10) }));
    assert_eq!(serve(&mut bench, ms(100)), [2, 4, 5, 9]);
    assert_eq!(bench.told().pop().as_deref(), Some("flow 1: all 4"));
    bench.command(Command::Fetch(Fetch { had: std::iter::once(0..10).collect(), ..fetch(10) }));
    assert_eq!((bench.told(), bench.packets().len()), (vec!["flow 1: all 0".into()], 0));
}

#[test]
fn an_application_that_does_not_read_is_not_told_more_than_it_may() {
    let mut bench = consumer();
    bench.command(Command::Fetch(Fetch { unread_max: Some(3), ..fetch(10) }));
    assert_eq!(serve(&mut bench, ms(100)), [0, 1, 2]);
    // Nor is that taken for silence.
    assert_eq!(serve(&mut bench, ms(60_000)), []);
    assert_eq!(bench.told().len(), 3);
    bench.command(Command::Consumed { flow: 1, segments: 2 });
    assert_eq!(serve(&mut bench, ms(100)), [3, 4]);
    bench.command(Command::Consumed { flow: 1, segments: 5 });
    assert_eq!(serve(&mut bench, ms(100)), [5, 6, 7]);
    bench.command(Command::Consumed { flow: 1, segments: 3 });
    assert_eq!(serve(&mut bench, ms(100)), [8, 9]);
    assert_eq!(bench.told().pop().as_deref(), Some("flow 1: all 10"));
}

#[test]
fn a_flow_keeps_to_its_own_limit_with_a_window_and_with_rates() {
    let data_bits = (data("/o/seg=10").wire_len() as u64 + 42) * 8;
    for pace in [Pace::Rates, Pace::Aimd, Pace::Cubic] {
        let mut bench = consumer();
        let bits_per_second_max = Some(100 * data_bits);
        bench.command(Command::Fetch(Fetch { pace, bits_per_second_max, ..fetch(1_000) }));
        let asked = serve(&mut bench, ms(1_000)).len();
        assert!((98..=103).contains(&asked), "{pace:?}: {asked} in a second");
    }
}

#[test]
fn a_flow_that_hears_nothing_gives_up_in_time() {
    let mut bench = consumer();
    bench.command(Command::Fetch(Fetch { give_up_after: ms(5_000), ..fetch(10) }));
    bench.pass(ms(4_900));
    assert!(bench.told().is_empty());
    assert!(bench.packets().len() >= 4, "it tries again and again");
    bench.pass(ms(1_200));
    assert_eq!(bench.told(), ["flow 1: no more Data arrived"]);
    bench.packets();
    bench.pass(ms(60_000));
    assert_eq!((bench.packets().len(), bench.outbox.timers.len()), (0, 0));
}

/// Answers each Interest with a Nack for congestion, for this many seconds. Returns when the flow
/// failed, in milliseconds.
fn refused_for(bench: &mut Bench, seconds: u64) -> Option<u64> {
    for millis in (0..seconds * 1_000).step_by(100) {
        for (_, asked) in bench.packets() {
            let Body::Interest(Interest { name, nonce, .. }) = asked.body else { continue };
            bench.from(1, nack(&name.to_string(), nonce, NackReason::Congestion));
        }
        bench.pass(ms(100));
        if bench.told().iter().any(|told| told == "flow 1: no more Data arrived") {
            return Some(millis);
        }
    }
    None
}

#[test]
fn a_flow_that_only_hears_of_congestion_gives_up_after_four_times_as_long() {
    let mut bench = consumer();
    bench.command(Command::Fetch(Fetch { give_up_after: ms(5_000), ..fetch(10) }));
    assert_eq!(refused_for(&mut bench, 14), None);
    // A Data, and it bears as much again.
    let asked = bench.packets().pop().map(|(_, packet)| packet.body);
    let Some(Body::Interest(Interest { name, .. })) = asked else { panic!("it asks") };
    bench.from(1, data(&name.to_string()));
    let failed = refused_for(&mut bench, 30).expect("it gives up");
    assert!((19_000..21_500).contains(&failed), "{failed}");
}

#[test]
fn a_flow_that_is_told_of_no_route_again_and_again_gives_up_soon() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(10)));
    for _ in 0..4 {
        let (_, asked) = bench.packets().remove(0);
        bench.from(1, nack("/o/seg=0", nonce(&asked), NackReason::NoRoute));
        bench.pass(ms(1_000));
    }
    assert_eq!(bench.told(), ["flow 1: no route leads to the name"]);
}

#[test]
fn what_is_not_signed_as_it_must_be_is_not_told_and_is_asked_for_again() {
    let forged = |segment: u64| {
        let name = name("/o").with_segment(segment);
        let content = Payload::Zeros(1_000);
        Packet::from(Data::new(name, Meta::default(), content, &Signer::Null))
    };
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(2)));
    for _ in 0..5 {
        assert_eq!(bench.sent(), ["1: ask /o/seg=0"]);
        bench.from(1, forged(0));
        assert!(bench.told().is_empty());
        bench.pass(ms(1_000));
    }
    assert_eq!(serve(&mut bench, ms(100)), [0, 1]);
    assert_eq!(bench.told().len(), 3);
    // While only forged Data comes the flow gives up, after a number of tries or at its time limit.
    for (tries, give_up_after) in [(17, ms(60_000)), (5, ms(4_500))] {
        bench.command(Command::Fetch(Fetch { give_up_after, ..fetch(2) }));
        for _ in 0..tries {
            assert!(bench.told().is_empty());
            assert_eq!(bench.packets().len(), 1);
            bench.from(1, forged(0));
            bench.pass(ms(1_000));
        }
        let why = "the signature failed verification: NullSignature is too weak";
        assert_eq!(bench.told(), [format!("flow 1: {why}")]);
    }
}

#[test]
fn a_stopped_flow_says_and_asks_no_more() {
    let mut bench = consumer();
    bench.command(Command::Fetch(fetch(10)));
    bench.command(Command::Stop { flow: 1 });
    bench.packets();
    bench.from(1, data("/o/seg=0"));
    bench.pass(ms(60_000));
    assert_eq!((bench.told().len(), bench.packets().len(), bench.node.pending()), (0, 0, 0));
    assert!(bench.outbox.timers.is_empty());
}
