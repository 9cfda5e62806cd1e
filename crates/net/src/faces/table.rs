//! The table of faces and their addresses.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};

use super::LOCAL;
use super::range::AddressRange;
use super::unproven::Allowance;
use crate::error::FaceError;

/// The opener of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opener {
    /// The application. It stays until the node stops.
    Application,
    /// A sender at that address.
    Stranger,
}

/// A remote address with a number.
#[derive(Clone, Copy, Debug)]
struct Face {
    node: NodeId,
    addr: SocketAddr,
    opener: Opener,
    heard_at: Instant,
    /// The rest of its sending allowance; `None` if its address is proven.
    allowance: Option<Allowance>,
}

/// Addresses of all faces, for readers other than the driver. Changes with faces, not with
/// datagrams.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory(Arc<Mutex<BTreeMap<NodeId, SocketAddr>>>);

impl Directory {
    /// The address of a face.
    pub(super) fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        self.lock().get(&node).copied()
    }

    /// All faces, by number.
    pub(super) fn faces(&self) -> Vec<(NodeId, SocketAddr)> {
        self.lock().iter().map(|(&node, &addr)| (node, addr)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All faces of a node, by number and by address. A number is never used again.
#[derive(Debug)]
pub(super) struct FaceTable {
    local: SocketAddr,
    slots: Vec<Option<Face>>,
    free: Vec<usize>,
    by_node: HashMap<u64, usize, BuildHasherDefault<NumberHasher>>,
    // Hashed with a key of the table's own: senders choose their addresses.
    by_addr: HashMap<SocketAddr, usize>,
    next: u64,
    strangers: usize,
    strangers_max: usize,
    // Ranges of addresses in which strangers are proven.
    allowed: Vec<AddressRange>,
    // The unproven faces, by when each was heard from last.
    unproven: BTreeSet<(Instant, NodeId)>,
    // Before this no stranger's face has been silent long enough to make room.
    full_until: Instant,
    directory: Directory,
}

impl FaceTable {
    /// No faces of the node at this address, and at most as many that strangers open. Those in the
    /// `allowed` ranges are proven.
    pub(super) fn new(
        local: SocketAddr,
        strangers_max: usize,
        allowed: Vec<AddressRange>,
    ) -> FaceTable {
        FaceTable {
            local,
            slots: Vec::new(),
            free: Vec::new(),
            by_node: HashMap::default(),
            by_addr: HashMap::new(),
            next: 0,
            strangers: 0,
            strangers_max,
            allowed,
            unproven: BTreeSet::new(),
            full_until: Instant::ZERO,
            directory: Directory::default(),
        }
    }

    /// The part that handles may read.
    pub(super) fn directory(&self) -> Directory {
        self.directory.clone()
    }

    /// Opens a face for the application; the second value is true if it is new. A face that a
    /// stranger opened becomes static and proven.
    pub(super) fn open(
        &mut self,
        addr: SocketAddr,
        now: Instant,
    ) -> Result<(NodeId, bool), FaceError> {
        let local = self.local;
        let addr = as_seen_from(local, addr).ok_or(FaceError::Address { addr, local })?;
        if let Some(&slot) = self.by_addr.get(&addr) {
            let face = self.slots[slot].as_mut().expect("it has an address");
            if face.opener == Opener::Stranger {
                face.opener = Opener::Application;
                self.strangers -= 1;
                if face.allowance.take().is_some() {
                    self.unproven.remove(&(face.heard_at, face.node));
                }
            }
            return Ok((face.node, false));
        }
        let node = self.insert(addr, (Opener::Application, None), now)?;
        Ok((node, true))
    }

    /// Opens a face for a stranger, if there is room.
    pub(super) fn let_in(&mut self, addr: SocketAddr, now: Instant) -> Option<NodeId> {
        if self.is_full() || !self.can_answer(addr) {
            return None;
        }
        let allowance = (!self.is_allowed(addr)).then(Allowance::default);
        let node = self.insert(addr, (Opener::Stranger, allowance), now).ok()?;
        self.strangers += 1;
        if allowance.is_some() {
            self.unproven.insert((now, node));
        }
        Some(node)
    }

    /// False if nothing can be sent to the sender of a datagram, as with port 0.
    pub(super) fn can_answer(&self, addr: SocketAddr) -> bool {
        as_seen_from(self.local, addr) == Some(addr)
    }

    /// The face with this address, which has just received a datagram.
    pub(super) fn hear(&mut self, addr: SocketAddr, now: Instant) -> Option<NodeId> {
        let face = self.slots[*self.by_addr.get(&addr)?].as_mut().expect("it has an address");
        let heard_before = std::mem::replace(&mut face.heard_at, now);
        if face.allowance.is_some() && heard_before != now {
            self.unproven.remove(&(heard_before, face.node));
            self.unproven.insert((now, face.node));
        }
        Some(face.node)
    }

    /// Credits a face with the payload bytes of a datagram that came from it.
    pub(super) fn credit(&mut self, node: NodeId, bytes: usize) {
        if !self.unproven.is_empty()
            && let Some(slot) = self.slot(node)
            && let Some(Face { addr, allowance: Some(allowance), .. }) = &mut self.slots[slot]
        {
            allowance.credit(addr.ip(), bytes);
        }
    }

    /// Where a face leads to.
    pub(super) fn addr(&self, node: NodeId) -> Option<SocketAddr> {
        self.slots[self.slot(node)?].map(|face| face.addr)
    }

    /// Where a face leads to, and what may be sent to it unless it is proven.
    pub(super) fn way_to(&mut self, node: NodeId) -> Option<(SocketAddr, Option<&mut Allowance>)> {
        let slot = self.slot(node)?;
        self.slots[slot].as_mut().map(|face| (face.addr, face.allowance.as_mut()))
    }

    /// Closes a stranger's face; false if this is not a stranger's.
    pub(super) fn close(&mut self, node: NodeId) -> bool {
        let face = self.slot(node).and_then(|slot| self.slots[slot]);
        face.is_some_and(|face| face.opener == Opener::Stranger) && self.remove(node)
    }

    /// Closes a face of either opener; false if it does not exist.
    pub(super) fn remove(&mut self, node: NodeId) -> bool {
        let Some(slot) = self.slot(node) else { return false };
        let Some(face) = self.slots[slot].take() else { return false };
        if face.opener == Opener::Stranger {
            self.strangers -= 1;
        }
        if face.allowance.is_some() {
            self.unproven.remove(&(face.heard_at, node));
        }
        self.by_addr.remove(&face.addr);
        self.by_node.remove(&node.0);
        self.free.push(slot);
        self.directory.lock().remove(&node);
        true
    }

    /// True if there is no room for another stranger's face.
    pub(super) fn is_full(&self) -> bool {
        self.strangers >= self.strangers_max
    }

    /// True if any stranger has a face.
    pub(super) fn has_strangers(&self) -> bool {
        self.strangers > 0
    }

    /// The face that yields its place to a stranger at this address, if one does: the unproven face
    /// heard from longest ago, at once; where none is unproven and the stranger is proven, the face
    /// heard from longest ago, if that is as long ago as `after`.
    pub(super) fn yields_to(
        &mut self,
        addr: SocketAddr,
        now: Instant,
        after: Duration,
    ) -> Option<NodeId> {
        match self.unproven.first() {
            Some(&(_, node)) => Some(node),
            None if self.is_allowed(addr) => self.silent(now, after),
            None => None,
        }
    }

    /// The stranger's face heard from longest ago, if that is as long ago as `after`.
    fn silent(&mut self, now: Instant, after: Duration) -> Option<NodeId> {
        if now < self.full_until {
            return None;
        }
        let face = *self.strangers().min_by_key(|face| (face.heard_at, face.node))?;
        // Until then no other face becomes silent for longer than this one.
        self.full_until = face.heard_at + after;
        (now >= self.full_until).then_some(face.node)
    }

    /// Strangers' faces that nothing has come from for `after`, and when to look again.
    pub(super) fn idle(&self, now: Instant, after: Duration) -> (Vec<NodeId>, Instant) {
        let is_idle = |face: &&Face| now >= face.heard_at + after;
        let idle = self.strangers().filter(is_idle).map(|face| face.node).collect();
        let heard = self.strangers().filter(|face| !is_idle(face)).map(|face| face.heard_at);
        (idle, heard.min().map_or(Instant::MAX, |heard_at| heard_at + after))
    }

    fn is_allowed(&self, addr: SocketAddr) -> bool {
        self.allowed.iter().any(|range| range.contains(addr.ip()))
    }

    fn strangers(&self) -> impl Iterator<Item = &Face> {
        self.slots.iter().flatten().filter(|face| face.opener == Opener::Stranger)
    }

    fn slot(&self, node: NodeId) -> Option<usize> {
        // The application's first faces have the slots of their numbers.
        match self.slots.get(node.index()) {
            Some(Some(face)) if face.node == node => Some(node.index()),
            _ => self.by_node.get(&node.0).copied(),
        }
    }

    fn insert(
        &mut self,
        addr: SocketAddr,
        (opener, allowance): (Opener, Option<Allowance>),
        now: Instant,
    ) -> Result<NodeId, FaceError> {
        if self.next == LOCAL.0 {
            return Err(FaceError::NumbersExhausted);
        }
        let node = NodeId(self.next);
        self.next += 1;
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(Face { node, addr, opener, heard_at: now, allowance });
        self.by_node.insert(node.0, slot);
        self.by_addr.insert(addr, slot);
        let told = SocketAddr::new(addr.ip().to_canonical(), addr.port());
        self.directory.lock().insert(node, if told.is_ipv4() { told } else { addr });
        Ok(node)
    }
}

/// The form in which a socket bound to `local` sees a remote address; `None` if that is invalid.
fn as_seen_from(local: SocketAddr, addr: SocketAddr) -> Option<SocketAddr> {
    let ip = addr.ip().to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if addr.port() == 0 || ip.is_unspecified() || ip.is_multicast() || is_broadcast {
        return None;
    }
    if local.ip().to_canonical().is_loopback() && !ip.is_loopback() {
        return None;
    }
    match (local, ip, addr) {
        (SocketAddr::V4(_), IpAddr::V4(_), _) => Some(SocketAddr::new(ip, addr.port())),
        (SocketAddr::V4(_), IpAddr::V6(_), _) => None,
        (SocketAddr::V6(_), IpAddr::V4(ip), _) => {
            Some(SocketAddr::new(ip.to_ipv6_mapped().into(), addr.port()))
        }
        (SocketAddr::V6(_), IpAddr::V6(_), SocketAddr::V6(addr)) => {
            Some(SocketAddrV6::new(*addr.ip(), addr.port(), 0, addr.scope_id()).into())
        }
        (SocketAddr::V6(_), IpAddr::V6(_), SocketAddr::V4(_)) => None,
    }
}

/// Hashes numbers that the table assigns itself, so that no peer can choose them.
#[derive(Debug, Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        // The golden ratio's fraction: neighbours end up far apart, in the upper bits as well.
        self.0 = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn table(strangers_max: usize) -> FaceTable {
        FaceTable::new(addr(1), strangers_max, AddressRange::LOOPBACK.to_vec())
    }

    /// A table in which only the application's faces are proven.
    fn wary(strangers_max: usize) -> FaceTable {
        FaceTable::new(addr(1), strangers_max, Vec::new())
    }

    #[test]
    fn a_face_that_closed_leaves_its_number_to_nobody() {
        let mut table = table(8);
        let own = table.open(addr(10), at(0)).expect("an address");
        assert_eq!(own, (NodeId(0), true));
        assert_eq!(table.let_in(addr(11), at(0)), Some(NodeId(1)));
        assert!(table.close(NodeId(1)) && !table.close(NodeId(1)) && !table.close(NodeId(0)));
        assert_eq!(table.let_in(addr(11), at(0)), Some(NodeId(2)));
        assert_eq!(table.let_in(addr(12), at(0)), Some(NodeId(3)));
        assert_eq!((table.addr(NodeId(1)), table.addr(NodeId(2))), (None, Some(addr(11))));
        assert_eq!(table.hear(addr(12), at(0)), Some(NodeId(3)));
        let faces = [(0, 10), (2, 11), (3, 12)].map(|(node, port)| (NodeId(node), addr(port)));
        assert_eq!(table.directory().faces(), faces);
    }

    #[test]
    fn a_strangers_face_that_the_application_wants_too_stays() {
        let mut table = table(1);
        assert_eq!(table.let_in(addr(10), at(0)), Some(NodeId(0)));
        assert_eq!(table.let_in(addr(11), at(0)), None, "one at most");
        assert_eq!(table.open(addr(10), at(0)), Ok((NodeId(0), false)));
        assert!(!table.close(NodeId(0)));
        assert_eq!(table.let_in(addr(11), at(0)), Some(NodeId(1)));
        assert_eq!(table.idle(at(900), Duration::from_secs(300)).0, [NodeId(1)]);
    }

    #[test]
    fn the_face_heard_from_longest_ago_makes_room_once_it_has_been_silent() {
        let mut table = table(3);
        let ten = Duration::from_secs(10);
        for port in [10, 11, 12] {
            table.let_in(addr(port), at(u64::from(port))).expect("room");
        }
        table.hear(addr(10), at(13));
        assert_eq!(table.silent(at(20), ten), None);
        assert_eq!(table.silent(at(21), ten), Some(NodeId(1)));
        table.close(NodeId(1));
        table.let_in(addr(13), at(21)).expect("room");
        assert_eq!(table.silent(at(21), ten), None);
        table.hear(addr(12), at(22));
        assert_eq!(table.silent(at(22), ten), None, "it spoke just in time");
        assert_eq!(table.silent(at(23), ten), Some(NodeId(0)));
    }

    #[test]
    fn unproven_faces_make_room_first_and_at_once_and_proven_ones_for_none_of_them() {
        let (ten, first) = (Duration::from_secs(10), [127, 0, 0, 1]);
        let range = AddressRange::around(first.into(), 32);
        let mut table = FaceTable::new(addr(1), 3, vec![range]);
        let forged = |host: u8| SocketAddr::from(([127, 0, 1, host], 10));
        for (host, second) in [(0, 0), (1, 1)] {
            table.let_in(forged(host), at(second)).expect("room");
        }
        table.let_in(addr(10), at(2)).expect("room");
        table.hear(forged(0), at(3));
        for proven_or_not in [addr(11), forged(2)] {
            assert_eq!(table.yields_to(proven_or_not, at(3), ten), Some(NodeId(1)));
        }
        for (port, yields) in [(11, 1), (12, 0)] {
            assert_eq!(table.yields_to(addr(port), at(3), ten), Some(NodeId(yields)));
            assert!(table.close(NodeId(yields)));
            table.let_in(addr(port), at(3)).expect("room");
        }
        // All are proven now.
        assert_eq!(table.yields_to(forged(3), at(900), ten), None);
        assert_eq!(table.yields_to(addr(13), at(11), ten), None);
        assert_eq!(table.yields_to(addr(13), at(12), ten), Some(NodeId(2)));
        assert!(table.unproven.is_empty());
    }

    #[test]
    fn an_unproven_face_has_an_allowance_until_the_application_wants_it() {
        let mut table = wary(8);
        let (node, own) = (NodeId(0), NodeId(1));
        assert_eq!(table.let_in(addr(10), at(0)), Some(node));
        assert_eq!(table.open(addr(11), at(0)), Ok((own, true)));
        table.credit(node, 100);
        let (_, allowance) = table.way_to(node).expect("a face");
        assert!(allowance.is_some_and(|allowed| allowed.covers(addr(10).ip(), 300)));
        assert!(table.way_to(own).expect("a face").1.is_none());
        assert_eq!(table.open(addr(10), at(0)), Ok((node, false)));
        assert!(table.way_to(node).expect("a face").1.is_none() && table.unproven.is_empty());
        assert!(table.remove(node) && table.way_to(node).is_none());
    }

    #[test]
    fn idle_faces_are_found_and_the_next_look_is_when_another_may_be() {
        let mut table = table(8);
        let after = Duration::from_secs(300);
        assert_eq!(table.idle(at(0), after), (vec![], Instant::MAX));
        table.open(addr(9), at(0)).expect("an address");
        table.let_in(addr(10), at(10)).expect("room");
        table.let_in(addr(11), at(20)).expect("room");
        table.hear(addr(10), at(30));
        assert_eq!(table.idle(at(319), after), (vec![], at(320)));
        assert_eq!(table.idle(at(320), after), (vec![NodeId(2)], at(330)));
    }

    #[test]
    fn an_address_where_nobody_can_be_has_no_face() {
        let mut table = table(8);
        let unspecified = ["127.0.0.1:0", "0.0.0.0:5"];
        let nobodys = ["224.0.23.170:5", "255.255.255.255:5"];
        let beyond = ["[::1]:5", "10.0.0.1:5"];
        for text in [unspecified, nobodys, beyond].concat() {
            let wrong: SocketAddr = text.parse().expect("an address");
            let error = table.open(wrong, at(0)).expect_err(text);
            assert_eq!(error, FaceError::Address { addr: wrong, local: addr(1) });
            assert_eq!(table.let_in(wrong, at(0)), None, "{text}");
        }
    }

    #[test]
    fn a_socket_of_ipv6_knows_addresses_of_ipv4_by_their_mapped_form() {
        let mut table = FaceTable::new("[::]:1".parse().expect("an address"), 8, Vec::new());
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:10".parse().expect("an address");
        assert_eq!(table.open(addr(10), at(0)), Ok((NodeId(0), true)));
        assert_eq!(table.addr(NodeId(0)), Some(mapped));
        assert_eq!(table.hear(mapped, at(0)), Some(NodeId(0)));
        assert_eq!(table.directory().addr(NodeId(0)), Some(addr(10)));
    }
}
