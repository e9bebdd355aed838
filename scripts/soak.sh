#!/usr/bin/env bash
# Runs the soaks for some minutes each (30), and prints what they measure:
# - a service under load, while the agent is attached, switched and detached: memory, log bytes, requests a
#   second; counts are compared with the service's own;
# - running loops, while the agent mutes, stops, attaches and detaches: speed, memory, longest pause.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

minutes=${1:-30}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || fail "usage: soak.sh [MINUTES]"
ensure_rust
ensure_jdk
scripts/jdks.sh
build_artifacts
SOAK_SECONDS=$((minutes * 60)) test_by_name -p test-classes --test all soak:: -- --skip loops_soak:: --nocapture
SOAK_MINUTES=$minutes test_by_name -p test-classes --test all loops_soak:: -- --nocapture
