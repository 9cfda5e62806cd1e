//! C8 and C9: which blocks are freed, which credit is granted, and that no member with data
//! starves: neither an accepted message nor an application that wants to submit one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, Member, NodeId, View, ViewId};
use paceline_proto::group::{Config, Group, Role};

use super::super::offered::Offer;
use super::calm::Calm;
use super::{Broken, Rule};

/// T_fc: in a view that nothing disturbs, a member with data sends a block within this time, if all
/// consume; and it admits something within it, if its application wants to submit. As long as it
/// takes to detect a crash (1.5 s) and to give up on a member that does not answer (2 s), with the
/// defaults.
const ADVANCES_WITHIN: Duration = Duration::from_millis(3500);

/// Credits and stability in all views.
#[derive(Debug)]
pub(super) struct Flows {
    window_blocks: usize,
    window_bytes: usize,
    views: BTreeMap<ViewId, InView>,
    nodes: BTreeMap<NodeId, Node>,
    pub(super) offers: Vec<Offer>,
}

impl Flows {
    pub(super) fn new(config: &Config) -> Flows {
        Flows {
            window_blocks: config.chain().window_blocks(),
            window_bytes: config.chain().window_bytes(),
            views: BTreeMap::new(),
            nodes: BTreeMap::new(),
            offers: Vec::new(),
        }
    }

    /// A node installed a view.
    pub(super) fn note_view(&mut self, view: &Arc<View>) {
        self.views.entry(view.id()).or_insert_with(|| InView::new(view));
    }

    /// A message that ends at `end` was delivered to the application.
    pub(super) fn note_delivery(&mut self, node: NodeId, view: ViewId, origin: NodeId, end: u64) {
        if let Some(row) = self.row(node, view, origin) {
            row.ends.push_back(end);
        }
    }

    /// The application is done with what ends at `end` or before.
    pub(super) fn note_consumed(&mut self, node: NodeId, view: ViewId, origin: NodeId, end: u64) {
        let Some(row) = self.row(node, view, origin) else { return };
        while row.ends.front().is_some_and(|&front| front <= end) {
            row.consumed = row.ends.pop_front().expect("looked at above");
        }
    }

    fn row(&mut self, node: NodeId, view: ViewId, origin: NodeId) -> Option<&mut Row> {
        let in_view = self.views.get_mut(&view)?;
        let (rank, origin) = (in_view.view.rank(node)?, in_view.view.rank(origin)?);
        Some(&mut in_view.rows(rank)[origin])
    }

    /// Up to where a member has freed the blocks of an origin in this view, if it has come so far.
    pub(super) fn freed(&self, node: NodeId, view: ViewId, origin: usize) -> u64 {
        let row = || {
            let view = self.nodes.get(&node)?.view.as_ref().filter(|known| known.id() == view)?;
            let rows = self.views.get(&view.id())?.rows.get(view.rank(node)?)?;
            rows.get(origin).map(|row| row.freed)
        };
        row().unwrap_or(0)
    }

