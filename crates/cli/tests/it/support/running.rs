//! A command that runs until it is dropped.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::Place;

/// Far more than a command takes to join or to say what a test waits for.
pub const SOON: Duration = Duration::from_secs(40);

/// A command that runs until it is dropped. Its standard input is open and empty.
pub struct Running {
    pub child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts it, and reads both its outputs.
    pub fn start(place: &Place, arguments: &[&str]) -> Running {
        let (mut running, lines) = Running::spawn(place, arguments);
        read_lines(running.child.stdout.take().unwrap(), lines);
        running
    }

    /// Starts it, and reads its standard error only.
    pub fn start_unread(place: &Place, arguments: &[&str]) -> Running {
        Running::spawn(place, arguments).0
    }

    fn spawn(place: &Place, arguments: &[&str]) -> (Running, Sender<String>) {
        let mut command = place.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        read_lines(child.stderr.take().unwrap(), sender.clone());
        (Running { child, lines }, sender)
    }

    /// The next line that says this, on an output that is read.
    pub fn says(&self, wanted: &str) -> String {
        let end = Instant::now() + SOON;
        let mut said = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            if line.contains(wanted) {
                return line;
            }
            said.push(line);
        }
        panic!("`{wanted}` was not said: {said:#?}");
    }

    pub fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Its exit status, for which a test waits this long.
    pub fn status_within(&mut self, within: Duration, what: &str) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < within, "it has not ended: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the lines of an output, from a thread of its own.
fn read_lines(output: impl Read + Send + 'static, sender: Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
}
