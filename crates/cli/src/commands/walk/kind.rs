//! The kind of walks, as arguments.

use std::sync::Arc;

use paceline_graph::walk::{Chance, Kind, KindError, Length, Node2Vec};
use paceline_lab::scenario::units::parse_probability;

use crate::error::CliError;

/// The kind and length of walks.
#[derive(Debug, clap::Args)]
pub struct KindArgs {
    /// How a walk chooses its next vertex
    #[arg(long, value_name = "KIND", default_value = "deepwalk")]
    kind: KindName,

    /// Steps of a walk, for all kinds but ppr [default: 80]
    #[arg(long, value_name = "N", value_parser = steps())]
    length: Option<u32>,

    /// ppr: the chance to end at a vertex [default: 0.2]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    end: Option<f64>,

    /// ppr: the most steps [default: 1000]
    #[arg(long, value_name = "N", value_parser = steps())]
    steps_max: Option<u32>,

    /// node2vec: the return parameter, 0.01 to 100; the larger, the rarer a walk goes back
    /// [default: 1]
    #[arg(long, value_name = "P")]
    p: Option<f64>,

    /// node2vec: the in-out parameter, 0.01 to 100; the larger, the closer a walk stays
    /// [default: 1]
    #[arg(long, value_name = "Q")]
    q: Option<f64>,

    /// metapath: the edge labels to follow, step by step, repeated from the start
    #[arg(long, value_name = "L,L,..", value_delimiter = ',')]
    labels: Vec<u8>,

    /// restart: the chance to go back to the source at a step [default: 0.15]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    restart: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum KindName {
    /// Each edge with equal probability
    Uniform,
    /// The same, by the name of the paper that trains word2vec on such walks
    Deepwalk,
    /// Edges by their weights
    Weighted,
    /// Uniform, of drawn length: where walks end estimates personalised PageRank
    Ppr,
    /// By the previous vertex of the walk, and by weights if present
    Node2vec,
    /// Edges of one label at each step
    Metapath,
    /// Uniform, with restarts at the source
    Restart,
}

fn steps() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(Length::STEPS_MAX))
}

/// Walks of a kind.
#[derive(Debug)]
pub struct Asked {
    pub kind: Kind,
    pub length: Length,
    /// Default number of walks from a source.
    pub walks_per_source: u32,
    /// What it is, in words that tell it from all others.
    pub name: String,
}

impl KindArgs {
    /// What is asked for, if it makes sense.
    pub fn asked(&self) -> Result<Asked, CliError> {
        self.refuse_what_has_no_effect()?;
        let wrong = |error: KindError| CliError::Input(error.to_string());
        let (p, q) = (self.p.unwrap_or(1.0), self.q.unwrap_or(1.0));
        let restart = self.restart.unwrap_or(0.15);
        let (kind, name) = match self.kind {
            KindName::Uniform | KindName::Deepwalk | KindName::Ppr => {
                (Kind::Uniform, "uniform".to_owned())
            }
            KindName::Weighted => (Kind::Weighted, "weighted".to_owned()),
            KindName::Node2vec => {
                let bias = Node2Vec::new(p, q).map_err(wrong)?;
                (Kind::Node2Vec(bias), format!("node2vec p {p} q {q}"))
            }
            KindName::Metapath if self.labels.is_empty() => {
                let missing = "--kind metapath needs --labels, such as 1,2,1";
                return Err(CliError::Input(missing.to_owned()));
            }
            KindName::Metapath => {
                let labels: Arc<[u8]> = self.labels.as_slice().into();
                let name = format!("metapath {labels:?}");
                (Kind::Metapath(labels), name)
            }
            KindName::Restart => {
                let back = Chance::new(restart).map_err(wrong)?;
                (Kind::Restart(back), format!("restart {restart}"))
            }
        };
        let steps = self.length.unwrap_or(80);
        let (length, far, walks_per_source) = match self.kind {
            KindName::Ppr => {
                let (end, steps_max) = (self.end.unwrap_or(0.2), self.steps_max.unwrap_or(1000));
                let chance = Chance::new(end).map_err(wrong)?;
                let length = Length::Geometric { end: chance, steps_max };
                (
                    length,
                    format!("ends with probability {end}, after at most {steps_max} steps"),
                    1000,
                )
            }
            _ => (Length::Steps(steps), format!("{steps} steps"), 10),
        };
        Ok(Asked { kind, length, walks_per_source, name: format!("{name}, {far}") })
    }

    /// An argument of another kind is a mistake, not a wish.
    fn refuse_what_has_no_effect(&self) -> Result<(), CliError> {
        let is_ppr = self.kind == KindName::Ppr;
        let is_node2vec = self.kind == KindName::Node2vec;
        let is_metapath = self.kind == KindName::Metapath;
        let is_restart = self.kind == KindName::Restart;
        let given = [
            ("--length", self.length.is_some(), !is_ppr, "walks of random length use --end"),
            ("--end", self.end.is_some(), is_ppr, "it applies only to --kind ppr"),
            ("--steps-max", self.steps_max.is_some(), is_ppr, "it applies only to --kind ppr"),
            ("--p", self.p.is_some(), is_node2vec, "it applies only to --kind node2vec"),
            ("--q", self.q.is_some(), is_node2vec, "it applies only to --kind node2vec"),
            (
                "--labels",
                !self.labels.is_empty(),
                is_metapath,
                "it applies only to --kind metapath",
            ),
            ("--restart", self.restart.is_some(), is_restart, "it applies only to --kind restart"),
        ];
        match given.iter().find(|(_, is_given, has_effect, _)| *is_given && !has_effect) {
            None => Ok(()),
            Some((name, _, _, why)) => {
                Err(CliError::Input(format!("{name} has no effect on these walks: {why}")))
            }
        }
    }
}
