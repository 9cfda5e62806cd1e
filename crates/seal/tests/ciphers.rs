//! Both ciphers against other implementations and against the vectors of Project Wycheproof.

use aes_gcm::Aes256Gcm;
use aes_gcm::aead::inout::InOutBuf;
use aes_gcm::aead::{AeadInOut, KeyInit};
use graviola::aead::ChaCha20Poly1305;
use paceline_seal::{Forged, KEY_BYTES, NONCE_BYTES, Nonce, Secret, Suite, TAG_BYTES, Tag};
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};
use wycheproof::TestResult;
use wycheproof::aead::{TestName, TestSet};

/// Inputs on which two implementations of a cipher are compared.
const INPUTS: usize = 1_000_000;

/// One text that is sealed.
struct Input {
    key: [u8; KEY_BYTES],
    nonce: [u8; NONCE_BYTES],
    header: Vec<u8>,
    text: Vec<u8>,
}

impl Input {
    fn drawn(rng: &mut SmallRng, at: usize) -> Input {
        let mut input = Input {
            key: rng.random(),
            nonce: rng.random(),
            header: vec![0; rng.random_range(0..=64)],
            // A thousandth is longer than any batch in which an implementation works.
            text: vec![0; rng.random_range(0..=if at.is_multiple_of(1000) { 9000 } else { 300 })],
        };
        rng.fill_bytes(&mut input.header);
        rng.fill_bytes(&mut input.text);
        input
    }
}

/// Seals the input with the other implementation.
fn sealed_by_another(suite: Suite, input: &Input) -> (Vec<u8>, Tag) {
    let (mut text, mut tag) = (input.text.clone(), [0; TAG_BYTES]);
    match suite {
        Suite::Aes256Gcm => {
            let cipher = Aes256Gcm::new(&input.key.into());
            let buffer = InOutBuf::from(&mut text[..]);
            let made = cipher.encrypt_inout_detached(&input.nonce.into(), &input.header, buffer);
            tag = made.expect("a short text").into();
        }
        Suite::ChaCha20Poly1305 => {
            let cipher = ChaCha20Poly1305::new(input.key);
            cipher.encrypt(&input.nonce, &input.header, &mut text, &mut tag);
        }
    }
    (text, tag)
}

fn compare(suite: Suite) {
    let mut rng = SmallRng::seed_from_u64(26);
    for at in 0..INPUTS {
        let input = Input::drawn(&mut rng, at);
        let sealer = suite.sealer(&Secret::new(input.key)).expect("this processor runs both");
        let nonce = Nonce::new(input.nonce);
        let mut text = input.text.clone();
        let mut tag = sealer.seal(nonce, &input.header, &mut text);
        assert_eq!((text.clone(), tag), sealed_by_another(suite, &input), "{suite}, input {at}");
        let mut forged = text.clone();
        assert_eq!(sealer.open(nonce, &input.header, &mut text, &tag), Ok(()));
        assert_eq!(text, input.text, "{suite}, input {at}");
        tag[at % TAG_BYTES] ^= 1 << (at % 8);
        assert_eq!(sealer.open(nonce, &input.header, &mut forged, &tag), Err(Forged));
        // The plaintext of one byte can be there by chance.
        assert!(forged != input.text || input.text.len() < 16, "{suite}, input {at}");
    }
}

#[test]
fn aes_gcm_has_the_bytes_of_another_implementation() {
    compare(Suite::Aes256Gcm);
}

#[test]
fn chacha20_poly1305_has_the_bytes_of_another_implementation() {
    compare(Suite::ChaCha20Poly1305);
}

/// Runs the vectors with keys, nonces and tags of the lengths that records have; returns how many
/// were valid, and how many were not.
fn run_vectors(suite: Suite, name: TestName) -> (usize, usize) {
    let set = TestSet::load(name).expect("the vectors are part of their crate");
    let (mut valid, mut invalid) = (0, 0);
    for group in set.test_groups {
        let bits = (group.key_size, group.nonce_size, group.tag_size);
        if bits != (8 * KEY_BYTES, 8 * NONCE_BYTES, 8 * TAG_BYTES) {
            continue;
        }
        for test in group.tests {
            let key: [u8; KEY_BYTES] = test.key[..].try_into().unwrap();
            let nonce = Nonce::new(test.nonce[..].try_into().unwrap());
            let sealer = suite.sealer(&Secret::new(key)).unwrap();
            let tag: Tag = test.tag[..].try_into().unwrap();
            let mut text = test.ct.to_vec();
            let opened = sealer.open(nonce, &test.aad, &mut text, &tag);
            if test.result == TestResult::Invalid {
                assert_eq!(opened, Err(Forged), "{suite}, {}: {}", test.tc_id, test.comment);
                invalid += 1;
                continue;
            }
            assert_eq!(opened, Ok(()), "{suite}, {}: {}", test.tc_id, test.comment);
            assert_eq!(text, test.pt[..], "{suite}, {}: {}", test.tc_id, test.comment);
            assert_eq!(sealer.seal(nonce, &test.aad, &mut text), tag);
            assert_eq!(text, test.ct[..]);
            valid += 1;
        }
    }
    (valid, invalid)
}

#[test]
fn vectors_of_wycheproof_are_sealed_and_opened_and_forged_ones_refused() {
    // All that these keys, nonces and tags have in version 0.6 of the vectors.
    assert_eq!(run_vectors(Suite::Aes256Gcm, TestName::AesGcm), (39, 27));
    assert_eq!(run_vectors(Suite::ChaCha20Poly1305, TestName::ChaCha20Poly1305), (256, 60));
}
