//! The pages of `docs/protocols` list the knobs of the protocols as they are declared. The test
//! stands in this crate because it sees all protocols.

use std::path::Path;

use paceline_baselines::{ack, gossip, nak, srm};
use paceline_proto::core::Knobs;
use paceline_proto::core::knobs::{Kind, Knob};
use paceline_proto::{chain, detector, group, mircc, overlay, slingshot, walk};

/// Each table of knobs: the page that it stands on, what it is called there, and its knobs.
const TABLES: &[(&str, &str, &[Knob])] = &[
    ("chain", "chain::Config", chain::Config::KNOBS),
    ("group", "group::Config", group::Config::KNOBS),
    ("detector", "detector::Config", detector::Config::KNOBS),
    ("overlay", "overlay::Config", overlay::Config::KNOBS),
    ("overlay", "overlay::Shape", overlay::Shape::KNOBS),
    ("slingshot", "slingshot::Config", slingshot::Config::KNOBS),
    ("slingshot", "slingshot::Rate", slingshot::Rate::KNOBS),
    ("slingshot", "slingshot::Pull", slingshot::Pull::KNOBS),
    ("slingshot", "srm::Config", srm::Config::KNOBS),
    ("slingshot", "srm::Factors", srm::Factors::KNOBS),
    ("slingshot", "nak::Config", nak::Config::KNOBS),
    ("slingshot", "ack::Config", ack::Config::KNOBS),
    ("slingshot", "gossip::Config", gossip::Config::KNOBS),
    ("mircc", "mircc::Config", mircc::Config::KNOBS),
    ("mircc", "mircc::ControllerConfig", mircc::ControllerConfig::KNOBS),
    ("mircc", "mircc::ShaperConfig", mircc::ShaperConfig::KNOBS),
    ("walk", "walk::Config", walk::Config::KNOBS),
    ("walk", "walk::QueueConfig", walk::QueueConfig::KNOBS),
    ("walk", "walk::BundleConfig", walk::BundleConfig::KNOBS),
    ("walk", "walk::PacedConfig", walk::PacedConfig::KNOBS),
    ("walk", "walk::WindowConfig", walk::WindowConfig::KNOBS),
    ("walk", "walk::StepConfig", walk::StepConfig::KNOBS),
];

/// A description without the links that only rustdoc resolves.
fn plain(about: &str) -> String {
    let mut out = String::new();
    let mut rest = about;
    while let Some(at) = rest.find(['[', ']']) {
        out.push_str(&rest[..at]);
        let is_end = rest[at..].starts_with("](super");
        let skip = if is_end { rest[at..].find(')').map_or(1, |end| end + 1) } else { 1 };
        rest = &rest[at + skip..];
    }
    out + rest
}

fn table(knobs: &[Knob]) -> String {
    let mut text = "| knob | default | range | |\n|---|---|---|---|\n".to_owned();
    for knob in knobs {
        let place = if knob.is_key { "" } else { " (library)" };
        let unit = match knob.kind {
            Kind::Integer if !knob.unit.is_empty() => format!(" {}", knob.unit),
            _ => String::new(),
        };
        let (name, default) = (knob.name, knob.show(knob.default()));
        let (range, about) = (knob.show_range(), plain(knob.about));
        text += &format!("| `{name}`{place} | {default}{unit} | {range} | {about} |\n");
    }
    text
}

/// With `PACELINE_UPDATE_DOCS=1` it writes the tables instead.
#[test]
fn pages_of_protocols_list_their_knobs_as_they_are_declared() {
    let writes = std::env::var_os("PACELINE_UPDATE_DOCS").is_some();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols");
    for &(page, name, knobs) in TABLES {
        let path = docs.join(format!("{page}.md"));
        let text = std::fs::read_to_string(&path).unwrap();
        let begin = format!("<!-- knobs: {name} -->\n");
        let (head, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page}: {begin}"));
        let (found, tail) = rest.split_once("<!-- end of knobs -->").unwrap();
        let expected = table(knobs);
        if writes {
            let end = "<!-- end of knobs -->";
            std::fs::write(&path, format!("{head}{begin}{expected}{end}{tail}")).unwrap();
        } else {
            let test = "cargo test -p paceline-baselines --test knobs_in_docs";
            let hint = format!("PACELINE_UPDATE_DOCS=1 {test} writes");
            assert!(found == expected, "docs/protocols/{page}.md: {hint}\n{expected}");
        }
    }
}
