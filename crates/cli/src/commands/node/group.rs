use paceline::Event;

use crate::commands::Outcome;
use crate::commands::counters::report;
use crate::commands::member::{self, Member, describe, leave, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Is a member that forwards what the others broadcast, until Ctrl-C.
pub fn run(member: &member::Args, ui: &Ui) -> Result<Outcome, CliError> {
    let runtime = runtime()?;
    let Member { group, mut events, host } = member.start(&runtime, None)?;
    ui.note(&format!("{} listens on {}", group.id(), group.local_addr()));
    let (mut messages, mut bytes) = (0u64, 0u64);
    runtime.block_on(async {
        tokio::pin! { let stop = stop_asked(); }
        loop {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => match event {
                    Some(Event::Delivered(delivery)) => {
                        messages += 1;
                        bytes += delivery.payload.len() as u64;
                    }
                    Some(event) => {
                        describe(&event).inspect(|text| ui.note(text));
                    }
                    None => break,
                },
            }
        }
        leave(group.clone(), events).await;
        host.stop().await;
    });
    let counts = [("messages_delivered", messages), ("bytes_delivered", bytes)];
    report(ui, &group.stats(), &counts)?;
    Ok(Outcome::Done)
}
