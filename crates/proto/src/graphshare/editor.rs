//! A client's changes to a graph: each is made at the vertex's server, in order, despite losses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::graph::Vertex;
use super::interface::{Edit, EditError, GraphEvent};
use super::message::{EDITS_MAX, GraphMessage};
use super::part::EditOutcome;
use super::rows::VertexChange;
use super::{Host, LocalPart, send};
use crate::core::{Context, Instant, Lane, NodeId};

/// After what time a server is asked again that has not answered.
const RESEND_AFTER: Duration = Duration::from_millis(500);
/// How long to wait for a vertex that is on its way.
const BUSY_WAIT: Duration = Duration::from_millis(5);
/// How long edits may take in all, without any that is done.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// The edits of this node's application.
#[derive(Debug, Default)]
pub(super) struct Editor {
    /// Calls of the application, served one after the other.
    queue: VecDeque<(u64, Vec<Edit>)>,
    present: Option<Call>,
    /// The number of the latest request.
    number: u64,
}

/// The call of the application that is in progress.
#[derive(Debug)]
struct Call {
    id: u64,
    edits: Vec<Edit>,
    results: Vec<Option<Result<u32, EditError>>>,
    left: usize,
    /// Edits that are not yet requested, in their order.
    pending: BTreeSet<usize>,
    /// Requests that are under way, by server.
    open: BTreeMap<NodeId, EditRequest>,
    progressed: Instant,
    /// Until when nothing is asked, for the sake of vertices on their way.
    paused: Instant,
}

#[derive(Debug)]
struct EditRequest {
    number: u64,
    edits: Vec<usize>,
    sent: Instant,
}

impl Editor {
    /// The application wants changes.
    pub(super) fn submit<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &LocalPart,
        id: u64,
        edits: Vec<Edit>,
    ) {
        self.queue.push_back((id, edits));
        self.advance(cx, local);
    }

    /// A server says what became of edits.
    pub(super) fn on_edited<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &mut LocalPart,
        from: NodeId,
        number: u64,
        outcomes: &[EditOutcome],
    ) {
        let Some(present) = &mut self.present else { return };
        let is_it = |request: &EditRequest| {
            request.number == number && request.edits.len() == outcomes.len()
        };
        if !present.open.get(&from).is_some_and(is_it) {
            return;
        }
        let edits = present.open.remove(&from).map_or(Vec::new(), |request| request.edits);
        for (edit, outcome) in edits.into_iter().zip(outcomes) {
            let (vertex, change) = present.edits[edit];
            let result = match *outcome {
                EditOutcome::Done(version) => Ok(version),
                EditOutcome::Refused(fault) => Err(EditError::Refused(fault)),
                EditOutcome::Elsewhere(owner, epoch) => {
                    local.part.learn(vertex, owner, epoch, local.bytes_max);
                    match change {
                        VertexChange::Move { to }
                            if local.part.servers().get(usize::from(to)) == Some(&owner) =>
                        {
                            Ok(epoch)
                        }
                        _ => {
                            present.pending.insert(edit);
                            present.paused = cx.now + BUSY_WAIT;
                            continue;
                        }
                    }
                }
                EditOutcome::Busy => {
                    present.pending.insert(edit);
                    present.paused = cx.now + BUSY_WAIT;
                    continue;
                }
            };
            if let VertexChange::Set { to, .. } = change {
                local.part.reach(to.max(vertex));
            }
            present.results[edit] = Some(result);
            present.left -= 1;
            present.progressed = cx.now;
        }
        self.advance(cx, local);
    }

    /// Requests edits that are due, reports those that are done, gives up those that take too long.
    pub(super) fn advance<H: Host>(&mut self, cx: &mut Context<'_, H>, local: &LocalPart) {
        loop {
            self.begin_next(cx.now);
            let Some(present) = &mut self.present else { return };
            let is_over = cx.now.since(present.progressed) >= GIVE_UP_AFTER;
            if present.left > 0 && !is_over {
                break;
            }
            let present = self.present.take().expect("it was there");
            let unanswered = |edit: usize| {
                let owner = local.part.owner(present.edits[edit].0);
                owner.map_or(Err(EditError::NoGraph), |owner| Err(EditError::Unanswered(owner)))
            };
            let results = (0..).zip(present.results);
            let results = results.map(|(edit, result)| result.unwrap_or_else(|| unanswered(edit)));
            cx.deliver(H::graph_event(GraphEvent::Edited(present.id, results.collect())));
        }
        self.request_edits(cx, local);
    }

    fn request_edits<H: Host>(&mut self, cx: &mut Context<'_, H>, local: &LocalPart) {
        let plan = local.plan;
        if self.number == 0 {
            // Another one than in a former life of this node.
            self.number = cx.rng.next_u64();
        }
        let Editor { present: Some(present), number, .. } = self else { return };
        let message = |number, edits: &[usize], all: &[Edit]| {
            let edits = edits.iter().map(|&edit| all[edit]).collect();
            GraphMessage::Edits(number, edits)
        };
        for (&server, request) in &mut present.open {
            if cx.now.since(request.sent) >= RESEND_AFTER {
                request.sent = cx.now;
                let message = message(request.number, &request.edits, &present.edits);
                send(cx, server, Lane::Stream, plan, message);
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
            let Some(owner) = local.part.owner(vertex) else { continue };
            if present.open.contains_key(&owner) || asked.contains(&vertex) {
                continue;
            }
            let request = requests.entry(owner).or_default();
            if request.len() < EDITS_MAX {
                request.push(edit);
                full += usize::from(request.len() == EDITS_MAX);
            }
            if full == local.part.servers().len() {
                break;
            }
        }
        for (server, edits) in requests {
            *number = number.wrapping_add(1);
            present.pending.retain(|edit| edits.binary_search(edit).is_err());
            send(cx, server, Lane::Stream, plan, message(*number, &edits, &present.edits));
            present.open.insert(server, EditRequest { number: *number, edits, sent: cx.now });
        }
    }

    /// True while edits are in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.present.is_some()
    }

    /// When the editor must act next.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let present = self.present.as_ref()?;
        let again = present.open.values().map(|request| request.sent + RESEND_AFTER).min();
        let paused =
            (!present.pending.is_empty() && present.paused > now).then_some(present.paused);
        [again, paused, Some(present.progressed + GIVE_UP_AFTER)].into_iter().flatten().min()
    }

    fn begin_next(&mut self, now: Instant) {
        if self.present.is_some() {
            return;
        }
        let Some((id, edits)) = self.queue.pop_front() else { return };
        let count = edits.len();
        self.present = Some(Call {
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
