use std::sync::Arc;
use std::time::Duration;

use super::fragment::Fragment;
use super::message::{Data, NAMES_MAX, Repair, SUPPLY_HEAD_BYTES};
use super::steering::check_target;
use super::tuner;
use crate::core::knobs::{ABOVE_ZERO, MIB, knobs, words};
use crate::core::{ConfigError, GroupId, NodeId, Terms, View};

/// Most packets that a repair by exclusive or names.
pub(super) const RATE_R_MAX: usize = 32;
/// Maximum members of a view: the range of a rank on the wire.
pub const MEMBERS_MAX: usize = 1 << 16;

knobs! {
    /// The rate of fire: the number of packets in a repair, and of members that receive it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rate {
        /// Packets of a repair.
        pub r: usize [packets] = 8, 1..=RATE_R_MAX;
        /// Members that get it.
        pub c: usize [members] = 3, 1..=RATE_R_MAX;
    }
}

impl Rate {
    /// The rate, checked.
    ///
    /// # Errors
    /// If a number is outside 1 to 32.
    pub fn new(r: usize, c: usize) -> Result<Rate, ConfigError> {
        Rate { r, c }.build()
    }
}

/// What repairs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The exclusive or of `r` packets.
    Xor {
        /// Bins that packets go to in turn, 1 to 64: with `i` of them a burst of `i` losses takes
        /// one packet from each bin, and recovery takes `i` times as long (Ricochet, section 4.4).
        stagger: usize,
    },
    /// A random linear combination of the last packets, after each `r`.
    Rlc {
        /// How many packets, 2 to 128. Each costs 10 bytes of every repair, and a
        /// multiplication of its bytes.
        window: usize,
    },
}

impl Code {
    /// Bins that the packets of a region go to in turn.
    pub fn bins(self) -> usize {
        match self {
            Code::Xor { stagger } => stagger,
            Code::Rlc { .. } => 1,
        }
    }

    /// The code as the tuner's closed forms know it, which have one bin.
    pub fn for_tuner(self) -> tuner::Code {
        match self {
            Code::Xor { .. } => tuner::Code::Xor,
            Code::Rlc { window } => tuner::Code::Linear { window: window as u16 },
        }
    }
}

/// In which order packets are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each packet as soon as it is received or recovered.
    Unordered,
    /// The packets of one sender in the order in which it sent them; a missing packet delays the
    /// later ones until it is received, recovered or given up.
    Fifo,
}

/// The packets that a member's repairs protect, and the receivers of the repairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RepairBy {
    /// Packets that the member received; a repair goes to `c` members drawn at random. Default.
    /// Source: Slingshot.
    #[default]
    Receivers,
    /// The member's own packets; after each `r` of them `c` repairs go to all other members.
    /// Sender-based (proactive) forward error correction as in NORM (RFC 5740): the baseline whose
    /// time of recovery grows as `r` packets of one sender. With [`Code::Rlc`] and a window of `r`
    /// it corrects up to `c` losses of each block of `r`.
    Sender,
}

/// How many members get the repair of a bin that [`Config::with_flush_after`] sends before it is
/// full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartialCopies {
    /// `c`, as of a full bin. Default. Each packet is protected as at high rates; where bins hold
    /// `m` packets, `c / (m + c)` of all packets are repairs.
    #[default]
    All,
    /// `c m / r` for `m` packets, rounded at random so that the mean is exact: the overhead stays
    /// at `c / (r + c)`, and fewer of the losses are recovered.
    Scaled,
}

/// Which member the second phase asks for a missing packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullFrom {
    /// The packet's sender, each time. Default. Source: the slides of Slingshot (NCA 2005): "phase
    /// 2: remaining losses are recovered from the sender".
    #[default]
    Sender,
    /// First the member whose repair named the packet last, then up to two members drawn at random,
    /// and from the third request on the sender. Spreads the load of one sender over the group, and
    /// works where the sender has crashed; not published.
    Holders,
}

words! { Order { "unordered" => Unordered, "fifo" => Fifo } }
/// How the rate of a member's multicast is controlled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateControl {
    /// Packets of messages that take several leave at `message_bytes_per_second`; others leave at
    /// once. Default.
    #[default]
    Fixed,
    /// All packets leave at a rate that follows the receivers, at most `message_bytes_per_second`.
    /// Source: RFC 4654.
    Tfmcc,
}

