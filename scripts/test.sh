#!/usr/bin/env bash
# Runs the tests, and fetches what they need first.
#
#   scripts/test.sh                                the fast lane: every crate, most tests with the newest Java
#                                                  runtime and with the oldest or 17
#   scripts/test.sh -p test-classes attach::       some tests: arguments go to `cargo nextest run`
#   scripts/test.sh --full                         all of it: every runtime, soaks and fuzzing too; hours
#
# TEST_JDKS=17,25 (or `all`) chooses other Java runtimes. With --full, SOAK_MINUTES (30) is how long each
# soak takes and FUZZ_MINUTES (10) how long each fuzz target. docs/testing.md says more.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

full=
if [ "${1:-}" = --full ]; then
    full=yes
    shift
    [ $# -eq 0 ] || fail "usage: test.sh --full, or test.sh [ARGUMENTS OF cargo nextest run]"
    export TEST_JDKS=${TEST_JDKS:-all} TEST_ROUNDS=full
fi

ensure_rust
ensure_jdk
has_nextest=yes
ensure_tool cargo-nextest || has_nextest=
[ -n "$has_nextest" ] || [ -z "$full" ] || fail "--full needs cargo-nextest"
scripts/setup.sh ${full:+--full}

echo "Java runtimes that were found (TEST_JDKS=${TEST_JDKS:-}):"
homes=$(java_homes)
count=$(grep -c . <<<"$homes" || true)
while read -r home; do
    [ -n "$home" ] || continue
    printf '  %-4s %s\n' "$(java_major "$home")" "$home"
done <<<"$homes"
if [ "$count" -lt 2 ]; then
    echo "WARNING: only $count Java runtime was found. The tests say little about other versions."
fi

build_artifacts
[ -z "$full" ] || build_skywalking
build_for_tests
export TEST_ARTIFACTS_BUILT=1
# What could not be tried here.
export TEST_SKIPPED=$PWD/target/skipped.txt
rm -f "$TEST_SKIPPED"

# Most tests wait most of the time.
places=$((4 * $(nproc)))
[ "$places" -ge 8 ] || places=8
# Each place has ports of its own; there are 34.
[ "$places" -le 34 ] || places=34
export NEXTEST_TEST_THREADS=$places
run() {
    if [ -n "$has_nextest" ]; then
        cargo nextest run "$@" 2>&1 | tee target/test.log && ! grep 'were not run' target/test.log
    else
        say "WARNING: no cargo-nextest; cargo test runs the tests of a crate all at once"
        cargo test "$@" 2>&1 | tee target/test.log
    fi
}

failed=
if [ -n "$full" ]; then
    run --workspace --profile full --run-ignored all -E "not test(/soak::/)" || failed=yes
elif [ $# -gt 0 ]; then
    run "$@" || failed=yes
else
    run --workspace || failed=yes
fi

# The summary once more as cargo test words it, for what reads that.
sed -nE 's/^ *Summary \[ *([0-9.]+)s\] .* tests? run: ([0-9]+) passed( \([^)]*\))?(, ([0-9]+) failed)?(, ([0-9]+) timed out)?(, ([0-9]+) skipped)?.*/\1 \2 0\5 0\7 0\9/p' target/test.log |
    awk '{ failed = $3 + $4; printf "test result: %s. %d passed; %d failed; %d ignored; finished in %ss\n",
        failed ? "FAILED" : "ok", $2, failed, $5, $1 }'

echo
echo "The slowest tests, in seconds:"
sed -nE 's/^ *(PASS|FAIL|LEAK|TIMEOUT|SIG[A-Z]+)[^[]*\[ *([0-9.]+)s\] *(\([ 0-9/]+\) )?(.*)/\2 \4/p' target/test.log |
    sort -rn | uniq | awk 'NR <= 20 { printf "%8.1f  ", $1; $1 = ""; print substr($0, 2) }'
echo

if [ -s "$TEST_SKIPPED" ]; then
    echo "Not tried, because of this machine:"
    sort "$TEST_SKIPPED" | uniq -c
    echo
fi

if [ -n "$full" ] || [ $# -eq 0 ]; then
    cargo test --workspace --doc --quiet || failed=yes
fi
if [ -n "$full" ]; then
    scripts/soak.sh "${SOAK_MINUTES:-30}" || failed=yes
    scripts/fuzz.sh "${FUZZ_MINUTES:-10}" || failed=yes
fi
[ -z "$failed" ] || fail "there are failures, see above"