    pub(super) fn after_call(
        &mut self,
        at: Instant,
        node: NodeId,
        group: &Group,
        admission: usize,
        calm: &Calm,
    ) -> Result<(), Broken> {
        let (chain, view) = (group.chain(), group.view());
        let is_member = matches!(group.role(), Role::Member | Role::Leaving);
        let rank = view.rank(node).filter(|_| is_member && chain.view().id() == view.id());
        let Some(rank) = rank else {
            self.nodes.remove(&node);
            return Ok(());
        };
        let in_view = self.views.entry(view.id()).or_insert_with(|| InView::new(view));
        if in_view.view.len() != view.len() {
            return Ok(()); // Two views of one number: another rule's.
        }
        let state = self.nodes.entry(node).or_default();
        let incarnation = group.member().incarnation;
        let is_same = state.view.as_ref().is_some_and(|known| known.id() == view.id())
            && state.incarnation == incarnation;
        if !is_same {
            *state = Node { incarnation, view: Some(view.clone()), ..Node::default() };
            in_view.changed_at = at;
        }
        if state.is_frozen != chain.is_frozen() {
            state.is_frozen = chain.is_frozen();
            in_view.changed_at = at;
        }
        for ((origin, freed, received), (_, credit)) in chain.origins().zip(chain.credits()) {
            let row = &mut in_view.rows(rank)[origin];
            (row.received, row.credit) = (received, credit);
            row.check_credit(origin)?;
            if freed > row.freed {
                row.freed = freed;
                in_view.check_freed(origin, freed)?;
            }
        }
        in_view.check_window(rank, group, self.window_blocks, self.window_bytes)?;
        let sent = chain.blocks_sent();
        let is_open = !chain.is_frozen() && group.has_primary();
        let is_offered = Offer::is_made(&self.offers, at, node);
        state.note_waiting(at, is_open && chain.messages_waiting() > 0, sent);
        state.note_closed(at, is_open && is_offered && admission == 0);
        let Some(quiet_since) = calm.quiet_since() else { return Ok(()) };
        let calm_since = quiet_since.max(in_view.changed_at);
        let too_long = |since: &Instant| at.since((*since).max(calm_since)) > ADVANCES_WITHIN;
        let waiting_since = state.waiting.map(|(_, since)| since).filter(too_long);
        let closed_since = state.closed_since.filter(too_long);
        let what = match (waiting_since, closed_since) {
            (None, None) => return Ok(()),
            (Some(since), _) => {
                format!("{} messages wait since {since}", chain.messages_waiting())
            }
            (None, Some(since)) => {
                format!("wants to submit and has been admitted nothing since {since}")
            }
        };
        if !self.have_consumed(view, group.member()) {
            return Ok(());
        }
        let what = format!(
            "{what}, {sent} blocks sent, {} in flight, though all consume and nothing is wrong",
            chain.blocks_in_flight()
        );
        Err((Rule::Flow, what))
    }

    /// True if the applications of all members of this view have consumed every delivery from this
    /// origin, in earlier views too.
    fn have_consumed(&self, view: &View, origin: Member) -> bool {
        let is_in = |other: &View, member: Member| {
            other.rank(member.node).filter(|&rank| other.members()[rank] == member)
        };
        self.views.range(..=view.id()).all(|(_, in_view)| {
            let Some(origin) = is_in(&in_view.view, origin) else { return true };
            view.members().iter().all(|&reader| {
                let rows = is_in(&in_view.view, reader).map(|rank| &in_view.rows[rank]);
                rows.and_then(|rows| rows.get(origin)).is_none_or(|row| row.ends.is_empty())
            })
        })
    }
}

/// What one member has of one origin.
#[derive(Clone, Debug, Default)]
struct Row {
    received: u64,
    credit: u64,
    freed: u64,
    consumed: u64,
    // Where the messages end that were delivered and not consumed.
    ends: VecDeque<u64>,
}

impl Row {
    /// A member issues credit for what its application consumed, and beyond that only for what
    /// waits to become a whole message.
    fn check_credit(&self, origin: usize) -> Result<(), Broken> {
        let Row { credit, received, consumed, ref ends, .. } = *self;
        // Of the messages of one block all but the last end where those before the block do.
        let first = ends.iter().find(|&&end| end > consumed);
        let has_overdrawn = first.is_some_and(|&end| credit >= end);
        if credit > received || credit < consumed || has_overdrawn {
            let what = format!(
                "grants rank {origin} credit for {credit} blocks, with {received} received, \
                 {consumed} consumed, and the next message to consume ending at {first:?}"
            );
            return Err((Rule::Flow, what));
        }
        Ok(())
    }
}

