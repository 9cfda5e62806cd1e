//! `ping` and `traceroute` for the paths to a name.
//!
//! The producer of NAME answers an Interest for `NAME/32=ping/NONCE`; the forwarder where its hop
//! limit ends answers one for `NAME/32=trace/NONCE`. The path label that comes with an answer
//! steers the next Interest the same way.

use std::time::Duration;

use paceline_proto::ndn::{Interest, NackReason, Name, NameError, PathLabel, Stamps};
use rand::TryRng;
use rand::rngs::SysRng;

use super::error::AskError;
use super::{Answer, Forwarder, Way};

/// How long one Interest waits for its answer.
const LIFETIME: Duration = Duration::from_secs(1);
/// Interests without a label that bring nothing new, after which no further path is looked for.
const NOTHING_NEW_MAX: usize = 12;
/// Interests without a label that look for paths, at most.
const LOOKS_MAX: usize = 96;
/// Hops that are traced where no path label says how many there are.
const HOPS_MAX: u8 = 16;
/// How often a hop is asked that does not answer.
const TRIES: usize = 2;
/// The prefix of a node's answer that gives its name.
const WHO: &str = "node ";

/// An answer from the end of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The path that it came by: a label for each forwarder, from here on.
    pub path: PathLabel,
    /// What may be sent on that path.
    pub stamps: Stamps,
    /// How long it took.
    pub round_trip: Duration,
    /// The name that the node gives itself, control characters included; `None` if a producer gives
    /// none.
    pub node: Option<String>,
}

/// A node on a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// How many hops away it is, from 1.
    pub number: u8,
    /// Its answer, or why no answer came.
    pub reply: Result<Reply, AskError>,
    /// Further lines of the node's answer, control characters included.
    pub says: Vec<String>,
}

impl Forwarder {
    /// Pings the producer of a name, by this path, or by any path if it is empty. A producer that
    /// does not support `32=ping` is asked for the name itself, which a content store on the way
    /// may answer as well.
    ///
    /// # Errors
    /// If no answer comes within a second, or a forwarder refuses.
    pub async fn ping(&self, name: &Name, path: PathLabel) -> Result<Reply, AskError> {
        self.ping_by(name, Way::By(path)).await
    }

    async fn ping_by(&self, name: &Name, way: Way) -> Result<Reply, AskError> {
        let interest = question(name, "ping")?;
        let asked = self.ask_by(interest, way).await;
        match asked {
            Ok(answer) => Ok(Reply::new(&answer)),
            Err(AskError::Unanswered(_) | AskError::Refused(NackReason::NoRoute)) => {
                let interest = Interest {
                    can_be_prefix: true,
                    must_be_fresh: true,
                    lifetime_ms: Some(LIFETIME.as_millis() as u32),
                    ..Interest::new(name.clone(), 0)
                };
                let answer = self.ask_by(interest, way).await?;
                Ok(Reply { node: None, ..Reply::new(&answer) })
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the paths to a name, with Interests that discover paths: each forwarder sends them to
    /// a random next hop. Rarely used paths may be missed.
    ///
    /// # Errors
    /// If no answer comes at all.
    pub async fn paths(&self, name: &Name) -> Result<Vec<Reply>, AskError> {
        let mut found: Vec<Reply> = Vec::new();
        let (mut nothing_new, mut last) = (0, None);
        for _ in 0..LOOKS_MAX {
            match self.ping_by(name, Way::Any).await {
                Ok(reply) if found.iter().all(|known| known.path != reply.path) => {
                    found.push(reply);
                    nothing_new = 0;
                }
                Ok(_) => nothing_new += 1,
                Err(AskError::Closed) => return Err(AskError::Closed),
                Err(error) => {
                    last = Some(error);
                    // Two unanswered attempts end the search while no path is known.
                    nothing_new += if found.is_empty() { NOTHING_NEW_MAX / 2 } else { 1 };
                }
            }
            if nothing_new >= NOTHING_NEW_MAX {
                break;
            }
        }
        found.sort_by_key(|reply| reply.path.hops().collect::<Vec<_>>());
        match last {
            Some(error) if found.is_empty() => Err(error),
            _ => Ok(found),
        }
    }

    /// Asks every node on a path for its name, the nearest first, up to the producer. Without a
    /// path it looks for one first.
    ///
    /// # Errors
    /// If no path is given and no answer comes.
    pub async fn trace(&self, name: &Name, path: PathLabel) -> Result<Vec<Hop>, AskError> {
        let end = match path.is_empty() {
            true => self.ping(name, PathLabel::EMPTY).await?,
            false => self.ping(name, path).await.unwrap_or(Reply {
                path,
                stamps: Stamps::default(),
                round_trip: Duration::ZERO,
                node: None,
            }),
        };
        let path = end.path;
        // Each node that Data passes on its way back adds a label, except the producer.
        let count = if path.is_empty() { HOPS_MAX } else { path.len() as u8 };
        let mut hops = Vec::new();
        for number in 1..=count {
            let mut hop = self.hop(name, path, number).await?;
            let is_end = number == count && !path.is_empty();
            if is_end && hop.reply.is_err() {
                // A producer that does not support `32=trace`, but has answered a ping.
                hop.reply = self.ping(name, path).await;
            }
            let is_beyond = path.is_empty() && hop.reply.is_err();
            hops.push(hop);
            if is_beyond {
                break;
            }
        }
        Ok(hops)
    }

    async fn hop(&self, name: &Name, path: PathLabel, number: u8) -> Result<Hop, AskError> {
        let mut tries = 0;
        loop {
            let interest = Interest { hop_limit: Some(number), ..question(name, "trace")? };
            tries += 1;
            match self.ask(interest, path).await {
                Err(AskError::Closed) => return Err(AskError::Closed),
                Err(AskError::Unanswered(_)) if tries < TRIES => {}
                Err(error) => return Ok(Hop { number, reply: Err(error), says: Vec::new() }),
                Ok(answer) => {
                    let text = text(&answer);
                    let says = text.lines().filter(|line| !line.starts_with(WHO));
                    let says = says.map(str::to_owned).collect();
                    return Ok(Hop { number, reply: Ok(Reply::new(&answer)), says });
                }
            }
        }
    }
}

impl Reply {
    fn new(answer: &Answer) -> Reply {
        let text = text(answer);
        let node = text.lines().find_map(|line| line.strip_prefix(WHO));
        Reply {
            path: answer.path,
            stamps: answer.stamps,
            round_trip: answer.round_trip,
            node: node.map(str::to_owned),
        }
    }
}

/// The text of a node's answer, unchanged.
fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.data.content().to_bytes()).into_owned()
}

fn question(name: &Name, word: &str) -> Result<Interest, NameError> {
    let nonce = SysRng.try_next_u64().unwrap_or_default().to_be_bytes();
    let name = name.keyword(word)?.generic(&nonce)?;
    Ok(Interest { lifetime_ms: Some(LIFETIME.as_millis() as u32), ..Interest::new(name, 0) })
}
