use std::time::Duration;

use paceline_lab::world::Outcome;

use super::ledger::{Home, Ledger};
use super::settings::Settings;
use super::watch::Watch;

/// What a run measured.
pub struct Measured {
    /// What the scenario does and measures.
    pub settings: Settings,
    /// What homes heard of their walks.
    pub ledger: Ledger,
    /// What only the simulator saw.
    pub watch: Option<Watch>,
    /// How it went.
    pub outcome: Outcome,
}

impl Measured {
    /// Mean time that a walker is under way, by Little's law: the walkers in queues, with workers
    /// and between servers at a time, over the walkers generated in that time. It is the delay with
    /// which a source learns what its rate does.
    pub(super) fn walk_time(&self) -> Duration {
        let Measured { settings, ledger, .. } = self;
        let homes = ledger.homes().iter().zip(settings.owners.servers());
        let walker_seconds = homes.map(|(home, &node)| {
            let served = home.visits as f64 * settings.config_of(node).service.as_secs_f64();
            let sent = (home.departed + home.returned) as f64 * settings.delay.as_secs_f64();
            home.queue_area + served + sent
        });
        let generated: u64 = ledger.homes().iter().map(|home| home.generated).sum();
        Duration::from_secs_f64(walker_seconds.sum::<f64>() / generated.max(1) as f64)
    }

    /// The share of the run in which a server's worker has nothing to serve; none where hops take
    /// what they take.
    pub(super) fn idle(&self, server: usize) -> Option<f64> {
        let node = *self.settings.owners.servers().get(server)?;
        let service = self.settings.config_of(node).service.as_secs_f64();
        let visits = *self.watch.as_ref()?.visits.get(server)? as f64;
        let homes = self.ledger.homes().iter();
        let time = homes.filter_map(Home::ended_s).fold(0.0, f64::max);
        (service > 0.0 && time > 0.0).then(|| 1.0 - visits * service / time)
    }
}
