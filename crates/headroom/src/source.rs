//! Where a configuration comes from: a file, or flags in its place. Read again on SIGHUP with the same flags
//! on top.

use crate::credentials;
use crate::environment::Environment;
use clap::Args;
use config::{self, Config, Listener, OwnZone, PasswordFrom, Sourced};
use fleet::{Address, ListenerRole, Zone};
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use term::terminal;

/// Where a file is looked for when none is named.
const USUAL_PLACES: [&str; 2] = ["headroom.toml", "/etc/headroom/headroom.toml"];

/// Where the fleet is found and who we are to it: the same for `route` and `fleet`.
#[derive(Args, Debug, Clone)]
pub(crate) struct SourceArgs {
    /// Configuration file (see headroom.example.toml).
    #[arg(long, short, value_name = "FILE", conflicts_with = "server")]
    pub(crate) config: Option<PathBuf>,
    /// A server to start from, in place of a file; the others are found by asking it. Repeatable.
    #[arg(long, short, value_name = "HOST:PORT")]
    pub(crate) server: Vec<Address>,
    /// Our own zone [default: found out].
    #[arg(long, value_name = "NAME")]
    pub(crate) zone: Option<String>,
    /// Account that asks the servers [default: from the option file, else $HEADROOM_USER, else headroom].
    #[arg(long, short, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Option file with user, password and TLS, in the format of ~/.my.cnf (which is the default).
    #[arg(long, value_name = "FILE")]
    pub(crate) option_file: Option<PathBuf>,
}

/// What `headroom route` listens on, in place of a file, and its admin address.
#[derive(Args, Debug, Clone)]
pub(crate) struct ListenerArgs {
    /// Accept readers here: an address (127.0.0.1:3306) or the path of a unix socket. Repeatable.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) reader: Vec<Address>,
    /// Accept writers here. Repeatable.
    #[arg(long, value_name = "ADDR", conflicts_with = "config")]
    pub(crate) writer: Vec<Address>,
    /// Who may come to --reader and --writer, as address blocks (10.0.0.0/8). Repeatable; needed where others
    /// than this host can reach them.
    #[arg(long, value_name = "CIDR", conflicts_with = "config")]
    pub(crate) allow: Vec<IpNet>,
    /// Status page, JSON and metrics here, or 'off' [default: 127.0.0.1:9306, or as the file says].
    #[arg(long, value_name = "ADDR", value_parser = admin_flag)]
    pub(crate) admin: Option<AdminFlag>,
}

/// `--admin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdminFlag {
    /// No admin address.
    Off,
    /// Here.
    At(SocketAddr),
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// Everything that is wrong with the file or the flags, a line each.
    #[error("{0}")]
    Wrong(String),
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; name a file that is there, and that this user may read")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Nothing says where the fleet is.
    #[error(
        "nothing says where the servers are; name one with --server db1:3306, or a file with --config FILE \
         (headroom.example.toml shows every option; ./headroom.toml and /etc/headroom/headroom.toml are found unasked)"
    )]
    Nothing,
    /// Listeners are named and no server, and a file was found unasked, which has listeners of its own.
    #[error(
        "--reader, --writer and --allow stand in place of a file, and without --server the file {path} is read; name a \
         server with --server db1:3306, or leave them out"
    )]
    BesideFile {
        /// The file.
        path: PathBuf,
    },
    /// Servers are named and no listener.
    #[error("no client could come: name a listener with --reader 127.0.0.1:3306 or --writer 127.0.0.1:3307")]
    NoListener,
}

impl SourceError {
    /// Whether the command line is at fault.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Nothing | Self::NoListener | Self::BesideFile { .. })
    }
}

