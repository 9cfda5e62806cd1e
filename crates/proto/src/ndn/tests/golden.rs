//! Packets made with python-ndn 0.5.2: each is read as what it is, and written as it was.

use super::*;
use crate::core::laws::hex;

const INTEREST: &str = "051c071008056d69726363080466696c653201070a04010203040c020fa0";
const DATA: &str = "0654071008056d69726363080466696c653201071407180100190203e81510787878787878\
    7878787878787878787816031b01001720d15bbe9d284e8af680823f174d747898a4972db6ae178155b8af657a29\
    2c9a69";
/// All flags, a lifetime of 300 ms, a hop limit of 5.
const FLAGS: &str = "05190706080161080162210012000a04deadbeef0c02012c220105";
/// Two delegations in a ForwardingHint.
const HINT: &str = "052007060801610801621e10070608016808013107060801680801320a0400000001";
/// Parameters `hello`, signed with a digest.
const PARAMETERS: &str = "057207280801610801620220c4edcd662fe6456e754ad69f435a7e322cac40aec4ae6\
    5fa09f3e74acd9bdb820a0400000002240568656c6c6f2c171b01002608ee025f6671e6e4ec2808000001a201b98\
    4ff2e204148c0657d1a246d0200a0d841a4077f6ce9575dedb6b0fe3cfc2d407c9daad5";
/// A PIT token and a congestion mark with [`DATA`].
const MARKED: &str = "6463620401020304fd0340010150560654071008056d69726363080466696c653201071407\
    180100190203e815107878787878787878787878787878787816031b01001720d15bbe9d284e8af680823f174d74\
    7898a4972db6ae178155b8af657a292c9a69";
/// Every other field of a hop that there is, with [`FLAGS`].
const FIELDS: &str = "64ad520100530101fd032c02012cfd03300102fd033405fd03350101fd03480800000000000\
    00001fd0344080000000000000002fd034c00fd0350560654071008056d69726363080466696c653201071407180\
    100190203e815107878787878787878787878787878787816031b01001720d15bbe9d284e8af680823f174d74789\
    8a4972db6ae178155b8af657a292c9a69501b05190706080161080162210012000a04deadbeef0c02012c220105";
/// A signature of none.
const NULL: &str = "06170706080161320100140318010015017a16031b01c81700";

