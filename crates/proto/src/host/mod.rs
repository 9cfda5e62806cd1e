//! A host: one node that runs several services.
//!
//! A *machine* is a protocol behind an object-safe boundary ([`Machine`]). A driver of sockets runs
//! the machines of its node itself; in the simulator [`Host`] is a protocol that runs them, so that
//! faults, digests and traces are those of any other protocol. Both keep them by number
//! ([`Services`]), hand each message to the service whose number it bears, and let each have its
//! own outbox, timers, random numbers and admission. One failure detector watches the hosts for all
//! services ([`HostDetector`]).

pub mod counters;
mod detector;
mod link;
mod machine;
mod message;
mod services;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::vec::Drain;

use crate::core::{
    Context, Counters, GroupId, Instant, Lane, Member, Membership, NodeId, PeerState, Protocol,
    ServiceNumber, View, mix,
};
use crate::parts::deadline::Deadline;
use crate::parts::link_share::{PORT_BYTES, Path};

use link::{HostLink, OwnBacklog};

pub use detector::{HostDetector, HostMessage, HostOutput};
pub use link::LinkRate;
pub use machine::{
    Application, Call, Carrier, Encode, Encoded, Input, Io, Machine, NodeParts, Typed,
};
pub use message::{HEAD_BYTES_MAX, Message};
pub use services::{ServicePlace, Services};

/// A node that runs several services, for the simulator.
///
/// A command names its service and carries that service's command as [`Any`], and so does an event.
/// A command of another type, or for a service that the host does not run, is counted and dropped.
pub struct Host {
    services: Services<Box<dyn Hosted>>,
    // Until the host starts.
    config: Option<crate::detector::Config>,
    detector: Option<HostDetector>,
    wake_up: Deadline,
    // Groups that a service has joined.
    groups: BTreeSet<(ServiceNumber, GroupId)>,
    // Backlogs of which a service wants to hear, each with the mark, in bytes.
    drains: BTreeMap<(NodeId, ServicePlace), usize>,
    link: HostLink,
    link_wakes: Deadline,
    // By the last call of a handler: the services that were called, with what they counted.
    called: Vec<(ServiceNumber, Counters)>,
}

/// Why the driver wakes a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A timer of one of the services.
    Service {
        /// Whose it is.
        service: ServicePlace,
        /// Its slot there.
        slot: u32,
    },
    /// Something of the failure detector is due.
    Detector,
    /// The link takes the next message.
    Link,
}

/// What the application hands to one of the services.
pub struct Command {
    /// Which one.
    pub service: ServiceNumber,
    /// A command of that service's protocol.
    pub input: HostInput,
}

/// What the application hands to a service whose protocol is known to it alone.
pub enum HostInput {
    /// A command of the protocol.
    Command(Box<dyn Any>),
    /// An installed view.
    View(Arc<View>),
}

impl Command {
    /// A command of a service's protocol.
    pub fn new<C: Any>(service: ServiceNumber, command: C) -> Command {
        Command { service, input: HostInput::Command(Box::new(command)) }
    }
}

/// What a service tells its application.
pub struct Event {
    /// Which service.
    pub service: ServiceNumber,
    /// An event of its protocol, or a [`Submitted`].
    pub event: Box<dyn Any>,
}

/// A service has sent a message that waits for the link: for observers, who otherwise would see it
/// when the service is in another state.
#[derive(Debug)]
pub struct Submitted {
    /// Where it goes.
    pub path: Path,
    /// The message.
    pub message: Message,
}

impl Host {
    /// A host without services. `detector` configures its failure detector; it is what
    /// [`Config::build`](crate::detector::Config::build) returned.
    pub fn new(detector: crate::detector::Config) -> Host {
        Host {
            services: Services::default(),
            config: Some(detector),
            detector: None,
            wake_up: Deadline::UNARMED,
            groups: BTreeSet::new(),
            drains: BTreeMap::new(),
            link: HostLink::new(None),
            link_wakes: Deadline::UNARMED,
            called: Vec::new(),
        }
    }

    /// The same host, whose link has this rate: its services share it. Call it before services are
    /// added. Without a rate they share each stream to a node.
    #[must_use]
    pub fn with_link_rate(mut self, rate: Option<LinkRate>) -> Host {
        debug_assert!(self.services.places().is_empty(), "services have their weights");
        self.link = HostLink::new(rate);
        self
    }

    /// The same host with one more service, which starts with it and has the weight 1.
    ///
    /// # Panics
    /// If it has one of this number.
    #[must_use]
    pub fn with_service<P: Protocol + 'static>(
        self,
        number: ServiceNumber,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Host {
        self.with_weighted_service(number, 1, protocol, shared)
    }

