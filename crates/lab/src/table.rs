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

/// The header and the rows as lines, those columns to the right that are to be.
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
    fn a_table_puts_numbers_to_the_right() {
        let rows = [["a".to_owned(), "1.5".to_owned()], ["long".to_owned(), "1200".to_owned()]];
        assert_eq!(table(["name", "n"], &rows), "name     n\na      1.5\nlong  1200\n");
    }
}
