//! Transcripts: each tells a story of a protocol, as commands and what a simulated run then sends,
//! delivers and counts.
//!
//! The files beside this one are compared with the runs. After a change of behaviour
//! `PACELINE_UPDATE_TRANSCRIPTS=1 cargo test --release -p paceline-sim --test it transcripts::`
//! writes them again; `git diff` then shows what has changed.
//!
//! The first command names the protocol and its settings: `chain nodes=4 delay=1ms`. Further ones:
//!
//! ```text
//! n1 broadcast 100            a command of a node's application; of several nodes: n1..n3
//!   .. times=3 every=10ms     the command so often, at once or at this interval
//! show data ack               from now on show messages and events that begin with these words,
//!   .. from=n0,n2             messages that these nodes send, events that they get
//! run 20ms, run until 1s      let this time pass, or all the time until then
//! crash n1, restart n1        the node loses its state; it starts again
//! pause n1 50ms               the node handles nothing
//! block n0 n1, heal           nothing passes from the first to the second, which may be several:
//!                             n1..n3; all passes again
//! reset n0 n1 20ms            the stream breaks, and is up again after this time
//! stop-reading n1, read n1    the application consumes nothing; it consumes all, and goes on
//! count chain_resent          what was counted so far
//! ask where apple             a question about the state of nodes, if the protocol has any
//! ```
//!
//! A line of output is the time in milliseconds, the node of an event or both ends of a message as
//! it is sent, and its text.

mod chain;
mod group;
mod mircc;
mod overlay;
mod script;
mod slingshot;
mod stage;
mod walk;
mod words;

use std::fs;
use std::path::PathBuf;

use paceline_baselines::srm::Srm;
use paceline_proto::chain::Chain;
use paceline_proto::core::Instant;
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;
use paceline_sim::Fault;

use script::{LineFault, Script, difference};
use stage::{Log, Run, Stage};
use words::{Words, number, time};

#[test]
fn a_group_lets_a_member_in_once_it_has_answered_a_challenge() {
    check("group_join");
}

#[test]
fn a_group_flushes_what_a_crashed_member_did_not_pass_on() {
    check("group_crash");
}

#[test]
fn a_broken_hop_of_a_chain_resumes_at_the_frame_that_is_missing() {
    check("chain_resume");
}

#[test]
fn a_sender_stops_when_a_consumer_gives_no_credit_and_goes_on_when_it_does() {
    check("chain_credit");
}

#[test]
fn a_table_copies_a_record_again_when_a_holder_is_lost() {
    check("overlay_repair");
}

#[test]
fn a_bundle_of_keys_splits_by_next_hop() {
    check("overlay_bundle");
}

#[test]
fn a_lost_walker_is_sent_again_over_the_same_path() {
    check("walk_lost");
}

#[test]
fn interests_for_one_name_are_forwarded_once() {
    check("mircc_aggregation");
}

#[test]
fn a_lost_packet_is_computed_from_a_repair() {
    check("slingshot_repair");
}

#[test]
fn a_member_that_hears_a_request_does_not_make_its_own() {
    check("srm_suppression");
}

