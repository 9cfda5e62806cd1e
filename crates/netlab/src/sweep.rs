//! Namespace names that identify the process that made them, and the removal of leftovers.

use std::fs;
use std::path::Path;

use super::{NetlabError, tool};

const PREFIX: &str = "paceline-";
const NAMESPACES: &str = "/run/netns";

/// The process that made a namespace. The start time distinguishes it from a later process with the
/// same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    started: u64,
}

impl Owner {
    pub(super) fn this_process() -> Owner {
        let pid = std::process::id();
        Owner { pid, started: start_time(pid).unwrap_or(0) }
    }

    /// The prefix of this process's lab number `lab`.
    pub(super) fn prefix(&self, lab: usize) -> String {
        format!("{PREFIX}{}-{}-{lab}-", self.pid, self.started)
    }

    fn of(namespace: &str) -> Option<Owner> {
        let mut parts = namespace.strip_prefix(PREFIX)?.split('-');
        let owner =
            Owner { pid: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? };
        (parts.count() == 2).then_some(owner)
    }

    fn lives(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }
}

/// Clock ticks from boot to the start of the process; `None` if it does not exist.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses and may hold anything; the start
    // time is field 22, the 20th after the closing parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Names of the namespaces that start with `prefix`.
pub(super) fn namespaces(prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(NAMESPACES) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Removes these namespaces with the processes still in them. Continues after a failure. A
/// namespace that another process removed meanwhile is not a failure.
pub(super) fn remove(names: &[String]) -> Result<(), NetlabError> {
    let mut first_failure = Ok(());
    for name in names {
        if let Ok(pids) = tool::run("ip", &["netns", "pids", name]) {
            for pid in pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
                // SAFETY: kill has no memory effects; the id was just read from the namespace.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        let removed = tool::run("ip", &["netns", "delete", name]).map(drop);
        if Path::new(NAMESPACES).join(name).exists() {
            first_failure = first_failure.and(removed);
        }
    }
    first_failure
}

/// Removes the namespaces of processes that no longer run, and returns their names.
pub fn sweep() -> Result<Vec<String>, NetlabError> {
    let mut names = namespaces(PREFIX);
    names.retain(|name| Owner::of(name).is_some_and(|owner| !owner.lives()));
    remove(&names)?;
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner() {
        let owner = Owner { pid: 17, started: 4242 };
        let name = format!("{}n3", owner.prefix(1));
        assert_eq!(name, "paceline-17-4242-1-n3");
        assert_eq!(Owner::of(&name), Some(owner));
        for foreign in ["paceline-", "paceline-17-4242", "paceline-a-b-c-d", "other-1-2-3-n0"] {
            assert_eq!(Owner::of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn this_process_lives_and_one_of_another_start_does_not() {
        let owner = Owner::this_process();
        assert!(owner.lives() || !cfg!(target_os = "linux"));
        assert!(!Owner { started: owner.started + 1, ..owner }.lives());
    }
}
