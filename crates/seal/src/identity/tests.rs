//! Certificates that are accepted, and all the ways in which one is refused.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rcgen::{PublicKeyData, SerialNumber, SignatureAlgorithm};

use super::x509::seconds;
use super::*;
use crate::cipher::Suite;
use crate::secret::Secret;

/// The start of December 2026.
const NOW: u64 = 1_796_083_200;
const DAY: u64 = 24 * 3600;

fn now() -> UnixTime {
    seconds(NOW)
}

fn cluster(byte: u8) -> ClusterKey {
    ClusterKey::generate(Secret::new([byte; 32]), Suite::ChaCha20Poly1305)
}

fn host(byte: u8) -> HostKey {
    HostKey::generate(&Secret::new([byte; 32]))
}

fn grant(role: Role) -> Grant {
    let label = "db-1".parse().unwrap();
    Grant { role, label, not_before: now(), not_after: seconds(NOW + 90 * DAY) }
}

/// The certificate of the host, and who verifies it.
fn certified(byte: u8) -> (Certificate, Authority) {
    let ca = cluster(1).ca();
    (ca.sign(&host(byte).public(), &grant(Role::Member)).unwrap(), ca.authority())
}

#[test]
fn each_form_of_a_key_reads_back() {
    for suite in Suite::ALL {
        let key = ClusterKey::generate(Secret::new([3; 32]), suite);
        assert_eq!(ClusterKey::from_pem(&key.to_pem()).as_ref(), Ok(&key));
        let ca = CaKey::generate(&Secret::new([4; 32]), suite);
        let read = CaKey::from_pem(&ca.to_pem()).unwrap();
        assert_eq!((read.suite(), read.certificate()), (suite, ca.certificate()));
    }
    let key = host(5);
    let read = HostKey::from_pem(&key.to_pem()).unwrap();
    assert_eq!(read.public(), key.public());
    assert_eq!(HostPublic::from_pem(&key.public().to_pem()), Ok(key.public()));
    assert_eq!(HostPublic::from_bytes(key.public().as_bytes()), Ok(key.public()));
    assert!(key.public().verifies(b"text", &read.sign(b"text")));
    assert!(!key.public().verifies(b"next", &read.sign(b"text")));
}

/// The keys of RFC 8410, section 10.
#[test]
fn keys_of_other_tools_are_read() {
    let key = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    let public = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
        -----END PUBLIC KEY-----\n";
    let read = HostKey::from_pem(key).unwrap();
    assert_eq!(read.to_pem().as_str(), key);
    assert_eq!(read.public().to_pem(), public);
    let noted = format!("a note\n{public}another\n");
    assert_eq!(HostPublic::from_pem(&noted), Ok(read.public()));
}

#[test]
fn a_damaged_key_is_refused() {
    let text = cluster(1).to_pem();
    let body = text.find("KEY-----\n").unwrap() + 9..text.rfind("\n-----END").unwrap();
    for at in body {
        let mut damaged = text.as_bytes().to_vec();
        damaged[at] = if damaged[at] == b'A' { b'B' } else { b'A' };
        let read = ClusterKey::from_pem(std::str::from_utf8(&damaged).unwrap());
        assert!(read.is_err(), "character {at}");
    }
    for length in 0..text.len() - 1 {
        assert!(ClusterKey::from_pem(&text[..length]).is_err(), "{length} characters");
    }
    // The point of order 1: any signature with a zero scalar fits any message.
    let mut weak = [0; PUBLIC_KEY_BYTES];
    weak[0] = 1;
    assert_eq!(HostPublic::from_bytes(&weak), Err(FormError::KeyType));
    let other = host(1).public().to_pem();
    assert!(matches!(HostKey::from_pem(&other), Err(FormError::Labels { .. })));
    let (one, two) = (cluster(1).ca(), cluster(2).ca());
    let mixed = [one.to_pem().as_str(), ""].concat();
    let mixed = mixed.replace(&one.certificate().to_pem(), &two.certificate().to_pem());
    assert_eq!(CaKey::from_pem(&mixed).unwrap_err(), FormError::OtherKey);
}

