//! Groups of real processes in the network lab: members that are killed, paused, cut off, and that
//! come all at once.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use paceline_netlab::{NetworkLab, Plan};
use rustix::process::Signal;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use super::member::Member;
use crate::setup;

/// The rate of every port.
const RATE: u64 = 100_000_000;
/// Members that are killed.
const KILLS: usize = 20;
/// The detector's time, and what the rest may take.
const STALL_MAX: f64 = 1.5 + 0.2;
/// A member that was cut off rejoins within this time, seconds.
const REJOIN_MAX: f64 = 5.0;
/// A link that carries nothing is noticed after five seconds; the rest is for the agreement.
const LINK_MAX: f64 = 7.0;
/// How often a member is restarted at another address, and how soon it is a member again.
const MOVES: usize = 20;
const MOVE_MAX: f64 = 2.0;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Four members, or more, each in a namespace of its own.
struct Group {
    lab: NetworkLab,
    // By namespace.
    members: Vec<Member>,
    // Members that are gone, with all their deliveries.
    gone: Vec<Member>,
    next_id: u32,
}

impl Group {
    fn start(nodes: usize) -> Result<Group, String> {
        Group::start_among(nodes, nodes)
    }

    /// Starts `members` members, each in one of the first of `nodes` namespaces.
    fn start_among(members: usize, nodes: usize) -> Result<Group, String> {
        let lab = NetworkLab::build(Plan::new(nodes, RATE)).map_err(|error| error.to_string())?;
        let mut group = Group { lab, members: Vec::new(), gone: Vec::new(), next_id: 0 };
        for node in 0..members {
            let member = group.launch(node)?;
            group.members.push(member);
            if node == 0 {
                group.await_view(&[0], 1)?;
            }
        }
        Ok(group)
    }

    /// Starts a member in a namespace: the first one founds the group.
    fn launch(&mut self, node: usize) -> Result<Member, String> {
        let id = self.next_id;
        self.next_id += 1;
        self.launch_as(node, id)
    }

    /// Starts a member of this id in a namespace.
    fn launch_as(&self, node: usize, id: u32) -> Result<Member, String> {
        let seeds = (0..self.lab.nodes()).filter(|&other| id > 0 && other != node);
        let seeds: Vec<String> =
            seeds.map(|other| format!("{}:7946", self.lab.address(other))).collect();
        Member::start(&self.lab, node, id, &seeds)
    }

    /// Waits until these nodes are in one view of `members` members.
    fn await_view(&self, nodes: &[usize], members: usize) -> Result<Duration, String> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let views: BTreeSet<_> = nodes.iter().map(|&node| self.members[node].view()).collect();
            let is_one = views.len() == 1;
            if is_one && views.first().is_some_and(|(_, ids)| ids.len() == members) {
                return Ok(begun.elapsed());
            }
            sleep(Duration::from_millis(5));
        }
        let said: Vec<String> =
            nodes.iter().map(|&node| self.members[node].recent_notes()).collect();
        Err(format!("no view of {members} within {PATIENCE:?}:\n{}", said.join("\n")))
    }

    /// Replaces a member that is gone.
    fn replace(&mut self, node: usize) -> Result<(), String> {
        let member = self.launch(node)?;
        self.gone.push(std::mem::replace(&mut self.members[node], member));
        Ok(())
    }

    fn all(&self) -> Vec<usize> {
        (0..self.members.len()).collect()
    }

    /// After the traffic: each member has delivered every message of each other member since both
    /// joined, in order, once; and all agree on the messages of departed members. Messages that an
    /// excluded member sent are lost, and it delivered none while excluded.
    fn faults(&self, excluded: &[u32]) -> Vec<String> {
        let mut faults = Vec::new();
        // By origin, the last message that each member delivered.
        let mut lasts: BTreeMap<u32, BTreeMap<u32, u64>> = BTreeMap::new();
        for member in self.members.iter().chain(&self.gone) {
            let mut next: BTreeMap<u32, u64> = BTreeMap::new();
            for (_, origin, number) in member.deliveries() {
                let expected = next.insert(origin, number + 1).unwrap_or(number);
                let id = member.id;
                let has_gaps = excluded.contains(&origin) || excluded.contains(&id);
                if expected != number && !has_gaps {
                    faults.push(format!("n{id}: {number} of n{origin}, expected {expected}"));
                }
            }
            for (origin, next) in next {
                lasts.entry(origin).or_default().insert(member.id, next);
            }
        }
        // Those that are still there agree on where each origin ended.
        let present: BTreeSet<u32> = self.members.iter().map(|member| member.id).collect();
        for (origin, lasts) in lasts {
            let lasts: BTreeSet<u64> =
                lasts.iter().filter(|(id, _)| present.contains(id)).map(|(_, &n)| n).collect();
            // A member that joined after an origin had left delivered nothing from it.
            if lasts.len() > 1 && !excluded.contains(&origin) {
                faults.push(format!("of n{origin} members were told up to {lasts:?}"));
            }
        }
        faults
    }

    /// Ends the traffic and waits until all was delivered.
    fn settle(&self) {
        self.members.iter().for_each(Member::hush);
        sleep(Duration::from_secs(2));
    }
}

