//! What surrounds each drawing: a caption, a legend, and the same figures as a table.

use crate::canvas::escape;
use std::fmt::Write;

/// Width of every chart, in the units of its drawing.
pub(crate) const WIDTH: f64 = 720.0;
/// Rows of a table at most; of more, every n-th is shown.
const ROWS: usize = 60;

/// The whole: `legend` is HTML, the rest text.
pub(crate) fn figure(
    caption: &str,
    svg: &str,
    legend: &str,
    headings: &[String],
    rows: &[Vec<String>],
) -> String {
    format!(
        "<figure class=\"chart\"><figcaption>{}</figcaption><div class=\"drawing\">{svg}</div>{legend}{}</figure>\n",
        escape(caption),
        table(headings, rows)
    )
}

/// `title, unit`
pub(crate) fn caption(title: &str, unit: &str) -> String {
    if unit.is_empty() { title.to_owned() } else { format!("{title}, {unit}") }
}

fn table(headings: &[String], rows: &[Vec<String>]) -> String {
    let every = rows.len().div_ceil(ROWS).max(1);
    let summary =
        if every == 1 { "As a table".to_owned() } else { format!("As a table, one of {every} rows") };
    let mut text = format!("<details><summary>{summary}</summary><table><tr>");
    for heading in headings {
        let _ = write!(text, "<th>{}</th>", escape(heading));
    }
    text.push_str("</tr>\n");
    for row in rows.iter().step_by(every) {
        text.push_str("<tr>");
        for cell in row {
            let _ = write!(text, "<td>{}</td>", escape(cell));
        }
        text.push_str("</tr>\n");
    }
    text + "</table></details>"
}

/// The first characters of a name that is too long for its place.
pub(crate) fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_says_what_it_leaves_out() {
        let rows: Vec<Vec<String>> = (0..150).map(|n| vec![n.to_string()]).collect();
        let text = table(&["n".to_owned()], &rows);
        assert_eq!((text.matches("<tr>").count(), text.contains("one of 3 rows")), (51, true));
    }
}
