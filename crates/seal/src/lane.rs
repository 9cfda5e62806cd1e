//! Lanes: the records of one direction of a session, numbered, sealed, and opened once.

use thiserror::Error;

use crate::cipher::{Forged, Nonce, Sealer, Suite, Tag, Unavailable};
use crate::secret::Secret;
use crate::window::Window;

/// Records that one key seals. Source: the limit of AES-GCM for records of up to 64 KiB that keeps
/// an attacker's advantage below 2^-57 (RFC 9001, section 6.6 and appendix B).
pub const RECORDS_PER_GENERATION: u64 = 1 << 23;
/// Forged records under one key after which the session must end. Source: the integrity limit of
/// ChaCha20-Poly1305 (RFC 9001, section 6.6).
pub const FORGERIES_MAX: u64 = 1 << 36;

/// Words of the window of a lane of datagrams: a reach of 1,024 records.
const WINDOW_WORDS: usize = 17;

/// Which record of a lane: what its header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    /// The generation of its key, modulo 2^16: the number of key changes before it.
    pub generation: u16,
    /// Records of the lane before it.
    pub sequence: u64,
}

impl Number {
    /// The number of the record that has `sequence` before it.
    pub fn of(sequence: u64) -> Number {
        Number { generation: (sequence / RECORDS_PER_GENERATION) as u16, sequence }
    }
}

/// A key that is ready to seal or to open.
struct Ready {
    key: Secret,
    sealer: Box<dyn Sealer>,
}

impl Ready {
    fn new(suite: Suite, key: Secret) -> Result<Ready, Unavailable> {
        Ok(Ready { sealer: suite.sealer(&key)?, key })
    }

    fn next(&self, suite: Suite) -> Ready {
        Ready::new(suite, self.key.next()).expect("the suite of the key before it")
    }
}

/// The sender's end of a lane.
pub struct SendLane {
    suite: Suite,
    ready: Ready,
    sequence: u64,
}

impl SendLane {
    /// A lane that has sent nothing, under a key that no other lane has.
    ///
    /// # Errors
    /// If this processor cannot run the suite.
    pub fn new(suite: Suite, key: Secret) -> Result<SendLane, Unavailable> {
        Ok(SendLane { suite, ready: Ready::new(suite, key)?, sequence: 0 })
    }

    /// The number of the next record: its header carries it.
    pub fn number(&self) -> Number {
        Number::of(self.sequence)
    }

    /// Encrypts `text`, the next record's, in place, and authenticates it with `header`.
    pub fn seal(&mut self, header: &[u8], text: &mut [u8]) -> Tag {
        let tag = self.ready.sealer.seal(Nonce::of(self.sequence), header, text);
        self.sequence += 1;
        if self.sequence.is_multiple_of(RECORDS_PER_GENERATION) {
            self.ready = self.ready.next(self.suite);
        }
        tag
    }
}

/// In which order a lane's records arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each directly after the one before it: a stream.
    InTurn,
    /// In any order, some never: datagrams.
    Any,
}

enum Seen {
    InTurn { next: u64 },
    Any(Box<Window<WINDOW_WORDS>>),
}

impl Seen {
    fn admits(&self, sequence: u64) -> bool {
        match self {
            Seen::InTurn { next } => sequence == *next,
            Seen::Any(window) => window.admits(sequence),
        }
    }

    fn accept(&mut self, sequence: u64) {
        match self {
            Seen::InTurn { next } => *next = sequence + 1,
            Seen::Any(window) => window.accept(sequence),
        }
    }
}

/// Why a record was not opened. The lane is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// Its generation is not that of its number, or is too far from the present one.
    #[error("a record of a generation that is over or too far ahead")]
    Generation,
    /// A record of this number was opened before, or it is too old to tell; on a stream it is not
    /// the next one.
    #[error("a record that was received before, or out of turn")]
    Replayed,
    /// The tag does not fit.
    #[error("a record that was not sealed by the peer")]
    Forged,
}

/// The receiver's end of a lane.
pub struct ReceiveLane {
    suite: Suite,
    // The number of key changes of the present key.
    generation: u64,
    // Of datagrams that the first of the present generation has overtaken.
    former: Option<Ready>,
    present: Ready,
    // Derived when a record first claims it, so that a forged one costs no second derivation.
    next: Option<Ready>,
    seen: Seen,
    forgeries: u64,
}

impl ReceiveLane {
    /// A lane that has received nothing.
    ///
    /// # Errors
    /// If this processor cannot run the suite.
    pub fn new(suite: Suite, key: Secret, order: Order) -> Result<ReceiveLane, Unavailable> {
        let seen = match order {
            Order::InTurn => Seen::InTurn { next: 0 },
            Order::Any => Seen::Any(Box::default()),
        };
        let present = Ready::new(suite, key)?;
        Ok(ReceiveLane {
            suite,
            generation: 0,
            former: None,
            present,
            next: None,
            seen,
            forgeries: 0,
        })
    }

