//! Which figures are compared with a published value, and which only with our own band.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::figure::{Figure, Standing};
use crate::table::table;

/// How many figures stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Published values that are reproduced: see [`Standing::Reproduced`].
    pub reproduced: usize,
    /// Published values that are not: see [`Standing::Differs`].
    pub differ: usize,
    /// Published values beside which the measured ones are shown, without a band.
    pub beside: usize,
    /// Figures within our own bands, of which nothing was published.
    pub checked: usize,
    /// Figures outside our own bands, of which nothing was published.
    pub failed: usize,
    /// Numbers without published value and band.
    pub shown: usize,
}

impl Tally {
    /// Counts these figures.
    pub fn of<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Tally {
        let mut tally = Tally::default();
        for figure in figures {
            *match Standing::of(figure) {
                Standing::Reproduced => &mut tally.reproduced,
                Standing::Differs => &mut tally.differ,
                Standing::Beside => &mut tally.beside,
                Standing::Checked => &mut tally.checked,
                Standing::Failed => &mut tally.failed,
                Standing::Shown => &mut tally.shown,
            } += 1;
        }
        tally
    }

    /// Figures with a published value.
    pub fn published(&self) -> usize {
        self.reproduced + self.differ + self.beside
    }

    /// Both counts in a sentence.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        if self.published() > 0 {
            parts.push(format!(
                "Of {} published values {} lie in a band together with the measured ones, {} do \
                 not, and {} have a measured value without a band.",
                self.published(),
                self.reproduced,
                self.differ,
                self.beside
            ));
        }
        let own = self.checked + self.failed;
        if own > 0 {
            parts.push(format!(
                "Of {own} figures without a published value {} lie in our own bands.",
                self.checked
            ));
        }
        parts.join(" ")
    }
}

/// A row for each service, by the first word of its figures' ids, one for those of which nothing
/// was published, and one for all.
pub fn summary(figures: &[Figure]) -> String {
    let mut services: BTreeMap<&str, Vec<&Figure>> = BTreeMap::new();
    let mut order = Vec::new();
    for figure in figures {
        let service = figure.id.split('/').next().unwrap_or_default();
        if !services.contains_key(service) {
            order.push(service);
        }
        services.entry(service).or_default().push(figure);
    }
    let row = |name: &str, tally: Tally| {
        let own = tally.checked + tally.failed;
        [
            name.to_owned(),
            tally.published().to_string(),
            tally.reproduced.to_string(),
            tally.differ.to_string(),
            tally.beside.to_string(),
            format!("{} of {own}", tally.checked),
        ]
    };
    let tally = |service: &str| Tally::of(services[service].iter().copied());
    let (published, others): (Vec<&str>, Vec<&str>) =
        order.into_iter().partition(|service| tally(service).published() > 0);
    let mut rows: Vec<[String; 6]> =
        published.into_iter().map(|service| row(service, tally(service))).collect();
    if !others.is_empty() {
        let figures = others.iter().flat_map(|service| services[service].iter().copied());
        rows.push(row("others", Tally::of(figures)));
    }
    if rows.len() > 1 {
        rows.push(row("all", Tally::of(figures)));
    }
    let header = ["paper", "published", "in band", "outside", "no band", "in our own bands"];
    table(header, &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(id: &str) -> Figure {
        Figure::new(id, 5.0, "")
    }

    #[test]
    fn a_band_that_excludes_the_published_value_reproduces_nothing() {
        let standing = |figure: Figure| Standing::of(&figure);
        assert_eq!(standing(figure("a").with_paper(6.0).with_band(4.0, 7.0)), Standing::Reproduced);
        assert_eq!(standing(figure("a").with_paper(9.0).with_band(4.0, 7.0)), Standing::Differs);
        assert_eq!(standing(figure("a").with_paper(6.0).with_band(5.5, 7.0)), Standing::Differs);
        assert_eq!(standing(figure("a").with_paper(5.0)), Standing::Beside);
        assert_eq!(standing(figure("a").with_band(4.0, f64::INFINITY)), Standing::Checked);
        assert_eq!(standing(figure("a").with_band(6.0, f64::INFINITY)), Standing::Failed);
        assert_eq!(standing(figure("a")), Standing::Shown);
    }

    #[test]
    fn the_summary_has_a_row_for_each_service_and_counts_each_figure_once() {
        let figures = [
            figure("chain/a").with_paper(5.0).with_band(4.0, 6.0),
            figure("walk/a").with_paper(50.0),
            figure("chain/b").with_band(6.0, 7.0),
            figure("chain/c").with_band(4.0, 7.0),
            figure("nak/a").with_band(4.0, 7.0),
            figure("ack/a").with_band(4.0, 7.0),
        ];
        assert_eq!(
            summary(&figures),
            "\
paper   published  in band  outside  no band  in our own bands
chain           1        1        0        0            1 of 2
walk            1        0        0        1            0 of 0
others          0        0        0        0            2 of 2
all             2        1        0        1            3 of 4
"
        );
        let said = Tally::of(&figures).sentence();
        assert!(said.starts_with("Of 2 published values 1 lie"), "{said}");
        assert!(said.ends_with("Of 4 figures without a published value 3 lie in our own bands."));
    }
}
