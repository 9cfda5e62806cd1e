//! The runner: one process in each node, watched by one thread that sleeps until something happens.

use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{NetlabError, NetworkLab, signals};

/// Bytes kept of what a member writes to standard error, and of a line it does not end.
const STDERR_BYTES_MAX: usize = 8 << 10;
const LINE_BYTES_MAX: usize = 4 << 20;

/// Reads from one pipe in one turn.
const READS_MAX: usize = 64;

/// How long a wait may last before exits are looked for again. An exit that closes the member's
/// pipes is seen at once.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// What one member left.
#[derive(Clone, Debug)]
pub struct MemberOutput {
    /// The node it ran in.
    pub node: usize,
    /// The last line on standard output that is a JSON object.
    pub result: Option<Value>,
    /// The end of what it wrote to standard error.
    pub stderr: String,
    /// How it ended.
    pub ending: Ending,
    /// CPU time spent in its own code.
    pub cpu_user: Duration,
    /// CPU time the kernel spent on its behalf.
    pub cpu_system: Duration,
    /// The most memory it held, bytes.
    pub resident_bytes_max: u64,
    /// From its start to its end.
    pub elapsed: Duration,
}

impl MemberOutput {
    /// User and system CPU time together.
    pub fn cpu(&self) -> Duration {
        self.cpu_user + self.cpu_system
    }
}

/// How a member ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this status.
    Exited(i32),
    /// By this signal, not ours.
    Signalled(i32),
    /// The deadline passed and it was killed.
    DeadlinePassed,
}

/// Runs `member(node)` in every node at the same time and waits for all of them.
///
/// Members get no standard input. One that is still running after `deadline` is killed, and so are
/// all when a signal arrives ([`NetlabError::Interrupted`]) or when one cannot be started; none
/// outlives this process.
pub fn run_members(
    lab: &NetworkLab,
    mut member: impl FnMut(usize) -> Command,
    deadline: Duration,
) -> Result<Vec<MemberOutput>, NetlabError> {
    signals::watch();
    let deadline = Instant::now() + deadline;
    let mut running = Vec::with_capacity(lab.nodes());
    for node in 0..lab.nodes() {
        running.push(Member::start(node, lab.command_in(node, member(node)))?);
    }
    while running.iter().any(|member| member.end.is_none()) && signals::interrupted().is_none() {
        let now = Instant::now();
        if now >= deadline {
            running.iter_mut().for_each(Member::stop);
            break;
        }
        wait_for_any(&running, LOOK_AGAIN_AFTER.min(deadline - now));
        for member in &mut running {
            member.read();
            member.reap(libc::WNOHANG);
        }
    }
    // A terminal sends Ctrl-C to the members as well, so all may have ended by it already.
    if let Some(signal) = signals::interrupted() {
        return Err(NetlabError::Interrupted(signal));
    }
    Ok(running.into_iter().map(Member::into_output).collect())
}

/// Sleeps until a member writes, closes a pipe, or the time has passed.
fn wait_for_any(members: &[Member], at_most: Duration) {
    let mut fds: Vec<libc::pollfd> = members
        .iter()
        .flat_map(|member| [member.stdout.fd(), member.stderr.fd()])
        .flatten()
        .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
        .collect();
    let milliseconds = at_most.as_millis() as libc::c_int + 1;
    // SAFETY: `fds` is a live array of its own length; the descriptors are open, and a result of
    // -1 (a signal) needs no other answer than the caller's next look at its state.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, milliseconds) };
}

/// How a member ended and what it had used by then.
struct End {
    status: ExitStatus,
    usage: libc::rusage,
    elapsed: Duration,
}

struct Member {
    node: usize,
    pid: libc::pid_t,
    started: Instant,
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
    line: Vec<u8>,
    result: Option<Value>,
    stderr_tail: Vec<u8>,
    overdue: bool,
    end: Option<End>,
}

