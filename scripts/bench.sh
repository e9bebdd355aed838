#!/usr/bin/env bash
# Measures what profilers cost: workloads of test-classes under the plain JVM, this agent and its peers,
# in alternating runs, and what each has recorded of the truth. Prints a table, and writes it with all
# figures to target/bench/peers.
#
#   scripts/bench.sh [ROUNDS]      default 5
#   WORKLOADS="leaf service" PEERS="plain recording" scripts/bench.sh 9
#   BEFORE=old/release PEERS="before recording" scripts/bench.sh   another build against this one
#   PEERS="plain nothing samples samples-1ms samples-capped async-samples async-samples-1ms" scripts/bench.sh
#                                  what samplers cost
#   scripts/bench.sh hottest       which methods are hottest without the overhead budget, and with it
#   scripts/bench.sh fidelity      whether CPU samples find the methods that async-profiler finds
#
# The workloads service-long, tree-long, h2-long, h2-late and lucene-long are about the overhead budget.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
ensure python3 python3 || exit 1
ensure unzip unzip || exit 1
# The newest JDK has the most peers.
for home in $(java_homes); do
    if [ -x "$home/bin/javac" ] && [ "$(java_major "$home")" -gt "$(java_major "$JDK")" ]; then
        JDK=$home
    fi
done
bench=target/bench/peers
mkdir -p "$bench/classes" target/jars
# A peer that cannot be fetched is skipped, by name.
fetch_jar tools.profiler:async-profiler 4.6 || true
fetch_jar io.opentelemetry.javaagent:opentelemetry-javaagent 2.33.1 || true
if [ -f target/jars/async-profiler.jar ] && [ ! -f "$bench/libasyncProfiler.so" ]; then
    case $(uname -m) in aarch64) machine=linux-arm64 ;; *) machine=linux-x64 ;; esac
    unzip -q -o -j target/jars/async-profiler.jar "$machine/libasyncProfiler.so" -d "$bench"
fi
scripts/libraries.sh
cargo build --release --quiet -p runtime-agent -p analyzer
cargo build --release --quiet -p runtime-agent --example floor
libraries=$(ls target/libraries/h2-*.jar target/libraries/lucene-*.jar | paste -sd:)
"$JDK/bin/javac" --release 17 -nowarn -cp "$libraries" -d "$bench/classes" test-classes/java/workloads/*.java
if [ "$(java_major "$JDK")" -ge 21 ]; then
    "$JDK/bin/javac" --release 21 -nowarn -cp "$bench/classes" -d "$bench/classes" \
        test-classes/java/workloads21/workloads/*.java
fi
if [ "${1:-}" = hottest ]; then
    python3 scripts/bench_hottest.py "$JDK" "$bench"
elif [ "${1:-}" = fidelity ]; then
    python3 scripts/bench_fidelity.py "$JDK" "$bench"
else
    python3 scripts/bench_peers.py "$JDK" "$bench" "${1:-5}"
fi
