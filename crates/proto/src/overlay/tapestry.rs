use std::ops::Range;

use super::cells::Cells;
use super::oracle::parts;
use super::pastry::cell_of;
use super::{
    Algorithm, Hop, Key, Router, RouterAction, Space, Step, TableQuery, Walk, keep_nearest,
};
use crate::core::NodeId;

/// Nodes in a cell of the routing table.
const CELL: usize = 4;
/// Copies of a key whose holders a right table knows exactly.
const HOLDERS: usize = 8;
/// Nodes in one answer.
const ANSWER: usize = 192;
/// Turns of upkeep in which each node of the table is asked once.
const TURNS_A_SWEEP: u64 = 32;
/// Nodes tried at a time for a cell that has one already.
const SPARES_A_TIME: usize = 2;

/// Tapestry: prefix routing without a leaf set. Where no node has the key's next digit, the next
/// higher one that some node has stands in for it, round from f to 0: surrogate routing.
///
/// Row r holds, for each digit, up to four nodes that share the first r digits and go on with that
/// one: the first is used, the others stand by. An empty cell says that there is no such node, so a
/// joiner makes itself known to all nodes that share as many digits with it as any: it finds them
/// because they are those it needs itself. Source: Zhao et al., *Tapestry: A Resilient Global-scale
/// Overlay for Service Deployment*, IEEE Journal on Selected Areas in Communications 22(1), 2004;
/// Hildrum et al., *Distributed Object Location in a Dynamic Network*, SPAA 2002. Nodes have no
/// distance but that of keys; the first of a cell is the one that is most like this node beyond the
/// digit.
///
/// The order of digits that surrogate routing tries is a distance, compared place by place. Each
/// hop lessens it, even if tables are wrong. The second copy of a key is with the node that would
/// be responsible without the first, and so on. To know these, the rows next to this node are kept
/// in full: a row is not limited to four nodes in a cell while fewer than eight nodes, this one
/// among them, share more digits.
#[derive(Clone, Debug)]
pub struct Tapestry {
    space: Space,
    own: NodeId,
    /// By digits shared, by the next digit, then by likeness.
    cells: Cells,
}

impl Tapestry {
    /// The table of a node that knows no other yet.
    pub fn new(space: Space, own: NodeId) -> Tapestry {
        Tapestry { space, own, cells: Cells::default() }
    }

    /// The routing table, row after row.
    pub fn entries(&self) -> &[NodeId] {
        self.cells.all()
    }

    fn key(&self) -> Key {
        self.space.key(self.own)
    }

    fn cell_of(&self) -> impl Fn(NodeId) -> u16 + use<> {
        cell_of(self.space, self.own)
    }

    // How unlike this node another of the cell is: the distance from this node's key with the
    // cell's digit.
    fn unlikeness(&self, cell: u16) -> impl Fn(NodeId) -> Key + use<> {
        let (row, digit) = (u32::from(cell / 16), (cell % 16) as u8);
        let (space, target) = (self.space, self.key().with_digit(row, digit));
        move |node| {
            let key = space.key(node);
            target.clockwise_to(key).min(key.clockwise_to(target))
        }
    }

    fn row(&self, row: u16) -> Range<usize> {
        self.cells.range(row * 16..row * 16 + 16, self.cell_of())
    }

    // The number of rows, up to the last one that is not empty.
    fn rows(&self) -> u16 {
        let cell_of = self.cell_of();
        self.cells.all().last().map_or(0, |&node| cell_of(node) / 16 + 1)
    }

    // The number of nodes, this one included, that share more digits than the nodes of a row.
    fn alike(&self, row: u16) -> usize {
        1 + self.cells.all().len() - self.row(row).end
    }

    // Where a message goes, and the key up to which all others go there too.
    fn route(&self, key: Key) -> (Option<(u16, NodeId)>, Key) {
        let (own, cell_of) = (self.key(), self.cell_of());
        let rows = self.rows();
        let mut row = own.digits_shared(key) as u16;
        // In rows that are not there, this node is alone with its prefix, and any digit leads here.
        let mut end = key.last_of_prefix(4 * u32::from(rows));
        while row < rows {
            let place = u32::from(row);
            let (first, wanted) = (row * 16, u16::from(key.digit(place)));
            let in_row = |&(cell, _): &(u16, NodeId)| cell / 16 == row;
            let ahead = self.cells.first_from(first + wanted, &cell_of).filter(in_row);
            let other = ahead.or_else(|| self.cells.first_from(first, &cell_of).filter(in_row));
            let steps = |digit: u16| (digit + 16 - wanted) % 16;
            let mine = u16::from(own.digit(place));
            let hop = other.filter(|&(cell, _)| steps(cell % 16) < steps(mine));
            // All digits up to the one that was taken lead to it.
            let taken = hop.map_or(mine, |(cell, _)| cell % 16);
            let last = if taken < wanted { 0xf } else { taken as u8 };
            if hop.is_some() || row + 1 == rows {
                end = key.with_digit(place, last).last_of_prefix(4 * (place + 1));
            }
            if hop.is_some() {
                return (hop, end);
            }
            row += 1;
        }
        (None, end)
    }

