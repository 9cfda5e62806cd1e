use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use super::message::{NAMES_MAX, Repair, SUPPLY_HEAD_BYTES};
use super::steering::check_target;
use super::tuner;
use crate::core::{GroupId, NodeId, View};

/// Most packets that a repair by exclusive or names.
pub(super) const RATE_R_MAX: usize = 32;
/// Most members of a view: what a rank on the wire tells apart.
pub(super) const MEMBERS_MAX: usize = 1 << 16;

/// The rate of fire: how many packets make a repair, and how many members get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Packets. 1 to 32.
    pub r: usize,
    /// Members. 1 to 32.
    pub c: usize,
}

impl Rate {
    /// The rate, checked.
    ///
    /// # Errors
    /// If a number is outside 1 to 32.
    pub fn new(r: usize, c: usize) -> Result<Rate, ConfigError> {
        for (knob, value) in [("rate.r", r), ("rate.c", c)] {
            check(knob, value, (1..=RATE_R_MAX).contains(&value), "1 to 32")?;
        }
        Ok(Rate { r, c })
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
    pub(super) fn bins(self) -> usize {
        match self {
            Code::Xor { stagger } => stagger,
            Code::Rlc { .. } => 1,
        }
    }

    /// As the tuner knows it, to which bins in turn are one.
    pub(super) fn for_tuner(self) -> tuner::Code {
        match self {
            Code::Xor { .. } => tuner::Code::Xor,
            Code::Rlc { window } => tuner::Code::Linear { window: window as u16 },
        }
    }
}

/// In which order packets are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each as soon as it is there.
    Unordered,
    /// Those of one sender in the order in which it sent them; what is missing holds up the others
    /// until it is there or given up.
    Fifo,
}

/// Which packets a member's repairs protect, and who gets the repairs.
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
/// full. Scenario key `partial`.
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

/// Which member the second phase asks for a missing packet. Scenario key `ask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PullFrom {
    /// The packet's sender, each time. Default. Source: the slides of Slingshot (NCA 2005): "phase
    /// 2: remaining losses are recovered from the sender".
    #[default]
    Sender,
    /// First the member whose repair named the packet last, then up to two members drawn at
    /// random, and from the third question on the sender. Spreads the load of one sender over the
    /// group, and works where the sender has crashed; not published.
    Holders,
}

/// The second phase: what repairs did not bring is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Which member is asked. Default the sender.
    pub from: PullFrom,
    /// How long a packet is missing before it is asked for, at least. It is the 99th percentile of
    /// the time that repairs take, if that is longer. Above zero, default 5 ms.
    pub after_min: Duration,
    /// How long an answer is waited for. Above zero, default 10 ms.
    pub retry_after: Duration,
    /// Packets that are asked for at a time, at most. 1 to 65,536, default 256.
    pub asks_max: usize,
    /// Packets a second that others are given, at most. Default 2,000.
    pub supplies_per_second: u32,
}

impl Default for Pull {
    fn default() -> Pull {
        Pull {
            from: PullFrom::Sender,
            after_min: Duration::from_millis(5),
            retry_after: Duration::from_millis(10),
            asks_max: 256,
            supplies_per_second: 2_000,
        }
    }
}

/// The knobs of [`Slingshot`](super::Slingshot), shared by all members.
///
/// The code, the largest payload and whether groups overlap must be the same at all members.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub(super) roster: Arc<View>,
    pub(super) groups: Vec<(GroupId, Option<Arc<[NodeId]>>)>,
    pub(super) has_overlap: bool,
    pub(super) rate: Rate,
    pub(super) has_repairs: bool,
    pub(super) repair_by: RepairBy,
    pub(super) partial: PartialCopies,
    pub(super) r_max: Option<usize>,
    pub(super) target: Option<tuner::Target>,
    pub(super) code: Code,
    pub(super) order: Order,
    pub(super) flush_after: Option<Duration>,
    pub(super) heartbeat_after: Option<Duration>,
    pub(super) heartbeats_max: u32,
    pub(super) deadline: Duration,
    pub(super) lost_after: Duration,
    pub(super) pull: Option<Pull>,
    pub(super) keep: Duration,
    pub(super) window_packets: usize,
    pub(super) packets_max: usize,
    pub(super) bytes_max: usize,
    pub(super) missing_max: usize,
    pub(super) flows_max: usize,
    pub(super) groups_max: usize,
    pub(super) regions_max: usize,
    pub(super) parked_max: usize,
    pub(super) parked_packets_max: usize,
    pub(super) parked_bytes_max: usize,
    pub(super) unread_max: Option<usize>,
}

