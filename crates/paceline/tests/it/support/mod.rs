//! What several tests of the library start.

pub mod dns;
pub mod ring;
pub mod stranger;

use std::time::Duration;

use paceline::{DhtBuilder, Host, NodeId};

/// A host of a table that looks after repair more often, so that tests need not wait for it.
pub async fn builder(id: u32) -> DhtBuilder {
    let host = Host::builder("test").id(NodeId::from(id)).start().await.unwrap();
    host.dht("table").with_overlay(|config| {
        config
            .with_upkeep_every(Some(Duration::from_millis(200)))
            .with_upkeep_every_max(Duration::from_millis(400))
            .with_sync_every(Duration::from_millis(250))
            .with_ack_after_max(Duration::from_millis(500))
    })
}
