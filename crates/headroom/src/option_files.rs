//! Option files in the format of `~/.my.cnf`, read from disk with what they include; what they mean is
//! [`config::option_file`]'s to say.

use crate::environment::Environment;
use anyhow::Context;
use config::option_file::{self, GROUPS, Item, Login, Says};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What the option file says: the one that is named, else `~/.my.cnf` where there is one. Of one there that
/// is not ours to read it is nothing, and a note for people.
///
/// # Errors
/// As [`read`].
pub(crate) fn find(
    named: Option<&Path>,
    environment: &Environment,
) -> anyhow::Result<(Login, Option<String>)> {
    if let Some(path) = named {
        return Ok((read(path)?, None));
    }
    let nothing = Login::default();
    let Some(path) = environment.home.as_ref().map(|home| home.join(".my.cnf")) else {
        return Ok((nothing, None));
    };
    match std::fs::File::open(&path) {
        Ok(_) => Ok((read(&path)?, None)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok((nothing, None))
        }
        Err(error) => {
            Ok((nothing, Some(format!("note: the option file {} is passed over: {error}", path.display()))))
        }
    }
}

/// What a file, and the files that it includes, say of logging in.
///
/// # Errors
/// A file that cannot be read, or a line that cannot be; the text names file and line and shows no value.
pub(crate) fn read(path: &Path) -> anyhow::Result<Login> {
    let items = option_file::expand(items(path)?, &mut |says| match says {
        Says::Include(path) => items(path),
        Says::IncludeDir(dir) => {
            let mut all = Vec::new();
            for path in option_files_in(dir)? {
                all.extend(items(&path)?);
            }
            Ok(all)
        }
        Says::Group(_) | Says::Option { .. } => anyhow::Ok(Vec::new()),
    })?;
    Login::of(&items, &GROUPS).with_context(|| format!("option file {}", path.display()))
}

fn items(path: &Path) -> anyhow::Result<Vec<Item>> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read the option file {name}"))?;
    option_file::parse(&text).with_context(|| format!("option file {name}"))
}

fn option_files_in(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("cannot read the directory of option files {}", dir.display()))?;
    let is_option_file = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "cnf");
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(is_option_file).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_file_may_be_missing_or_unreadable_and_a_named_one_may_not() {
        let dir = tempfile::tempdir().unwrap();
        let environment = Environment { home: Some(dir.path().to_owned()), ..Environment::default() };
        assert_eq!(find(None, &environment).unwrap(), (Login::default(), None));
        // A circle is readable to nobody, root included.
        let circle = dir.path().join(".my.cnf");
        std::os::unix::fs::symlink(&circle, &circle).unwrap();
        let (login, note) = find(None, &environment).unwrap();
        assert_eq!(login, Login::default());
        assert!(note.unwrap().contains(".my.cnf is passed over"));
        assert!(find(Some(&circle), &environment).is_err());
    }

    #[test]
    fn included_files_count_and_a_bad_line_is_named_without_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let (main, part) = (dir.path().join("my.cnf"), dir.path().join("part.cnf"));
        std::fs::write(&main, format!("[client]\nuser=a\n!includedir {}\n", dir.path().join("d").display()))
            .unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/x.cnf"), "[headroom]\npassword=hunter2\n").unwrap();
        let login = read(&main).unwrap();
        assert_eq!((login.user.as_deref(), login.password.as_deref()), (Some("a"), Some("hunter2")));

        std::fs::write(&part, "[client]\npassword=hunter2\nport=hunter3\n").unwrap();
        let text = format!("{:#}", read(&part).unwrap_err());
        assert!(text.contains("part.cnf") && text.contains("line 3") && !text.contains("hunter"), "{text}");
    }
}