fn interest(hex: &str) -> Interest {
    match packet(&unhex(hex)) {
        Ok(Packet { body: Body::Interest(interest), .. }) => interest,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_interest_is_written_as_python_ndn_writes_it() {
    let mut interest = Interest::new(name("/mircc/file/seg=7"), 0x0102_0304);
    interest.lifetime_ms = Some(4_000);
    assert_eq!(hex(&Packet::from(interest.clone())), INTEREST);
    assert_eq!(packet(&unhex(INTEREST)), Ok(Packet::from(interest)));

    let mut flags = Interest::new(name("/a/b"), 0xdead_beef);
    flags.lifetime_ms = Some(300);
    (flags.can_be_prefix, flags.must_be_fresh, flags.hop_limit) = (true, true, Some(5));
    assert_eq!(hex(&Packet::from(flags.clone())), FLAGS);
    assert_eq!(packet(&unhex(FLAGS)), Ok(Packet::from(flags)));
}

#[test]
fn hint_and_parameters_of_an_interest_go_on_as_they_came() {
    for golden in [HINT, PARAMETERS] {
        assert_eq!(hex(&Packet::from(interest(golden))), golden);
    }
    let hinted = interest(HINT);
    assert_eq!((hinted.nonce, hinted.parameters()), (1, None));
    let signed = interest(PARAMETERS);
    assert_eq!(signed.parameters().as_deref(), Some(&b"hello"[..]));
    assert!(signed.parameters_fit());
    let made = Interest::signed(
        &name("/a/b"),
        b"hello",
        &Signer::Digest,
        (0xee02_5f66_71e6_e4ec, 0x01a2_01b9_84ff),
    );
    assert_eq!(made.map(|made| Interest { nonce: 2, ..made }), Ok(signed));
    let mut forged = unhex(PARAMETERS);
    *forged.last_mut().unwrap() ^= 1;
    let Ok(Packet { body: Body::Interest(forged), .. }) = packet(&forged) else { panic!() };
    assert!(!forged.parameters_fit());
}

#[test]
fn data_is_signed_as_python_ndn_signs_it() {
    let name = name("/mircc/file/seg=7");
    let meta = Meta { content_type: Some(0), freshness_ms: Some(1_000), final_segment: None };
    let content = Payload::from("xxxxxxxxxxxxxxxx");
    let made = Data::new(name, meta, content.clone(), &Signer::Digest);
    assert_eq!(hex(&Packet::from(made.clone())), DATA);
    let Ok(Packet { body: Body::Data(read), .. }) = packet(&unhex(DATA)) else { panic!() };
    assert_eq!(read, made);
    assert_eq!(read.to_bytes(), unhex(DATA));
    assert_eq!((read.meta(), read.content()), (&meta, content));
    assert_eq!(read.verify(&Trust::Digest), Ok(()));
}

#[test]
fn data_without_a_signature_is_the_same_made_and_read() {
    let meta = Meta { content_type: Some(0), ..Meta::default() };
    let made = Data::new(name("/a/seg=0"), meta, Payload::from("z"), &Signer::Null);
    assert_eq!(hex(&Packet::from(made.clone())), NULL);
    assert_eq!(packet(&unhex(NULL)), Ok(Packet::from(made)));
}

#[test]
fn a_nack_is_written_as_python_ndn_writes_it() {
    for (number, reason) in
        [(50, NackReason::Congestion), (100, NackReason::Duplicate), (150, NackReason::NoRoute)]
    {
        let golden = format!("6426fd032005fd032101{number:02x}501b{FLAGS}");
        let body = Body::Nack(reason, Box::new(interest(FLAGS)));
        let refusal = Packet { header: Header::default(), body };
        assert_eq!(hex(&refusal), golden);
        assert_eq!(packet(&unhex(&golden)), Ok(refusal));
    }
}

#[test]
fn fields_of_a_hop_are_written_as_python_ndn_writes_them() {
    let mut marked = packet(&unhex(DATA)).unwrap();
    marked.header.congestion_mark = 1;
    marked.header.token = Token::new(&[1, 2, 3, 4]);
    assert_eq!(hex(&marked), MARKED);
    assert_eq!(packet(&unhex(MARKED)), Ok(marked));
}

#[test]
fn fields_that_mean_nothing_here_are_skipped() {
    assert_eq!(packet(&unhex(FIELDS)), Ok(Packet::from(interest(FLAGS))));
}

/// Ours, and written once: python-ndn reads the Fragment out of both.
#[test]
fn our_own_fields_keep_their_numbers() {
    let mut steered = Packet::from(interest(FLAGS));
    steered.header.class = Class::Secondary;
    steered.header.round_trip_micros = Some(28_000);
    steered.header.label = PathLabel::of_hops(&[7, 500].map(|hop| NonZeroU16::new(hop).unwrap()));
    assert_eq!(
        hex(&steered),
        format!("6430fd038c0101fd039004000701f4fd03940{}501b{FLAGS}", "26d60")
    );

    let mut discovering = Packet::from(interest(FLAGS));
    discovering.header.discovers = true;
    let golden = format!("6421fd039c00501b{FLAGS}");
    assert_eq!(hex(&discovering), golden);
    assert_eq!(packet(&unhex(&golden)), Ok(discovering));
    let wrong = format!("6422fd039c0100501b{FLAGS}");
    let refused = DecodeError::OutOfRange { field: "discovery", value: 1 };
    assert_eq!(packet(&unhex(&wrong)), Err(refused));

    let mut stamped = packet(&unhex(DATA)).unwrap();
    stamped.header.stamps.primary_bits_per_second = 12_000_000;
    stamped.header.stamps.secondary_bits_per_second = 5_000_000_000;
    stamped.header.label = PathLabel::UNUSABLE;
    let fields = "fd03840400b71b00fd038808000000012a05f200fd039000";
    assert_eq!(hex(&stamped), format!("6470{fields}5056{DATA}"));

    // 9.5 Mbit/s is 1,159 << 13, rounded down; the far hop knows no rate.
    let mut joined = packet(&unhex(DATA)).unwrap();
    joined.header.add_hop(NonZeroU16::new(500).unwrap(), None);
    joined.header.add_hop(NonZeroU16::new(7).unwrap(), Some(9_500_000));
    let fields = "fd039004000701f4fd0398046c87ffff";
    assert_eq!(hex(&joined), format!("6468{fields}5056{DATA}"));
}