    // Puts a node where it belongs, if there is room or it is more alike than another.
    fn add(&mut self, node: NodeId) {
        let cell_of = self.cell_of();
        let cell = cell_of(node);
        let range = self.cells.range(cell..cell + 1, &cell_of);
        let nodes = &self.cells.all()[range.clone()];
        if node == self.own || nodes.contains(&node) {
            return;
        }
        let unlikeness = self.unlikeness(cell);
        let mine = unlikeness(node);
        let place = nodes.partition_point(|&other| unlikeness(other) < mine);
        let row = cell / 16;
        if place >= CELL && self.alike(row) >= HOLDERS {
            return;
        }
        self.cells.insert(range.start + place, node);
        if self.alike(row) >= HOLDERS {
            self.trim(cell);
        }
        for above in (0..row).rev() {
            // A row that was kept in full until now, because too few nodes shared more digits.
            if self.alike(above) == HOLDERS {
                (above * 16..above * 16 + 16).for_each(|cell| self.trim(cell));
            }
        }
    }

    fn trim(&mut self, cell: u16) {
        let range = self.cells.range(cell..cell + 1, self.cell_of());
        self.cells.remove(range.end.min(range.start + CELL)..range.end);
    }

    // A node that another one named may have failed: contact it before adding it. Wanted are all
    // nodes of rows kept in full, the first node of each cell, and some spares of one row.
    fn consider(
        &self,
        from: NodeId,
        nodes: &[NodeId],
        spare: Option<u8>,
        out: &mut Vec<RouterAction>,
    ) {
        let cell_of = self.cell_of();
        // Search a list of cells, which needs no keys: most named nodes are known already.
        let cells: Vec<u16> = self.cells.all().iter().map(|&node| cell_of(node)).collect();
        let place = |cell: u16| cells.partition_point(|&other| other < cell);
        let is_known = |cell: u16, node: NodeId| {
            let start = place(cell);
            let len = cells[start..].iter().take_while(|&&other| other == cell).count();
            self.cells.all()[start..start + len].contains(&node)
        };
        let others = nodes.iter().filter(|&&node| node != self.own);
        let mut new: Vec<_> = others.map(|&node| (cell_of(node), node)).collect();
        new.retain(|&(cell, node)| !is_known(cell, node));
        new.sort_unstable();
        new.dedup();
        for cell in new.chunk_by(|a, b| a.0 == b.0) {
            let (at, row) = (cell[0].0, cell[0].0 / 16);
            let room = CELL.saturating_sub(place(at + 1) - place(at));
            // While joining, what others know counts as well: the rows to keep in full are those
            // next to this node, not those that happen to come first.
            let below = (row + 1) * 16;
            let new_below = new.len() - new.partition_point(|entry| entry.0 < below);
            let is_full = 1 + cells.len() - place(below) + new_below < HOLDERS;
            let wanted = if is_full {
                cell.len()
            } else if spare.is_some_and(|spare| u16::from(spare) == row) {
                room.min(SPARES_A_TIME)
            } else {
                usize::from(room == CELL)
            };
            let query = if is_full {
                TableQuery::Row(row as u8, self.key())
            } else {
                TableQuery::Neighbours
            };
            let asked = cell.iter().filter(|&&(_, node)| node != from).take(wanted);
            out.extend(asked.map(|&(_, node)| RouterAction::Ask(node, query)));
        }
    }
}

