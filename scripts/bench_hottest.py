"""Whether the overhead budget changes which methods are hottest: the ten that come first by self time without a
budget, and their places with it. Called by bench.sh."""

import os
import shutil
import sys
import tempfile

import bench_peers

TEN = 10


def hottest(peer, workload, scratch):
    """All methods of one run, hottest first: name, calls, and self time in ns."""
    bench_peers.run(peer, workload, scratch)
    rows = peer.called(peer.analyze(os.path.join(scratch, "logs"), ["--sort", "self", "--top", "0"]))
    return [(f"{row['class']}.{row['method']}{row['descriptor']}", int(row["calls"]), int(row["self_ns"])) for row in rows]


def main():
    jdk, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    scratch = tempfile.mkdtemp(prefix="hottest-")
    try:
        known = bench_peers.workloads(scratch)
        names = os.environ.get("WORKLOADS", "service-long h2-long lucene-long").split()
        print(f"{os.cpu_count()} processors ({bench_peers.processor()}), JDK {bench_peers.major(jdk)}; one run each\n")
        for name in names:
            lists = {}
            for way in ("recording", "budget"):
                part = os.path.join(scratch, "run")
                os.makedirs(part)
                lists[way] = hottest(bench_peers.PEERS[way](jdk, folder), known[name], part)
                shutil.rmtree(part)
            places = {method: place for place, (method, _, _) in enumerate(lists["budget"], 1)}
            calls = {method: count for method, count, _ in lists["budget"]}
            all_self = sum(self_ns for _, _, self_ns in lists["recording"])
            print(f"### {name}\n")
            print("| without a budget | self | calls | place with it | calls measured |\n| --- | --- | --- | --- | --- |")
            first = lists["recording"][:TEN]
            for method, count, self_ns in first:
                place = places.get(method, "none")
                print(f"| `{method}` | {self_ns / all_self:.1%} | {count} | {place} | {calls.get(method, 0)} |")
            common = sum(places.get(method, TEN + 1) <= TEN for method, _, _ in first)
            print(f"\n{common} of {len(first)} are among the ten hottest with the budget\n", flush=True)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