/// Why a configuration cannot work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// A time is zero: the member would wake without end.
    #[error("{knob} is zero, expected a time above zero")]
    NoTime {
        /// The knob's name.
        knob: &'static str,
    },
    /// A knob is outside its range.
    #[error("{knob} is {value}, expected {expected}")]
    OutOfRange {
        /// The knob's name.
        knob: &'static str,
        /// Its value.
        value: usize,
        /// The range.
        expected: &'static str,
    },
    /// A group is configured twice.
    #[error("{group} is configured twice")]
    SameGroup {
        /// The group.
        group: GroupId,
    },
}

impl Config {
    /// The defaults, for one group, [`GroupId`] 0, of all members of the view; until there is one,
    /// of this roster.
    pub fn new(roster: View) -> Config {
        Config {
            roster: Arc::new(roster),
            groups: vec![(GroupId(0), None)],
            has_overlap: false,
            rate: Rate { r: 8, c: 3 },
            has_repairs: true,
            repair_by: RepairBy::Receivers,
            partial: PartialCopies::All,
            r_max: None,
            target: None,
            code: Code::Xor { stagger: 1 },
            order: Order::Unordered,
            flush_after: Some(Duration::from_millis(10)),
            heartbeat_after: Some(Duration::from_millis(100)),
            heartbeats_max: 4,
            deadline: Duration::from_millis(200),
            lost_after: Duration::from_millis(500),
            pull: Some(Pull::default()),
            keep: Duration::from_secs(1),
            window_packets: 1024,
            packets_max: 16_384,
            bytes_max: 16 << 20,
            missing_max: 4096,
            flows_max: 65_536,
            groups_max: 1024,
            regions_max: 32,
            parked_max: 64,
            parked_packets_max: 256,
            parked_bytes_max: 1 << 20,
            unread_max: None,
        }
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

    /// Whether members may be in several groups: repairs then name packets of several groups, which
    /// takes 5 bytes more a packet. Default if more than one group is configured.
    pub fn with_overlap(mut self, has_overlap: bool) -> Config {
        self.has_overlap = has_overlap;
        self
    }

    /// The rate of fire at the start. Default (8, 3): 93 % of what is lost at 1 % loss comes back,
    /// for 27 % of all packets being repairs.
    pub fn with_rate(mut self, rate: Rate) -> Config {
        self.rate = rate;
        self
    }

    /// Whether this member sends repairs. It uses those of others in any case. Default it does;
    /// without them the second phase alone brings back what is lost.
    pub fn with_repairs(mut self, has_repairs: bool) -> Config {
        self.has_repairs = has_repairs;
        self
    }

    /// Whose packets the repairs protect, and who gets them. Default those that were received, for
    /// `c` members. [`RepairBy::Sender`] takes no target.
    pub fn with_repair_by(mut self, by: RepairBy) -> Config {
        self.repair_by = by;
        self
    }

    /// How many members get the repair of a partial bin. Default `c`.
    pub fn with_partial_copies(mut self, copies: PartialCopies) -> Config {
        self.partial = copies;
        self
    }

    /// How many packets a repair by exclusive or may name once the rate is changed at run time
    /// ([`Command::SetRate`](super::Command::SetRate)). 1 to 32, default those of the rate at the
    /// start. With a target at least 16. Each costs 10 bytes of the largest payload.
    pub fn with_r_max(mut self, packets: usize) -> Config {
        self.r_max = Some(packets);
        self
    }

    /// What is to be recovered by when, and what that may cost. The member measures which share of
    /// the packets it loses, how many all senders send, and how many of its losses come back in
    /// time, and changes the rate of fire accordingly, the code staying the same. Each member goes
    /// by its own losses: who alone loses many is not helped by others. Default `None`: the rate
    /// stays as it is configured.
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

    /// In which order packets are delivered. Default as they come.
    pub fn with_order(mut self, order: Order) -> Config {
        self.order = order;
        self
    }

    /// How long a packet waits in a bin, at most, before the bin is sent as it is; `None` for as
    /// long as it takes. About half the time in which losses are to be repaired. Default 10 ms.
    /// At a low rate each packet then costs `c` repairs of every receiver.
    pub fn with_flush_after(mut self, after: Option<Duration>) -> Config {
        self.flush_after = after;
        self
    }

    /// How long a sender is silent before it says how much it has sent, so that its last packets
    /// are missed where they got lost; `None` for never. Repeated [`Config::with_heartbeats_max`]
    /// times, each after twice as long. Default 100 ms.
    pub fn with_heartbeat_after(mut self, after: Option<Duration>) -> Config {
        self.heartbeat_after = after;
        self
    }

    /// How often a silent sender says it. 1 to 16, default 4.
    pub fn with_heartbeats_max(mut self, times: u32) -> Config {
        self.heartbeats_max = times;
        self
    }

    /// How long after it should have come, as far as repairs say so, a packet is of use: what comes
    /// later is flagged as late.
    /// Default 200 ms.
    pub fn with_deadline(mut self, deadline: Duration) -> Config {
        self.deadline = deadline;
        self
    }

    /// How long after the first sign of it a packet is given up and reported lost. At least the
    /// deadline, default 500 ms.
    pub fn with_lost_after(mut self, after: Duration) -> Config {
        self.lost_after = after;
        self
    }

    /// The second phase, or none. Default there is one.
    pub fn with_pull(mut self, pull: Option<Pull>) -> Config {
        self.pull = pull;
        self
    }

    /// How long a packet is kept for repairs that name it and for those who ask. Default 1 s.
    pub fn with_keep(mut self, keep: Duration) -> Config {
        self.keep = keep;
        self
    }

    /// How far back the packets of one sender to one group are looked after, and how far ahead of
    /// what was seen of them others may name one. 32 to 65,536, default 1,024.
    pub fn with_window_packets(mut self, packets: usize) -> Config {
        self.window_packets = packets;
        self
    }

    /// Packets kept, of all senders, at most; the oldest go first. At least 1, default 16,384.
    pub fn with_packets_max(mut self, packets: usize) -> Config {
        self.packets_max = packets;
        self
    }

    /// Their bytes, at most. At least 65,536, default 16 MiB.
    pub fn with_bytes_max(mut self, bytes: usize) -> Config {
        self.bytes_max = bytes;
        self
    }

    /// Packets that are missed at a time, of all senders, at most; further ones are lost at once.
    /// At least 1, default 4,096.
    pub fn with_missing_max(mut self, packets: usize) -> Config {
        self.missing_max = packets;
        self
    }

    /// Senders, once for each group, that are looked after at most. At least 1, default 65,536.
    pub fn with_flows_max(mut self, flows: usize) -> Config {
        self.flows_max = flows;
        self
    }

    /// Groups, at most. At least 1, default 1,024.
    pub fn with_groups_max(mut self, groups: usize) -> Config {
        self.groups_max = groups;
        self
    }

    /// Bins that a packet goes to at most, where groups overlap in many ways: the members that
    /// share the rarest sets of groups are then repaired for each group by itself. At least 1,
    /// default 32.
    pub fn with_regions_max(mut self, regions: usize) -> Config {
        self.regions_max = regions;
        self
    }

    /// Repairs that wait because more than one of their packets is missing, at most; the oldest
    /// goes first. 1 to 1,024, default 64.
    pub fn with_parked_max(mut self, repairs: usize) -> Config {
        self.parked_max = repairs;
        self
    }

    /// Missing packets in all of these, at most. At least 128, default 256.
    pub fn with_parked_packets_max(mut self, packets: usize) -> Config {
        self.parked_packets_max = packets;
        self
    }

    /// Bytes of these, at most. At least 65,536, default 1 MiB.
    pub fn with_parked_bytes_max(mut self, bytes: usize) -> Config {
        self.parked_bytes_max = bytes;
        self
    }

    /// Deliveries that the application has not consumed
    /// ([`Command::Consumed`](super::Command::Consumed)), at most; what comes beyond is dropped and
    /// told as a number. `None`, the default, for an application that always keeps up.
    pub fn with_unread_max(mut self, packets: Option<usize>) -> Config {
        self.unread_max = packets;
        self
    }

    /// Checks the knobs against each other.
    ///
    /// # Errors
    /// With the first that is outside its range.
    pub fn build(self) -> Result<Config, ConfigError> {
        Rate::new(self.rate.r, self.rate.c)?;
        let r_max = self.r_max();
        let fits = (self.rate.r..=RATE_R_MAX).contains(&r_max);
        check("r_max", r_max, fits, "at least rate.r, and at most 32")?;
        match self.code {
            Code::Xor { stagger } => {
                check("code.stagger", stagger, (1..=64).contains(&stagger), "1 to 64")?;
            }
            Code::Rlc { window } => {
                let fits = (self.rate.r.max(2)..=NAMES_MAX).contains(&window);
                check("code.window", window, fits, "at least 2, rate.r, and at most 128")?;
            }
        }
        let is_steered_sender = self.repair_by == RepairBy::Sender && self.target.is_some();
        check("target", 1, !is_steered_sender, "no target where senders repair")?;
        let members = self.roster.len();
        check("roster", members, members <= MEMBERS_MAX, "at most 65536 members")?;
        let window = self.window_packets;
        check("window_packets", window, (32..=1 << 16).contains(&window), "32 to 65536")?;
        let parked = self.parked_max;
        check("parked_max", parked, (1..=1024).contains(&parked), "1 to 1024")?;
        for (knob, value, least, expected) in [
            ("packets_max", self.packets_max, 1, "at least 1"),
            ("bytes_max", self.bytes_max, 1 << 16, "at least 65536"),
            ("missing_max", self.missing_max, 1, "at least 1"),
            ("flows_max", self.flows_max, 1, "at least 1"),
            ("regions_max", self.regions_max, 1, "at least 1"),
            ("parked_packets_max", self.parked_packets_max, NAMES_MAX, "at least 128"),
            ("parked_bytes_max", self.parked_bytes_max, 1 << 16, "at least 65536"),
            ("unread_max", self.unread_max.unwrap_or(1), 1, "at least 1"),
            ("groups_max", self.groups_max, self.groups.len().max(1), "at least those configured"),
        ] {
            check(knob, value, value >= least, expected)?;
        }
        let beats = self.heartbeats_max as usize;
        check("heartbeats_max", beats, (1..=16).contains(&beats), "1 to 16")?;
        let mut times = vec![("keep", self.keep), ("deadline", self.deadline)];
        times.extend(self.flush_after.map(|after| ("flush_after", after)));
        times.extend(self.heartbeat_after.map(|after| ("heartbeat_after", after)));
        self.target.as_ref().map_or(Ok(()), check_target)?;
        if let Some(pull) = self.pull {
            times.extend([("after_min", pull.after_min), ("retry_after", pull.retry_after)]);
            check("asks_max", pull.asks_max, (1..=1 << 16).contains(&pull.asks_max), "1 to 65536")?;
        }
        if let Some(&(knob, _)) = times.iter().find(|(_, time)| time.is_zero()) {
            return Err(ConfigError::NoTime { knob });
        }
        let late_ms = self.lost_after.as_millis() as usize;
        check("lost_after", late_ms, self.lost_after >= self.deadline, "at least the deadline")?;
        let mut ids: Vec<GroupId> = self.groups.iter().map(|&(group, _)| group).collect();
        ids.sort_unstable();
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ConfigError::SameGroup { group: pair[0] });
        }
        Ok(self)
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

