//! `paceline key`: files that are made, signed and revoked, and all for which one is refused.

use crate::support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use paceline_seal::identity::{CaKey, Chain, Grant, HostKey, Role, UnixTime};
use paceline_seal::{Secret, Suite};
use serde_json::json;
use support::{Place, keys};

fn done(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.status, 0, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

fn text(place: &Place, name: &str) -> String {
    fs::read_to_string(place.path().join(name)).unwrap()
}

fn mode(place: &Place, name: &str) -> u32 {
    fs::metadata(place.path().join(name)).unwrap().permissions().mode() & 0o777
}

fn set_mode(place: &Place, name: &str, mode: u32) {
    fs::set_permissions(place.path().join(name), Permissions::from_mode(mode)).unwrap();
}

/// A CA, and the key and the certificate of a host.
fn place() -> Place {
    let place = Place::new();
    done(&place, &["key", "new", "--ca"]);
    done(&place, &["key", "host", "-o", "db-1.key"]);
    done(&place, &["key", "sign", "db-1.pub", "--ca", "ca.key", "--role", "member"]);
    place
}

#[test]
fn keys_are_for_their_owner_only_and_never_overwritten() {
    let place = Place::new();
    let made: [(&[&str], &str); 3] = [
        (&["key", "new"], "cluster.key"),
        (&["key", "new", "--ca"], "ca.key"),
        (&["key", "host"], "host.key"),
    ];
    for (arguments, file) in made {
        let said = done(&place, arguments);
        assert!(said.contains(file) && said.contains("keep it secret"), "{said}");
        assert_eq!(mode(&place, file), 0o600, "{file}");
        let first = text(&place, file);
        let said = place.error(arguments, 2);
        assert!(said.contains("it exists, and is not overwritten"), "{said}");
        assert_eq!(text(&place, file), first);
    }
    // The public half alone does not stay behind.
    fs::remove_file(place.path().join("host.pub")).unwrap();
    let said = place.error(&["key", "host"], 2);
    assert!(said.contains("host.key: it exists"), "{said}");
    assert!(!place.path().join("host.pub").exists());
    let said = place.error(&["key", "host", "-o", "a.pub"], 2);
    assert!(said.contains("a.pub: the ending .pub is that of the public half"), "{said}");
    let said = place.error(&["key", "new", "-o", "no/such/folder.key"], 1);
    assert!(said.contains("no/such/folder.key: "), "{said}");
}

#[test]
fn a_key_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    let place = place();
    done(&place, &["key", "new"]);
    let uses: [(&str, &[&str]); 5] = [
        ("ca.key", &["key", "sign", "db-1.pub", "--ca", "ca.key", "--role", "client", "-o", "c"]),
        ("ca.key", &["key", "revoke", "db-1.pub", "--ca", "ca.key", "--new"]),
        ("ca.key", &["key", "show", "db-1.crt", "--ca", "ca.key"]),
        ("cluster.key", &["key", "show", "cluster.key"]),
        ("db-1.key", &["key", "show", "db-1.key"]),
    ];
    for (file, arguments) in uses {
        set_mode(&place, file, 0o640);
        let said = place.error(arguments, 2);
        let expected = format!("{file}: not only its owner can read it (mode 640)");
        assert!(
            said.contains(&expected) && said.contains(&format!("`chmod 600 {file}`")),
            "{said}"
        );
        set_mode(&place, file, 0o600);
        done(&place, arguments);
    }
}

#[test]
fn a_file_of_another_form_is_refused_by_name() {
    let place = place();
    let sign = |host, ca| place.error(&["key", "sign", host, "--ca", ca, "--role", "member"], 2);
    let said = sign("db-1.pub", "db-1.key");
    assert!(said.contains("db-1.key: it is a host key; a CA key or a cluster key"), "{said}");
    let said = sign("db-1.key", "ca.key");
    assert!(said.contains("db-1.key: it is a host key; the .pub file"), "{said}");
    let said = sign("missing.pub", "ca.key");
    assert!(said.contains("missing.pub: no such file; `paceline key host` makes a"), "{said}");
    let said = sign("db-1.pub", "missing.key");
    assert!(said.contains("missing.key: no such file; `paceline key new --ca`"), "{said}");
    place.write("notes.txt", "nothing of this kind\n");
    let said = place.error(&["key", "show", "notes.txt"], 2);
    assert!(said.contains("notes.txt: it has no PEM block"), "{said}");
    let cut = text(&place, "db-1.crt");
    place.write("cut.crt", &cut[..cut.len() - 40]);
    let said = place.error(&["key", "show", "cut.crt"], 2);
    assert!(said.contains("cut.crt: its PEM block is damaged; copy the file"), "{said}");
    let (first, second) = cut.split_at(cut.len() / 4);
    let at = second.find(|c: char| c.is_ascii_lowercase()).unwrap();
    place.write("changed.crt", &[first, &second[..at], "A", &second[at + 1..]].concat());
    let said = place.error(&["key", "show", "changed.crt"], 2);
    assert!(said.contains("changed.crt: it is "), "{said}");
    let said = place.error(&["key", "revoke", "db-1.key", "--ca", "ca.key"], 2);
    assert!(said.contains("an id, a public key or a certificate is needed"), "{said}");
    let said = place.error(&["key", "revoke", "db-1.pub", "--ca", "ca.key", "--list", "ca.key"], 2);
    assert!(said.contains("ca.key: it is a CA key, and a revocation list is needed"), "{said}");
    place.write("a b.pub", &text(&place, "db-1.pub"));
    let said = sign("a b.pub", "ca.key");
    assert!(said.contains("give it one with --name"), "{said}");
    for name in ["a/b", "", "\u{e9}"] {
        let named = ["key", "sign", "db-1.pub", "--ca", "ca.key", "--role", "member", "--name"];
        let said = place.error(&[&named[..], &[name]].concat(), 2);
        assert!(said.contains("1 to 63 letters"), "{said}");
    }
}