    /// Decrypts the `text` of a record in place. Each record is opened at most once. The checks
    /// before the cipher cost nothing that an attacker can raise.
    ///
    /// # Errors
    /// If it is not a record of this lane that may be opened; `text` then holds no plaintext.
    pub fn open(
        &mut self,
        number: Number,
        header: &[u8],
        text: &mut [u8],
        tag: &Tag,
    ) -> Result<(), OpenError> {
        let Number { generation, sequence } = number;
        if Number::of(sequence).generation != generation || sequence == u64::MAX {
            return Err(OpenError::Generation);
        }
        let claimed = sequence / RECORDS_PER_GENERATION;
        let ready = if claimed == self.generation {
            &self.present
        } else if claimed == self.generation + 1 {
            self.next.get_or_insert_with(|| self.present.next(self.suite))
        } else if claimed + 1 == self.generation {
            self.former.as_ref().ok_or(OpenError::Generation)?
        } else {
            return Err(OpenError::Generation);
        };
        if !self.seen.admits(sequence) {
            return Err(OpenError::Replayed);
        }
        if let Err(Forged) = ready.sealer.open(Nonce::of(sequence), header, text, tag) {
            self.forgeries += 1;
            return Err(OpenError::Forged);
        }
        self.seen.accept(sequence);
        if claimed > self.generation
            && let Some(next) = self.next.take()
        {
            self.former = Some(std::mem::replace(&mut self.present, next));
            self.generation = claimed;
            self.forgeries = 0;
        }
        if claimed == self.generation {
            self.erase_former(sequence);
        }
        Ok(())
    }

    /// Erases the key of the generation before once no record of it is admitted any longer:
    /// `sequence` of the present generation was opened.
    fn erase_former(&mut self, sequence: u64) {
        let reach = match &self.seen {
            Seen::InTurn { .. } => 0,
            Seen::Any(_) => Window::<WINDOW_WORDS>::REACH,
        };
        if self.former.is_some() && sequence % RECORDS_PER_GENERATION >= reach {
            self.former = None;
        }
    }

