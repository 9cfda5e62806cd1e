//! What the task of a service does: it joins, consumes what comes, and leaves.

use std::time::Duration;

use paceline::proto::{overlay, slingshot, walk};
use paceline::{
    Dht, Event, Expects, Host, JoinError, LeaveError, NodeId, ServiceBuilder, View, ViewsConfig,
    multicast,
};
use tokio::sync::{mpsc, watch};

use super::host::Start;
use crate::commands::member::{describe, explain, leave};
use crate::commands::multicast::{describe as describe_multicast, leave as leave_multicast};
use crate::commands::ndn::setup::Setup;
use crate::commands::node::dht::explain as explain_dht;
use crate::error::CliError;
use crate::service_tables::{Durable, Settings};

/// What a task says while it runs.
pub enum Notice {
    /// Its service has started: this one.
    Started(String),
    /// Something for people.
    Note(String),
    /// Something that they should look into.
    Warning(String),
}

/// Who creates the tables of hosts that start together.
pub enum Founder {
    /// The task of the first group says whether this host is its first member.
    Tells(watch::Sender<Option<bool>>),
    /// The others hear of it.
    Hears(watch::Receiver<Option<bool>>),
}

/// What a service counted until it ended.
#[derive(Debug)]
pub struct Done {
    /// What messages call it.
    pub label: String,
    /// Whether it has left in order.
    pub has_left: bool,
    /// What it consumed, in words; empty if it consumes nothing.
    pub consumed: String,
}

/// What the task of a service needs.
pub struct Serving {
    /// The host that it runs on.
    pub host: Host,
    /// The service's name.
    pub name: String,
    /// Its weight on the host's link.
    pub weight: u32,
    /// What messages call it.
    pub label: String,
    /// How it begins.
    pub start: Start,
    /// How long joining may take.
    pub join_within: Duration,
    /// How long leaving may take.
    pub leave_within: Duration,
    /// Who creates tables.
    pub founder: Founder,
    /// Where its notices go.
    pub tell: mpsc::Sender<Notice>,
    /// True once the node stops.
    pub stopped: watch::Receiver<bool>,
}

impl Serving {
    /// Runs the service until the node stops.
    ///
    /// # Errors
    /// If it cannot be joined, or ends by itself.
    pub async fn run(self, settings: Settings) -> Result<Done, CliError> {
        match settings {
            Settings::Group(views) => self.group(views).await,
            Settings::Multicast { views, repairs } => self.multicast(views, *repairs).await,
            Settings::Dht { overlay, durable } => self.dht(overlay, durable).await,
            Settings::Walks(config) => self.walks(config).await,
        }
    }

    /// A member of a group: it forwards and consumes what others broadcast.
    async fn group(mut self, views: ViewsConfig) -> Result<Done, CliError> {
        let builder = self.configured(self.host.group(&self.name)).with_views(|_| views);
        let joining = enter(builder, self.start.clone());
        let Some(joined) = self.unless_stopped(joining).await else { return Ok(self.unstarted()) };
        let (group, mut events) = joined.map_err(|error| self.failed(explain(error)))?;
        self.say_founder(group.id(), group.view().as_deref());
        self.started().await;
        let (mut messages, mut bytes) = (0, 0);
        while let Some(event) = self.unless_stopped(events.recv()).await {
            match event {
                None => return Err(self.ended()),
                Some(Event::Delivered(delivery)) => {
                    messages += 1;
                    bytes += delivery.payload.len() as u64;
                }
                Some(event) => self.note(describe(&event)).await,
            }
        }
        let has_left = leave(group, events).await;
        Ok(self.done(has_left, format!("{messages} messages, {bytes} bytes")))
    }

    /// A member of a group that multicasts: it repairs and consumes.
    async fn multicast(
        mut self,
        views: ViewsConfig,
        repairs: slingshot::Config,
    ) -> Result<Done, CliError> {
        let builder = self.configured(self.host.multicast(&self.name));
        let builder = builder.with_views(|_| views).with_repairs(|_| repairs);
        let joining = enter(builder, self.start.clone());
        let Some(joined) = self.unless_stopped(joining).await else { return Ok(self.unstarted()) };
        let (group, mut events) = joined.map_err(|error| self.failed(explain(error)))?;
        self.say_founder(group.id(), group.view().as_deref());
        self.started().await;
        let (mut packets, mut lost) = (0, 0);
        while let Some(event) = self.unless_stopped(events.recv()).await {
            match event {
                None => return Err(self.ended()),
                Some(multicast::Event::Packet(_)) => packets += 1,
                Some(multicast::Event::Lost { first, end, .. }) => lost += end - first,
                // Counters have these.
                Some(
                    multicast::Event::Overrun { .. }
                    | multicast::Event::Tuned { .. }
                    | multicast::Event::Slow { .. },
                ) => {}
                Some(event) => self.note(describe_multicast(&event)).await,
            }
        }
        let has_left = leave_multicast(&group, events).await;
        Ok(self.done(has_left, format!("{packets} packets, {lost} lost")))
    }

