//! Other agents, to be loaded next to ours.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::artifacts::{are_built, project, target};

/// JaCoCo's agent.
///
/// # Panics
/// If it has not been fetched.
pub fn jacoco() -> PathBuf {
    let jar = project().join("target/jars/org.jacoco.agent-runtime.jar");
    assert!(jar.exists(), "{} is missing; scripts/jdks.sh fetches it", jar.display());
    jar
}

/// A small native agent with a load hook: `runtime-agent/examples/second_agent.rs`.
pub fn second_agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| example("second_agent"))
}

/// Native methods of `programs.Faults`: `runtime-agent/examples/faults.rs`.
pub fn faults() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| example("faults"))
}

/// A library that sets the clock of the process that preloads it: `runtime-agent/examples/set_clock.rs`.
pub fn set_clock() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| example("set_clock"))
}

/// A small native agent that logs the bytecode of classes: `runtime-agent/examples/bytecode_agent.rs`.
pub fn bytecode_agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| example("bytecode_agent"))
}

/// A native agent that installs a handler of faults again and again: `runtime-agent/examples/fault_handler.rs`.
pub fn fault_handler() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| example("fault_handler"))
}

/// A library in `runtime-agent/examples`. cargo builds these in the dev profile with the tests. In the release
/// profile it would build the agent once more, since examples bring the features of dev-dependencies.
fn example(name: &str) -> PathBuf {
    if !are_built() {
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--workspace", "--examples"])
            .current_dir(project())
            .status()
            .expect("cargo runs");
        assert!(status.success(), "the build of {name} fails");
    }
    target().join(format!("debug/examples/lib{name}.so"))
}

/// Makes a jar that starts `agents.Agent` of `java/agents`, which must be on the class path.
pub fn java_agent(folder: &Path) -> PathBuf {
    let path = folder.join("agent.jar");
    let mut jar = ZipWriter::new(File::create(&path).expect("a file"));
    jar.start_file("META-INF/MANIFEST.MF", SimpleFileOptions::default()).expect("an entry");
    let manifest = "Manifest-Version: 1.0\nPremain-Class: agents.Agent\n\
        Can-Retransform-Classes: true\nCan-Redefine-Classes: true\n";
    jar.write_all(manifest.as_bytes()).expect("an entry");
    jar.finish().expect("a jar");
    path
}
