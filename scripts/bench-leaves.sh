#!/usr/bin/env bash
# What share of methods and of calls are those in which no time can go by, which `leaves=skip` leaves out:
# of javac, H2 and Lucene under load, everything measured. Prints a table.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
ensure python3 python3 || exit 1
scripts/libraries.sh
out=target/bench/leaves
rm -rf "$out"
mkdir -p "$out/classes" "$out/javac"
cargo build --release --quiet -p runtime-agent -p analyzer
cargo build --release --quiet -p test-classes --example straight_lines
libraries=$(ls target/libraries/h2-*.jar target/libraries/lucene-*.jar | paste -sd:)
"$JDK/bin/javac" --release 17 -nowarn -cp "$libraries" -d "$out/classes" test-classes/java/workloads/*.java
"$JDK/bin/jimage" extract --dir "$out/image" --include 'regex:/jdk.compiler/.*' "$JDK/lib/modules"

# share NAME PACKAGES CLASSES -- MAIN ARGS...
share() {
    local name=$1 packages=$2 classes=$3
    shift 4
    "$JDK/bin/java" -Xmx1g \
        "-agentpath:$PWD/target/release/libtprofiler.so=include=$packages,leaves=keep,overhead=off,port=off,logs=$out/$name" \
        -cp "$out/classes:$libraries" "$@" >/dev/null
    target/release/analyze --format csv "$out/$name" >"$out/$name.csv"
    # shellcheck disable=SC2086 # They are several.
    target/release/examples/straight_lines $classes >"$out/$name.methods"
    python3 - "$name" "$out/$name.csv" "$out/$name.methods" <<'PY'
import csv
import sys

name, calls, methods = sys.argv[1:]
kinds = {}
for line in open(methods, encoding="utf-8"):
    *key, kind = line.rstrip("\n").split("\t")
    kinds[tuple(key)] = kind == "leaf"
rows = list(csv.DictReader(open(calls, encoding="utf-8")))
of = {leaf: [row for row in rows if kinds.get((row["class"], row["method"], row["descriptor"])) is leaf] for leaf in (True, False)}
total = {leaf: sum(int(row["calls"]) for row in of[leaf]) for leaf in of}
print(
    f"{name}: {sum(kinds.values())} of {len(kinds)} methods ({sum(kinds.values()) / len(kinds):.0%}), "
    f"{len(of[True])} of {len(of[True]) + len(of[False])} that were called, "
    f"{total[True]} of {total[True] + total[False]} calls ({total[True] / (total[True] + total[False]):.0%})"
)
PY
}

share javac com.sun.tools.javac "$out/image" -- workloads.Javac test-classes/java/programs "$out/javac"
share h2 org.h2 target/libraries/h2-*.jar -- workloads.Bank 4
share lucene org.apache.lucene "$(ls target/libraries/lucene-*.jar | paste -sd' ')" -- workloads.Texts 4