#[test]
fn the_id_of_a_host_follows_from_its_key_and_never_changes() {
    let ids: BTreeSet<HostId> = (0..100).map(|byte| host(byte).id()).collect();
    assert_eq!(ids.len(), 100);
    assert!(ids.iter().all(|id| HostId::new(id.get()) == Some(*id)));
    let (id, hash) = (host(7).id().get(), blake3::hash(host(7).public().as_bytes()));
    assert_eq!(format!("{:013x}", id >> 1), hash.to_hex()[..13]);
    assert_eq!(id, 297_136_396_141_788);
    assert_eq!(HostId::new(0), None);
    assert_eq!(HostId::new(1 << 53), None);
    assert_eq!("18".parse(), Ok(HostId::new(18).unwrap()));
    assert_eq!("db-1".parse::<HostId>(), Err(NoHostId));
}

#[test]
fn each_host_of_a_small_cluster_computes_the_same_ca_certificate() {
    let (one, two) = (cluster(1), ClusterKey::from_pem(&cluster(1).to_pem()).unwrap());
    assert_eq!(one.ca().certificate(), two.ca().certificate());
    // Hosts of other versions compute it too.
    let hash = blake3::hash(one.ca().certificate().der());
    assert_eq!(hash.to_hex()[..16], *"4ad7c6b0d6e61ed1");
}

#[test]
fn clusters_differ_in_their_cas_and_so_do_ciphers() {
    let other = ClusterKey::generate(Secret::new([1; 32]), Suite::Aes256Gcm);
    let keys = [cluster(1), cluster(2), other];
    let authorities = keys.each_ref().map(|key| key.ca().authority());
    let prints: BTreeSet<String> = authorities.iter().map(Authority::fingerprint).collect();
    assert_eq!(prints.len(), keys.len());
    for (at, key) in keys.iter().enumerate() {
        let certificate = key.ca().sign(&host(9).public(), &grant(Role::Member)).unwrap();
        for (verifier, authority) in authorities.iter().enumerate() {
            let verified = authority.verify(certificate.der(), now());
            if at == verifier {
                assert_eq!(verified.unwrap().id, host(9).id());
            } else {
                assert_eq!(verified, Err(CertificateError::Signer(authority.fingerprint())));
            }
        }
    }
}

/// One key, two ciphers: an offline CA whose certificate an operator mixed up.
#[test]
fn the_cipher_of_the_cluster_is_part_of_who_signed() {
    let [one, two] = Suite::ALL.map(|suite| CaKey::generate(&Secret::new([4; 32]), suite));
    let certificate = one.sign(&host(9).public(), &grant(Role::Member)).unwrap();
    assert_eq!(one.authority().suite(), one.suite());
    let refused = two.authority().verify(certificate.der(), now());
    assert!(matches!(refused, Err(CertificateError::Signer(_))), "{refused:?}");
}

#[test]
fn a_certificate_says_what_was_granted() {
    let ca = cluster(1).ca();
    for role in Role::ALL {
        let (key, granted) = (host(9).public(), grant(role));
        let certificate = ca.sign(&key, &granted).unwrap();
        let read = Certificate::from_pem(&certificate.to_pem()).unwrap();
        assert_eq!(read, certificate);
        let expected = PeerIdentity {
            id: key.id(),
            public: key,
            role,
            label: granted.label,
            not_before: granted.not_before,
            not_after: granted.not_after,
        };
        assert_eq!(ca.authority().verify(read.der(), now()), Ok(expected));
    }
}

#[test]
fn a_certificate_is_valid_from_its_first_second_to_its_last() {
    let (certificate, authority) = certified(9);
    let verify = |at| authority.verify(certificate.der(), seconds(at));
    assert!(verify(NOW).is_ok() && verify(NOW + 90 * DAY).is_ok());
    assert_eq!(verify(NOW - 1), Err(CertificateError::NotYetValid(now())));
    let end = seconds(NOW + 90 * DAY);
    assert_eq!(verify(NOW + 90 * DAY + 1), Err(CertificateError::Expired(end)));
    let text = CertificateError::Expired(end).to_string();
    assert_eq!(text, "it was valid until 2027-03-01T00:00:00Z");
}

#[test]
fn there_is_no_grant_without_a_time() {
    let ca = cluster(1).ca();
    for (from, to) in [(NOW, NOW), (NOW, NOW - 1), (NOW, u64::MAX)] {
        let (not_before, not_after) = (seconds(from), seconds(to));
        let granted = Grant { not_before, not_after, ..grant(Role::Admin) };
        let expected = Err(GrantError::Dates { not_before, not_after });
        assert_eq!(ca.sign(&host(9).public(), &granted), expected);
    }
}

