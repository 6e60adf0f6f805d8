//! The loop of the screen: asks every second, and at once after a key that changes the question.

use super::screen::{self, Shown};
use crate::admin_client::AdminClient;
use crate::insight_view::{By, Question, Sort};
use insight::Since;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use std::time::{Duration, Instant};
use term::StopFlag;

/// Between two questions.
const EVERY: Duration = Duration::from_secs(1);
/// How long a look for a key may take.
const LOOK: Duration = Duration::from_millis(100);

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressed {
    Leave,
    /// Another question.
    Ask,
    /// Another view of the same answer.
    Look,
    Nothing,
}

/// Shows the screen until the person leaves, or a signal asks for the end. The terminal is as before
/// afterwards.
///
/// # Errors
/// The router does not answer the first question, or the terminal cannot be used.
pub async fn run(client: &AdminClient, question: Question) -> anyhow::Result<()> {
    // The first answer before the screen: when nobody answers, that is said on an ordinary line.
    let view = client.insight(&question).await?;
    let mut shown = Shown { question, view, selected: 0, trouble: None };
    // Ended by a signal's default, we would leave the terminal without echo and on the other screen.
    let mut stop = StopFlag::listen(|| ());
    let mut terminal = ratatui::try_init()?;
    let outcome = tokio::select! {
        outcome = serve(client, &mut shown, &mut terminal) => outcome,
        () = stop.until_set() => Ok(()),
    };
    ratatui::try_restore()?;
    outcome
}

async fn serve(
    client: &AdminClient,
    shown: &mut Shown,
    terminal: &mut ratatui::DefaultTerminal,
) -> anyhow::Result<()> {
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| screen::draw(frame, shown))?;
        // Waiting for a key blocks, so it is done on a thread for such things.
        let event = tokio::task::spawn_blocking(|| {
            event::poll(LOOK).and_then(|any| any.then(event::read).transpose())
        });
        let pressed = match event.await?? {
            Some(Event::Key(key)) if key.kind == KeyEventKind::Press => press(shown, key),
            _ => Pressed::Nothing,
        };
        match pressed {
            Pressed::Leave => return Ok(()),
            Pressed::Look | Pressed::Nothing if asked.elapsed() < EVERY => continue,
            _ => {}
        }
        match client.insight(&shown.question).await {
            Ok(view) => {
                (shown.view, shown.trouble) = (view, None);
                shown.selected = shown.selected.min(shown.rows().saturating_sub(1));
            }
            Err(error) => shown.trouble = Some(format!("{error:#}")),
        }
        asked = Instant::now();
    }
}

fn press(shown: &mut Shown, key: KeyEvent) -> Pressed {
    let last = shown.rows().saturating_sub(1);
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Pressed::Leave,
        KeyCode::Char('q') => return Pressed::Leave,
        KeyCode::Up | KeyCode::Char('k') => shown.selected = shown.selected.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => shown.selected = (shown.selected + 1).min(last),
        KeyCode::Home => shown.selected = 0,
        KeyCode::End => shown.selected = last,
        _ => return ask(shown, key.code),
    }
    Pressed::Look
}

/// Keys that change the question.
fn ask(shown: &mut Shown, code: KeyCode) -> Pressed {
    let question = &mut shown.question;
    match code {
        KeyCode::Tab | KeyCode::Right => question.by = after(&By::ALL, question.by, 1),
        KeyCode::BackTab | KeyCode::Left => question.by = after(&By::ALL, question.by, By::ALL.len() - 1),
        KeyCode::Char('s') => question.sort = Some(after(&Sort::ALL, question.order(), 1)),
        KeyCode::Char('S') => {
            question.sort = Some(after(&Sort::ALL, question.order(), Sort::ALL.len() - 1));
        }
        KeyCode::Char('t') => {
            question.since = if question.since == Since::Recent { Since::Start } else { Since::Recent };
        }
        KeyCode::Enter => return narrow(shown),
        KeyCode::Esc | KeyCode::Backspace => {
            (question.digest, question.endpoint, question.server) = (None, None, None);
        }
        _ => return Pressed::Nothing,
    }
    shown.selected = 0;
    Pressed::Ask
}

/// Looks only at what is selected: the digests of an endpoint or server, the endpoints of a digest.
fn narrow(shown: &mut Shown) -> Pressed {
    let Some(id) = shown.selected_id() else { return Pressed::Nothing };
    let question = &mut shown.question;
    (question.by, _) = match question.by {
        By::Digest => (By::Endpoint, question.digest.insert(id)),
        By::Endpoint | By::Request => (By::Digest, question.endpoint.insert(id)),
        By::Server => (By::Digest, question.server.insert(id)),
        By::Zone | By::User | By::Listener => return Pressed::Nothing,
    };
    shown.selected = 0;
    Pressed::Ask
}

fn after<T: Copy + PartialEq>(all: &[T], now: T, steps: usize) -> T {
    let at = all.iter().position(|known| *known == now).unwrap_or(0);
    all[(at + steps) % all.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight_view::{InsightView, RowView};

    fn shown(by: By) -> Shown {
        let row = |name: &str| RowView { name: name.into(), id: name.into(), ..RowView::default() };
        let view = InsightView { rows: vec![row("one"), row("two")], ..InsightView::default() };
        Shown { question: Question { by, ..Question::default() }, view, selected: 0, trouble: None }
    }

    #[test]
    fn an_endpoint_leads_to_its_digests_and_escape_leads_back() {
        let mut s = shown(By::Endpoint);
        assert_eq!(press(&mut s, KeyCode::Down.into()), Pressed::Look);
        assert_eq!(press(&mut s, KeyCode::Enter.into()), Pressed::Ask);
        assert_eq!((s.question.by, s.question.endpoint.as_deref(), s.selected), (By::Digest, Some("two"), 0));
        assert_eq!(press(&mut s, KeyCode::Esc.into()), Pressed::Ask);
        assert_eq!(s.question.endpoint, None);
    }

    #[test]
    fn tab_goes_round_and_q_leaves() {
        let mut s = shown(By::Digest);
        for _ in By::ALL {
            press(&mut s, KeyCode::Tab.into());
        }
        assert_eq!(s.question.by, By::Digest);
        press(&mut s, KeyCode::BackTab.into());
        assert_eq!(s.question.by, By::Listener);
        assert_eq!(press(&mut s, KeyCode::Char('q').into()), Pressed::Leave);
    }

    #[test]
    fn requests_come_by_their_queries_unless_another_order_was_chosen() {
        let mut s = shown(By::Endpoint);
        press(&mut s, KeyCode::Tab.into());
        assert_eq!((s.question.by, s.question.order()), (By::Request, Sort::Queries));
        press(&mut s, KeyCode::Tab.into());
        assert_eq!(s.question.order(), Sort::Time);
        s.question.sort = Some(Sort::P99);
        press(&mut s, KeyCode::BackTab.into());
        assert_eq!((s.question.by, s.question.order()), (By::Request, Sort::P99));
    }
}
