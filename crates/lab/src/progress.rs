/// Where long work says how far it is, and asks whether to go on.
///
/// Shared among threads. The command line draws a bar; a test takes [`Quiet`].
pub trait Progress: Sync {
    /// `len` pieces of work begin; `what` names them for the user.
    fn start(&self, len: u64, what: &str) {
        let _ = (len, what);
    }
    /// `n` more pieces are done.
    fn inc(&self, n: u64) {
        let _ = n;
    }
    /// The work is over.
    fn finish(&self) {}
    /// True once the user asked to stop. What is finished by then is kept.
    fn stopped(&self) -> bool {
        false
    }
}

/// Says nothing and never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {}
