// The views and the navigation between them: the part of the address after # names the view.
function summaryView() {
  const facts = el("dl", { class: "facts" });
  let last = null;
  for (const [heading, line] of data.summary) {
    if (heading !== "" || last === null) {
      last = el("dd", {}, line);
      facts.append(el("dt", {}, heading), last);
    } else last.append(el("br"), line);
  }
  const parts = [el("div", { class: "panel" }, facts)];
  if (data.empty !== null) parts.push(el("p", { class: "panel" }, data.empty));
  const place = Array.from({ length: MEASURED }, (_, method) => method);
  const most = (of, n) => [...place].sort((a, b) => of(b) - of(a)).filter((m) => of(m) > 0).slice(0, n);
  if (MEASURED > 0) {
    parts.push(el("div", { class: "cards" }, card(data.of_records ? "recorded calls" : "calls", count(sum(methods.calls) + data.not_shown.calls)),
      card("threw", count(sum(methods.throws) + data.not_shown.throws)), card("self time", duration(selfOfAll)),
      card("methods", separated(MEASURED + data.not_shown.methods)), card("call paths", separated(recordedPaths))));
    if (data.entries.length > 0) {
      parts.push(el("h2", {}, "Entry methods (outermost in recorded calls), nested calls included, by total time"),
        shortTable(["method", "calls", "threw", "p50", "p95", "p99", "max"], data.entries.map((m) => [methodLink(m), callsOf(m),
          count(methods.throws[m]), ...["p50", "p95", "p99", "max"].map((of) => duration(methods[of][m]))])));
    }
    if (data.cpu) parts.push(...cpuSummary());
    parts.push(el("h2", {}, "Hottest methods by self time"), shortTable(["method", "calls", "self", "self %", "avg", "p99", "max"],
      most((m) => methods.own[m], 10).map((m) => [methodLink(m), callsOf(m), duration(methods.own[m]),
        percent(methods.own[m], selfOfAll), averageOf(m), duration(methods.p99[m]), duration(methods.max[m])])));
    if (SIGN !== "") parts.push(el("p", { class: "dim" }, SIGN));
  }
  if (data.cpu && MEASURED === 0) parts.push(...cpuSummary());
  for (const { heading, columns, rows, more } of data.tables) {
    parts.push(el("h2", {}, heading), shortTable(columns, rows));
    if (more > 0) parts.push(el("p", { class: "dim" }, `${separated(more)} more are not in this page.`));
  }
  const slow = slowCalls(null, 10);
  if (slow) parts.push(el("h2", {}, "Slowest calls, outermost only"), slow);
  const throwing = most((m) => methods.throws[m], 5);
  if (throwing.length > 0) {
    parts.push(el("h2", {}, "Methods that throw most"), shortTable(["method", "threw", "of its calls"], throwing.map((m) =>
      [methodLink(m), count(methods.throws[m]), percent(methods.throws[m], methods.calls[m])])));
  }
  if (data.recursion.length > 0) {
    parts.push(el("h2", {}, "Recursive methods"), shortTable(["method", "recorded calls within another", "at once, at most"],
      data.recursion.map(([method, calls, depth]) => [methodLink(method), count(calls), separated(depth)])));
  }
  if (data.notes.length > 0) {
    parts.push(el("h2", {}, "Notes"),
      el("ul", { class: "panel" }, ...data.notes.map((line) => el("li", {}, line))));
  }
  return el("div", {}, ...parts);
}

// The methods that used most CPU time, instrumented or not.
function cpuSummary() {
  const place = Array.from({ length: LISTED }, (_, method) => method);
  const most = place.sort((a, b) => methods.cpu_jdk[b] - methods.cpu_jdk[a]).filter((m) => methods.cpu_jdk[m] > 0);
  const { kernel_ns: inKernel, total_ns: all } = data.cpu;
  const kernel = inKernel === null ? "" : `, ${percent(inKernel, all)} kernel`;
  return [el("h2", {}, `CPU time: ${duration(all)} in ${count(data.cpu.samples)} samples${kernel}, JDK code counts for its caller`),
    shortTable(["method", "CPU with JDK", "of all", "CPU self, 95%", "CPU total"], most.slice(0, 10).map((m) => [methodLink(m),
      duration(methods.cpu_jdk[m]), percent(methods.cpu_jdk[m], all), cpuSelf(m), duration(methods.cpu_total[m])]))];
}

function unfinishedView() {
  if (data.unfinished.length === 0) return el("p", { class: "panel" }, "Every call had ended when recording stopped.");
  const rows = data.unfinished.map((call) => [methodLink(call.method), duration(call.running), duration(call.own),
    clock(call.start / 1e6, 19), el("span", { title: call.under ? "under " + call.under : null }, threadName(call))]);
  const rest = data.unfinished_not_shown;
  return el("div", {}, el("p", { class: "dim" }, "Calls in progress when recording stopped; no other figure includes them." +
    (rest > 0 ? ` ${separated(rest)} more are not in this page.` : "")),
  shortTable(["method", "running", "self", `began (${zone()})`, "thread"], rows));
}

const VIEWS = [
  { id: "summary", name: "Summary", make: summaryView },
  { id: "methods", name: "Methods", make: methodsView },
  { id: "flame", name: "Flame graph", make: flameView },
  { id: "time", name: "Over time", make: timesView },
  { id: "timeline", name: "Slowest calls", make: timelineView },
  { id: "unfinished", name: "Unfinished calls", make: unfinishedView },
];

const main = document.getElementById("main");
const tabs = VIEWS.map((view) => el("button", {
  type: "button", role: "tab", id: "tab-" + view.id, onclick: () => { location.hash = "#" + view.id; },
}, view.name));
document.getElementById("tabs").append(...tabs);
document.getElementById("title").textContent = data.title;
if (data.title !== "") document.title = "Method profile of " + data.title;

function show() {
  hideTip();
  const [name, argument] = location.hash.slice(1).split("=");
  const isMethod = name === "method";
  const view = VIEWS.find((view) => view.id === name) || VIEWS[0];
  tabs.forEach((tab, place) => tab.setAttribute("aria-selected", String(!isMethod && VIEWS[place] === view)));
  const made = isMethod ? methodView(Number(argument)) : view.make();
  main.replaceChildren(made);
  main.scrollTop = 0;
  made.shown?.();
}

const root = document.documentElement;
root.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
document.getElementById("theme").addEventListener("click", () => { root.classList.toggle("dark"); show(); });
addEventListener("hashchange", show);
show();
