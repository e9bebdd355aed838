// The table of methods: sorted and searched as a whole, drawn only where visible.
const ROW = 27;

const selfOfAll = sum(methods.own) + data.not_shown.own;

// A method's calls, with a sign if it was throttled or muted part of the time, and its share of the self time, with a
// sign if that is mostly the probes' time.
const SIGN = [
  methods.partial.some((is) => is) ? "+: at least so many calls; the method was throttled or muted for part of the time" : "",
  methods.mostly_probe.some((is) => is) ? "~: at least half of this self time is spent in probes (an estimate)" : "",
  methods.recursive.some((is) => is) ? "*: too low: the method calls itself, and its total time has only the outermost calls" : "",
].filter((sign) => sign !== "").join("; ");

function callsOf(method) {
  return (method < MEASURED ? count(methods.calls[method]) : "-") + (methods.partial[method] ? "+" : "");
}

function averageOf(method) {
  return duration(average(method)) + (methods.recursive[method] ? "*" : "");
}

function shareOf(method) {
  return percent(methods.own[method], selfOfAll) + (methods.mostly_probe[method] ? "~" : "");
}

// CPU time in a method by samples, and half of its 95% interval: the normal approximation of the binomial.
function cpuSelf(method) {
  const own = duration(methods.cpu_self[method]);
  if (methods.samples[method] === 0) return own;
  const share = methods.samples[method] / data.cpu.samples;
  const margin = 1.96 * Math.sqrt(share * (1 - share) / data.cpu.samples) * data.cpu.total_ns;
  return `${own} ± ${duration(margin)}`;
}

const CPU_COLUMNS = [
  { name: "CPU self", text: cpuSelf, by: (m) => methods.cpu_self[m], title: "± is half of the 95% interval" },
  { name: "CPU total", text: (m) => duration(methods.cpu_total[m]), by: (m) => methods.cpu_total[m] },
  { name: "samples", text: (m) => count(methods.samples[m]), by: (m) => methods.samples[m] },
];

const COLUMNS = [
  { name: "method", text: methodLabel, by: (m) => methodLabel(m).toLowerCase(), rising: true },
  { name: "calls", text: callsOf, by: (m) => methods.calls[m] },
  { name: "throws", text: (m) => count(methods.throws[m]), by: (m) => methods.throws[m] },
  { name: "total", text: (m) => duration(methods.total[m]), by: (m) => methods.total[m] },
  { name: "self", text: (m) => duration(methods.own[m]), by: (m) => methods.own[m] },
  { name: "self %", text: shareOf, by: (m) => methods.own[m] },
  { name: "avg", text: averageOf, by: average },
  { name: "max", text: (m) => duration(methods.max[m]), by: (m) => methods.max[m] },
  { name: "p50", text: (m) => duration(methods.p50[m]), by: (m) => methods.p50[m] ?? -1 },
  { name: "p95", text: (m) => duration(methods.p95[m]), by: (m) => methods.p95[m] ?? -1 },
  { name: "p99", text: (m) => duration(methods.p99[m]), by: (m) => methods.p99[m] ?? -1 },
  ...(data.cpu ? CPU_COLUMNS : []),
];

// A method that was only sampled has no exact figures.
function cellOf(column, place, method) {
  if (place === 0) return methodLink(method);
  const isKnown = method < MEASURED || column.text === callsOf || CPU_COLUMNS.includes(column);
  return isKnown ? column.text(method) : "-";
}

function average(method) {
  return methods.calls[method] > 0 ? Math.floor(methods.total[method] / methods.calls[method]) : 0;
}

// The state of the table; kept while other views are shown.
const tableState = { column: 4, rising: false, search: "", top: 0 };
let lowered = null;

// The methods that the search matches, in their order.
function tableRows() {
  const column = COLUMNS[tableState.column];
  const keys = Array.from({ length: LISTED }, (_, method) => column.by(method));
  const words = tableState.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  lowered ??= Array.from({ length: LISTED }, (_, method) => methodLabel(method).toLowerCase());
  const rows = [];
  for (let m = 0; m < LISTED; m++) if (words.every((word) => lowered[m].includes(word))) rows.push(m);
  const way = tableState.rising ? 1 : -1;
  rows.sort((a, b) => (keys[a] < keys[b] ? -way : keys[a] > keys[b] ? way : a - b));
  return rows;
}

function methodsView() {
  let rows = tableRows();
  const body = el("tbody");
  const heads = COLUMNS.map((column, place) =>
    el("th", { scope: "col", title: column.title }, el("button", { type: "button", onclick: () => sortBy(place) }, column.name)));
  const scroll = el("div", { class: "scroll", tabindex: "0", onscroll: drawRows },
    el("table", { id: "methods" }, el("thead", {}, el("tr", {}, ...heads)), body));
  const found = el("span", { class: "dim", id: "found", "aria-live": "polite" });
  const search = el("input", {
    type: "search", id: "search", placeholder: "Search: words of a class or method", value: tableState.search,
    "aria-label": "Search methods",
    oninput: () => { tableState.search = search.value; refresh(); },
  });

  function sortBy(place) {
    const isSame = tableState.column === place;
    tableState.rising = isSame ? !tableState.rising : COLUMNS[place].rising === true;
    tableState.column = place;
    refresh();
  }

  function refresh() {
    rows = tableRows();
    scroll.scrollTop = 0;
    drawRows();
  }

  function drawRows() {
    tableState.top = scroll.scrollTop;
    heads.forEach((head, place) => {
      if (place === tableState.column) head.setAttribute("aria-sort", tableState.rising ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 10);
    const last = Math.min(rows.length, first + Math.ceil((scroll.clientHeight || 600) / ROW) + 20);
    const gap = (count) => {
      const cell = el("td", { colspan: COLUMNS.length });
      cell.style.height = count * ROW + "px";
      return el("tr", { class: "gap", "aria-hidden": "true" }, cell);
    };
    const shown = rows.slice(first, last).map((method) =>
      el("tr", {}, ...COLUMNS.map((column, place) =>
        el("td", {}, cellOf(column, place, method)))));
    body.replaceChildren(gap(first), ...shown, gap(rows.length - last));
    const rest = data.not_shown.methods;
    found.textContent = `${separated(rows.length)} of ${separated(LISTED)} methods` +
      (rest > 0 ? `; ${separated(rest)} more, with ${percent(data.not_shown.own, selfOfAll)} of self time, are not in this page` : "") +
      (data.not_shown.only_sampled > 0 ? `; ${separated(data.not_shown.only_sampled)} that were only sampled are not in this page` : "");
  }

  const view = el("div", { class: "fill" }, el("div", { class: "tools" }, search, found, el("span", { class: "dim" }, SIGN)), scroll);
  view.shown = () => { scroll.scrollTop = tableState.top; drawRows(); };
  return view;
}

// A small table of methods and some figures of each.
function shortTable(heads, rows) {
  return el("div", { class: "wrap" }, el("table", { class: "short" },
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell, column) =>
      typeof cell === "string" && cell.length > (column === 0 ? 45 : 100) ? el("td", { class: "long" }, el("div", {}, cell)) : el("td", {}, cell)))))));
}
