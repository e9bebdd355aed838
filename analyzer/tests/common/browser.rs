//! Headless Chromium, and the pages opened in it: `scripts/browser.sh` fetches them all.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;

/// A folder or file that `scripts/browser.sh` fetches.
pub fn tool(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/browser").join(name)
}

/// The data in a page.
pub fn data(page: &str) -> serde_json::Value {
    let data = page.split_once("type=\"application/octet-stream\">").unwrap().1;
    let packed = STANDARD.decode(data.split_once("</script>").unwrap().0).unwrap();
    serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap()
}

/// Runs a script of `tests/browser`, with the folder of modules as its first argument; returns its output. Returns
/// `None` if the browser or one of `needed` is missing; that is reported even if the test's output is hidden, and is
/// a failure with `REQUIRE_READERS=1`.
pub fn run(script: &str, needed: &[&str], arguments: &[&Path]) -> Option<String> {
    let modules = tool("node_modules");
    let missing = [PathBuf::from("/usr/bin/chromium"), modules.join("playwright-core")]
        .into_iter()
        .chain(needed.iter().map(|name| tool(name)))
        .find(|path| !path.exists());
    if let Some(missing) = missing {
        let missing = missing.display();
        let line = format!(
            "\nWARNING: {missing} is missing: {script} is NOT run; scripts/browser.sh gets it\n"
        );
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        let is_required = std::env::var_os("REQUIRE_READERS").is_some_and(|value| value == "1");
        assert!(!is_required, "{missing} is missing");
        return None;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/browser").join(script);
    let output = Command::new("node").arg(path).arg(modules).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {said}");
    Some(String::from_utf8(output.stdout).unwrap())
}