/// The receiver that a sender with `rate_control = "tfmcc"` follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// The one that wants the lowest rate. Default; all receivers keep up.
    #[default]
    Slowest,
    /// The one that wants the highest rate; the others lose what they cannot take. All receivers
    /// of a large group report in each round.
    Fastest,
    /// The slowest of those with `is_followed`. While none of them reports, the rate falls to
    /// `rate_min`.
    Tagged,
}

words! { RateControl { "fixed" => Fixed, "tfmcc" => Tfmcc } }
words! { Follow { "slowest" => Slowest, "fastest" => Fastest, "tagged" => Tagged } }
words! { PartialCopies { "all" => All, "scaled" => Scaled } }
words! { PullFrom { "sender" => Sender, "holders" => Holders } }

knobs! {
    /// The second phase: requests for packets that repairs did not recover.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Pull "pull_" {
        /// Which member is asked.
        pub from: PullFrom = PullFrom::Sender;
        /// Minimum time that a packet is missing before it is requested. The actual time is the
        /// 99th percentile of the recovery time by repairs, if that is longer.
        pub after_min: Duration = Duration::from_millis(5), ABOVE_ZERO..;
        /// Timeout for a reply.
        pub retry_after: Duration [time; library] = Duration::from_millis(10), ABOVE_ZERO..;
        /// Maximum number of requested packets in flight.
        pub asks_max: usize [packets; library] = 256, 1..=1 << 16;
        /// Maximum number of packets a second sent to requesters.
        pub supplies_per_second: u32 [packets; library] = 2_000;
    }
}

