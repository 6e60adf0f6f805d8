//! Certificate, key and token of an agent: read at the start, again when a file changes, and on HUP. What
//! cannot be used is refused, and what was in force stays.

use console::token::Token;
use rustls::ServerConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// What is in force, and changes of it.
pub struct Keys {
    token: watch::Receiver<Option<Token>>,
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
}

/// Where it stands.
#[derive(Clone)]
pub struct Files {
    /// Certificate and key.
    pub pair: Option<(PathBuf, PathBuf)>,
    /// The file whose first line is the token.
    pub token: Option<PathBuf>,
    /// What `HEADROOM_AGENT_TOKEN` holds; counts where no file is named.
    pub variable: Option<String>,
}

impl Keys {
    /// Reads what the command line and the environment name, and goes on looking after it.
    ///
    /// # Errors
    /// What is named and cannot be used.
    pub fn read(files: Files) -> anyhow::Result<Self> {
        let (give_token, token) = watch::channel(files.token()?);
        let (give_tls, tls) = watch::channel(files.tls()?);
        if files.pair.is_some() || files.token.is_some() {
            tokio::spawn(keep(files, give_token, give_tls));
        }
        Ok(Self { token, tls })
    }

    /// The token in force.
    pub(crate) fn token(&self) -> Option<Token> {
        self.token.borrow().clone()
    }

    /// The certificate and key in force.
    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.tls.borrow().clone()
    }

    /// The token, whenever it is asked for.
    pub(crate) fn tokens(&self) -> watch::Receiver<Option<Token>> {
        self.token.clone()
    }

    /// Certificate and key, whenever they are asked for; `None` where there is no TLS.
    pub(crate) fn configs(&self) -> Option<watch::Receiver<Option<Arc<ServerConfig>>>> {
        self.config().is_some().then(|| self.tls.clone())
    }
}

impl Files {
    fn token(&self) -> anyhow::Result<Option<Token>> {
        Token::find(self.token.as_deref(), self.variable.as_deref())
    }

    fn tls(&self) -> anyhow::Result<Option<Arc<ServerConfig>>> {
        Ok(self.pair.as_ref().map(|(cert, key)| tls::https::server(cert, key)).transpose()?)
    }

    /// When each was last changed; a file that is missing for a moment (being replaced) has no time.
    fn times(&self) -> Vec<Option<SystemTime>> {
        let pair = self.pair.iter().flat_map(|(cert, key)| [cert, key]);
        let time = |file: &PathBuf| std::fs::metadata(file).and_then(|found| found.modified()).ok();
        pair.chain(&self.token).map(time).collect()
    }
}

async fn keep(
    files: Files,
    token: watch::Sender<Option<Token>>,
    tls: watch::Sender<Option<Arc<ServerConfig>>>,
) {
    let Ok(mut told) = signal(SignalKind::hangup()) else { return };
    let mut times = files.times();
    loop {
        let by_command = tokio::select! {
            () = token.closed() => return,
            _ = told.recv() => true,
            () = tokio::time::sleep(EVERY) => false,
        };
        let now = files.times();
        if !by_command && (now == times || now.contains(&None)) {
            continue;
        }
        times = now;
        match files.token().and_then(|token| Ok((token, files.tls()?))) {
            Ok((new_token, new_tls)) => {
                token.send_replace(new_token);
                tls.send_replace(new_tls);
                tracing::info!("certificate, key and token read again; new connections have them");
            }
            Err(error) => tracing::error!("refused, what was in force stays: {error:#}"),
        }
    }
}
