//! Requests for many keys in one call: a window of keys is sorted and divided into bundles, and a
//! bundle leaves whenever an earlier one is answered.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::Payload;
use paceline_proto::overlay::{Expect, Item, Key, Operation, Outcome};
use tokio::sync::mpsc;

use super::VALUE_BYTES_MAX;
use super::entry::{place, wrap};
use super::error::KeyError;
use super::replies::DhtReply;
use super::{Dht, Shared};

/// Bytes of values in a bundle, unless one value has more.
const BUNDLE_BYTES_MAX: usize = 256 << 10;
/// Bytes of values that are sorted together.
const WINDOW_BYTES_MAX: usize = 8 << 20;
/// Results that wait to be read.
const RESULTS_MAX: usize = 256;
/// After this long without input, the incomplete window is sent.
const IDLE: Duration = Duration::from_millis(1);

/// The outcome of one key of many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyResult<T> {
    /// Its place in the input, from 0.
    pub place: u64,
    /// The key.
    pub key: Bytes,
    /// Its outcome.
    pub outcome: Result<T, KeyError>,
}

/// Results in the order in which they arrive.
#[derive(Debug)]
pub struct Results<T> {
    results: mpsc::Receiver<KeyResult<T>>,
}

impl<T> Results<T> {
    /// The next one; `None` after the last.
    pub async fn next(&mut self) -> Option<KeyResult<T>> {
        self.results.recv().await
    }

    /// The result of the only key.
    pub(super) async fn only(mut self) -> Result<T, KeyError> {
        self.next().await.map_or(Err(KeyError::Closed), |result| result.outcome)
    }
}

/// A key that the application names, and what is written under it, if anything is.
pub struct Wanted {
    pub key: Bytes,
    pub value: Bytes,
}

/// Where keys come from.
pub enum Source {
    Iterator(Box<dyn Iterator<Item = Wanted> + Send>),
    Entries(mpsc::Receiver<(Bytes, Bytes)>),
    Keys(mpsc::Receiver<Bytes>),
}

/// The operation on the keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    Put,
    /// Write if the condition holds.
    PutIf(Expect),
    Get,
    Remove,
    /// Deliver this payload to the hosts responsible for the keys.
    Send(Payload),
}

/// A key on its way.
struct Sent {
    place: u64,
    name: Bytes,
    request: u64,
}

/// A key that waits in the window.
struct Waiting {
    key: Key,
    place: u64,
    name: Bytes,
    item: Option<Item>,
}

/// One call.
pub struct Bulk<T> {
    shared: Arc<Shared>,
    lifetime: Duration,
    verb: Verb,
    read: fn(&[u8], Outcome) -> Option<T>,
    results: mpsc::Sender<KeyResult<T>>,
    reply_to: mpsc::UnboundedSender<(u64, DhtReply)>,
    outcomes: mpsc::UnboundedReceiver<(u64, DhtReply)>,
    sent: HashMap<Key, Sent>,
    places: u64,
}

