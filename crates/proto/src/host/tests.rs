use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::core::{
    Backlog, CounterId, DecodeError, Outbox, Payload, Rng, ViewId, Wire, decode_exact,
    encode_to_bytes,
};

const A: ServiceNumber = ServiceNumber(7);
const B: ServiceNumber = ServiceNumber(3);
const NO_SERVICE: ServiceNumber = ServiceNumber(9);
const ME: NodeId = NodeId(1);
const PEER: NodeId = NodeId(2);
const GROUP: GroupId = GroupId(5);

/// A protocol that carries out each command, and reports each input as an event.
#[derive(Default)]
struct Echo {
    heard: Vec<String>,
}

/// A message of at most three letters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said(Payload);

impl Wire for Said {
    fn wire_len(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, _: &mut bytes::BytesMut) -> Option<&Payload> {
        Some(&self.0)
    }

    fn decode(bytes: &mut Bytes) -> Result<Said, DecodeError> {
        if bytes.len() > 3 {
            return Err(DecodeError::Trailing(bytes.len() - 3));
        }
        Ok(Said(Payload::from(std::mem::take(bytes))))
    }
}

fn said(text: &'static str) -> Said {
    Said(Payload::from(Bytes::from_static(text.as_bytes())))
}

enum Do {
    Send(&'static str),
    SendGroup(&'static str),
    Join,
    Wake(Duration, u8),
    Drain(usize),
}

impl Protocol for Echo {
    type Message = Said;
    type Timer = u8;
    type Command = Do;
    type Event = String;
    type Shared = ();

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        assert_eq!(cx.node, ME);
        let drawn = cx.rng.next_u64();
        cx.deliver(format!("started as {:x}, {drawn:x}", cx.incarnation));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Said) {
        self.heard.push(format!("{from} {:?}", message.0.len()));
        cx.deliver(format!("{from}: {} B", message.0.len()));
        cx.send(from, Lane::Stream, message);
    }

    fn handle_view(&mut self, cx: &mut Context<'_, Self>, view: &Arc<View>) {
        cx.deliver(format!("view {}", view.id().0));
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: u8) {
        cx.deliver(format!("timer {timer}"));
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        cx.deliver(format!("drained {to}"));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Do) {
        match command {
            Do::Send(text) => {
                cx.send(PEER, Lane::Stream, said(text));
                cx.deliver(format!("backlog {}", cx.backlog_bytes(PEER)));
            }
            Do::SendGroup(text) => cx.send_group(GROUP, said(text)),
            Do::Join => cx.join_group(GROUP),
            Do::Wake(after, timer) => cx.set_timer(after, timer),
            Do::Drain(below_bytes) => cx.notify_drained(PEER, below_bytes),
        }
    }
}

struct Fixed(usize);

impl Backlog for Fixed {
    fn backlog_bytes(&self, _: NodeId) -> usize {
        self.0
    }
}

/// Drives one host.
struct Bench {
    host: Host,
    outbox: Outbox<Host>,
    rng: Rng,
    backlog: Fixed,
}

impl Bench {
    fn started() -> Bench {
        let host = Host::new(crate::detector::Config::default())
            .with_service(A, Echo::default(), Arc::new(()))
            .with_service(B, Echo::default(), Arc::new(()));
        let outbox = Outbox::default();
        let mut bench = Bench { host, outbox, rng: Rng::new(1, 1), backlog: Fixed(0) };
        bench.call(|host, cx| host.handle_start(cx));
        bench
    }