    /// The same host with one more service, which starts with it. Of the link it gets a share in
    /// proportion to its weight, 1 to [`WEIGHT_MAX`](crate::parts::link_share::WEIGHT_MAX), while
    /// others have something to send.
    ///
    /// # Panics
    /// If it has one of this number.
    #[must_use]
    pub fn with_weighted_service<P: Protocol + 'static>(
        mut self,
        number: ServiceNumber,
        weight: u32,
        protocol: P,
        shared: Arc<P::Shared>,
    ) -> Host {
        let is_new = self.services.find(number).is_none();
        assert!(is_new, "the host runs another service of number {:08x}", number.0);
        let (node, incarnation, seed) = (NodeId(u64::MAX), 0, 0);
        let parts = NodeParts { protocol, shared, node, incarnation, seed };
        self.services.add(number, Box::new(Typed::new(parts, Mailbox::default())));
        self.link.add_service(number, weight, self.services.places().len());
        self
    }

    /// A service, if its protocol is `P`.
    pub fn service<P: Protocol + 'static>(
        &self,
        number: ServiceNumber,
    ) -> Option<&Typed<P, Mailbox<P>>> {
        let machine: &dyn Any = &**self.services.get(self.services.find(number)?)?;
        machine.downcast_ref()
    }

    /// True if the last call of a handler of the host called one of this service.
    pub fn was_called(&self, number: ServiceNumber) -> bool {
        self.counted(number).next().is_some()
    }

    /// What this service counted in each call of it by the last call of a handler of the host.
    pub fn counted(&self, number: ServiceNumber) -> impl Iterator<Item = &Counters> {
        self.called.iter().filter(move |(called, _)| *called == number).map(|(_, counted)| counted)
    }

    /// True if the service waits for the backlog to this node to fall.
    pub fn awaits_drain(&self, number: ServiceNumber, to: NodeId) -> bool {
        self.waiting_for(to).any(|(place, _)| self.number(place) == Some(number))
    }

    /// The number of the service at this place.
    pub fn number(&self, place: ServicePlace) -> Option<ServiceNumber> {
        let mut places = self.services.places().iter();
        places.find(|(_, known)| *known == place).map(|&(number, _)| number)
    }

    /// Calls a handler of a service and carries out its requests.
    fn call(&mut self, cx: &mut Cx<'_>, place: ServicePlace, call: Call) {
        let Some(number) = self.number(place) else { return };
        let Some(machine) = self.services.get_mut(place) else { return };
        let backlog = OwnBacklog {
            link: &self.link,
            service: number,
            behind: cx.backlog,
            sends: &cx.outbox.sends,
        };
        let datagram_bytes_max = cx.datagram_bytes_max.saturating_sub(HEAD_BYTES_MAX);
        let host = Some(cx.incarnation);
        machine.call(&Io { now: cx.now, host, backlog: &backlog, datagram_bytes_max }, call);
        let links = machine.links();
        for (group, membership) in links.memberships.drain(..) {
            match membership {
                Membership::Joined => self.groups.insert((number, group)),
                Membership::Left => self.groups.remove(&(number, group)),
            };
            let change = (in_network(number, group), membership);
            cx.outbox.links.memberships.push(change);
        }
        cx.outbox.links.disconnects.append(&mut links.disconnects);
        cx.outbox.links.contacts.append(&mut links.contacts);
        let drains = std::mem::take(&mut links.drains);
        let (watch, probes) = (links.watch.take(), std::mem::take(&mut links.probes));
        machine.carry_out(&mut Carrying { cx, link: &mut self.link, number, place });
        let mut counted = std::mem::take(machine.counters());
        self.link.counted.drain_into(&mut counted);
        cx.outbox.counters.merge(&counted);
        self.called.push((number, counted));
        machine.take_events(&mut |event| cx.outbox.events.push(Event { service: number, event }));
        for (to, below_bytes) in drains {
            self.drains.insert((to, place), below_bytes);
            self.ask_for_drained(cx, to);
        }
        let Some(detector) = &mut self.detector else { return };
        if let Some(list) = watch {
            detector.watch(cx.now, (place, number), &list);
        }
        probes.into_iter().for_each(|node| detector.probe(cx.now, node));
    }

    /// After an input: tells services what the detector has found, sends what it sends, and hands
    /// over what the link takes.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        loop {
            let news =
                self.detector.as_mut().map(|detector| std::mem::take(&mut detector.out.news));
            let news = news.unwrap_or_default();
            let is_settled = news.is_empty();
            for (place, node, news) in news {
                self.call(cx, place, Call::Watched(node, news));
            }
            let taken = self.link.release(cx);
            if is_settled && taken.is_empty() {
                break;
            }
            taken.into_iter().for_each(|to| self.tell_drained(cx, to));
        }
        if let Some(detector) = &mut self.detector {
            for (to, message) in detector.out.sends.drain(..) {
                let content = Encoded::new(&message);
                let message = Message::new(ServiceNumber::NODE, None, content);
                self.link.send(cx, Path { to: Some(to), lane: Lane::Datagram }, message);
            }
            detector.out.counters.drain_into(&mut cx.outbox.counters);
            self.wake_up.set(cx, detector.deadline(), Timer::Detector);
        }
        match self.link.wakes_at(cx) {
            Some(at) => self.link_wakes.set(cx, at, Timer::Link),
            None => self.link.closed(cx).into_iter().for_each(|to| self.ask_for_drained(cx, to)),
        }
    }

    /// Tells services whose backlog to this node has fallen as far as they want.
    fn tell_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        let is_below = |&(place, below_bytes): &(ServicePlace, usize)| {
            self.own_backlog(cx, place, to) < below_bytes.max(1)
        };
        let drained: Vec<_> = self.waiting_for(to).filter(is_below).collect();
        for &(place, _) in &drained {
            self.drains.remove(&(to, place));
        }
        self.ask_for_drained(cx, to);
        drained.into_iter().for_each(|(place, _)| self.call(cx, place, Call::Drained(to)));
    }

    /// Asks to hear when the backlog at the port has fallen as far as the link or a service wants.
    /// What waits for the link is no part of that backlog: a service that waits for that alone
    /// hears of it when it is handed over.
    fn ask_for_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        let at_port = cx.backlog_bytes(to);
        let is_closed = self.link.waits_for(to) && at_port >= PORT_BYTES;
        let marks = self.waiting_for(to).filter_map(|(place, below_bytes)| {
            let below_bytes = below_bytes.max(1);
            match self.own_backlog(cx, place, to) {
                // It hears of it at once, whatever others have there.
                own if own < below_bytes => Some(below_bytes.max(at_port + 1)),
                _ => (at_port >= below_bytes).then_some(below_bytes),
            }
        });
        if let Some(below_bytes) = marks.chain(is_closed.then_some(PORT_BYTES)).max() {
            cx.notify_drained(to, below_bytes);
        }
    }

    fn own_backlog(&self, cx: &Cx<'_>, place: ServicePlace, to: NodeId) -> usize {
        let at_port = cx.backlog_bytes(to);
        self.number(place).map_or(0, |number| self.link.backlog_bytes(number, to, at_port))
    }

    /// Calls the same handler of all services.
    fn call_all(&mut self, cx: &mut Cx<'_>, call: Call) {
        let places: Vec<_> = self.services.places().iter().map(|&(_, place)| place).collect();
        places.into_iter().for_each(|place| self.call(cx, place, call));
    }

    /// Services that wait for the backlog to a node, each with its mark.
    fn waiting_for(&self, to: NodeId) -> impl Iterator<Item = (ServicePlace, usize)> {
        let all = self.drains.range((to, Services::<()>::FIRST)..);
        let of_node = all.take_while(move |&(&(node, _), _)| node == to);
        of_node.map(|(&(_, place), &below_bytes)| (place, below_bytes))
    }
}

