#!/usr/bin/env bash
# Measures how fast `analyze` sums up records, next to DuckDB, polars and a straightforward program, all
# on the same files and with the same result, in alternating runs. The logs are made from a seed
# (analyzer/examples/make_logs.rs). What is compared is `--above 0ns --format csv`: it takes all of its
# figures from calls.csv, as the others do. At the end once with `--by hour`, for its memory.
#
#   scripts/bench-analyzer.sh [MEGABYTES] [ROUNDS]      default 1000, 5
#   METHODS=2000 THREADS=200 HOURS=4 SEED=1             of the logs, in the environment
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

megabytes=${1:-1000}
rounds=${2:-5}
methods=${METHODS:-2000} threads=${THREADS:-200} hours=${HOURS:-4} seed=${SEED:-1}
ensure_rust
bench=target/bench
mkdir -p "$bench"
ensure_python "$bench/python" duckdb polars
cargo build --release --quiet -p analyzer --bins --examples
run=$bench/logs-$megabytes-$methods-$threads-$hours-$seed
if [ ! -f "$run/made" ]; then
    rm -rf "$run"
    target/release/examples/make_logs "$run" "$megabytes" "$methods" "$threads" "$hours" "$seed"
    touch "$run/made"
fi
bytes=$(cat "$run"/*.calls.csv | wc -c)

ways="analyze duckdb-approx duckdb-exact polars csv_and_map"
say "$bytes bytes of calls.csv, $methods methods, $threads threads, $hours hours; $rounds rounds of each, alternating"
say "$("$python" -c 'import duckdb, polars; print("DuckDB", duckdb.__version__, "polars", polars.__version__)'), $(nproc) processors"
: >"$bench/results"
for _ in $(seq "$rounds"); do
    for way in $ways; do
        cat "$run"/*.calls.csv >/dev/null
        echo "$way $("$python" scripts/bench_analyzer.py "$way" "$run" "$bench/$way.csv")" >>"$bench/results"
    done
done
"$python" scripts/bench_analyzer.py compare "$bench/analyze.csv" \
    "$bench"/{duckdb-approx,duckdb-exact,polars,csv_and_map}.csv
# There are figures for each method of each hour.
echo "analyze-by-hour $("$python" scripts/bench_analyzer.py analyze-by-hour "$run" "$bench/by-hour.csv")" >>"$bench/results"
column() { grep "^$1 " "$bench/results" | cut -d' ' -f"$2" | sort -n; }
printf '%-15s %8s %18s %8s %8s\n' "" seconds range GB/s MB
for way in $ways analyze-by-hour; do
    median=$(column "$way" 2 | sed -n "$((($(column "$way" 2 | wc -l) + 1) / 2))p")
    range=$(column "$way" 2 | sed -n '1p;$p' | paste -sd' ' | sed 's/ / to /')
    awk -v way="$way" -v median="$median" -v range="$range" -v bytes="$bytes" \
        -v memory="$(column "$way" 3 | tail -1)" \
        'BEGIN { printf "%-15s %8s %18s %8.2f %8d\n", way, median, range, bytes / median / 1e9, memory }'
done
