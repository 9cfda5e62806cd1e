use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use paceline_net::Node;
use paceline_proto::core::knobs::Value;
use paceline_proto::core::{ConfigError, MembershipCommand};
use paceline_proto::group::Refusal;
use paceline_proto::overlay::{Algorithm, Command, Config, Overlay, Shape, Space, Style};
use tokio::sync::Semaphore;

use super::disk::Disk;
use super::error::DiskError;
use super::file::File;
use super::replies::{PendingReplies, Phase};
use super::{Dht, Settings, Shared};
use crate::builder::{Joins, ServiceBuilder};
use crate::join_error::JoinError;
use crate::joining::{Beginning, Joining};
use crate::leaving::LEAVE_WITHIN;
use crate::mismatch::{entered, unanswered};
use crate::peers::Peers;

/// Number of restored records passed to the overlay at once.
const RESTORED_TOGETHER: usize = 1024;

/// Beyond the time in which a host hands over its records.
const LEAVE_GRACE: Duration = Duration::from_secs(5);

/// Configures a table and enters it; made by [`Host::dht`](crate::Host::dht).
pub type DhtBuilder = ServiceBuilder<DhtSettings>;

/// What is configured of a table alone.
#[derive(Debug)]
pub struct DhtSettings {
    config: Config,
    asking: Settings,
    bundles_in_flight: usize,
    file: Option<PathBuf>,
    acknowledge: Acknowledge,
}

impl Default for DhtSettings {
    fn default() -> DhtSettings {
        DhtSettings {
            config: DhtBuilder::overlay(),
            asking: Settings::default(),
            bundles_in_flight: 16,
            file: None,
            acknowledge: Acknowledge::OnDisk,
        }
    }
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
    /// The overlay's configuration that a builder begins with, for programs that read one before
    /// there is a host.
    pub fn overlay() -> Config {
        Config::new(Space::new(0)).with_copies(3)
    }

    /// The routing algorithm, which must be the same on all hosts. Default Chord.
    pub fn algorithm(mut self, algorithm: Algorithm) -> DhtBuilder {
        self.settings.config = self.settings.config.with_algorithm(algorithm);
        self
    }

    /// Hosts that hold each value; all hosts need the same number. 1 to 16, default 3.
    pub fn copies(mut self, copies: u8) -> DhtBuilder {
        self.settings.config = self.settings.config.with_copies(copies.into());
        self
    }

    /// On how many hosts a write of this host must be, 1 to 16, default 2. If hosts failed and
    /// fewer are left, it fails with [`KeyError::FewCopies`](super::KeyError::FewCopies); in a
    /// table that never had that many hosts, all hosts suffice.
    pub fn require_copies(mut self, copies: u8) -> DhtBuilder {
        self.settings.config = self.settings.config.with_copies_required(copies);
        self
    }

    /// How this host's bundles travel. Default recursive: each host on the way forwards its parts.
    /// A client's default is iterative: it asks each host itself. A recursive client hands its
    /// bundles over to a host, and the hosts where keys end answer it straight; they must reach
    /// the address that it listens on.
    pub fn style(mut self, style: Style) -> DhtBuilder {
        self.settings.asking.style = Some(style);
        self
    }

    /// Hosts that an iterative request for one key asks at once, with Kademlia: its alpha. 1 to 8,
    /// default 1; 3 is usual. Multiplies the messages, and does not wait for a slow or failed host.
    pub fn parallel(mut self, hosts: u8) -> DhtBuilder {
        self.settings.config = self.settings.config.with_parallel(hosts);
        self
    }

    /// Sizes of routing tables; all hosts need the same. Default [`Shape::default`].
    pub fn shape(mut self, shape: Shape) -> DhtBuilder {
        self.settings.config = self.settings.config.with_shape(shape);
        self
    }

    /// Keys of a bundle, 1 to 1,024, default 64. With 1 each key travels alone.
    pub fn bundle(mut self, keys: usize) -> DhtBuilder {
        self.settings.asking.bundle = keys;
        self
    }

    /// Bundles of this host that may be under way at once, 1 to 1,024, default 16: further ones
    /// wait. Each has at most 256 KiB, or one value.
    pub fn bundles_in_flight(mut self, bundles: usize) -> DhtBuilder {
        self.settings.bundles_in_flight = bundles;
        self
    }

    /// Keys of one call that are sorted before they are divided into bundles, 1 to 65,536, default
    /// 1,024: neighbours travel together. Costs memory for as many keys and values, at most 8 MiB.
    pub fn window(mut self, keys: usize) -> DhtBuilder {
        self.settings.asking.window = keys;
        self
    }

    /// Lifetime of the values that this host writes, unless a write has one of its own
    /// ([`Dht::with_lifetime`]); at most 30 days, the default.
    pub fn lifetime(mut self, time: Duration) -> DhtBuilder {
        self.settings.asking.lifetime = time;
        self
    }

    /// The most that this host stores: bytes of keys and values, and number of values. Default 64
    /// MiB and a million.
    pub fn quota(mut self, bytes: usize, values: usize) -> DhtBuilder {
        self.settings.config =
            self.settings.config.with_store_bytes_max(bytes).with_store_records_max(values);
        self
    }

