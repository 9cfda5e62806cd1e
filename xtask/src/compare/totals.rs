//! The totals that seeded tests print: `200 seeds: 1234 deliveries, 5 lost`.

/// The lines with totals among what libtest prints with `--show-output`, sorted by their numbers.
pub fn totals(printed: &str) -> Vec<String> {
    let mut lines = Vec::new();
    // What tests printed stands under a heading of each; what libtest says itself does not.
    let mut is_of_test = false;
    for line in printed.lines() {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            is_of_test = true;
        } else if line.is_empty() || ["successes:", "failures:"].contains(&line) {
            is_of_test = false;
        } else if is_of_test && !is_progress(line) {
            lines.push(line.to_string());
        }
    }
    lines.sort_by_key(|line| (numbers(line), line.clone()));
    lines
}

/// `1000 of 20000 seeds`, which comes when it comes.
fn is_progress(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    matches!(words[..], [_, "of", _, "seeds"])
}

/// The numbers in a line, which stay the same when its words change.
pub fn numbers(line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let parts = line.split(|c| !is_part(c)).map(|part| part.trim_matches('.'));
    parts.filter(|part| !part.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_without_progress_and_what_libtest_says() {
        let printed = "\nrunning 2 tests\ntest a_seeds::b ... ok\n\nsuccesses:\n\n\
            ---- a_seeds::b stdout ----\n1000 of 2000 seeds\n2000 seeds: 7 lost\n3 more\n\n\n\
            successes:\n    a_seeds::b\n\ntest result: ok. 2 passed; finished in 0.5s\n";
        assert_eq!(totals(printed), ["2000 seeds: 7 lost", "3 more"]);
    }

    #[test]
    fn numbers_of_a_line_are_found_in_any_words() {
        assert_eq!(numbers("200 seeds: 1.5 s, up to 12ms."), ["200", "1.5", "12"]);
        assert_eq!(numbers("no number..."), [""; 0]);
    }
}
