//! The services of a node, by number.

use crate::core::ServiceNumber;
use crate::parts::slots::{SlotId, Slots};

/// A service's place in the table of its node. What an ended service has left behind finds no later
/// one.
pub type ServicePlace = SlotId;

/// The services of a node: what its driver keeps of each.
#[derive(Debug)]
pub struct Services<T> {
    slots: Slots<T>,
    // Sorted by number.
    places: Vec<(ServiceNumber, ServicePlace)>,
}

impl<T> Default for Services<T> {
    fn default() -> Self {
        Services { slots: Slots::default(), places: Vec::new() }
    }
}

impl<T> Services<T> {
    /// The place of the first service.
    pub const FIRST: ServicePlace = SlotId { place: 0, generation: 0 };

    /// Adds a service, whose number no other one has.
    pub fn add(&mut self, number: ServiceNumber, service: T) -> ServicePlace {
        let place = self.slots.insert(service);
        let after = self.places.partition_point(|&(known, _)| known < number);
        self.places.insert(after, (number, place));
        place
    }

    /// Removes a service, and returns it with its number.
    pub fn remove(&mut self, place: ServicePlace) -> Option<(ServiceNumber, T)> {
        let service = self.slots.remove(place)?;
        let at = self.places.iter().position(|&(_, known)| known == place)?;
        Some((self.places.remove(at).0, service))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place of the service of this number.
    pub fn find(&self, number: ServiceNumber) -> Option<ServicePlace> {
        let found = self.places.binary_search_by_key(&number, |&(known, _)| known);
        found.ok().map(|at| self.places[at].1)
    }

    /// The number and place of each, by number.
    pub fn places(&self) -> &[(ServiceNumber, ServicePlace)] {
        &self.places
    }

    /// The service of this place.
    pub fn get(&self, place: ServicePlace) -> Option<&T> {
        self.slots.get(place)
    }

    /// The service of this place, to be changed.
    pub fn get_mut(&mut self, place: ServicePlace) -> Option<&mut T> {
        self.slots.get_mut(place)
    }

    /// All services, by place.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|(_, service)| service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_found_by_its_number_until_it_is_removed() {
        let mut services = Services::default();
        let [seven, three] = [7, 3].map(|number| services.add(ServiceNumber(number), number));
        assert_eq!((seven, services.len()), (Services::<u32>::FIRST, 2));
        let numbers: Vec<u32> = services.places().iter().map(|(number, _)| number.0).collect();
        assert_eq!(numbers, [3, 7]);
        assert_eq!(services.find(ServiceNumber(3)), Some(three));
        assert_eq!(services.remove(seven), Some((ServiceNumber(7), 7)));
        assert_eq!((services.remove(seven), services.find(ServiceNumber(7))), (None, None));
        let again = services.add(ServiceNumber(7), 70);
        assert!(again != seven && services.get(seven).is_none());
        assert_eq!(services.get_mut(again), Some(&mut 70));
        assert_eq!(services.iter().collect::<Vec<_>>(), [&70, &3]);
    }
}
