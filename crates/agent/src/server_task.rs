//! One server is asked again and again, by a task of its own.

use crate::EVERY;
use config::Credentials;
use diagnose::server::{Reading, Sampler};
use fleet::{Address, ServerName};
use observe::AskError;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An answer that takes longer is none.
const DEADLINE: Duration = Duration::from_secs(5);
/// After a failed reading the next one waits this long.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// After a refused login: somebody has to mend the account or the password first, and each attempt stands in
/// the server's log and may lock the account.
const AFTER_REFUSAL: Duration = Duration::from_secs(30);
/// What a server answers to an account that it does not let in: the password, the database, the socket's
/// user, a locked account.
const REFUSED: [u16; 4] = [1045, 1044, 1698, 3118];

/// What a server's task tells the loop.
pub(crate) enum Event {
    Read { server: ServerName, reading: Box<Reading>, on_this_host: bool },
    Failed { server: ServerName, why: String },
}

/// Begins to ask one server, until what is returned is cancelled.
pub(crate) fn begin(
    server: &ServerName,
    reach: &Address,
    who: &Credentials,
    tell: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> CancellationToken {
    let stop = stop.child_token();
    let sampler = Sampler::new(reach.clone(), who.clone(), DEADLINE);
    tokio::spawn(ask(server.clone(), sampler, tell.clone(), stop.clone()));
    stop
}

/// Asks one server until it is told to stop.
async fn ask(server: ServerName, mut sampler: Sampler, tell: mpsc::Sender<Event>, stop: CancellationToken) {
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            asked = sampler.read() => asked,
        };
        let (event, pause) = match asked {
            Ok(reading) => {
                let pause = Sampler::pause(&reading, EVERY);
                let on_this_host = sampler.is_on_this_host().unwrap_or(false);
                (Event::Read { server: server.clone(), reading: Box::new(reading), on_this_host }, pause)
            }
            Err(error) => {
                (Event::Failed { server: server.clone(), why: error.to_string() }, pause_after(&error))
            }
        };
        if tell.send(event).await.is_err() {
            return;
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn pause_after(error: &AskError) -> Duration {
    match error {
        AskError::Answered { code, .. } if REFUSED.contains(code) => AFTER_REFUSAL,
        _ => AFTER_FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_refuses_the_account_is_asked_less_often_than_one_that_is_down() {
        let answered = |code| AskError::Answered { code, state: String::new(), message: String::new() };
        assert_eq!(pause_after(&answered(1045)), AFTER_REFUSAL);
        assert_eq!(pause_after(&answered(1040)), AFTER_FAILURE);
    }
}
