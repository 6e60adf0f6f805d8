//! A page that changes, on a terminal: as much of it as fits, from its first line down, and keys to scroll.
//! Without them the terminal would show the end of a long page, and what stands first would never be seen.

use crate::terminal::{self, Paint};
use ratatui::crossterm::cursor::{Hide, MoveTo, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};
use ratatui::crossterm::{execute, queue};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// How long a look for a key may take.
const LOOK: Duration = Duration::from_millis(100);

/// Shows pages as they come until the person leaves; the last one stays on the ordinary screen. `next` gives
/// the first page at its first call, and later one that is new, or `None`; `note` stands at the end.
///
/// # Errors
/// `next` failed, or the terminal cannot be used.
pub async fn run(
    mut next: impl FnMut() -> anyhow::Result<Option<String>>,
    note: Option<String>,
    paint: Paint,
) -> anyhow::Result<()> {
    let shown = Shown::begin()?;
    let (mut top, mut drawn, mut page) = (0, None, String::new());
    loop {
        let rows = usize::from(size()?.1);
        if let Some(new) = next()? {
            page = new;
            drawn = None;
        }
        let lines: Vec<&str> = page.lines().collect();
        top = within(top, lines.len(), rows);
        if drawn != Some((top, rows)) {
            draw(&lines, top, rows, note.as_deref(), paint)?;
            drawn = Some((top, rows));
        }
        // Waiting for a key blocks, so it is done on a thread for such things.
        let event = tokio::task::spawn_blocking(|| {
            event::poll(LOOK).and_then(|any| any.then(event::read).transpose())
        });
        match event.await?? {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                match press(key, top, lines.len(), rows) {
                    Some(next) => top = next,
                    None => break,
                }
            }
            // A terminal that is as high as before may be wider.
            Some(_) => drawn = None,
            None => {}
        }
    }
    drop(shown);
    terminal::print(&page)
}

/// The first line shown after this key; `None` to leave.
fn press(key: KeyEvent, top: usize, lines: usize, rows: usize) -> Option<usize> {
    let page = rows.saturating_sub(2).max(1);
    Some(within(
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return None,
            KeyCode::Char('q') | KeyCode::Esc => return None,
            KeyCode::Up | KeyCode::Char('k') => top.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => top + 1,
            KeyCode::PageUp => top.saturating_sub(page),
            KeyCode::PageDown | KeyCode::Char(' ') => top + page,
            KeyCode::Home | KeyCode::Char('g') => 0,
            KeyCode::End | KeyCode::Char('G') => lines,
            _ => top,
        },
        lines,
        rows,
    ))
}

/// Not further down than to the last line; one row is for the keys.
fn within(top: usize, lines: usize, rows: usize) -> usize {
    top.min(lines.saturating_sub(rows.saturating_sub(1)))
}

/// What is shown and how to see the rest.
fn keys(top: usize, lines: usize, rows: usize, note: Option<&str>) -> String {
    let mut text = String::new();
    let bottom = (top + rows.saturating_sub(1)).min(lines);
    if bottom - top < lines {
        let _ =
            write!(text, "lines {} to {bottom} of {lines}: arrows, page up and down, home, end   ", top + 1);
    }
    text.push_str("q quit");
    if let Some(note) = note {
        let _ = write!(text, "   {note}");
    }
    text
}

fn draw(lines: &[&str], top: usize, rows: usize, note: Option<&str>, paint: Paint) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let seen = lines.iter().skip(top).take(rows.saturating_sub(1));
    for (row, line) in seen.enumerate() {
        queue!(out, MoveTo(0, row as u16))?;
        write!(out, "{line}")?;
        queue!(out, Clear(ClearType::UntilNewLine))?;
    }
    let below = (lines.len() - top).min(rows.saturating_sub(1));
    queue!(out, MoveTo(0, below as u16), Clear(ClearType::FromCursorDown))?;
    queue!(out, MoveTo(0, rows.saturating_sub(1) as u16))?;
    write!(out, "{}", paint.dim(&keys(top, lines.len(), rows, note)))?;
    out.flush()
}

/// The screen of its own; dropping it gives the ordinary one back, also when the command is ended by a
/// signal.
struct Shown;

impl Shown {
    fn begin() -> io::Result<Self> {
        enable_raw_mode()?;
        let shown = Self;
        execute!(io::stdout(), EnterAlternateScreen, Hide, DisableLineWrap)?;
        Ok(shown)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        // Nobody is left to be told of a terminal that has gone.
        let _ = execute!(io::stdout(), EnableLineWrap, Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_page_begins_with_its_first_line_and_scrolls_to_its_last() {
        let key = |code: KeyCode, top| press(code.into(), top, 100, 40).unwrap();
        assert_eq!(within(0, 100, 40), 0);
        assert_eq!((key(KeyCode::Down, 0), key(KeyCode::Up, 0)), (1, 0));
        assert_eq!((key(KeyCode::PageDown, 0), key(KeyCode::PageUp, 50)), (38, 12));
        assert_eq!((key(KeyCode::End, 0), key(KeyCode::Down, 61), key(KeyCode::Home, 61)), (61, 61, 0));
        assert_eq!(
            keys(61, 100, 40, None),
            "lines 62 to 100 of 100: arrows, page up and down, home, end   q quit"
        );
    }

    #[test]
    fn a_page_that_fits_does_not_scroll_and_q_escape_and_control_c_leave() {
        assert_eq!(press(KeyCode::Down.into(), 0, 39, 40), Some(0));
        assert_eq!(
            keys(0, 39, 40, Some("the page: http://127.0.0.1:1/")),
            "q quit   the page: http://127.0.0.1:1/"
        );
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for leave in [KeyCode::Char('q').into(), KeyCode::Esc.into(), control_c] {
            assert_eq!(press(leave, 3, 100, 40), None);
        }
        // A terminal of no height, and a page that became shorter.
        assert_eq!((within(7, 5, 0), within(90, 50, 40)), (5, 11));
    }
}
