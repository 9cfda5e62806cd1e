use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use paceline_net::Node;
use paceline_proto::core::MembershipCommand;
use paceline_proto::overlay::{Algorithm, Command, Config, Overlay, Shape, Space, Style};

use super::disk::Disk;
use super::error::{DhtError, DiskError};
use super::file::File;
use super::replies::{PendingReplies, Phase};
use super::{Dht, Settings};
use crate::Host;
use crate::joining::Joining;
use crate::peers::Peers;

/// Number of restored records passed to the overlay at once.
const RESTORED_TOGETHER: usize = 1024;

/// Founds, joins or visits a table; made by [`Host::dht`].
pub struct DhtBuilder {
    joining: Joining,
    config: Config,
    settings: Settings,
    bundles_in_flight: usize,
    file: Option<PathBuf>,
    acknowledge: Acknowledge,
}

/// When a durable host acknowledges a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledge {
    OnDisk,
    InMemory,
}

/// How a host takes part.
enum Part {
    Founder,
    Member,
    Client,
}

impl DhtBuilder {
    pub(crate) fn new(host: Host, name: &str) -> DhtBuilder {
        DhtBuilder {
            joining: Joining::new(host, name),
            config: DhtBuilder::overlay(),
            settings: Settings::default(),
            bundles_in_flight: 16,
            file: None,
            acknowledge: Acknowledge::OnDisk,
        }
    }

    /// The overlay's configuration that a builder begins with, for programs that read one before
    /// there is a host.
    pub fn overlay() -> Config {
        Config::new(Space::new(0)).with_copies(3)
    }

    /// The routing algorithm, which must be the same on all hosts. Default Chord.
    pub fn algorithm(mut self, algorithm: Algorithm) -> DhtBuilder {
        self.config = self.config.with_algorithm(algorithm);
        self
    }

    /// Hosts that hold each value; all hosts need the same number. 1 to 16, default 3.
    pub fn copies(mut self, copies: u8) -> DhtBuilder {
        self.config = self.config.with_copies(copies.into());
        self
    }

    /// On how many hosts a write of this host must be, 1 to 16, default 2. If hosts failed and
    /// fewer are left, it fails with [`KeyError::FewCopies`](super::KeyError::FewCopies); in a
    /// table that never had that many hosts, all hosts suffice.
    pub fn require_copies(mut self, copies: u8) -> DhtBuilder {
        self.config = self.config.with_copies_required(copies);
        self
    }

    /// How this host's bundles travel. Default recursive: each host on the way forwards its parts.
    /// A client's default is iterative: it asks each host itself. A recursive client hands its
    /// bundles over to a host, and the hosts where keys end answer it straight; they must reach
    /// the address that it listens on.
    pub fn style(mut self, style: Style) -> DhtBuilder {
        self.settings.style = Some(style);
        self
    }

    /// Hosts that an iterative request for one key asks at once, with Kademlia: its alpha. 1 to 8,
    /// default 1; 3 is usual. Multiplies the messages, and does not wait for a slow or failed host.
    pub fn parallel(mut self, hosts: u8) -> DhtBuilder {
        self.config = self.config.with_parallel(hosts);
        self
    }

    /// Sizes of routing tables; all hosts need the same. Default [`Shape::default`].
    pub fn shape(mut self, shape: Shape) -> DhtBuilder {
        self.config = self.config.with_shape(shape);
        self
    }

    /// Keys of a bundle, 1 to 1,024, default 64. With 1 each key travels alone.
    pub fn bundle(mut self, keys: usize) -> DhtBuilder {
        self.settings.bundle = keys;
        self
    }

    /// Bundles of this host that may be under way at once, 1 to 1,024, default 16: further ones
    /// wait. Each has at most 256 KiB, or one value.
    pub fn bundles_in_flight(mut self, bundles: usize) -> DhtBuilder {
        self.bundles_in_flight = bundles;
        self
    }