/// A view and what its members have in it.
#[derive(Debug)]
struct InView {
    view: Arc<View>,
    // By member's rank, then by origin's; empty for a member that has not come yet.
    rows: Vec<Vec<Row>>,
    // By origin. No member has less, as far as was looked.
    received_lowest: Vec<u64>,
    credit_lowest: Vec<u64>,
    // When a member last came, or heard that the view ends.
    changed_at: Instant,
}

impl InView {
    fn new(view: &Arc<View>) -> InView {
        InView {
            view: view.clone(),
            rows: vec![Vec::new(); view.len()],
            received_lowest: vec![0; view.len()],
            credit_lowest: vec![0; view.len()],
            changed_at: Instant::ZERO,
        }
    }

    /// The member's rows, made when it comes.
    fn rows(&mut self, rank: usize) -> &mut Vec<Row> {
        let members = self.view.len();
        let rows = &mut self.rows[rank];
        if rows.is_empty() {
            rows.resize(members, Row::default());
        }
        rows
    }

    fn lowest(&self, origin: usize, of: impl Fn(&Row) -> u64) -> u64 {
        self.rows.iter().map(|rows| rows.get(origin).map_or(0, &of)).min().unwrap_or(0)
    }

    /// C8: what a member frees, all members have.
    fn check_freed(&mut self, origin: usize, freed: u64) -> Result<(), Broken> {
        if freed > self.received_lowest[origin] {
            self.received_lowest[origin] = self.lowest(origin, |row| row.received);
        }
        let lowest = self.received_lowest[origin];
        if freed > lowest {
            let what =
                format!("freed blocks of rank {origin} below {freed}, a member has {lowest}");
            return Err((Rule::Bounds, what));
        }
        Ok(())
    }

    /// C8, C9: of an origin's blocks each is consumed by all or in flight; what is in flight fits
    /// the window; and none is taken for consumed for which a member gave no credit.
    fn check_window(
        &mut self,
        rank: usize,
        group: &Group,
        window_blocks: usize,
        window_bytes: usize,
    ) -> Result<(), Broken> {
        let chain = group.chain();
        let (sent, consumed) = (chain.blocks_sent(), chain.blocks_consumed());
        let (blocks, bytes) = (chain.blocks_in_flight(), chain.bytes_in_flight());
        if blocks > window_blocks || bytes > window_bytes {
            let what = format!("{blocks} blocks of {bytes} bytes in flight, beyond the window");
            return Err((Rule::Bounds, what));
        }
        if sent != consumed + blocks as u64 {
            let what =
                format!("{sent} blocks sent, but {blocks} in flight and {consumed} consumed");
            return Err((Rule::Flow, what));
        }
        if consumed > self.credit_lowest[rank] {
            self.credit_lowest[rank] = self.lowest(rank, |row| row.credit);
            let lowest = self.credit_lowest[rank];
            if consumed > lowest {
                let what =
                    format!("takes {consumed} blocks for consumed, a member granted {lowest}");
                return Err((Rule::Flow, what));
            }
        }
        Ok(())
    }
}

/// A member, in its present view.
#[derive(Debug, Default)]
struct Node {
    incarnation: u64,
    view: Option<Arc<View>>,
    is_frozen: bool,
    // It has messages that wait: how many blocks it had sent, and since when.
    waiting: Option<(u64, Instant)>,
    // Since when its application wants to submit and nothing is admitted.
    closed_since: Option<Instant>,
}

impl Node {
    /// Messages wait or not, and the member has sent `sent` blocks.
    fn note_waiting(&mut self, at: Instant, is_waiting: bool, sent: u64) {
        self.waiting = match self.waiting {
            _ if !is_waiting => None,
            Some((before, since)) if before == sent => Some((sent, since)),
            _ => Some((sent, at)),
        };
    }

    /// The application wants to submit and nothing is admitted, or that is not so.
    fn note_closed(&mut self, at: Instant, is_closed: bool) {
        self.closed_since = is_closed.then(|| self.closed_since.unwrap_or(at));
    }
}