/// A public key of some algorithm.
struct Key(Vec<u8>, &'static SignatureAlgorithm);

impl PublicKeyData for Key {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.1
    }
}

#[test]
fn a_certificate_names_one_role_and_an_ed25519_key() {
    let ca = cluster(1).ca();
    let verify = |key: &Key, names: &[&str]| {
        let serial = SerialNumber::from(7);
        let certificate = ca.issue(key, serial, &grant(Role::Member), names).unwrap();
        ca.authority().verify(certificate.der(), now()).map(|identity| identity.role)
    };
    let key = Key(host(9).public().as_bytes().to_vec(), &rcgen::PKCS_ED25519);
    let (member, admin) = ("paceline://host/member/a", "paceline://host/admin/a");
    assert_eq!(verify(&key, &[member]), Ok(Role::Member));
    let wrong: [&[&str]; 5] = [
        &[],
        &["paceline://host/boss/a"],
        &["https://host/member/a"],
        &[member, admin],
        &[member, "https://host/member/a"],
    ];
    for names in wrong {
        assert_eq!(verify(&key, names), Err(CertificateError::Role), "{names:?}");
    }
    let other = Key([4; 65].to_vec(), &rcgen::PKCS_ECDSA_P256_SHA256);
    assert_eq!(verify(&other, &[member]), Err(CertificateError::KeyType));
}

#[test]
fn a_certificate_that_was_changed_or_cut_is_refused() {
    let (certificate, authority) = certified(9);
    let der = certificate.der().to_vec();
    for bit in 0..8 * der.len() {
        let mut changed = der.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(authority.verify(&changed.into(), now()).is_err(), "bit {bit}");
    }
    for length in 0..der.len() {
        let cut = der[..length].to_vec().into();
        assert_eq!(authority.verify(&cut, now()), Err(CertificateError::Malformed));
    }
    let longer = [der.as_slice(), &[0]].concat().into();
    assert_eq!(authority.verify(&longer, now()), Err(CertificateError::Malformed));
}

#[test]
fn the_certificate_of_a_ca_that_was_changed_or_is_that_of_a_host_is_refused() {
    let (certificate, authority) = certified(9);
    assert_eq!(Authority::new(certificate).unwrap_err(), CertificateError::NotCa);
    let der = authority.certificate().der();
    for bit in 0..8 * der.len() {
        let mut changed = der.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Authority::new(Certificate::new(changed.into())).is_err(), "bit {bit}");
    }
    // The certificate of the CA is not one of a host.
    assert!(authority.verify(der, now()).is_err());
}

/// A host that signs with its own key, in the name of the CA.
#[test]
fn a_host_certifies_no_other() {
    let (_, authority) = certified(9);
    let rogue = CaKey::generate(&Secret::new([9; 32]), authority.suite());
    let certificate = rogue.sign(&host(8).public(), &grant(Role::Admin)).unwrap();
    let (own, ca) = (rogue.authority(), &authority);
    let forged = replaced(certificate.der(), &own.fingerprint(), &ca.fingerprint());
    let refused = ca.verify(&forged.into(), now());
    assert_eq!(refused, Err(CertificateError::Signer(ca.fingerprint())));
}

fn replaced(der: &[u8], old: &str, new: &str) -> Vec<u8> {
    let at = der.windows(old.len()).position(|window| window == old.as_bytes()).unwrap();
    let mut der = der.to_vec();
    der[at..at + new.len()].copy_from_slice(new.as_bytes());
    der
}