impl Router for Tapestry {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Tapestry
    }

    fn next_hop(&self, key: Key, _walk: &mut Walk) -> Step {
        let (hop, until) = self.route(key);
        Step { hop: hop.map_or(Hop::Here, |(_, node)| Hop::Via(node)), until }
    }

    fn candidates(&self, key: Key, _walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        if let (Some((cell, _)), _) = self.route(key) {
            out.extend(self.cells.cell(cell, self.cell_of()).iter().take(count));
        }
    }

    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        // From the row where this node and the key diverge, a node that shares more digits with
        // this node is nearer than the nodes of an earlier row.
        let mut row = (self.key().digits_shared(key) as u16).min(self.rows());
        while row > 0 && 1 + self.cells.all().len() - self.row(row).start < count {
            row -= 1;
        }
        out.push(self.own);
        out.extend(&self.cells.all()[self.row(row).start..]);
        keep_nearest(Algorithm::Tapestry, &self.space, key, count, start, out);
    }

    fn learn(&mut self, node: NodeId) -> Option<NodeId> {
        self.add(node);
        None
    }

    fn forget(&mut self, node: NodeId) {
        if let Some(at) = self.cells.all().iter().position(|&entry| entry == node) {
            self.cells.remove(at..at + 1);
        }
    }

    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>) {
        let entries = self.cells.all();
        // The nodes of rows kept in full keep the same row in full, so they need a new node too.
        if turn == 0 {
            let full = (0..self.rows()).filter(|&row| self.alike(row) < HOLDERS);
            let nodes = full.flat_map(|row| &entries[self.row(row)]);
            out.extend(nodes.map(|&node| RouterAction::Notify(node)));
        }
        let cell_of = self.cell_of();
        let mut ask = |place: usize, round: u64| {
            let node = entries[place];
            let row = cell_of(node) / 16;
            // It has the same rows up to the one that it is in, and all nodes of that row are of
            // use.
            let rows = u64::from(row) + u64::from(self.alike(row) < HOLDERS);
            out.push(match round.checked_rem(rows) {
                Some(row) => RouterAction::Ask(node, TableQuery::Row(row as u8, self.key())),
                None => RouterAction::Ask(node, TableQuery::Neighbours),
            });
        };
        // One sweep, and one more node in turn, whose rows are requested in turn.
        let (first, sweep) = ((turn % TURNS_A_SWEEP) as usize, TURNS_A_SWEEP as usize);
        (first..entries.len()).step_by(sweep).for_each(|place| ask(place, turn / TURNS_A_SWEEP));
        let len = entries.len() as u64;
        if len > 0 {
            ask(((turn + TURNS_A_SWEEP / 2) % len) as usize, turn / len + turn);
        }
    }

    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>) {
        match query {
            TableQuery::Row(row, key) => {
                let shared = self.key().digits_shared(key);
                let entries = match u32::from(row) {
                    row if row > shared => return,
                    // The nodes of later rows are in the asker's row too.
                    row if row == shared => self.row(row as u16).start..self.cells.all().len(),
                    row => self.row(row as u16),
                };
                out.extend(self.cells.all()[entries].iter().take(ANSWER));
            }
            TableQuery::Neighbours => self.replicas(self.key(), HOLDERS, out),
            TableQuery::Nearest(key) => self.replicas(key, HOLDERS, out),
        }
    }

    fn on_answer(
        &mut self,
        from: NodeId,
        query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        let spare = if let TableQuery::Row(row, _) = query { Some(row) } else { None };
        self.consider(from, nodes, spare, out);
    }

    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>) {
        if key == self.key() && node != self.own {
            // It shares the first digits, so its first rows are this node's as well.
            let shared = key.digits_shared(self.space.key(node));
            out.extend(
                (0..=shared).map(|row| RouterAction::Ask(node, TableQuery::Row(row as u8, key))),
            );
        }
    }

    fn on_notify(&mut self, by: NodeId, _out: &mut Vec<RouterAction>) {
        self.learn(by);
    }

    fn has_joined(&self) -> bool {
        !self.cells.all().is_empty()
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        out.extend(self.cells.all());
    }

    fn fill(&mut self, ring: &[(Key, NodeId)]) {
        let own = self.key();
        let mut entries = Vec::new();
        let (mut outer, mut row) = (ring, 0);
        while outer.len() > 1 && row < Key::DIGITS {
            let is_own = |cell: &&[(Key, NodeId)]| cell[0].0.digit(row) == own.digit(row);
            let inner = parts(outer, row).find(is_own).unwrap_or_default();
            let room = if inner.len() < HOLDERS { usize::MAX } else { CELL };
            for cell in parts(outer, row).filter(|cell| !is_own(cell)) {
                let target = own.with_digit(row, cell[0].0.digit(row));
                nearest_first(cell, target, room, &mut entries);
            }
            (outer, row) = (inner, row + 1);
        }
        self.cells.replace(entries);
    }

    fn heap_bytes(&self) -> usize {
        self.cells.heap_bytes()
    }
}

// The nodes nearest to a key, of some sorted ones around it.
fn nearest_first(nodes: &[(Key, NodeId)], to: Key, count: usize, out: &mut Vec<NodeId>) {
    let mut above = nodes.partition_point(|&(key, _)| key < to);
    let mut below = above;
    for _ in 0..count.min(nodes.len()) {
        let is_above =
            above < nodes.len() && (below == 0 || nodes[above].0 - to <= to - nodes[below - 1].0);
        if is_above {
            out.push(nodes[above].1);
            above += 1;
        } else {
            below -= 1;
            out.push(nodes[below].1);
        }
    }
}
