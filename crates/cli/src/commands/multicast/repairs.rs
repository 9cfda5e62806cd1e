//! The settings of repairs, as arguments.

use std::time::Duration;

use paceline::multicast::tuner::{self, Choice, Conditions, Messages, Target, Unreachable, choose};
use paceline::multicast::{Code, Config, Order, Pull, PullFrom, Rate};
use paceline_lab::scenario::units::{parse_duration, parse_frequency, parse_probability};
use serde::Serialize;

use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// The target of repairs.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct Wanted {
    /// Recover the share --recover of lost packets in this time: the tuner chooses the rate of
    /// fire, and adapts it to measured losses
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub within: Option<Duration>,

    /// The share of lost packets to recover --within that time [default: 0.95]
    #[arg(long, value_name = "SHARE", value_parser = parse_probability)]
    pub recover: Option<f64>,

    /// The most that repairs may be of all packets [default: 0.3]
    #[arg(long, value_name = "SHARE", value_parser = parse_probability)]
    pub overhead: Option<f64>,

    /// Expected members, used to choose the code and the first repair rate
    #[arg(long, value_name = "N", default_value = "16")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=65_536))]
    pub expect_members: u32,

    /// Expected loss at a member, used to choose the repair rate
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_probability)]
    pub expect_loss: f64,

    /// Expected packets of all members, used to choose the repair rate
    #[arg(long, value_name = "RATE", default_value = "1000/s", value_parser = parse_frequency)]
    pub expect_rate: f64,

    /// Expected bytes of a packet, used to choose the repair rate
    #[arg(long, value_name = "SIZE", default_value = "1000B", value_parser = parse::bytes)]
    pub expect_bytes: usize,
}

/// Packets of the linear code's window, where the tuner may choose it.
const WINDOW: u16 = 32;

impl Wanted {
    /// The target; none if none is stated.
    pub fn target(&self) -> Result<Option<Target>, CliError> {
        let Some(within) = self.within else {
            if self.recover.is_some() || self.overhead.is_some() {
                return Err(CliError::Input(
                    "--recover and --overhead need --within TIME".to_owned(),
                ));
            }
            return Ok(None);
        };
        let share = self.recover.unwrap_or(0.95);
        if !(share > 0.0 && share < 1.0) {
            let wrong = format!("--recover is {share}: expected above 0 and below 100 %");
            return Err(CliError::Input(wrong));
        }
        Ok(Some(Target::new(share, within, self.overhead.unwrap_or(0.3))))
    }

    /// Messages of this length, of packets of `expect_bytes`, of which the share of the target
    /// shall be whole in its time.
    pub fn messages(&self, bytes: usize, target: &Target) -> Result<Messages, CliError> {
        let packets = bytes.div_ceil(self.expect_bytes.max(1)).max(1);
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let messages = Messages { packets, share: target.share, within: target.within };
        let conditions = self.conditions();
        let takes = messages.takes(&conditions);
        if takes >= target.within {
            return Err(CliError::Input(format!(
                "--within {:?}: the {packets} packets of a message take {takes:.0?} at \
                 --expect-rate",
                target.within
            )));
        }
        Ok(messages)
    }

    /// The expected conditions of the group.
    pub fn conditions(&self) -> Conditions {
        Conditions {
            packet_bytes: self.expect_bytes as f64,
            ..Conditions::new(self.expect_members, self.expect_loss, self.expect_rate)
        }
    }

    /// What the tuner takes for a target, for packets or for messages, and whether that meets it.
    pub fn choice(
        &self,
        target: &Target,
        messages: Option<&Messages>,
        code: Option<CodeName>,
    ) -> Result<(Choice, Result<(), Unreachable>), CliError> {
        let linear = tuner::Code::Linear { window: WINDOW };
        let codes = match code {
            None => vec![tuner::Code::Xor, linear],
            Some(CodeName::Xor) => vec![tuner::Code::Xor],
            Some(CodeName::Rlc) => vec![linear],
        };
        let conditions = self.conditions();
        let of_messages =
            messages.and_then(|all| all.choose(&conditions, target.overhead_max, &codes));
        match of_messages.unwrap_or_else(|| choose(target, &conditions, &codes)) {
            Ok(choice) => Ok((choice, Ok(()))),
            Err(Unreachable::InTime { best }) => Ok((best, Err(Unreachable::InTime { best }))),
            Err(error) => Err(CliError::Input(format!("--overhead: {error}"))),
        }
    }
}