/// Runs a transcript and compares, or writes it.
fn check(name: &str) {
    let file = format!("crates/sim/tests/it/transcripts/{name}.txt");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(&file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let updates = std::env::var_os("PACELINE_UPDATE_TRANSCRIPTS").is_some();
    let result = play(&text).and_then(|run| match difference(&text, &run) {
        Some(_) if updates => {
            fs::write(&path, run).map_err(|error| LineFault { line: 1, what: error.to_string() })
        }
        Some(fault) => Err(fault),
        None => Ok(()),
    });
    if let Err(LineFault { line, what }) = result {
        panic!("{file}:{line}: {what}");
    }
}

/// Runs the commands of a transcript. Returns its text with the output of the run.
fn play(text: &str) -> Result<String, LineFault> {
    let script = Script::parse(text)?;
    let (mut player, mut outputs, mut line) = (Player::default(), Vec::new(), 0);
    for block in &script.blocks {
        for command in block.commands.iter().filter(|command| !command.text.starts_with('#')) {
            line = command.number;
            player.carry_out(&command.text).map_err(|what| LineFault { line, what })?;
        }
        outputs.push(std::mem::take(&mut player.log.lines));
    }
    player.log.show(&[], Vec::new()).map_err(|what| LineFault { line, what })?;
    Ok(script.with_output(&outputs))
}

/// A transcript that is being run.
#[derive(Default)]
struct Player {
    stage: Option<Box<dyn Stage>>,
    log: Log,
    now: Instant,
    // Commands of applications so far.
    commands: u64,
}

impl Player {
    fn carry_out(&mut self, text: &str) -> Result<(), String> {
        let mut words = Words::new(text, self.stage.as_ref().map(|stage| stage.nodes()));
        match self.stage.take() {
            None => {
                let stage = open(&mut words)?;
                self.log.width = if stage.nodes() > 10 { "n10>n11".len() } else { "n0>n1".len() };
                self.stage = Some(stage);
            }
            Some(mut stage) => {
                self.direct(&mut *stage, &mut words)?;
                self.stage = Some(stage);
            }
        }
        words.end()
    }

    fn direct(&mut self, stage: &mut dyn Stage, words: &mut Words<'_>) -> Result<(), String> {
        let now = self.now;
        if words.begin_with_node() {
            return self.command(stage, words);
        }
        match words.word("a command")? {
            "show" => {
                let from = words.option("from").map_or(Ok(Vec::new()), |list| words.list(list))?;
                self.log.show(&words.rest("the beginning of a line")?, from)?;
            }
            "run" => {
                self.now = words.until(now)?;
                stage.run_until(self.now, &mut self.log);
            }
            "crash" => stage.fault(now, Fault::Crash(words.node()?)),
            "restart" => stage.fault(now, Fault::Restart(words.node()?)),
            "pause" => stage.fault(now, Fault::Pause(words.node()?, words.time()?)),
            "block" => {
                let from = words.node()?;
                let blocks = words.nodes()?.into_iter().map(|to| Fault::Block(from, to));
                blocks.for_each(|block| stage.fault(now, block));
            }
            "heal" => stage.fault(now, Fault::Heal),
            "reset" => {
                stage.fault(now, Fault::Reset(words.node()?, words.node()?, words.time()?));
            }
            "stop-reading" => stage.stop_reading(words.node()?),
            "read" => stage.read(now, words.node()?),
            "count" => {
                for counter in words.rest("a counter")? {
                    let count = stage.count(counter)?;
                    self.log.lines.push(format!("{counter} {count}"));
                }
            }
            "ask" => self.log.lines.extend(stage.answer(words)?),
            other => return Err(format!("there is no command `{other}`")),
        }
        Ok(())
    }

    /// A command of the applications of some nodes, once or several times.
    fn command(&mut self, stage: &mut dyn Stage, words: &mut Words<'_>) -> Result<(), String> {
        let nodes = words.nodes()?;
        let times = words.option("times").map(number).transpose()?.unwrap_or(1);
        let every = words.option("every").map(time).transpose()?.unwrap_or_default();
        let all = words.clone();
        for node in nodes {
            for place in 0..times {
                *words = all.clone();
                self.commands += 1;
                stage.command(self.now + every * place, node, words, self.commands)?;
            }
        }
        Ok(())
    }
}

/// The run of the protocol that the first command of a transcript names.
fn open(words: &mut Words<'_>) -> Result<Box<dyn Stage>, String> {
    match words.word("a protocol")? {
        "chain" => Run::<Chain>::open(words),
        "group" => Run::<Group>::open(words),
        "overlay" => Run::<Overlay>::open(words),
        "slingshot" => Run::<Slingshot>::open(words),
        "srm" => Run::<Srm>::open(words),
        "mircc" => Run::<Forwarder>::open(words),
        "walk" => Run::<Server>::open(words),
        other => Err(format!("there is no protocol `{other}`")),
    }
}

/// A short transcript whose output is right.
const PASSES: &str = "\
# A broadcast goes round.
# The tests below change it.

chain nodes=3
show delivered
n0 broadcast 100
run 10ms
----
";

#[test]
fn a_transcript_that_differs_from_its_run_is_refused_with_the_line() {
    let right = play(PASSES).unwrap();
    assert_eq!(right.matches("delivered seq 0 of n0, 100 B").count(), 3, "{right}");
    assert_eq!(difference(&right, &play(&right).unwrap()), None);
    let first = 1 + right.lines().position(|line| line.contains("delivered seq 0")).unwrap();
    // Another text, a line less, a line too many.
    for wrong in [
        right.replacen("100 B", "101 B", 1),
        right
            .lines()
            .enumerate()
            .filter(|(at, _)| *at != first - 1)
            .fold(String::new(), |text, (_, line)| text + line + "\n"),
        right.replacen("----\n", "----\n    0.000 n0     delivered\n", 1),
    ] {
        let fault = difference(&wrong, &play(&wrong).unwrap()).expect("it differs");
        assert_eq!(fault.line, first, "{}", fault.what);
    }
    // Another run: the message to the last member is lost for good.
    let other = right.replace("run 10ms", "block n1 n2\nrun 10ms");
    assert!(difference(&other, &play(&other).unwrap()).is_some());
}

#[test]
fn a_command_that_is_misused_is_refused_with_its_line() {
    let cases = [
        ("n0 broadcast 100", "n3 broadcast 100", "n3 is not one of 3 nodes"),
        ("n0 broadcast 100", "n0 broadcast", "expected a number of bytes"),
        ("n0 broadcast 100", "n0 broadcast 100 1", "unexpected `1`"),
        ("n0 broadcast 100", "n0 multicast 100", "a member of a chain has no command `multicast`"),
        ("n0 broadcast 100", "n0 broadcast 100 tims=3", "unexpected `tims=`"),
        ("n0 broadcast 100", "brake n0 n1", "there is no command `brake`"),
        ("n0 broadcast 100", "count chain_sent", "there is no counter `chain_sent`"),
        ("n0 broadcast 100", "ask where apple", "this protocol is not asked for `where`"),
        ("run 10ms", "run 10", "`10` is not a time in us, ms or s"),
        ("run 10ms", "run until 10ms\nrun until 5ms", "5ms is over"),
        ("show delivered", "show delivery", "until here no line began with `delivery`"),
        ("show delivered", "show delivered from=n0,3", "`3` is not a node"),
    ];
    for (right, wrong, expected) in cases {
        let fault = play(&PASSES.replace(right, wrong)).expect_err(wrong);
        assert_eq!(fault.what, expected, "{wrong}");
    }
    let settings = [
        ("chain nodes=3 window=4", "unexpected `window=`"),
        ("chain", "expected nodes="),
        ("chain nodes=3 hop_bytes=1", "hop_bytes is 1, expected at least 4"),
        ("train nodes=3", "there is no protocol `train`"),
    ];
    for (wrong, expected) in settings {
        let fault = play(&PASSES.replace("chain nodes=3", wrong)).expect_err(wrong);
        assert_eq!(fault, LineFault { line: 4, what: expected.to_owned() });
    }
}