    /// Whether this member sends repairs.
    pub fn has_repairs(&self) -> bool {
        self.has_repairs
    }

    /// Whose packets the repairs protect.
    pub fn repair_by(&self) -> RepairBy {
        self.repair_by
    }

    /// How many members get the repair of a partial bin.
    pub fn partial_copies(&self) -> PartialCopies {
        self.partial
    }

    /// What repairs are.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Whether repairs name packets of several groups.
    pub fn has_overlap(&self) -> bool {
        self.has_overlap
    }

    /// In which order packets are delivered.
    pub fn order(&self) -> Order {
        self.order
    }

    /// How long a packet waits in a bin at most.
    pub fn flush_after(&self) -> Option<Duration> {
        self.flush_after
    }

    /// How long after the first sign of it a packet is of use.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// How long after the first sign of it a packet is given up.
    pub fn lost_after(&self) -> Duration {
        self.lost_after
    }

    /// How long a packet is kept for repairs that name it and for those who ask.
    pub fn keep(&self) -> Duration {
        self.keep
    }

    /// Packets kept, and their bytes, at most.
    pub fn held_max(&self) -> (usize, usize) {
        (self.packets_max, self.bytes_max)
    }

    /// Packets that are missed at a time, at most.
    pub fn missing_max(&self) -> usize {
        self.missing_max
    }