knobs! {
    /// The knobs of [`Slingshot`](super::Slingshot), shared by all members.
    ///
    /// The code, the largest payload and whether groups overlap must be the same at all members.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// In which order packets are delivered.
        order / with_order: Order = Order::Unordered;
        /// Time after its expected arrival, as known from repairs, in which a packet is useful; a
        /// later packet is flagged as late.
        deadline / with_deadline: Duration = Duration::from_millis(200), ABOVE_ZERO..;
        /// Whether this member sends repairs. It uses those of others in any case. Without repairs
        /// only the second phase recovers losses.
        has_repairs / with_repairs: bool = true;
        /// How long a packet is kept for repairs that name it and for requests.
        keep / with_keep: Duration = Duration::from_secs(1), ABOVE_ZERO..;
        /// Time after the first sign of a packet when it is reported lost. At least the deadline.
        lost_after / with_lost_after: Duration = Duration::from_millis(500);
        /// Maximum time that a packet waits in a bin before the partial bin is sent; without a
        /// value there is no limit. Use about half of the target recovery time. At a low rate each
        /// packet then costs `c` repairs of every receiver.
        flush_after / with_flush_after: Option<Duration>
            = Some(Duration::from_millis(10)), ABOVE_ZERO..;
        /// The number of members that receive the repair of a partial bin.
        partial_copies / with_partial_copies: PartialCopies = PartialCopies::All;
        /// Silence after which a sender multicasts how many packets it has sent, so that receivers
        /// detect the loss of its last packets; without a value never. Repeated `heartbeats_max`
        /// times, each after twice the time.
        heartbeat_after / with_heartbeat_after: Option<Duration>
            = Some(Duration::from_millis(100)), ABOVE_ZERO..;
        /// Maximum number of heartbeats of a silent sender.
        heartbeats_max / with_heartbeats_max: u32 [times; library] = 4, 1..=16;
        /// Whether members may be in several groups: repairs then name packets of several groups,
        /// which takes 5 bytes more a packet. Set as well by more than one group.
        has_overlap / with_overlap: bool [flag; library] = false;
        /// Longest message, bytes; one longer than a packet's payload takes several packets. The
        /// same at all members. See [`Config::message_bytes_limit`] for the other bounds.
        message_bytes_max / with_message_bytes_max: usize [bytes] = MIB, 1..=64 * MIB;
        /// Bytes a second at which this member sends the packets of messages that take several,
        /// one message after another; 2 ms' worth may leave at once. Counts the packets of the
        /// multicast, heads included, each once, whatever the number of receivers. At the default,
        /// 100 Mbit/s, 1 MiB takes 84 ms. Messages of one packet do not wait for it, unless
        /// `rate_control` paces all.
        message_bytes_per_second / with_message_bytes_per_second: u32 [bytes]
            = 12_500_000, 1_000..;
        /// How the rate of this member's packets is controlled: only those of messages that take
        /// several are paced, at `message_bytes_per_second`, or all of them at a rate that follows
        /// the receivers. The receivers answer a sender that follows them, whatever they set.
        rate_control / with_rate_control: RateControl = RateControl::Fixed;
        /// Bytes a second: a receiver that wants less for four feedback rounds is reported slow and
        /// not followed until it wants more, and a sender that has reports sends at least at this
        /// rate. Without a value a hundredth of `message_bytes_per_second`: who is slower than the
        /// others by two orders of magnitude would make a multicast useless for them, while any
        /// link that this multicast is for carries that. Only with `rate_control = "tfmcc"`.
        rate_min / with_rate_min: Option<u32> [bytes; library] = None, 1..;
        /// The receiver that the rate follows. Only with `rate_control = "tfmcc"`.
        follow / with_follow: Follow = Follow::Slowest;
        /// Whether senders with `follow = "tagged"` follow this member as a receiver.
        is_followed / with_followed: bool [flag; library] = false;
        /// Window of packets of one sender to one group: how far back packets are tracked, and how
        /// far ahead of the last known one others may name one.
        window_packets / with_window_packets: usize [packets; library] = 4096, 32..=1 << 16;
        /// Packets kept, of all senders, at most; the oldest go first.
        packets_max / with_packets_max: usize [packets; library] = 16_384, 1..;
        /// Their bytes, at most.
        bytes_max / with_bytes_max: usize [bytes; library] = 16 * MIB, 1 << 16..;
        /// Maximum number of missing packets of all senders; further ones are reported lost at
        /// once.
        missing_max / with_missing_max: usize [packets; library] = 4096, 1..;
        /// Maximum number of tracked senders, counted once for each group.
        flows_max / with_flows_max: usize [senders; library] = 65_536, 1..;
        /// Groups, at most; at least those configured.
        groups_max / with_groups_max: usize [groups; library] = 1024, 1..;
        /// Maximum number of bins for a packet, where groups overlap in many ways: members that
        /// share the rarest sets of groups are then repaired separately for each group.
        regions_max / with_regions_max: usize [bins; library] = 32, 1..;
        /// Maximum number of repairs that wait because more than one of their packets is missing;
        /// the oldest is dropped first.
        parked_max / with_parked_max: usize [repairs; library] = 64, 1..=1024;
        /// Missing packets in all of these, at most.
        parked_packets_max / with_parked_packets_max: usize [packets; library] = 256, NAMES_MAX..;
        /// Bytes of these, at most.
        parked_bytes_max / with_parked_bytes_max: usize [bytes; library] = MIB, 1 << 16..;
        /// Deliveries that the application has not consumed
        /// ([`Command::Consumed`](super::Command::Consumed)), at most; further ones are dropped and
        /// reported as a number. Without a value, for an application that always keeps up.
        unread_max / with_unread_max: Option<usize> [packets; library] = None, 1..;
    }
    with {
        roster: Arc<View> = Arc::new(View::roster([]));
        groups: Vec<(GroupId, Option<Arc<[NodeId]>>)> = vec![(GroupId(0), None)];
        rate: Rate = Rate::default();
        repair_by: RepairBy = RepairBy::Receivers;
        r_max: Option<usize> = None;
        target: Option<tuner::Target> = None;
        code: Code = Code::Xor { stagger: 1 };
        pull: Option<Pull> = Some(Pull::default());
    }
    rules: Config::rules;
}

impl Config {
    /// The defaults, for one group, [`GroupId`] 0, of all members of the view; until there is one,
    /// of this roster.
    pub fn new(roster: View) -> Config {
        Config { roster: Arc::new(roster), ..Config::default() }
    }

    /// The system as it was published: repairs at this rate and nothing else. No partial bins, no
    /// heartbeats, no second phase.
    pub fn published(roster: View, rate: Rate) -> Config {
        Config { rate, flush_after: None, heartbeat_after: None, pull: None, ..Config::new(roster) }
    }

