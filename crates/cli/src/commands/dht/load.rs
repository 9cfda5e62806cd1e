//! `paceline dht load`: writes a file of entries, of any size.
//!
//! A thread reads and checks lines, or the rows of a Parquet file; the table stores them; outcomes
//! are written in the order of the lines. So the finished entries are a prefix of the file, and a
//! journal of its length and checksum suffices to resume.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline::KeyError;
use paceline::dht::KeyResult;
use paceline_graph::files::open_unlinked;
use paceline_lab::Progress;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::input::{BYTE_ORDER_MARK, ENTRY_BYTES_MAX, Format, Lines, Quoting, field};
#[cfg(feature = "parquet")]
use super::parquet::Rows;
use super::{Bundling, ClientArgs, Lifetime, Writing};
use crate::commands::Outcome;
use crate::commands::member::{runtime, unless_stopped};
use crate::error::CliError;
use crate::files::{Persist, behind, failed, replace};
use crate::signals;
use crate::ui::Ui;

/// Write the entries of a file: CSV (key,value) or JSON Lines, one entry a line, or Parquet
///
/// Keys and values are bytes. A field of CSV in quotes may hold line breaks; JSON has text under
/// `key` and `value`, and any bytes in base64 under `key_base64` and `value_base64`. `dht dump`
/// writes both. A byte order mark at the beginning of the file is no part of the first key.
///
/// The command reads the file as fast as the table accepts entries, so it may be larger than
/// memory. If it is stopped or meets an invalid line, it keeps a journal of its progress, and a
/// repeated command continues there.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The file
    file: PathBuf,

    /// How entries are written [default: by the file's name; .jsonl, .ndjson and .json are JSON
    /// Lines, .parquet is Parquet, all else CSV]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// The first line of a CSV file names the columns
    #[arg(long)]
    header: bool,

    /// Write the outcome of each key to this file, as CSV in the order of the lines; the journal is
    /// this name followed by `.progress` [default: the journal is FILE.progress]
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,

    #[command(flatten)]
    bundling: Bundling,

    #[command(flatten)]
    lifetime: Lifetime,

    #[command(flatten)]
    writing: Writing,

    #[command(flatten)]
    client: ClientArgs,
}

const AFTER_HELP: &str = "Examples:
  paceline dht load stock.csv --header --outcomes stock.outcomes.csv
  paceline dht load stock.jsonl --bundle 1          each key on its own, to compare

Exit status: 0 all were acknowledged; 1 some were not, or it was stopped; 2 a line is invalid.
A key on fewer hosts than --require-copies, because others failed, counts as failed.
Outcomes are lines of `line,key,outcome,detail`: stored and on how many hosts, or failed and why.";

/// Entries that wait to be taken.
const AHEAD: usize = 256;
/// How long hosts may take for what is on its way when the command is stopped.
const STOPPED_WITHIN: Duration = Duration::from_secs(2);
/// How often the journal is written.
const JOURNAL_EVERY: Duration = Duration::from_millis(500);

/// How far it is: all lines before are done. Of a Parquet file rows are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Done {
    /// Bytes of the file, or rows.
    offset: u64,
    /// Lines of the file, or rows.
    lines: u64,
    /// Checksum of these bytes: the rest of the file may change in between. Or of the end of a
    /// Parquet file, which may not.
    crc32: u32,
    stored: u64,
    failed: u64,
    /// Bytes of the file of outcomes.
    outcomes_bytes: u64,
}

/// Where an entry ends.
struct Mark {
    offset: u64,
    line: u64,
    first_line: u64,
    crc32: u32,
}

/// Shared with the reader.
#[derive(Default)]
struct Reading {
    marks: Mutex<VecDeque<Mark>>,
    is_stopped: AtomicBool,
}

#[derive(Serialize)]
struct Summary {
    file: PathBuf,
    resumed_after_lines: u64,
    stored: u64,
    failed: u64,
    /// On how many hosts the keys of this run are, at least.
    copies: Option<usize>,
    seconds: f64,
    keys_per_s: f64,
    is_complete: bool,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let path = args.file.as_path();
    let journal = behind(args.outcomes.as_deref().unwrap_or(path), ".progress");
    let opened = Opened::new(path, args.format.unwrap_or_else(|| Format::of(path)), &journal);
    let input = |error| CliError::Input(format!("{}: {error}", path.display()));
    let Opened { input, total, unit, done } = opened.map_err(input)?;
    if done.lines > 0 {
        ui.note(&format!("resuming after line {} of {}", done.lines, path.display()));
    }
    let outcomes = args.outcomes.as_deref().map(|path| Outcomes::open(path, &done)).transpose()?;

