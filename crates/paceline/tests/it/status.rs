//! A host is asked what it runs.

use std::time::Duration;

use paceline::status::{HostStatus, Standing, StatusError};
use paceline::{Host, NodeId};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

/// A host of the test's own cluster: hosts of other tests have the same ids, and ports are used
/// again.
async fn host(id: u64) -> Host {
    let test = std::thread::current().name().unwrap_or("test").to_owned();
    Host::builder(test).id(NodeId(id)).start().await.unwrap()
}

async fn ask(asked: &Host) -> Result<HostStatus, StatusError> {
    let asker = host(99).await;
    let status = asker.ask_status(asked.address().to_string(), SOON).await;
    asker.stop().await;
    status
}

#[tokio::test]
async fn a_host_says_which_services_it_runs_and_who_is_in_them() {
    let (one, two) = (host(1).await, host(2).await);
    let peer = one.address().to_string();
    let (_first, _first_events) = one.group("orders").bootstrap().await.unwrap();
    let (second, mut events) = two.group("orders").peers([&peer]).join().await.unwrap();
    let dht = two.dht("stock").bootstrap().await.unwrap();
    dht.put("apples", "17").await.unwrap();
    let _walks = two.walks("web").serve().await.unwrap();
    while second.members().len() < 2 {
        events.recv().await.unwrap();
    }
    let _answering = two.answer_status().unwrap();
    let status = ask(&two).await.unwrap();
    assert_eq!((status.id, &*status.address), (NodeId(2), &*two.address().to_string()));
    let services: Vec<(&str, &str, Standing)> = status
        .services
        .iter()
        .map(|service| (&*service.kind, &*service.name, service.standing))
        .collect();
    let settled = services[1].2;
    assert!(matches!(settled, Standing::Member | Standing::Unsettled), "{settled:?}");
    assert_eq!(
        services,
        [
            ("group", "orders", Standing::Member),
            ("dht/chord", "stock", settled),
            ("walks", "web", Standing::Unknown)
        ]
    );
    assert_eq!(status.services[0].members, [NodeId(1), NodeId(2)]);
    assert_eq!(status.services[0].view, second.view().unwrap().id().0);
    assert_eq!(status.services[1].counts["values"], 1);
    assert!(status.counts["stream_bytes_in"] > 0 && status.counts["unread_bytes"] == 0);
    assert_eq!(status.omitted, 0);
    // What has ended is not listed.
    drop((dht, second, events));
    loop {
        let status = ask(&two).await.unwrap();
        if status.services.len() == 1 {
            break assert_eq!(status.services[0].name, "web");
        }
    }
    assert_eq!(two.status().await.services.len(), 1);
}

#[tokio::test]
async fn who_does_not_answer_is_named() {
    let silent = host(1).await;
    let (_group, _events) = silent.group("orders").bootstrap().await.unwrap();
    let peer = silent.address().to_string();
    let within = Duration::from_millis(500);
    let asker = host(2).await;
    let said = asker.ask_status(&peer, within).await.unwrap_err();
    assert!(matches!(said, StatusError::NoStatus { host: NodeId(1), .. }), "{said}");
    assert!(said.to_string().contains(&peer), "{said}");
    // A host of another cluster is not there for this one.
    let foreign = Host::builder("other").start().await.unwrap();
    let said = foreign.ask_status(&peer, within).await.unwrap_err();
    assert!(matches!(said, StatusError::Unanswered { .. }), "{said}");
    let said = foreign.ask_status("nonsense", within).await.unwrap_err();
    assert!(matches!(said, StatusError::Peer(_)), "{said}");
}

#[tokio::test]
async fn a_host_answers_while_the_server_is_there_and_once_only() {
    let one = host(1).await;
    let answering = one.answer_status().unwrap();
    assert!(one.answer_status().is_err(), "it does already");
    assert_eq!(ask(&one).await.unwrap().services, []);
    drop(answering);
    // The service has ended once another can start.
    let again = loop {
        match one.answer_status() {
            Ok(again) => break again,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(ask(&one).await.unwrap().id, NodeId(1));
    drop(again);
}
