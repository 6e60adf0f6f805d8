//! Man pages: one for the program and one for each command below it, `headroom-lab-up` for `headroom lab up`.
//! Names, options and descriptions are written by clap_mangen; the epilogue is written here, so that examples
//! keep their lines and stand under a heading of their own.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::io;

/// One man page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The command and those above it, with dashes: `headroom-lab-up`.
    pub name: String,
    /// Its source, for `man`.
    pub source: String,
}

impl Page {
    /// The file that `man` looks for.
    pub fn file_name(&self) -> String {
        format!("{}.1", self.name)
    }
}

/// The pages of this command and of all below it that are not hidden, the command itself first.
///
/// # Errors
/// A page cannot be rendered.
pub fn pages(command: Command) -> io::Result<Vec<Page>> {
    let version = command.get_version().unwrap_or_default().to_owned();
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add(&command, &version, &mut pages)?;
    Ok(pages)
}

/// The page of a command by its words: none for the program itself, `["lab", "up"]` for `headroom lab up`.
pub fn find<'a>(pages: &'a [Page], words: &[String]) -> Option<&'a Page> {
    let program = pages.first()?;
    let name = words.iter().fold(program.name.clone(), |name, word| name + "-" + word);
    pages.iter().find(|page| page.name == name)
}

fn add(command: &Command, version: &str, pages: &mut Vec<Page>) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    pages.push(Page { source: source(command, version)?, name });
    // `help` shows what the pages say.
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|below| add(below, version, pages))
}

fn source(command: &Command, version: &str) -> io::Result<String> {
    let man = Man::new(command.clone()).manual("Headroom").source(format!("headroom {version}"));
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut out)?;
    }
    if let Some(text) = command.get_after_help() {
        epilogue(&text.to_string()).to_writer(&mut out)?;
    }
    // Each part begins with the same preamble; one is enough, and lines that end in a blank are none of ours.
    let text = String::from_utf8_lossy(&out).into_owned();
    let preamble = Roff::new().render();
    let body = text.replace(&preamble, "");
    let lines = body.lines().map(str::trim_end);
    Ok(lines.fold(preamble, |all, line| all + line + "\n"))
}

/// `Examples:` becomes a heading, its lines keep their breaks; paragraphs that stand alone are notes.
fn epilogue(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut section = "";
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let heading = if line.starts_with("Example") && line.ends_with(':') { "EXAMPLES" } else { "NOTES" };
        if heading == "EXAMPLES" || !line.starts_with(' ') && section != heading {
            roff.control("SH", [heading]);
            section = heading;
        }
        match line.len() - line.trim_start().len() {
            0 if heading == "EXAMPLES" => {}
            0 => {
                roff.control("PP", []);
                roff.text([roman(line)]);
            }
            // An example, or what goes on of one; further in stands what explains it.
            depth @ 1..6 => {
                roff.control("nf", []);
                roff.text([roman(if depth > 2 { "  " } else { "" }), bold(line.trim_start())]);
                roff.control("fi", []);
            }
            _ => {
                roff.control("RS", ["4"]);
                roff.text([roman(line.trim_start())]);
                roff.control("RE", []);
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn program() -> Command {
        let up =
            Command::new("up").about("Bring it up").arg(Arg::new("zones").long("zones").help("How many"));
        let lab = Command::new("lab").about("Real servers").subcommand_required(true).subcommand(up);
        let hidden = Command::new("secret").hide(true);
        Command::new("headroom").version("1.2.3").about("Reads").subcommand(lab).subcommand(hidden)
    }

    #[test]
    fn each_command_that_is_shown_has_a_page_named_after_its_words() {
        let pages = pages(program()).unwrap();
        let names: Vec<_> = pages.iter().map(Page::file_name).collect();
        assert_eq!(names, ["headroom.1", "headroom-lab.1", "headroom-lab-up.1"]);
        let up = find(&pages, &["lab".to_owned(), "up".to_owned()]).unwrap();
        assert!(up.source.contains("\\-\\-zones") && up.source.contains("headroom 1.2.3"), "{}", up.source);
        assert_eq!(find(&pages, &[]).unwrap().name, "headroom");
        assert!(find(&pages, &["secret".to_owned()]).is_none());
        assert!(find(&pages, &["help".to_owned()]).is_none());
    }

    #[test]
    fn examples_keep_their_lines_under_a_heading_and_what_follows_is_a_note() {
        let text =
            "Examples:\n  headroom up --zones 3 \\\n    --json\n      Three zones.\n\nIt is stopped by down.";
        let roff = epilogue(text).render();
        let expected = "\
.SH EXAMPLES
.nf
\\fBheadroom up \\-\\-zones 3 \\\\\\fR
.fi
.nf
  \\fB\\-\\-json\\fR
.fi
.RS 4
Three zones.
.RE
.SH NOTES
.PP
It is stopped by down.
";
        assert!(roff.ends_with(expected), "{roff}");
    }

    #[test]
    fn a_page_has_one_preamble() {
        let pages = pages(program()).unwrap();
        let marker = pages[0].source.lines().next().unwrap();
        assert_eq!(pages[0].source.matches(marker).count(), 1, "{}", pages[0].source);
    }
}
