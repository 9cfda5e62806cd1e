//! Walkers that come from other nodes: which of them are let in.

use std::sync::Arc;

use smallvec::SmallVec;

use super::counters;
use super::homes::{AdmitError, HomeId, credit_of};
use super::message::{DETOURS_MAX, Head, MESSAGE_BYTES_MAX, Traveller};
use super::prefetch;
use super::walker::NOWHERE;
use super::{JobOf, QueuedWalker, Server};
use crate::core::{Context, CounterId, Instant, NodeId};
use crate::graphshare::Vertex;

impl Server {
    /// Walkers come from another node.
    pub(super) fn on_walkers(
        &mut self,
        cx: &mut Context<'_, Server>,
        from: NodeId,
        head: &Arc<Head>,
        walkers: SmallVec<[Traveller; 1]>,
    ) {
        self.census.arrived += walkers.len() as u64;
        if head.plan != self.graph.plan() {
            // The server has restarted, or another client has supplied another graph.
            self.refuse(cx, counters::WALKER_OF_OTHER_GRAPH, walkers.len());
            return self.graph.say_other_graph(cx, head.home, head.plan);
        }
        if head.kind.check(self.graph.part().is_labelled()).is_err() {
            return self.refuse(cx, counters::WALKER_REFUSED, walkers.len());
        }
        let home = match self.admit(cx.now, from, head) {
            Ok(home) => home,
            Err(counter) => return self.refuse(cx, counter, walkers.len()),
        };
        prefetch::owners(self.graph.part(), walkers.iter().map(|come| &come.walker));
        let mut misled: SmallVec<[Vertex; 8]> = SmallVec::new();
        for mut traveller in walkers {
            if !self.is_plausible(head, &traveller) {
                self.refuse(cx, counters::WALKER_REFUSED, 1);
                continue;
            }
            // A walker that was sent for other edges than those where it is says so by its
            // candidate.
            let here = self.graph.part().owner(traveller.walker.at) == Some(cx.node);
            let asks = traveller.walker.candidate != NOWHERE;
            let vertex = match asks && !here {
                true => traveller.walker.previous,
                false => traveller.walker.at,
            };
            // The sender takes this server for the owner.
            if self.graph.part().owner(vertex) != Some(cx.node) {
                misled.push(vertex);
                traveller.detours += 1;
                if traveller.detours > DETOURS_MAX {
                    self.count_lost(cx);
                    continue;
                }
            }
            self.route_arrival(cx, (head, home), traveller, vertex);
        }
        self.graph.say_owners(cx, from, &misled);
    }

    /// A walker that is not among those here goes to where the edges of `vertex` are.
    pub(super) fn route_arrival(
        &mut self,
        cx: &mut Context<'_, Server>,
        (head, home): (&Arc<Head>, HomeId),
        traveller: Traveller,
        vertex: Vertex,
    ) {
        let owner = self.graph.part().owner(vertex);
        if owner != Some(cx.node) {
            return self.depart(cx, owner, JobOf::Arriving(head), traveller);
        }
        let steps = credit_of(&traveller.walker);
        if !self.homes.has_credit(home, steps, self.config.home_steps_max) {
            return self.refuse(cx, counters::WALKER_BEYOND_CREDIT, 1);
        }
        match self.jobs.enter(head) {
            Some(job) => self.enter(cx, QueuedWalker { job, home, traveller }),
            None => self.refuse(cx, counters::JOB_REFUSED, 1),
        }
    }

    /// Walkers that came are not let in.
    pub(super) fn refuse(
        &mut self,
        cx: &mut Context<'_, Server>,
        counter: CounterId,
        walkers: usize,
    ) {
        self.census.refused += walkers as u64;
        cx.count(counter, walkers as u64);
    }

    /// The queue for walkers of this job that `from` sends, or the counter of their refusal.
    /// Walkers come from their home or from a server of the graph: any other node could charge them
    /// to a home that has not started them.
    fn admit(&mut self, now: Instant, from: NodeId, head: &Head) -> Result<HomeId, CounterId> {
        if from != head.home && !self.graph.part().is_server(from) {
            return Err(counters::WALKER_OF_STRANGER);
        }
        if self.graph.part().is_server(head.home) {
            return Ok(HomeId::SERVERS);
        }
        self.homes.admit(head.home, now, from == head.home).map_err(|error| match error {
            AdmitError::TooMany => counters::WALKER_BEYOND_HOMES,
            AdmitError::Silent => counters::WALKER_OF_SILENT_HOME,
        })
    }

    /// True if an honest node could have sent this walker here.
    pub(super) fn is_plausible(&self, head: &Head, traveller: &Traveller) -> bool {
        let Traveller { walker, path, detours, .. } = traveller;
        // Where rows change, there may be vertices that this server does not know yet.
        let vertices = if self.graph.plan() == 0 { self.graph.part().vertices() } else { NOWHERE };
        // Its home would not have begun it if its path fitted no message at the end.
        let steps = u64::from(walker.steps) + u64::from(walker.steps_left);
        let path_bytes = 4 * head.trail.words() as u64 * steps;
        let optional = |vertex| vertex == NOWHERE || vertex < vertices;
        walker.at < vertices
            && optional(walker.previous)
            && optional(walker.candidate)
            && optional(walker.source)
            && *detours <= DETOURS_MAX
            && path_bytes <= MESSAGE_BYTES_MAX as u64
            && path.len() == head.trail.words() * walker.steps as usize
    }
}
