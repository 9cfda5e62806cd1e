//! A chat room: every line goes to all, in the same order from each, and everybody sees who comes
//! and goes.
//!
//! ```sh
//! cargo run --example chat -- 127.0.0.1:7001                    # opens the room
//! cargo run --example chat -- 127.0.0.1:7002 127.0.0.1:7001     # comes in
//! ```
//!
//! Without arguments three guests talk in one process and check what they hear: that is how the
//! tests run it.

use std::error::Error;

use paceline::prelude::*;
use tokio::io::{AsyncBufReadExt, BufReader};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Opens the room at this address, or joins it through a peer.
async fn enter(bind: &str, peer: Option<&str>) -> Result<(Group, Events)> {
    let host = Host::builder("chat").bind(bind.parse()?).peers(peer).start().await?;
    let room = host.group("lobby");
    Ok(match peer {
        None => room.bootstrap().await?,
        Some(_) => room.join().await?,
    })
}

/// Says what is typed, and goes at its end.
async fn say(group: Group) -> Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        group.broadcast(line).await?;
    }
    Ok(group.leave().await?)
}

async fn talk(bind: &str, peer: Option<&str>) -> Result<()> {
    let (group, mut events) = enter(bind, peer).await?;
    // Beside the reading, not within it: a sender may wait for credit, which all members give by
    // reading, this one too.
    let saying = say(group);
    tokio::pin!(saying);
    let mut is_saying = true;
    loop {
        tokio::select! {
            said = &mut saying, if is_saying => {
                said?;
                is_saying = false;
            }
            event = events.recv() => match event {
                Some(Event::Delivered(message)) => {
                    println!("{}: {}", message.origin, String::from_utf8_lossy(&message.payload));
                }
                Some(Event::View(view)) => println!("-- {} in the room", view.len()),
                // It has left.
                None => return Ok(()),
                Some(other) => println!("-- {other:?}"),
            },
        }
    }
}

/// Three guests; the last one leaves.
async fn rehearse() -> Result<()> {
    let (host, mut host_hears) = enter("127.0.0.1:0", None).await?;
    let peer = host.local_addr().to_string();
    let (guest, _guest_hears) = enter("127.0.0.1:0", Some(&peer)).await?;
    let (late, mut late_hears) = enter("127.0.0.1:0", Some(&peer)).await?;
    host.broadcast("welcome").await?;
    assert_eq!(late_hears.delivery().await.expect("it is in the room").payload, "welcome");
    assert_eq!(host_hears.delivery().await.expect("its own").payload, "welcome");
    late.leave().await?;
    let is_two = |event: &Event| matches!(event, Event::View(view) if view.len() == 2);
    while !is_two(&host_hears.recv().await.expect("the host runs")) {}
    assert_eq!(host.members(), [host.id(), guest.id()]);
    println!("three guests heard what they should");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first() {
        Some(bind) if bind.contains(':') => talk(bind, arguments.get(1).map(String::as_str)).await,
        _ => rehearse().await,
    }
}