    /// Further groups, or group 0 otherwise than all: `Some` lists the members, `None` stands for
    /// all members of the view. Members may be in many groups; more can come at run time
    /// ([`Command::Members`](super::Command::Members)).
    pub fn with_groups(
        mut self,
        groups: impl IntoIterator<Item = (GroupId, Option<Arc<[NodeId]>>)>,
    ) -> Config {
        self.groups = groups.into_iter().collect();
        self.has_overlap = self.groups.len() > 1;
        self
    }

    /// The rate of fire at the start. Default (8, 3): at 1 % loss it recovers 93 % of the lost
    /// packets, and 27 % of all packets are repairs.
    pub fn with_rate(mut self, rate: Rate) -> Config {
        self.rate = rate;
        self
    }

    /// The packets that repairs protect, and their receivers. Default: received packets, to `c`
    /// members. [`RepairBy::Sender`] takes no target.
    pub fn with_repair_by(mut self, by: RepairBy) -> Config {
        self.repair_by = by;
        self
    }

    /// How many packets a repair by exclusive or may name once the rate is changed at run time
    /// ([`Command::SetRate`](super::Command::SetRate)). 1 to 32, default those of the rate at the
    /// start. With a target at least 16. Each costs 10 bytes of the largest payload.
    pub fn with_r_max(mut self, packets: usize) -> Config {
        self.r_max = Some(packets);
        self
    }

    /// The share of losses to recover, by when, and at what overhead. The member measures its loss
    /// rate, the packet rate of all senders and the share of its losses recovered in time, and
    /// adapts the rate of fire; the code stays the same. Each member goes by its own losses: a
    /// member that alone loses many packets gets no more repairs from the others. Default `None`:
    /// the rate stays as configured.
    pub fn with_target(mut self, target: Option<tuner::Target>) -> Config {
        self.target = target;
        self
    }

    /// What repairs are. Default the exclusive or of one bin.
    pub fn with_code(mut self, code: Code) -> Config {
        self.code = code;
        self
    }

    /// The rate and the code that the tuner chose ([`tuner::choose`]).
    pub fn with_setting(self, setting: tuner::Setting) -> Config {
        let code = match setting.code {
            tuner::Code::Xor => Code::Xor { stagger: 1 },
            tuner::Code::Linear { window } => Code::Rlc { window: window.into() },
        };
        self.with_rate(Rate { r: setting.r.into(), c: setting.c.into() }).with_code(code)
    }

    /// The second phase, or none. Default there is one.
    pub fn with_pull(mut self, pull: Option<Pull>) -> Config {
        self.pull = pull;
        self
    }

    fn rules(&self) -> Result<(), ConfigError> {
        self.rate.check()?;
        let r = self.rate.r;
        let r_max = self.r_max();
        let fits = (r..=RATE_R_MAX).contains(&r_max);
        ConfigError::unless(fits, "r_max", r_max, "at least `r`, and at most 32")?;
        match self.code {
            Code::Xor { stagger } => {
                ConfigError::unless((1..=64).contains(&stagger), "stagger", stagger, "1 to 64")?;
            }
            Code::Rlc { window } => {
                let fits = (r.max(2)..=NAMES_MAX).contains(&window);
                ConfigError::unless(fits, "window", window, "at least 2, `r`, and at most 128")?;
            }
        }
        let is_steered_sender = self.repair_by == RepairBy::Sender && self.target.is_some();
        ConfigError::unless(!is_steered_sender, "target", true, "no target where senders repair")?;
        let members = self.roster.len();
        ConfigError::unless(members <= MEMBERS_MAX, "roster", members, "at most 65536 members")?;
        let (groups, groups_max) = (self.groups.len(), self.groups_max);
        ConfigError::unless(
            groups_max >= groups,
            "groups_max",
            groups_max,
            "at least those configured",
        )?;
        let (rate_min, rate_max) = (self.least_rate(), self.message_bytes_per_second);
        let expected = "at most `message_bytes_per_second`";
        ConfigError::unless(rate_min <= rate_max, "rate_min", rate_min, expected)?;
        self.target.as_ref().map_or(Ok(()), check_target)?;
        self.pull.as_ref().map_or(Ok(()), Pull::check)?;
        let (after, deadline) = (self.lost_after, self.deadline);
        ConfigError::unless(after >= deadline, "lost_after", after, "at least the deadline")?;
        let mut ids: Vec<GroupId> = self.groups.iter().map(|&(group, _)| group).collect();
        ids.sort_unstable();
        let twice = ids.windows(2).find(|pair| pair[0] == pair[1]).map_or(0, |pair| pair[0].0);
        let is_distinct = ids.windows(2).all(|pair| pair[0] != pair[1]);
        ConfigError::unless(is_distinct, "groups", twice, "each group configured once")
    }

