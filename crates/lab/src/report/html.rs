use std::fmt::Write;

use super::{Report, Section, escape};
use crate::figure::{Figure, number};
use crate::run::Metric;
use crate::standing::Tally;

const STYLE: &str = include_str!("style.css");

/// The report as one HTML document.
pub(super) fn document(report: &Report) -> String {
    let mut html = String::with_capacity(64 * 1024);
    let title = escape(&report.title);
    push(&mut html, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    push(&mut html, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    push(&mut html, "<meta name=\"color-scheme\" content=\"light dark\">\n");
    push(&mut html, &format!("<title>{title} - Paceline</title>\n<style>\n{STYLE}</style>\n"));
    push(&mut html, &format!("</head>\n<body>\n<main>\n<header>\n<h1>{title}</h1>\n"));
    if !report.about.is_empty() {
        push(&mut html, &format!("<p class=\"about\">{}</p>\n", escape(&report.about)));
    }
    push(&mut html, &verdict(report));
    push(&mut html, "<dl>\n");
    for (name, value) in &report.facts {
        push(&mut html, &fact(name, value));
    }
    if let Some(machine) = &report.machine {
        push(&mut html, &fact("machine", &machine.describe()));
    }
    push(&mut html, "</dl>\n</header>\n");
    for part in &report.sections {
        section(&mut html, part);
    }
    if let Some(toml) = &report.scenario_toml {
        push(&mut html, "<section>\n<details>\n<summary>The scenario, in full</summary>\n");
        push(&mut html, &format!("<pre>{}</pre>\n</details>\n</section>\n", escape(toml)));
    }
    push(&mut html, "</main>\n</body>\n</html>\n");
    html
}

fn push(html: &mut String, text: &str) {
    html.push_str(text);
}

fn fact(name: &str, value: &str) -> String {
    format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value))
}

/// What the figures show: how many published values are reproduced, and what is judged by our own
/// bands only. Red if a figure is out of its band.
fn verdict(report: &Report) -> String {
    let all = report.sections.iter().flat_map(|section| &section.figures);
    let failed = all.clone().filter(|figure| !figure.pass).count();
    let said = Tally::of(all).sentence();
    match (said.is_empty(), failed) {
        (true, _) => String::new(),
        (false, 0) => format!("<p class=\"verdict ok\">{said}</p>\n"),
        (false, count) => {
            let are = if count == 1 { "figure is" } else { "figures are" };
            format!("<p class=\"verdict fail\">{count} {are} out of band. {said}</p>\n")
        }
    }
}

fn section(html: &mut String, section: &Section) {
    push(html, &format!("<section>\n<h2>{}</h2>\n", escape(&section.heading)));
    if !section.text.is_empty() {
        push(html, &format!("<p>{}</p>\n", escape(&section.text)));
    }
    if !section.figures.is_empty() {
        figures(html, &section.figures);
    }
    if !section.metrics.is_empty() {
        metrics(html, &section.metrics);
    }
    if !section.plots.is_empty() {
        push(html, "<div class=\"plots\">\n");
        for plot in &section.plots {
            push(html, &format!("<figure>\n{}", plot.to_svg()));
            if !plot.caption.is_empty() {
                push(html, &format!("<figcaption>{}</figcaption>\n", escape(&plot.caption)));
            }
            push(html, "</figure>\n");
        }
        push(html, "</div>\n");
    }
    push(html, "</section>\n");
}

fn figures(html: &mut String, figures: &[Figure]) {
    push(html, "<div class=\"scroll\"><table>\n<thead><tr><th>figure</th>");
    push(html, "<th class=\"n\">paper</th><th class=\"n\">measured</th><th>unit</th>");
    push(html, "<th>band</th><th>verdict</th></tr></thead>\n<tbody>\n");
    for figure in figures {
        let (class, verdict) = match figure.verdict() {
            "FAIL" => ("fail", "\u{2717} out of band"),
            "ok" => ("ok", "\u{2713} in band"),
            "differs" => ("", "in band, not the published number"),
            _ => ("", "shown"),
        };
        let note = match figure.note.as_str() {
            "" => String::new(),
            note => format!("<small>{}</small>", escape(note)),
        };
        let paper = figure.paper.map_or("\u{2013}".to_owned(), number);
        writeln!(
            html,
            "<tr><td><code>{}</code>{note}</td><td class=\"n\">{paper}</td>\
             <td class=\"n\">{}</td><td>{}</td><td>{}</td>\
             <td class=\"{class}\">{verdict}</td></tr>",
            escape(&figure.id),
            number(figure.measured),
            escape(&figure.unit),
            escape(&figure.band()),
        )
        .expect("text takes all");
    }
    push(html, "</tbody>\n</table></div>\n");
}

fn metrics(html: &mut String, metrics: &[Metric]) {
    push(html, "<div class=\"scroll\"><table class=\"short\">\n<thead><tr><th>metric</th>");
    push(html, "<th class=\"n\">value</th><th>unit</th></tr></thead>\n<tbody>\n");
    for Metric { metric, value, unit } in metrics {
        let (metric, value, unit) = (escape(metric), number(*value), escape(unit));
        let row =
            format!("<tr><td>{metric}</td><td class=\"n\">{value}</td><td>{unit}</td></tr>\n");
        push(html, &row);
    }
    push(html, "</tbody>\n</table></div>\n");
}