fn at_most(name: &str, measured: f64, bound: f64) -> Figure {
    let bound = Bound::AtMost(bound);
    Figure { name: name.to_owned(), measured: Some(measured), goal: bound, floor: bound }
}

fn faults_of(name: &str, group: &Group, excluded: &[u32]) -> Figure {
    group.settle();
    let faults = group.faults(excluded);
    faults.iter().take(5).for_each(|fault| println!("{name}: {fault}"));
    at_most(&format!("{name}: lost, doubled or out of order"), faults.len() as f64, 0.0)
}

/// A member is killed while messages flow, again and again.
fn kills() -> Result<Vec<Figure>, String> {
    let mut group = Group::start(4)?;
    group.await_view(&group.all(), 4)?;
    let (mut worst, mut stalls) = (0.0f64, Vec::new());
    for round in 0..KILLS {
        sleep(Duration::from_millis(700));
        let victim = round % 4;
        let killed = Instant::now();
        group.members[victim].kill();
        let others: Vec<usize> = group.all().into_iter().filter(|&node| node != victim).collect();
        group.await_view(&others, 3)?;
        sleep(Duration::from_millis(500));
        let stall = others
            .iter()
            .map(|&node| group.members[node].longest_silence(killed, Instant::now()))
            .fold(0.0, f64::max);
        println!("kill {}: n{} silent for {stall:.2} s", round + 1, group.members[victim].id);
        stalls.push(stall);
        worst = worst.max(stall);
        group.replace(victim)?;
        group.await_view(&group.all(), 4)?;
    }
    stalls.sort_by(f64::total_cmp);
    let median = Figure {
        name: "20 kills: stall, median, s".to_owned(),
        measured: Some(stalls[KILLS / 2]),
        goal: Bound::None,
        floor: Bound::None,
    };
    let faults = faults_of("20 kills", &group, &[]);
    Ok(vec![at_most("20 kills: stall, longest, s", worst, STALL_MAX), median, faults])
}

/// A member stands still for two seconds: at most that one goes, and comes back.
fn pause() -> Result<Vec<Figure>, String> {
    let group = Group::start(4)?;
    group.await_view(&group.all(), 4)?;
    sleep(Duration::from_secs(1));
    let paused = group.members[1].id;
    let before: BTreeSet<u32> = group.members.iter().map(|member| member.id).collect();
    group.members[1].signal(Signal::STOP);
    sleep(Duration::from_secs(2));
    group.members[1].signal(Signal::CONT);
    let back = group.await_view(&group.all(), 4)?;
    sleep(Duration::from_secs(2));
    group.await_view(&group.all(), 4)?;
    let mut expelled: BTreeSet<u32> = BTreeSet::new();
    for member in &group.members {
        // Before that the group grew.
        for ids in member.views().iter().skip_while(|ids| ids.len() < 4) {
            expelled.extend(before.difference(ids).filter(|&&id| id != paused));
        }
    }
    Ok(vec![
        at_most("pause of 2 s: others expelled", expelled.len() as f64, 0.0),
        at_most("pause of 2 s: whole again, s", back.as_secs_f64(), REJOIN_MAX),
        faults_of("pause of 2 s", &group, &[paused]),
    ])
}

/// One member is cut off, then half of them.
fn partitions() -> Result<Vec<Figure>, String> {
    let mut group = Group::start(4)?;
    group.await_view(&group.all(), 4)?;
    let failed = |error: paceline_netlab::NetlabError| error.to_string();
    let mut figures = Vec::new();
    for (name, apart) in [("3-1", vec![3]), ("2-2", vec![2, 3])] {
        let rest: Vec<usize> = group.all().into_iter().filter(|n| !apart.contains(n)).collect();
        for &a in &apart {
            for &b in &rest {
                group.lab.partition(a, b).map_err(failed)?;
            }
        }
        group.await_view(&rest, rest.len())?;
        sleep(Duration::from_secs(1));
        let refused = apart.iter().filter(|&&node| group.members[node].has_lost_primary()).count();
        let going_on = apart.len() - refused;
        figures.push(at_most(&format!("partition {name}: going on apart"), going_on as f64, 0.0));
        group.lab.heal().map_err(failed)?;
        let healed = group.await_view(&group.all(), 4)?.as_secs_f64();
        figures.push(at_most(&format!("partition {name}: whole again, s"), healed, REJOIN_MAX));
        sleep(Duration::from_secs(1));
    }
    Ok(figures)
}