    /// Writes the records that this host holds to this file, and restores to the table those that
    /// an earlier run left there. A write is acknowledged once each durable holder has it on disk.
    /// All hosts need the same setting. A damaged file is set aside ([`Dht::damaged_file`]). For
    /// the guarantees see [`crate::dht`].
    pub fn durable(mut self, file: impl Into<PathBuf>) -> DhtBuilder {
        (self.settings.file, self.settings.acknowledge) = (Some(file.into()), Acknowledge::OnDisk);
        self
    }

    /// As [`DhtBuilder::durable`], but acknowledgements do not wait for the disk: faster, and if
    /// all holders of a value stop at once soon after it was acknowledged, it may be lost.
    pub fn durable_async(mut self, file: impl Into<PathBuf>) -> DhtBuilder {
        (self.settings.file, self.settings.acknowledge) =
            (Some(file.into()), Acknowledge::InMemory);
        self
    }

    /// Changes the overlay's configuration: timeouts, maintenance, synchronisation of copies.
    pub fn with_overlay(mut self, change: impl FnOnce(Config) -> Config) -> DhtBuilder {
        self.settings.config = change(self.settings.config);
        self
    }

    /// Uses the table as a client, through the [peers](Self::peers): it reads and writes, stores
    /// nothing, and no host depends on it. For short-lived programs.
    ///
    /// # Errors
    /// As [`join`](Self::join); [`JoinError::DurableClient`] if [`durable`](Self::durable) names a
    /// file, since a client stores nothing.
    pub async fn visit(self) -> Result<Dht, JoinError> {
        if self.settings.file.is_some() {
            return Err(JoinError::DurableClient);
        }
        let peers = self.joining.resolve().await?;
        self.settings.start(self.joining, Part::Client, peers).await
    }
}

impl Joins for DhtSettings {
    type Joined = Dht;

    async fn begin(self, joining: Joining, beginning: Beginning) -> Result<Dht, JoinError> {
        match beginning {
            Beginning::Alone => self.start(joining, Part::Founder, Peers::default()).await,
            Beginning::With(peers) | Beginning::Expecting(_, peers) => {
                self.start(joining, Part::Member, peers).await
            }
        }
    }
}

impl DhtSettings {
    fn check(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("bundle", self.asking.bundle, 1, 1024, "1 to 1024"),
            ("bundles_in_flight", self.bundles_in_flight, 1, 1024, "1 to 1024"),
            ("window", self.asking.window, 1, 65_536, "1 to 65536"),
        ];
        for (knob, value, least, most, expected) in ranges {
            if !(least..=most).contains(&value) {
                let value = Value::Integer(value as u64);
                return Err(ConfigError::Invalid { knob, value, expected });
            }
        }
        Ok(())
    }

    async fn start(self, joining: Joining, part: Part, mut peers: Peers) -> Result<Dht, JoinError> {
        self.check()?;
        let awaits_disk = self.file.is_some() && self.acknowledge == Acknowledge::OnDisk;
        let config = self.config.with_durable(self.file.is_some()).with_awaits_disk(awaits_disk);
        let config = match joining.leave_within {
            Some(time) => config.with_leave_within(time),
            None => config,
        };
        let config = config.build()?;
        let leave_within = LEAVE_WITHIN.max(config.leave_within() + LEAVE_GRACE);
        let (file, damaged) = match self.file.as_deref().map(File::open).transpose()? {
            Some((file, damaged)) => (Some(file), damaged),
            None => (None, None),
        };
        let (id, own, within) = (joining.id(), joining.address(), joining.within);
        // Hosts with another algorithm must not be mistaken for members of this table.
        let kind = format!("dht/{}", config.algorithm());
        let (protocol, space) = (Overlay::new(&config, id), config.space());
        let (registry, name) = joining.registered();
        let (node, events) = joining.start(&kind, protocol, config)?;

        let usual = if matches!(part, Part::Client) { Style::Iterative } else { Style::Recursive };
        let style = self.asking.style.unwrap_or(usual);
        let settings = Settings { style: Some(style), ..self.asking };
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
        let member = Arc::new(node);
        let disk = file.map(|file| write_for(&member, file)).transpose()?;
        tokio::spawn(replies.clone().serve(events, disk));
        let permits = Arc::new(Semaphore::new(self.bundles_in_flight));
        let numbers = AtomicU64::new(1);
        let node = (*member).clone();
        let dht = Dht::new(Shared {
            node: member,
            replies,
            id,
            space,
            settings,
            permits,
            damaged,
            numbers,
            leave_within,
        });
        registry.attach(&kind, &name, dht.registered());

        let began = async {
            let began = phase.wait_for(|phase| *phase != Phase::Starting).await;
            began.map_or(Phase::Ended(None), |phase| phase.clone())
        };
        match entered(&node, &mut peers, within, began).await {
            Some(Phase::In) => {
                for records in kept.chunks(RESTORED_TOGETHER) {
                    let command = Command::Restore { records: records.to_vec() };
                    node.command(command)?;
                }
                Ok(dht)
            }
            Some(Phase::Ended(Some(error))) => Err(error.into()),
            Some(Phase::Unanswered) | None => {
                let counters = node.stats().counters;
                let service = format!("{kind} {name}");
                let why = unanswered(&node, service, peers.listed(), within);
                dht.stop().await;
                Err(if counters.count("peer_id_taken") + counters.count("peer_has_own_id") > 0 {
                    JoinError::Refused { refusal: Refusal::IdInUse }
                } else if counters.count("peer_later_start_known") > 0 {
                    JoinError::ClockBehind
                } else {
                    why
                })
            }
            Some(_) => Err(JoinError::Closed),
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
