"""For scripts/bench-growth.sh.

    bench_growth.py classes FOLDER METHODS      writes the sources of so many methods
    bench_growth.py run JDK FOLDER ROUNDS       measures, and draws
"""

import csv
import os
import statistics
import subprocess
import sys
import tempfile

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AGENT = os.path.join(PROJECT, "target/release/libtprofiler.so")
PER_CLASS = 500
TIMEOUT = 900

# What is measured, with the agent's threshold; the axis, and its values.
SWEEPS = {
    "depth": ("1ms", "depth of the recursion", [1, 3, 10, 30, 100, 300, 1_000]),
    "threads": ("1ms", "threads", [1, 2, 5, 20, 50, 100, 200]),
    "methods": ("1ms", "measured methods", [10, 100, 1_000, 10_000, 30_000, 100_000]),
    "records": ("0", "records a second", [100, 300, 1_000, 3_000, 10_000, 20_000]),
}
MEASURED = {
    "depth": "workloads.Growth.deeper",
    "threads": "workloads.Growth.step",
    "methods": "many.**",
    "records": "workloads.Growth.wait20us",
}


def write_classes(folder, methods):
    os.makedirs(folder, exist_ok=True)
    for number in range(methods // PER_CLASS):
        lines = ["package many;", f"public final class C{number} {{"]
        lines += [f"static int m{m}(int x) {{ return (x ^ {number * PER_CLASS + m}) * 31; }}" for m in range(PER_CLASS)]
        lines.append("public static int all(int x, int n, int times) { for (int i = 0; i < times; i++) {")
        for m in range(PER_CLASS):
            lines.append(f"x = m{m}(x);")
            if m + 1 in (10, 100):
                lines.append(f"if (n == {m + 1}) continue;")
        lines.append("} return x; } }")
        with open(os.path.join(folder, f"C{number}.java"), "w") as file:
            file.write("\n".join(lines))


def run(jdk, folder, sweep, value, agent):
    with tempfile.TemporaryDirectory(prefix="growth-") as scratch:
        command = [f"{jdk}/bin/java", "-XX:+UseParallelGC", "-Xms256m", "-Xmx256m", "-XX:ReservedCodeCacheSize=480m"]
        if agent:
            command.append(
                f"-agentpath:{AGENT}=include={MEASURED[sweep]},leaves=keep,overhead=off,threshold={SWEEPS[sweep][0]},"
                f"max_mb_per_hour=off,port=off,logs={scratch}/logs"
            )
        command += ["-cp", os.path.join(folder, "classes"), "workloads.Growth", sweep, str(value)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{sweep} {value}: status {done.returncode}: {done.stderr[-400:]}")
        lines = [line.split() for line in done.stdout.splitlines()]
        return {words[1]: float(words[2]) for words in lines if words[:1] == ["figure"]}


def measure(jdk, folder, rounds):
    rows = []
    for sweep, (_, _, values) in SWEEPS.items():
        for value in values:
            for number in range(rounds):
                for way in ("plain", "agent"):
                    for name, figure in run(jdk, folder, sweep, value, way == "agent").items():
                        rows.append((sweep, value, way, number, name, figure))
            of = {way: column(rows, sweep, value, way, "ns_per_call") for way in ("plain", "agent")}
            memory = {way: column(rows, sweep, value, way, "rss_kb") for way in ("plain", "agent")}
            more = (statistics.median(memory["agent"]) - statistics.median(memory["plain"])) / 1e3
            print(
                f"{sweep:8} {value:7}: " + ", ".join(f"{way} {spread(of[way])}" for way in of) + f" ns; {more:+.1f} MB",
                flush=True,
            )
    with open(os.path.join(folder, "figures.csv"), "w", newline="") as file:
        csv.writer(file).writerows([("sweep", "value", "way", "round", "figure", "number"), *rows])
    return rows


def column(rows, sweep, value, way, name):
    return [row[5] for row in rows if row[:3] == (sweep, value, way) and row[4] == name]


def spread(numbers):
    return f"{statistics.median(numbers):.1f} ({min(numbers):.1f} to {max(numbers):.1f})"


def draw(rows, path):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tprofiler"
    import matplotlib.pyplot as plot

    def lines(axes, sweep, name, scale, differs):
        values = SWEEPS[sweep][2]

        def of(way, value):
            return [number / scale for number in column(rows, sweep, value, way, name)]

        if differs:
            middle = [statistics.median(of("agent", v)) - statistics.median(of("plain", v)) for v in values]
            if sweep == "records":
                # Of a call, and there are so many a second; in percent of a second.
                middle = [more * value / 1e9 * 100 for more, value in zip(middle, values)]
            axes.plot(values, middle, marker="o", color="tab:blue")
        else:
            for way, colour in (("plain", "tab:gray"), ("agent", "tab:blue")):
                numbers = [of(way, value) for value in values]
                middle = [statistics.median(n) for n in numbers]
                errors = [[m - min(n) for m, n in zip(middle, numbers)], [max(n) - m for m, n in zip(middle, numbers)]]
                axes.errorbar(values, middle, yerr=errors, marker="o", capsize=3, color=colour, label=way)
            axes.legend()
        axes.set_xscale("log")
        axes.set_xlabel(SWEEPS[sweep][1])
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)

    os.makedirs(path, exist_ok=True)
    for sweep in SWEEPS:
        is_records = sweep == "records"
        figure, axes = plot.subplots(figsize=(6, 3.4), layout="constrained")
        lines(axes, sweep, "ns_per_call", 1, is_records)
        axes.set_ylabel("more processor time, % of a core" if is_records else "ns a call")
        figure.savefig(os.path.join(path, f"{sweep}.svg"), metadata={"Date": None})
        plot.close(figure)
    for sweep in ("threads", "methods"):
        figure, axes = plot.subplots(figsize=(6, 3.4), layout="constrained")
        lines(axes, sweep, "rss_kb", 1_000, True)
        axes.set_ylabel("MB of memory more than plain")
        figure.savefig(os.path.join(path, f"memory-{sweep}.svg"), metadata={"Date": None})
        plot.close(figure)


if __name__ == "__main__":
    if sys.argv[1] == "classes":
        write_classes(sys.argv[2], int(sys.argv[3]))
    else:
        draw(measure(sys.argv[2], sys.argv[3], int(sys.argv[4])), os.path.join(PROJECT, "docs/growth"))
