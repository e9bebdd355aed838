#!/usr/bin/env bash
# Measures the rewriter over all classes of a JDK in memory, on one thread, next to ASM doing the
# same, in alternating runs. Prints the median of each.
#
#   scripts/bench-rewriter.sh [ROUNDS]      default 5
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

rounds=${1:-5}
ensure_rust
ensure_jdk
bench=target/bench
mkdir -p "$bench/classes"
fetch_jar org.ow2.asm:asm 9.11.1 || exit 1
cargo build --release --quiet -p rewriter --example rewrite_image
"$JDK/bin/javac" -nowarn -cp target/jars/asm.jar -d "$bench/classes" \
    test-classes/java/tools/DumpClasses.java test-classes/java/bench/AsmRewrite.java
image=$bench/image
"$JDK/bin/java" -cp "$bench/classes" tools.DumpClasses "$image"

say "all classes of $JDK, $rounds rounds of each, alternating"
: >"$bench/results"
for _ in $(seq "$rounds"); do
    target/release/examples/rewrite_image "$image" 8 | sed 's/^/ours /' >>"$bench/results"
    "$JDK/bin/java" -XX:+UseSerialGC -Xmx1500m -cp "$bench/classes:target/jars/asm.jar" bench.AsmRewrite "$image" 8 |
        sed 's/^/asm  /' >>"$bench/results"
done
median() { grep "^$1" "$bench/results" | sort -t' ' -k2 -n | sed -n "$(((rounds + 1) / 2))p" | cut -d' ' -f2-; }
range() { grep "^$1" "$bench/results" | awk '{print $2}' | sort -n | sed -n '1p;$p' | paste -sd' ' | sed 's/ / to /'; }
for who in ours asm; do
    echo "$(median $who | sed 's/^ *//') ($who; range $(range $who | sed 's/^ *//'))"
done
