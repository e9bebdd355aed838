#!/usr/bin/env bash
# Builds everything, profiles the JDK's compiler while it compiles the sources of test-classes for
# ten seconds, switches the agent off and on meanwhile, and prints the report. The logs stay in
# target/demo/logs, and the report as a page in target/demo/report.html.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
say "building (release)"
build_artifacts

demo=target/demo
release=target/release
rm -rf "$demo"
mkdir -p "$demo/classes" "$demo/output"
"$JDK/bin/javac" --release 11 -nowarn -d "$demo/classes" test-classes/java/programs/Compile.java
sources=$(find test-classes/java/truth test-classes/java/programs -name '*.java' | sort)

say "profiling the compiler of $JDK for 10 s, every package of it instrumented"
# shellcheck disable=SC2086 # the sources are separate words
"$JDK/bin/java" \
    "-agentpath:$PWD/$release/libtprofiler.so=include=com.sun.tools,include=com.sun.source,threshold=1ms,logs=$demo/logs" \
    -cp "$demo/classes" programs.Compile 10 "$demo/output" $sources &
java=$!
trap 'kill "$java" 2>/dev/null || true' EXIT

# run.json has the port in force: it differs from the default if that was taken.
port=
for _ in $(seq 100); do
    port=$(sed -n 's/^ *"port": \([0-9]*\).*/\1/p' "$demo"/logs/*/run.json 2>/dev/null || true)
    [ -n "$port" ] && "$release/tprofiler" status --addr "127.0.0.1:$port" >/dev/null 2>&1 && break
    sleep 0.1
done
[ -n "$port" ] || fail "the agent has no control port"
control() { "$release/tprofiler" "$1" --addr "127.0.0.1:$port"; }

sleep 4
say "tprofiler stop, and start again a second later"
control stop
sleep 1
control start
say "tprofiler status"
control status
wait "$java"
trap - EXIT

say "analyze $demo/logs"
"$release/analyze" "$demo/logs" --top 15
"$release/analyze" "$demo/logs" --format html -o "$demo/report.html"
say "the same and more, as a page for a browser: $demo/report.html"
