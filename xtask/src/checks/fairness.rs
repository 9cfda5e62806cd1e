//! Whether members that saturate shaped links get equal shares: senders that are neighbours on the
//! ring, and all but one. And whether a member that sends seldom is served as soon as they are.

use std::time::Duration;

use super::bounds::{Bound, Figure};
use crate::shell::{Build, paceline};

/// Members, and how many neighbours of them send.
const CASES: &[(u64, u64)] = &[(4, 2), (4, 3), (8, 2), (8, 3), (8, 7)];

/// Fairness is to hold in each of these runs, the sum of the shares in their median.
const ATTEMPTS: usize = 3;

const AT_MOST: Duration = Duration::from_secs(240);

/// Most over fewest messages that two senders got through to all members.
const MOST_OVER_FEWEST: Bound = Bound::AlwaysAtMost(1.25);

/// Of what the links carry for these senders.
const SHARE_PERCENT: Bound = Bound::AtLeast(97.0);

/// Members, and the one of them that sends a message each 100 ms while all others saturate.
const QUIET_CASES: &[(u64, u64)] = &[(4, 1), (8, 5)];

/// Measured so long that at least this many of its messages reach all members.
const QUIET_SECONDS: u64 = 102;
const QUIET_MESSAGES: Bound = Bound::AlwaysAtLeast(1000.0);

/// The 99th percentile of its messages' latency over that of the others'.
const QUIET_OVER_OTHERS: Bound = Bound::AlwaysAtMost(1.25);

/// Runs every case; gives its figures, or says why one could not be measured.
pub(super) fn measure() -> Vec<Result<Vec<Figure>, String>> {
    let saturated = CASES.iter().map(|&(nodes, senders)| case(nodes, senders));
    saturated.chain(QUIET_CASES.iter().map(|&(nodes, quiet)| quiet_case(nodes, quiet))).collect()
}

fn quiet_case(nodes: u64, quiet: u64) -> Result<Vec<Figure>, String> {
    let name = format!("chain n{nodes} 100 Mbit, {quiet} quiet, the others saturate");
    // A number alone would be that of the first ones.
    let (quiet, seconds) = (format!("{quiet}-{quiet}"), format!("{QUIET_SECONDS}s"));
    let row = run(nodes, "all", &["--quiet", &quiet, "--seconds", &seconds])
        .map_err(|error| format!("{name}: {error}"))?;
    let field = |key: &str| row[key].as_f64().ok_or(format!("{name}: no `{key}` in {row}"));
    let (quiet, others) = (field("quiet_p99_ms")?, field("p99_ms")?);
    println!("{name}: p99 {quiet:.1} ms, the others' {others:.1} ms");
    let figure = |what: &str, measured: f64, floor: Bound| Figure {
        name: format!("{name}: {what}"),
        measured: Some(measured),
        goal: Bound::None,
        floor,
    };
    Ok(vec![
        figure("its messages", field("quiet_messages")?, QUIET_MESSAGES),
        figure("its p99 over the others'", quiet / others, QUIET_OVER_OTHERS),
    ])
}

fn case(nodes: u64, senders: u64) -> Result<Vec<Figure>, String> {
    let name = format!("chain n{nodes} 100 Mbit, {senders} neighbours");
    let mut unfairness = f64::NEG_INFINITY;
    let mut shares = Vec::new();
    for attempt in 1..=ATTEMPTS {
        let row =
            run(nodes, &senders.to_string(), &[]).map_err(|error| format!("{name}: {error}"))?;
        let field = |key: &str| row[key].as_f64().ok_or(format!("{name}: no `{key}` in {row}"));
        let (fairness, share) = (field("fairness")?, 100.0 * field("limit_share")?);
        println!("{name}, run {attempt}: {fairness:.2} most/fewest, {share:.1} % of the limit");
        unfairness = unfairness.max(fairness);
        shares.push(share);
    }
    shares.sort_by(f64::total_cmp);
    let figure = |what: &str, measured: f64, floor: Bound| Figure {
        name: format!("{name}: {what}"),
        measured: Some(measured),
        goal: Bound::None,
        floor,
    };
    Ok(vec![
        figure("most/fewest, worst run", unfairness, MOST_OVER_FEWEST),
        figure("% of the limit, median run", shares[ATTEMPTS / 2], SHARE_PERCENT),
    ])
}

fn run(nodes: u64, senders: &str, more: &[&str]) -> Result<serde_json::Value, String> {
    let nodes = nodes.to_string();
    let lab = ["bench", "broadcast", "--lab", "netns", "--rate", "100Mbit"];
    let arguments = [&lab[..], &["--nodes", &nodes, "--senders", senders], more].concat();
    let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
    if !ran.succeeded {
        return Err(format!("the run failed: {}", ran.json));
    }
    let rows = ran.json["results"].as_array().ok_or("`results` is not an array")?;
    rows.first().cloned().ok_or("`results` is empty".to_owned())
}