    /// Senders, once for each group, at most.
    pub fn flows_max(&self) -> usize {
        self.flows_max
    }

    /// Bins that a packet goes to, at most.
    pub fn regions_max(&self) -> usize {
        self.regions_max
    }

    /// Repairs that wait, the missing packets in them, and their bytes, at most.
    pub fn parked_max(&self) -> (usize, usize, usize) {
        (self.parked_max, self.parked_packets_max, self.parked_bytes_max)
    }

    /// Deliveries that the application has not consumed, at most.
    pub fn unread_max(&self) -> Option<usize> {
        self.unread_max
    }

    /// What is to be recovered by when, if that is to be looked after.
    pub fn target(&self) -> Option<&tuner::Target> {
        self.target.as_ref()
    }

    fn r_max(&self) -> usize {
        let for_target = self.target.map_or(0, |_| tuner::FIRE_MAX.into());
        self.r_max.unwrap_or(self.rate.r).max(for_target)
    }

    /// Packets that a repair of a member with this configuration names, at most; and `r` of a rate.
    pub fn names_max(&self) -> usize {
        match self.code {
            Code::Xor { .. } => self.r_max(),
            Code::Rlc { window } => window,
        }
    }

    /// The largest payload, bytes, where a datagram carries `datagram_bytes_max`: a repair of such
    /// packets, with all their names, must fit as well, and an answer to a question. 0 if nothing
    /// does.
    pub fn payload_bytes_max(&self, datagram_bytes_max: usize) -> usize {
        let names = self.names_max();
        let groups = if self.has_overlap { names } else { 1 };
        let head = Repair::head_bytes(names, groups).max(SUPPLY_HEAD_BYTES);
        datagram_bytes_max.saturating_sub(head).min(usize::from(u16::MAX))
    }
}

pub(super) fn check(
    knob: &'static str,
    value: usize,
    is_within: bool,
    expected: &'static str,
) -> Result<(), ConfigError> {
    if is_within { Ok(()) } else { Err(ConfigError::OutOfRange { knob, value, expected }) }
}
