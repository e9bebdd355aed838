"""Runs workloads under the plain JVM and under profilers, in alternating order, for scripts/bench.sh.

    bench_peers.py JDK FOLDER ROUNDS
"""

import csv
import glob
import json
import os
import platform
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace

PROJECT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = os.path.join(PROJECT, "target/release")
LIBRARIES = os.path.join(PROJECT, "target/libraries")
SLOW = "1ms"
TIMEOUT = 600
NO_FLOOR = "has no floor"


@dataclass
class Workload:
    main: str
    figure: str
    unit: str
    # Classes of the program that are measured, or a method of one, as our agent has it.
    measured: str
    more_is_better: bool = False
    needs: int = 17
    args: list = field(default_factory=list)
    # Libraries: those that it runs on, and the jar or module whose classes are measured.
    jars: tuple = ()
    classes: str = ""
    # Methods for the OpenTelemetry agent, which takes no wildcards.
    methods: str = ""
    # With the overhead budget, which takes seconds to do its work: only this is compared then.
    is_long: bool = False

    def has_budget(self):
        """Whether it is run with the budget too: short ones say nothing of it, but start-up is what users see first."""
        return self.is_long or self.main in ("Javac", "ClassLoad")


def jar(name):
    for file in sorted(os.listdir(LIBRARIES)):
        if file.startswith(name) and file.endswith(".jar"):
            return os.path.join(LIBRARIES, file)
    sys.exit(f"target/libraries has no {name}")


SHOP = "order,line,price,search,tax,weight,shipping,discount,stock,mix,checksum,text,warehouse,<init>"
THROW = "first,second,third,fourth,fifth"
LUCENE = ("lucene-core", "lucene-analysis-common")


def workloads(scratch):
    sources = os.path.join(PROJECT, "test-classes/java/programs")
    guava = jar("guava")
    short = {
        "leaf": Workload("Leaf", "ns_per_call", "ns a call", "workloads.Leaf.leaf", args=["1", "2"], methods="leaf"),
        "leaf2": Workload("Leaf", "ns_per_call", "ns a call, 2 threads", "workloads.Leaf.leaf", args=["2", "2"], methods="leaf"),
        "tree": Workload("Tree", "ns_per_call", "ns a call", "workloads.Tree.tree", args=["1", "2"], methods="tree"),
        "throw": Workload("Throw", "ns_per_exception", "ns for 5 frames", "workloads.Throw", args=["2"], methods=THROW),
        "throw-new": Workload("Throw", "ns_per_exception", "ns for 5 frames, new", "workloads.Throw", args=["2", "new"],
                              methods=THROW),
        "throw-bare": Workload("Throw", "ns_per_exception", "ns for 5 frames, new, without stack", "workloads.Throw",
                               args=["2", "bare"], methods=THROW),
        "service": Workload("Service", "requests_per_second", "requests/s", "workloads.Shop", True, args=["6"], methods=SHOP),
        "virtual": Workload("Virtual", "ms", "ms", "workloads.Virtual", needs=21, methods="request,step,work,rest"),
        "javac": Workload("Javac", "ms", "ms from the JVM's start", "com.sun.tools.javac", classes="jdk.compiler",
                          args=[sources, os.path.join(scratch, "javac")]),
        "classload": Workload("ClassLoad", "ms", "ms", "com.google.**", args=[guava], classes=guava),
        "h2": Workload("Bank", "transactions_per_second", "transactions/s", "org.h2", True, args=["8"],
                       jars=("h2-",), classes=jar("h2-")),
        "lucene": Workload("Texts", "rounds_per_second", "rounds/s", "org.apache.lucene", True, args=["8"],
                           jars=LUCENE, classes=jar("lucene-core")),
    }
    # What is measured, of tree the last of the figures, begins after ten seconds.
    long = {"service": ["20", "10"], "tree": ["10", "15"], "h2": ["20", "10"], "lucene": ["20", "10"]}
    for name, arguments in long.items():
        short[f"{name}-long"] = replace(short[name], args=arguments, is_long=True)
    # Its load begins 15 s after the JVM.
    late = ["15", "workloads.Bank", *long["h2"]]
    short["h2-late"] = replace(short["h2-long"], main="Late", args=late)
    return short


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Peer:
    """A way to run a program. What it has recorded is read by `recorded`."""

    def __init__(self, jdk, folder):
        self.jdk, self.folder = jdk, folder

    def missing(self):
        return None

    def refuses(self, workload):
        return None

    def options(self, workload, scratch):
        return []

    def program_arguments(self):
        return []

    def ready(self, workload):
        """Called when the program has warmed up, if it is asked to wait."""

    waits = False

    def recorded(self, scratch):
        """Calls, exceptions and slow calls by method; None where it does not say."""
        return None


