//! A table of texts for the terminal: columns as wide as their widest cell, the last one free. Colour codes
//! have no width.

/// Rows under headings.
pub struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings; one that begins with `>` names a column of figures, set to the right.
    pub fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let names = headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Self { rows: vec![names], right }
    }

    /// Adds a row; it has as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The text, each line ended.
    pub fn text(&self) -> String {
        let columns = self.right.len();
        let widest =
            |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|c| width(c)).max();
        let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths.get(column).copied().unwrap_or(0).saturating_sub(width(cell)));
                let right = self.right.get(column).copied().unwrap_or(false);
                let (before, after) = if right { (pad, String::new()) } else { (String::new(), pad) };
                line.push_str(&format!("{before}{cell}{after}  "));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Characters that take room, colour codes left out.
fn width(cell: &str) -> usize {
    let mut count = 0;
    let mut in_code = false;
    for c in cell.chars() {
        match (in_code, c) {
            (false, '\x1b') => in_code = true,
            (true, 'm') => in_code = false,
            (true, _) => {}
            (false, _) => count += 1,
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_colour_takes_no_room() {
        let mut table = Table::new(&["server", ">lag", "state"]);
        table.row(vec!["db1".into(), "5 ms".into(), "\x1b[32mup\x1b[0m".into()]);
        table.row(vec!["database2".into(), "1200 ms".into(), "silent".into()]);
        assert_eq!(
            table.text(),
            "server         lag  state\ndb1           5 ms  \x1b[32mup\x1b[0m\ndatabase2  1200 ms  silent\n"
        );
    }
}
