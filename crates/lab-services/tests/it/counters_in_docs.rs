//! The pages of `docs/protocols` list the counters as they are declared.

use std::path::Path;

use paceline_lab_services::counters::SETS;
use paceline_proto::core::CounterSet;

/// The pages, each with the sets that it lists.
const PAGES: &[(&str, &[&str])] = &[
    ("chain", &["chain", "net", "sim"]),
    ("group", &["group"]),
    ("detector", &["detector", "host"]),
    ("overlay", &["overlay"]),
    ("slingshot", &["slingshot", "srm", "nak", "ack", "gossip"]),
    ("mircc", &["mircc"]),
    ("walk", &["walk", "graphshare"]),
    ("status", &["status"]),
];

fn table(set: &CounterSet) -> String {
    let has_faults = set.counters.iter().any(|counter| counter.shows_fault);
    let mut text = match has_faults {
        true => "| counter | counts | which | correct nodes |\n|---|---|---|---|\n".to_owned(),
        false => "| counter | counts | which |\n|---|---|---|\n".to_owned(),
    };
    for counter in set.counters {
        text += &format!("| `{}` | {} | {} |", counter.name, counter.unit, counter.help);
        text += match (has_faults, counter.shows_fault) {
            (false, _) => "\n",
            (true, false) => " - |\n",
            (true, true) => " never |\n",
        };
    }
    text
}

/// With `PACELINE_UPDATE_DOCS=1` it writes the tables instead.
#[test]
fn pages_of_protocols_list_the_counters_as_they_are_declared() {
    let writes = std::env::var_os("PACELINE_UPDATE_DOCS").is_some();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols");
    let end = "<!-- end of counters -->";
    for &(page, sets) in PAGES {
        for &name in sets {
            let set = SETS.iter().find(|set| set.name == name).unwrap();
            let path = docs.join(format!("{page}.md"));
            let text = std::fs::read_to_string(&path).unwrap();
            let begin = format!("<!-- counters: {name} -->\n");
            let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page}: {begin}"));
            let (found, tail) = rest.split_once(end).unwrap();
            let expected = table(set);
            if writes {
                std::fs::write(&path, format!("{head}{begin}{expected}{end}{tail}")).unwrap();
            } else {
                let hint =
                    "PACELINE_UPDATE_DOCS=1 cargo test -p paceline-lab-services counters_in_docs";
                assert!(found == expected, "{page}.md: {hint} writes\n{expected}");
            }
        }
    }
    let listed: usize = PAGES.iter().map(|(_, sets)| sets.len()).sum();
    assert_eq!(listed + 1, SETS.len(), "all sets but the lab's own");
}