impl<T: Send + 'static> Bulk<T> {
    /// Starts the requests. `read` turns the outcome of each key into its result, unless it failed.
    pub fn start(
        dht: &Dht,
        source: Source,
        verb: Verb,
        read: fn(&[u8], Outcome) -> Option<T>,
    ) -> Results<T> {
        let (results, received) = mpsc::channel(RESULTS_MAX);
        let (reply_to, outcomes) = mpsc::unbounded_channel();
        let bulk = Bulk {
            shared: dht.shared.clone(),
            lifetime: dht.lifetime,
            verb,
            read,
            results,
            reply_to,
            outcomes,
            sent: HashMap::new(),
            places: 0,
        };
        tokio::spawn(bulk.run(source));
        Results { results: received }
    }

    async fn run(mut self, mut source: Source) {
        let mut is_over = false;
        while !is_over {
            let Ok(window) = self.gather(&mut source, &mut is_over).await else {
                return;
            };
            for bundle in bundles(window, self.shared.settings.bundle) {
                if self.send(bundle).await.is_err() {
                    return;
                }
            }
        }
        while !self.sent.is_empty() {
            if self.take_outcome().await.is_err() {
                return;
            }
        }
    }

    /// Reads a window, checks it and sorts it.
    async fn gather(
        &mut self,
        source: &mut Source,
        is_over: &mut bool,
    ) -> Result<Vec<Waiting>, Abandoned> {
        let max = self.shared.settings.window;
        let (mut window, mut bytes) = (Vec::<Waiting>::new(), 0);
        while window.len() < max && bytes < WINDOW_BYTES_MAX {
            let wanted = match self.next(source, !window.is_empty()).await? {
                Next::Wanted(wanted) => wanted,
                Next::Idle => break,
                Next::Over => {
                    *is_over = true;
                    break;
                }
            };
            let place = self.places;
            self.places += 1;
            bytes += wanted.key.len() + wanted.value.len();
            match self.check(place, &wanted) {
                Ok(waiting) => window.push(waiting),
                Err(error) => self.give(place, wanted.key, Err(error)).await?,
            }
        }
        // Of equal keys the first stays: the sort is stable.
        window.sort_by_key(|waiting| waiting.key);
        let mut kept: Vec<Waiting> = Vec::with_capacity(window.len());
        for waiting in window {
            if kept.last().is_some_and(|last| last.key == waiting.key) {
                let error = KeyError::Duplicate { window: max };
                self.give(waiting.place, waiting.name, Err(error)).await?;
            } else {
                kept.push(waiting);
            }
        }
        Ok(kept)
    }

    fn check(&self, number: u64, wanted: &Wanted) -> Result<Waiting, KeyError> {
        let key = place(&wanted.key)?;
        let item = match &self.verb {
            Verb::Put | Verb::PutIf(_) => {
                let value = wrap(&wanted.key, &wanted.value)?;
                Some(Item { key, value, lifetime: self.lifetime })
            }
            Verb::Send(payload) if payload.len() > VALUE_BYTES_MAX => {
                return Err(KeyError::ValueTooLarge { bytes: payload.len() });
            }
            Verb::Get | Verb::Remove | Verb::Send(_) => None,
        };
        Ok(Waiting { key, place: number, name: wanted.key.clone(), item })
    }

    /// The next key; receives outcomes meanwhile.
    async fn next(&mut self, source: &mut Source, may_idle: bool) -> Result<Next, Abandoned> {
        if let Source::Iterator(iterator) = source {
            return Ok(iterator.next().map_or(Next::Over, Next::Wanted));
        }
        let idle = tokio::time::sleep(IDLE);
        tokio::pin!(idle);
        loop {
            tokio::select! {
                biased;
                wanted = source.recv() => return Ok(wanted.map_or(Next::Over, Next::Wanted)),
                reply = self.outcomes.recv(), if !self.sent.is_empty() => {
                    self.outcome(reply).await?;
                }
                () = &mut idle, if may_idle => return Ok(Next::Idle),
            }
        }
    }

    /// Sends a bundle once the limit of bundles under way allows it and none of its keys is under
    /// way.
    async fn send(&mut self, bundle: Vec<Waiting>) -> Result<(), Abandoned> {
        while bundle.iter().any(|waiting| self.sent.contains_key(&waiting.key)) {
            self.take_outcome().await?;
        }
        let permits = self.shared.permits.clone();
        let wait = permits.acquire_owned();
        tokio::pin!(wait);
        let permit = loop {
            tokio::select! {
                biased;
                reply = self.outcomes.recv(), if !self.sent.is_empty() => {
                    self.outcome(reply).await?;
                }
                permit = &mut wait => break permit.expect("it is never closed"),
            }
        };
        let count = bundle.len();
        let keys: Vec<Key> = bundle.iter().map(|waiting| waiting.key).collect();
        let (mut items, mut names) = (Vec::new(), Vec::with_capacity(count));
        for waiting in bundle {
            items.extend(waiting.item);
            names.push((waiting.key, waiting.place, waiting.name));
        }
        let operation = match &self.verb {
            Verb::Put => Operation::Put(items),
            Verb::PutIf(expect) => {
                Operation::PutIf(items.into_iter().map(|item| (*expect, item)).collect())
            }
            Verb::Get => Operation::Get(keys),
            Verb::Remove => Operation::Remove(keys),
            Verb::Send(payload) => Operation::Send { keys, payload: payload.clone() },
        };
        let request = self.shared.ask(operation, count, permit, &self.reply_to);
        for (key, place, name) in names {
            self.sent.insert(key, Sent { place, name, request });
        }
        Ok(())
    }

    async fn take_outcome(&mut self) -> Result<(), Abandoned> {
        let reply = self.outcomes.recv().await;
        self.outcome(reply).await
    }

    async fn outcome(&mut self, reply: Option<(u64, DhtReply)>) -> Result<(), Abandoned> {
        match reply {
            // This call keeps a sender of its own.
            None => Err(Abandoned),
            Some((_, DhtReply::Outcome(key, outcome))) => {
                let Some(sent) = self.sent.remove(&key) else { return Ok(()) };
                let result = match outcome {
                    Outcome::Failed(reason) => Err(reason.into()),
                    outcome => (self.read)(&sent.name, outcome).ok_or(KeyError::NoRoute),
                };
                self.give(sent.place, sent.name, result).await
            }
            Some((request, DhtReply::Rejected(reason))) => self.fail(request, &reason.into()).await,
            Some((request, DhtReply::Closed)) => self.fail(request, &KeyError::Closed).await,
        }
    }

    /// All keys of a request fail.
    async fn fail(&mut self, request: u64, error: &KeyError) -> Result<(), Abandoned> {
        let failed = self.sent.extract_if(|_, sent| sent.request == request);
        let failed: Vec<Sent> = failed.map(|(_, sent)| sent).collect();
        for sent in failed {
            self.give(sent.place, sent.name, Err(error.clone())).await?;
        }
        Ok(())
    }

    async fn give(
        &self,
        place: u64,
        key: Bytes,
        outcome: Result<T, KeyError>,
    ) -> Result<(), Abandoned> {
        self.results.send(KeyResult { place, key, outcome }).await.map_err(|_| Abandoned)
    }
}

impl Source {
    async fn recv(&mut self) -> Option<Wanted> {
        match self {
            Source::Iterator(iterator) => iterator.next(),
            Source::Entries(entries) => {
                entries.recv().await.map(|(key, value)| Wanted { key, value })
            }
            Source::Keys(keys) => keys.recv().await.map(|key| Wanted { key, value: Bytes::new() }),
        }
    }
}

enum Next {
    Wanted(Wanted),
    Idle,
    Over,
}

/// The application has dropped the results.
struct Abandoned;

/// Groups neighbouring keys, bounded in number and bytes.
fn bundles(window: Vec<Waiting>, keys_max: usize) -> VecDeque<Vec<Waiting>> {
    let mut bundles: VecDeque<Vec<Waiting>> = VecDeque::new();
    let mut bytes = 0;
    for waiting in window {
        let size = waiting.item.as_ref().map_or(0, |item| item.value.len());
        match bundles.back_mut() {
            Some(last) if last.len() < keys_max && bytes + size <= BUNDLE_BYTES_MAX => {
                bytes += size;
                last.push(waiting);
            }
            _ => {
                bytes = size;
                bundles.push_back(vec![waiting]);
            }
        }
    }
    bundles
}