    let reading = Arc::new(Reading::default());
    let (entries, taken) = mpsc::channel(AHEAD);
    let reader = Reader { has_header: args.header, done, reading: reading.clone() };
    let bar = ui.progress();
    let mut writer = Writer {
        reading: reading.clone(),
        waiting: BTreeMap::new(),
        next: 0,
        done,
        copies: None,
        outcomes,
        journal,
        saved_at: Instant::now(),
    };
    let (begun, before) = (Instant::now(), done);
    let runtime = runtime()?;
    let visit = args.client.visit(Some(args.bundling), Some(args.writing));
    let dht = args.lifetime.apply(runtime.block_on(unless_stopped(visit))??);
    bar.start(total - done.offset, unit);
    let reader = std::thread::spawn(move || reader.read(input, &entries));
    let written = runtime.block_on(async {
        let mut results = dht.put_all_from(taken);
        let is_stopped = || reading.is_stopped.load(Ordering::Relaxed);
        tokio::pin! { let given_up = tokio::time::sleep(Duration::ZERO); }
        loop {
            tokio::select! {
                result = results.next() => match result {
                    Some(result) => bar.inc(writer.take(result)?),
                    None => break,
                },
                () = signals::asked(), if !is_stopped() => {
                    reading.is_stopped.store(true, Ordering::Relaxed);
                    given_up.as_mut().reset(tokio::time::Instant::now() + STOPPED_WITHIN);
                }
                () = &mut given_up, if is_stopped() => break,
            }
        }
        writer.save()
    });
    bar.finish();
    // Closes the channel of entries, so that the reader ends if it has not ended before.
    drop(dht);
    drop(runtime);
    let read = reader.join().expect("the reader does not panic");
    written?;
    let done = writer.done;
    let fault = match read {
        Ok(()) => None,
        Err(Fault::Io(error)) => return Err(failed(path, &error)),
        Err(Fault::Line(line, expected)) => Some((line, expected)),
    };
    let is_complete = fault.is_none() && !ui.is_stopped();
    if is_complete {
        remove(&writer.journal)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let count = done.stored + done.failed - before.stored - before.failed;
    let summary = Summary {
        file: args.file.clone(),
        resumed_after_lines: before.lines,
        stored: done.stored,
        failed: done.failed,
        copies: writer.copies,
        seconds,
        keys_per_s: count as f64 / seconds,
        is_complete,
    };
    ui.document(&summary)?;
    ui.print(&format!(
        "{} stored, {} failed, {:.1} s, {:.0} keys/s\n",
        summary.stored, summary.failed, seconds, summary.keys_per_s
    ))?;
    if let Some((line, expected)) = fault {
        return Err(CliError::Input(format!(
            "{}:{line}: {expected}\n  = {} lines are done; correct the file and run again to \
            resume",
            path.display(),
            done.lines,
        )));
    }
    if !is_complete {
        ui.note(&format!("stopped after line {}; run again to resume", done.lines));
    }
    Ok(Outcome::of(is_complete && done.failed == 0))
}

/// What entries are read from.
enum Input {
    Lines(Lines, File),
    #[cfg(feature = "parquet")]
    Rows(Box<Rows>),
}

/// A file that is read from where an earlier run came to.
struct Opened {
    input: Input,
    total: u64,
    unit: &'static str,
    done: Done,
}

impl Opened {
    /// Opens the file; what is wrong with it, and what was expected, if it cannot be read.
    fn new(path: &Path, format: Format, journal: &Path) -> Result<Opened, String> {
        let told = |error: io::Error| error.to_string();
        let mut file = File::open(path).map_err(told)?;
        let before = fs::read(journal).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let before: Done = before.unwrap_or_default();
        let lines = match format {
            Format::Csv => Lines::Csv,
            Format::Jsonl => Lines::Jsonl,
            Format::Parquet => return Opened::rows(file, before),
        };
        let total = file.metadata().map_err(told)?.len();
        let done = resume(&mut file, before).map_err(told)?;
        file.seek(SeekFrom::Start(done.offset)).map_err(told)?;
        Ok(Opened { input: Input::Lines(lines, file), total, unit: "bytes", done })
    }