/// The configuration of `headroom route`.
///
/// # Errors
/// Complaints about the file, or what is missing on the command line.
pub(crate) fn for_route(source: &SourceArgs, listeners: &ListenerArgs) -> Result<Sourced, SourceError> {
    let mut sourced = match file_of(source) {
        Some(path) if source.server.is_empty() => {
            alone(&path, listeners)?;
            with_listeners(from_file(&path)?)?
        }
        None if source.server.is_empty() => return Err(SourceError::Nothing),
        _ => Sourced { config: from_flags(source, listeners)?, file: None },
    };
    apply(source, &mut sourced.config);
    match listeners.admin {
        None => {}
        Some(AdminFlag::Off) => sourced.config.admin = None,
        // Written out on the command line, an open address is meant.
        Some(AdminFlag::At(address)) => sourced.config.admin = Some(address),
    }
    let config = &sourced.config;
    let clash = |admin| config.listeners.iter().find_map(|listener| config::admin_clashes(admin, listener));
    match config.admin.and_then(clash) {
        Some(wrong) => Err(SourceError::Wrong(format!("{wrong}; give the admin address a port of its own"))),
        None => Ok(sourced),
    }
}

/// The configuration of `headroom fleet`: listeners do not matter.
///
/// # Errors
/// As [`for_route`].
pub(crate) fn for_fleet(args: &SourceArgs) -> Result<Sourced, SourceError> {
    let mut sourced = match file_of(args) {
        Some(path) if args.server.is_empty() => from_file(&path)?,
        None if args.server.is_empty() => return Err(SourceError::Nothing),
        _ => Sourced { config: Config::bare(args.server.clone(), Vec::new()), file: None },
    };
    apply(args, &mut sourced.config);
    Ok(sourced)
}

/// The same, with the account that asks the servers.
///
/// # Errors
/// As [`for_route`], and what [`credentials::resolve`] says.
pub(crate) fn with_account(args: &SourceArgs, environment: &Environment) -> anyhow::Result<Config> {
    let mut config = for_fleet(args)?.config;
    config.fleet.credentials = credentials::resolve(&config, environment)?;
    Ok(config)
}

fn file_of(args: &SourceArgs) -> Option<PathBuf> {
    let usual = || USUAL_PLACES.iter().map(PathBuf::from).find(|path| path.exists());
    args.config.clone().or_else(usual)
}

fn from_file(path: &Path) -> Result<Sourced, SourceError> {
    let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let config = Config::parse(&text, &path.display().to_string())
        .map_err(|complaints| SourceError::Wrong(complaints.to_string()))?;
    let webhook = config.webhook.as_ref().map(|webhook| &webhook.url);
    for (from, secret, instead) in [
        (config.password_from.as_ref(), "a password", "password_file"),
        (webhook, "the address of a webhook", "url_file"),
    ] {
        match from {
            Some(PasswordFrom::Written(_)) => {
                credentials::owner_only(path, secret, Some(instead)).map_err(SourceError::Wrong)?;
            }
            Some(PasswordFrom::File(file)) => {
                let note = credentials::readable_by_all(file, secret);
                note.iter().for_each(|note| terminal::complain(note));
            }
            Some(PasswordFrom::Environment(_)) | None => {}
        }
    }
    Ok(Sourced { config, file: Some(path.to_owned()) })
}

/// Listeners of the command line are not lost beside a file that nobody named.
fn alone(file: &Path, args: &ListenerArgs) -> Result<(), SourceError> {
    if args.reader.is_empty() && args.writer.is_empty() && args.allow.is_empty() {
        return Ok(());
    }
    Err(SourceError::BesideFile { path: file.to_owned() })
}

/// Who only watches has no use for a listener; who routes without one could stay at home.
fn with_listeners(sourced: Sourced) -> Result<Sourced, SourceError> {
    if !sourced.config.listeners.is_empty() {
        return Ok(sourced);
    }
    let file = sourced.file.unwrap_or_default();
    Err(SourceError::Wrong(format!(
        "{}:1:1: there is no [[listener]], so no client could come; write at least one: [[listener]] with address = \
         \"127.0.0.1:3306\" and role = \"reader\"",
        file.display()
    )))
}

