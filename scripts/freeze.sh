#!/usr/bin/env bash
# Records the logs of a format version for analyzer/tests/frozen.rs, which are never changed afterwards: two runs of
# test-classes/java/sql/Frozen.java, with rows of every table. Writes them to a new folder of analyzer/tests/frozen,
# as a closed hour is stored, and what `analyze` says of them.
#
#   scripts/freeze.sh v1
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[[ "${1:-}" =~ ^v[1-9][0-9]*$ ]] || fail "usage: freeze.sh VERSION, as in v1"
frozen=$PWD/analyzer/tests/frozen/$1
[ ! -e "$frozen" ] || fail "$frozen is there, and frozen logs are never recorded again"
ensure_rust
ensure_jdk
ensure python3 python3 || exit 1
build_artifacts

release=${CARGO_TARGET_DIR:-$PWD/target}/release
work=$(mktemp -d "$PWD/target/freeze.XXXXXX")
trap 'rm -rf "$work"' EXIT
"$JDK/bin/javac" --release 11 -nowarn -sourcepath test-classes/java -d "$work/classes" \
    test-classes/java/sql/Frozen.java
cd "$work"

# record LOGS SECONDS OPTIONS: starts the program.
record() {
    "$JDK/bin/java" -Xmx64m \
        "-agentpath:$release/libtprofiler.so=include=sql,threshold=1ms,sql=10ms,lock=1ms,wall=50ms,logs=$1,$3" \
        -cp classes sql.Frozen "$2" &
    java=$!
}

# ask COMMAND: the agent's answer, as soon as it listens.
ask() {
    for _ in $(seq 100); do
        "$release/tprofiler" "$@" --pid "$java" >/dev/null 2>&1 && return
        sleep 0.1
    done
    fail "the agent does not do: $*"
}

say "recording two runs"
record before 2 alloc=64k,trace=sql.Frozen.pay:2,exception_messages=on
wait "$java"
record after 3 alloc=64k
ask task --id frozen --endpoint sql.Frozen.order --min-duration 10ms --max-samples 2
sleep 1
ask mute sql.Frozen.receipt
ask threshold sql.Frozen.book:2ms
sleep 0.5
ask stop
ask start
wait "$java"
gzip -n9 ./*/*/*.csv
chmod 644 ./*/*/*

mkdir -p "$frozen"
cp -r before after "$frozen"
cd "$frozen"
for report in report by_thread by_state task diff; do
    case $report in
        report) arguments=(before after) ;;
        by_*) arguments=(before after --by "${report#by_}") ;;
        task) arguments=(after --task frozen) ;;
        diff) arguments=(diff before after) ;;
    esac
    "$release/analyze" "${arguments[@]}" --format json >"$work/$report.json"
    python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin), separators=(",", ":")))' \
        <"$work/$report.json" >"$report.json"
done
say "recorded: $frozen, $(du -sk "$frozen" | cut -f1) KiB"
