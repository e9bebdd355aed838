//! Other agents, to be loaded next to ours.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::artifacts::{project, target};

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
    AGENT.get_or_init(|| build("second_agent"))
}

/// A small native agent that writes down the bytecode of classes:
/// `runtime-agent/examples/bytecode_agent.rs`.
pub fn bytecode_agent() -> &'static Path {
    static AGENT: OnceLock<PathBuf> = OnceLock::new();
    AGENT.get_or_init(|| build("bytecode_agent"))
}

fn build(example: &str) -> PathBuf {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "-p", "runtime-agent", "--example", example])
        .current_dir(project())
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the build of {example} fails");
    target().join(format!("release/examples/lib{example}.so"))
}

/// Makes a jar that starts `agents.Agent` of `java/agents`, which is found on the class path.
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
