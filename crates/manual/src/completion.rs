//! Completions of commands, options and their values, as a shell reads them.

use clap::{Command, ValueEnum};

/// A shell that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Its completion directory: /usr/share/bash-completion/completions.
    Bash,
    /// Its completion directory: /usr/share/zsh/vendor-completions.
    Zsh,
    /// Its completion directory: /usr/share/fish/vendor_completions.d.
    Fish,
}

/// The script that this shell reads.
pub fn completions(mut command: Command, shell: Shell) -> String {
    let (name, mut script) = (command.get_name().to_owned(), Vec::new());
    let generator = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(generator, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