#[test]
fn a_certificate_of_another_date_is_refused_by_name() {
    let place = Place::new();
    let ca = CaKey::generate(&Secret::new([1; 32]), Suite::ChaCha20Poly1305);
    place.write("ca.crt", &ca.certificate().to_pem());
    let hour = |hours: u64| Duration::from_secs(hours * 3600);
    let now = Duration::from_secs(UnixTime::now().as_secs());
    let times = [
        ("old", now - hour(48), now - hour(24), "expired", "it was valid until"),
        ("new", now + hour(24), now + hour(48), "not_yet_valid", "it is not valid before"),
    ];
    for (name, from, to, state, expected) in times {
        let grant = Grant {
            role: Role::Client,
            label: name.parse().unwrap(),
            not_before: UnixTime::since_unix_epoch(from),
            not_after: UnixTime::since_unix_epoch(to),
        };
        let public = HostKey::generate(&Secret::new([2; 32])).public();
        let certificate = ca.sign(&public, &grant).unwrap();
        let file = format!("{name}.crt");
        place.write(&file, &Chain { certificate, authority: ca.authority() }.to_pem());
        let (_, document) = place.json(&["key", "show", &file]);
        assert_eq!((&document["state"], &document["role"]), (&json!(state), &json!("client")));
        let said = place.error(&["key", "show", &file, "--ca", "ca.crt"], 2);
        assert!(said.contains(&format!("{file}: {expected} 2")), "{said}");
    }
}

#[test]
fn what_another_ca_signed_is_refused_by_name() {
    let place = place();
    done(&place, &["key", "new", "--ca", "-o", "other.key"]);
    assert!(done(&place, &["key", "show", "db-1.crt", "--ca", "ca.key"]).contains("verified"));
    let said = place.error(&["key", "show", "db-1.crt", "--ca", "other.key"], 2);
    assert!(said.contains("db-1.crt: it is not signed by the CA "), "{said}");
    done(&place, &["key", "revoke", "17", "--ca", "other.key", "--list", "other.crl", "--new"]);
    let lists: [&[&str]; 3] = [
        &["key", "revoke", "18", "--ca", "ca.key", "--list", "other.crl"],
        &["key", "show", "other.crl", "--ca", "ca.key"],
        &["key", "show", "db-1.crt", "--ca", "ca.key", "--list", "other.crl"],
    ];
    for arguments in lists {
        let said = place.error(arguments, 2);
        assert!(said.contains("other.crl: it is not signed by the CA "), "{said}");
    }
}

#[test]
fn a_revoked_host_is_refused_and_the_list_keeps_those_before_it() {
    let place = place();
    let (_, shown) = place.json(&["key", "show", "db-1.crt"]);
    let said = place.error(&["key", "revoke", "17", "--ca", "ca.key"], 2);
    assert!(said.contains("revoked.crl: no such file; --new begins a list"), "{said}");
    done(&place, &["key", "revoke", "17", "--ca", "ca.key", "--new"]);
    let said = place.error(&["key", "revoke", "18", "--ca", "ca.key", "--new"], 2);
    assert!(said.contains("revoked.crl: it exists, and is not overwritten"), "{said}");
    let check = ["key", "show", "db-1.crt", "--ca", "ca.key", "--list", "revoked.crl"];
    done(&place, &check);
    let (_, first) = place.json(&["key", "show", "revoked.crl"]);
    let (_, second) = place.json(&["key", "revoke", "db-1.crt", "--ca", "ca.key"]);
    assert!(second["number"].as_u64() > first["number"].as_u64());
    assert_eq!(second["id"], shown["id"]);
    assert_eq!(second["revoked"], json!([17, shown["id"]]));
    let said = place.error(&check, 2);
    assert!(said.contains(&format!("db-1.crt: host {} is revoked", shown["id"])), "{said}");
}

