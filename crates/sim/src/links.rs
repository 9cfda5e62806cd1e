use paceline_proto::core::{Instant, NodeId, mix};

/// Until when each link of a mesh sends. It takes one look, and 16 bytes, a place; a link that has
/// nothing to send takes none for long.
///
/// Open addressing: a link lies at its place, or at the next free one. Before it grows, links whose
/// time is over are forgotten: a table of those that send stays in the processor's cache.
#[derive(Debug, Default)]
pub(crate) struct Links {
    places: Vec<(u64, Instant)>,
    used: usize,
}

// No link: a node does not send to itself by one.
const FREE: u64 = u64::MAX;
const PLACES_MIN: usize = 64;

impl Links {
    /// Until when the link from one node to another sends; to be changed. A time that is over may
    /// be told as zero.
    pub(crate) fn sends_until(&mut self, now: Instant, from: NodeId, to: NodeId) -> &mut Instant {
        if self.used * 4 >= self.places.len() * 3 {
            self.make_room(now);
        }
        let name = name(from, to);
        let at = self.place(name);
        let place = &mut self.places[at];
        if place.0 == FREE {
            *place = (name, Instant::ZERO);
            self.used += 1;
        }
        &mut place.1
    }

    /// Until when the link sends, if it did not end long ago.
    #[cfg(test)]
    fn get(&self, from: NodeId, to: NodeId) -> Option<Instant> {
        if self.places.is_empty() {
            return None;
        }
        let (name, until) = self.places[self.place(name(from, to))];
        (name != FREE).then_some(until)
    }

    /// Bytes of memory it holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.places.capacity() * size_of::<(u64, Instant)>()
    }

    fn place(&self, name: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = mix(name) as usize & mask;
        while self.places[at].0 != name && self.places[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    fn make_room(&mut self, now: Instant) {
        let is_busy = |&(name, until): &(u64, Instant)| name != FREE && until > now;
        let busy = self.places.iter().filter(|place| is_busy(place)).count();
        // At most half of it is in use afterwards, so that it is not soon full again.
        let places = (busy * 2 + 1).next_power_of_two().max(PLACES_MIN);
        let places = places.max(self.places.len() / 2);
        let old = std::mem::replace(&mut self.places, vec![(FREE, Instant::ZERO); places]);
        self.used = busy;
        for (name, until) in old.into_iter().filter(is_busy) {
            let at = self.place(name);
            self.places[at] = (name, until);
        }
    }
}

fn name(from: NodeId, to: NodeId) -> u64 {
    from.0 << 32 | to.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_link_keeps_its_own_time() {
        let mut links = Links::default();
        let all = || (0..60).flat_map(|from| (0..60).map(move |to| (NodeId(from), NodeId(to))));
        let time = |from: NodeId, to: NodeId| Instant::from_nanos(from.0 * 60 + to.0);
        assert_eq!(links.get(NodeId(1), NodeId(2)), None);
        let now = Instant::ZERO;
        all().for_each(|(from, to)| *links.sends_until(now, from, to) = time(from, to));
        for (from, to) in all().skip(1) {
            assert_eq!(*links.sends_until(now, from, to), time(from, to));
            assert_eq!(links.get(from, to), Some(time(from, to)));
        }
        assert_eq!(links.get(NodeId(60), NodeId(0)), None);
    }

    #[test]
    fn links_that_have_nothing_to_send_take_no_room() {
        let mut links = Links::default();
        for step in 0..100_000u32 {
            let now = Instant::from_nanos(u64::from(step));
            *links.sends_until(now, NodeId::from(step), NodeId(0)) =
                Instant::from_nanos(u64::from(step) + 20);
        }
        assert!(links.memory_bytes() <= PLACES_MIN * 16 * 2, "{} bytes", links.memory_bytes());
        assert_eq!(links.get(NodeId(99_999), NodeId(0)), Some(Instant::from_nanos(100_019)));
    }
}
