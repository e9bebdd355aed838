// The report's data, and functions that format its figures as `analyze` does.
const data = await unpacked(document.getElementById("data").textContent);
const methods = data.methods;
const paths = data.paths;
// Methods with exact figures come first, then those that were only sampled, then those with only a name.
const MEASURED = data.measured;
const LISTED = methods.calls.length;

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  if (typeof DecompressionStream === "undefined") {
    document.getElementById("main").textContent = "This page needs a browser of the year 2023 or newer.";
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function methodLabel(method) {
  const name = data.classes[methods.class[method]];
  return name === "" ? methods.name[method] : name + "." + methods.name[method];
}

// The class without its package, and the method.
function shortLabel(method) {
  const name = data.classes[methods.class[method]];
  const simple = name.slice(name.lastIndexOf(".") + 1);
  return simple === "" ? methods.name[method] : simple + "." + methods.name[method];
}

// What a frame is: the index of a method, or a label.
function frameOf(path) {
  return data.frames[paths.frame[path]];
}

function frameLabel(frame) {
  return typeof frame === "number" ? methodLabel(frame) : frame;
}

const UNITS = [["ns", 1, 1e3], ["us", 1e3, 1e3], ["ms", 1e6, 1e3], ["s", 1e9, 60], ["min", 60e9, 60],
  ["h", 3600e9, 24], ["d", 86400e9, Infinity]];

function threeDigits(value) {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

function duration(ns) {
  if (ns === null || ns === undefined) return "-";
  if (ns < 1e3) return Math.round(ns) + " ns";
  const [unit, length] = UNITS.find(([, length, ofNext]) => ns / length < ofNext * 0.9995);
  return threeDigits(ns / length) + " " + unit;
}

function separated(number) {
  return number.toLocaleString("en-US");
}

function count(number) {
  return number < 1e7 ? separated(number) : inThousands(number, ["", " k", " M", " G", " T", " P", " E"]);
}

function byteText(number) {
  if (number < 1e3) return Math.round(number) + " bytes";
  return inThousands(number, [" bytes", " kB", " MB", " GB", " TB", " PB", " EB"]);
}

// In the largest fitting unit, each a thousand times the last.
function inThousands(number, units) {
  let unit = 0;
  for (; number >= 999.5 && unit + 1 < units.length; unit++) number /= 1e3;
  return threeDigits(number) + units[unit];
}

function percent(part, whole) {
  return (whole > 0 ? (part / whole) * 100 : 0).toFixed(1) + "%";
}

// How far clocks are ahead of UTC at a moment, in milliseconds.
function offset(unixMs) {
  let found = data.offsets.length > 0 ? data.offsets[0][1] : 0;
  for (const [from, seconds] of data.offsets) if (from <= unixMs) found = seconds;
  return found * 1000;
}

// A thread, with its run if there are several: names and ids of threads hold for one run.
function threadName(of) {
  return (of.name ?? of.thread) + (data.many_runs ? ` in ${of.run}` : "");
}

// A moment, in milliseconds after the base, as a clock shows it; `digits` of its text.
function clock(ms, digits) {
  const at = data.base_ms + ms;
  return new Date(at + offset(at)).toISOString().slice(0, digits).replace("T", " ");
}

function zone() {
  return data.is_utc ? "UTC" : "local time";
}

function sum(column) {
  return column.reduce((all, value) => all + value, 0);
}

// An element. Text is never parsed as HTML: a name in a log may be anything.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const tip = document.getElementById("tip");

function showTip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = Math.min(event.clientX + 14, innerWidth - width - 8);
  const above = event.clientY + 18 + height > innerHeight;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (above ? Math.max(8, event.clientY - height - 10) : event.clientY + 18) + "px";
}

function hideTip() {
  tip.hidden = true;
}

// A canvas as wide as its place, sharp on every screen. `draw` gets its context and width.
function canvas(height, draw) {
  const element = el("canvas", { tabindex: "-1" });
  element.style.height = height + "px";
  element.redraw = () => {
    const width = element.clientWidth;
    if (width === 0) return;
    const scale = devicePixelRatio || 1;
    element.width = Math.round(width * scale);
    element.height = Math.round(parseFloat(element.style.height) * scale);
    const context = element.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    draw(context, width);
  };
  new ResizeObserver(element.redraw).observe(element);
  return element;
}

function methodLink(method, label) {
  const name = data.classes[methods.class[method]];
  const link = el("a", { href: "#method=" + method, title: methodLabel(method) });
  if (label) link.append(label);
  else link.append(el("span", { class: "dim" }, name === "" ? "" : name + "."), methods.name[method]);
  return link;
}