    #[cfg(feature = "parquet")]
    fn rows(file: File, before: Done) -> Result<Opened, String> {
        let mut rows = Box::new(Rows::open(file)?);
        let is_same = before.crc32 == rows.crc32 && before.offset <= rows.total;
        let done = if is_same { before } else { Done::default() };
        rows.skip(done.offset);
        Ok(Opened { total: rows.total, input: Input::Rows(rows), unit: "rows", done })
    }

    #[cfg(not(feature = "parquet"))]
    fn rows(_: File, _: Done) -> Result<Opened, String> {
        Err("this build cannot read Parquet: expected CSV or JSON Lines, or build with `--features \
             paceline-cli/parquet`"
            .to_owned())
    }
}

/// Where an earlier run came to, if the file still begins with the same bytes.
fn resume(file: &mut File, done: Done) -> io::Result<Done> {
    let mut hasher = crc32fast::Hasher::new();
    let mut head = BufReader::new(file.take(done.offset));
    let mut bytes = 0;
    loop {
        let part = head.fill_buf()?;
        if part.is_empty() {
            break;
        }
        hasher.update(part);
        let length = part.len();
        bytes += length as u64;
        head.consume(length);
    }
    let is_same = bytes == done.offset && hasher.finalize() == done.crc32;
    Ok(if is_same { done } else { Done::default() })
}

fn remove(path: &Path) -> Result<(), CliError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(path, &error)),
        _ => Ok(()),
    }
}

/// Why reading ended early.
enum Fault {
    Io(io::Error),
    Line(u64, String),
}

/// Reads the file and hands on entries.
struct Reader {
    has_header: bool,
    done: Done,
    reading: Arc<Reading>,
}

impl Reader {
    fn read(self, input: Input, entries: &mpsc::Sender<(Bytes, Bytes)>) -> Result<(), Fault> {
        match input {
            Input::Lines(format, file) => self.read_lines(format, file, entries),
            #[cfg(feature = "parquet")]
            Input::Rows(rows) => self.read_rows(*rows, entries),
        }
    }

    #[cfg(feature = "parquet")]
    fn read_rows(
        self,
        mut rows: Rows,
        entries: &mpsc::Sender<(Bytes, Bytes)>,
    ) -> Result<(), Fault> {
        let crc32 = rows.crc32;
        let mut number = self.done.lines;
        while !self.reading.is_stopped.load(Ordering::Relaxed) {
            let Some(entry) = rows.next() else {
                break;
            };
            number += 1;
            let entry = entry.map_err(|expected| Fault::Line(number, expected))?;
            let mark = Mark { offset: number, line: number, first_line: number, crc32 };
            if !self.hand_on(mark, entry, entries) {
                break;
            }
        }
        Ok(())
    }

    /// Queues an entry for writing; false if the receiver is gone.
    fn hand_on(
        &self,
        mark: Mark,
        entry: (Bytes, Bytes),
        entries: &mpsc::Sender<(Bytes, Bytes)>,
    ) -> bool {
        self.reading.marks.lock().expect("no thread panics with the lock").push_back(mark);
        entries.blocking_send(entry).is_ok()
    }

    fn read_lines(
        self,
        format: Lines,
        file: File,
        entries: &mpsc::Sender<(Bytes, Bytes)>,
    ) -> Result<(), Fault> {
        let mut file = BufReader::new(file);
        let Done { mut offset, lines: mut number, crc32, .. } = self.done;
        let mut hasher = crc32fast::Hasher::new_with_initial_len(crc32, offset);
        let mut entry = Vec::new();
        while !self.reading.is_stopped.load(Ordering::Relaxed) {
            let first_line = number + 1;
            let fault = |expected: String| Fault::Line(first_line, expected);
            number += read_entry(&mut file, format, &mut entry)?.map_err(fault)?;
            if entry.is_empty() {
                break;
            }
            offset += entry.len() as u64;
            hasher.update(&entry);
            let mut bytes = &entry[..];
            if first_line == 1 {
                bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
            }
            bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
            bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let is_header = first_line == 1 && self.has_header && format == Lines::Csv;
            if bytes.is_empty() || is_header {
                continue;
            }
            let (key, value) = format.parse(bytes).map_err(fault)?;
            let mark = Mark { offset, line: number, first_line, crc32: hasher.clone().finalize() };
            if !self.hand_on(mark, (key.into(), value.into()), entries) {
                break;
            }
        }
        Ok(())
    }
}

