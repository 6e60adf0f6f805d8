//! The only place that reads the environment. Everything else gets values.

use anyhow::Context;
use config::Webhook;
use console::control::Directory;
use console::objectives::WebhookSender;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

/// What we take from the environment.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    /// `HEADROOM_USER`: the account that asks the servers.
    pub(crate) user: Option<String>,
    /// `HEADROOM_PASSWORD`, else `MYSQL_PWD`.
    pub(crate) password: Option<String>,
    /// `HEADROOM_LOG`: what is logged, e.g. `info` or `router=debug`.
    pub(crate) log: Option<String>,
    /// `HEADROOM_ADMIN`: where a running `headroom route` answers.
    pub(crate) admin: Option<String>,
    /// `HEADROOM_AGENT_TOKEN`: what opens an agent beyond loopback.
    pub(crate) agent_token: Option<String>,
    /// `HOME`: where `.my.cnf` lies.
    pub(crate) home: Option<PathBuf>,
    /// `XDG_DATA_HOME`: where the user's data belong, if not below `HOME`.
    pub(crate) data: Option<PathBuf>,
    /// `HEADROOM_RUNTIME_DIR`: the directory of the control sockets.
    pub(crate) runtime_dir: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`: where sockets of a user belong.
    pub(crate) user_runtime_dir: Option<PathBuf>,
    /// `HEADROOM_CORE_DUMPS`: `route` and `agent` may be dumped and debugged.
    pub(crate) core_dumps: bool,
    /// `NOTIFY_SOCKET`: where systemd wants to hear that we are ready.
    pub(crate) notify_socket: Option<String>,
    /// `WATCHDOG_USEC`, where `WATCHDOG_PID` is us or absent: how often systemd wants to hear that we live.
    pub(crate) watchdog: Option<Duration>,
    /// `LISTEN_FDS`, where `LISTEN_PID` is us: how many listening sockets systemd has opened for us.
    pub(crate) listen_fds: Option<u32>,
    /// `TMPDIR`: where temporary files belong.
    #[cfg_attr(not(feature = "lab"), allow(dead_code, reason = "only labs have temporary files"))]
    pub(crate) temporary: Option<PathBuf>,
    /// Whether colour is unwanted: `NO_COLOR` is set, or `TERM` is `dumb`.
    pub(crate) no_colour: bool,
    /// `TERM` is `dumb`: a terminal (of an editor, say) that shows what would move its cursor as text.
    pub(crate) dumb: bool,
}

/// What root keeps over a restart of the host.
const STATE: &str = "/var/lib/headroom";

impl Environment {
    /// The directory where journals of this name lie unless told otherwise: root's, or this user's own.
    ///
    /// # Errors
    /// Neither `XDG_DATA_HOME` nor `HOME` is set.
    pub(crate) fn journals(&self, name: &str) -> anyhow::Result<PathBuf> {
        self.journals_of(rustix::process::geteuid().is_root(), name)
    }

    fn journals_of(&self, root: bool, name: &str) -> anyhow::Result<PathBuf> {
        if root {
            return Ok(PathBuf::from(STATE).join(name));
        }
        let below_home = || self.home.as_ref().map(|home| home.join(".local/share"));
        let data = self.data.clone().or_else(below_home);
        data.map(|data| data.join("headroom").join(name)).context("HOME is not set: say where with --journal")
    }

    /// The router that is meant: the flag, else the variable, else none in particular.
    pub(crate) fn router<'a>(&'a self, flag: Option<&'a str>) -> Option<&'a str> {
        flag.or(self.admin.as_deref())
    }

    /// Whether a person sits at a terminal that can be drawn on.
    pub(crate) fn has_screen(&self) -> bool {
        self.can_be_drawn_on(std::io::stdin().is_terminal() && std::io::stdout().is_terminal())
    }

    fn can_be_drawn_on(&self, terminal: bool) -> bool {
        terminal && !self.dumb
    }

    /// Where routers of this user take commands.
    ///
    /// # Errors
    /// The directory cannot be made, or is not ours alone.
    pub(crate) fn control_directory(&self) -> anyhow::Result<Directory> {
        Directory::of_this_user(self.runtime_dir.as_deref(), self.user_runtime_dir.as_deref())
    }

    /// Where that is, if it could be used; it is not made for that.
    ///
    /// # Errors
    /// As [`Self::control_directory`].
    pub(crate) fn possible_control_directory(&self) -> anyhow::Result<PathBuf> {
        Directory::possible(self.runtime_dir.as_deref(), self.user_runtime_dir.as_deref())
    }

    /// Reads it once.
    pub(crate) fn read() -> Self {
        let some = |name| variable(name).filter(|value| !value.is_empty());
        let dumb = some("TERM").as_deref() == Some("dumb");
        Self {
            user: some("HEADROOM_USER"),
            password: some("HEADROOM_PASSWORD").or_else(|| some("MYSQL_PWD")),
            log: some("HEADROOM_LOG"),
            admin: some("HEADROOM_ADMIN"),
            agent_token: some("HEADROOM_AGENT_TOKEN"),
            home: some("HOME").map(PathBuf::from),
            data: some("XDG_DATA_HOME").map(PathBuf::from),
            runtime_dir: some("HEADROOM_RUNTIME_DIR").map(PathBuf::from),
            user_runtime_dir: some("XDG_RUNTIME_DIR").map(PathBuf::from),
            core_dumps: some("HEADROOM_CORE_DUMPS").is_some(),
            notify_socket: some("NOTIFY_SOCKET"),
            watchdog: some("WATCHDOG_USEC")
                .filter(|_| some("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string()))
                .and_then(|micros| micros.parse().ok().filter(|micros| *micros > 0))
                .map(Duration::from_micros),
            listen_fds: some("LISTEN_FDS")
                .filter(|_| some("LISTEN_PID") == Some(std::process::id().to_string()))
                .and_then(|count| count.parse().ok()),
            temporary: some("TMPDIR").map(PathBuf::from),
            no_colour: some("NO_COLOR").is_some() || dumb,
            dumb,
        }
    }
}

/// The program and the arguments that this process was started with.
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn command_line() -> Vec<std::ffi::OsString> {
    std::env::args_os().collect()
}

/// One variable that the configuration names (`password_env`), or OpenTelemetry (`OTEL_...`); text that is no
/// UTF-8 counts as absent.
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The webhook that the configuration names, ready to be called.
///
/// # Errors
/// What it names cannot be used.
pub(crate) fn hook(webhook: Option<&Webhook>) -> anyhow::Result<Option<WebhookSender>> {
    webhook.map(|webhook| WebhookSender::start(webhook, variable)).transpose()
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment")
            .field("user", &self.user)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_move_its_cursor_is_no_screen() {
        let (usual, dumb) = (Environment::default(), Environment { dumb: true, ..Environment::default() });
        assert!(usual.can_be_drawn_on(true) && !usual.can_be_drawn_on(false));
        assert!(!dumb.can_be_drawn_on(true));
    }

    #[test]
    fn journals_of_another_user_than_root_lie_where_it_may_write() {
        let home = Environment { home: Some("/home/a".into()), ..Environment::default() };
        assert_eq!(home.journals_of(true, "knobs").unwrap(), PathBuf::from("/var/lib/headroom/knobs"));
        let own = home.journals_of(false, "knobs").unwrap();
        assert_eq!(own, PathBuf::from("/home/a/.local/share/headroom/knobs"));
        let data = Environment { data: Some("/data".into()), ..home };
        assert_eq!(
            data.journals_of(false, "switchover").unwrap(),
            PathBuf::from("/data/headroom/switchover")
        );
        let why = Environment::default().journals_of(false, "knobs").unwrap_err();
        assert!(why.to_string().contains("--journal"), "{why}");
    }
}
