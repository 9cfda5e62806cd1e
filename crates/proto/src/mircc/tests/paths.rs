//! Path labels, and nodes on the way that answer.

use super::*;

fn two_ways() -> Bench {
    let any = FaceConfig::default();
    Bench::new(Config::default(), &[(1, any, &[]), (2, any, &["/a"]), (3, any, &["/a"])])
}

#[test]
fn an_interest_goes_the_way_that_its_label_says_and_the_rest_goes_on() {
    let mut bench = two_ways();
    for (number, hop) in [2, 3, 3, 2, 2].into_iter().enumerate() {
        let label = bench.face(hop).label.get();
        let uri = format!("/a/seg={number}");
        bench.from(1, labelled(interest(&uri, 7), &[label, 600, 700]));
        assert_eq!(bench.sent(), [format!("{hop}: ask {uri} by 600.700")]);
    }
}

#[test]
fn a_label_that_names_no_next_hop_is_refused() {
    let mut bench = two_ways();
    let known = [1, 2, 3].map(|peer| bench.face(peer).label.get());
    let unknown = (1..).find(|hop| !known.contains(hop)).expect("there are 65,535");
    bench.from(1, labelled(interest("/a/seg=0", 7), &[unknown, 600]));
    // The way back to who asks, and to who leads elsewhere.
    bench.from(1, labelled(interest("/a/seg=1", 8), &[known[0]]));
    let sent = bench.sent();
    assert!(sent.iter().all(|line| line.starts_with("1: nack 150 /a/seg=")), "{sent:?}");
    assert_eq!((sent.len(), bench.count("mircc_unknown_label")), (2, 2));
    assert_eq!(bench.node.pending(), 0);
}

#[test]
fn a_path_of_too_many_hops_is_unusable_and_is_taken_for_none() {
    let mut bench = Bench::plain();
    let hops: Vec<u16> = (1..=12).collect();
    bench.from(1, interest("/a/seg=0", 1));
    bench.from(2, labelled(data("/a/seg=0"), &hops[..11]));
    bench.from(1, interest("/a/seg=1", 2));
    bench.from(2, labelled(data("/a/seg=1"), &hops));
    let sent = bench.packets();
    let labels = sent.iter().filter(|(to, _)| *to == 1).map(|(_, packet)| packet.header.label);
    let labels: Vec<PathLabel> = labels.collect();
    assert_eq!((labels[0].len(), labels[1]), (12, PathLabel::UNUSABLE));
    let mut unusable = interest("/a/seg=2", 3);
    unusable.header.label = PathLabel::UNUSABLE;
    bench.from(1, unusable);
    assert_eq!(bench.packets().len(), 1);
    assert_eq!(bench.count("mircc_unknown_label"), 0);
}

#[test]
fn a_trace_is_answered_where_it_may_go_no_further() {
    let mut bench = Bench::plain();
    let trace = |number| name("/a").keyword("trace").unwrap().with_segment(number);
    let ask = |number, hops| {
        let mut interest = Interest::new(trace(number), 7);
        interest.hop_limit = Some(hops);
        Packet::from(interest)
    };
    bench.from(1, ask(1, 2));
    assert_eq!(bench.sent(), [format!("2: ask {}", trace(1))]);
    bench
        .from(2, Packet::from(Data::new(trace(1), Meta::default(), "far".into(), &Signer::Digest)));
    bench.packets();
    bench.from(1, ask(2, 1));
    let sent = bench.packets();
    assert_eq!((sent.len(), sent[0].0), (1, 1));
    let Body::Data(data) = &sent[0].1.body else { panic!("{sent:?}") };
    let text = data.content().to_bytes();
    assert!(text.starts_with(b"node bench\n"), "{text:?}");
    assert!(data.verify(&Trust::Digest).is_ok());
    assert_eq!(bench.node.pending(), 0);
}