type Cx<'a> = Context<'a, Host>;

impl Protocol for Host {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.called.clear();
        for &(number, place) in self.services.places().to_vec().iter() {
            // Each service is an incarnation of its own, as on sockets.
            let incarnation = mix(cx.incarnation ^ u64::from(number.0)) | 1;
            let seed = cx.rng.next_u64();
            if let Some(machine) = self.services.get_mut(place) {
                machine.identify(cx.node, incarnation, seed);
            }
        }
        if let Some(config) = self.config.take() {
            let me = Member { node: cx.node, incarnation: cx.incarnation };
            self.detector = Some(HostDetector::new(config, me, cx.rng.next_u64()));
        }
        self.call_all(cx, Call::Start);
        self.settle(cx);
    }

    fn handle_peer(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        self.called.clear();
        if matches!(state, PeerState::Down) {
            self.link.break_stream(peer);
        }
        self.call_all(cx, Call::Peer(peer, state));
        self.settle(cx);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.called.clear();
        let numbers: Vec<_> = self.services.places().iter().map(|&(number, _)| number).collect();
        for service in numbers {
            let input = HostInput::View(view.clone());
            self.handle_input(cx, Command { service, input });
        }
        self.settle(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        self.called.clear();
        if message.service == ServiceNumber::NODE {
            self.receive_detector(cx, from, &message);
        } else {
            self.receive(cx, from, message);
        }
        self.settle(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        self.called.clear();
        match timer {
            Timer::Service { service, slot } => self.call(cx, service, Call::Timer(slot)),
            Timer::Detector => {
                self.wake_up.fired(cx.now);
                if let Some(detector) = &mut self.detector {
                    detector.poll(cx.now);
                }
            }
            // The release follows.
            Timer::Link => _ = self.link_wakes.fired(cx.now),
        }
        self.settle(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        self.called.clear();
        self.handle_input(cx, command);
        self.settle(cx);
    }

    fn handle_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        self.called.clear();
        self.tell_drained(cx, to);
        self.settle(cx);
    }
}

impl Host {
    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        let Message { service, group, content, .. } = message;
        let Some(place) = self.services.find(service) else {
            return cx.count(counters::UNKNOWN_SERVICE, 1);
        };
        if group.is_some_and(|group| !self.groups.contains(&(service, group))) {
            return cx.count(counters::FOREIGN_GROUP, 1);
        }
        let machine = self.services.get_mut(place).expect("it was found");
        match machine.decode(content.bytes()) {
            Ok(()) => self.call(cx, place, Call::Message(from)),
            Err(_) => cx.count(counters::UNDECODABLE, 1),
        }
    }

    fn receive_detector(&mut self, cx: &mut Cx<'_>, from: NodeId, message: &Message) {
        let Some(detector) = &mut self.detector else { return };
        if detector.receive(cx.now, from, message.content.bytes()).is_err() {
            cx.count(counters::UNDECODABLE, 1);
        }
    }

    fn handle_input(&mut self, cx: &mut Cx<'_>, Command { service, input }: Command) {
        let place = self.services.find(service);
        let machine = place.and_then(|place| self.services.get_mut(place));
        let (Some(place), Some(machine)) = (place, machine) else {
            return cx.count(counters::INPUT_UNKNOWN_SERVICE, 1);
        };
        if machine.put_input(input) {
            self.call(cx, place, Call::Input);
        } else {
            cx.count(counters::INPUT_UNKNOWN_SERVICE, 1);
        }
    }
}

