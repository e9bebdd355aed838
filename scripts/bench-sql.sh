#!/usr/bin/env bash
# What counting SQL statements costs: H2 in memory with a prepared select of one row, and some plain statements, in
# alternating runs without the agent, with sql=off and with sql=100ms. Prints CPU time per statement and statements a
# second, with medians.
#
#   scripts/bench-sql.sh [ROUNDS [SECONDS [RATE [THREADS]]]]   default 7, 6, as many as they can, and one thread
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

ensure_rust
ensure_jdk
ensure python3 python3 || exit 1
scripts/libraries.sh
out=$PWD/target/bench/sql
rm -rf "$out"
mkdir -p "$out/classes"
cargo build --release --quiet -p runtime-agent
libraries=$(ls target/libraries/{h2,HikariCP}-*.jar | paste -sd:)
"$JDK/bin/javac" --release 11 -g -nowarn -cp "$libraries" -d "$out/classes" test-classes/java/sql/*.java

python3 - "$JDK" "$out" "$libraries" "${CARGO_TARGET_DIR:-$PWD/target}/release/libtprofiler.so" \
    "${1:-7}" "${2:-6}" "${3:-0}" "${4:-1}" <<'PY'
import csv
import glob
import statistics
import subprocess
import sys

jdk, out, libraries, agent, rounds, seconds, rate, threads = sys.argv[1:]


def run(name, options, number):
    logs = f"{out}/logs-{name.replace('=', '-')}-{number}"
    # Nothing else is measured.
    agent_options = [f"-agentpath:{agent}=include=sql.Database,port=off,wall=off,logs={logs},{options}"]
    command = [f"{jdk}/bin/java", "-Xmx1g"] + (agent_options if options else [])
    command += ["-cp", f"{out}/classes:{libraries}", "sql.SqlBench", seconds, threads, rate]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    printed = dict(line.split() for line in done.stdout.splitlines())
    counted = 0
    for path in glob.glob(f"{logs}/*/*.sql.csv"):
        counted += sum(int(row["executions"]) for row in csv.DictReader(open(path, encoding="utf-8")))
    # The agent also counts what comes before and after the time that is measured.
    if name == "sql=100ms" and counted < int(printed["statements"]):
        sys.exit(f"{counted} statements were recorded, not {printed['statements']}")
    return int(printed["cpu_ns"]), int(printed["per_second"])


kinds = {"without the agent": "", "sql=off": "sql=off", "sql=100ms": "sql=100ms"}
figures = {name: [] for name in kinds}
for number in range(int(rounds)):
    for name in list(kinds) if number % 2 == 0 else list(kinds)[::-1]:
        figures[name].append(run(name, kinds[name], number))
median = {}
for name, all_figures in figures.items():
    cpu, per_second = zip(*all_figures)
    median[name] = statistics.median(cpu), statistics.median(per_second)
    print(
        f"{name}: {median[name][0]:,.0f} ns of CPU time a statement ({min(cpu):,} to {max(cpu):,}), "
        f"{median[name][1]:,.0f} statements a second ({min(per_second):,} to {max(per_second):,})"
    )
for name in ("without the agent", "sql=off"):
    print(f"work per CPU second with sql=100ms, {name} being 1: {median[name][0] / median['sql=100ms'][0]:.3f}")
PY
