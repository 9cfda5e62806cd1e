use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::scenario::{Diagnostic, Rate, Source};

use super::file::{self, DELAY_ACCEPTED, Defaults, RATE_ACCEPTED, at};
use super::graph::{Graph, Link};

const LINK_ACCEPTED: &str = "a link is: node node [bandwidth [metric [delay [queue]]]]";

/// Reads an annotated topology file of ndnSIM; `name` stands in messages where the file's would.
///
/// ```text
/// router
/// # node comment yPos xPos
/// A NA 1 1
/// B NA 2 1
/// link
/// # srcNode dstNode bandwidth metric delay queue
/// A B 10Mbps 1 5ms 100
/// ```
///
/// Empty lines and what follows `#` at the beginning of a line do not count. Only the first word of
/// a router and the first two of a link are required; defaults stand for the others. A line for the
/// other direction of a link gives that direction's rate; its delay and queue must be the same.
/// Comments, positions and metrics are not used: routes go by delay. Losses are refused.
/// Source: `AnnotatedTopologyReader` of ndnSIM 2.
pub fn read(name: &str, text: &str, defaults: &Defaults) -> Result<Graph, LabError> {
    let source = Source { name: name.to_owned(), text: text.to_owned() };
    let mut reader =
        Reader { source: &source, defaults, graph: Graph::new(), links: BTreeMap::new() };
    let mut section = Section::None;
    for line in lines(text) {
        section = match (&line.words[..], section) {
            ([word], Section::None) if word.text == "router" => Section::Routers,
            ([word], Section::Routers) if word.text == "link" => Section::Links,
            (words, Section::None) => {
                let problem = format!("`{}` precedes the section `router`", words[0].text);
                let note = "a file is: a line `router`, the routers, a line `link`, the links";
                return Err(at(&source, line.span(), problem).with_note(note).into());
            }
            (words, Section::Routers) => {
                reader.router(words)?;
                Section::Routers
            }
            (words, Section::Links) => {
                reader.link(words)?;
                Section::Links
            }
        };
    }
    let missing = match section {
        Section::None => "router",
        Section::Routers => "link",
        Section::Links => return reader.finish(),
    };
    let problem = format!("there is no section `{missing}`");
    let whole = text.trim_end().len();
    let note = "a file is: a line `router`, the routers, a line `link`, the links";
    Err(at(&source, whole..whole, problem).with_note(note).into())
}

#[derive(Clone, Copy)]
enum Section {
    None,
    Routers,
    Links,
}

struct Word<'a> {
    text: &'a str,
    span: Range<usize>,
}

struct Line<'a> {
    words: Vec<Word<'a>>,
}

impl Line<'_> {
    fn span(&self) -> Range<usize> {
        span(&self.words)
    }
}

fn span(words: &[Word<'_>]) -> Range<usize> {
    match words {
        [first, .., last] => first.span.start..last.span.end,
        [only] => only.span.clone(),
        [] => 0..0,
    }
}

/// The lines that count, each with at least one word.
fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut start = 0;
    text.split_inclusive('\n').filter_map(move |line| {
        let begins = start;
        start += line.len();
        if line.trim_start().starts_with('#') {
            return None;
        }
        let mut words = Vec::new();
        let mut after = 0;
        for word in line.split_whitespace() {
            let found = line[after..].find(word).expect("a word of the line is in the line");
            let from = after + found;
            after = from + word.len();
            words.push(Word { text: word, span: begins + from..begins + after });
        }
        if words.is_empty() { None } else { Some(Line { words }) }
    })
}

/// A link as it is in the file.
struct Known {
    link: Link,
    reverse: bool,
    line: Option<usize>,
}

struct Reader<'a> {
    source: &'a Source,
    defaults: &'a Defaults,
    graph: Graph,
    /// By its nodes, in the order of the file.
    links: BTreeMap<[usize; 2], (usize, Known)>,
}

