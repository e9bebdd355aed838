#!/usr/bin/env bash
# Runs every test, with every Java runtime that is found or can be fetched. Arguments go to
# `cargo test`, in place of --workspace.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
scripts/jdks.sh
scripts/libraries.sh
scripts/browser.sh || echo "WARNING: there is no browser, so the report's pages are not tried in one."

echo "Java runtimes:"
homes=$(java_homes)
count=$(grep -c . <<<"$homes" || true)
while read -r home; do
    [ -n "$home" ] || continue
    printf '  %-4s %s\n' "$(java_major "$home")" "$home"
done <<<"$homes"
if [ "$count" -lt 2 ]; then
    echo "WARNING: only $count Java runtime was found. The tests say little about other versions."
fi

cargo build --release --quiet --workspace --exclude test-classes
[ $# -gt 0 ] || set -- --workspace
cargo test "$@"
