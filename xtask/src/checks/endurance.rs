//! `soak`: every service under load for half an hour, as processes of this machine. What runs for
//! long keeps its memory and its descriptors.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{ScopedJoinHandle, scope, sleep, spawn};
use std::time::{Duration, Instant};

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::shell::{Build, free_ports};

/// Nothing is judged before this; caches fill and lists grow to their bounds.
const WARM_UP: Duration = Duration::from_secs(300);
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// What lies within so long is one figure: the least memory of it.
const SPAN: Duration = Duration::from_secs(60);
/// Messages a second of the member that broadcasts: a million in half an hour.
const BROADCASTS_PER_S: u32 = 600;
const KEYS: usize = 2_000;
/// Clients that read all keys of the table, in the whole time.
const CLIENTS: u32 = 1_000;
/// Growth of a process, bytes an hour.
const GROWTH_MAX: f64 = 1e6;

/// A process that is watched, and what was seen of it.
struct Watched {
    name: String,
    child: Child,
    // When, resident bytes, descriptors.
    samples: Vec<(Duration, f64, usize)>,
}

/// All processes. They are killed when it goes.
struct Cluster {
    folder: tempfile::TempDir,
    first_port: u16,
    watched: Vec<Watched>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for watched in &mut self.watched {
            // It may have ended by itself, which the samples show.
            let _ = watched.child.kill();
            let _ = watched.child.wait();
        }
    }
}

/// Runs it: `PACELINE_SOAK_MINUTES`, 30 by default and at least 7.
pub fn soak() -> Result<Outcome, String> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::LeftOut("memory is read from /proc".into()));
    }
    let minutes = std::env::var("PACELINE_SOAK_MINUTES").unwrap_or_else(|_| "30".into());
    let minutes: u64 = minutes.parse().map_err(|_| "PACELINE_SOAK_MINUTES is not a number")?;
    if minutes < 7 {
        return Err("PACELINE_SOAK_MINUTES: at least 7, of which 5 warm up".into());
    }
    let total = Duration::from_secs(60 * minutes);
    let mut cluster = Cluster::start()?;
    let done = cluster.load(total)?;
    println!(
        "{} clients read {KEYS} keys each, {} fetches, {} jobs of walks, {} broadcasts",
        done.clients,
        done.fetches,
        done.jobs,
        total.as_secs() * u64::from(BROADCASTS_PER_S),
    );
    let figures: Vec<Figure> = cluster.watched.iter().flat_map(Watched::figures).collect();
    bounds::print(&figures);
    for watched in &cluster.watched {
        if !watched.figures().iter().all(Figure::passes) {
            println!("{}, resident MB by minute: {}", watched.name, watched.by_minute());
        }
    }
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}

/// How often clients did what they do.
#[derive(Default)]
struct Done {
    clients: u32,
    fetches: u32,
    jobs: u32,
}

impl Cluster {
    fn start() -> Result<Cluster, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let first_port = free_ports(16)?;
        let mut cluster = Cluster { folder, first_port, watched: Vec::new() };
        let write = |name: &str, text: &[u8]| {
            let path = cluster.folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one"))
                .and_then(|()| fs::write(&path, text))
                .map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let entries: String = (0..KEYS).map(|n| format!("key {n},{}\n", "v".repeat(100))).collect();
        write("entries.csv", entries.as_bytes())?;
        let keys: String = (0..KEYS).map(|n| format!("key {n}\n")).collect();
        write("keys", keys.as_bytes())?;
        write("files/four", &vec![7; 4 << 20])?;
        let edges: String = (0..2_000).map(|n| format!("{n} {}\n", (n * 7 + 1) % 2_000)).collect();
        write("graph.txt", edges.as_bytes())?;
        cluster.start_all()?;
        Ok(cluster)
    }

    fn at(&self, place: u16) -> String {
        format!("127.0.0.1:{}", self.first_port + place)
    }

