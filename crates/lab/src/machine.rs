//! The machine, its memory, and the processor time that is used.

use std::fs;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The machine that measured something, as far as it says: a speed without one means little.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: Option<String>,
    /// Threads that may run at once.
    pub cores: usize,
    /// Architecture, such as `x86_64`.
    pub architecture: String,
    /// Name and release of the distribution.
    pub os: Option<String>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Runnable threads, averaged over 1, 5 and 15 minutes. Others' work shows here.
    pub load_average: Option<[f64; 3]>,
}

impl Machine {
    /// Looks at this machine now. What it does not tell is `None`.
    pub fn observe() -> Machine {
        let read = |path: &str| fs::read_to_string(path).ok();
        Machine {
            cpu: read("/proc/cpuinfo").and_then(|text| {
                let named = |key| after(&text, key, ':').map(str::to_owned);
                named("model name").or_else(|| named("CPU part"))
            }),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            architecture: std::env::consts::ARCH.to_owned(),
            os: read("/etc/os-release")
                .and_then(|text| Some(after(&text, "PRETTY_NAME", '=')?.trim_matches('"').into())),
            kernel: read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned()),
            memory_bytes: read("/proc/meminfo").and_then(|text| bytes(&text, "MemTotal")),
            load_average: load_average(),
        }
    }

    /// One line for a reader.
    pub fn describe(&self) -> String {
        let mut parts = vec![self.cpu.clone().unwrap_or_else(|| self.architecture.clone())];
        parts.push(format!("{} cores", self.cores));
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)));
        }
        parts.extend(self.os.clone());
        parts.extend(self.kernel.as_ref().map(|kernel| format!("kernel {kernel}")));
        parts.extend(self.load_average.map(|load| format!("load {:.2}", load[0])));
        parts.join(", ")
    }
}

fn after<'a>(text: &'a str, key: &str, sign: char) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(sign)?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// A size that the kernel gives as `key: 12 kB`.
fn bytes(text: &str, key: &str) -> Option<u64> {
    let kib: u64 = after(text, key, ':')?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Runnable threads, averaged over 1, 5 and 15 minutes; none where the system does not say.
pub fn load_average() -> Option<[f64; 3]> {
    averages(&fs::read_to_string("/proc/loadavg").ok()?)
}

/// Memory of this process in RAM, bytes; none where the system does not say.
pub fn resident_bytes() -> Option<u64> {
    bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The most memory that this process ever held in RAM, bytes; none where the system does not say.
pub fn resident_bytes_max() -> Option<u64> {
    bytes(&fs::read_to_string("/proc/self/status").ok()?, "VmHWM")
}

fn averages(loadavg: &str) -> Option<[f64; 3]> {
    let mut numbers = loadavg.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// Memory that programs may still take, bytes; none where the system does not say.
pub fn available_bytes() -> Option<u64> {
    bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Resets the peak memory of this process to the memory that it holds now; false where the system
/// does not support that.
pub fn forget_peak() -> bool {
    fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Processor time that this process has used, user and system, in steps of 10 ms; zero where
/// the kernel does not say.
pub fn process_cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is a name in parentheses and may hold spaces; times are fields 14 and 15.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// Processor time that this thread has used, user and system; zero where the kernel does not say.
pub fn thread_cpu() -> Duration {
    let schedstat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedstat.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_understood() {
        assert_eq!(
            bytes("MemTotal:       16315524 kB\nMemFree: 1 kB\n", "MemTotal"),
            Some(16_707_096_576)
        );
        assert_eq!(averages("0.50 0.25 0.10 2/345 678\n"), Some([0.5, 0.25, 0.1]));
        assert_eq!(averages("nonsense"), None);
        assert_eq!(after("a : b\nmodel name\t: Some CPU\n", "model name", ':'), Some("Some CPU"));
    }

    #[test]
    fn a_machine_describes_itself() {
        let machine = Machine::observe();
        assert!(machine.cores >= 1);
        assert!(machine.describe().contains("cores"));
    }
}
