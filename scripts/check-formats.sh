#!/usr/bin/env bash
# Gives every format of report that other tools read to such a tool: Python's csv and json,
# `go tool pprof`, `promtool`, speedscope and Perfetto in Chromium, where the HTML report is opened too.
# What is missing is installed (as root on Debian) or named.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure python3 python3
ensure go golang-go
ensure promtool prometheus
scripts/browser.sh
REQUIRE_READERS=1 test_by_name -p analyzer --test all foreign_readers:: "$@"
REQUIRE_READERS=1 test_by_name -p analyzer --test all html:: "$@"
echo "All readers took all formats."
