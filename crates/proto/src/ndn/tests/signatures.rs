//! Signatures, keys and what a consumer trusts.

use super::*;

/// The first key of RFC 8032, section 7.1, as `openssl` writes it.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
";
/// Signed with that key by python-ndn 0.5.2.
const ED25519: &str = "0689071008056d69726363080466696c653201071409190203e81a033201\
    0915107878787878787878787878787878787816161b01051c11070f08056d6972636308034b45590801311740\
    c51d55b4a11bdc7c4cefc9b0637675184ca5c2c0d504c31ff3a3c96f3e96abb365f13e8c1c6cbe584962d56f84\
    f8f3ba5b891312eb50031bd89c6b2a1d2ddf03";
/// Signed by python-ndn with a key that both ends would have.
const HMAC: &str = "063807030801611400150178160a1b01041c05070308016b1720dc1e35feb3f0bdbd00f80c31a2\
    3e3f9f4f39f99bc6b32ead4bad2ab7bbe66d70";

fn read(bytes: &[u8]) -> Data {
    match packet(bytes) {
        Ok(Packet { body: Body::Data(data), .. }) => data,
        other => panic!("{other:?}"),
    }
}

fn signer() -> Signer {
    Signer::from_pem(PRIVATE, name("/mircc/KEY/1")).unwrap()
}

#[test]
fn ed25519_signs_as_python_ndn_does() {
    let meta = Meta { content_type: None, freshness_ms: Some(1_000), final_segment: Some(9) };
    let content = Payload::from("xxxxxxxxxxxxxxxx");
    let made = Data::new(name("/mircc/file/seg=7"), meta, content, &signer());
    assert_eq!(made.to_bytes(), unhex(ED25519));
    let found = read(&unhex(ED25519));
    assert_eq!(found, made);
    assert_eq!(found.meta(), &meta);
    assert_eq!(found.signature_type(), SignatureType::Ed25519);
    assert_eq!(found.key_locator(), Some(name("/mircc/KEY/1")));
    for trust in [Trust::from_pem(PUBLIC).unwrap(), signer().trust(), Trust::Anything] {
        assert_eq!(found.verify(&trust), Ok(()));
    }
}

#[test]
fn a_change_of_any_byte_is_noticed() {
    let digest = data("/mircc/file/seg=7", "content", &Signer::Digest);
    let signed = data("/mircc/file/seg=7", "content", &signer());
    for (data, trust) in [(digest, Trust::Digest), (signed, signer().trust())] {
        let bytes = data.to_bytes();
        assert_eq!(data.verify(&trust), Ok(()));
        let mut read = 0;
        for at in 0..bytes.len() {
            for flip in [1, 0x80] {
                let mut forged = bytes.to_vec();
                forged[at] ^= flip;
                if let Ok(Packet { body: Body::Data(forged), .. }) = packet(&forged) {
                    assert!(forged.verify(&trust).is_err(), "byte {at} of {trust:?}");
                    read += 1;
                }
            }
        }
        assert!(read > bytes.len(), "{read}");
    }
}

#[test]
fn trust_asks_for_no_less_than_it_says() {
    let stranger = Signer::from_seed(&[1; 32], name("/mircc/KEY/1"));
    let key = signer().trust();
    let of = |signer: &Signer| data("/a", "x", signer);
    for (data, trust, verdict) in [
        (of(&Signer::Null), &Trust::Anything, Ok(())),
        (of(&Signer::Null), &Trust::Digest, Err(VerifyError::TooWeak(SignatureType::Null))),
        (of(&Signer::Null), &key, Err(VerifyError::TooWeak(SignatureType::Null))),
        (of(&Signer::Digest), &Trust::Anything, Ok(())),
        (of(&Signer::Digest), &Trust::Digest, Ok(())),
        (of(&Signer::Digest), &key, Err(VerifyError::TooWeak(SignatureType::DigestSha256))),
        (of(&signer()), &Trust::Anything, Ok(())),
        (of(&signer()), &Trust::Digest, Err(VerifyError::NoKey)),
        (of(&signer()), &key, Ok(())),
        (of(&stranger), &key, Err(VerifyError::Signature)),
    ] {
        assert_eq!(data.verify(trust), verdict, "{data:?}");
        // The same from the network.
        assert_eq!(read(&data.to_bytes()).verify(trust), verdict, "{data:?}");
    }
}

#[test]
fn signatures_of_other_types_are_told_as_such() {
    let found = read(&unhex(HMAC));
    let unsupported = Err(VerifyError::Unsupported(SignatureType::HmacWithSha256));
    assert_eq!(found.verify(&Trust::Digest), unsupported);
    assert_eq!(found.verify(&signer().trust()), unsupported);
    assert_eq!(found.verify(&Trust::Anything), Ok(()));
    assert_eq!(found.key_locator(), Some(name("/k")));
    for (number, of) in [
        (1, SignatureType::Sha256WithRsa),
        (3, SignatureType::Sha256WithEcdsa),
        (77, SignatureType::Other(77)),
    ] {
        let parts = [vec![7, 3, 8, 1, 0x61], vec![0x16, 3, 0x1b, 1, number], vec![0x17, 0]];
        let found = read(&elements(6, &parts));
        assert_eq!(found.verify(&Trust::Digest), Err(VerifyError::Unsupported(of)));
    }
}

#[test]
fn a_signature_of_another_length_does_not_fit() {
    for (signer, error) in
        [(Signer::Digest, VerifyError::Digest), (signer(), VerifyError::Signature)]
    {
        let bytes = data("/a", "x", &signer).to_bytes();
        let inner = tlv::Reader::new(&bytes).element().unwrap().unwrap().value;
        let signed = inner.len() - 2 - if let Signer::Digest = signer { 32 } else { 64 };
        for value in [&[][..], &[0; 31], &[0; 65]] {
            let forged = element(6, &[&inner[..signed], &element(0x17, value)].concat());
            assert_eq!(read(&forged).verify(&signer.trust()), Err(error));
        }
    }
}

#[test]
fn files_that_are_no_keys_are_refused() {
    let name = name("/k");
    for pem in ["", "junk", PUBLIC, &PRIVATE[..80]] {
        assert_eq!(Signer::from_pem(pem, name.clone()).err(), Some(KeyError::Private));
    }
    for pem in ["", "junk", PRIVATE, &PUBLIC[..80]] {
        assert_eq!(Trust::from_pem(pem), Err(KeyError::Public));
    }
    assert_eq!(format!("{:?}", signer()), "SignatureEd25519 by /mircc/KEY/1");
}

#[test]
fn an_interest_matches_what_it_asks_for() {
    let data = data("/a/b/seg=1", "x", &Signer::Digest);
    let asks = |name: Name, prefix: bool| {
        Interest { can_be_prefix: prefix, ..Interest::new(name, 1) }.matches(&data)
    };
    assert!(asks(name("/a/b/seg=1"), false) && asks(name("/a/b/seg=1"), true));
    assert!(asks(name("/a/b"), true) && asks(name("/a"), true));
    assert!(!asks(name("/a/b"), false) && !asks(name("/a/b/seg=2"), true));
    assert!(!asks(name("/a/b/seg=1/c"), true));
    let digest = data.implicit_digest();
    assert!(asks(data.name().component(1, &digest).unwrap(), false));
    assert!(!asks(data.name().component(1, &[0; 32]).unwrap(), true));
}
