//! Session messages: how far each sender got, and the distance of each member.

use std::collections::BTreeMap;
use std::time::Duration;

use paceline_proto::core::field::Field;
use paceline_proto::core::{GroupId, Instant, NodeId, View};
use paceline_proto::slingshot::Name;

use super::config::{Distance, Reports};
use super::counters;
use super::message::{Echo, Message, Reached, SESSION_BYTES_MIN, Session};
use super::{Cx, Srm, Timer};

/// The longest accepted distance: echoes of older messages are ignored.
const DISTANCE_MAX: Duration = Duration::from_secs(60);

/// Distances estimated from session messages.
#[derive(Debug, Default)]
pub(super) struct Distances {
    /// By member of the view, which bounds the size.
    members: BTreeMap<NodeId, Heard>,
}

/// The last session message of a member.
#[derive(Clone, Copy, Debug)]
struct Heard {
    stamp: u64,
    at: Instant,
    /// From its last echo.
    distance: Option<Duration>,
}

impl Distances {
    /// Forgets nodes that are not in the view.
    pub(super) fn enter_view(&mut self, view: &View) {
        self.members.retain(|&node, _| view.rank(node).is_some());
    }

    fn estimate(&self, node: NodeId) -> Option<Duration> {
        self.members.get(&node)?.distance
    }

    fn heard(&mut self, node: NodeId, stamp: u64, at: Instant) {
        let heard = self.members.entry(node).or_insert(Heard { stamp, at, distance: None });
        (heard.stamp, heard.at) = (stamp, at);
    }

    /// This member's message at `stamp` reached `node`, which kept it for `held` and answered.
    fn echoed(&mut self, node: NodeId, now: Instant, stamp: u64, held: Duration) -> Option<()> {
        let away = now.as_nanos().checked_sub(stamp).map(Duration::from_nanos)?;
        let distance = away.checked_sub(held)? / 2;
        let heard = self.members.get_mut(&node).filter(|_| distance <= DISTANCE_MAX)?;
        // On a link that is faster than the clock is fine, timers still need some time.
        heard.distance = Some(distance.max(Duration::from_micros(1)));
        Some(())
    }
}

impl Srm {
    /// How far a member is, one way.
    pub fn distance(&self, config: &super::Config, node: NodeId) -> Duration {
        match config.distance {
            Distance::Fixed(distance) => distance,
            Distance::Estimated { first } => self.distances.estimate(node).unwrap_or(first),
        }
    }

    /// The first session message comes at a random time, so that members do not all send at once.
    pub(super) fn begin_sessions(&mut self, cx: &mut Cx<'_>) {
        let after = cx.shared.session_every.mul_f64(cx.rng.unit());
        cx.set_timer(after, Timer::Session);
    }

    pub(super) fn session_timer(&mut self, cx: &mut Cx<'_>) {
        cx.set_timer(cx.shared.session_every, Timer::Session);
        let groups: Vec<(GroupId, u64)> = self.store.joined().collect();
        for (group, next) in groups {
            let session = self.session(cx, group, next);
            cx.count(counters::SESSIONS, 1);
            cx.send_group(group, Message::Session(session));
        }
    }

    fn session(&mut self, cx: &Cx<'_>, group: GroupId, next: u64) -> Session {
        let view = self.store.view().clone();
        let (mut reached, mut echoes) = (Vec::new(), Vec::new());
        let mut room = cx.datagram_bytes_max.saturating_sub(SESSION_BYTES_MIN);
        // It begins where the last one ran out of room.
        for _ in 0..view.len() {
            if room < Reached::BYTES_MIN + Echo::BYTES_MIN {
                break;
            }
            let rank = self.next_told % view.len();
            self.next_told = (rank + 1) % view.len();
            let node = view.node(rank);
            if node == cx.node {
                continue;
            }
            let progress = self.store.progress(group, node);
            let progress = progress.filter(|_| cx.shared.reports == Reports::All);
            if let Some((incarnation, end)) = progress.filter(|&(_, end)| end > 0) {
                let (life, last) = (incarnation as u32, (end - 1) as u32);
                reached.push(Reached { rank: rank as u16, life, last });
                room -= Reached::BYTES_MIN;
            }
            if let Some(heard) = self.distances.members.get(&node) {
                let held_us = micros(cx.now.since(heard.at));
                echoes.push(Echo { rank: rank as u16, stamp: heard.stamp, held_us });
                room -= Echo::BYTES_MIN;
            }
        }
        // An instant means nothing to others: only this member reads it again.
        let stamp = cx.now.as_nanos();
        let (view, incarnation) = (view.id(), cx.incarnation);
        Session { view, group, incarnation, next, stamp, reached, echoes }
    }

    pub(super) fn receive_session(&mut self, cx: &mut Cx<'_>, from: NodeId, session: &Session) {
        if !self.store.admits(cx, session.group, from) {
            return;
        }
        let config = cx.shared;
        let flow = (session.group, from);
        self.store.has_sent(cx, &config.base, flow, Some(session.incarnation), session.next);
        self.distances.heard(from, session.stamp, cx.now);
        let Some(view) = self.store.view_named(cx, session.view) else { return };
        let own_rank = view.rank(cx.node);
        if let Some(echo) =
            session.echoes.iter().find(|echo| own_rank == Some(usize::from(echo.rank)))
        {
            let held = Duration::from_micros(echo.held_us.into());
            if self.distances.echoed(from, cx.now, echo.stamp, held).is_none() {
                cx.count(counters::ECHO_WRONG, 1);
            }
        }
        for &Reached { rank, life, last } in &session.reached {
            let name = Name { group: session.group, rank, seq: last, checksum: 0 };
            let Some(member) = view.members().get(usize::from(rank)) else {
                cx.count(counters::UNKNOWN_NAME, 1);
                continue;
            };
            let known = self.store.progress(session.group, member.node);
            if member.node == cx.node || known.is_some_and(|known| known.0 as u32 != life) {
                continue;
            }
            // Packets older than this member's range are no sign of a loss.
            if known.is_some_and(|(_, end)| (last.wrapping_sub(end as u32) as i32) < 0) {
                continue;
            }
            if let Some(key) = self.store.find(cx, &config.base, &view, name) {
                self.store.exists(cx, &config.base, key, None);
            }
        }
    }
}

/// In microseconds, at most as many as a message has room for.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