/// The number that a service's group has in the network. Groups of different services may share
/// one; a message names both.
fn in_network(service: ServiceNumber, group: GroupId) -> GroupId {
    GroupId(mix(u64::from(service.0) << 32 | u64::from(group.0)) as u32)
}

/// A machine of a host.
trait Hosted: Machine + Any {
    /// Gives it the identity of its node, before it starts.
    fn identify(&mut self, node: NodeId, incarnation: u64, seed: u64);

    /// Puts an input where [`Call::Input`] finds it. False if it is of another protocol.
    fn put_input(&mut self, input: HostInput) -> bool;

    /// Hands over the events of the last call, in order.
    fn take_events(&mut self, take: &mut dyn FnMut(Box<dyn Any>));
}

/// The application of a machine of a [`Host`].
pub struct Mailbox<P: Protocol> {
    inputs: VecDeque<Input<P>>,
    events: Vec<P::Event>,
}

impl<P: Protocol> Default for Mailbox<P> {
    fn default() -> Self {
        Mailbox { inputs: VecDeque::new(), events: Vec::new() }
    }
}

impl<P: Protocol> Application<P> for Mailbox<P> {
    fn next_input(&mut self) -> Input<P> {
        self.inputs.pop_front().expect("an input was put before the call")
    }

    fn tell(&mut self, events: Drain<'_, P::Event>, _counters: &mut Counters) {
        self.events.extend(events);
    }
}

impl<P: Protocol + 'static> Hosted for Typed<P, Mailbox<P>> {
    fn identify(&mut self, node: NodeId, incarnation: u64, seed: u64) {
        Typed::identify(self, node, incarnation, seed);
    }

    fn put_input(&mut self, input: HostInput) -> bool {
        let input = match input {
            HostInput::View(view) => Input::View(view),
            HostInput::Command(command) => match command.downcast() {
                Ok(command) => Input::Command(*command),
                Err(_) => return false,
            },
        };
        self.application_mut().inputs.push_back(input);
        true
    }

    fn take_events(&mut self, take: &mut dyn FnMut(Box<dyn Any>)) {
        self.application_mut().events.drain(..).for_each(|event| take(Box::new(event)));
    }
}

/// Carries out the requests of a service as requests of its host.
struct Carrying<'a, 'c> {
    cx: &'a mut Cx<'c>,
    link: &'a mut HostLink,
    number: ServiceNumber,
    place: ServicePlace,
}

impl Carrier for Carrying<'_, '_> {
    fn send(&mut self, to: NodeId, lane: Lane, message: &dyn Encode) {
        let content = Encoded::new(message);
        let message = Message::new(self.number, None, content);
        self.link.send(self.cx, Path { to: Some(to), lane }, message);
    }

    fn send_group(&mut self, group: GroupId, message: &dyn Encode) {
        let content = Encoded::new(message);
        let message = Message::new(self.number, Some(group), content);
        self.link.send(self.cx, Path { to: None, lane: Lane::Datagram }, message);
    }

    fn end_sends(&mut self) {}

    fn arm(&mut self, at: Instant, slot: u32) {
        self.cx.outbox.timers.push((at, Timer::Service { service: self.place, slot }));
    }
}