class Floor(Peer):
    """No profiler: the workload itself calls two native methods that read the clock."""

    library = os.path.join(RELEASE, "examples/libfloor.so")

    def refuses(self, workload):
        return None if workload.main in ("Leaf", "Tree") else NO_FLOOR

    def program_arguments(self):
        return [self.library]


class Ours(Peer):
    more = ",overhead=off,cpu=off"
    release = RELEASE

    def options(self, workload, scratch):
        self.port = free_port()
        return [
            f"-agentpath:{self.release}/libtprofiler.so=include={workload.measured},threshold={SLOW},"
            f"logs={scratch}/logs,port={self.port}{self.more}"
        ]

    def recorded(self, scratch):
        logs = os.path.join(scratch, "logs")
        if not os.path.isdir(logs):
            return None
        rows = self.called(self.analyze(logs, []))
        slow = {self.name(row): int(row["calls"]) for row in self.called(self.analyze(logs, ["--above", "0ns"]))}
        return {
            self.name(row): (int(row["calls"]), int(row["throws"]), slow.get(self.name(row), 0)) for row in rows
        }

    @staticmethod
    def called(rows):
        """Methods that were only sampled have no calls."""
        return [row for row in rows if row["calls"]]

    @staticmethod
    def name(row):
        return f"{row['class']}.{row['method']}"

    def analyze(self, logs, options):
        command = [f"{self.release}/analyze", logs, "--format", "csv", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return list(csv.DictReader(done.stdout.splitlines()))


class Untraced(Ours):
    """What `traced` is compared with."""

    more = ",overhead=off,cpu=1s,wall=off"


class Traced(Ours):
    """Every method is traced: what a traced call costs whose stack is not taken."""

    def options(self, workload, scratch):
        self.more = f",overhead=off,cpu=1s,wall=off,trace={workload.measured}:1000000"
        return super().options(workload, scratch)


class Before(Ours):
    """Another build, in the folder BEFORE."""

    release = os.path.abspath(os.environ.get("BEFORE", ""))

    def missing(self):
        return None if os.path.isfile(f"{self.release}/libtprofiler.so") else "BEFORE has no libtprofiler.so"


class Budget(Ours):
    """With default options: what costs too much is throttled."""

    more = ""


class BeforeBudget(Before):
    more = ""


class WithoutBytes(Ours):
    """Does not read what threads allocate."""

    more = ",overhead=off,cpu=off,debug=fails:allocated-bytes"


class Unsampled(Ours):
    more = ",cpu=off"


class Sampling(Ours):
    """Samples without probes."""

    more = ",exclude=**"

    def recorded(self, scratch):
        """Fails if nothing was sampled."""
        logs = os.path.join(scratch, "logs")
        samples = sum(int(row["samples"] or 0) for row in self.analyze(logs, []))
        if samples < 10:
            raise RuntimeError(f"{samples} samples")


class Sampling1ms(Sampling):
    more = ",exclude=**,cpu=1ms,sampler_cap=off"


class SamplingCapped(Sampling):
    more = ",exclude=**,cpu=100us"


class Nothing(Ours):
    """The agent without probes and samples."""

    more = ",exclude=**,cpu=off"

    def recorded(self, scratch):
        return None


class Keep(Ours):
    more = ",leaves=keep,overhead=off,cpu=off"


class Off(Ours):
    more = ",start=off,cpu=off"

    def recorded(self, scratch):
        return None


class Muted(Ours):
    waits = True

    def refuses(self, workload):
        return "there is no time to mute anything" if workload.main in ("Javac", "ClassLoad") else None

    def ready(self, workload):
        command = [f"{RELEASE}/tprofiler", "mute", workload.measured, "--addr", f"127.0.0.1:{self.port}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        # By then the probes are taken out; what had them is recompiled in the warm-up that follows.
        time.sleep(6)

    def recorded(self, scratch):
        return None


class Task(Budget):
    """A profile task runs, of all requests, none of which is long enough to be written."""

    waits = True

    def ready(self, workload):
        command = [f"{RELEASE}/tprofiler", "task", f"--endpoint={workload.measured}", "--duration=15m"]
        command += ["--min-duration=1h", f"--addr=127.0.0.1:{self.port}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def recorded(self, scratch):
        """Fails if no task ran."""
        files = glob.glob(f"{scratch}/logs/*/*.tasks.csv")
        states = [row["state"] for name in files for row in csv.DictReader(open(name))]
        if states[1:] != ["running", "finished"]:
            raise RuntimeError(f"the task's states: {states}")
        return super().recorded(scratch)


class Jfr(Peer):
    event = ""
    more = ""

    def missing(self):
        return None if major(self.jdk) >= 25 else "needs JDK 25"

    def options(self, workload, scratch):
        # It takes classes and methods, and no packages.
        if workload.classes:
            measured = ";".join(classes_of(workload.classes, self.jdk))
        elif workload.methods:
            of = f"workloads.{workload.measured.split('.')[1]}"
            measured = ";".join(f"{of}::{method}" for method in workload.methods.split(","))
        option = (
            f"-XX:StartFlightRecording:settings=none,dumponexit=true,filename={scratch}/recording.jfr,"
            f"+{self.event}#enabled=true,{self.more}+{self.event}#filter={measured}"
        )
        # Too long for a command line.
        with open(os.path.join(scratch, "options"), "w") as file:
            file.write(f'"{option}"\n-Xlog:jfr*=off\n')
        return [f"@{scratch}/options"]

    def events(self, scratch):
        command = [f"{self.jdk}/bin/jfr", "print", "--json", "--stack-depth", "1", "--events", "jdk.MethodT*",
                   f"{scratch}/recording.jfr"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return [event["values"] for event in json.loads(done.stdout)["recording"]["events"]] if done.stdout else []

    @staticmethod
    def method(values):
        # async-profiler tells it by the stack alone.
        method = values["method"] or values["stackTrace"]["frames"][0]["method"]
        return f"{method['type']['name'].replace('/', '.')}.{method['name']}"


class JfrTiming(Jfr):
    event = "jdk.MethodTiming"

    def recorded(self, scratch):
        last = {self.method(values): int(values["invocations"]) for values in self.events(scratch)}
        return {name: (calls, None, None) for name, calls in last.items()}


class Spans(Jfr):
    """Recordings with an event for each slow call."""

    def recorded(self, scratch):
        slow = {}
        for values in self.events(scratch):
            name = self.method(values)
            slow[name] = slow.get(name, 0) + 1
        return {name: (None, None, count) for name, count in slow.items()}


class JfrTrace(Spans):
    event = "jdk.MethodTrace"
    more = f"+jdk.MethodTrace#threshold={SLOW[:-2]} ms,"


class AsyncProfiler(Spans):
    def missing(self):
        return None if os.path.exists(self.library()) else "was not fetched"

    def library(self):
        return os.path.join(self.folder, "libasyncProfiler.so")

    def options(self, workload, scratch):
        of = workload.measured
        if workload.classes:
            traced = [f"{of.removesuffix('.**')}.*.*"]
        else:
            traced = [f"workloads.{of.split('.')[1]}.{method}" for method in workload.methods.split(",")]
        traces = ",".join(f"trace={name}:{SLOW}" for name in traced)
        return [f"-agentpath:{self.library()}=start,{traces},jfr,file={scratch}/recording.jfr,loglevel=error"]


class AsyncSampling(AsyncProfiler):
    interval = "10ms"

    def options(self, workload, scratch):
        return [f"-agentpath:{self.library()}=start,event=cpu,interval={self.interval},jfr,"
                f"file={scratch}/recording.jfr,loglevel=error"]

    def recorded(self, scratch):
        done = subprocess.run([f"{self.jdk}/bin/jfr", "summary", f"{scratch}/recording.jfr"], capture_output=True,
                              text=True, check=False)
        found = [int(line.split()[1]) for line in done.stdout.splitlines() if "jdk.ExecutionSample" in line]
        if sum(found) < 10:
            raise RuntimeError(f"{found} samples")


class AsyncSampling1ms(AsyncSampling):
    interval = "1ms"


class OpenTelemetry(Peer):
    jar = os.path.join(PROJECT, "target/jars/opentelemetry-javaagent.jar")

    def missing(self):
        return None if os.path.exists(self.jar) else "was not fetched"

    def refuses(self, workload):
        return None if workload.methods else "takes no packages, only methods by name"

    def options(self, workload, scratch):
        of = f"workloads.{workload.measured.split('.')[1]}"
        methods = ",".join(m for m in workload.methods.split(",") if m != "<init>")
        off = [f"-Dotel.{what}.exporter=none" for what in ("traces", "metrics", "logs")]
        return [f"-javaagent:{self.jar}", f"-Dotel.instrumentation.methods.include={of}[{methods}]",
                "-Dotel.javaagent.logging=none", *off]


PEERS = {
    "plain": Peer,
    "floor": Floor,
    "recording": Ours,
    "before": Before,
    "budget": Budget,
    "before-budget": BeforeBudget,
    "without-bytes": WithoutBytes,
    "unsampled": Unsampled,
    "untraced": Untraced,
    "traced": Traced,
    "nothing": Nothing,
    "samples": Sampling,
    "samples-1ms": Sampling1ms,
    "samples-capped": SamplingCapped,
    "async-samples": AsyncSampling,
    "async-samples-1ms": AsyncSampling1ms,
    "keep": Keep,
    "off": Off,
    "muted": Muted,
    "task": Task,
    "async-profiler": AsyncProfiler,
    "jfr-timing": JfrTiming,
    "jfr-trace": JfrTrace,
    "opentelemetry": OpenTelemetry,
}
LONG_NAMES = {
    "plain": "plain JVM",
    "floor": "floor: 2 native calls that read the clock",
    "recording": "this agent, overhead=off, cpu=off",
    "before": "the build in BEFORE, overhead=off, cpu=off",
    "budget": "this agent, as it comes",
    "before-budget": "the build in BEFORE, as it comes",
    "without-bytes": "the same without allocated bytes",
    "unsampled": "this agent, cpu=off",
    "untraced": "this agent, overhead=off, cpu=1s,wall=off",
    "traced": "the same, all traced, one stack in 1,000,000 calls",
    "nothing": "this agent, no probes, cpu=off",
    "samples": "this agent, no probes",
    "samples-1ms": "this agent, no probes, cpu=1ms without cap",
    "samples-capped": "this agent, no probes, cpu=100us",
    "async-samples": "async-profiler, cpu, 10 ms",
    "async-samples-1ms": "async-profiler, cpu, 1 ms",
    "keep": "this agent, overhead=off, leaves=keep, cpu=off",
    "off": "this agent, off",
    "muted": "this agent, all muted",
    "task": "this agent, a profile task runs",
    "async-profiler": "async-profiler, trace",
    "jfr-timing": "JFR MethodTiming",
    "jfr-trace": "JFR MethodTrace",
    "opentelemetry": "OpenTelemetry agent",
}


SAMPLERS = ("task", "unsampled", "untraced", "traced", "nothing", "samples", "samples-1ms", "samples-capped", "async-samples",
            "async-samples-1ms")
USUAL = [name for name in PEERS if not name.startswith("before") and name not in SAMPLERS]
LONG = ("plain", "budget", "task", "before-budget", "unsampled", "samples", "nothing")


def major(jdk):
    with open(os.path.join(jdk, "release")) as file:
        line = next(line for line in file if line.startswith("JAVA_VERSION="))
    return int(line.split('"')[1].split(".")[0])


def classes_of(source, jdk, known={}):
    """The classes of a jar or of a module of the JDK."""
    if source not in known:
        if source.endswith(".jar"):
            import zipfile

            with zipfile.ZipFile(source) as file:
                names = [name for name in file.namelist() if name.endswith(".class") and "-" not in name]
        else:
            command = [f"{jdk}/bin/jimage", "list", "--include", f"regex:/{source}/.*", f"{jdk}/lib/modules"]
            lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
            names, package = [], ""
            for line in lines:
                if line.strip().startswith("Package:"):
                    package = line.split(":")[1].strip().replace(".", "/")
                elif line.strip().endswith(".class") and "-" not in line:
                    # JDK 25 names no packages, but whole paths.
                    names.append("/".join(filter(None, (package, line.strip()))))
        known[source] = sorted(name[: -len(".class")].replace("/", ".") for name in names)
    return known[source]


def children_cpu_s():
    """CPU time of the processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(peer, workload, scratch):
    """One process: its figures, and the truth."""
    classpath = [os.path.join(peer.folder, "classes"), *(jar(name) for name in workload.jars)]
    command = [f"{peer.jdk}/bin/java", "-XX:+UseParallelGC", "-Xms512m", "-Xmx512m", *peer.options(workload, scratch)]
    if peer.waits:
        command.append("-Dworkloads.wait=true")
    command += ["-cp", ":".join(classpath), f"workloads.{workload.main}", *workload.args, *peer.program_arguments()]
    figures, truth = {}, {}
    before_s = children_cpu_s()
    with open(os.path.join(scratch, "stderr"), "w+") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=scratch)
        # One that hangs ends, and its figures are not there.
        clock = threading.Timer(TIMEOUT, process.kill)
        clock.start()
        try:
            for line in process.stdout:
                words = line.split()
                if words[:1] == ["figure"]:
                    figures[words[1]] = float(words[2])
                elif words[:1] == ["truth"]:
                    truth[words[1]] = tuple(int(word) for word in words[2:])
                elif words == ["ready"]:
                    peer.ready(workload)
                    process.stdin.write("\n")
                    process.stdin.flush()
            status = process.wait()
        finally:
            clock.cancel()
            process.kill()
            process.wait()
        if status != 0 or workload.figure not in figures:
            errors.seek(0)
            raise RuntimeError(f"status {status}: {errors.read()[-400:].strip()}")
    if workload.more_is_better:
        # All runs take equally long. Where others use the processors too, its shares say more than those of the rate.
        figures["per_cpu_s"] = figures[workload.figure] / (children_cpu_s() - before_s)
    return figures, truth


def compared(truth, recorded):
    """What was recorded of the truth, as shares of calls, exceptions and slow calls."""
    if recorded is not None and not recorded:
        return "recorded nothing", "", ""
    if recorded is None or not truth:
        return "", "", ""
    shares = []
    for column in range(3):
        known = {name: row[column] for name, row in truth.items() if row[column] >= 0}
        real = sum(known.values())
        found = [recorded.get(name, (0, 0, 0))[column] for name in known]
        if real == 0:
            shares.append("")
        elif any(count is None for count in found) or not recorded:
            shares.append("-")
        else:
            shares.append(sum(found) / real)
    return tuple(shares)


def share(value):
    if isinstance(value, str):
        return value
    if value == 1:
        return "all"
    return f"{value:.1%}" if 0.001 < abs(value - 1) else f"{value:.4%}"


def table(name, workload, results, plain):
    lines = [f"### {name}: {workload.unit}", ""]
    others = sorted({key for rows in results.values() if isinstance(rows, list) for row in rows for key in row["others"]})
    columns = ["", "median", "range", "of plain", *others, "calls", "exceptions", "slow calls"]
    lines.append(f"| {' | '.join(columns)} |".replace("|  |", "| |"))
    lines.append(f"| {' | '.join('---' for _ in columns)} |")
    for peer, rows in results.items():
        if isinstance(rows, str):
            lines.append(f"| {LONG_NAMES[peer]} | {rows} |{' |' * (len(columns) - 2)}")
            continue
        values = [row["figure"] for row in rows]
        median = statistics.median(values)
        ratio = f"{median / plain:.2f}" if plain else ""
        shares = [share(value) for value in rows[-1]["recorded"]]
        digits = 2 if median < 100 else 0
        spread = f"{min(values):.{digits}f} to {max(values):.{digits}f}"
        figures = [f"{median:.{digits}f}", spread, ratio]
        for key in others:
            # "quickest" is of each run's many short parts: while nobody else used the core.
            found = [row["others"][key] for row in rows if key in row["others"]]
            figures.append(f"{statistics.median(found):.{digits}f}" if found else "")
        lines.append(f"| {' | '.join([LONG_NAMES[peer], *figures, *shares])} |")
    return "\n".join(lines) + "\n"


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main():
    jdk, folder, rounds = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
    scratch = tempfile.mkdtemp(prefix="bench-")
    try:
        known = workloads(scratch)
        names = os.environ.get("WORKLOADS", " ".join(known)).split()
        peers = {name: PEERS[name](jdk, folder) for name in os.environ.get("PEERS", " ".join(USUAL)).split()}
        head = (f"{os.cpu_count()} processors ({processor()}), JDK {major(jdk)}; medians and ranges of {rounds} "
                f"rounds, all ways in turn in each\n")
        print(head, flush=True)
        report, rows = [head], []
        for name in names:
            workload = known[name]
            results = {}
            for peer_name, peer in peers.items():
                if workload.is_long and peer_name not in LONG or peer_name == "budget" and not workload.has_budget():
                    continue
                reason = peer.missing() or peer.refuses(workload)
                if workload.needs > major(jdk):
                    reason = f"needs JDK {workload.needs}"
                if reason != NO_FLOOR:
                    results[peer_name] = f"skipped: {reason}" if reason else []
            for number in range(rounds):
                # Each second round goes the other way, so that nobody always comes after the same.
                for peer_name, peer in list(peers.items())[::-1 if number % 2 else 1]:
                    if not isinstance(results.get(peer_name), list):
                        continue
                    part = os.path.join(scratch, "run")
                    os.makedirs(part)
                    try:
                        figures, truth = run(peer, workload, part)
                        is_last = number == rounds - 1
                        found = compared(truth, peer.recorded(part)) if is_last else ("", "", "")
                        rest = {key.removeprefix(f"{workload.figure}_"): value for key, value in figures.items()}
                        figure = rest.pop(workload.figure)
                        results[peer_name].append({"figure": figure, "others": rest, "recorded": found})
                        rows += [(name, peer_name, number, key, value) for key, value in figures.items()]
                        shares = zip(("recorded_calls", "recorded_exceptions", "recorded_slow_calls"), found)
                        rows += [(name, peer_name, number, key, share) for key, share in shares if share != ""]
                    except (RuntimeError, subprocess.SubprocessError) as error:
                        results[peer_name] = f"failed: {' '.join(str(error).split())}"
                    shutil.rmtree(part)
            plain = results.get("plain")
            median = statistics.median(r["figure"] for r in plain) if isinstance(plain, list) else None
            report.append(table(name, workload, results, median))
            print(report[-1], flush=True)
            # All so far: it takes an hour, and may be interrupted.
            with open(os.path.join(folder, "report.md"), "w") as file:
                file.write("\n".join(report))
            with open(os.path.join(folder, "figures.csv"), "w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(["workload", "way", "round", "figure", "value"])
                writer.writerows(rows)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