    /// Keys of one call that are sorted before they are divided into bundles, 1 to 65,536, default
    /// 1,024: neighbours travel together. Costs memory for as many keys and values, at most 8 MiB.
    pub fn window(mut self, keys: usize) -> DhtBuilder {
        self.settings.window = keys;
        self
    }

    /// Lifetime of the values that this host writes, unless a write has one of its own
    /// ([`Dht::with_lifetime`]); at most 30 days, the default.
    pub fn lifetime(mut self, time: Duration) -> DhtBuilder {
        self.settings.lifetime = time;
        self
    }

    /// The most that this host stores: bytes of keys and values, and number of values. Default 64
    /// MiB and a million.
    pub fn quota(mut self, bytes: usize, values: usize) -> DhtBuilder {
        self.config = self.config.with_store_bytes_max(bytes).with_store_records_max(values);
        self
    }

    /// Writes the records that this host holds to this file, and restores to the table those that
    /// an earlier run left there. A write is acknowledged once each durable holder has it on disk.
    /// All hosts need the same setting. A damaged file is set aside ([`Dht::damaged_file`]). For
    /// the guarantees see [`crate::dht`].
    pub fn durable(mut self, file: impl Into<PathBuf>) -> DhtBuilder {
        (self.file, self.acknowledge) = (Some(file.into()), Acknowledge::OnDisk);
        self
    }

    /// As [`DhtBuilder::durable`], but acknowledgements do not wait for the disk: faster, and if
    /// all holders of a value stop at once soon after it was acknowledged, it may be lost.
    pub fn durable_async(mut self, file: impl Into<PathBuf>) -> DhtBuilder {
        (self.file, self.acknowledge) = (Some(file.into()), Acknowledge::InMemory);
        self
    }

    /// Changes the overlay's configuration: timeouts, maintenance, synchronisation of copies.
    pub fn with_overlay(mut self, change: impl FnOnce(Config) -> Config) -> DhtBuilder {
        self.config = change(self.config);
        self
    }

    /// The service's weight on the host's link, 1 to 1,000 or the nearest of these. While several
    /// services of the host have something to send, each gets a share in proportion, as
    /// [`HostBuilder::link_rate`](crate::HostBuilder::link_rate) says. Default 1.
    pub fn weight(mut self, weight: u32) -> DhtBuilder {
        self.joining.weight = weight;
        self
    }

    /// How long joining may take. Default 10 s.
    pub fn within(mut self, time: Duration) -> DhtBuilder {
        self.joining.within = time;
        self
    }

    /// Creates the table: this host holds all of it. Use only for the very first host, or after all
    /// hosts were lost: a second table that is created never merges with the first.
    ///
    /// # Errors
    /// If a knob is out of range, there is no tokio runtime, or the file cannot be used.
    pub async fn bootstrap(self) -> Result<Dht, DhtError> {
        self.begin(Part::Founder, Vec::new()).await
    }