impl Reader<'_> {
    fn router(&mut self, words: &[Word<'_>]) -> Result<(), LabError> {
        let name = &words[0];
        let added = self.graph.add_node(name.text);
        added.map_err(|error| at(self.source, name.span.clone(), error.to_string()))?;
        // Positions are not used; that they are numbers tells a router from a misplaced link.
        for place in words.iter().skip(2).take(2) {
            if place.text.parse::<f64>().is_err() {
                let problem = format!("the position `{}` is not a number", place.text);
                let note = "a router is: node [comment [yPos xPos [partition]]]; links follow a \
                            line `link`";
                return Err(at(self.source, place.span.clone(), problem).with_note(note).into());
            }
        }
        Ok(())
    }

    fn link(&mut self, words: &[Word<'_>]) -> Result<(), LabError> {
        let [from, to, rest @ ..] = words else {
            let problem = format!("`{}` is alone on its line", words[0].text);
            return Err(at(self.source, span(words), problem).with_note(LINK_ACCEPTED).into());
        };
        let ends = [self.node(from)?, self.node(to)?];
        if let Some(loss) = rest.get(4) {
            let problem = format!("`{}` is one value too many", loss.text);
            let note = format!("{LINK_ACCEPTED}; losses of links are not read from files");
            return Err(at(self.source, loss.span.clone(), problem).with_note(note).into());
        }
        let (rate, delay) = (self.rate(words)?, self.delay(words)?);
        let mut link = Link::new(ends, rate, delay);
        link.queue_packets = self.queue(rest.get(3))?;
        let line = at(self.source, span(words), "").line();
        let sorted = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        let number = self.links.len();
        let Some((_, known)) = self.links.get_mut(&sorted) else {
            let checked = self.graph.check_link(&link);
            checked.map_err(|error| at(self.source, span(words), error.to_string()))?;
            self.links.insert(sorted, (number, Known { link, reverse: false, line }));
            return Ok(());
        };
        let first = known.line.unwrap_or(0);
        let (a, b) = (from.text, to.text);
        if known.link.ends == ends || known.reverse {
            let problem = format!(
                "the link from `{a}` to `{b}` is already declared on line \
                {first}"
            );
            let note = "a link may have one line for each direction";
            return Err(at(self.source, span(words), problem).with_note(note).into());
        }
        if (known.link.delay, known.link.queue_packets) != (link.delay, link.queue_packets) {
            let problem = format!(
                "delay or queue differs from that of the other direction, on \
                line {first}"
            );
            let note = "the two directions of a link may differ in bandwidth only";
            return Err(at(self.source, span(words), problem).with_note(note).into());
        }
        known.link.rates[1] = rate;
        known.reverse = true;
        Ok(())
    }

    fn node(&self, word: &Word<'_>) -> Result<usize, Diagnostic> {
        self.graph.node(word.text).map_err(|error| {
            at(self.source, word.span.clone(), error.to_string())
                .with_note("accepted: a node of the section `router`")
        })
    }

    fn rate(&self, words: &[Word<'_>]) -> Result<Rate, Diagnostic> {
        match (words.get(2), self.defaults.rate) {
            (Some(word), _) => file::rate(word.text).map_err(|problem| {
                at(self.source, word.span.clone(), problem).with_note(accepted(RATE_ACCEPTED))
            }),
            (None, Some(rate)) => Ok(rate),
            (None, None) => Err(at(self.source, span(words), "the link has no bandwidth")
                .with_note(LINK_ACCEPTED)
                .with_note("or a default rate for all links")),
        }
    }

    fn delay(&self, words: &[Word<'_>]) -> Result<Duration, Diagnostic> {
        match (words.get(4), self.defaults.delay) {
            (Some(word), _) => file::delay(word.text).map_err(|problem| {
                at(self.source, word.span.clone(), problem).with_note(accepted(DELAY_ACCEPTED))
            }),
            (None, Some(delay)) => Ok(delay),
            (None, None) => Err(at(self.source, span(words), "the link has no delay")
                .with_note(LINK_ACCEPTED)
                .with_note("or a default delay for all links")),
        }
    }

    fn queue(&self, word: Option<&Word<'_>>) -> Result<Option<u32>, Diagnostic> {
        let Some(word) = word else {
            return Ok(self.defaults.queue_packets);
        };
        match word.text.strip_suffix('p').unwrap_or(word.text).parse() {
            Ok(packets) if packets > 0 => Ok(Some(packets)),
            _ => Err(at(
                self.source,
                word.span.clone(),
                format!("`{}` is not a queue length", word.text),
            )
            .with_note("accepted: packets, at least 1: 100, 100p")),
        }
    }

    fn finish(mut self) -> Result<Graph, LabError> {
        let mut links: Vec<(usize, Known)> = self.links.into_values().collect();
        links.sort_by_key(|(number, _)| *number);
        for (_, known) in links {
            self.graph.add_link(known.link)?;
        }
        self.graph.check().map_err(|error| file::of_file(self.source, &error))?;
        Ok(self.graph)
    }
}

fn accepted(what: &str) -> String {
    format!("accepted: {what}")
}

#[cfg(test)]
mod tests {
    use paceline_proto::core::Rng;

    use super::*;

    const SQUARE: &str = "\
# A square with a tail.
router
# node comment yPos xPos
A NA 1 1
B NA 2 1
C\tNA\t2\t2
D
E NA

link
# srcNode dstNode bandwidth metric delay queue
A B 10Mbps 1 5ms 100
B C 12Mbps 1 5.5ms 50p
  # the next one is slow
C D 1.5Mbps 7 20ms
D A 100kbps 1 1ms 10
A D 200kbps 1 1ms 10
D E
";

    fn defaults() -> Defaults {
        Defaults {
            rate: Some(Rate::from_bits_per_second(1_000)),
            delay: Some(Duration::from_millis(3)),
            queue_packets: Some(7),
        }
    }

    fn said(text: &str) -> String {
        read("square.txt", text, &Defaults::default()).unwrap_err().to_string()
    }

    #[test]
    fn a_file_gives_nodes_links_and_both_rates() {
        let graph = read("square.txt", SQUARE, &defaults()).unwrap();
        assert_eq!(graph.nodes(), ["A", "B", "C", "D", "E"]);
        let links: Vec<_> = graph
            .links()
            .iter()
            .map(|link| {
                let rates = link.rates.map(Rate::bits_per_second);
                (link.name.as_str(), rates, link.delay.as_micros(), link.queue_packets)
            })
            .collect();
        assert_eq!(
            links,
            [
                ("A-B", [10_000_000; 2], 5_000, Some(100)),
                ("B-C", [12_000_000; 2], 5_500, Some(50)),
                ("C-D", [1_500_000; 2], 20_000, Some(7)),
                ("D-A", [100_000, 200_000], 1_000, Some(10)),
                ("D-E", [1_000; 2], 3_000, Some(7)),
            ]
        );
    }

    #[test]
    fn windows_line_ends_do_not_matter() {
        let text = SQUARE.replace('\n', "\r\n");
        let graph = read("square.txt", &text, &defaults()).unwrap();
        assert_eq!(graph, read("square.txt", SQUARE, &defaults()).unwrap());
    }

    #[test]
    fn a_mistake_is_shown_where_it_stands_with_what_would_be_right() {
        assert_eq!(
            said("router\nA\nB\nlink\nA  Bee 1Mbps 1 1ms\n"),
            "square.txt:5:4: there is no node `Bee`\n\
             \x20 |\n\
             5 | A  Bee 1Mbps 1 1ms\n\
             \x20 |    ^^^\n\
             \x20 = accepted: a node of the section `router`"
        );
        assert_eq!(
            said("router\nA\nB\nlink\nA B 1Mbbs 1 1ms\n"),
            "square.txt:5:5: unknown unit `Mbbs`; did you mean \"1MB/s\"?\n\
             \x20 |\n\
             5 | A B 1Mbbs 1 1ms\n\
             \x20 |     ^^^^^\n\
             \x20 = accepted: a rate above zero with a unit: 10Mbps, 1.5Gbps, 500kbit"
        );
    }

    #[test]
    fn each_kind_of_mistake_has_its_line_and_words() {
        let links = |links: &str| said(&format!("router\nA\nB\nC\nlink\n{links}\n"));
        for (text, line, words) in [
            ("A A 1Mbps 1 1ms", 6, "connects `A` with itself"),
            ("A B 0Mbps 1 1ms", 6, "the rate `0Mbps` is zero"),
            ("A B -5Mbps 1 1ms", 6, "does not begin with a number of zero or more"),
            ("A B 5 1 1ms", 6, "`5` has no unit"),
            ("A B 5Mbps 1 -1ms", 6, "does not begin with a number of zero or more"),
            ("A B 5Mbps 1 1ms 0", 6, "`0` is not a queue length"),
            ("A B 5Mbps 1 1ms many", 6, "accepted: packets, at least 1"),
            ("A B 5Mbps 1 1ms 10 ns3::RateErrorModel", 6, "one value too many"),
            ("A", 6, "`A` is alone on its line"),
            ("A B", 6, "the link has no bandwidth"),
            ("A B 5Mbps", 6, "the link has no delay"),
            ("A B 5Mbps 1 1ms\nA B 5Mbps 1 1ms", 7, "is already declared on line 6"),
            (
                "A B 5Mbps 1 1ms\nB A 5Mbps 1 1ms\nB A 5Mbps 1 1ms",
                8,
                "is already declared on line 6",
            ),
            ("A B 5Mbps 1 1ms\nB A 5Mbps 1 2ms", 7, "delay or queue differ"),
        ] {
            let said = links(text);
            assert!(said.starts_with(&format!("square.txt:{line}:")), "{said}");
            assert!(said.contains(words), "{said}");
        }
        assert!(links("A B 5Mbps 1 1ms").contains("square.txt: no path leads from `A` to `C`"));
        assert!(said("router\nA\nA\nlink\n").starts_with("square.txt:3:1: the node name `A`"));
        assert!(said("A B\nrouter\n").starts_with("square.txt:1:1: `A` precedes"));
        assert!(said("router\nA B 1Mbps 2\n").contains("the position `1Mbps` is not a number"));
        assert!(said("router\nA\n").contains("there is no section `link`"));
        assert!(said("# nothing\n").contains("there is no section `router`"));
        assert!(said("").contains("there is no section `router`"));
        assert!(said("router\nlink\n").contains("the network has no nodes"));
    }

    #[test]
    fn damaged_files_are_refused_and_never_panic() {
        let pieces = ["#", "é", "\0", "-", "99999999999999999999", "\n", " ", "link", "A", "\r"];
        let mut refused = 0;
        for seed in 0..3_000 {
            let rng = &mut Rng::new(seed, 3);
            let mut text = SQUARE.to_owned();
            for _ in 0..=rng.below(3) {
                let from = rng.below(text.len() as u32) as usize;
                let to = (from + rng.below(6) as usize).min(text.len());
                if text.is_char_boundary(from) && text.is_char_boundary(to) {
                    let piece = pieces[rng.below(pieces.len() as u32) as usize];
                    text.replace_range(from..to, piece);
                }
            }
            if let Err(error) = read("square.txt", &text, &defaults()) {
                assert!(error.to_string().starts_with("square.txt"), "seed {seed}: {error}");
                refused += 1;
            }
        }
        assert!(refused > 1_000, "{refused}");
    }
}
