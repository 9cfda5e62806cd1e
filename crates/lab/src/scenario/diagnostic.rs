use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The text of a scenario, or of another file, and the name it goes by in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Bytes of the scenario file.
    File(Range<usize>),
    /// An override, as the user wrote it: `nodes=8`.
    Set(Arc<str>),
    /// An environment variable, by its name.
    Variable(&'static str),
    /// Nowhere: what is missing.
    Nowhere,
}

/// What is wrong with an input, where, and what would be right.
///
/// Prints over several lines, the first of which stands on its own:
///
/// ```text
/// ten.toml:7:1: unknown key `nodez` in [topology]
///   |
/// 7 | nodez = 4
///   | ^^^^^
///   = did you mean `nodes`?
///   = accepted: kind, nodes, rate
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    place: Place,
    problem: String,
    notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Named(String),
    Set(Arc<str>),
    Line { name: String, line: usize, column: usize, text: String, width: usize },
}

impl Diagnostic {
    /// A problem without a place: a name on the command line.
    pub fn new(problem: impl Into<String>) -> Diagnostic {
        Diagnostic { place: Place::Nowhere, problem: problem.into(), notes: Vec::new() }
    }

    /// A problem at a place of a text, or with the whole of it.
    pub fn at(source: &Source, origin: &Origin, problem: impl Into<String>) -> Diagnostic {
        let place = match origin {
            Origin::File(span) => locate(source, span),
            Origin::Set(set) => Place::Set(set.clone()),
            Origin::Variable(name) => Place::Named((*name).to_owned()),
            Origin::Nowhere => Place::Named(source.name.clone()),
        };
        Diagnostic { place, problem: problem.into(), notes: Vec::new() }
    }

    pub(crate) fn of_set(set: &str, problem: impl Into<String>) -> Diagnostic {
        Diagnostic { place: Place::Set(set.into()), problem: problem.into(), notes: Vec::new() }
    }

    /// Adds a line of advice.
    pub fn with_note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }

    /// Adds `did you mean` if one of `known` is close to `word`.
    pub fn with_suggestion<'a>(
        self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        match nearest(word, known) {
            Some(near) => self.with_note(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// The line of the scenario file at fault, counted from 1; none if it is not a line's fault.
    pub fn line(&self) -> Option<usize> {
        match self.place {
            Place::Line { line, .. } => Some(line),
            _ => None,
        }
    }

    /// The problem alone, without place and advice.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut margin = 0;
        match &self.place {
            Place::Nowhere => f.write_str(&self.problem)?,
            Place::Named(name) => write!(f, "{name}: {}", self.problem)?,
            Place::Set(set) => write!(f, "from --set {set}: {}", self.problem)?,
            Place::Line { name, line, column, text, width } => {
                margin = line.to_string().len();
                let indent: String = text
                    .chars()
                    .take(column - 1)
                    .map(|c| if c == '\t' { '\t' } else { ' ' })
                    .collect();
                write!(f, "{name}:{line}:{column}: {}", self.problem)?;
                write!(f, "\n{:margin$} |", "")?;
                write!(f, "\n{line} | {text}")?;
                write!(f, "\n{:margin$} | {indent}{}", "", "^".repeat(*width))?;
            }
        }
        for note in &self.notes {
            write!(f, "\n{:margin$} = {note}", "")?;
        }
        Ok(())
    }
}

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    known
        .into_iter()
        .filter(|known| *known != word)
        .map(|known| (strsim::jaro_winkler(&folded, &known.to_lowercase()), known))
        .filter(|&(likeness, known)| {
            likeness > 0.84 || strsim::damerau_levenshtein(&folded, known) <= 1 && known.len() > 2
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

fn locate(source: &Source, span: &Range<usize>) -> Place {
    let text = &source.text;
    let start = span.start.min(text.len());
    let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
    let end = span.end.clamp(start, line_end);
    Place::Line {
        name: source.name.clone(),
        line: text[..start].matches('\n').count() + 1,
        column: text[line_start..start].chars().count() + 1,
        text: text[line_start..line_end].trim_end().to_owned(),
        width: text[start..end].chars().count().max(1),
    }
}
