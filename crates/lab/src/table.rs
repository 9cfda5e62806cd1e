//! Tables for a terminal.

/// Rows below a header, aligned; columns whose cells are numbers to the right.
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut is_number = [true; N];
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let first = cell.trim_start_matches('-').chars().next();
            is_number[column] &= first.is_none_or(|first| first.is_ascii_digit());
        }
    }
    aligned(header, rows, is_number).concat()
}

/// The same in lines of at most `columns`, as far as the last column can be wrapped: what does not
/// fit goes on below it.
pub fn table_within<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    columns: usize,
) -> String {
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let before: usize = (0..N.saturating_sub(1)).map(|column| widest(column) + 2).sum();
    let room = columns.saturating_sub(before).max(WRAPPED_MIN);
    let mut wrapped = Vec::new();
    for row in rows {
        let Some((last, others)) = row.split_last() else { continue };
        for (number, line) in lines_within(last, room).into_iter().enumerate() {
            wrapped.push(std::array::from_fn(|column| match others.get(column) {
                Some(cell) if number == 0 => cell.clone(),
                Some(_) => String::new(),
                None => line.clone(),
            }));
        }
    }
    table(header, &wrapped)
}

/// A column is not made narrower than this.
const WRAPPED_MIN: usize = 20;

/// Wraps text to lines of at most `columns` characters; longer words stay whole.
pub(crate) fn lines_within(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= columns {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// The header and the rows as aligned lines; some columns are right-aligned.
pub(crate) fn aligned<const N: usize>(
    header: [&str; N],
    rows: &[[String; N]],
    to_the_right: [bool; N],
) -> Vec<String> {
    let mut widths = header.map(|cell| cell.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut text = String::new();
        for (column, cell) in cells.into_iter().enumerate() {
            let width = widths[column];
            let gap = if column == 0 { "" } else { "  " };
            match to_the_right[column] {
                true => text.push_str(&format!("{gap}{cell:>width$}")),
                false => text.push_str(&format!("{gap}{cell:<width$}")),
            }
        }
        text.trim_end().to_owned() + "\n"
    };
    let rows = rows.iter().map(|row| row.each_ref().map(String::as_str));
    std::iter::once(header).chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_wrapped_where_lines_would_be_too_long() {
        let about = "a sentence that is longer than there is room for".to_owned();
        let rows = [["first".to_owned(), about], ["b".to_owned(), "short".to_owned()]];
        let text = table_within(["name", "about"], &rows, 30);
        let expected = [
            "name   about",
            "first  a sentence that is",
            "       longer than there is",
            "       room for",
            "b      short",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert!(text.lines().all(|line| line.chars().count() <= 30));
        assert_eq!(table_within(["name", "about"], &rows, 200), table(["name", "about"], &rows));
    }

    #[test]
    fn a_table_puts_numbers_to_the_right() {
        let rows = [["a".to_owned(), "1.5".to_owned()], ["long".to_owned(), "1200".to_owned()]];
        assert_eq!(table(["name", "n"], &rows), "name     n\na      1.5\nlong  1200\n");
    }
}
