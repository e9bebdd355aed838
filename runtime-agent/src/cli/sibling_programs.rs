//! `tprofiler skywalking` and `tprofiler analyze`: run the programs that lie beside `tprofiler`. They are programs of
//! their own, so that neither the agent nor `tprofiler` contains gRPC, TLS and reports.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// A program beside `tprofiler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Reports on logs.
    Analyze,
    /// Carries out tasks of a SkyWalking server.
    Skywalking,
}

impl Program {
    const ALL: [Self; 2] = [Self::Analyze, Self::Skywalking];

    /// The word behind `tprofiler`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Analyze => "analyze",
            Self::Skywalking => "skywalking",
        }
    }

    fn file_name(self) -> &'static str {
        match self {
            Self::Analyze => "analyze",
            Self::Skywalking => "tprofiler-skywalking",
        }
    }

    /// Becomes that program. Returns only if it cannot.
    pub(super) fn run(self, arguments: &[OsString]) -> ExitCode {
        let name = self.file_name();
        let beside = env::current_exe().map(|own| own.with_file_name(name));
        let program = beside.unwrap_or_else(|_| PathBuf::from(name));
        let error = Command::new(&program).args(arguments).exec();
        let shown = program.display();
        match error.kind() {
            ErrorKind::NotFound => {
                eprintln!("tprofiler: {shown} not found; install it in the folder of tprofiler");
            }
            _ => eprintln!("tprofiler: {shown}: {error}"),
        }
        ExitCode::FAILURE
    }
}

/// The program that a command line names, and its arguments; `None` for another command line.
pub(super) fn named(line: impl IntoIterator<Item = OsString>) -> Option<(Program, Vec<OsString>)> {
    let mut words = line.into_iter().skip(1);
    let word = words.next()?;
    let program = Program::ALL.into_iter().find(|program| word == program.word())?;
    Some((program, words.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_behind_the_word_are_the_programs() {
        let of = |line: &[&str]| named(line.iter().map(OsString::from));
        let run = ["--run", "x"].map(OsString::from).to_vec();
        assert_eq!(
            of(&["tprofiler", "skywalking", "--run", "x"]),
            Some((Program::Skywalking, run.clone()))
        );
        assert_eq!(of(&["tprofiler", "analyze", "--run", "x"]), Some((Program::Analyze, run)));
        assert_eq!(of(&["tprofiler", "--json", "status"]), None);
        assert_eq!(of(&["tprofiler"]), None);
    }
}