#[test]
fn a_revoked_host_is_refused_with_all_its_certificates() {
    let (ca, mut authority) = (cluster(1).ca(), cluster(1).ca().authority());
    let later = Grant { not_after: seconds(NOW + 99 * DAY), ..grant(Role::Client) };
    let of_host = [grant(Role::Member), later].map(|granted| ca.sign(&host(9).public(), &granted));
    let other = ca.sign(&host(8).public(), &grant(Role::Member)).unwrap();
    let list = ca.revoke(None, host(9).id(), now()).unwrap();
    let read = RevocationList::from_pem(&list.to_pem()).unwrap();
    assert_eq!(read, list);
    assert_eq!((list.number(), list.signed_at()), (NOW, now()));
    authority.learn(read).unwrap();
    for certificate in of_host {
        let refused = authority.verify(certificate.unwrap().der(), now());
        assert_eq!(refused, Err(CertificateError::Revoked(host(9).id())));
    }
    assert!(authority.verify(other.der(), now()).is_ok());
    let next = ca.revoke(Some(&list), host(8).id(), now()).unwrap();
    authority.learn(next.clone()).unwrap();
    assert!(authority.verify(other.der(), now()).is_err());
    let mut expected = vec![(host(9).id(), now()), (host(8).id(), now())];
    expected.sort_unstable();
    assert!(next.hosts().eq(expected));
}

#[test]
fn a_list_that_is_not_later_or_of_another_ca_is_refused_and_the_one_before_it_stays() {
    let (ca, mut authority) = (cluster(1).ca(), cluster(1).ca().authority());
    let one = ca.revoke(None, host(9).id(), now()).unwrap();
    let two = ca.revoke(Some(&one), host(8).id(), now()).unwrap();
    let beside = ca.revoke(Some(&one), host(7).id(), now()).unwrap();
    assert_eq!(two.number(), one.number() + 1);
    authority.learn(two.clone()).unwrap();
    for earlier in [&one, &beside] {
        let (held, offered) = (two.number(), earlier.number());
        let expected = Err(RevocationError::Superseded { held, offered });
        assert_eq!(authority.learn(earlier.clone()), expected);
    }
    let foreign = cluster(2).ca().revoke(None, host(7).id(), seconds(NOW + DAY)).unwrap();
    let signer = RevocationError::Signer(authority.fingerprint());
    assert_eq!(authority.learn(foreign.clone()), Err(signer.clone()));
    assert_eq!(ca.revoke(Some(&foreign), host(7).id(), now()), Err(signer));
    assert_eq!(authority.learn(two.clone()), Ok(()), "the same one again");
    assert_eq!(authority.revoked(), Some(&two));
    // The list was lost: one that is signed a day later is accepted.
    let third = ca.revoke(None, host(9).id(), seconds(NOW + DAY)).unwrap();
    assert_eq!(authority.learn(third), Ok(()));
}

#[test]
fn a_list_that_was_changed_or_cut_is_refused() {
    let (ca, authority) = (cluster(1).ca(), cluster(1).ca().authority());
    let list = ca.revoke(None, host(9).id(), now()).unwrap();
    let der = list.der().to_vec();
    let learned = |der: &[u8]| authority.clone().learn(RevocationList::from_der(der)?);
    assert_eq!(learned(&der), Ok(()));
    for bit in 0..8 * der.len() {
        let mut changed = der.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(learned(&changed).is_err(), "bit {bit}");
    }
    for length in 0..der.len() {
        assert_eq!(learned(&der[..length]), Err(RevocationError::Malformed));
    }
}

#[test]
fn a_host_with_the_cluster_key_certifies_itself_for_a_day() {
    let identity = Identity::self_certified(&cluster(1), host(9), now()).unwrap();
    assert_eq!((identity.id(), identity.role()), (host(9).id(), Role::Member));
    assert_eq!(identity.label().as_str(), host(9).id().to_string());
    assert_eq!(identity.suite(), cluster(1).suite());
    assert_eq!(identity.not_after(), seconds(NOW + DAY));
    assert_eq!(identity.ca_der(), cluster(1).ca().certificate().der());
    let other = Identity::self_certified(&cluster(1), host(8), now()).unwrap();
    for (clock, is_accepted) in [(NOW - 3600, true), (NOW + DAY, true), (NOW - 3601, false)] {
        let verified = other.verify(identity.certificate_der(), seconds(clock));
        assert_eq!(verified.is_ok(), is_accepted, "{verified:?}");
    }
    let foreign = Identity::self_certified(&cluster(2), host(7), now()).unwrap();
    assert!(foreign.verify(identity.certificate_der(), now()).is_err());
    let never = Identity::self_certified(&cluster(1), host(9), seconds(u64::MAX));
    assert_eq!(never.unwrap_err(), IdentityError::Clock);
}