/// What repairs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeName {
    /// The exclusive or of packets
    Xor,
    /// Random linear combinations of the last packets
    Rlc,
}

impl From<tuner::Code> for CodeName {
    fn from(code: tuner::Code) -> CodeName {
        match code {
            tuner::Code::Xor => CodeName::Xor,
            tuner::Code::Linear { .. } => CodeName::Rlc,
        }
    }
}

/// Which member is asked for a packet that repairs did not bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "lowercase")]
enum AskName {
    /// Its sender, each time
    Sender,
    /// The member that named it, then two others at random, then its sender
    Holders,
}

impl From<AskName> for PullFrom {
    fn from(ask: AskName) -> PullFrom {
        match ask {
            AskName::Sender => PullFrom::Sender,
            AskName::Holders => PullFrom::Holders,
        }
    }
}

/// How repairs are made. All members need the same code, window and datagrams.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Repairs")]
pub struct Repairs {
    /// Packets of a repair, and members it goes to: the rate of fire [default: 8,3]
    #[arg(long, value_name = "R,C", value_parser = rate_of_fire, conflicts_with = "within")]
    rate_of_fire: Option<Rate>,

    /// The code of repairs [default: xor, or the choice of the tuner]
    #[arg(long, value_name = "CODE")]
    pub code: Option<CodeName>,

    /// With xor: bins that packets go to in turn, against losses in bursts
    #[arg(long, value_name = "N", default_value = "1")]
    stagger: usize,

    /// With rlc: packets that are combined
    #[arg(long, value_name = "N", default_value_t = WINDOW)]
    window: u16,

    /// Deliver the packets of a sender in its order; a missing packet delays the next ones
    #[arg(long)]
    fifo: bool,

    /// Which members to request packets from that repairs did not recover
    #[arg(long, value_name = "WHOM", default_value = "sender")]
    ask: AskName,

    /// Do not request packets that repairs did not recover
    #[arg(long, conflicts_with = "ask")]
    no_questions: bool,

    /// Packets that arrive later than this are flagged as late
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    deadline: Duration,

    /// Packets that have not arrived by then are reported lost
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    lost_after: Duration,

    #[command(flatten)]
    pub wanted: Wanted,
}

fn rate_of_fire(text: &str) -> Result<Rate, String> {
    let numbers = text
        .split_once(',')
        .and_then(|(r, c)| Some((r.trim().parse().ok()?, c.trim().parse().ok()?)));
    let (r, c) = numbers.ok_or_else(|| format!("`{text}` is not two numbers, such as 8,3"))?;
    Rate::new(r, c).map_err(|error| error.to_string())
}

impl Repairs {
    /// The configuration that they change, and what the tuner expects of it.
    pub fn apply(&self, ui: &Ui) -> Result<impl FnOnce(Config) -> Config + use<>, CliError> {
        let target = self.wanted.target()?;
        let mut rate = self.rate_of_fire.unwrap_or(Rate { r: 8, c: 3 });
        let mut code = self.code.unwrap_or(CodeName::Xor);
        if let Some(target) = &target {
            let (choice, met) = self.wanted.choice(target, None, self.code)?;
            rate = Rate { r: choice.setting.r.into(), c: choice.setting.c.into() };
            code = choice.setting.code.into();
            ui.note(&describe(&choice, target));
            if let Err(error) = met {
                ui.warn(&format!("the target cannot be met: {error}"));
            }
        }
        let code = match code {
            CodeName::Xor => Code::Xor { stagger: self.stagger },
            CodeName::Rlc => Code::Rlc { window: self.window.into() },
        };
        let order = if self.fifo { Order::Fifo } else { Order::Unordered };
        let (deadline, lost_after) = (self.deadline, self.lost_after);
        let pull = Pull { from: self.ask.into(), ..Pull::default() };
        let pull = (!self.no_questions).then_some(pull);
        Ok(move |config: Config| {
            config
                .with_rate(rate)
                .with_code(code)
                .with_order(order)
                .with_deadline(deadline)
                .with_lost_after(lost_after)
                .with_target(target)
                .with_pull(pull)
        })
    }
}

/// What a choice is expected to do, in a line.
pub fn describe(choice: &Choice, target: &Target) -> String {
    format!(
        "{}: {:.1} % of lost packets within {:?} expected, {:.1} % in total, {:.2} ms on average; \
         {:.1} % of packets are repairs",
        choice.setting,
        choice.in_time * 100.0,
        target.within,
        choice.recovered * 100.0,
        choice.mean.as_secs_f64() * 1e3,
        choice.setting.overhead() * 100.0
    )
}
