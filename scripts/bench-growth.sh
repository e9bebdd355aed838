#!/usr/bin/env bash
# How the cost of a call grows with the depth of calls, threads, methods and records, and memory with threads
# and methods: the plain JVM and this agent in turn. Writes a table and docs/growth/*.svg.
#
#   scripts/bench-growth.sh [ROUNDS]      default 3
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
bench=target/bench/growth
mkdir -p "$bench"
ensure_python "$bench/python" matplotlib
cargo build --release --quiet -p runtime-agent
"$python" scripts/bench_growth.py classes "$bench/many" 100000
if [ ! -f "$bench/classes/many/C199.class" ]; then
    "$JDK/bin/javac" --release 17 -nowarn -J-Xmx2g -d "$bench/classes" "$bench"/many/*.java
fi
"$JDK/bin/javac" --release 17 -nowarn -d "$bench/classes" test-classes/java/workloads/{Figures,Growth}.java
"$python" scripts/bench_growth.py run "$JDK" "$bench" "${1:-3}"
