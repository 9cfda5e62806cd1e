//! Hosts with keys: which hosts can join, and which are refused.

use std::time::{Duration, Instant};

use paceline::identity::{ClusterKey, Grant, HostKey, Identity, Role, UnixTime};
use paceline::{Event, Host, HostBuilder, HostError, JoinError, NodeId};
use paceline_seal::{Secret, Suite};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

fn cluster(byte: u8) -> ClusterKey {
    ClusterKey::generate(Secret::new([byte; 32]), Suite::fastest())
}

fn key(byte: u8) -> HostKey {
    HostKey::generate(&Secret::new([byte; 32]))
}

fn sealed(byte: u8) -> HostBuilder {
    Host::builder("test").cluster_key(cluster(byte))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_with_another_key_or_none_enters_nothing_and_one_that_a_ca_certified_does() {
    let first = sealed(1).start().await.unwrap();
    let peer = first.address().to_string();
    let (orders, _events) = first.group("orders").bootstrap().await.unwrap();
    let stock = first.dht("stock").bootstrap().await.unwrap();
    stock.put("apples", "17").await.unwrap();
    let soon = Duration::from_secs(2);
    for stranger in [Host::builder("test"), sealed(2)] {
        let stranger = stranger.peers([&peer]).start().await.unwrap();
        let joined = stranger.group("orders").within(soon).join().await;
        assert!(matches!(joined, Err(JoinError::Unanswered { .. })), "{:?}", joined.err());
        // A host without a key hears that one is there, and then nothing.
        if let Ok(visiting) = stranger.dht("stock").within(soon).visit().await {
            let got = tokio::time::timeout(soon, visiting.get("apples")).await;
            assert!(!matches!(got, Ok(Ok(_))), "{got:?}");
        }
    }
    assert_eq!(orders.view().unwrap().len(), 1);
    // The CA key follows from the cluster key; this host never has either.
    let ca = cluster(1).ca();
    let now = UnixTime::now().as_secs();
    let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let grant = Grant {
        role: Role::Member,
        label: "db-1".parse().unwrap(),
        not_before: at(now - 60),
        not_after: at(now + 3600),
    };
    let certificate = ca.sign(&key(5).public(), &grant).unwrap();
    let identity = Identity::signed(key(5), certificate, ca.authority(), at(now)).unwrap();
    let member = Host::builder("test").identity(identity).peers([&peer]).start().await.unwrap();
    assert_eq!(member.id(), NodeId(key(5).id().get()));
    let (orders, _events) = member.group("orders").join().await.unwrap();
    assert_eq!(orders.view().unwrap().len(), 2);
    let visitor = sealed(1).peers([&peer]).start().await.unwrap();
    let visiting = visitor.dht("stock").visit().await.unwrap();
    assert_eq!(visiting.get("apples").await.unwrap().unwrap(), "17");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_id_of_a_host_follows_from_its_key_and_stays() {
    let ids = [0, 1].map(|_| async { sealed(1).host_key(key(3)).start().await.unwrap().id() });
    for id in ids {
        assert_eq!(id.await, NodeId(key(3).id().get()));
    }
    let [one, two] = [0, 1].map(|_| async { sealed(1).start().await.unwrap().id() });
    assert_ne!(one.await, two.await, "drawn at random");
    let given = sealed(1).id(NodeId(7)).start().await;
    assert!(matches!(given, Err(HostError::IdOfKey)), "{given:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_two_hosts_that_seal_join_at_once() {
    let first = sealed(1).start().await.unwrap();
    let peer = first.address().to_string();
    let (_orders, mut events) = first.group("orders").bootstrap().await.unwrap();
    let begun = Instant::now();
    let mut joining = tokio::task::JoinSet::new();
    for _ in 1..32 {
        let peer = peer.clone();
        joining.spawn(async move {
            let host = sealed(1).peers([peer]).start().await.unwrap();
            host.group("orders").within(SOON).join().await.unwrap()
        });
    }
    let members = joining.join_all().await;
    let whole = async {
        loop {
            match events.recv().await.expect("it runs") {
                Event::View(view) if view.len() == 32 => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SOON, whole).await.expect("in time");
    println!("32 hosts after {:?}", begun.elapsed());
    assert_eq!(members.len(), 31);
}
