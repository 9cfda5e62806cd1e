use paceline::Topology;

/// `--topology`, where `auto` leaves the choice to the planner.
#[derive(Clone, Copy, Debug)]
pub struct Choice(pub Option<Topology>);

/// Reads a topology's name, or `auto`.
pub fn parse(name: &str) -> Result<Choice, String> {
    if name == "auto" {
        return Ok(Choice(None));
    }
    name.parse().map(|topology| Choice(Some(topology))).map_err(|error| format!("{error}, or auto"))
}
