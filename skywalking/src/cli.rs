//! The command line of `tprofiler skywalking`.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use log_format::error::{BadValue, FileError};
use log_format::units::parse_duration;

use crate::error::Error;
use crate::options::{Options, Tls};

/// The variable with which SkyWalking's agent takes its token.
const AUTHENTICATION: &str = "SW_AGENT_AUTHENTICATION";

/// Carry out the profile tasks of a SkyWalking server with the agents that write logs below a folder.
///
/// Each agent is an instance of the service. Exit status: 0 when ended by a signal, 1 if it cannot begin, 2 for a wrong
/// command line.
#[derive(Parser)]
#[command(name = "tprofiler skywalking", bin_name = "tprofiler skywalking", version)]
#[command(long_version = command_line::VERSION)]
struct Arguments {
    /// The server's gRPC address; of several, the next one is tried when one fails
    #[arg(long, value_name = "HOST:PORT", required = true, value_delimiter = ',')]
    oap: Vec<String>,
    /// Name of the service
    #[arg(long, value_name = "NAME")]
    service: String,
    /// Name of the instance; further agents at the same time are NAME@PID [default: the host's name]
    #[arg(long, value_name = "NAME")]
    instance: Option<String>,
    /// The folder of the agents' runs, or one run
    #[arg(long, value_name = "FOLDER")]
    logs: PathBuf,
    /// A file with lines like: /api/users = com.shop.UserController.list
    #[arg(long, value_name = "FILE")]
    endpoints: Option<PathBuf>,
    /// How often to ask the server for tasks
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = poll)]
    poll: Duration,
    /// The token that the server asks for; others can see it in the list of processes
    #[arg(long, value_name = "TOKEN", conflicts_with = "authentication_file")]
    authentication: Option<String>,
    /// A file whose first line is this token; the variable SW_AGENT_AUTHENTICATION may have it too
    #[arg(long, value_name = "FILE")]
    authentication_file: Option<PathBuf>,
    /// Use TLS, with the system's certificates
    #[arg(long)]
    tls: bool,
    /// Use TLS, with the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// This side's certificate for TLS, a PEM file
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key, a PEM file
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// What the UI is to show of the instances; may be repeated
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// The service's layer
    #[arg(long, value_name = "NAME", default_value = "GENERAL")]
    layer: String,
    /// Send snapshots through Kafka, topic skywalking-profilings; tasks still come from the server
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    kafka: Vec<String>,
    /// The agents' token, if they read it from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

fn poll(text: &str) -> Result<Duration, BadValue> {
    const LEAST: Duration = Duration::from_secs(1);
    let poll = parse_duration(text)?;
    if poll < LEAST { Err(BadValue::because("must be at least 1s")) } else { Ok(poll) }
}

fn property(text: &str) -> Result<(String, String), BadValue> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(BadValue::because("not KEY=VALUE")),
    }
}

impl Arguments {
    fn into_options(self) -> Result<Options, Error> {
        let identity = self.cert.zip(self.key);
        let uses_tls = self.tls || self.ca.is_some() || identity.is_some();
        let of_file = self.authentication_file.map(|path| {
            let text = fs::read_to_string(&path).map_err(FileError::at(&path))?;
            Ok::<_, FileError>(text.lines().next().unwrap_or_default().trim().to_owned())
        });
        let of_file = of_file.transpose().map_err(|error| error.of("--authentication-file"))?;
        let authentication = self.authentication.or(of_file);
        let authentication = authentication.or_else(|| env::var(AUTHENTICATION).ok());
        Ok(Options {
            oap: self.oap,
            tls: uses_tls.then_some(Tls { ca: self.ca, identity }),
            authentication: authentication.filter(|token| !token.is_empty()),
            service: self.service,
            instance: self.instance,
            layer: self.layer,
            properties: self.properties,
            logs: self.logs,
            endpoints: self.endpoints,
            token_file: self.token_file,
            poll: self.poll,
            kafka: self.kafka,
        })
    }
}

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = command_line::generated(Arguments::command) {
        return code;
    }
    match Arguments::parse().into_options().and_then(crate::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tprofiler skywalking: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(more: &[&str]) -> Result<Arguments, clap::Error> {
        let line = ["x", "--oap", "a:1,b:2", "--service", "shop", "--logs", "logs"];
        Arguments::try_parse_from(line.iter().chain(more))
    }

    #[test]
    fn a_command_line_becomes_options() {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, "secret\n").unwrap();
        let more =
            ["--property", "zone=b=1", "--poll", "5s", "--ca", "ca.pem", "--authentication-file"];
        let arguments = parse(&[&more[..], &[token.to_str().unwrap()]].concat()).unwrap();
        let options = arguments.into_options().unwrap();
        assert_eq!(options.oap, ["a:1", "b:2"]);
        assert_eq!(options.properties, [("zone".to_owned(), "b=1".to_owned())]);
        assert_eq!((options.poll.as_secs(), &*options.layer), (5, "GENERAL"));
        assert_eq!(options.tls.unwrap().ca, Some("ca.pem".into()));
        assert_eq!(options.authentication.as_deref(), Some("secret"));
        assert!(parse(&[]).unwrap().into_options().unwrap().tls.is_none());
    }

    #[test]
    fn wrong_command_lines_are_refused() {
        for more in [
            &["--poll", "0s"][..],
            &["--poll", "often"],
            &["--property", "zone"],
            &["--cert", "a.pem"],
            &["--authentication", "a", "--authentication-file", "b"],
        ] {
            assert_eq!(parse(more).err().map(|error| error.exit_code()), Some(2), "{more:?}");
        }
    }
}