    fn start_all(&mut self) -> Result<(), String> {
        let [group, table, multicast, face, serve] = [0, 3, 6, 9, 10].map(|place| self.at(place));
        for place in 0..3 {
            let bind = self.at(place);
            let how = if place == 0 { "--bootstrap" } else { "--peer" };
            let peer = if place == 0 { None } else { Some(group.as_str()) };
            let mut arguments = vec!["broadcast", "--bind", &bind, how];
            arguments.extend(peer);
            self.spawn("member of a group", &arguments, (place == 1).then_some(BROADCASTS_PER_S))?;
        }
        for place in 3..6 {
            let bind = self.at(place);
            let how = if place == 3 { "--bootstrap" } else { "--peer" };
            let mut arguments = vec!["node", "--service", "dht", "--bind", &bind, how];
            arguments.extend((place > 3).then_some(table.as_str()));
            self.spawn("host of a table", &arguments, None)?;
        }
        for (place, id) in [(6, "1"), (7, "2"), (8, "3")] {
            let bind = self.at(place);
            let what = if place == 8 { "send" } else { "recv" };
            let how = if place == 6 { "--bootstrap" } else { "--peer" };
            let mut arguments = vec!["multicast", what, "--bind", &bind, "--id", id, how];
            arguments.extend((place > 6).then_some(multicast.as_str()));
            let rate = (what == "send").then_some(100);
            self.spawn("member of a multicast", &arguments, rate)?;
        }
        let route = format!("/files={serve}");
        self.spawn(
            "forwarder",
            &["forward", "--bind", &face, "--face", &serve, "--route", &route],
            None,
        )?;
        let files = self.folder.path().join("files").display().to_string();
        self.spawn("producer", &["serve", &files, "--prefix", "/files", "--bind", &serve], None)?;
        for place in 11..13 {
            let bind = self.at(place);
            self.spawn("server of walks", &["node", "--service", "walk", "--bind", &bind], None)?;
        }
        Ok(())
    }

    /// Starts a process. With a rate, it gets that many numbered lines a second.
    fn spawn(&mut self, what: &str, arguments: &[&str], rate: Option<u32>) -> Result<(), String> {
        let spawned = Command::new(Build::Release.binary()?)
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut child = spawned.map_err(|error| format!("cannot run `paceline`: {error}"))?;
        // Without a rate it is kept open: the end of the input would end the process.
        if let Some(rate) = rate
            && let Some(mut stdin) = child.stdin.take()
        {
            spawn(move || {
                for number in 0u64.. {
                    if writeln!(stdin, "{number}").is_err() {
                        return;
                    }
                    sleep(Duration::from_secs(1) / rate);
                }
            });
        }
        let place = self.watched.len();
        let name = format!("{what}, process {place}");
        self.watched.push(Watched { name, child, samples: Vec::new() });
        sleep(Duration::from_millis(500));
        Ok(())
    }

    /// Lets clients come and go, and looks at all processes, for this long.
    fn load(&mut self, total: Duration) -> Result<Done, String> {
        let (table, walks) = (self.at(3), format!("{},{}", self.at(11), self.at(12)));
        let face = format!("udp://{}", self.at(9));
        self.client(&["dht", "load", "entries.csv", "--peer", &table])?;
        let (began, mut done, mut sampled) = (Instant::now(), Done::default(), Duration::ZERO);
        while began.elapsed() < total {
            let elapsed = began.elapsed();
            // Each as often as its share of the time says; fetches and jobs twice as often while
            // it warms up, so that what is kept of them has reached its bounds by the end of that.
            let share = |elapsed: Duration| elapsed.as_secs_f64() / total.as_secs_f64();
            let due = |most: u32| (f64::from(most) * share(elapsed)) as u32;
            let warm = elapsed + elapsed.min(WARM_UP);
            let due_warm = |most: u32| (f64::from(most) * share(warm)) as u32;
            // Nor is there ever more at once than there was then: what a peak takes is kept.
            let at_once = if elapsed < WARM_UP { 2 } else { 1 };
            if done.clients < due(CLIENTS) {
                self.clients(&["dht", "get", "--keys-from", "keys", "--peer", &table], at_once)?;
                done.clients += at_once;
            } else if done.fetches < due_warm(CLIENTS / 4) {
                self.client(&["fetch", "/files/four", "--out", "four", "--face", &face])?;
                let fetched = self.folder.path().join("four");
                fs::remove_file(fetched).map_err(|error| format!("nothing came: {error}"))?;
                done.fetches += 1;
            } else if done.jobs < due_warm(CLIENTS / 4) {
                let job = ["walk", "run", "graph.txt", "--servers", &walks, "--walks", "20"];
                self.clients(&job, at_once)?;
                done.jobs += at_once;
            } else {
                sleep(Duration::from_millis(50));
            }
            if elapsed >= sampled + SAMPLE_EVERY {
                sampled = elapsed;
                self.watched.iter_mut().try_for_each(|watched| watched.sample(elapsed))?;
            }
        }
        Ok(done)
    }

