//! A headline and a table in Markdown whose columns line up, so that it reads as well on a terminal.

use std::fmt::Write;

/// The text, or nothing when there are no rows. A heading that begins with `>` names a column of figures, set
/// to the right. Bars in cells would end them, so they are written as slashes.
pub(crate) fn section(title: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let right: Vec<bool> = head.iter().map(|heading| heading.starts_with('>')).collect();
    let mut lines = vec![head.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect()];
    lines.extend(rows.map(|row| row.iter().map(|cell| cell.replace('|', "/")).collect::<Vec<_>>()));
    if lines.len() == 1 {
        return String::new();
    }
    let width = |column: usize| lines.iter().map(|line: &Vec<String>| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = format!("## {title}\n\n");
    for (number, line) in lines.iter().enumerate() {
        for ((cell, &width), &right) in line.iter().zip(&widths).zip(&right) {
            let _ = if right { write!(text, "| {cell:>width$} ") } else { write!(text, "| {cell:<width$} ") };
        }
        text.push_str("|\n");
        if number == 0 {
            for (width, &right) in widths.iter().zip(&right) {
                let _ = write!(text, "|{}{}", "-".repeat(width + 1), if right { ':' } else { '-' });
            }
            text.push_str("|\n");
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_left_and_figures_right_in_columns_that_line_up() {
        let rows = [vec!["direct".to_owned(), "7".to_owned()], vec!["a|b".to_owned(), "12,345".to_owned()]];
        let expected = "\
## Title

| name   |    QPS |
|--------|-------:|
| direct |      7 |
| a/b    | 12,345 |

";
        assert_eq!(section("Title", &["name", ">QPS"], rows.into_iter()), expected);
        assert_eq!(section("Title", &["name"], std::iter::empty()), "");
    }
}
