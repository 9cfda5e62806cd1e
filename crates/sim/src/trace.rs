//! The digest of a run, and its counts.

use std::fmt;
use std::io;

use paceline_proto::core::{GroupId, Instant, Lane, Membership, NodeId, Protocol};

use crate::fault::Fault;
use crate::observer::{Input, Observer, Reply};

/// A running 128-bit hash of the events in order: the node called, the time, the sender, and the
/// number of bytes.
///
/// Two runs with equal digests took the same steps at the same times. Not cryptographic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    low: u64,
    high: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest { low: 0x243f_6a88_85a3_08d3, high: 0x1319_8a2e_0370_7344 }
    }
}

impl Digest {
    /// Folds two words in.
    pub fn fold(&mut self, a: u64, b: u64) {
        self.low = multiply_mix(self.low ^ a, 0x9e37_79b9_7f4a_7c15 ^ b);
        self.high =
            multiply_mix(self.high ^ b.rotate_left(32), 0xc2b2_ae3d_27d4_eb4f ^ a) ^ self.low;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

/// Writes what happens as rows of CSV: `time_ns,node,what,peer,detail`.
///
/// For a person who follows a run, or a `diff` of two runs whose digests differ.
pub struct Trace<W> {
    out: W,
    failed: Option<io::Error>,
}

impl<W: io::Write> Trace<W> {
    /// A trace that begins with its header.
    pub fn new(out: W) -> Trace<W> {
        let mut trace = Trace { out, failed: None };
        trace.write(format_args!("time_ns,node,what,peer,detail\n"));
        trace
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// The first error of writing, after which nothing more was written.
    pub fn finish(mut self) -> io::Result<()> {
        match self.failed {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, row: fmt::Arguments<'_>) {
        if self.failed.is_none() {
            self.failed = self.out.write_fmt(row).err();
        }
    }

    fn row(
        &mut self,
        at: Instant,
        node: NodeId,
        what: &str,
        peer: &str,
        detail: &dyn fmt::Display,
    ) {
        // A detail may hold commas; it holds no quotes.
        self.write(format_args!("{},{},{what},{peer},\"{detail}\"\n", at.as_nanos(), node.0));
    }
}

impl<P, W> Observer<P> for Trace<W>
where
    P: Protocol<Message: fmt::Display, Timer: fmt::Debug>,
    W: io::Write,
{
    fn before_call(&mut self, at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        match input {
            Input::Start => self.row(at, node, "start", "", &""),
            Input::Message { from, message } => {
                self.row(at, node, "receive", &from.0.to_string(), message);
            }
            Input::Timer(timer) => self.row(at, node, "timer", "", &format_args!("{timer:?}")),
            Input::Command(_) => self.row(at, node, "command", "", &""),
            Input::View(view) => self.row(at, node, "view", "", &view.id()),
            Input::Peer { peer, state } => {
                self.row(at, node, "peer", &peer.0.to_string(), &format_args!("{state:?}"));
            }
            Input::Drained(to) => self.row(at, node, "drained", &to.0.to_string(), &""),
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, _: &P::Event, _: &mut Reply<P>) {
        self.row(at, node, "event", "", &"");
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &P::Message) {
        let what = match lane {
            Lane::Datagram => "send-datagram",
            Lane::Stream => "send-stream",
        };
        self.row(at, from, what, &to.0.to_string(), message);
    }

    fn on_send_group(&mut self, at: Instant, from: NodeId, group: GroupId, message: &P::Message) {
        self.row(at, from, "send-group", &group.to_string(), message);
    }

    fn on_membership(&mut self, at: Instant, node: NodeId, group: GroupId, membership: Membership) {
        let what = match membership {
            Membership::Joined => "join",
            Membership::Left => "leave",
        };
        self.row(at, node, what, &group.to_string(), &"");
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        self.row(at, NodeId(0), "fault", "", &format_args!("{fault:?}"));
    }
}

fn multiply_mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b | 1);
    (product as u64) ^ ((product >> 64) as u64) ^ a.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_bit_matter() {
        let digest = |words: &[(u64, u64)]| {
            let mut digest = Digest::default();
            words.iter().for_each(|&(a, b)| digest.fold(a, b));
            digest
        };
        let base = digest(&[(1, 2), (3, 4)]);
        assert_ne!(base, digest(&[(3, 4), (1, 2)]));
        assert_ne!(base, digest(&[(2, 1), (3, 4)]));
        for bit in 0..64 {
            assert_ne!(base, digest(&[(1 ^ (1 << bit), 2), (3, 4)]));
            assert_ne!(base, digest(&[(1, 2 ^ (1 << bit)), (3, 4)]));
        }
        assert_eq!(base.to_string().len(), 32);
    }
}
