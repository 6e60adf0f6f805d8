//! Who we are to the servers: what the configuration says, else the option file, else the environment.
//!
//! | | 1st | 2nd | 3rd | 4th |
//! |---|---|---|---|---|
//! | user | `--user` | `[credentials] user` | option file | `HEADROOM_USER`, else `headroom` |
//! | password | `password`, `password_file` or `password_env` | option file | `HEADROOM_PASSWORD` | `MYSQL_PWD` |
//! | TLS | `ssl_*` | option file | | |
//!
//! The option file is the one that is named (`--option-file`, `option_file`), which must exist, else
//! `~/.my.cnf`, which may be missing or not ours to read. A password never comes from the command line, where
//! every user of the machine could read it.

use crate::environment::{self, Environment};
use crate::option_files;
use anyhow::{Context, bail};
use config::{Config, Credentials, PasswordFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use term::terminal;

/// The account when nothing names one.
const DEFAULT_USER: &str = "headroom";

/// Finds user, password and TLS for this configuration.
///
/// # Errors
/// A file that is named and cannot be read, or holds what cannot be; a variable that is named and not set.
pub(crate) fn resolve(config: &Config, environment: &Environment) -> anyhow::Result<Credentials> {
    let mut credentials = config.fleet.credentials.clone();
    credentials.password = config.password_from.as_ref().map(password).transpose()?;
    let (login, note) = option_files::find(credentials.option_file.as_deref(), environment)?;
    note.iter().for_each(|note| terminal::complain(note));
    login.complete(&mut credentials);
    let user = credentials.user.take().or_else(|| environment.user.clone());
    credentials.user = Some(user.unwrap_or_else(|| DEFAULT_USER.to_owned()));
    credentials.password = credentials.password.take().or_else(|| environment.password.clone());
    Ok(credentials)
}

/// Refuses a file that anybody but its owner may read: `secret` is in it. `instead` is the key that keeps it
/// elsewhere, where there is one.
///
/// # Errors
/// A sentence that says how to mend it.
pub(crate) fn owner_only(path: &Path, secret: &str, instead: Option<&str>) -> Result<(), String> {
    let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let path = path.display();
    let or_use = instead.map_or_else(String::new, |key| format!(", or use {key}"));
    Err(format!(
        "{path} holds {secret} and others may read it (mode {:03o}); run chmod 600 {path}{or_use}",
        mode & 0o777
    ))
}

/// What to say of a file that holds nothing but `secret` and that everybody on this host may read. It is used
/// all the same: Kubernetes and Docker mount secrets so, for a container that has one user. A group that may
/// read it is how Kubernetes (`fsGroup`) and systemd hand a secret on.
pub(crate) fn readable_by_all(path: &Path, secret: &str) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let path = path.display();
    (mode & 0o006 != 0).then(|| {
        format!(
            "note: {path} holds {secret} and others may read it (mode {:03o}); run chmod 600 {path}, or mount it \
             with defaultMode 0440",
            mode & 0o777
        )
    })
}

fn password(from: &PasswordFrom) -> anyhow::Result<String> {
    match from {
        PasswordFrom::Written(password) => Ok(password.clone()),
        PasswordFrom::Environment(name) => environment::variable(name)
            .with_context(|| format!("password_env names the variable {name}, and it is not set; export it")),
        PasswordFrom::File(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read password_file {}", path.display()))?;
            match text.lines().next().filter(|line| !line.is_empty()) {
                Some(line) => Ok(line.to_owned()),
                None => bail!(
                    "the first line of password_file {} is empty; the password belongs there",
                    path.display()
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(credentials: &str) -> Config {
        let text = format!(
            "[fleet]\nseeds = [\"db1\"]\n[credentials]\n{credentials}\n[[listener]]\naddress = \"127.0.0.1:1\"\nrole = \"reader\"\n"
        );
        Config::parse(&text, "test").unwrap()
    }

    #[test]
    fn the_configuration_is_stronger_than_the_option_file_and_that_than_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".my.cnf"), "[client]\nuser=file\npassword=\"from file\"\n").unwrap();
        std::fs::write(dir.path().join("password"), "from password_file\nsecond line\n").unwrap();
        let environment = Environment {
            user: Some("environment".into()),
            password: Some("from environment".into()),
            home: Some(dir.path().to_owned()),
            ..Environment::default()
        };
        let password_file =
            format!("user = \"config\"\npassword_file = \"{}\"", dir.path().join("password").display());
        let found = resolve(&config(&password_file), &environment).unwrap();
        assert_eq!(
            (found.user.as_deref(), found.password.as_deref()),
            (Some("config"), Some("from password_file"))
        );

        let found = resolve(&config(""), &environment).unwrap();
        assert_eq!((found.user.as_deref(), found.password.as_deref()), (Some("file"), Some("from file")));

        let homeless = Environment { home: None, ..environment };
        let found = resolve(&config(""), &homeless).unwrap();
        assert_eq!(
            (found.user.as_deref(), found.password.as_deref()),
            (Some("environment"), Some("from environment"))
        );

        let found = resolve(&config(""), &Environment::default()).unwrap();
        assert_eq!((found.user.as_deref(), found.password), (Some("headroom"), None));
    }

    #[test]
    fn what_is_named_and_missing_is_an_error_that_names_it() {
        let text = |credentials: &str| {
            format!("{:#}", resolve(&config(credentials), &Environment::default()).unwrap_err())
        };
        assert!(text("option_file = \"/nowhere/my.cnf\"").contains("/nowhere/my.cnf"));
        assert!(text("password_file = \"/nowhere/password\"").contains("/nowhere/password"));
        assert!(text("password_env = \"HEADROOM_NO_SUCH\"").contains("HEADROOM_NO_SUCH"));
    }

    #[test]
    fn a_file_with_a_password_that_others_may_read_is_refused_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mode =
            |mode| std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o600);
        assert_eq!(owner_only(file.path(), "a password", None), Ok(()));
        mode(0o640);
        let refused = |instead| owner_only(file.path(), "a password", instead).unwrap_err();
        assert!(refused(None).ends_with(&format!("chmod 600 {}", file.path().display())));
        assert!(refused(Some("password_file")).ends_with(", or use password_file"));
    }

    #[test]
    fn a_file_of_a_secret_that_everybody_may_read_is_used_and_noted() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("..data"), dir.path().join("password"));
        std::fs::write(&file, "hunter2\n").unwrap();
        // As Kubernetes mounts it.
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let note = |mode| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            readable_by_all(&link, "a password")
        };
        assert_eq!((note(0o400), note(0o440), note(0o640)), (None, None, None));
        let note = note(0o644).unwrap();
        assert!(note.contains("(mode 644)") && note.contains("defaultMode 0440"), "{note}");
        assert!(!note.contains("hunter2"), "{note}");
        assert_eq!(readable_by_all(&dir.path().join("none"), "a password"), None);
    }
}
