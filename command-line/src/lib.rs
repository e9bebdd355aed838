//! What the commands `analyze`, `tprofiler` and `tprofiler-skywalking` have in common: the text of `--version`, the
//! manual page and the completions.
//!
//! In goes a command as clap describes it, and out come `VERSION` and, for `--generate WHAT`, a text. Start with
//! [`generated`].
#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

/// Version, commit and target: `0.2.0 (commit 0123456789ab, x86_64-unknown-linux-gnu)`. Without a release script, there
/// is no commit: `0.2.0 (source build, x86_64-unknown-linux-gnu)`.
pub const VERSION: &str = env!("TPROFILER_VERSION");

/// What can be made of a command line itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generate {
    /// The manual page
    Man,
    /// Completions
    Bash,
    /// Completions
    Zsh,
    /// Completions
    Fish,
}

impl Generate {
    /// Writes the manual page or the completions of a command.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(self, mut command: Command, out: &mut dyn Write) -> io::Result<()> {
        let shell = match self {
            Self::Man => return manual(command, out),
            Self::Bash => Shell::Bash,
            Self::Zsh => Shell::Zsh,
            Self::Fish => Shell::Fish,
        };
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        // Writing to memory cannot fail; writing to `out` may, and the generator would panic.
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut text);
        out.write_all(&text)
    }
}

/// Does what the arguments of the process ask for, if they are `--generate WHAT` and no more. For commands whose parser
/// would ask for other arguments; packages are made this way.
pub fn generated(command: impl FnOnce() -> Command) -> Option<ExitCode> {
    let what = asked(env::args_os())?;
    let written = what.write(command(), &mut io::stdout().lock());
    Some(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn asked(arguments: impl IntoIterator<Item = OsString>) -> Option<Generate> {
    let mut words = arguments.into_iter().skip(1);
    let (option, what) = (words.next()?, words.next()?);
    let is_all = option == "--generate" && words.next().is_none();
    Generate::from_str(what.to_str()?, false).ok().filter(|_| is_all)
}

/// Writes the manual page. The page of both targets is the same, so it has the version only. Subcommands are sections
/// of it, because a page for each of them would be read by nobody.
fn manual(command: Command, out: &mut dyn Write) -> io::Result<()> {
    let mut command = command.long_version(None).disable_help_subcommand(true);
    command.build();
    let subcommands: Vec<Command> =
        command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned().collect();
    let has_more = command.get_after_help().is_some();
    let page = Man::new(command);
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for subcommand in subcommands {
        section(subcommand, out)?;
    }
    if has_more {
        page.render_extra_section(out)?;
    }
    page.render_version_section(out)
}

/// A subcommand's section, without the options that all of them have.
fn section(command: Command, out: &mut dyn Write) -> io::Result<()> {
    let shared: Vec<_> = command
        .get_arguments()
        .filter(|argument| {
            argument.is_global_set() || matches!(argument.get_id().as_str(), "help" | "version")
        })
        .map(|argument| argument.get_id().clone())
        .collect();
    let command = shared
        .into_iter()
        .fold(command, |command, id| command.mut_arg(id, |argument| argument.hide(true)));
    let has_options = command.get_arguments().any(|argument| !argument.is_hide_set());
    let has_more = command.get_after_help().is_some();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    let page = Man::new(command);
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if has_options {
        page.render_options_section(&mut text)?;
    }
    if has_more {
        page.render_extra_section(&mut text)?;
    }
    writeln!(out, ".SH \"{}\"", name.to_uppercase())?;
    out.write_all(String::from_utf8_lossy(&text).replace("\n.SH ", "\n.SS ").as_bytes())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn command() -> Command {
        let every = Arg::new("every").long("every").global(true).help("In every command");
        let one = Command::new("one")
            .about("Do one thing")
            .arg(Arg::new("deep").long("deep").help("Dig"));
        let secret = Command::new("secret").hide(true);
        Command::new("tool")
            .version("1.2.3")
            .long_version("1.2.3 (here)")
            .about("Do things")
            .arg(every)
            .subcommands([one, secret])
    }

    fn text(what: Generate) -> String {
        let mut out = Vec::new();
        what.write(command(), &mut out).unwrap();
        String::from_utf8(out).unwrap().replace("\\-", "-")
    }

    #[test]
    fn only_the_two_words_ask() {
        let of = |line: &[&str]| asked(line.iter().map(OsString::from));
        assert_eq!(of(&["tool", "--generate", "man"]), Some(Generate::Man));
        for other in [
            &["tool"][..],
            &["tool", "--generate"],
            &["tool", "--generate", "man", "x"],
            &["tool", "--generate", "x"],
        ] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_manual_page_has_each_subcommand_with_its_own_options() {
        let page = text(Generate::Man);
        let (main, one) = page.split_once(".SH \"TOOL ONE\"").expect(&page);
        assert!(
            main.contains("--every") && one.contains("--deep") && !one.contains("--every "),
            "{page}"
        );
        assert!(one.contains(".SS SYNOPSIS") && !page.contains("SECRET"), "{page}");
        assert!(page.contains("1.2.3") && !page.contains("here"), "{page}");
    }

    #[test]
    fn completions_know_options_and_subcommands() {
        for shell in [Generate::Bash, Generate::Zsh, Generate::Fish] {
            let text = text(shell);
            assert!(
                ["every", "one", "deep"].iter().all(|word| text.contains(word)),
                "{shell:?}: {text}"
            );
        }
    }

    #[test]
    fn a_version_has_its_source_and_target() {
        let (version, rest) = VERSION.split_once(" (").unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        assert!(rest.contains(", ") && rest.contains("linux") && rest.ends_with(')'), "{VERSION}");
    }
}
