//! Debug.
mod overlay_swarm;
mod seeds;
use overlay_swarm::{Algorithm, Application, BEGIN, FAULTS, HEAL, Scenario, at, honest};
use paceline_proto::core::*;
use paceline_proto::overlay::*;
use paceline_sim::checkers::overlay::*;
use paceline_sim::checkers::tables::Table;
use paceline_sim::checkers::zave::*;
use paceline_sim::*;
use std::sync::Arc;
use std::time::Duration;

struct Log {
    key: Option<Key>,
    from: Instant,
    to: Instant,
    last: std::collections::BTreeMap<NodeId, String>,
}
impl<P: Host> Observer<P> for Log {
    fn before_call(&mut self, at: Instant, node: NodeId, input: &Input<'_, P>) {
        if at < self.from || at > self.to {
            return;
        }
        match input {
            Input::Message { from, message } => {
                let text = message.to_string();
                let short = self.key.map(|k| k.to_string()[..8].to_string());
                if short.is_none_or(|s| text.contains(&s))
                    || (text.contains("put reply")
                        || text.contains("copy reply") && self.key.is_some())
                {
                    println!("{at} {from} -> {node}: {}", &text[..text.len().min(400)]);
                }
            }
            Input::Command(c) => {
                let t = format!("{c:?}");
                println!("{at} {node} command {}", &t[..t.len().min(200)]);
            }
            _ => {}
        }
    }
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        if at < self.from || at > self.to {
            return;
        }
        let t = format!("{event:?}");
        println!("{at} {node} event {}", &t[..t.len().min(300)]);
    }
    fn after_call(&mut self, at: Instant, node: NodeId, p: &P, _: &mut Reply<P>) {
        let o = p.overlay();
        let mut s = match self.key {
            Some(k) => format!(
                "{:?} {:?}",
                o.role(),
                o.store()
                    .and_then(|s| s.get(k, at))
                    .map(|h| (h.stamp, h.value.as_ref().map(|v| v.len())))
            ),
            None => String::new(),
        };
        if let Some(l) = o.router().successors() {
            let mut n = vec![];
            o.router().tell(Topic::Neighbours, &mut n);
            s += &format!(" succ {l:?} tell {:?}", n.first());
        }
        if self.last.get(&node) != Some(&s) {
            if at >= self.from && at <= self.to {
                println!("{at} {node} STATE {s}");
            }
            self.last.insert(node, s);
        }
    }
    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        println!("{at} FAULT {fault:?}");
    }
}
#[allow(clippy::disallowed_methods)]
fn var(n: &str) -> Option<String> {
    std::env::var(n).ok()
}
fn go<R: Table + 'static>(s: &Scenario) {
    let mut config = SimConfig::new(s.nodes as usize, s.seed);
    config.network = s.network.clone();
    config.codec = s.codec;
    config.faults = FaultSupport::Any;
    let mut sim =
        Sim::new(config, Arc::new(s.config.clone().build().unwrap()), honest::<R>(&s.config));
    for (when, act) in &s.acts {
        match act.clone() {
            overlay_swarm::Act::Command(n, c) => sim.command_at(*when, n, c),
            overlay_swarm::Act::Fault(f) => sim.fault_at(*when, f),
        }
    }
    for w in 0..s.writers {
        sim.wake_at(at(BEGIN + 100 * u64::from(w)), NodeId(w));
    }
    let t = |n: &str, d: u64| var(n).map_or(d, |v| v.parse().unwrap());
    let key = var("KEY").map(|k| {
        let mut b = [0u8; 20];
        for i in 0..20 {
            b[i] = u8::from_str_radix(&k[2 * i..2 * i + 2], 16).unwrap();
        }
        Key::from_bytes(b)
    });
    let (from, to) = (at(t("FROM", 0)), at(t("TO", 1_000_000)));
    let terms = Terms { repaired_within: None };
    let mut obs = (
        (Log { key, from, to, last: Default::default() }, Application::new(s)),
        (OverlayLedger::new(&s.config, terms), RingChecker::new(&s.config, false)),
    );
    sim.run_until(at(FAULTS + HEAL).min(to), &mut obs);
    let mut m: Vec<_> = (0..s.nodes)
        .map(|n| (s.config.space().key(NodeId(n)), NodeId(n), sim.is_alive(NodeId(n))))
        .collect();
    m.sort();
    for (k, n, a) in m {
        println!("{k} {n} alive {a} {:?}", sim.node(n).role());
    }
    println!("{:?}", sim.counters().sorted());
    let _ = Duration::ZERO;
}
#[test]
fn debug() {
    let Some(seed) = var("SEED") else { return };
    let s = Scenario::draw(seed.parse().unwrap());
    println!(
        "{:?} {} nodes {} copies netfaults {}",
        s.algorithm,
        s.nodes,
        s.config.copies(),
        s.has_network_faults
    );
    match s.algorithm {
        Algorithm::Chord => go::<Chord>(&s),
        Algorithm::Koorde => go::<Koorde>(&s),
        Algorithm::Pastry => go::<Pastry>(&s),
        Algorithm::Tapestry => go::<Tapestry>(&s),
        Algorithm::Kademlia => go::<Kademlia>(&s),
    }
}
