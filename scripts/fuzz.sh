#!/usr/bin/env bash
# Fuzzes each target for some minutes (10), beginning with its seeds and what earlier runs have found
# (*/fuzz/corpus): the rewriter (bytes), the analyzer (logs), and the rewriter with HotSpot as the judge
# (mutations). FUZZ_SEED=20261123 has mutations begin elsewhere. Needs the nightly toolchain.
#
#   scripts/fuzz.sh [MINUTES]
#   scripts/fuzz.sh --pack CRATE FOLDER    make the files of a folder the seeds of rewriter or analyzer
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

usage() { fail "usage: fuzz.sh [MINUTES], or fuzz.sh --pack CRATE FOLDER"; }

if [ "${1:-}" = --pack ]; then
    [ $# -eq 3 ] && [ -d "$2/fuzz" ] && [ -d "$3" ] || usage
    seeds=$PWD/$2/fuzz/seeds.tar
    cd "$3"
    tar -cf "$seeds" --format=ustar --owner=0 --group=0 --numeric-owner --mode=644 --mtime=@0 \
        --transform 's,^,seeds/,' -- *
    exit
fi

minutes=${1:-10}
[[ "$minutes" =~ ^[1-9][0-9]*$ ]] || usage
seconds=$((minutes * 60))
ensure_rust
ensure_tool cargo-fuzz || fail "fuzzing needs cargo-fuzz"
cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal ||
    fail "fuzzing needs the nightly toolchain of Rust: rustup toolchain install nightly"

# fuzz CRATE TARGET OPTION...
fuzz() {
    local crate=$1 target=$2
    shift 2
    local corpus=corpus/$target
    (
        cd "$crate/fuzz"
        mkdir -p "$corpus"
        tar -xf seeds.tar -C "$corpus" --strip-components=1
        say "$target for $minutes minutes"
        cargo +nightly fuzz run "$target" "$corpus" -- -max_total_time="$seconds" "$@"
    )
}
fuzz rewriter bytes -max_len=16384 -malloc_limit_mb=64 -timeout=10
fuzz analyzer logs -max_len=8192 -timeout=20 -detect_leaks=0
ensure_jdk
scripts/jdks.sh
build_artifacts
FUZZ_SECONDS=$seconds test_by_name -p test-classes --test all mutations:: -- --nocapture