    /// The members of view 0.
    pub fn roster(&self) -> &Arc<View> {
        &self.roster
    }

    /// The groups at the start, each with its members; `None` for all of the view.
    pub fn groups(&self) -> &[(GroupId, Option<Arc<[NodeId]>>)] {
        &self.groups
    }

    /// The rate of fire at the start.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Whose packets the repairs protect.
    pub fn repair_by(&self) -> RepairBy {
        self.repair_by
    }

    /// What repairs are.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Packets kept, and their bytes, at most.
    pub fn held_max(&self) -> (usize, usize) {
        (self.packets_max, self.bytes_max)
    }

    /// Maximum numbers of parked repairs, of missing packets in them, and of their bytes.
    pub fn parked_bounds(&self) -> (usize, usize, usize) {
        (self.parked_max, self.parked_packets_max, self.parked_bytes_max)
    }

    /// The recovery target, if one is set.
    pub fn target(&self) -> Option<&tuner::Target> {
        self.target.as_ref()
    }

    /// The longest message, bytes, if a datagram carries `datagram_bytes_max`: any that fits a
    /// packet, and no longer one than the least of
    ///
    /// - `message_bytes_max`;
    /// - what is sent within the deadline at `message_bytes_per_second`, since a longer one would
    ///   always be late;
    /// - half of `window_packets`, so that its packets are tracked until the last one came;
    /// - a quarter of `bytes_max`, so that incomplete messages of several senders fit.
    pub fn message_bytes_limit(&self, datagram_bytes_max: usize) -> usize {
        let packet_bytes = self.payload_bytes_max(datagram_bytes_max);
        let part_bytes = packet_bytes.saturating_sub(Fragment::HEAD_BYTES);
        let in_time = self.deadline.as_secs_f64() * f64::from(self.message_bytes_per_second);
        // A float to an integer saturates.
        let in_time = in_time as usize * part_bytes / (packet_bytes + Data::HEAD_BYTES).max(1);
        let tracked = self.window_packets / 2 * part_bytes;
        let most = self.message_bytes_max.min(in_time).min(tracked).min(self.bytes_max / 4);
        most.max(packet_bytes)
    }

    fn r_max(&self) -> usize {
        let for_target = self.target.map_or(0, |_| tuner::FIRE_MAX.into());
        self.r_max.unwrap_or(self.rate.r).max(for_target)
    }

    /// What all members need alike: the form of repairs, and the bounds of what is accepted.
    pub(crate) fn terms(&self) -> Terms {
        let (code, of_a_repair) = match self.code {
            Code::Xor { .. } => ("xor", "r_max"),
            Code::Rlc { .. } => ("rlc", "window"),
        };
        Terms::default()
            .with("code", code)
            .with(of_a_repair, self.names_max())
            .with_knobs(self, &["message_bytes_max", "overlap"])
    }

    /// Packets that a repair of a member with this configuration names, at most; and `r` of a rate.
    pub fn names_max(&self) -> usize {
        match self.code {
            Code::Xor { .. } => self.r_max(),
            Code::Rlc { window } => window,
        }
    }

    /// The largest payload, bytes, if a datagram carries `datagram_bytes_max`: a repair of such
    /// packets, with all their names, must fit as well, and an answer to a request. 0 if none fits.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        let names = self.names_max();
        let groups = if self.has_overlap { names } else { 1 };
        let head = Repair::head_bytes(names, groups).max(SUPPLY_HEAD_BYTES);
        datagram_bytes_max.saturating_sub(head).min(usize::from(u16::MAX))
    }
}
