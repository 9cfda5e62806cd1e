//! The protocol of the members, and its knobs: the table `[protocol]`.

use std::time::Duration;

use paceline_baselines::{ack, gossip, nak, srm};
use paceline_lab::LabError;
use paceline_lab::scenario::Table;
use paceline_proto::core::{Knobs, NodeId, Protocol, View};
use paceline_proto::slingshot::{Code, Config, Fragment, Order, Pull, Rate, RepairBy, Slingshot};

use super::overlap::Overlap;
use super::peer::Timely;
use crate::kinds::slingshot::{COMMON, FEC, NAK};

/// Something that is done with the protocol of a scenario.
pub(super) trait WithProtocol {
    /// What it gives.
    type Output;

    /// Does it, with what the members of this protocol share.
    fn call<P: Timely>(self, shared: P::Shared) -> Self::Output;
}

/// Declares the protocols of multicast in time: each with its type, and where its configuration
/// has what all have in common.
macro_rules! protocols {
    (|$config:ident| $($(#[$about:meta])* $Variant:ident($Protocol:ty) => $base:expr,)*) => {
        /// The protocol of a scenario, with what its members agree on.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Setup {
            $($(#[$about])* $Variant(<$Protocol as Protocol>::Shared),)*
        }

        impl Setup {
            /// What the protocols have in common.
            fn base(&self) -> &Config {
                match self {
                    $(Setup::$Variant($config) => $base,)*
                }
            }

            /// The largest payload, bytes, for datagrams of `datagram_bytes_max` bytes.
            pub(super) fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
                match self {
                    $(Setup::$Variant(config) => config.payload_bytes_max(datagram_bytes_max),)*
                }
            }

            /// How long after its expected arrival a packet is useful.
            pub(super) fn deadline(&self) -> Duration {
                self.base().deadline()
            }

            /// True if messages may take several packets.
            pub(super) fn takes_messages(&self) -> bool {
                matches!(self, Setup::Slingshot(_))
            }

            /// The longest message, bytes, for datagrams of `datagram_bytes_max` bytes.
            pub(super) fn message_bytes_max(&self, datagram_bytes_max: usize) -> usize {
                match self {
                    Setup::Slingshot(config) => config.message_bytes_limit(datagram_bytes_max),
                    _ => self.payload_bytes_max(datagram_bytes_max),
                }
            }

            /// Datagrams of a message of this length.
            pub(super) fn datagrams(&self, bytes: usize, datagram_bytes_max: usize) -> u64 {
                let payload_bytes_max = self.payload_bytes_max(datagram_bytes_max);
                match Fragment::first(bytes, payload_bytes_max) {
                    Some(first) if bytes > payload_bytes_max => first.packets.into(),
                    _ => 1,
                }
            }

            /// Does something with this protocol.
            pub(super) fn with<T: WithProtocol>(self, it: T) -> T::Output {
                match self {
                    $(Setup::$Variant(config) => it.call::<$Protocol>(config),)*
                }
            }
        }
    };
}

protocols! {
    |config|
    /// Receivers repair each other or, with `kind = "sender-fec"`, senders repair what they sent.
    Slingshot(Slingshot) => config,
    /// Requests and repairs to everybody: `kind = "srm"`.
    Srm(srm::Srm) => config.base(),
    /// Questions to the sender, `kind = "nak"`, or to who has the packet, `"digest-pull"`.
    Nak(nak::Nak) => config.base(),
    /// Every packet is acknowledged by every receiver: `kind = "ack"`.
    Ack(ack::Ack) => config.base(),
    /// Digests to members drawn at random, in rounds: `kind = "gossip"`.
    Gossip(gossip::Gossip) => config.base(),
}

/// Repairs, or packets of each sender, whose packets at the end of a run are not judged: what
/// would bring them back, or show that they are missing, is not sent any more.
const TAIL: u64 = 4;
/// How long after an answer members ignore requests to the group.
const QUIET: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum CodeName {
    Xor,
    Rlc,
}

impl Setup {
    /// Reads the knobs of a protocol, by its name, and the order that it promises.
    pub(super) fn read(
        kind: &str,
        table: &mut Table<'_>,
        nodes: u32,
        overlap: Option<&Overlap>,
    ) -> Result<(Setup, Order), LabError> {
        let base = Config::new(View::roster((0..nodes).map(NodeId::from)));
        let base = match overlap {
            Some(overlap) => base.with_groups(overlap.configured()),
            None => base,
        };
        let setup = match kind {
            "srm" => Setup::Srm(read_srm(table, base)?),
            "nak" => Setup::Nak(read_nak(table, base, false)?),
            "digest-pull" => Setup::Nak(read_nak(table, base, true)?),
            "ack" => Setup::Ack(read_ack(table, base)?),
            "gossip" => Setup::Gossip(read_gossip(table, base)?),
            "sender-fec" => Setup::Slingshot(read_fec(table, base)?),
            _ => Setup::Slingshot(read_repairs(table, base)?),
        };
        let order = setup.base().order();
        Ok((setup, order))
    }

    /// What its members know of repairs that receivers send unasked, if they send any.
    pub fn repairs(&self) -> Option<&Config> {
        match self {
            Setup::Slingshot(config)
                if config.has_repairs() && config.repair_by() == RepairBy::Receivers =>
            {
                Some(config)
            }
            _ => None,
        }
    }

    /// How many packets of the group at the end of a run are not judged.
    pub(super) fn tail(&self, senders: u32) -> u64 {
        let span = match self {
            // A block of each sender's own packets.
            Setup::Slingshot(config) if config.repair_by() == RepairBy::Sender => {
                config.names_max() as u64 * u64::from(senders)
            }
            Setup::Slingshot(config) => match config.code() {
                Code::Xor { stagger } => (config.rate().r * stagger) as u64,
                Code::Rlc { window } => window as u64,
            },
            _ => senders.into(),
        };
        TAIL * span
    }
}

/// Reads the knobs of repairs by receivers, onto this configuration: of `[protocol]`, or of a table
/// of another file that names them as scenarios do.
///
/// # Errors
/// If a value is not accepted.
pub fn read_repairs(table: &mut Table<'_>, mut config: Config) -> Result<Config, LabError> {
    table.knobs(&mut config)?;
    let mut rate = Rate::default();
    table.knobs(&mut rate)?;
    let codes = [("xor", CodeName::Xor), ("rlc", CodeName::Rlc)];
    let code = match table.choice_or("code", &codes, "xor")? {
        CodeName::Xor if table.has("window") => {
            let problem = "`window` applies only to the random linear code";
            return Err(table.error("window", problem, "`window` with code = \"rlc\" only"));
        }
        CodeName::Rlc if table.has("stagger") => {
            let problem = "`stagger` applies only to the exclusive or";
            return Err(table.error("stagger", problem, "`stagger` with code = \"xor\" only"));
        }
        CodeName::Xor => Code::Xor { stagger: table.integer_or("stagger", 1..=64usize, 1)? },
        CodeName::Rlc => Code::Rlc { window: table.integer_or("window", 2..=128usize, 32)? },
    };
    read_pull(table, config.with_rate(rate).with_code(code), true)
}

/// Sender-based forward error correction: `c` repairs of each `r` packets of a sender.
fn read_fec(table: &mut Table<'_>, mut config: Config) -> Result<Config, LabError> {
    table.knobs_named(&mut config, COMMON)?;
    table.knobs_named(&mut config, FEC)?;
    let mut rate = Rate::default();
    table.knobs(&mut rate)?;
    let window = table.integer_or("window", 2..=128usize, rate.r.max(2))?;
    let config = config.with_rate(rate).with_repair_by(RepairBy::Sender);
    read_pull(table, config.with_code(Code::Rlc { window }), false)
}

/// The second phase: there is one unless the file says otherwise, or none unless it does.
fn read_pull(table: &mut Table<'_>, config: Config, pulls: bool) -> Result<Config, LabError> {
    let mut pull = Pull::default();
    table.knobs(&mut pull)?;
    let pull = table.boolean_or("pull", pulls)?.then_some(pull);
    config.with_pull(pull).build().map_err(|error| table.refused(&error))
}

/// With room for the packets of as much time as recovery may take.
fn kept_long(base: Config) -> Config {
    base.with_window_packets(1 << 16).with_packets_max(1 << 16).with_bytes_max(64 << 20)
}

fn read_srm(table: &mut Table<'_>, mut base: Config) -> Result<srm::Config, LabError> {
    table.knobs_named(&mut base, COMMON)?;
    // As it was published: packets are kept, and missed, for as long as recovery may take.
    base = kept_long(base).with_lost_after(Duration::from_secs(60));
    table.knobs_named(&mut base, &["lost_after"])?;
    let lost_after = base.lost_after();
    let distance = match table.duration_optional("distance")? {
        Some(distance) => srm::Distance::Fixed(distance),
        None => srm::Distance::Estimated { first: Duration::from_secs(1) },
    };
    let timers =
        match table.choice_or("timers", &[("fixed", false), ("adaptive", true)], "fixed")? {
            false => {
                let mut factors = srm::Factors::default();
                table.knobs(&mut factors)?;
                srm::Timers::Fixed(factors)
            }
            true => {
                let factors = srm::Factors::KNOBS.iter().map(|knob| knob.name);
                if let Some(key) = factors.into_iter().find(|key| table.has(key)) {
                    let problem = format!("`{key}` is estimated at run time");
                    return Err(table.error(key, problem, "factors with timers = \"fixed\" only"));
                }
                srm::Timers::Adaptive
            }
        };
    let mut config = srm::Config::new(base.with_keep(lost_after));
    table.knobs(&mut config)?;
    let config = config.with_distance(distance).with_timers(timers);
    config.build().map_err(|error| table.refused(&error))
}

fn read_nak(
    table: &mut Table<'_>,
    mut base: Config,
    has_digest: bool,
) -> Result<nak::Config, LabError> {
    table.knobs_named(&mut base, COMMON)?;
    table.knobs_named(&mut base, &["heartbeat_after"])?;
    let config = match has_digest {
        true => {
            let mut config = nak::Config::digest(base);
            table.knobs(&mut config)?;
            let names = config.digest_names();
            if names == 0 {
                let problem = "`digest_names` is out of range: 0";
                return Err(table.error("digest_names", problem, "a whole number from 1 to 64"));
            }
            config
        }
        false => {
            let mut config = nak::Config::sender(base);
            table.knobs_named(&mut config, NAK)?;
            config
        }
    };
    let answers =
        [("unicast", nak::Answer::Unicast), ("group", nak::Answer::Group { quiet: QUIET })];
    let config = config.with_answer(table.choice_or("answer", &answers, "unicast")?);
    config.build().map_err(|error| table.refused(&error))
}

fn read_ack(table: &mut Table<'_>, mut base: Config) -> Result<ack::Config, LabError> {
    table.knobs_named(&mut base, COMMON)?;
    table.knobs_named(&mut base, &["lost_after"])?;
    let mut config = ack::Config::new(base);
    table.knobs(&mut config)?;
    config.build().map_err(|error| table.refused(&error))
}

fn read_gossip(table: &mut Table<'_>, base: Config) -> Result<gossip::Config, LabError> {
    let mut base = kept_long(base);
    table.knobs_named(&mut base, COMMON)?;
    let mut config = gossip::Config::new(base);
    table.knobs(&mut config)?;
    config.build().map_err(|error| table.refused(&error))
}
