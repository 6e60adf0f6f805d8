//! `headroom man`: the man pages, shown or written.

use crate::cli;
use anyhow::Context;
use clap::Args;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use term::{exit, terminal};

const EXAMPLES: &str = "\
Examples:
  headroom man route                    show a page
  headroom man lab up > page.1          write its source
  headroom man --directory /usr/local/share/man/man1      write all pages; then: man headroom-route";

/// Show or write the man pages.
///
/// On a terminal a page is shown by man, or as a help text where there is no man. Elsewhere its source is
/// printed.
#[derive(Args, Debug, Clone)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// Words of the command whose page is wanted [default: the one of headroom itself].
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write all pages into this directory, which is made if it is missing.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    directory: Option<PathBuf>,
}

/// Runs `headroom man`.
pub(crate) fn run(args: &ManArgs) -> anyhow::Result<ExitCode> {
    let pages = manual::pages(cli::table())?;
    if let Some(directory) = &args.directory {
        write(&pages, directory)?;
        terminal::print(&format!("{} pages in {}\n", pages.len(), directory.display()))?;
        return Ok(exit::DONE);
    }
    let page = manual::find(&pages, &args.command).ok_or_else(|| {
        let words = args.command.join(" ");
        exit::usage_error(format!("there is no page for '{words}': headroom --help lists the commands"))
    })?;
    if !std::io::stdout().is_terminal() {
        terminal::print(&page.source)?;
    } else if !shown(&page.source) {
        terminal::print(&help(&args.command))?;
    }
    Ok(exit::DONE)
}

fn write(pages: &[manual::Page], directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    for page in pages {
        let path = directory.join(page.file_name());
        std::fs::write(&path, &page.source).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// Whether `man` is there and has shown it.
fn shown(source: &str) -> bool {
    let Ok(mut man) = Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn() else {
        return false;
    };
    // Who leaves before the end has seen enough.
    let _ = man.stdin.take().map(|mut page| page.write_all(source.as_bytes()));
    man.wait().is_ok_and(|status| status.success())
}

/// What `--help` says of this command.
fn help(words: &[String]) -> String {
    let mut command = cli::table();
    command.build();
    let found = words.iter().try_fold(&mut command, |command, word| command.find_subcommand_mut(word));
    found.map(|command| command.render_long_help().to_string()).unwrap_or_default()
}
