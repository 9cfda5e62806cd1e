use std::borrow::Cow;

use csv::{ReaderBuilder, StringRecord, Writer};

use super::Sample;

const HEADER: [&str; 5] = ["run", "time_s", "node", "metric", "value"];

/// The samples as tidy CSV, one row each, under the header `run,time_s,node,metric,value`.
pub fn series_csv(run: &str, series: &[Sample]) -> String {
    table(48 * series.len() + 64, HEADER, |rows| {
        series.iter().try_for_each(|sample| {
            let node = sample.node.map_or(String::new(), |node| node.to_string());
            let (time_s, value) = (sample.time_s.to_string(), sample.value.to_string());
            rows.write_record([run, &time_s, &node, &sample.metric, &value])
        })
    })
}

/// A table as CSV: its header, then the rows that `rows` writes.
pub(crate) fn table<'a>(
    capacity: usize,
    header: impl IntoIterator<Item = &'a str>,
    rows: impl FnOnce(&mut Writer<Vec<u8>>) -> csv::Result<()>,
) -> String {
    let mut writer = Writer::from_writer(Vec::with_capacity(capacity));
    writer
        .write_record(header)
        .and_then(|()| rows(&mut writer))
        .expect("memory takes all, and each row has as many fields as the header");
    let bytes = writer.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("text alone was written")
}

/// Reads what [`series_csv`] wrote.
///
/// # Errors
/// Which line is wrong, and how.
pub fn parse_series(text: &str) -> Result<Vec<Sample>, String> {
    let mut reader = ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    if reader.headers().is_ok_and(|header| *header != HEADER[..]) {
        return Err(format!("line 1 is not `{}`", HEADER.join(",")));
    }
    reader
        .records()
        .map(|record| {
            let record = record.map_err(|error| error.to_string())?;
            parse_sample(&record).map_err(|what| {
                let line = record.position().map_or(0, csv::Position::line);
                let fields: Vec<&str> = record.iter().collect();
                format!("line {line}: {what}: `{}`", fields.join(","))
            })
        })
        .collect()
}

fn parse_sample(record: &StringRecord) -> Result<Sample, &'static str> {
    let fields: [&str; 5] =
        record.iter().collect::<Vec<_>>().try_into().map_err(|_| "not five fields")?;
    let [_, time_s, node, metric, value] = fields;
    Ok(Sample {
        time_s: time_s.parse().map_err(|_| "the time is not a number")?,
        node: match node {
            "" => None,
            node => Some(node.parse().map_err(|_| "the node is not a number")?),
        },
        metric: Cow::Owned(metric.to_owned()),
        value: value.parse().map_err(|_| "the value is not a number")?,
    })
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
        let said = |rows: &str| parse_series(&format!("{}\n{rows}", HEADER.join(","))).unwrap_err();
        assert_eq!(said("a,1,,m,1\na,1,,m\n"), "line 3: not five fields: `a,1,,m`");
        assert_eq!(said("a,x,,m,1\n"), "line 2: the time is not a number: `a,x,,m,1`");
        assert_eq!(
            parse_series("x\n").unwrap_err(),
            "line 1 is not `run,time_s,node,metric,value`"
        );
    }
}
