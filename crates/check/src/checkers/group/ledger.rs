use std::collections::BTreeMap;
use std::sync::Arc;

use paceline_proto::core::{Instant, Lane, Member, NodeId, Protocol, View, ViewId, mix};
use paceline_proto::group::{Command, Config, Event, Group, Message, Role};

use super::super::offered::Offer;
use super::super::report::{Report, Violation, rules};
use super::Layers;
use super::calm::Calm;
use super::content::hash;
use super::direct::{DirectLedger, Unread};
use super::endings::Endings;
use super::flow::Flows;
use super::layers::Looks;
use super::lives::Lives;
use super::requests::{RequestLedger, RequestTotals};
use super::transmissions::Transmissions;
use paceline_sim::{Fault, Input, Nodes, Observer, Reply};

rules! {
    /// What a group promises.
    pub enum Rule {
        /// C1: a delivered message was sent by its origin, byte for byte, and is delivered once.
        Integrity => "C1 integrity",
        /// C2: the messages of an origin are delivered in the order in which it sent them, without
        /// gap.
        Fifo => "C2 fifo",
        /// C3: a message is delivered in the view it was sent in; a member's views increase and
        /// contain it.
        Views => "C3 views",
        /// C4: members that go from one view to the next together have delivered the same in it.
        Agreement => "C4 agreement",
        /// C5: once faults are over, every accepted message of a member that stayed is delivered by
        /// every member.
        Validity => "C5 validity",
        /// C7: a hop carries a block once, and again only after its stream broke or a flush asked
        /// for it; nothing circulates, and no frame leaves its view.
        Transmission => "C7 transmission",
        /// C8: held blocks, and delivered ones that are not consumed, stay within the windows; a
        /// member frees a block only when all members have it.
        Bounds => "C8 bounds",
        /// C9: credits add up, and while all consume no member starves: neither a message that was
        /// accepted nor an application that wants to submit one.
        Flow => "C9 flow",
        /// C10: one view follows another, never two.
        Primary => "C10 primary",
        /// V1: no member is excluded that has not failed, stood still or been cut off.
        Exclusion => "V1 exclusion",
        /// V3: all layers of a node are in the same view.
        Layers => "V3 layers",
        /// V4: a node that starts, joins again or comes back has an incarnation never seen before.
        Incarnation => "V4 incarnation",
        /// V6: what all that were asked have accepted is not replaced by something else.
        Adoption => "V6 adoption",
        /// V7: no map by member lacks a member of the view, or keeps one that is gone.
        Maps => "V7 maps",
        /// V1, V5: once faults are over all that want to be members are, in one view.
        Convergence => "V5 convergence",
        /// D1: a message to one member was sent to it, in this incarnation, byte for byte, and is
        /// delivered once.
        DirectIntegrity => "D1 direct integrity",
        /// D2: the messages of one member to another are delivered in the order sent, without gap.
        DirectFifo => "D2 direct fifo",
        /// D3: the sender of a message to one member hears its outcome once, and the true one; the
        /// message is delivered while both stay.
        DirectOutcome => "D3 direct outcome",
        /// R1: a request that an application receives was made to it, in this incarnation, byte for
        /// byte, and is received once.
        RequestIntegrity => "R1 request integrity",
        /// R2: a request ends once, and with the true outcome: a reply is what that member replied
        /// to that request, and a member that is no longer in the view has departed. What timed out
        /// or was cancelled is settled once.
        RequestOutcome => "R2 request outcome",
        /// R3: a request does not time out before its time, nor has it not ended after it.
        RequestTime => "R3 request time",
    }
}

/// A protocol in which a [`Group`] can be found: itself, or what wraps it.
pub trait Host:
    Protocol<Message = Message, Command = Command, Event = Event, Shared = Config> + 'static
{
    /// The node's part in the group.
    fn group(&self) -> &Group;

    /// What its layers hold of the members.
    fn layers(&self) -> Layers {
        Layers::of(self.group())
    }
}

impl Host for Group {
    fn group(&self) -> &Group {
        self
    }
}

/// What one incarnation of a node has seen.
#[derive(Clone, Debug, Default)]
struct Progress {
    incarnation: u64,
    first_view: ViewId,
    view: Option<ViewId>,
    // By origin: the number of the next message.
    next: BTreeMap<(NodeId, u64), usize>,
    // Of what was delivered in the present view, whatever the order of origins.
    digest: u64,
    messages: u64,
}

