//! The table `[named]`: a forwarder of named data, on a UDP port of its own.

use paceline::named::AddressRange;
use paceline::proto::mircc::Algorithm;
use paceline_lab::LabError;
use paceline_lab::scenario::TableFile;

use super::host::HostSettings;
use crate::commands::ndn::args::{Allowed, Face, Route, StrategyChoice, parse_name};
use crate::commands::ndn::setup::Setup;
use crate::parse;

/// Reads `[named]`, if there is one.
///
/// # Errors
/// If a value is not accepted.
pub fn read(file: &TableFile, host: &HostSettings) -> Result<Option<Setup>, LabError> {
    if !file.has("named") {
        return Ok(None);
    }
    let mut table = file.table("named");
    let bind =
        table.parsed_optional("bind", "an address, such as \"127.0.0.1:6363\"", parse::address)?;
    let faces = table.parsed_list(
        "faces",
        "a list of \"udp://HOST:PORT\" or \"udp://HOST:PORT=RATE\"",
        str::parse::<Face>,
    )?;
    let allowed = table.parsed_list("faces_allowed", "a list of \"ADDRESS/LENGTH\"", |text| {
        text.parse::<AddressRange>().map_err(|error| error.to_string())
    })?;
    let rate = table.rate_optional("rate")?;
    let routes = table.parsed_list(
        "routes",
        "a list of \"PREFIX=HOST:PORT\" or \"PREFIX=HOST:PORT,COST\"",
        str::parse::<Route>,
    )?;
    let strategies = table.parsed_list(
        "strategies",
        "a list of \"PREFIX=best-route\", \"PREFIX=multicast\" or \"PREFIX=adaptive\"",
        str::parse::<StrategyChoice>,
    )?;
    let accepted = "a list of prefixes, such as \"/apps\"";
    let registrations = table.parsed_list("accept_registrations", accepted, parse_name)?;
    let name = table.text_optional("name")?;
    let mut config = Setup::config();
    let controllers = [("mircc", Algorithm::Mircc), ("rcp", Algorithm::Rcp)];
    config.controller.algorithm = table.choice_or("controller", &controllers, "mircc")?;
    table.knobs_without(&mut config.controller, &[])?;
    table.knobs_without(&mut config.shaper, &[])?;
    table.knobs_without(&mut config, &[])?;
    config.check().map_err(|error| table.refused(&error))?;
    if let Some(Route { prefix, address, .. }) =
        routes.iter().find(|route| !faces.iter().any(|face| face.address == route.address))
    {
        let problem = format!("the route for {prefix} leads to {address}, which is no face");
        return Err(table.error("routes", problem, "an address of `faces`"));
    }
    table.finish()?;
    Ok(Some(Setup {
        bind: bind.unwrap_or(Setup::here()),
        faces,
        allowed: Allowed::new(allowed),
        rate,
        routes,
        strategies,
        registrations,
        name,
        insecure_plaintext: host.insecure_plaintext(),
        config,
    }))
}
