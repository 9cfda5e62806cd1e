//! A node's process as its parent sees it: orders in, reports out, and its last lines on standard
//! error.

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use paceline_proto::core::NodeId;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::control::ToChild;
use crate::LabError;

/// Lines of standard error that are kept for the message about a process that died.
const STDERR_TAIL_LINES_MAX: usize = 8;
/// How long a process that closed its output may take to end.
const END_WITHIN: Duration = Duration::from_secs(1);

/// A line that a process wrote to standard output; none once it closed it.
pub(super) type Line = (NodeId, Option<String>);

/// The command that becomes a node: `program node --control`.
pub fn node_command(program: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.args(["node", "--control"]);
    command
}

/// A node's process. It is killed when it is dropped.
pub(super) struct Process {
    node: NodeId,
    child: Child,
    // `None` once the child was ordered to end.
    orders: Option<ChildStdin>,
    stderr_tail: Arc<Mutex<VecDeque<String>>>,
    listening: JoinHandle<()>,
}

impl Process {
    /// Starts it; what it writes to standard output goes to `lines`.
    pub(super) fn spawn(
        command: std::process::Command,
        node: NodeId,
        lines: UnboundedSender<Line>,
    ) -> Result<Process, LabError> {
        let program = command.get_program().to_owned();
        let mut command = Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A terminal sends Ctrl-C to the whole group. It is the parent that ends its nodes: one
        // that has only just begun does not heed the signal yet, and would seem to have crashed.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
            LabError::Run(format!("cannot start {}: {error}", program.display()))
        })?;
        let orders = child.stdin.take();
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        tokio::spawn(read_reports(node, stdout, lines));
        let stderr_tail = Arc::default();
        let listening = tokio::spawn(listen(node, stderr, Arc::clone(&stderr_tail)));
        Ok(Process { node, child, orders, stderr_tail, listening })
    }

    /// Sends an order; false if the child no longer reads orders.
    pub(super) async fn order(&mut self, order: &ToChild) -> bool {
        let Some(orders) = &mut self.orders else { return false };
        let mut line = serde_json::to_string(order).expect("an order has text keys only");
        line.push('\n');
        orders.write_all(line.as_bytes()).await.is_ok()
    }

    /// Kills it: a crash.
    pub(super) async fn kill(&mut self) {
        // Had it ended by itself, there is nothing to kill.
        let _ = self.child.kill().await;
    }

    /// The error that reports how it exited.
    pub(super) async fn exit_error(&mut self) -> LabError {
        let how = match timeout(END_WITHIN, self.child.wait()).await {
            Ok(Ok(status)) => described(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it closed its output and did not exit".to_owned(),
        };
        // Its last lines may still be on their way.
        let _ = timeout(END_WITHIN, &mut self.listening).await;
        let stderr_tail = self.stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = format!("the process of {} exited early: {how}", self.node);
        for line in &*stderr_tail {
            text.push_str(&format!("\n  | {line}"));
        }
        LabError::Run(text)
    }

    /// Closes its standard input, at whose end it ends.
    pub(super) fn dismiss(&mut self) {
        self.orders = None;
    }

    /// Waits until it is gone, and kills it if that takes long.
    pub(super) async fn wait_or_kill(&mut self) {
        if timeout(END_WITHIN, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }
}

fn described(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => status.to_string(),
    }
}

async fn read_reports(node: NodeId, stdout: ChildStdout, lines: UnboundedSender<Line>) {
    let mut reports = BufReader::new(stdout).lines();
    loop {
        let line = reports.next_line().await.ok().flatten();
        let is_last = line.is_none();
        if lines.send((node, line)).is_err() || is_last {
            return;
        }
    }
}

/// Passes on what the process writes to standard error, with the node's name, and keeps its end.
async fn listen(node: NodeId, stderr: ChildStderr, stderr_tail: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).into_owned();
        // Standard error may be closed.
        let _ = writeln!(std::io::stderr(), "{node}: {line}");
        let mut kept = stderr_tail.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == STDERR_TAIL_LINES_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}