#[test]
fn a_host_has_the_key_that_its_certificate_is_for() {
    let (certificate, authority) = certified(9);
    let signed = |byte, at| {
        Identity::signed(host(byte), certificate.clone(), authority.clone(), seconds(at))
    };
    assert_eq!(signed(9, NOW).unwrap().id(), host(9).id());
    let (certified, held) = (host(9).id(), host(8).id());
    assert_eq!(signed(8, NOW).unwrap_err(), IdentityError::OtherKey { certified, held });
    assert!(matches!(
        signed(9, NOW + 91 * DAY).unwrap_err(),
        IdentityError::Certificate(CertificateError::Expired(_))
    ));
}

#[test]
fn each_kind_of_file_is_told_apart() {
    let (certificate, authority) = certified(9);
    let ca = cluster(1).ca();
    let chain = Chain { certificate, authority: authority.clone() };
    let list = ca.revoke(None, host(9).id(), now()).unwrap();
    let texts = [
        (KeyDocumentKind::ClusterKey, cluster(1).to_pem().to_string()),
        (KeyDocumentKind::CaKey, ca.to_pem().to_string()),
        (KeyDocumentKind::HostKey, host(9).to_pem().to_string()),
        (KeyDocumentKind::HostPublic, host(9).public().to_pem()),
        (KeyDocumentKind::Chain, chain.to_pem()),
        (KeyDocumentKind::Authority, authority.certificate().to_pem()),
        (KeyDocumentKind::RevocationList, list.to_pem()),
    ];
    for (kind, text) in &texts {
        assert_eq!(KeyDocument::from_pem(text).unwrap().kind(), *kind);
    }
    assert_eq!(chain.subject().unwrap().id, host(9).id());
    let two = [texts[0].1.as_str(), texts[2].1.as_str()].concat();
    assert_eq!(KeyDocument::from_pem(&two).unwrap_err(), DocumentError::Kind);
    let none = KeyDocument::from_pem("no key at all").unwrap_err();
    assert_eq!(none, DocumentError::Form(FormError::NoBlock));
}

#[test]
fn debug_shows_no_secret() {
    let secret = [0xab; 32];
    let cluster = ClusterKey::generate(Secret::new(secret), Suite::ChaCha20Poly1305);
    let (ca, host) = (cluster.ca(), HostKey::generate(&Secret::new(secret)));
    let identity = Identity::self_certified(&cluster, host.clone(), now()).unwrap();
    assert_eq!(format!("{cluster:?}"), "ClusterKey(chacha20-poly1305, ..)");
    assert_eq!(format!("{host:?}"), format!("HostKey({}, ..)", host.id()));
    let expected = format!("CaKey(Paceline {} {}, ..)", ca.suite(), ca.authority().fingerprint());
    assert_eq!(format!("{ca:?}"), expected);
    let text = format!("{identity:?} {:?}", KeyDocument::ClusterKey(cluster));
    for shown in ["171, 171", "abab", "ABAB"] {
        assert!(!text.contains(shown), "{text}");
    }
}

proptest! {
    /// Valid files with some bytes replaced, somewhere.
    #[test]
    fn no_bytes_make_a_reader_panic(
        at in 0_usize..600,
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let ca = cluster(1).ca();
        let (certificate, mut authority) = certified(9);
        let list = ca.revoke(None, host(9).id(), now()).unwrap();
        let spliced = |valid: &[u8]| {
            let mut changed = valid.to_vec();
            let at = at.min(changed.len());
            let end = (at + bytes.len()).min(changed.len());
            changed.splice(at..end, bytes.iter().copied());
            changed
        };
        let changed = spliced(certificate.der());
        let is_same = changed == certificate.der().as_ref();
        let verified = authority.verify(&changed.into(), now());
        prop_assert_eq!(verified.is_ok(), is_same);
        let _ = Authority::new(Certificate::new(spliced(ca.certificate().der()).into()));
        let _ = RevocationList::from_der(&spliced(list.der())).map(|list| authority.learn(list));
        let _ = HostKey::from_pkcs8(&spliced(&host(9).to_pkcs8()));
        for text in [ca.to_pem().as_str(), cluster(1).to_pem().as_str(), &list.to_pem()] {
            let _ = KeyDocument::from_pem(&String::from_utf8_lossy(&spliced(text.as_bytes())));
        }
    }
}