/// Watches a group from its first view on.
#[derive(Debug)]
pub struct GroupLedger {
    window_bytes: usize,
    // By node and incarnation: the hashes of what was accepted, in order.
    accepted: BTreeMap<(NodeId, u64), Vec<u64>>,
    progress: BTreeMap<NodeId, Progress>,
    views: BTreeMap<ViewId, Vec<Member>>,
    // How a view ended for the first member that went to the next one.
    ends: BTreeMap<ViewId, (u64, u64, NodeId)>,
    // How many messages of an origin were delivered when it began a view: by view and origin.
    starts: BTreeMap<(ViewId, NodeId, u64), usize>,
    // A broadcast is being handed to this node.
    submitting: Option<(NodeId, u64)>,
    direct: DirectLedger,
    requests: RequestLedger,
    // By reader and origin.
    unread: BTreeMap<(NodeId, NodeId, u64), Unread>,
    deliveries: u64,
    held_bytes_max: usize,
    calm: Calm,
    lives: Lives,
    transmissions: Transmissions,
    flows: Flows,
    looks: Looks,
    endings: Endings,
    report: Report<Rule>,
}

impl GroupLedger {
    /// An empty ledger.
    pub fn new(config: &Config) -> GroupLedger {
        GroupLedger {
            window_bytes: config.chain().window_bytes(),
            accepted: BTreeMap::new(),
            progress: BTreeMap::new(),
            views: BTreeMap::new(),
            ends: BTreeMap::new(),
            starts: BTreeMap::new(),
            submitting: None,
            direct: DirectLedger::new(config),
            requests: RequestLedger::new(config),
            unread: BTreeMap::new(),
            deliveries: 0,
            held_bytes_max: 0,
            calm: Calm::default(),
            lives: Lives::new(config),
            transmissions: Transmissions::default(),
            flows: Flows::new(config),
            looks: Looks::default(),
            endings: Endings::default(),
            report: Report::default(),
        }
    }

