//! Speaking to a lab that another process owns: a unix socket in its directory, one JSON object a line each
//! way.

use crate::running::Running;
use crate::status::Status;
use crate::{Change, Error, dir};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::AbortHandle;

const SOCKET: &str = "control";
/// The longest a lab may take to do what it was asked: a restart and a promotion are within it.
const ANSWER_LIMIT: Duration = Duration::from_secs(120);
/// A lab that goes down may take this long.
const DOWN_LIMIT: Duration = Duration::from_secs(60);

/// What can be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Request {
    Status,
    Fault { target: String, change: String },
    Down,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Response {
    Done,
    Status { status: Box<Status> },
    Error { why: String },
}

/// The directories of the labs that run under `base`.
pub fn labs(base: &Path) -> Result<Vec<PathBuf>, Error> {
    dir::living(base)
}

/// The only lab that runs under `base`.
///
/// # Errors
/// There is none, or there are several: which is meant is not known.
pub fn only(base: &Path) -> Result<PathBuf, Error> {
    match labs(base)?.as_slice() {
        [lab] => Ok(lab.clone()),
        [] => Err(Error::NoLab { base: base.to_owned() }),
        several => Err(Error::SeveralLabs { labs: several.to_vec() }),
    }
}

pub async fn status(lab: &Path) -> Result<Status, Error> {
    match ask(lab, &Request::Status).await? {
        Response::Status { status } => Ok(*status),
        other => Err(unexpected(lab, &other)),
    }
}

/// Begins or ends a fault in a lab: `target` and `change` as [`crate::Lab::change`] takes them.
pub async fn change(lab: &Path, target: &str, change: Change) -> Result<(), Error> {
    let request = Request::Fault { target: target.to_owned(), change: change.to_string() };
    match ask(lab, &request).await? {
        Response::Done => Ok(()),
        other => Err(unexpected(lab, &other)),
    }
}

/// Asks a lab's owner to take it down and waits until that is done.
pub async fn down(lab: &Path) -> Result<(), Error> {
    match ask(lab, &Request::Down).await? {
        Response::Done => {}
        other => return Err(unexpected(lab, &other)),
    }
    let gone = async {
        while lab.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let late = |_| Error::TooLate {
        what: format!("lab {} going down", lab.display()),
        limit: DOWN_LIMIT,
        last: "its directory is still there".to_owned(),
    };
    tokio::time::timeout(DOWN_LIMIT, gone).await.map_err(late)
}

/// Serves a lab's control socket until the lab has ended or the task is aborted. Holds no lab alive.
pub(crate) fn serve(running: &Arc<Running>) -> Result<AbortHandle, Error> {
    let path = running.dir.path().join(SOCKET);
    let listener = UnixListener::bind(&path).map_err(Error::io(format!("listen on {}", path.display())))?;
    let lab = Arc::downgrade(running);
    let task = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_one(stream, lab.clone()));
        }
    });
    Ok(task.abort_handle())
}

async fn serve_one(stream: UnixStream, lab: Weak<Running>) {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Some(running) = lab.upgrade() else { return };
        let response = answer(&running, &line).await;
        let down = matches!(serde_json::from_str(&line), Ok(Request::Down));
        let Ok(mut text) = serde_json::to_string(&response) else { return };
        text.push('\n');
        if to.write_all(text.as_bytes()).await.is_err() {
            return;
        }
        if down {
            // After the answer: its receiver must not lose it to our end.
            running.asked_down.notify_one();
        }
    }
}

async fn answer(running: &Running, line: &str) -> Response {
    let failed = |why: String| Response::Error { why };
    match serde_json::from_str(line) {
        Ok(Request::Status) => Response::Status { status: Box::new(running.status().await) },
        Ok(Request::Fault { target, change }) => match change.parse() {
            Ok(change) => match running.change(&target, change).await {
                Ok(()) => Response::Done,
                Err(error) => failed(error.to_string()),
            },
            Err(error) => failed(error.to_string()),
        },
        Ok(Request::Down) => Response::Done,
        Err(error) => failed(format!("not a request of this version: {error}")),
    }
}

async fn ask(lab: &Path, request: &Request) -> Result<Response, Error> {
    let failed = |why: String| Error::Control { dir: lab.to_owned(), why };
    let io = |e: std::io::Error| failed(format!("its owner does not answer ({e}); is it still there?"));
    let exchange = async {
        let stream = UnixStream::connect(lab.join(SOCKET)).await.map_err(io)?;
        let (from, mut to) = stream.into_split();
        let mut text = serde_json::to_string(request).map_err(|e| failed(e.to_string()))?;
        text.push('\n');
        to.write_all(text.as_bytes()).await.map_err(io)?;
        let line = BufReader::new(from).lines().next_line().await.map_err(io)?;
        let line = line.ok_or_else(|| failed("its owner hung up".to_owned()))?;
        serde_json::from_str(&line).map_err(|e| failed(format!("its answer is of another version: {e}")))
    };
    let late = |_| failed(format!("no answer within {} s", ANSWER_LIMIT.as_secs()));
    tokio::time::timeout(ANSWER_LIMIT, exchange).await.map_err(late)?
}

fn unexpected(lab: &Path, response: &Response) -> Error {
    let why = match response {
        Response::Error { why } => why.clone(),
        other => format!("an unexpected answer: {other:?}"),
    };
    Error::Control { dir: lab.to_owned(), why }
}