fn from_flags(source: &SourceArgs, args: &ListenerArgs) -> Result<Config, SourceError> {
    let wrong = |text: &str| Err(SourceError::Wrong(text.to_owned()));
    if args.reader.is_empty() && args.writer.is_empty() {
        return Err(SourceError::NoListener);
    }
    let readers = args.reader.iter().map(|address| (address, ListenerRole::Reader));
    let writers = args.writer.iter().map(|address| (address, ListenerRole::Writer));
    let mut listeners: Vec<Listener> = Vec::new();
    for (address, role) in readers.chain(writers) {
        let numeric = match address.host().map(str::parse::<std::net::IpAddr>) {
            Some(Err(_)) => match daemon::listen::address(&address.to_string()) {
                Ok(at) => Address::tcp(at.ip().to_string(), at.port()),
                Err(why) => return wrong(&format!("--{role} {address}: {why}, or a socket path")),
            },
            _ => address.clone(),
        };
        let mut listener = Listener::new(numeric, role);
        if !args.allow.is_empty() && address.host().is_some() {
            listener.access.allow = Some(args.allow.clone());
        }
        if let Some(wrong) = config::open_to_the_network(&listener) {
            return Err(SourceError::Wrong(format!(
                "{wrong}; add --allow 10.0.0.0/8 for the clients' networks (--allow 0.0.0.0/0 --allow ::/0 is everyone)"
            )));
        }
        if let Some(clash) = listeners.iter().find_map(|other| config::listeners_clash(other, &listener)) {
            return wrong(&format!("{clash}; give each listener an address or port of its own"));
        }
        listeners.push(listener);
    }
    Ok(Config::bare(source.server.clone(), listeners))
}

fn apply(args: &SourceArgs, config: &mut Config) {
    if let Some(zone) = &args.zone {
        config.fleet.own_zone = if zone == "auto" { OwnZone::Auto } else { OwnZone::Named(Zone::new(zone)) };
    }
    if let Some(user) = &args.user {
        config.fleet.credentials.user = Some(user.clone());
    }
    if let Some(path) = &args.option_file {
        config.fleet.credentials.option_file = Some(path.clone());
    }
}

/// Reads `--admin`.
pub(crate) fn admin_flag(text: &str) -> Result<AdminFlag, String> {
    if text == "off" {
        return Ok(AdminFlag::Off);
    }
    daemon::listen::address(text).map(AdminFlag::At).map_err(|why| format!("{why}, or off"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_address_of_a_webhook_in_a_file_that_others_may_read_is_refused_and_not_repeated() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |mode, webhook: &str| {
            let text = format!("[fleet]\nseeds = [\"db1\"]\n[webhook]\n{webhook}\n");
            std::fs::write(file.path(), text).unwrap();
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            from_file(file.path()).map(|_| ()).map_err(|error| error.to_string())
        };
        let written = "url = \"https://hooks.example/hunter2\"";
        let refused = read(0o644, written).unwrap_err();
        assert!(refused.contains("chmod 600") && refused.contains("url_file"), "{refused}");
        assert!(!refused.contains("hunter2"), "{refused}");
        assert_eq!(read(0o600, written), Ok(()));
        assert_eq!(read(0o644, "url_file = \"/etc/headroom/webhook\""), Ok(()));
    }

    #[test]
    fn listeners_of_the_command_line_are_not_lost_beside_a_file_that_was_found_unasked() {
        let none = || ListenerArgs { reader: Vec::new(), writer: Vec::new(), allow: Vec::new(), admin: None };
        let file = Path::new("/etc/headroom/headroom.toml");
        let admin = Some(AdminFlag::Off);
        assert!(alone(file, &ListenerArgs { admin, ..none() }).is_ok(), "it comes on top of a file");
        let refused = alone(file, &ListenerArgs { reader: vec!["[::1]:3306".parse().unwrap()], ..none() });
        let refused = refused.unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("headroom.toml is read"), "{refused}");
    }

    #[test]
    fn admin_takes_an_address_or_off() {
        assert_eq!(admin_flag("off"), Ok(AdminFlag::Off));
        assert!(admin_flag("9306").is_err());
        assert!(matches!(admin_flag("localhost:9306"), Ok(AdminFlag::At(at)) if at.ip().is_loopback()));
    }
}