    /// A host of a table.
    async fn dht(
        mut self,
        overlay: overlay::Config,
        durable: Option<Durable>,
    ) -> Result<Done, CliError> {
        let Some(creates) = self.creates_tables().await else { return Ok(self.unstarted()) };
        let builder = self.configured(self.host.dht(&self.name)).with_overlay(|_| overlay);
        let builder = match durable {
            None => builder,
            Some(Durable::OnDisk(file)) => builder.durable(file),
            Some(Durable::InMemory(file)) => builder.durable_async(file),
        };
        let joining = async {
            match creates {
                true => builder.bootstrap().await,
                false => builder.join().await,
            }
        };
        let Some(joined) = self.unless_stopped(joining).await else { return Ok(self.unstarted()) };
        let dht = joined.map_err(|error| self.failed(explain_dht(error)))?;
        if let Some(damaged) = dht.damaged_file() {
            let text = format!("{}: {damaged}", self.label);
            let _ = self.tell.send(Notice::Warning(text)).await;
        }
        self.started().await;
        let payloads = self.consume(&dht).await?;
        let has_left = match dht.leave().await {
            Ok(()) | Err(LeaveError::Closed) => true,
            Err(LeaveError::TimedOut { .. }) => false,
            Err(error) => return Err(self.failed(CliError::Failed(error.to_string()))),
        };
        Ok(self.done(has_left, format!("{payloads} payloads sent to its keys")))
    }

    /// Consumes what is sent to keys of this host, until the node stops; how many payloads.
    async fn consume(&mut self, dht: &Dht) -> Result<u64, CliError> {
        let mut deliveries = dht.deliveries();
        let mut payloads = 0;
        tokio::pin! { let ended = dht.ended(); }
        loop {
            let next = async {
                tokio::select! {
                    failed = &mut ended => Err(failed),
                    delivery = deliveries.recv() => Ok(delivery),
                }
            };
            match self.unless_stopped(next).await {
                None => return Ok(payloads),
                Some(Ok(Some(_))) => payloads += 1,
                Some(Err(Some(error))) => {
                    return Err(self.failed(CliError::Failed(error.to_string())));
                }
                Some(Ok(None) | Err(None)) => return Err(self.ended()),
            }
        }
    }

    /// Whether this host creates the node's tables; none if the node stops before that is known.
    async fn creates_tables(&mut self) -> Option<bool> {
        let Founder::Hears(founded) = &self.founder else { return Some(false) };
        match self.start {
            Start::Bootstrap => Some(true),
            Start::Join => Some(false),
            Start::Expect(_) => {
                let mut founded = founded.clone();
                let decided =
                    async { founded.wait_for(Option::is_some).await.ok().and_then(|it| *it) };
                self.unless_stopped(decided).await.flatten()
            }
        }
    }

    /// A server of walks.
    async fn walks(mut self, config: walk::Config) -> Result<Done, CliError> {
        let builder = self.configured(self.host.walks(&self.name)).with_config(|_| config);
        let server = builder.serve().await;
        let server = server.map_err(|error| self.failed(CliError::Failed(error.to_string())))?;
        self.started().await;
        stop(&mut self.stopped).await;
        server.stop().await;
        Ok(self.done(true, String::new()))
    }

    /// A builder with what is configured alike for every kind of service.
    fn configured<S>(&self, builder: ServiceBuilder<S>) -> ServiceBuilder<S> {
        builder.weight(self.weight).within(self.join_within).leave_within(self.leave_within)
    }

    /// The first view says whether this host created the group: its oldest member did.
    fn say_founder(&self, own: NodeId, view: Option<&View>) {
        if let Founder::Tells(founder) = &self.founder {
            let first = view.and_then(|view| view.members().first());
            founder.send_replace(Some(first.is_some_and(|first| first.node == own)));
        }
    }

    async fn unless_stopped<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            value = future => Some(value),
            () = stop(&mut self.stopped) => None,
        }
    }

    async fn started(&self) {
        // The node prints until all tasks have ended.
        let _ = self.tell.send(Notice::Started(self.label.clone())).await;
    }

    async fn note(&self, text: Option<String>) {
        if let Some(text) = text {
            let _ = self.tell.send(Notice::Note(format!("{}: {text}", self.label))).await;
        }
    }

    /// The error with the service that it is of.
    fn failed(&self, error: CliError) -> CliError {
        let label = &self.label;
        match error {
            CliError::Input(text) => CliError::Input(format!("{label}: {text}")),
            CliError::Failed(text) => CliError::Failed(format!("{label}: {text}")),
            error => error,
        }
    }

    fn ended(&self) -> CliError {
        CliError::Failed(format!("{}: the host has stopped", self.label))
    }

    fn unstarted(self) -> Done {
        self.done(true, String::new())
    }

    fn done(self, has_left: bool, consumed: String) -> Done {
        Done { label: self.label, has_left, consumed }
    }
}

/// Creates a group or joins it.
async fn enter<S: Expects>(
    builder: ServiceBuilder<S>,
    start: Start,
) -> Result<S::Joined, JoinError> {
    match start {
        Start::Bootstrap => builder.bootstrap().await,
        Start::Join => builder.join().await,
        Start::Expect(hosts) => builder.expect(hosts).await,
    }
}

/// Returns once the node stops.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    // Without a sender the node is gone.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Forwards named data until the node stops.
///
/// # Errors
/// If the forwarder cannot start.
pub async fn forward(
    setup: Setup,
    tell: mpsc::Sender<Notice>,
    mut stopped: watch::Receiver<bool>,
) -> Result<Done, CliError> {
    let forwarder = setup.start()?;
    let label = format!("named data at {}", forwarder.local_addr());
    let _ = tell.send(Notice::Started(label.clone())).await;
    stop(&mut stopped).await;
    forwarder.stop().await;
    Ok(Done { label, has_left: true, consumed: String::new() })
}
