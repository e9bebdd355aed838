#!/usr/bin/env bash
# Runs a service under load for some minutes (30), while the agent is attached, switched and detached, and
# prints what that came to: memory, log bytes, requests a second. Counts are held to the service's own.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

minutes=${1:-30}
[[ "$minutes" =~ ^[0-9]+$ ]] || fail "usage: soak.sh [MINUTES]"
ensure_rust
ensure_jdk
scripts/jdks.sh
cargo build --release --quiet --workspace --exclude test-classes
SOAK_SECONDS=$((minutes * 60)) cargo test --quiet -p test-classes --test soak -- --nocapture
