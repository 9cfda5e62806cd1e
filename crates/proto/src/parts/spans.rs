//! Whose the bytes of a queue are.

use std::collections::VecDeque;

use crate::core::ServiceNumber;

/// The services whose bytes wait in a queue, in order.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    spans: VecDeque<(ServiceNumber, usize)>,
    bytes: usize,
}

impl Spans {
    /// Adds bytes of a service at the end.
    pub fn push(&mut self, service: ServiceNumber, bytes: usize) {
        self.bytes += bytes;
        match self.spans.back_mut() {
            Some((last, span)) if *last == service => *span += bytes,
            _ => self.spans.push_back((service, bytes)),
        }
    }

    /// Removes all but the last `bytes`.
    pub fn keep_last(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some((_, span)) = self.spans.front_mut()
        {
            let removed = (*span).min(self.bytes - bytes);
            *span -= removed;
            self.bytes -= removed;
            if *span == 0 {
                self.spans.pop_front();
            }
        }
    }

    /// How many of the last `bytes` are a service's.
    pub fn of(&self, service: ServiceNumber, bytes: usize) -> usize {
        let mut before = self.bytes.saturating_sub(bytes);
        let mut of_service = 0;
        for &(whose, span) in &self.spans {
            let removed = span.min(before);
            before -= removed;
            of_service += if whose == service { span - removed } else { 0 };
        }
        of_service
    }

    /// Removes all.
    pub fn clear(&mut self) {
        *self = Spans::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_what_is_left_of_it_at_the_end_of_the_queue() {
        let (a, b) = (ServiceNumber(1), ServiceNumber(2));
        let mut spans = Spans::default();
        for (service, bytes) in [(a, 100), (a, 50), (b, 30), (a, 20)] {
            spans.push(service, bytes);
        }
        let of = |spans: &Spans, bytes| (spans.of(a, bytes), spans.of(b, bytes));
        assert_eq!(spans.spans.len(), 3);
        let expected =
            [(999, (170, 30)), (200, (170, 30)), (60, (30, 30)), (40, (20, 20)), (5, (5, 0))];
        for (bytes, whose) in expected {
            assert_eq!(of(&spans, bytes), whose, "the last {bytes}");
        }
        for (bytes, whose) in expected {
            spans.keep_last(bytes);
            assert_eq!(of(&spans, 200), whose, "{bytes} are left");
        }
        spans.keep_last(0);
        assert!(spans.spans.is_empty() && of(&spans, 9) == (0, 0));
        spans.push(b, 7);
        assert_eq!(of(&spans, 7), (0, 7));
        spans.clear();
        assert_eq!(of(&spans, 7), (0, 0));
    }
}
