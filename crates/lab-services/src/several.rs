//! Several services on the same nodes: what all of them need.

use paceline_lab::LabError;
use paceline_lab::scenario::Scenario;

/// The service of this scenario cannot be one of several.
pub(crate) fn not_hosted(scenario: &Scenario) -> LabError {
    let kind = scenario.service;
    let problem = format!("nodes that run `{kind}` run nothing else");
    scenario.protocol().error("kind", problem, "chain, group, overlay, slingshot or walk")
}