    /// True once [`FORGERIES_MAX`] records were forged under the present key: the session must end.
    pub fn is_worn(&self) -> bool {
        self.forgeries >= FORGERIES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"header";

    fn key(byte: u8) -> Secret {
        Secret::new([byte; 32])
    }

    /// Both ends of a lane that has carried `sequence` records of the first generation.
    fn lane(order: Order, sequence: u64) -> (SendLane, ReceiveLane) {
        let suite = Suite::ChaCha20Poly1305;
        let mut sending = SendLane::new(suite, key(1)).unwrap();
        let mut receiving = ReceiveLane::new(suite, key(1), order).unwrap();
        sending.sequence = sequence;
        match &mut receiving.seen {
            Seen::InTurn { next } => *next = sequence,
            Seen::Any(window) => window.accept(sequence - 1),
        }
        (sending, receiving)
    }

    struct Sealed {
        number: Number,
        text: Vec<u8>,
        tag: Tag,
    }

    fn seal(lane: &mut SendLane, text: &[u8]) -> Sealed {
        let (number, mut text) = (lane.number(), text.to_vec());
        let tag = lane.seal(HEADER, &mut text);
        Sealed { number, text, tag }
    }

    fn open(lane: &mut ReceiveLane, sealed: &Sealed) -> Result<Vec<u8>, OpenError> {
        let mut text = sealed.text.clone();
        lane.open(sealed.number, HEADER, &mut text, &sealed.tag).map(|()| text)
    }

    #[test]
    fn a_record_is_opened_once() {
        for order in [Order::InTurn, Order::Any] {
            let (mut sending, mut receiving) = lane(order, 1);
            let record = seal(&mut sending, b"text");
            assert_ne!(record.text, b"text");
            assert_eq!(open(&mut receiving, &record), Ok(b"text".to_vec()));
            assert_eq!(open(&mut receiving, &record), Err(OpenError::Replayed));
        }
    }

    #[test]
    fn only_datagrams_may_overtake_each_other() {
        let (mut sending, mut receiving) = lane(Order::Any, 1);
        let records = [0, 1, 2].map(|at| seal(&mut sending, &[at]));
        for at in [2, 0, 1] {
            assert_eq!(open(&mut receiving, &records[at]), Ok(vec![at as u8]));
        }
        let (mut sending, mut receiving) = lane(Order::InTurn, 1);
        let records = [0, 1].map(|at| seal(&mut sending, &[at]));
        assert_eq!(open(&mut receiving, &records[1]), Err(OpenError::Replayed));
        assert_eq!(open(&mut receiving, &records[0]), Ok(vec![0]));
        assert_eq!(open(&mut receiving, &records[1]), Ok(vec![1]));
    }

    #[test]
    fn a_change_of_any_bit_is_refused_and_changes_nothing() {
        let (mut sending, mut receiving) = lane(Order::Any, 1);
        let record = seal(&mut sending, b"text");
        let flip = |bytes: &[u8], bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        for bit in 0..8 * record.text.len() {
            let (mut text, tag) = (flip(&record.text, bit), record.tag);
            let opened = receiving.open(record.number, HEADER, &mut text, &tag);
            assert_eq!(opened, Err(OpenError::Forged));
            assert_ne!(text, b"text");
        }
        for bit in 0..8 * record.tag.len() {
            let tag = flip(&record.tag, bit).try_into().unwrap();
            let opened = receiving.open(record.number, HEADER, &mut record.text.clone(), &tag);
            assert_eq!(opened, Err(OpenError::Forged));
        }
        for bit in 0..8 * HEADER.len() {
            let header = flip(HEADER, bit);
            let mut text = record.text.clone();
            let opened = receiving.open(record.number, &header, &mut text, &record.tag);
            assert_eq!(opened, Err(OpenError::Forged));
        }
        for bit in 0..64 {
            let number = Number::of(record.number.sequence ^ (1 << bit));
            let opened = receiving.open(number, HEADER, &mut record.text.clone(), &record.tag);
            assert!(opened.is_err(), "bit {bit}");
        }
        for bit in 0..16 {
            let generation = record.number.generation ^ (1 << bit);
            let number = Number { generation, ..record.number };
            let opened = receiving.open(number, HEADER, &mut record.text.clone(), &record.tag);
            assert_eq!(opened, Err(OpenError::Generation));
        }
        assert_eq!(open(&mut receiving, &record), Ok(b"text".to_vec()));
    }

    #[test]
    fn the_key_changes_with_the_generation_on_both_ends() {
        for order in [Order::InTurn, Order::Any] {
            let (mut sending, mut receiving) = lane(order, RECORDS_PER_GENERATION - 2);
            let records = [0, 1, 2, 3].map(|at| seal(&mut sending, &[at]));
            assert_eq!(records.each_ref().map(|record| record.number.generation), [0, 0, 1, 1]);
            for (at, record) in records.iter().enumerate() {
                assert_eq!(open(&mut receiving, record), Ok(vec![at as u8]));
            }
            assert_eq!(receiving.present.key, key(1).next());
            assert_eq!(sending.ready.key, key(1).next());
        }
    }

    #[test]
    fn a_datagram_overtaken_by_the_next_generation_opens_while_the_window_reaches_it() {
        let reach = Window::<WINDOW_WORDS>::REACH;
        let (mut sending, mut receiving) = lane(Order::Any, RECORDS_PER_GENERATION - 3);
        let late = [0, 1, 2].map(|at| seal(&mut sending, &[at]));
        let mut after = Vec::new();
        for _ in 0..=reach {
            after.push(seal(&mut sending, b"after"));
        }
        assert!(open(&mut receiving, &after[0]).is_ok());
        assert_eq!(open(&mut receiving, &late[0]), Ok(vec![0]));
        assert_eq!(open(&mut receiving, &late[0]), Err(OpenError::Replayed));
        assert!(open(&mut receiving, &after[reach as usize - 2]).is_ok());
        assert_eq!(open(&mut receiving, &late[2]), Ok(vec![2]));
        assert!(receiving.former.is_some());
        assert!(open(&mut receiving, &after[reach as usize]).is_ok());
        assert!(receiving.former.is_none(), "its key is erased");
        assert_eq!(open(&mut receiving, &late[1]), Err(OpenError::Generation));
    }

    #[test]
    fn a_forged_record_of_the_next_generation_changes_no_key() {
        let (mut sending, mut receiving) = lane(Order::Any, 1);
        let record = seal(&mut sending, b"text");
        for generations in [1, 2, 1 << 16] {
            let sequence = record.number.sequence + generations * RECORDS_PER_GENERATION;
            let forged =
                Sealed { number: Number::of(sequence), text: record.text.clone(), tag: record.tag };
            let expected = if generations == 1 { OpenError::Forged } else { OpenError::Generation };
            assert_eq!(open(&mut receiving, &forged), Err(expected));
        }
        assert_eq!((receiving.generation, receiving.forgeries), (0, 1));
        assert_eq!(open(&mut receiving, &record), Ok(b"text".to_vec()));
        receiving.forgeries = FORGERIES_MAX;
        assert!(receiving.is_worn());
    }
}