impl Member {
    fn start(node: usize, mut command: Command) -> Result<Member, NetlabError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        die_with_this_thread(&mut command);
        let mut child = command
            .spawn()
            .map_err(|source| NetlabError::Run { command: format!("{command:?}"), source })?;
        Ok(Member {
            node,
            pid: child.id() as libc::pid_t,
            started: Instant::now(),
            stdout: Pipe::new(child.stdout.take().expect("standard output was piped")),
            stderr: Pipe::new(child.stderr.take().expect("standard error was piped")),
            line: Vec::new(),
            result: None,
            stderr_tail: Vec::new(),
            overdue: false,
            end: None,
        })
    }

    /// Takes what the pipes hold.
    fn read(&mut self) {
        let (line, result) = (&mut self.line, &mut self.result);
        self.stdout.read(|bytes| {
            for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
                if line.len() + piece.len() <= LINE_BYTES_MAX {
                    line.extend_from_slice(piece);
                }
                if piece.ends_with(b"\n") {
                    keep_result(line, result);
                }
            }
        });
        let tail = &mut self.stderr_tail;
        self.stderr.read(|bytes| {
            tail.extend_from_slice(bytes);
            let surplus = tail.len().saturating_sub(STDERR_BYTES_MAX);
            tail.drain(..surplus);
        });
    }

    /// Takes the exit status and the resource usage, once there are any.
    fn reap(&mut self, options: libc::c_int) {
        if self.end.is_some() {
            return;
        }
        let mut status = 0;
        // SAFETY: rusage is plain numbers, for which zero is a valid value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values; the process is our child and not yet waited
        // for, since `end` is empty.
        let pid = unsafe { libc::wait4(self.pid, &mut status, options, &mut usage) };
        if pid == self.pid {
            let status = ExitStatus::from_raw(status);
            self.end = Some(End { status, usage, elapsed: self.started.elapsed() });
            self.read();
        }
    }

    /// Kills it for being late.
    fn stop(&mut self) {
        if self.end.is_none() {
            self.overdue = true;
            self.kill();
        }
    }

    fn kill(&mut self) {
        if self.end.is_none() {
            // SAFETY: the child was not waited for, so the id is still its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
            while self.end.is_none() {
                self.reap(0);
            }
        }
    }

    fn into_output(mut self) -> MemberOutput {
        keep_result(&mut self.line, &mut self.result);
        let end = self.end.as_ref().expect("every member was waited for");
        let ending = match (self.overdue, end.status.code(), end.status.signal()) {
            (true, ..) => Ending::DeadlinePassed,
            (false, Some(code), _) => Ending::Exited(code),
            (false, None, signal) => Ending::Signalled(signal.unwrap_or(0)),
        };
        MemberOutput {
            node: self.node,
            result: self.result.take(),
            stderr: String::from_utf8_lossy(&self.stderr_tail).into_owned(),
            ending,
            cpu_user: duration(end.usage.ru_utime),
            cpu_system: duration(end.usage.ru_stime),
            // Linux counts in KiB.
            resident_bytes_max: end.usage.ru_maxrss as u64 * 1024,
            elapsed: end.elapsed,
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Keeps the line if it is a JSON object, and starts a new one.
fn keep_result(line: &mut Vec<u8>, result: &mut Option<Value>) {
    if let Ok(value @ Value::Object(_)) = serde_json::from_slice(line) {
        *result = Some(value);
    }
    line.clear();
}

/// One end of a pipe that is read without blocking and closed at its end.
struct Pipe<T>(Option<T>);

impl<T: Read + AsRawFd> Pipe<T> {
    fn new(pipe: T) -> Pipe<T> {
        // SAFETY: the descriptor is open and ours; setting a status flag touches no memory.
        unsafe {
            let flags = libc::fcntl(pipe.as_raw_fd(), libc::F_GETFL);
            libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK);
        }
        Pipe(Some(pipe))
    }

    fn fd(&self) -> Option<RawFd> {
        self.0.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Hands on what there is, at most so much that one talkative member cannot keep the runner
    /// from the others; more than a pipe holds, so after its end nothing is left.
    fn read(&mut self, mut take: impl FnMut(&[u8])) {
        let mut buffer = [0; 16 << 10];
        for _ in 0..READS_MAX {
            let Some(pipe) = &mut self.0 else { return };
            match pipe.read(&mut buffer) {
                Ok(0) => self.0 = None,
                Ok(count) => take(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.0 = None,
            }
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
}

/// Has the kernel kill the child should this thread end without having waited for it.
#[cfg(target_os = "linux")]
fn die_with_this_thread(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec and makes one system call, which is
    // async-signal-safe; the setting survives the exec.
    unsafe {
        command.pre_exec(|| {
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        });
    }
}

#[cfg(not(target_os = "linux"))]
fn die_with_this_thread(_: &mut Command) {}
