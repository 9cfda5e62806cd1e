//! Runs drawn from seeds: what the swarms of all protocols share.

use paceline_sim::{Codec, Digest};

use crate::seeds;

/// Parts of a drawn run by their names, each with what turns it off.
pub type Options<S> = &'static [(&'static str, fn(&mut S))];

/// A run that is drawn from a seed: its nodes, what they do, and the faults.
///
/// A swarm says how a run is made and checked. From that follow its repetition through the codecs,
/// the report of a failure, and which parts of the run a failure needs.
pub trait Swarm: Clone + 'static {
    /// What a run came to in which no rule was broken.
    type Outcome;

    /// Each seed divisible by this is run again through both codecs, which must give the same
    /// digest. Once through the codec of the run itself, so that the digest is that of the seed
    /// alone.
    const REPEATED_EVERY: u64 = 8;

    /// Parts of a drawn run, and how to turn each of them off.
    const OPTIONS: Options<Self>;

    /// The seed.
    fn seed(&self) -> u64;

    /// The suite of the simulator's tests that draws the run.
    fn suite(&self) -> &'static str;

    /// The run in words, for the report of a failure.
    fn describe(&self) -> String;

    /// Passes messages through this codec.
    fn set_codec(&mut self, codec: Codec);

    /// Runs it with honest nodes under every checker. An error begins with the rule that was
    /// broken.
    fn run_honest(&self) -> Result<Self::Outcome, String>;

    /// The digest of a run.
    fn digest(outcome: &Self::Outcome) -> Digest;

    /// The command that runs the seed again.
    fn replay(&self) -> String {
        seeds::replay(self.suite(), self.seed())
    }

    /// What a run says; to an error, or a panic, it adds the command that replays it and the run in
    /// words.
    fn judged<T>(&self, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        seeds::caught(run)
            .map_err(|what| format!("{what}\nreplay: {}\n{}", self.replay(), self.describe()))
    }

    /// Runs it with honest nodes; at seeds that are multiples of `REPEATED_EVERY` also through the
    /// other codec, and a second time.
    fn run_repeated(&self) -> Result<Self::Outcome, String> {
        let outcome = self.run_honest()?;
        if self.seed().is_multiple_of(Self::REPEATED_EVERY) {
            for codec in [Codec::Typed, Codec::CheckWire] {
                let mut again = self.clone();
                again.set_codec(codec);
                if Self::digest(&again.run_honest()?) != Self::digest(&outcome) {
                    let replay = self.replay();
                    return Err(format!("{codec:?} gives another digest\nreplay: {replay}"));
                }
            }
        }
        Ok(outcome)
    }

    /// Which [options](Swarm::OPTIONS) of a run that fails it needs in order to break the same
    /// rule: each is turned off in turn, and stays off if the failure stays.
    fn hints(&self) -> String {
        let broken = |run: &Self| run.run_honest().err().map(|what| rule(&what));
        let Some(expected) = broken(self) else {
            return "hint: only the repetition fails".into();
        };
        let (mut smallest, mut off, mut needed) = (self.clone(), Vec::new(), Vec::new());
        for (option, turn_off) in Self::OPTIONS {
            let mut without = smallest.clone();
            turn_off(&mut without);
            if broken(&without).as_ref() == Some(&expected) {
                smallest = without;
                off.push(*option);
            } else {
                needed.push(*option);
            }
        }
        let list = |options: &[&str]| match options {
            [] => "nothing".to_string(),
            options => options.join(", "),
        };
        format!("hint: it fails as well without: {}; it needs: {}", list(&off), list(&needed))
    }
}

/// The rule that a report of a failure begins with: `C1 integrity`.
fn rule(what: &str) -> String {
    let line = what.lines().next().unwrap_or_default();
    line.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Runs seeds of a swarm, each [repeated](Swarm::run_repeated), as [`seeds::run_all`] does.
///
/// # Panics
/// With what the first seed that failed said, and what its failure needs.
pub fn run_all<S: Swarm, const N: usize>(
    draw: impl Fn(u64) -> S + Sync,
    measured: impl Fn(S::Outcome) -> [u64; N] + Sync,
) -> (u64, [u64; N]) {
    let run = |seed| draw(seed).run_repeated().map(&measured);
    seeds::run_all_explained(run, |seed| draw(seed).hints())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Breaks a rule where there is both loss and a crash.
    #[derive(Clone, Debug)]
    struct Drawn {
        loss: bool,
        crash: bool,
        pause: bool,
        codec: Codec,
        breaks_codec: bool,
    }

    impl Drawn {
        fn new(breaks_codec: bool) -> Drawn {
            let codec = Codec::Typed;
            Drawn { loss: true, crash: true, pause: true, codec, breaks_codec }
        }
    }

    impl Swarm for Drawn {
        type Outcome = Digest;

        const OPTIONS: Options<Drawn> = &[
            ("loss", |run| run.loss = false),
            ("pauses", |run| run.pause = false),
            ("crashes", |run| run.crash = false),
        ];

        fn seed(&self) -> u64 {
            16
        }

        fn suite(&self) -> &'static str {
            "drawn_seeds"
        }

        fn describe(&self) -> String {
            format!("{self:?}")
        }

        fn set_codec(&mut self, codec: Codec) {
            self.codec = codec;
        }

        fn run_honest(&self) -> Result<Digest, String> {
            self.judged(|| match (self.loss && self.crash, self.pause) {
                (true, _) if !self.breaks_codec => Err("C1 integrity at 2 s".into()),
                (false, true) if !self.breaks_codec => panic!("C2 fifo at 1 s"),
                _ => {
                    let is_other = self.breaks_codec && self.codec == Codec::CheckWire;
                    let mut digest = Digest::default();
                    digest.fold(is_other.into(), 0);
                    Ok(digest)
                }
            })
        }

        fn digest(outcome: &Digest) -> Digest {
            *outcome
        }
    }

    #[test]
    fn a_failure_names_its_replay_and_what_it_needs() {
        let run = Drawn::new(false);
        let said = run.run_repeated().unwrap_err();
        assert!(said.starts_with("C1 integrity at 2 s\nreplay: "), "{said}");
        assert!(said.contains("PACELINE_TEST_SEED_FIRST=16") && said.contains("drawn_seeds::"));
        assert!(said.ends_with(&run.describe()), "{said}");
        let hints = run.hints();
        assert_eq!(hints, "hint: it fails as well without: pauses; it needs: loss, crashes");
    }

    #[test]
    fn a_panic_is_a_failure_and_another_rule_is_another_failure() {
        let run = Drawn { loss: false, ..Drawn::new(false) };
        assert!(run.run_honest().unwrap_err().starts_with("C2 fifo at 1 s\n"));
    }

    #[test]
    fn a_digest_that_depends_on_the_codec_is_a_failure() {
        let run = Drawn::new(true);
        let said = run.run_repeated().unwrap_err();
        assert!(said.starts_with("CheckWire gives another digest"), "{said}");
        assert_eq!(run.hints(), "hint: only the repetition fails");
    }
}