/// One link of the ring drops everything in one direction, under load: the others go on without
/// one of its ends, which is back once the link works.
fn one_way_links() -> Result<Vec<Figure>, String> {
    let failed = |error: paceline_netlab::NetlabError| error.to_string();
    let mut figures = Vec::new();
    for (from, to) in [(1, 2), (2, 1)] {
        let name = format!("link {from} to {to} cut");
        let mut group = Group::start(4)?;
        group.await_view(&group.all(), 4)?;
        sleep(Duration::from_secs(1));
        // Of the two ends the younger one goes.
        let (left_out, rest) = (group.members[2].id, [0, 1, 3]);
        let cut = Instant::now();
        group.lab.drop_share(from, to, 1.0).map_err(failed)?;
        let whole = group.await_view(&rest, 3)?.as_secs_f64();
        sleep(Duration::from_secs(3));
        let stall = rest
            .iter()
            .map(|&node| group.members[node].longest_silence(cut, Instant::now()))
            .fold(0.0, f64::max);
        println!("{name}: a view without n{left_out} after {whole:.2} s, silent for {stall:.2} s");
        figures.push(at_most(&format!("{name}: whole again, s"), whole, LINK_MAX));
        figures.push(at_most(&format!("{name}: stall, longest, s"), stall, LINK_MAX));
        // It is kept out for five seconds from then, and longer while the link is cut.
        sleep(Duration::from_secs(4));
        group.await_view(&rest, 3)?;
        group.lab.heal().map_err(failed)?;
        let healed = group.await_view(&group.all(), 4)?.as_secs_f64();
        figures.push(at_most(&format!("{name}: back after healing, s"), healed, REJOIN_MAX));
        sleep(Duration::from_secs(2));
        figures.push(faults_of(&name, &group, &[left_out]));
    }
    Ok(figures)
}

/// A member is killed and starts again under its id at another address, again and again.
fn moves() -> Result<Vec<Figure>, String> {
    let mut group = Group::start_among(4, 5)?;
    group.await_view(&group.all(), 4)?;
    let (place, id) = (3, group.members[3].id);
    let mut worst = 0.0f64;
    for round in 0..MOVES {
        sleep(Duration::from_millis(700));
        group.members[place].kill();
        let begun = Instant::now();
        // Namespaces 3 and 4 in turn. The deliveries of the previous run are forgotten: this one
        // numbers its messages from 0 again.
        group.members[place] = group.launch_as(4 - round % 2, id)?;
        group.await_view(&group.all(), 4)?;
        let back = begun.elapsed().as_secs_f64();
        println!("move {}: n{id} is a member again after {back:.2} s", round + 1);
        worst = worst.max(back);
    }
    let faults = faults_of("20 moves", &group, &[id]);
    Ok(vec![at_most("20 moves: a member again, longest, s", worst, MOVE_MAX), faults])
}

/// 32 come at once.
fn join_storm() -> Result<Vec<Figure>, String> {
    let group = Group::start(33)?;
    let begun = Instant::now();
    group.await_view(&group.all(), 33)?;
    Ok(vec![at_most("32 joining at once: one view, s", begun.elapsed().as_secs_f64(), 10.0)])
}

/// Every member leaves and comes back, one after the other, under load.
fn rolling_restart() -> Result<Vec<Figure>, String> {
    let mut group = Group::start(4)?;
    group.await_view(&group.all(), 4)?;
    for node in group.all() {
        sleep(Duration::from_millis(500));
        group.members[node].leave()?;
        group.replace(node)?;
        group.await_view(&group.all(), 4)?;
    }
    Ok(vec![faults_of("rolling restart", &group, &[])])
}

/// Runs all of it.
pub fn run() -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    let mut figures = Vec::new();
    let mut is_complete = true;
    for part in [kills, pause, partitions, one_way_links, moves, join_storm, rolling_restart] {
        match part() {
            Ok(measured) => figures.extend(measured),
            Err(error) => {
                is_complete = false;
                println!("{error}");
            }
        }
    }
    println!();
    bounds::print(&figures);
    Ok(Outcome::of(is_complete && figures.iter().all(Figure::passes)))
}
