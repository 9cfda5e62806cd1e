//! A server of walks, as a process.

use crate::commands::Outcome;
use crate::commands::member::{HostArgs, explain_host, runtime, stop_asked};
use crate::commands::node::report;
use crate::error::CliError;
use crate::ui::Ui;

/// Is a server until Ctrl-C.
pub fn serve(member: &HostArgs, ui: &Ui) -> Result<Outcome, CliError> {
    if member.bootstrap || !member.seeds.is_empty() {
        let wrong = "--service walk: a server waits for its client, and takes neither --seed nor \
                     --bootstrap";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let runtime = runtime()?;
    runtime.block_on(async {
        let host = member.builder_by_address().start().map_err(explain_host)?;
        let served = host.walks(&member.group).serve().await;
        let server = served.map_err(|error| CliError::Failed(error.to_string()))?;
        ui.note(&format!("{} listens on {}", server.id(), server.local_addr()));
        stop_asked().await;
        let stats = server.stats();
        server.stop().await;
        report(ui, &stats, &[])?;
        Ok(Outcome::Done)
    })
}
