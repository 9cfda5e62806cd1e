//! A client's changes to a graph: each is made at the vertex's server, in order, despite losses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::Server;
use super::interface::{Edit, EditError, Event};
use super::message::Message;
use crate::core::{Context, Instant, Lane, NodeId};
use crate::graphshare::{Change, EDITS_MAX, Outcome, Upkeep, Vertex};

/// After what time a server is asked again that has not answered.
const AGAIN: Duration = Duration::from_millis(500);
/// How long to wait for a vertex that is on its way.
const BUSY: Duration = Duration::from_millis(5);
/// How long edits may take in all, without any that is done.
const GIVEN_UP: Duration = Duration::from_secs(30);

type Cx<'a> = Context<'a, Server>;

/// A client's requests to change rows.
#[derive(Debug, Default)]
pub(super) struct Editor {
    /// Requests of the application, served one after the other.
    queue: VecDeque<(u64, Vec<Edit>)>,
    present: Option<Present>,
    /// The number of the latest request.
    number: u64,
}

/// The request in progress.
#[derive(Debug)]
struct Present {
    id: u64,
    edits: Vec<Edit>,
    results: Vec<Option<Result<u32, EditError>>>,
    left: usize,
    /// Edits that are not yet requested, in their order.
    pending: BTreeSet<usize>,
    /// Requests that are under way, by server.
    open: BTreeMap<NodeId, Request>,
    progressed: Instant,
    /// Until when nothing is asked, for the sake of vertices on their way.
    paused: Instant,
}

#[derive(Debug)]
struct Request {
    number: u64,
    edits: Vec<usize>,
    sent: Instant,
}

impl Editor {
    /// True while edits are in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.present.is_some()
    }

    /// When the editor must act next.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let present = self.present.as_ref()?;
        let again = present.open.values().map(|request| request.sent + AGAIN).min();
        let paused =
            (!present.pending.is_empty() && present.paused > now).then_some(present.paused);
        [again, paused, Some(present.progressed + GIVEN_UP)].into_iter().flatten().min()
    }

    fn begin_next(&mut self, now: Instant) {
        if self.present.is_some() {
            return;
        }
        let Some((id, edits)) = self.queue.pop_front() else { return };
        let count = edits.len();
        self.present = Some(Present {
            id,
            results: vec![None; count],
            left: count,
            pending: (0..count).collect(),
            edits,
            open: BTreeMap::new(),
            progressed: now,
            paused: now,
        });
    }
}

impl Server {
    /// The application wants changes.
    pub(super) fn edit(&mut self, cx: &mut Cx<'_>, id: u64, edits: Vec<Edit>) {
        self.editor.queue.push_back((id, edits));
        self.look_after_edits(cx);
    }

    /// A server says what became of edits.
    pub(super) fn on_edited(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u64,
        outcomes: &[Outcome],
    ) {
        let bytes_max = self.graph_bytes_max();
        let Some(present) = &mut self.editor.present else { return };
        let is_it =
            |request: &Request| request.number == number && request.edits.len() == outcomes.len();
        if !present.open.get(&from).is_some_and(is_it) {
            return;
        }
        let edits = present.open.remove(&from).map_or(Vec::new(), |request| request.edits);
        for (edit, outcome) in edits.into_iter().zip(outcomes) {
            let (vertex, change) = present.edits[edit];
            let result = match *outcome {
                Outcome::Done(version) => Ok(version),
                Outcome::Refused(fault) => Err(EditError::Refused(fault)),
                Outcome::Elsewhere(owner, epoch) => {
                    self.part.learn(vertex, owner, epoch, bytes_max);
                    match change {
                        Change::Move { to }
                            if self.part.servers().get(usize::from(to)) == Some(&owner) =>
                        {
                            Ok(epoch)
                        }
                        _ => {
                            present.pending.insert(edit);
                            present.paused = cx.now + BUSY;
                            continue;
                        }
                    }
                }
                Outcome::Busy => {
                    present.pending.insert(edit);
                    present.paused = cx.now + BUSY;
                    continue;
                }
            };
            if let Change::Set { to, .. } = change {
                self.part.reach(to.max(vertex));
            }
            present.results[edit] = Some(result);
            present.left -= 1;
            present.progressed = cx.now;
        }
        self.look_after_edits(cx);
    }

    /// Requests edits that are due, reports those that are done, gives up those that take too long.
    pub(super) fn look_after_edits(&mut self, cx: &mut Cx<'_>) {
        loop {
            self.editor.begin_next(cx.now);
            let Some(present) = &mut self.editor.present else { return };
            let is_over = cx.now.since(present.progressed) >= GIVEN_UP;
            if present.left > 0 && !is_over {
                break;
            }
            let present = self.editor.present.take().expect("it was there");
            let unanswered = |edit: usize| {
                let owner = self.part.owner(present.edits[edit].0);
                owner.map_or(Err(EditError::NoGraph), |owner| Err(EditError::Unanswered(owner)))
            };
            let results = (0..).zip(present.results);
            let results = results.map(|(edit, result)| result.unwrap_or_else(|| unanswered(edit)));
            cx.deliver(Event::Edited(present.id, results.collect()));
        }
        self.ask_for_edits(cx);
    }

    fn ask_for_edits(&mut self, cx: &mut Cx<'_>) {
        let plan = self.plan;
        if self.editor.number == 0 {
            // Another one than in a former life of this node.
            self.editor.number = cx.rng.next_u64();
        }
        let Editor { present: Some(present), number, .. } = &mut self.editor else { return };
        let message = |number, edits: &[usize], all: &[Edit]| {
            let edits = edits.iter().map(|&edit| all[edit]).collect();
            Message::Upkeep(plan, Box::new(Upkeep::Edits(number, edits)))
        };
        for (&server, request) in &mut present.open {
            if cx.now.since(request.sent) >= AGAIN {
                request.sent = cx.now;
                let message = message(request.number, &request.edits, &present.edits);
                cx.send(server, Lane::Stream, message);
            }
        }
        if present.pending.is_empty() || present.paused > cx.now {
            return;
        }
        // What is under way for a vertex comes first.
        let asked = present.open.values().flat_map(|request| &request.edits);
        let asked: BTreeSet<Vertex> = asked.map(|&edit| present.edits[edit].0).collect();
        let mut requests: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        let mut full = present.open.len();
        for &edit in &present.pending {
            let vertex = present.edits[edit].0;
            let Some(owner) = self.part.owner(vertex) else { continue };
            if present.open.contains_key(&owner) || asked.contains(&vertex) {
                continue;
            }
            let request = requests.entry(owner).or_default();
            if request.len() < EDITS_MAX {
                request.push(edit);
                full += usize::from(request.len() == EDITS_MAX);
            }
            if full == self.part.servers().len() {
                break;
            }
        }
        for (server, edits) in requests {
            *number = number.wrapping_add(1);
            present.pending.retain(|edit| edits.binary_search(edit).is_err());
            cx.send(server, Lane::Stream, message(*number, &edits, &present.edits));
            present.open.insert(server, Request { number: *number, edits, sent: cx.now });
        }
    }
}
