//! How much of a member's uplink, which all its hops share, each origin has used.
//!
//! Each hop serves its origins alike, but an origin whose blocks leave on several hops would get
//! more of the uplink than one whose blocks all leave on one. So origins are compared over all
//! hops by start-time fair queueing (Goyal, Vin & Cheng, *Start-time Fair Queueing*, SIGCOMM 1996):
//! the tag of an origin rises by the bytes that leave, and an origin whose queues were empty starts
//! at the tag in service. The copies of one block on several hops together count as one block:
//! shares are rates of messages, not of transmissions.

/// The tag of one origin.
#[derive(Clone, Copy, Debug)]
struct Service {
    origin: u32,
    tag: u64,
}

/// The tags of the origins at one member, bytes.
#[derive(Debug, Default)]
pub(super) struct Uplink {
    // Sorted by origin.
    services: Vec<Service>,
    // The start tag of the block that left last.
    in_service: u64,
}

impl Uplink {
    /// The origin's tag.
    pub(super) fn tag(&self, origin: u32) -> u64 {
        self.place(origin).map_or(self.in_service, |place| self.services[place].tag)
    }

    /// A block of the origin joins the queue of a hop while all its queues are empty.
    pub(super) fn note_backlogged(&mut self, origin: u32) {
        let in_service = self.in_service;
        let service = self.service(origin);
        service.tag = service.tag.max(in_service);
    }

    /// `bytes` of the origin leave.
    pub(super) fn note_left(&mut self, origin: u32, bytes: usize) {
        let service = self.service(origin);
        let start = service.tag;
        service.tag += bytes as u64;
        self.in_service = start;
    }

    fn place(&self, origin: u32) -> Result<usize, usize> {
        self.services.binary_search_by_key(&origin, |service| service.origin)
    }

    fn service(&mut self, origin: u32) -> &mut Service {
        let place = self.place(origin).unwrap_or_else(|place| {
            self.services.insert(place, Service { origin, tag: self.in_service });
            place
        });
        &mut self.services[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_that_paused_neither_saves_nor_owes() {
        let mut uplink = Uplink::default();
        (0..10).for_each(|_| uplink.note_left(7, 100));
        assert_eq!((uplink.tag(7), uplink.tag(2)), (1000, 900), "2 starts where 7 is served");
        uplink.note_backlogged(2);
        uplink.note_left(2, 40);
        assert_eq!((uplink.tag(7), uplink.tag(2)), (1000, 940));
        (0..5).for_each(|_| uplink.note_left(7, 100));
        uplink.note_backlogged(2);
        assert_eq!(uplink.tag(2), 1400, "its pause counts for nothing");
        uplink.note_left(2, 400);
        uplink.note_backlogged(2);
        assert_eq!(uplink.tag(2), 1800, "what it got counts while it is backlogged");
    }
}
