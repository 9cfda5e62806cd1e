//! How three members and a joiner agree on the next view: every order of what may happen, up to a
//! number of steps.
//!
//! The nodes are the shipped state machines. A step is a message of the agreement that arrives, a
//! crash, a member that is cut off from the detectors of the others, a member that leaves, or time
//! that passes until some member sends a new message. A message that does not arrive within an
//! execution arrives late or is lost. What detectors and broadcasts say takes no time; a word that
//! is repeated while the same word is still under way is not told apart from it.
//!
//! After each step: views of one number have the same members everywhere, each node is in the views
//! that it installs, their numbers rise, those that go from a view to the next one were told the
//! same broadcasts in it, each once, and no member refuses what another one proposes. At the end of
//! each execution faults end, and within 20 s all that are left are in one view, unless no quorum
//! of the last view is up.
//!
//! `PACELINE_TEST_STEPS` adds steps to every execution (default 0); each about doubles the time.

mod ledger;
mod search;
mod world;

use paceline_proto::core::NodeId;
use search::{Bounds, Broken, Search, Seen};
use world::{Bug, Start, config};

/// In which nothing fails.
const CALM: Bounds = Bounds { steps: 0, passes: 2, crashes: 0, cuts: 0, leaves: 0 };

/// What is searched, from 4,000 to 24,000 executions each: where they begin, the member that lacks
/// a broadcast then, and how far they go.
const SEARCHES: [(Start, u32, Bounds); 16] = [
    (Start::Before, 0, Bounds { steps: 10, crashes: 1, ..CALM }),
    (Start::Before, 1, Bounds { steps: 10, crashes: 1, ..CALM }),
    (Start::Before, 2, Bounds { steps: 10, crashes: 1, ..CALM }),
    (Start::Before, 0, Bounds { steps: 9, cuts: 1, ..CALM }),
    (Start::Before, 1, Bounds { steps: 8, leaves: 1, ..CALM }),
    (Start::Before, 2, Bounds { steps: 7, crashes: 1, cuts: 1, ..CALM }),
    (Start::Proposed, 0, Bounds { steps: 7, crashes: 1, ..CALM }),
    (Start::Proposed, 1, Bounds { steps: 7, crashes: 1, ..CALM }),
    (Start::Proposed, 2, Bounds { steps: 7, crashes: 1, ..CALM }),
    (Start::Proposed, 0, Bounds { steps: 6, cuts: 1, ..CALM }),
    (Start::Proposed, 1, Bounds { steps: 6, leaves: 1, ..CALM }),
    (Start::Proposed, 2, Bounds { steps: 5, crashes: 1, cuts: 1, ..CALM }),
    (Start::Decided, 0, Bounds { steps: 7, crashes: 1, ..CALM }),
    (Start::Decided, 1, Bounds { steps: 6, cuts: 1, ..CALM }),
    (Start::Decided, 2, Bounds { steps: 6, leaves: 1, ..CALM }),
    (Start::Decided, 0, Bounds { steps: 5, crashes: 1, cuts: 1, ..CALM }),
];

fn run(bug: Option<Bug>, start: Start, lacks: u32, bounds: Bounds) -> Result<Seen, Broken> {
    Search { config: &config(), bug, start, lacks: NodeId::from(lacks), bounds }.run()
}

#[allow(clippy::disallowed_methods, reason = "a test has no arguments of its own")]
fn more_steps() -> usize {
    let more = std::env::var("PACELINE_TEST_STEPS");
    more.map_or(0, |text| text.parse().expect("a number"))
}

#[test]
fn whatever_the_order_all_agree_and_those_left_go_on() {
    let more = more_steps();
    let mut views = 0;
    for (start, lacks, bounds) in SEARCHES {
        let bounds = Bounds { steps: bounds.steps + more, ..bounds };
        let seen = run(None, start, lacks, bounds).unwrap_or_else(|Broken { what, path }| {
            let path: String = path.iter().map(|step| format!("\n  {step:?}")).collect();
            panic!("{what}\nfrom {start:?}, where {lacks} lacks a broadcast, after{path}");
        });
        println!("{start:?}, {lacks} lacks a broadcast, {bounds:?}: {seen:?}");
        let did = |count: u64, limit: usize| (count > seen.executions / 2) == (limit > 0);
        assert!(did(seen.crashes, bounds.crashes) && did(seen.cuts, bounds.cuts));
        assert!(did(seen.leaves, bounds.leaves) && seen.executions > 3_000);
        views += seen.views;
    }
    assert!(views > 10_000, "hardly any execution came as far as a view: {views}");
}

#[test]
fn what_is_forgotten_breaks_a_promise_that_the_search_finds() {
    let planted = [
        (Bug::ForgetsAccepted, Start::Decided, 0, "agreement"),
        // Those that have more refuse the proposal, and go on with the next one's.
        (Bug::ForgetsReceived, Start::Before, 0, "soundness"),
        (Bug::SkipsFlush, Start::Proposed, 2, "same end"),
        (Bug::TellsNobody, Start::Decided, 0, "progress"),
    ];
    for (bug, start, lacks, rule) in planted {
        let bounds = Bounds { crashes: 1, ..CALM };
        let try_with = |steps| run(Some(bug), start, lacks, Bounds { steps, ..bounds }).err();
        let broken = (3..8).find_map(try_with);
        let Broken { what, path } = broken.unwrap_or_else(|| panic!("{bug:?} went unnoticed"));
        println!("{bug:?}: {what}\nafter {path:?}");
        assert!(what.starts_with(rule), "{bug:?} is against {rule}: {what}");
    }
}
