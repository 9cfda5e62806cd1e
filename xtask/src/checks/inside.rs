//! Programs inside nodes of the network lab.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use paceline_netlab::NetworkLab;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A program in a node, which does not outlive this.
pub(super) struct Inside {
    name: String,
    child: Child,
}

impl Inside {
    /// Starts a program; what it prints is read by the methods below.
    pub(super) fn start(lab: &NetworkLab, node: usize, command: Command) -> Result<Inside, String> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut inside = lab.command_in(node, command);
        inside.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = inside.spawn().map_err(|error| format!("{name}: {error}"))?;
        Ok(Inside { name, child })
    }

    fn stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("piped, and read once")
    }

    /// All that it prints until it ends.
    pub(super) fn output(mut self) -> Result<String, String> {
        let mut said = String::new();
        let read = self.stdout().read_to_string(&mut said);
        read.map_err(|error| format!("{}: {error}", self.name))?;
        Ok(said)
    }

    /// Reads the JSON documents that it prints, a line each, while it runs.
    pub(super) fn lines(mut self) -> Lines {
        let (send, documents) = channel();
        let lines = BufReader::new(self.stdout()).lines();
        std::thread::spawn(move || {
            let documents = lines.map_while(Result::ok);
            let mut documents = documents.filter_map(|line| serde_json::from_str(&line).ok());
            while documents.next().is_some_and(|document: Value| send.send(document).is_ok()) {}
        });
        Lines { program: self, documents }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that prints JSON, a document a line.
pub(super) struct Lines {
    program: Inside,
    documents: Receiver<Value>,
}

impl Lines {
    /// Waits for a document of this kind; an error if it ends, or prints none within this time.
    pub(super) fn until(
        &self,
        what: &str,
        within: Duration,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<Value, String> {
        let by = Instant::now() + within;
        loop {
            let left = by.saturating_duration_since(Instant::now());
            let next = self.documents.recv_timeout(left);
            let document =
                next.map_err(|error| format!("{} printed no {what}: {error}", self.program.name))?;
            if is_it(&document) {
                return Ok(document);
            }
        }
    }

    /// Interrupts it, as Ctrl-C does, and gives the last document that it prints.
    pub(super) fn interrupt(self, within: Duration) -> Result<Value, String> {
        let _ = kill_process(Pid::from_child(&self.program.child), Signal::INT);
        let by = Instant::now() + within;
        let mut last = None;
        while let Ok(document) =
            self.documents.recv_timeout(by.saturating_duration_since(Instant::now()))
        {
            last = Some(document);
        }
        last.ok_or_else(|| format!("{} printed nothing at its end", self.program.name))
    }
}