    /// Joins through hosts at these addresses, each in a form of
    /// [`PeerSource`](crate::PeerSource), and takes its part of the stored values. Names and files
    /// are asked again until the host can send and answer requests; then this returns.
    ///
    /// # Errors
    /// As [`DhtBuilder::bootstrap`]; if a peer has none of the forms, a host cannot be resolved, or
    /// none answers in time.
    pub async fn join(
        self,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Dht, DhtError> {
        let peers = peers.into_iter().map(|peer| peer.as_ref().to_owned()).collect();
        self.begin(Part::Member, peers).await
    }

    /// Uses the table as a client: it reads and writes, stores nothing, and no host depends on it.
    /// For short-lived programs.
    ///
    /// # Errors
    /// As [`DhtBuilder::join`].
    pub async fn visit(
        self,
        peers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Dht, DhtError> {
        if self.file.is_some() {
            return Err(DhtError::DurableClient);
        }
        let peers = peers.into_iter().map(|peer| peer.as_ref().to_owned()).collect();
        self.begin(Part::Client, peers).await
    }

    async fn begin(self, part: Part, peers: Vec<String>) -> Result<Dht, DhtError> {
        let ranges = [
            ("bundle", self.settings.bundle, 1, 1024, "1 to 1024"),
            ("bundles_in_flight", self.bundles_in_flight, 1, 1024, "1 to 1024"),
            ("window", self.settings.window, 1, 65_536, "1 to 65536"),
        ];
        for (knob, value, least, most, expected) in ranges {
            if !(least..=most).contains(&value) {
                return Err(DhtError::OutOfRange { knob, value, expected });
            }
        }
        let peers = match part {
            Part::Founder => Peers::default(),
            _ => self.joining.resolve(peers, DhtError::NoPeer).await?,
        };
        self.start(part, peers).await
    }

    async fn start(self, part: Part, mut peers: Peers) -> Result<Dht, DhtError> {
        let awaits_disk = self.file.is_some() && self.acknowledge == Acknowledge::OnDisk;
        let config = self.config.with_durable(self.file.is_some()).with_awaits_disk(awaits_disk);
        let config = config.build()?;
        let (file, damaged) = match self.file.as_deref().map(File::open).transpose()? {
            Some((file, damaged)) => (Some(file), damaged),
            None => (None, None),
        };
        let (id, own, within) = (self.joining.id(), self.joining.address(), self.joining.within);
        // Hosts with another algorithm must not be mistaken for members of this table.
        let kind = format!("dht/{}", config.algorithm());
        let (protocol, space) = (Overlay::new(&config, id), config.space());
        let (registry, name) = self.joining.registered();
        let (node, events) = self.joining.start(&kind, protocol, config)?;

        let usual = if matches!(part, Part::Client) { Style::Iterative } else { Style::Recursive };
        let style = self.settings.style.unwrap_or(usual);
        let settings = Settings { style: Some(style), ..self.settings };
        let command = match part {
            Part::Founder => MembershipCommand::Bootstrap { address: own }.into(),
            Part::Member => MembershipCommand::Join { address: own, peers: Vec::new() }.into(),
            Part::Client => Command::Visit { address: own },
        };
        node.command(command)?;
        node.seek(peers.addresses())?;
        // Restored once the node is a member.
        let kept = file.as_ref().map(File::read).transpose()?.unwrap_or_default();
        let replies = Arc::new(PendingReplies::new());
        let mut phase = replies.phase();
        let member = Arc::new(node.clone());
        let disk = file.map(|file| write_for(&member, file)).transpose()?;
        tokio::spawn(replies.clone().serve(events, disk));
        let dht = Dht::new(member, replies, id, space, settings, self.bundles_in_flight, damaged);
        registry.describe_by(&kind, &name, dht.watched());

        let began = phase.wait_for(|phase| *phase != Phase::Starting);
        let began = peers.seek_until(&node, began);
        let began = tokio::time::timeout(within, began).await;
        match began.map(|phase| phase.map(|phase| phase.clone())) {
            Ok(Ok(Phase::In)) => {
                for records in kept.chunks(RESTORED_TOGETHER) {
                    let command = Command::Restore { records: records.to_vec() };
                    node.command(command)?;
                }
                Ok(dht)
            }
            Ok(Ok(Phase::Ended(Some(error)))) => Err(error.into()),
            Ok(Ok(Phase::Unanswered)) | Err(_) => {
                let counters = node.stats().counters;
                dht.stop().await;
                Err(if counters.count("peer_id_taken") + counters.count("peer_has_own_id") > 0 {
                    DhtError::IdInUse
                } else if counters.count("peer_later_start_known") > 0 {
                    DhtError::ClockBehind
                } else {
                    DhtError::Unanswered { peers: peers.listed(), within }
                })
            }
            Ok(_) => Err(DhtError::Closed),
        }
    }
}

/// Writes the records that a node emits, and notifies it of those on disk.
fn write_for(member: &Arc<Node<Overlay>>, file: File) -> Result<Disk, DiskError> {
    // The thread does not keep the node running.
    let node = Arc::downgrade(member);
    Disk::start(file, move |number| {
        if let Some(node) = node.upgrade() {
            // It may have stopped.
            let _ = node.command(Command::Persisted { number });
        }
    })
}