/// Reads the lines of an entry, none at the end of the file; how many, or what was expected.
fn read_entry(
    file: &mut impl BufRead,
    format: Lines,
    entry: &mut Vec<u8>,
) -> Result<Result<u64, String>, Fault> {
    entry.clear();
    let (mut lines, mut quoting) = (0, Quoting::default());
    loop {
        let begin = entry.len();
        let limit = (ENTRY_BYTES_MAX + 1 - begin) as u64;
        let length = file.take(limit).read_until(b'\n', entry).map_err(Fault::Io)?;
        if length == 0 {
            return Ok(Ok(lines));
        }
        lines += 1;
        if entry.len() > ENTRY_BYTES_MAX {
            let wrong = format!("an entry of more than {ENTRY_BYTES_MAX} bytes");
            return Ok(Err(wrong + ": expected an entry a line, with every quote closed"));
        }
        quoting = quoting.read(&entry[begin..]);
        if format != Lines::Csv || quoting != Quoting::Quoted {
            return Ok(Ok(lines));
        }
    }
}

/// Notes outcomes in the order of the lines.
struct Writer {
    reading: Arc<Reading>,
    // Outcomes of later lines than the next.
    waiting: BTreeMap<u64, (Bytes, Result<usize, KeyError>)>,
    next: u64,
    done: Done,
    // The fewest hosts that hold a key of this run.
    copies: Option<usize>,
    outcomes: Option<Outcomes>,
    journal: PathBuf,
    saved_at: Instant,
}

impl Writer {
    /// Takes a result; how many bytes of the file are done by it.
    fn take(&mut self, result: KeyResult<usize>) -> Result<u64, CliError> {
        self.waiting.insert(result.place, (result.key, result.outcome));
        let before = self.done.offset;
        while let Some((key, outcome)) = self.waiting.remove(&self.next) {
            self.next += 1;
            let mark =
                self.reading.marks.lock().expect("no thread panics with the lock").pop_front();
            let mark = mark.expect("each entry has a mark before it is taken");
            (self.done.offset, self.done.lines) = (mark.offset, mark.line);
            self.done.crc32 = mark.crc32;
            match &outcome {
                Ok(copies) => {
                    self.done.stored += 1;
                    self.copies = Some(self.copies.map_or(*copies, |least| least.min(*copies)));
                }
                Err(_) => self.done.failed += 1,
            }
            if let Some(outcomes) = &mut self.outcomes {
                outcomes.write(mark.first_line, &key, &outcome, &mut self.done)?;
            }
        }
        if self.saved_at.elapsed() >= JOURNAL_EVERY {
            self.save()?;
        }
        Ok(self.done.offset - before)
    }

    fn save(&mut self) -> Result<(), CliError> {
        self.saved_at = Instant::now();
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.flush()?;
        }
        let text = serde_json::to_string(&self.done)
            .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?;
        replace(&self.journal, text.as_bytes(), Persist::Later)
    }
}

/// The file of outcomes.
struct Outcomes {
    path: PathBuf,
    file: BufWriter<File>,
}

const OUTCOMES_HEADER: &str = "line,key,outcome,detail\n";

impl Outcomes {
    /// A new file, or what an earlier run wrote and noted.
    fn open(path: &Path, done: &Done) -> Result<Outcomes, CliError> {
        let open = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let mut file = open_unlinked(path, &mut options)?;
            file.set_len(done.outcomes_bytes)?;
            file.seek(SeekFrom::End(0))?;
            if done.outcomes_bytes == 0 {
                file.write_all(OUTCOMES_HEADER.as_bytes())?;
            }
            Ok(file)
        };
        let file: io::Result<File> = open();
        let file = file.map_err(|error| failed(path, &error))?;
        Ok(Outcomes { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn write(
        &mut self,
        line: u64,
        key: &[u8],
        outcome: &Result<usize, KeyError>,
        done: &mut Done,
    ) -> Result<(), CliError> {
        let mut text = format!("{line},").into_bytes();
        text.extend_from_slice(&field(key));
        match outcome {
            Ok(copies) => text.extend_from_slice(format!(",stored,{copies}").as_bytes()),
            Err(error) => {
                text.extend_from_slice(b",failed,");
                text.extend_from_slice(&field(error.to_string().as_bytes()));
            }
        }
        text.push(b'\n');
        if done.outcomes_bytes == 0 {
            done.outcomes_bytes = OUTCOMES_HEADER.len() as u64;
        }
        done.outcomes_bytes += text.len() as u64;
        self.file.write_all(&text).map_err(|error| failed(&self.path, &error))
    }

    fn flush(&mut self) -> Result<(), CliError> {
        self.file.flush().map_err(|error| failed(&self.path, &error))
    }
}