    /// Applications submit at these times whatever is admitted: their members have to admit
    /// something, in a view that nothing disturbs.
    pub fn with_offers(mut self, offers: Vec<Offer>) -> GroupLedger {
        self.flows.offers = offers;
        self
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Deliveries so far, of all members together.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Deliveries of messages to one member.
    pub fn direct_deliveries(&self) -> u64 {
        self.direct.deliveries
    }

    /// What became of requests.
    pub fn requests(&self) -> RequestTotals {
        self.requests.totals
    }

    /// The views that were installed, with their members.
    pub fn views(&self) -> impl Iterator<Item = (ViewId, &[Member])> {
        self.views.iter().map(|(&id, members)| (id, members.as_slice()))
    }

    /// The most bytes that one member held for others.
    pub fn held_bytes_max(&self) -> usize {
        self.held_bytes_max
    }

    fn break_rule(&mut self, rule: Rule, at: Instant, node: NodeId, what: String) {
        self.report.note(at, node, (rule, what));
    }

    /// The incarnation of the node that the last call has left.
    fn member(&mut self, node: NodeId) -> Member {
        let incarnation = self.progress.entry(node).or_default().incarnation;
        Member { node, incarnation }
    }

    fn note_direct(&mut self, at: Instant, node: NodeId, event: &Event) {
        let Event::Direct { view, from, end, payload } = event else { return };
        let to = self.member(node);
        let in_view = self.progress[&node].view;
        let are_members = self
            .views
            .get(view)
            .is_some_and(|members| members.contains(from) && members.contains(&to));
        if in_view != Some(*view) || !are_members {
            let what = format!("a message of {view} from {from:?} to {to:?} in {in_view:?}");
            self.break_rule(Rule::Views, at, node, what);
        }
        let message = (*end, payload.len(), hash(payload));
        let judged = self.direct.note_delivery(*from, to, message);
        self.report.judge(at, node, judged);
    }

    fn note_view(&mut self, at: Instant, node: NodeId, view: &Arc<View>) {
        let Some(rank) = view.rank(node) else {
            return self.break_rule(Rule::Views, at, node, format!("not in {view:?}"));
        };
        let progress = self.progress.entry(node).or_default();
        let incarnation = view.members()[rank].incarnation;
        if progress.incarnation != incarnation {
            *progress = Progress { incarnation, ..Progress::default() };
        }
        if progress.view.is_none() {
            progress.first_view = view.id();
        }
        let own = progress.next.get(&(node, incarnation)).copied().unwrap_or(0);
        self.starts.insert((view.id(), node, incarnation), own);
        let (id, before) = (view.id(), progress.view.replace(view.id()));
        let ended = (progress.digest, progress.messages);
        (progress.digest, progress.messages) = (0, 0);
        if before.is_some_and(|before| before >= id) {
            self.break_rule(Rule::Views, at, node, format!("{id} after {before:?}"));
        }
        if !self.views.contains_key(&id)
            && let Some(ended) = self.views.get(&ViewId(id.0 - 1))
        {
            let found = self.lives.note_successor(at, &self.calm, ended, view.members());
            self.report.judge(at, node, found);
        }
        self.flows.note_view(view);
        let known = self.views.entry(id).or_insert_with(|| view.members().to_vec());
        if known != view.members() {
            let what = format!("{id} is {:?} here and {known:?} elsewhere", view.members());
            self.break_rule(Rule::Primary, at, node, what);
        }
        if let Some(before) = before.filter(|before| before.0 + 1 == id.0) {
            let (digest, messages, first) =
                *self.ends.entry(before).or_insert((ended.0, ended.1, node));
            if (digest, messages) != ended {
                let what = format!(
                    "{} messages in {before}, others than the {messages} of {first}",
                    ended.1
                );
                self.break_rule(Rule::Agreement, at, node, what);
            }
        }
    }

    fn note_delivery(&mut self, at: Instant, node: NodeId, event: &Event) {
        let Event::Delivered { view, origin, incarnation, end, payload, .. } = event else {
            return;
        };
        self.flows.note_delivery(node, *view, *origin, *end);
        self.deliveries += 1;
        let unread = self.unread.entry((node, *origin, *incarnation)).or_default();
        unread.push(*view, *end, payload.len());
        let judged = unread.check(self.window_bytes);
        self.report.judge(at, node, judged);
        let (key, content) = ((*origin, *incarnation), hash(payload));
        let progress = self.progress.entry(node).or_default();
        let in_view = progress.view;
        let sent = self.accepted.get(&key).map_or(&[][..], Vec::as_slice);
        let number = progress.next.get(&key).copied();
        // A member that joined later begins with the view in which it joined. If it installed that
        // view before the origin did, the next message is checked instead.
        let first = self.starts.get(&(progress.first_view, key.0, key.1)).copied();
        let number = number
            .or(first)
            .unwrap_or_else(|| sent.iter().position(|&hash| hash == content).unwrap_or(usize::MAX));
        let is_next = sent.get(number) == Some(&content);
        let was_sent = is_next || sent.contains(&content);
        progress.next.insert(key, number.saturating_add(1));
        let part = mix(mix(origin.0 ^ mix(*incarnation)) ^ content);
        progress.digest = progress.digest.wrapping_add(part);
        progress.messages += 1;
        if in_view != Some(*view) {
            let what = format!("a message of {view} in {in_view:?}");
            self.break_rule(Rule::Views, at, node, what);
        }
        let is_member = self.views.get(view).is_some_and(|members| {
            members.contains(&Member { node: *origin, incarnation: *incarnation })
        });
        if !is_member {
            let members = self.views.get(view);
            let what = format!("a message of {origin}, {incarnation:x}, in {view}: {members:x?}");
            self.break_rule(Rule::Views, at, node, what);
        }
        if !was_sent {
            self.break_rule(Rule::Integrity, at, node, format!("{origin} sent nothing like it"));
        } else if !is_next {
            let what = format!("message {number} of {origin} expected, another one delivered");
            self.break_rule(Rule::Fifo, at, node, what);
        }
    }

    /// At the end of a run whose faults are over: exactly the members of `wanted` are in one view,
    /// and each has delivered every message of every member of it.
    pub fn check_converged<P: Host>(
        &self,
        sim: &impl Nodes<P>,
        wanted: &[NodeId],
    ) -> Result<(), Violation<Rule>> {
        let fail = |rule, node, what| Err(Violation { rule, at: sim.now(), node, what });
        let Some(&first) = wanted.first() else { return Ok(()) };
        let view = sim.node(first).group().view();
        for &node in wanted {
            let group = sim.node(node).group();
            if group.role() != Role::Member || !group.has_primary() || group.view() != view {
                let what = format!(
                    "{:?}, primary {}, {:?}; {first} has {view:?}",
                    group.role(),
                    group.has_primary(),
                    group.view()
                );
                return fail(Rule::Convergence, node, what);
            }
            if view.rank(node).is_none() {
                return fail(Rule::Convergence, node, format!("not in {view:?}"));
            }
        }
        if view.len() != wanted.len() {
            return fail(Rule::Convergence, first, format!("{view:?}, expected {wanted:?}"));
        }
        for member in view.members() {
            let key = (member.node, member.incarnation);
            let accepted = self.accepted.get(&key).map_or(0, Vec::len);
            for &node in wanted {
                let progress = &self.progress[&node];
                let first = (progress.first_view, key.0, key.1);
                let first = self.starts.get(&first).copied().unwrap_or(0);
                let delivered = progress.next.get(&key).copied().unwrap_or(first);
                if delivered != accepted {
                    let what = format!("{delivered} of {accepted} messages of {}", member.node);
                    return fail(Rule::Validity, node, what);
                }
            }
        }
        let direct = self.direct.check_settled(view, &self.views);
        let settled = direct.and_then(|()| self.requests.check_settled(view));
        settled.or_else(|(node, (rule, what))| fail(rule, node, what))
    }
}

impl<P: Host> Observer<P> for GroupLedger {
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        self.transmissions.before_call(node, input);
        let Input::Command(command) = input else { return };
        self.lives.note_command(node, command);
        let member = self.member(node);
        self.requests.note_command(at, member, command);
        match command {
            Command::Broadcast { payload, .. } => {
                self.submitting = Some((node, hash(payload)));
                // Before the handler: what it delivers to itself was sent.
                let accepted = self.accepted.entry((node, member.incarnation)).or_default();
                accepted.push(hash(payload));
            }
            Command::SendTo { to, payload, ticket } => {
                let view = self.progress[&node].view;
                self.direct.note_send((member, view), *to, *ticket, hash(payload));
            }
            Command::Consumed { view, origin, end } => {
                self.flows.note_consumed(node, *view, *origin, *end);
                for (_, unread) in
                    self.unread.range_mut((node, *origin, 0)..=(node, *origin, u64::MAX))
                {
                    unread.consume(*view, *end);
                }
            }
            Command::ConsumedDirect { from, end } => self.direct.note_consumed(*from, member, *end),
            _ => {}
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        self.calm.note(at, fault);
        self.lives.note_fault(fault);
        self.requests.note_fault(at, fault);
        if let Fault::Crash(_) = fault {
            self.transmissions.note_crash();
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &Message) {
        let found = self.transmissions.note_send(to, lane, message);
        self.report.judge(at, from, found);
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        match event {
            Event::Delivered { .. } => self.note_delivery(at, node, event),
            Event::View(view) => {
                self.transmissions.note_view(view);
                self.note_view(at, node, view);
            }
            Event::Excluded => {
                let view = self.progress.get(&node).and_then(|progress| progress.view);
                let view = view.and_then(|view| self.views.get(&view)).map_or(&[][..], |of| of);
                let found = self.lives.note_excluded(at, &self.calm, node, view);
                self.report.judge(at, node, found);
            }
            Event::Direct { .. } => self.note_direct(at, node, event),
            Event::Request { .. }
            | Event::Replied { .. }
            | Event::RequestFailed { .. }
            | Event::RequestSettled { .. } => {
                let member = self.member(node);
                let view = self.progress.get(&node).and_then(|progress| progress.view);
                let view = view.and_then(|view| self.views.get(&view)).map_or(&[][..], |of| of);
                let judged = self.requests.note_event(at, member, view, event);
                self.report.judge(at, node, judged);
            }
            Event::Received { ticket } => {
                let judged = self.direct.note_received(node, *ticket);
                self.report.judge(at, node, judged);
            }
            Event::Undelivered { ticket, failure } => {
                let judged = self.direct.note_failure(node, *ticket, *failure);
                self.report.judge(at, node, judged);
            }
            Event::Rejected { .. } => {
                // What this call was about to accept, or what waited when the node was excluded.
                if let Some((node, content)) = self.submitting.take() {
                    let incarnation = self.progress.entry(node).or_default().incarnation;
                    let sent = self.accepted.entry((node, incarnation)).or_default();
                    debug_assert_eq!(sent.last(), Some(&content));
                    sent.pop();
                }
            }
            _ => {}
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.submitting = None;
        let group = protocol.group();
        let progress = self.progress.entry(node).or_default();
        if progress.incarnation != group.member().incarnation {
            *progress = Progress { incarnation: group.member().incarnation, ..Progress::default() };
            self.unread.retain(|&(reader, ..), _| reader != node);
        }
        let held = group.chain().bytes_held();
        self.held_bytes_max = self.held_bytes_max.max(held);
        let bound = group.view().len().max(1) * self.window_bytes;
        if held > bound {
            self.break_rule(Rule::Bounds, at, node, format!("{held} bytes held, {bound} allowed"));
        }
        let flows = &self.flows;
        let freed = |view, origin| flows.freed(node, view, origin);
        let found = [
            self.transmissions.after_call(node, group, freed),
            self.flows.after_call(at, node, group, protocol.admission(), &self.calm),
            self.lives.after_call(node, group),
            self.looks.after_call(node, protocol),
            self.endings.after_call(node, group),
            self.requests.after_call(at, node, group),
        ];
        found.into_iter().for_each(|found| self.report.judge(at, node, found));
        if self.report.is_broken() {
            reply.stop();
        }
    }
}
