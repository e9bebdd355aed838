#!/usr/bin/env bash
# Checks licences, duplicate versions, sources and known vulnerabilities of all dependencies (deny.toml).
# Vulnerabilities are checked if GitHub, which has the list, can be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_tool cargo-deny || {
    say "WARNING: cargo-deny is missing: dependencies are not checked"
    [ -z "${CI:-}" ] || exit 1
    exit 0
}
cargo deny check licenses bans sources
if cargo deny fetch db >target/deny.log 2>&1; then
    cargo deny check advisories
else
    say "the advisory database cannot be fetched; advisories are not checked: $(grep -m 1 fatal target/deny.log)"
fi
