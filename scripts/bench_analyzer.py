"""Sums up the records of a run in one of several ways, and prints `SECONDS MEGABYTES_OF_MEMORY`.

    bench_analyzer.py WAY RUN RESULT        analyze, analyze-by-hour, csv_and_map, duckdb-approx,
                                            duckdb-exact, polars
    bench_analyzer.py compare RESULT RESULT...

Of a library the time is that of its query, without starting Python; of a program it is all of it. The
result is a CSV file with the columns of `analyze --format csv`, in any order of the rows.
"""

import csv
import os
import resource
import subprocess
import sys
import time

TYPES = {
    "start_ns": "UBIGINT",
    "thread": "UINTEGER",
    "stack": "UINTEGER",
    "method": "UINTEGER",
    "total_ns": "UBIGINT",
    "self_ns": "UBIGINT",
    "exit": "VARCHAR",
}
EXACT = ["calls", "throws", "total_ns", "self_ns", "avg_ns", "max_ns"]
PERCENTILES = ["p50_ns", "p95_ns", "p99_ns"]


def duckdb(run, result, quantile):
    import duckdb as db

    query = f"""
        COPY (
            SELECT class, m.method, descriptor, calls, throws, total_ns, self_ns,
                total_ns // calls AS avg_ns, max_ns,
                q[1]::UBIGINT AS p50_ns, q[2]::UBIGINT AS p95_ns, q[3]::UBIGINT AS p99_ns
            FROM (
                SELECT method AS id, count(*) AS calls, count(*) FILTER (exit = 'throw') AS throws,
                    sum(total_ns)::UBIGINT AS total_ns, sum(self_ns)::UBIGINT AS self_ns,
                    max(total_ns) AS max_ns, {quantile}(total_ns, [0.5, 0.95, 0.99]) AS q
                FROM read_csv('{run}/*.calls.csv', header = true, auto_detect = false, delim = ',',
                    quote = '', escape = '', columns = {TYPES})
                WHERE exit <> 'unfinished'
                GROUP BY method
            )
            JOIN (SELECT DISTINCT id, class, method, descriptor FROM read_csv('{run}/*.methods.csv'))
                AS m USING (id)
        ) TO '{result}' (HEADER)"""
    begin = time.perf_counter()
    db.sql(query)
    return time.perf_counter() - begin


def polars(run, result):
    import polars as pl

    types = {"UBIGINT": pl.UInt64, "UINTEGER": pl.UInt32, "VARCHAR": pl.String}
    total = pl.col("total_ns")
    begin = time.perf_counter()
    names = pl.scan_csv(f"{run}/*.methods.csv", quote_char='"', schema_overrides={"id": pl.UInt32})
    names = names.select("id", "class", pl.col("method").alias("name"), "descriptor").unique()
    calls = pl.scan_csv(
        f"{run}/*.calls.csv",
        quote_char=None,
        schema={name: types[of] for name, of in TYPES.items()},
    )
    sums = calls.filter(pl.col("exit") != "unfinished").group_by("method").agg(
        pl.len().alias("calls"),
        (pl.col("exit") == "throw").sum().alias("throws"),
        total.sum(),
        pl.col("self_ns").sum(),
        (total.sum() // pl.len()).alias("avg_ns"),
        total.max().alias("max_ns"),
        total.quantile(0.5, interpolation="higher").alias("p50_ns"),
        total.quantile(0.95, interpolation="higher").alias("p95_ns"),
        total.quantile(0.99, interpolation="higher").alias("p99_ns"),
    )
    named = sums.join(names, left_on="method", right_on="id")
    columns = ["class", pl.col("name").alias("method"), "descriptor", *EXACT, *PERCENTILES]
    named.select(columns).collect(engine="streaming").write_csv(result)
    return time.perf_counter() - begin


def program(arguments, result):
    with open(result, "w") as out:
        begin = time.perf_counter()
        subprocess.run(arguments, stdout=out, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - begin


def rows(result):
    with open(result, newline="") as lines:
        return {(r["class"], r["method"], r["descriptor"]): r for r in csv.DictReader(lines)}


def compare(first, others):
    ours = rows(first)
    for other in others:
        theirs = rows(other)
        # The program with the map has the histogram of the logs, polars the call of the nearest rank or
        # the next one. DuckDB interpolates, or approximates.
        bound = 0.26 if "csv_and_map" in other else 0.02 if "polars" in other else 0.1
        if ours.keys() != theirs.keys():
            sys.exit(f"{other}: {len(theirs)} methods, {first}: {len(ours)}")
        for name, our in ours.items():
            their = theirs[name]
            for column in EXACT:
                if int(our[column]) != int(their[column]):
                    sys.exit(f"{other}: {column} of {name}: {their[column]} for {our[column]}")
            # Percentiles of few calls are a matter of definition.
            for column in PERCENTILES if int(our["calls"]) > 10_000 else []:
                if abs(float(our[column]) / float(their[column]) - 1) > bound:
                    sys.exit(f"{other}: {column} of {name}: {their[column]} for {our[column]}")
    print(f"{len(ours)} methods, the same figures everywhere")


def main():
    way, *arguments = sys.argv[1:]
    if way == "compare":
        return compare(arguments[0], arguments[1:])
    run, result = arguments
    release = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "target/release")
    if way.startswith("analyze"):
        analyze = [f"{release}/analyze", run, "--above", "0ns", "--format", "csv"]
        if way == "analyze-by-hour":
            analyze += ["--by", "hour"]
        seconds, who = program(analyze, result), resource.RUSAGE_CHILDREN
    elif way == "csv_and_map":
        seconds = program([f"{release}/examples/csv_and_map", run], result)
        who = resource.RUSAGE_CHILDREN
    else:
        who = resource.RUSAGE_SELF
        if way == "polars":
            seconds = polars(run, result)
        else:
            quantile = "approx_quantile" if way == "duckdb-approx" else "quantile_cont"
            seconds = duckdb(run, result, quantile)
    print(f"{seconds:.3f} {resource.getrusage(who).ru_maxrss // 1024}")


main()
