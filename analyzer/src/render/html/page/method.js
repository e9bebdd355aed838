// The page of one method: its figures, the durations of all its calls, callers and callees.
function bucketStart(bucket) {
  if (bucket === 0) return 0;
  return 2 ** (6 + Math.floor((bucket - 1) / 2)) * (bucket % 2 === 0 ? 1.5 : 1);
}

function histogram(method) {
  const hist = methods.hist[method];
  if (hist === undefined) return el("p", { class: "dim" }, "Durations are embedded only for the methods with most time.");
  const rows = [];
  for (let i = 0; i < hist.length; i += 2) rows.push([hist[i], hist[i + 1]]);
  const most = Math.max(1, ...rows.map(([, calls]) => calls));
  const all = sum(rows.map(([, calls]) => calls));
  const cells = rows.flatMap(([bucket, calls]) => {
    const bar = el("i", {});
    bar.style.width = (calls / most) * 100 + "%";
    return [el("span", {}, `${duration(bucketStart(bucket))} to ${duration(bucketStart(bucket + 1))}`), el("div", {}, bar),
      el("span", {}, `${count(calls)}  ${percent(calls, all)}`)];
  });
  return el("div", { class: "hist", id: "histogram" }, ...cells);
}

// Recorded calls from and to a method, grouped by the other method: callers by the time they caused here, callees by
// the time they took there.
function neighbours(method) {
  const callers = new Map();
  const callees = new Map();
  const add = (map, frame, path) => {
    const known = map.get(frame) || { frame, calls: 0, total: 0 };
    known.calls += paths.calls[path];
    known.total += paths.total[path];
    map.set(frame, known);
  };
  for (let path = 1; path < paths.frame.length; path++) {
    const parent = paths.parent[path];
    if (frameOf(path) === method) add(callers, parent === 0 ? null : frameOf(parent), path);
    if (parent !== 0 && frameOf(parent) === method) add(callees, frameOf(path), path);
  }
  const sorted = (map) => [...map.values()].sort((a, b) => b.total - a.total);
  return { callers: sorted(callers), callees: sorted(callees) };
}

const NEIGHBOURS = 40;

function neighbourTable(rows, empty) {
  if (rows.length === 0) return el("p", { class: "dim" }, data.paths_cut ? "None in the call paths of this page." : empty);
  const rest = rows.length - NEIGHBOURS;
  const table = shortTable(["method", "recorded calls", "time"], rows.slice(0, NEIGHBOURS).map(({ frame, calls, total }) => [
    typeof frame === "number" ? methodLink(frame) : el("span", { class: "dim" }, frame ?? "(called by no instrumented method)"),
    calls > 0 ? count(calls) : "", duration(total)]));
  return rest > 0 ? el("div", {}, table, el("p", { class: "dim" }, `and ${separated(rest)} more`)) : table;
}

// The slowest calls, of this method or of all, that are not within another one in the list.
function slowCalls(method, most) {
  const found = [];
  data.threads.forEach((thread) => thread.method.forEach((of, place) => {
    const isAsked = method === null ? !thread.inner[place] : of === method;
    if (isAsked) found.push({ thread, place, total: thread.total[place] });
  }));
  found.sort((a, b) => b.total - a.total);
  const rows = found.slice(0, most).map(({ thread, place, total }) => [
    method === null ? methodLink(thread.method[place]) : threadName(thread),
    el("span", { class: thread.exit[place] === "throw" ? "bad" : null }, duration(total) + (thread.exit[place] === "throw" ? ", threw" : "")),
    duration(thread.own[place]), clock(thread.start[place] / 1e6, 23),
    ...(method === null ? [el("span", { title: thread.under[place] ? "under " + thread.under[place] : null }, threadName(thread))] : [])]);
  if (rows.length === 0) return null;
  const heads = method === null ? ["method", "took", "self", `began (${zone()})`, "thread"] : ["thread", "took", "self", `began (${zone()})`];
  return shortTable(heads, rows);
}

function card(name, value) {
  return el("div", { class: "card" }, el("b", {}, value), el("span", { class: "dim" }, name));
}

// How long a method was throttled and muted, as a sentence that ends with this.
function notCounted(method, end) {
  const how = [["throttled", methods.throttled[method]], ["muted", methods.muted[method]]].filter(([, ns]) => ns > 0);
  return how.length === 0 ? "" : " It was " + how.map(([was, ns]) => `${was} for ${duration(ns)}`).join(" and ") + end;
}

function methodView(method) {
  if (!(method >= 0 && method < methods.name.length)) return el("p", { class: "panel" }, "There is no such method in this report.");
  const isMeasured = method < MEASURED;
  const parts = [el("p", {}, el("a", { href: "#methods" }, "‹ All methods")), el("h2", { class: "method" }, methodLabel(method))];
  if (isMeasured) {
    parts.push(el("div", { class: "cards" }, card("calls", callsOf(method)), card("threw", count(methods.throws[method])),
      card("total", duration(methods.total[method])), card("self", duration(methods.own[method])),
      card("of all self time", shareOf(method)), card("average", averageOf(method)),
      card("longest", duration(methods.max[method])), card("p50", duration(methods.p50[method])),
      card("p95", duration(methods.p95[method])), card("p99", duration(methods.p99[method]))),
    el("p", { class: "dim" }, "Percentiles are " + data.percentiles + "." + notCounted(method,
      ": no figure here has its calls of that time.") +
      (methods.mostly_probe[method] ? " At least half of its self time is spent in probes (an estimate)." : "")),
    el("h2", {}, data.of_records ? "Durations of the recorded calls" : "Durations of all calls"), histogram(method));
  } else parts.push(el("p", { class: "panel" }, method < LISTED ? "It was only sampled: it has no calls in the statistics." +
    notCounted(method, ".") : "Its statistics are not in this report."));
  if (data.cpu && method < LISTED) {
    parts.push(el("h2", {}, "CPU time by samples"), el("div", { class: "cards" }, card("CPU self, 95%", cpuSelf(method)),
      card("of all CPU time", percent(methods.cpu_self[method], data.cpu.total_ns)),
      card("CPU total", duration(methods.cpu_total[method])), card("samples", count(methods.samples[method]))));
  }
  const { callers, callees } = neighbours(method);
  parts.push(el("div", { class: "two" },
    el("div", {}, el("h2", {}, "Callers"), neighbourTable(callers, "No recorded call of it.")),
    el("div", {}, el("h2", {}, "Callees"), neighbourTable(callees, "No recorded calls that it made."))),
  el("p", { class: "dim" }, "Callers and callees are from recorded calls; shorter calls are in the statistics only. Times of nested calls overlap." +
    (data.paths_cut ? " Only the call paths with most time are in this page." : "")));
  const slow = slowCalls(method, 20);
  if (slow) parts.push(el("h2", {}, "Its slowest calls"), slow);
  return el("div", {}, ...parts);
}
