use std::borrow::Cow;
use std::fmt::Write;

use super::Sample;

const HEADER: &str = "run,time_s,node,metric,value";

/// The samples as tidy CSV, one row each, under the header `run,time_s,node,metric,value`.
pub fn series_csv(run: &str, series: &[Sample]) -> String {
    let mut text = String::with_capacity(48 * series.len() + 64);
    text.push_str(HEADER);
    text.push('\n');
    let run = field(run);
    for sample in series {
        let node = sample.node.map_or(String::new(), |node| node.to_string());
        let (time_s, value) = (sample.time_s, sample.value);
        let metric = field(&sample.metric);
        writeln!(text, "{run},{time_s},{node},{metric},{value}").expect("text takes all");
    }
    text
}

/// Reads what [`series_csv`] wrote. On failure says which line is wrong, and how.
pub fn parse_series(text: &str) -> Result<Vec<Sample>, String> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("line 1 is not `{HEADER}`"));
    }
    let samples = lines.enumerate().map(|(index, line)| {
        let wrong = |what: &str| format!("line {}: {what}: `{line}`", index + 2);
        let fields = split(line);
        let [_, time_s, node, metric, value] = fields.as_slice() else {
            return Err(wrong("not five fields"));
        };
        Ok(Sample {
            time_s: time_s.parse().map_err(|_| wrong("the time is not a number"))?,
            node: match node.as_str() {
                "" => None,
                node => Some(node.parse().map_err(|_| wrong("the node is not a number"))?),
            },
            metric: Cow::Owned(metric.clone()),
            value: value.parse().map_err(|_| wrong("the value is not a number"))?,
        })
    });
    samples.collect()
}

/// A field of CSV, quoted if it must be.
pub(crate) fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"").replace(['\n', '\r'], " ")))
    } else {
        Cow::Borrowed(text)
    }
}

fn split(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let last = fields.last_mut().expect("there is always a field");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                last.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => last.push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_tidy_and_read_back_as_it_was() {
        let series = [
            Sample::at_node(0.5, 3, "queue_bytes", 1538.0),
            Sample::overall(1.0, "odd, \"name\"", 0.25),
        ];
        let text = series_csv("chain/ten-1", &series);
        assert_eq!(
            text,
            "run,time_s,node,metric,value\n\
             chain/ten-1,0.5,3,queue_bytes,1538\n\
             chain/ten-1,1,,\"odd, \"\"name\"\"\",0.25\n"
        );
        assert_eq!(parse_series(&text), Ok(series.to_vec()));
    }

    #[test]
    fn a_damaged_series_names_its_line() {
        let said = |rows: &str| parse_series(&format!("{HEADER}\n{rows}")).unwrap_err();
        assert_eq!(said("a,1,,m,1\na,1,,m\n"), "line 3: not five fields: `a,1,,m`");
        assert_eq!(said("a,x,,m,1\n"), "line 2: the time is not a number: `a,x,,m,1`");
        assert_eq!(parse_series("x\n").unwrap_err(), format!("line 1 is not `{HEADER}`"));
    }
}
