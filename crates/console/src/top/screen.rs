//! The screen: a head with the whole, tabs, the rows, what is selected in full, and the keys.

use super::table::{count, decimal, headline, known_ms, ms, per_second, percent, request_cells, rows_each};
use crate::insight_view::{By, InsightView, Question, RowView, Sort};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

/// What is on the screen.
pub(super) struct Shown {
    pub(super) question: Question,
    pub(super) view: InsightView,
    pub(super) selected: usize,
    /// Why there is no fresh answer.
    pub(super) trouble: Option<String>,
}

const ACCENT: Color = Color::Cyan;
/// Width of the bar that shows a share.
const BAR: usize = 8;

impl Shown {
    /// Rows on the screen.
    pub(super) fn rows(&self) -> usize {
        if self.question.by == By::Request { self.view.requests.len() } else { self.view.rows.len() }
    }

    /// What identifies the selected row.
    pub(super) fn selected_id(&self) -> Option<String> {
        match self.question.by {
            By::Request => self.view.requests.get(self.selected).map(|r| r.endpoint.clone()),
            _ => self.view.rows.get(self.selected).map(|r| r.id.clone()),
        }
    }
}

/// Draws it all.
pub(super) fn draw(frame: &mut Frame<'_>, shown: &Shown) {
    let notes = shown.view.notes.len().min(3) as u16;
    let detail = if frame.area().height >= 24 && shown.question.by != By::Request { 7 } else { 0 };
    let parts = [
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(4),
        Constraint::Length(detail),
        Constraint::Length(notes),
        Constraint::Length(1),
    ];
    let [head, tabs, rows, selected, below, keys] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(top_line(shown), head);
    frame.render_widget(Paragraph::new(tab_line(shown)), tabs);
    if shown.question.by == By::Request {
        requests(frame, shown, rows);
    } else {
        figures(frame, shown, rows);
    }
    if detail > 0 {
        details(frame, shown, selected);
    }
    let lines = shown.view.notes.iter().take(3).map(|note| Line::from(format!("! {note}")).yellow());
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), below);
    frame.render_widget(Paragraph::new(key_line(shown)), keys);
}

fn top_line(shown: &Shown) -> Paragraph<'static> {
    let line = match &shown.trouble {
        Some(trouble) => {
            Line::from(vec![Span::from(" headroom top ").reversed(), Span::from(format!(" {trouble}")).red()])
        }
        None => Line::from(vec![
            Span::from(" headroom top ").fg(ACCENT).reversed().bold(),
            Span::from(format!("  {}", headline(&shown.view))),
        ]),
    };
    Paragraph::new(line)
}

fn tab_line(shown: &Shown) -> Line<'static> {
    let tab = |by: By| {
        let word = format!(" {} ", by.word());
        if by == shown.question.by {
            Span::from(word).fg(ACCENT).bold().underlined()
        } else {
            Span::from(word).dim()
        }
    };
    let mut spans: Vec<Span<'static>> = By::ALL.into_iter().map(tab).collect();
    spans.push(Span::from(format!("   sorted by {}", shown.question.order().word())).dim());
    Line::from(spans)
}

fn heading(cells: &[(&str, bool)]) -> Row<'static> {
    let cell = |(text, sorted): &(&str, bool)| {
        let style = if *sorted { Style::new().fg(ACCENT).bold() } else { Style::new().dim() };
        Cell::from(Line::from((*text).to_owned()).style(style))
    };
    Row::new(cells.iter().map(cell).collect::<Vec<_>>())
}

fn figures(frame: &mut Frame<'_>, shown: &Shown, area: Rect) {
    let sort = shown.question.order();
    let name = shown.question.by.word();
    let scaled = shown.view.rows.iter().any(|row| row.figures.per_second_error > 0.0);
    let (per_s, wide) = if scaled { ("per s ± error", 14) } else { ("   per s", 8) };
    let headings = [
        ("time", sort == Sort::Time),
        ("", false),
        (per_s, matches!(sort, Sort::Count | Sort::Queries)),
        ("    mean", sort == Sort::Mean),
        ("     p50", false),
        ("     p95", false),
        ("     p99", sort == Sort::P99),
        ("    rows", sort == Sort::Rows),
        ("  errors", sort == Sort::Errors),
        (name, false),
    ];
    let widths =
        [8u16, 7, wide, 8, 8, 8, 8, 8, 8].map(Constraint::Length).into_iter().chain([Constraint::Min(20)]);
    let rows: Vec<Row<'static>> = shown.view.rows.iter().map(figures_row).collect();
    if rows.is_empty() {
        let text = shown.view.not_measured.as_deref().unwrap_or("Nothing was measured in this time.");
        return frame.render_widget(Paragraph::new(text.to_owned()).wrap(Wrap { trim: true }).dim(), area);
    }
    render(frame, area, Table::new(rows, widths).header(heading(&headings)), shown.selected);
}

fn figures_row(row: &RowView) -> Row<'static> {
    let f = &row.figures;
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let errors = right(count(f.errors));
    Row::new(vec![
        Cell::from(bar(f.share)).fg(ACCENT),
        right(percent(f.share)),
        right(per_second(f)),
        right(known_ms(f.mean_ms)),
        right(known_ms(f.p50_ms)),
        right(known_ms(f.p95_ms)),
        right(known_ms(f.p99_ms)),
        right(rows_each(f)),
        if f.errors > 0 { errors.red() } else { errors.dim() },
        Cell::from(row.name.clone()),
    ])
}