#[test]
fn show_says_what_a_file_is_and_no_secret() {
    let place = place();
    done(&place, &["key", "new", "--cipher", "chacha20-poly1305"]);
    done(&place, &["key", "revoke", "17", "--ca", "ca.key", "--new"]);
    let expected = [
        ("cluster.key", "cluster key"),
        ("ca.key", "CA key"),
        ("db-1.key", "host key"),
        ("db-1.pub", "public key of a host"),
        ("db-1.crt", "certificate of a host"),
        ("revoked.crl", "revocation list"),
    ];
    for (file, kind) in expected {
        let (ran, document) = place.json(&["key", "show", file]);
        assert_eq!((ran.status, &document["kind"]), (0, &json!(kind)), "{file}");
        let said = [ran.stdout, ran.stderr, done(&place, &["key", "show", file])].concat();
        let content = text(&place, file);
        let secret = content.lines().nth(1).unwrap();
        assert!(said.contains(file) && !said.contains(&secret[..20]), "{said}");
    }
    let (_, cluster) = place.json(&["key", "show", "cluster.key"]);
    assert_eq!(cluster["cipher"], "chacha20-poly1305");
    let (_, key) = place.json(&["key", "show", "db-1.key"]);
    let (_, public) = place.json(&["key", "show", "db-1.pub"]);
    let (_, certificate) = place.json(&["key", "show", "db-1.crt"]);
    assert_eq!((&key["id"], &public["id"]), (&certificate["id"], &certificate["id"]));
    let names = [
        "ca",
        "cipher",
        "file",
        "id",
        "kind",
        "name",
        "not_after",
        "not_before",
        "public_key",
        "role",
        "state",
        "verified",
    ];
    assert_eq!(keys(&certificate), names);
    assert_eq!((&certificate["name"], &certificate["state"]), (&json!("db-1"), &json!("valid")));
}

#[test]
fn a_cluster_key_certifies_too_and_a_certificate_is_renewed_under_its_name() {
    let place = Place::new();
    done(&place, &["key", "new"]);
    done(&place, &["key", "host", "-o", "laptop.key"]);
    let sign = ["key", "sign", "laptop.pub", "--ca", "cluster.key", "--role", "admin"];
    let (_, signed) = place.json(&[&sign[..], &["--days", "7", "--name", "anna"]].concat());
    assert_eq!((&signed["file"], &signed["name"]), (&json!("laptop.crt"), &json!("anna")));
    let said = place.error(&sign, 2);
    assert!(said.contains("laptop.crt: it exists"), "{said}");
    let renew = ["key", "sign", "laptop.crt", "--ca", "cluster.key", "--role", "client"];
    let (_, renewed) = place.json(&[&renew[..], &["-o", "next.crt"]].concat());
    assert_eq!((&renewed["id"], &renewed["name"]), (&signed["id"], &json!("anna")));
    assert_eq!(renewed["role"], "client");
    assert!(done(&place, &["key", "show", "next.crt", "--ca", "cluster.key"]).contains("client"));
}

/// X.509 and PKCS #8 as another implementation reads them.
#[test]
fn another_tool_reads_and_verifies_the_files() {
    let place = place();
    let tool = |arguments: &[&str]| {
        let ran = Command::new("openssl").args(arguments).current_dir(place.path()).output();
        let ran = match ran {
            Err(error) => {
                eprintln!("skipped: openssl: {error}");
                return None;
            }
            Ok(ran) => ran,
        };
        let said = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
        Some(said)
    };
    let Some(said) = tool(&["x509", "-in", "db-1.crt", "-noout", "-text"]) else { return };
    assert!(said.contains("Paceline "), "{said}");
    for part in ["URI:paceline://host/member/db-1", "TLS Web Client Authentication", "CA:FALSE"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    tool(&["verify", "-x509_strict", "-CAfile", "ca.key", "db-1.crt"]);
    let public = tool(&["pkey", "-in", "db-1.key", "-pubout"]);
    assert_eq!(public.as_deref(), Some(text(&place, "db-1.pub").as_str()));
    done(&place, &["key", "revoke", "17", "--ca", "ca.key", "--new"]);
    tool(&["crl", "-in", "revoked.crl", "-noout", "-text", "-CAfile", "ca.key", "-verify"]);
    // A key that another tool made.
    place.write("own.key", &tool(&["genpkey", "-algorithm", "ed25519"]).unwrap());
    set_mode(&place, "own.key", 0o600);
    place.write("own.pub", &tool(&["pkey", "-in", "own.key", "-pubout"]).unwrap());
    done(&place, &["key", "sign", "own.pub", "--ca", "ca.key", "--role", "member"]);
    let [(_, key), (_, certificate)] =
        ["own.key", "own.crt"].map(|file| place.json(&["key", "show", file]));
    assert_eq!(key["id"], certificate["id"]);
}
