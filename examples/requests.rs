//! Five hosts in a group that ask each other: one member, and all of them until a majority has
//! replied. One host is stopped while it is asked.
//!
//! `cargo run --release -p paceline --example requests`

use std::error::Error;
use std::time::Duration;

use paceline::prelude::*;
use paceline::{Quorum, RequestFailure};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Replies to every request with the member's id; leaves those that say "wait" for a minute.
async fn serve(group: Group, mut events: Events) {
    while let Some(event) = events.recv().await {
        let Event::Request(request) = event else { continue };
        let id = group.id();
        tokio::spawn(async move {
            if request.bytes() == "wait" {
                tokio::time::sleep(Duration::from_secs(60)).await;
            }
            // A request that is dropped without a reply is refused.
            if request.bytes() != "refuse" {
                let _ = request.reply(format!("{id} replies")).await;
            }
        });
    }
}

/// Waits until a member is in a view of this many.
async fn view_of(group: &Group, members: usize) {
    while group.members().len() != members {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let (mut hosts, mut groups, mut first) = (Vec::new(), Vec::new(), None::<String>);
    for _ in 0..5 {
        let host = Host::builder("shop").peers(&first).start().await?;
        let (group, events) = match &first {
            None => host.group("orders").bootstrap().await?,
            Some(_) => host.group("orders").join().await?,
        };
        first.get_or_insert(host.address().to_string());
        // Replies come with the events, so a task reads them all the time.
        tokio::spawn(serve(group.clone(), events));
        hosts.push(host);
        groups.push(group);
    }
    let group = &groups[0];
    view_of(group, 5).await;
    let member = group.view().ok_or("no view")?.members()[3];

    let reply = group.request(member, "hello").await?;
    println!("one member: {}", String::from_utf8_lossy(&reply));
    let refused = group.request(member, "refuse").await;
    assert_eq!(refused, Err(RequestFailure::Refused.into()));
    let silent = group.request(member, "wait").within(Duration::from_millis(100)).await;
    assert_eq!(silent, Err(RequestFailure::TimedOut.into()));

    let replies = group.request_all("who is there?", Quorum::Majority).await?;
    println!("a majority: {} of {} replied", replies.iter().count(), replies.outcomes().len());
    assert!(replies.iter().count() >= 3);

    // The host of the member is stopped: the request ends as soon as a view without it begins.
    let waiting = group.request(member, "wait").within(Duration::from_secs(60));
    let waiting = tokio::spawn(async move { waiting.await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    hosts.remove(3).abort().await;
    assert_eq!(waiting.await?, Err(RequestFailure::Departed.into()));
    view_of(group, 4).await;
    let replies = group.request_all("and now?", Quorum::All).await?;
    println!("all that are left: {replies}");
    Ok(())
}
