//! `run.json`: what was profiled, where, and with which options.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::FORMAT_VERSION;
use crate::error::FileError;
use crate::file_names::RUN_JSON;
use crate::writer::one_line;

/// The longest `run.json` that is read, in bytes: it has the program's arguments, of up to 2 MB.
const LONGEST: u64 = 16 << 20;

/// Contents of `run.json`. Unknown fields are ignored; missing ones take their default, except `format_version`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of the agent that wrote the run.
    #[serde(default)]
    pub agent_version: String,
    /// The main class or jar.
    #[serde(default)]
    pub service: String,
    /// Name, version and vendor of the JVM.
    #[serde(default)]
    pub jvm: String,
    /// The Java command with its arguments.
    #[serde(default)]
    pub command_line: String,
    /// Host name.
    #[serde(default)]
    pub host: String,
    /// Process id.
    #[serde(default)]
    pub pid: u32,
    /// Control port, if there is one.
    #[serde(default)]
    pub port: Option<u16>,
    /// Start of the run, unix nanoseconds.
    #[serde(default)]
    pub start_ns: u64,
    /// The clock that probes read: `tsc`, `cntvct` (arm64) or `monotonic`.
    #[serde(default)]
    pub clock: String,
    /// The agent came into a running JVM: code compiled before has less debug information.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// How CPU time is sampled.
    #[serde(flatten)]
    pub cpu: CpuSampling,
    /// The options in force.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// How a run samples CPU time, in its `run.json`. Without samples, all of it is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSampling {
    /// What interrupts threads for samples: `perf`, `ctimer` or `itimer`.
    #[serde(rename = "cpu_engine", default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// Why it is not the one that was asked for, or that would be better.
    #[serde(rename = "cpu_engine_reason", default, skip_serializing_if = "Option::is_none")]
    pub engine_reason: Option<String>,
    /// Whether samples have frames of the kernel.
    #[serde(rename = "cpu_kernel_frames", default, skip_serializing_if = "Option::is_none")]
    pub kernel_frames: Option<bool>,
    /// Why there are none, or why they have no names.
    #[serde(rename = "cpu_kernel_reason", default, skip_serializing_if = "Option::is_none")]
    pub kernel_reason: Option<String>,
}

impl Run {
    /// Reads the `run.json` of a run's folder.
    ///
    /// # Errors
    /// The file cannot be read, is not JSON, or is of a newer version.
    pub fn read(folder: &Path) -> Result<Self, FileError> {
        let path = folder.join(RUN_JSON);
        Self::read_file(&path).map_err(FileError::at(path))
    }

    fn read_file(path: &Path) -> io::Result<Self> {
        let run: Self = serde_json::from_slice(&read_small(path)?)?;
        if run.format_version > FORMAT_VERSION {
            let written_by = match one_line(&run.agent_version).as_str() {
                "" => String::new(),
                version => format!("; release {version} has written it, and reads it"),
            };
            return Err(io::Error::other(format!(
                "format version {}, this release reads up to {FORMAT_VERSION}{written_by}",
                run.format_version,
            )));
        }
        Ok(run)
    }

    /// The file's contents.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Serializing a struct of strings and numbers cannot fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// Reads a file whose writer may be anybody: it must be a small one, and no pipe that never ends.
fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    // What is no file may block when it is opened.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST {
        return Err(io::Error::other(format!("longer than {} MiB", LONGEST >> 20)));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Run, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(RUN_JSON), text).unwrap();
        Run::read(folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn round_trips_and_takes_unknown_and_missing_fields() {
        let run =
            Run { format_version: 1, host: "web07".into(), port: Some(50000), ..Run::default() };
        assert_eq!(read(&run.to_json()), Ok(run));
        let other = read(r#"{"format_version": 1, "from_the_future": [1, 2]}"#).unwrap();
        assert_eq!(other, Run { format_version: 1, ..Run::default() });
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        assert!(read("{").unwrap_err().contains("run.json"));
        assert!(read(r#"{"host": "web07"}"#).unwrap_err().contains("format_version"));
        let newer = read(r#"{"format_version": 2}"#).unwrap_err();
        assert!(newer.ends_with("format version 2, this release reads up to 1"), "{newer}");
        let newer = read(r#"{"format_version": 2, "agent_version": "0.9.1"}"#).unwrap_err();
        assert!(newer.ends_with("; release 0.9.1 has written it, and reads it"), "{newer}");
        let folder = tempfile::tempdir().unwrap();
        assert!(Run::read(folder.path()).unwrap_err().to_string().contains("run.json"));
        fs::create_dir(folder.path().join(RUN_JSON)).unwrap();
        assert!(
            Run::read(folder.path()).unwrap_err().to_string().ends_with("run.json: not a file")
        );
        let long = read(&" ".repeat(usize::try_from(LONGEST).unwrap() + 1)).unwrap_err();
        assert!(long.ends_with("longer than 16 MiB"), "{long}");
    }
}
