#!/usr/bin/env bash
# Records the logs of a format version for analyzer/tests/frozen.rs, which are never changed afterwards: two runs of
# test-classes/java/sql/Frozen.java, with rows of every table: one with the kernel's frames, and one of an agent that
# was attached. Writes them to a new folder of analyzer/tests/frozen, as a closed hour is stored, and what `analyze` says
# of them. As root, because of the kernel's frames.
#
#   scripts/freeze.sh v1
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

[[ $# = 1 && "$1" =~ ^v[1-9][0-9]*$ ]] || fail "usage: freeze.sh VERSION, as in v1"
frozen=$PWD/analyzer/tests/frozen/$1
[ ! -e "$frozen" ] || fail "$frozen is there, and frozen logs are never recorded again"
[ "$(id -u)" = 0 ] || fail "only root sees the kernel's frames"
ensure_rust
ensure_jdk
# The newest one has virtual threads.
for home in $(java_homes); do
    if [ -x "$home/bin/javac" ] && [ "$(java_major "$home")" -gt "$(java_major "$JDK")" ]; then
        JDK=$home
    fi
done
ensure python3 python3 || exit 1
build_artifacts

release=${CARGO_TARGET_DIR:-$PWD/target}/release
work=$(mktemp -d "$PWD/target/freeze.XXXXXX")
java=
trap 'kill $java 2>/dev/null || true; rm -rf "$work"' EXIT
"$JDK/bin/javac" --release 11 -nowarn -sourcepath test-classes/java -d "$work/classes" \
    test-classes/java/sql/Frozen.java
cd "$work"

common="include=sql,threshold=1ms,sql=10ms,lock=1ms,wall=50ms,alloc=64k"

# run SECONDS [OPTIONS OF java]: starts the program.
run() {
    "$JDK/bin/java" -Xmx64m "${@:2}" -cp classes sql.Frozen "$1" &
    java=$!
}

# ask COMMAND: the agent's answer, as soon as it listens.
ask() {
    local answer
    for _ in $(seq 100); do
        answer=$("$release/tprofiler" "$@" --pid "$java" 2>&1) && return
        sleep 0.1
    done
    fail "the agent does not do: $*: $answer"
}

say "recording two runs"
more=cpu=1ms,engine=perf,sampler_cap=off,trace=sql.Frozen*.pay:2,exception_messages=on
run 5 "-agentpath:$release/libtprofiler.so=$common,$more,logs=before"
wait "$java"
# It goes on until it is ended: how long an attach takes depends on its loops.
run 60
sleep 1
"$release/tprofiler" attach "$java" "$common,logs=after"
ask task --id frozen --endpoint 'sql.Frozen$Shop.order' --min-duration 10ms --max-samples 2
# It overlaps with the first one.
"$release/tprofiler" task --id rejected --endpoint 'sql.Frozen$Shop.pay' --pid "$java" && fail "the task was not rejected"
sleep 1
ask mute 'sql.Frozen$Shop.receipt'
ask threshold 'sql.Frozen$Shop.book:2ms'
sleep 0.5
ask unmute 'sql.Frozen$Shop.receipt'
ask stop
ask start
sleep 1
kill "$java"
wait "$java" || true
java=
gzip -n9 ./*/*/*.csv
rm -f ./*/*/control.token
# `attach` made it absolute.
sed -i "s|$work/||" after/*/run.json
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
