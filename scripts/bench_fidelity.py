"""Whether the CPU samples of this agent find the methods that async-profiler finds: the ten that come first by self
time. Called by bench.sh."""

import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

import bench_peers

TEN = 10
# async-profiler says so of a Java frame: interpreted, inlined, compiled by C1 or C2.
JAVA = re.compile(r"_\[[01ij]\]$")


def self_times(lines, method):
    """Samples by the innermost Java method, from collapsed stacks."""
    times = collections.Counter()
    for line in lines:
        stack, count = line.rsplit(" ", 1)
        found = next((name for name in map(method, reversed(stack.split(";"))) if name), None)
        if found:
            times[found] += int(count)
    return times


class Ours(bench_peers.Ours):
    more = ",cpu=1ms,sampler_cap=off"

    def times(self, scratch):
        command = [f"{bench_peers.RELEASE}/analyze", f"{scratch}/logs", "--flame", "cpu", "--format", "collapsed"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return self_times(done.stdout.splitlines(), self.method)

    @staticmethod
    def method(frame):
        # Native functions end with their library: `deflate [libz.so.1]`.
        is_java = not frame.startswith("[") and not frame.endswith("]")
        return frame.split("(")[0] if is_java else None


class WithoutProbes(Ours):
    more = ",cpu=1ms,sampler_cap=off,exclude=**"


class Theirs(bench_peers.AsyncSampling1ms):
    def options(self, workload, scratch):
        return [f"-agentpath:{self.library()}=start,event=cpu,interval={self.interval},collapsed,ann,"
                f"file={scratch}/stacks,loglevel=error"]

    def recorded(self, scratch):
        return None

    def times(self, scratch):
        with open(f"{scratch}/stacks") as file:
            return self_times(file.read().splitlines(), self.method)

    @staticmethod
    def method(frame):
        # Probes count for their callers, as in ours.
        is_method = JAVA.search(frame) and "$TProfiler" not in frame
        return JAVA.sub("", frame).replace("/", ".") if is_method else None


class Beside(Ours):
    """Both in one process: other runs may differ because the JIT compiles other code."""

    def options(self, workload, scratch):
        return super().options(workload, scratch) + Theirs(self.jdk, self.folder).options(workload, scratch)

    def times(self, scratch):
        return super().times(scratch), Theirs(self.jdk, self.folder).times(scratch)


def in_one_process(ours, theirs):
    """How many of their ten we have, and the greatest difference of the ten's shares."""
    all_ours, all_theirs = (max(sum(times.values()), 1) for times in (ours, theirs))
    wanted = first(theirs)
    differs = max((abs(ours[method] / all_ours - theirs[method] / all_theirs) for method in wanted), default=0)
    return f"{sum(method in first(ours) for method in wanted)}, within {100 * differs:.1f} points"


def first(times):
    return [method for method, _ in times.most_common(TEN)]


def main():
    jdk, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    scratch = tempfile.mkdtemp(prefix="fidelity-")
    try:
        known = bench_peers.workloads(scratch)
        names = os.environ.get("WORKLOADS", "service javac h2-long lucene-long").split()
        print(f"{os.cpu_count()} processors ({bench_peers.processor()}), JDK {bench_peers.major(jdk)}\n")
        print("| | of async-profiler's ten, this agent has | without probes | another run of async-profiler "
              "| in one process | samples |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name in names:
            runs = []
            for kind in (Theirs, Ours, WithoutProbes, Theirs, Beside):
                part = os.path.join(scratch, "run")
                os.makedirs(part)
                peer = kind(jdk, folder)
                bench_peers.run(peer, known[name], part)
                runs.append(peer.times(part))
                shutil.rmtree(part)
            reference, ours, without, again = runs[:4]
            together = in_one_process(*runs.pop())
            wanted = first(reference)
            both = [sum(method in first(other) for method in wanted) for other in (ours, without, again)]
            counts = ", ".join(str(sum(times.values())) for times in runs)
            print(f"| `{name}` | {both[0]} | {both[1]} | {both[2]} | {together} | {counts} |", flush=True)
            for method in wanted:
                if method not in first(ours):
                    shares = [f"{times[method] / max(sum(times.values()), 1):.1%}" for times in runs]
                    print(f"missing: {method}: {', '.join(shares)}", file=sys.stderr)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