    fn call(&mut self, handler: impl FnOnce(&mut Host, &mut Context<'_, Host>)) {
        let mut cx = Context {
            now: Instant::ZERO,
            node: ME,
            incarnation: 77,
            host: None,
            shared: &(),
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: &self.backlog,
            datagram_bytes_max: 1_200,
        };
        handler(&mut self.host, &mut cx);
    }

    fn order(&mut self, service: ServiceNumber, order: Do) {
        self.call(|host, cx| host.handle_command(cx, Command::new(service, order)));
    }

    fn receive(&mut self, service: ServiceNumber, group: Option<GroupId>, bytes: &'static [u8]) {
        let content = Encoded::from(Bytes::from_static(bytes));
        let message = Message { service, group, content, has_waited: false };
        self.call(|host, cx| host.handle_message(cx, PEER, message));
    }

    fn told(&mut self) -> Vec<(ServiceNumber, String)> {
        let events = self.outbox.events.drain(..).filter(|told| !told.event.is::<Submitted>());
        events.map(|told| (told.service, *told.event.downcast().unwrap())).collect()
    }

    fn count(&self, counter: CounterId) -> u64 {
        self.outbox.counters.count(counter.name())
    }
}

#[test]
fn services_start_in_the_order_of_their_numbers_as_incarnations_of_their_own() {
    let mut bench = Bench::started();
    let told = bench.told();
    assert_eq!(told.iter().map(|(service, _)| *service).collect::<Vec<_>>(), [B, A]);
    assert_ne!(told[0].1, told[1].1);
    assert!(bench.host.was_called(A) && bench.host.was_called(B));
    assert!(!bench.host.was_called(NO_SERVICE));
}

#[test]
fn a_message_reaches_the_service_of_its_number_and_the_answer_bears_it() {
    let mut bench = Bench::started();
    bench.told();
    bench.receive(A, None, b"abc");
    assert_eq!(bench.told(), [(A, "n2: 3 B".to_owned())]);
    assert_eq!(bench.host.service::<Echo>(A).unwrap().protocol().heard, ["n2 3"]);
    assert!(bench.host.service::<Echo>(B).unwrap().protocol().heard.is_empty());
    assert!(bench.host.was_called(A) && !bench.host.was_called(B));
    let sent = bench.outbox.sends.pop().unwrap();
    assert_eq!((sent.to, sent.lane, sent.message.service), (PEER, Lane::Stream, A));
    let bytes = encode_to_bytes(&sent.message);
    assert_eq!(&bytes[..], b"\0\0\0\x07\0abc");
    assert_eq!(bytes.len(), Wire::wire_len(&sent.message));
    let again: Message = decode_exact(bytes.clone()).unwrap();
    assert_eq!(encode_to_bytes(&again), bytes);
    assert_eq!(again.to_string(), "service 00000007 3 B");
}

#[test]
fn what_is_for_no_service_or_is_no_message_is_counted_and_dropped() {
    let mut bench = Bench::started();
    bench.told();
    bench.receive(NO_SERVICE, None, b"abc");
    bench.receive(A, None, b"abcd");
    bench.order(NO_SERVICE, Do::Join);
    bench.call(|host, cx| host.handle_command(cx, Command::new(A, "no command of Echo")));
    assert!(bench.told().is_empty() && bench.outbox.sends.is_empty());
    assert_eq!(bench.count(counters::UNKNOWN_SERVICE), 1);
    assert_eq!(bench.count(counters::UNDECODABLE), 1);
    assert_eq!(bench.count(counters::INPUT_UNKNOWN_SERVICE), 2);
}

#[test]
fn a_group_is_of_one_service() {
    let mut bench = Bench::started();
    bench.told();
    bench.order(A, Do::Join);
    let joined = std::mem::take(&mut bench.outbox.links.memberships);
    bench.order(A, Do::SendGroup("to"));
    bench.order(B, Do::SendGroup("to"));
    let sends = std::mem::take(&mut bench.outbox.group_sends);
    assert_eq!(joined, [(sends[0].0, Membership::Joined)]);
    assert_ne!(sends[0].0, sends[1].0);
    assert_eq!(encode_to_bytes(&sends[1].1)[..], *b"\0\0\0\x03\x01\0\0\0\x05to");
    bench.receive(A, Some(GROUP), b"a");
    // Another service's, or another group's, under the same number in the network.
    bench.receive(B, Some(GROUP), b"b");
    bench.receive(A, Some(GroupId(6)), b"c");
    assert_eq!(bench.told(), [(A, "n2: 1 B".to_owned())]);
    assert_eq!(bench.count(counters::FOREIGN_GROUP), 2);
}

#[test]
fn a_timer_fires_at_the_service_that_armed_it() {
    let mut bench = Bench::started();
    bench.told();
    bench.order(A, Do::Wake(Duration::from_secs(2), 12));
    bench.order(B, Do::Wake(Duration::from_secs(1), 13));
    let timers = std::mem::take(&mut bench.outbox.timers);
    let at: Vec<Instant> = timers.iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [2, 1].map(|s| Instant::ZERO + Duration::from_secs(s)));
    for (_, timer) in timers {
        let Timer::Service { service, slot } = timer else { panic!("{timer:?}") };
        let service = bench.host.number(service).unwrap();
        let armed = bench.host.service::<Echo>(service).unwrap().timer(slot).copied();
        bench.call(|host, cx| host.handle_timer(cx, timer));
        assert_eq!(bench.told(), [(service, format!("timer {}", armed.unwrap()))]);
    }
}

#[test]
fn a_view_is_for_one_service_or_for_all() {
    let mut bench = Bench::started();
    bench.told();
    let view = |id| Arc::new(View::new(ViewId(id), []));
    let of_one = Command { service: A, input: HostInput::View(view(4)) };
    bench.call(|host, cx| host.handle_command(cx, of_one));
    assert_eq!(bench.told(), [(A, "view 4".to_owned())]);
    bench.call(|host, cx| host.handle_view(cx, &view(5)));
    assert_eq!(bench.told(), [(B, "view 5".to_owned()), (A, "view 5".to_owned())]);
}

#[test]
fn each_service_hears_of_its_own_backlog_below_its_own_mark() {
    let mut bench = Bench::started();
    // 8 bytes each, and 6.
    for (service, text) in [(A, "abc"), (A, "abc"), (B, "c")] {
        bench.order(service, Do::Send(text));
    }
    bench.told();
    bench.outbox.sends.clear();
    bench.backlog.0 = 22;
    bench.order(A, Do::Drain(10));
    bench.order(B, Do::Drain(5));
    assert_eq!(bench.outbox.links.drains, [(PEER, 10), (PEER, 10)]);
    assert!(bench.host.awaits_drain(A, PEER) && bench.host.awaits_drain(B, PEER));
    bench.outbox.links.drains.clear();
    // Of these 6 are the last message's.
    bench.backlog.0 = 9;
    bench.call(|host, cx| host.handle_drained(cx, PEER));
    assert_eq!(bench.told(), [(A, "drained n2".to_owned())]);
    // It is asked for again, for the other one.
    assert_eq!(bench.outbox.links.drains, [(PEER, 5)]);
    // It has nothing there, whatever the other one has.
    bench.backlog.0 = 6;
    bench.order(A, Do::Drain(1));
    assert_eq!(bench.outbox.links.drains, [(PEER, 5), (PEER, 7)]);
    bench.backlog.0 = 4;
    bench.call(|host, cx| host.handle_drained(cx, PEER));
    assert_eq!(bench.told(), [(A, "drained n2".to_owned()), (B, "drained n2".to_owned())]);
    assert!(!bench.host.awaits_drain(B, PEER) && bench.outbox.links.drains.len() == 2);
}

#[test]
fn a_service_sees_what_it_has_queued_and_not_what_others_have() {
    let mut bench = Bench::started();
    bench.told();
    bench.backlog.0 = 40;
    // The head of a message counts once it waits at the port.
    for (service, text, backlog) in [(A, "ab", 2), (A, "ab", 9), (B, "c", 1), (A, "ab", 16)] {
        bench.order(service, Do::Send(text));
        assert_eq!(bench.told(), [(service, format!("backlog {backlog}"))]);
    }
    let host = Host::new(crate::detector::Config::default());
    bench.host = host.with_service(A, Echo::default(), Arc::new(()));
    bench.outbox.sends.clear();
    bench.call(|host, cx| host.handle_start(cx));
    bench.told();
    bench.order(A, Do::Send("ab"));
    assert_eq!(bench.told(), [(A, "backlog 42".to_owned())], "the port is its own");
}

#[test]
fn a_service_that_floods_a_stream_waits_and_another_is_served_in_turn() {
    let mut bench = Bench::started();
    bench.told();
    bench.backlog.0 = PORT_BYTES;
    (0..4_000).for_each(|_| bench.order(A, Do::Send("abc")));
    bench.order(B, Do::Send("c"));
    assert!(bench.outbox.sends.is_empty(), "the port takes nothing");
    assert_eq!(bench.count(counters::LINK_WAITED), 4_001);
    assert_eq!(bench.told().last(), Some(&(B, "backlog 1".to_owned())));
    assert!(bench.outbox.links.drains.ends_with(&[(PEER, PORT_BYTES)]));
    bench.backlog.0 = 0;
    bench.call(|host, cx| host.handle_drained(cx, PEER));
    let sent: Vec<_> = bench.outbox.sends.drain(..).map(|sent| sent.message.service).collect();
    // A quantum of 4,096 bytes first.
    assert_eq!(sent.iter().position(|&service| service == B), Some(512));
    assert_eq!(sent.len(), PORT_BYTES / 8 + 1, "as much as the port takes");
    // What waits for a stream that breaks is lost with it.
    bench.call(|host, cx| host.handle_peer(cx, PEER, PeerState::Down));
    bench.call(|host, cx| host.handle_drained(cx, PEER));
    assert!(bench.outbox.sends.is_empty() && !bench.host.link.waits_for(PEER));
}

#[test]
#[should_panic(expected = "runs another service of number 00000007")]
fn two_services_of_a_host_have_two_numbers() {
    let host = Host::new(crate::detector::Config::default()).with_service(
        A,
        Echo::default(),
        Arc::new(()),
    );
    let _ = host.with_service(A, Echo::default(), Arc::new(()));
}

#[test]
fn a_message_of_unknown_form_is_refused() {
    let decode = |bytes: &'static [u8]| decode_exact::<Message>(Bytes::from_static(bytes)).err();
    assert_eq!(decode(b"\0\0\0\x07\x02ab"), Some(DecodeError::UnknownTag(2)));
    assert_eq!(decode(b"\0\0\0\x07"), Some(DecodeError::Truncated { need: 1, have: 0 }));
    let truncated = DecodeError::Truncated { need: 4, have: 1 };
    assert_eq!(decode(b"\0\0\0\x07\x01\0"), Some(truncated));
}