fn requests(frame: &mut Frame<'_>, shown: &Shown, area: Rect) {
    let sort = shown.question.order();
    let by_queries = matches!(sort, Sort::Queries | Sort::Errors | Sort::Rows | Sort::Bytes);
    let headings = [
        ("requests", sort == Sort::Count),
        (" queries", by_queries),
        ("     p50", false),
        ("     p99", false),
        ("    most", false),
        (" db time", sort == Sort::Time),
        ("     p50", false),
        ("     p99", false),
        ("span p50", false),
        ("     p99", sort == Sort::P99),
        ("thinking", false),
        ("endpoint", false),
    ];
    let rows: Vec<Row<'static>> = shown
        .view
        .requests
        .iter()
        .map(|request| {
            let mut cells = request_cells(request);
            let endpoint = cells.pop().unwrap_or_default();
            let figures = cells.into_iter().map(|text| Cell::from(Line::from(text).right_aligned()));
            Row::new(figures.chain([Cell::from(endpoint)]).collect::<Vec<_>>())
        })
        .collect();
    if rows.is_empty() {
        let text = "No request was finished in this time. Requests are told by a tag: traceparent, or what \
                    [router.insight] request_keys names.";
        return frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }).dim(), area);
    }
    let widths = [Constraint::Length(8); 11].into_iter().chain([Constraint::Min(20)]);
    render(frame, area, Table::new(rows, widths).header(heading(&headings)), shown.selected);
}

fn render(frame: &mut Frame<'_>, area: Rect, table: Table<'static>, selected: usize) {
    let table = table.column_spacing(1).row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(Some(selected)));
}

fn details(frame: &mut Frame<'_>, shown: &Shown, area: Rect) {
    let block = Block::new().borders(Borders::TOP).border_style(Style::new().dim());
    let Some(row) = shown.view.rows.get(shown.selected) else { return frame.render_widget(block, area) };
    let f = &row.figures;
    let each = |bytes: u64| decimal(bytes as f64 / f.count.max(1) as f64);
    let codes: Vec<String> = f.error_codes.iter().map(|(code, n)| format!("{code}: {}", count(*n))).collect();
    let mut facts = format!(
        "{} times, {} under way on average; first byte after {}; p99.9 {}, longest {}; {} bytes there, {} back each",
        count(f.count),
        decimal(f.load),
        known_ms(f.first_byte_ms),
        known_ms(f.p999_ms),
        ms(f.longest_ms),
        each(f.bytes_to_server),
        each(f.bytes_to_client),
    );
    if !codes.is_empty() {
        facts.push_str(&format!("; errors {}", codes.join(", ")));
    }
    let title = if shown.question.by == By::Digest { format!("digest {}", row.id) } else { row.name.clone() };
    let mut lines = vec![Line::from(title).fg(ACCENT), Line::from(facts).dim()];
    if shown.question.by == By::Digest {
        lines.push(Line::from(row.name.clone()));
    }
    lines.extend(row.example.iter().map(|example| Line::from(format!("for example: {example}")).dim()));
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }).block(block), area);
}

fn key_line(shown: &Shown) -> Line<'static> {
    let enter = match shown.question.by {
        By::Digest => "its endpoints",
        By::Endpoint | By::Request | By::Server => "its statements",
        By::Zone | By::User | By::Listener => "",
    };
    let keys = [
        ("↑↓", "select"),
        ("tab", "group by"),
        ("s", "sort"),
        ("t", "recent or since the start"),
        ("enter", enter),
        ("esc", "all"),
        ("q", "quit"),
    ];
    let spans = keys.into_iter().filter(|(_, what)| !what.is_empty());
    Line::from(
        spans
            .flat_map(|(key, what)| {
                [Span::from(format!(" {key} ")).bold(), Span::from(what).dim(), Span::from(" ")]
            })
            .collect::<Vec<_>>(),
    )
}

/// A share as a bar of eighths.
fn bar(share: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (share.clamp(0.0, 1.0) * (BAR * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight_view::FiguresView;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(shown: &Shown, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, shown)).unwrap();
        terminal.backend().to_string()
    }

    fn shown(by: By) -> Shown {
        let figures = FiguresView {
            count: 100,
            per_second: 1234.5,
            share: 0.5,
            p99_ms: Some(1.5),
            errors: 3,
            ..FiguresView::default()
        };
        let row = RowView {
            name: "SELECT `a` FROM `t` WHERE `id` = ?".into(),
            id: "00ff".into(),
            figures,
            ..RowView::default()
        };
        let view = InsightView {
            rows: vec![row],
            notes: vec!["7 sessions are opaque".into()],
            ..InsightView::default()
        };
        Shown { question: Question { by, ..Question::default() }, view, selected: 0, trouble: None }
    }

    #[test]
    fn rows_details_notes_and_keys_are_on_the_screen() {
        let text = drawn(&shown(By::Digest), 120, 30);
        for part in ["████", "1235", "1.50 ms", "SELECT `a`", "digest 00ff", "7 sessions are opaque", "quit"]
        {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn any_size_and_any_group_is_drawn() {
        for by in By::ALL {
            for (width, height) in [(1, 1), (20, 5), (80, 24), (200, 60)] {
                drawn(&shown(by), width, height);
            }
        }
    }
}
