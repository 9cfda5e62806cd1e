//! The text of a transcript: commands, and the output that stands below them.

/// Separates commands from their output.
const SEPARATOR: &str = "----";
/// Most lines of a transcript: an engineer reads it in under a minute.
const LINES_MAX: usize = 60;

/// A transcript as it stands in its file.
///
/// ```text
/// # What happens.
/// # What to look at.
///
/// command
/// command
/// ----
/// output
///
/// command
/// ```
pub struct Script {
    heading: Vec<String>,
    pub blocks: Vec<Block>,
}

/// Commands, and the output of all of them.
#[derive(Default)]
pub struct Block {
    /// Those that begin with `#` are comments.
    pub commands: Vec<Line>,
    output: Vec<String>,
}

/// A line and its number in the file.
pub struct Line {
    pub number: usize,
    pub text: String,
}

/// A line that is wrong, and why.
#[derive(Debug, PartialEq)]
pub struct LineFault {
    pub line: usize,
    pub what: String,
}

impl Script {
    /// Reads a file. The first block begins with the command that names the protocol.
    pub fn parse(text: &str) -> Result<Script, LineFault> {
        let fault = |line, what: &str| Err(LineFault { line, what: what.to_owned() });
        let mut parts = (1..).zip(text.lines());
        let heading: Vec<String> = parts
            .by_ref()
            .map(|(_, line)| line.to_owned())
            .take_while(|line| !line.is_empty())
            .collect();
        if heading.len() != 2 || !heading.iter().all(|line| line.starts_with("# ")) {
            return fault(1, "expected two lines `# ..`: what happens, and what to look at");
        }
        let (mut blocks, mut block, mut is_output) = (Vec::new(), Block::default(), false);
        for (number, text) in parts.chain([(0, "")]) {
            match (text, is_output) {
                ("", _) if number > 0 && block.commands.is_empty() => {
                    return fault(number, "expected a command");
                }
                ("", _) => {
                    blocks.push(std::mem::take(&mut block));
                    is_output = false;
                }
                (SEPARATOR, false) => is_output = true,
                (line, true) => block.output.push(line.to_owned()),
                (line, false) => block.commands.push(Line { number, text: line.to_owned() }),
            }
        }
        blocks.retain(|block| !block.commands.is_empty());
        Ok(Script { heading, blocks })
    }

    /// The text of the file, with this output of each block in place of the present one.
    pub fn with_output(&self, outputs: &[Vec<String>]) -> String {
        let mut parts = vec![self.heading.join("\n")];
        for (block, output) in self.blocks.iter().zip(outputs) {
            let commands = block.commands.iter().map(|line| line.text.as_str());
            let separator = (!output.is_empty()).then_some(SEPARATOR);
            let lines = commands.chain(separator).chain(output.iter().map(String::as_str));
            parts.push(lines.collect::<Vec<_>>().join("\n"));
        }
        parts.join("\n\n") + "\n"
    }
}

/// The first line in which a file differs from what a run gives, or that is one too many.
pub fn difference(file: &str, run: &str) -> Option<LineFault> {
    let (mut found, mut expected) = (file.lines(), run.lines());
    for line in 1.. {
        let (in_file, in_run) = match (found.next(), expected.next()) {
            (None, None) => break,
            (in_file, in_run) if in_file == in_run => continue,
            pair => pair,
        };
        let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
        let (in_file, in_run) = (show(in_file), show(in_run));
        let what = format!("the run differs\n  file: {in_file}\n  run:  {in_run}");
        return Some(LineFault { line, what });
    }
    (run.lines().count() > LINES_MAX).then(|| LineFault {
        line: LINES_MAX + 1,
        what: format!("a transcript has at most {LINES_MAX} lines"),
    })
}
