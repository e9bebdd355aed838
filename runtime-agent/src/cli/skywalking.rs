//! `tprofiler skywalking`: runs the program of this name that lies beside `tprofiler`. It is a program of its own, so
//! that neither the agent nor `tprofiler` contains gRPC and TLS.

use std::env;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const PROGRAM: &str = "tprofiler-skywalking";

/// The arguments of `tprofiler skywalking`; `None` for another command line.
pub(super) fn arguments(line: impl IntoIterator<Item = OsString>) -> Option<Vec<OsString>> {
    let mut words = line.into_iter().skip(1);
    (words.next()? == "skywalking").then(|| words.collect())
}

/// Becomes that program. Returns only if it cannot.
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let beside = env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let program = beside.unwrap_or_else(|_| PathBuf::from(PROGRAM));
    let error = Command::new(&program).args(arguments).exec();
    let shown = program.display();
    match error.kind() {
        ErrorKind::NotFound => {
            eprintln!("tprofiler: {shown} is missing; it belongs beside tprofiler");
        }
        _ => eprintln!("tprofiler: {shown}: {error}"),
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_behind_the_word_are_the_programs() {
        let of = |line: &[&str]| arguments(line.iter().map(OsString::from));
        assert_eq!(of(&["tprofiler", "skywalking", "--run", "x"]).unwrap(), ["--run", "x"]);
        assert_eq!(of(&["tprofiler", "--json", "status"]), None);
        assert_eq!(of(&["tprofiler"]), None);
    }
}