    /// Runs `at_once` clients with the same arguments concurrently.
    fn clients(&self, arguments: &[&str], at_once: u32) -> Result<(), String> {
        scope(|scope| {
            let clients: Vec<_> =
                (0..at_once).map(|_| scope.spawn(|| self.client(arguments))).collect();
            let ended = |client: ScopedJoinHandle<'_, _>| client.join().expect("no panic");
            clients.into_iter().try_for_each(ended)
        })
    }

    /// Runs a process that does something and ends.
    fn client(&self, arguments: &[&str]) -> Result<(), String> {
        let ran = Command::new(Build::Release.binary()?)
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run `paceline`: {error}"))?;
        match ran.status.success() {
            true => Ok(()),
            false => {
                let said = String::from_utf8_lossy(&ran.stderr);
                Err(format!("paceline {}: {}\n{said}", arguments.join(" "), ran.status))
            }
        }
    }
}

impl Watched {
    fn sample(&mut self, at: Duration) -> Result<(), String> {
        let folder = Path::new("/proc").join(self.child.id().to_string());
        let gone = |_| format!("the {} has ended", self.name);
        let status = fs::read_to_string(folder.join("status")).map_err(gone)?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        let kib: f64 = kib.ok_or_else(|| format!("the {} has ended", self.name))?;
        let descriptors = fs::read_dir(folder.join("fd")).map_err(gone)?.count();
        self.samples.push((at, 1024.0 * kib, descriptors));
        Ok(())
    }

    /// The least resident memory of each minute, MB.
    fn by_minute(&self) -> String {
        let mut minutes: Vec<f64> = Vec::new();
        for &(at, bytes, _) in &self.samples {
            let minute = (at.as_secs() / 60) as usize;
            minutes.resize(minutes.len().max(minute + 1), f64::INFINITY);
            minutes[minute] = minutes[minute].min(bytes / 1e6);
        }
        let minutes: Vec<String> = minutes.iter().map(|mb| format!("{mb:.1}")).collect();
        minutes.join(" ")
    }

    /// What it grew by between the first minute after the warm-up and the last one: of memory and
    /// descriptors the least in each, since clients come and go.
    fn figures(&self) -> [Figure; 2] {
        let last = self.samples.last().map_or(Duration::ZERO, |&(at, ..)| at);
        let span = |from: Duration| {
            let within =
                move |&&(at, ..): &&(Duration, f64, usize)| at >= from && at <= from + SPAN;
            self.samples.iter().filter(within)
        };
        let end = last.saturating_sub(SPAN);
        let resident = |from| span(from).map(|&(_, bytes, _)| bytes).fold(f64::INFINITY, f64::min);
        let descriptors = |from| span(from).map(|&(.., count)| count).min().unwrap_or_default();
        let hours = end.saturating_sub(WARM_UP).as_secs_f64() / 3600.0;
        let growth = (resident(end) - resident(WARM_UP)) / hours;
        let more = descriptors(end) as f64 - descriptors(WARM_UP) as f64;
        let figure = |name: String, measured: f64, most: f64| Figure {
            name,
            measured: Some(measured),
            goal: Bound::AtMost(most),
            floor: Bound::AtMost(most),
        };
        [
            figure(format!("{}: growth, MB/h", self.name), growth / 1e6, GROWTH_MAX / 1e6),
            figure(format!("{}: more descriptors", self.name), more, 0.0),
        ]
    }
}
