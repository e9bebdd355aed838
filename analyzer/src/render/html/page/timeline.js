// The slowest calls of each thread on a common time axis, callees below their callers.
const CALL = 13;
const LANES = 12;
const HEADING = 18;

const timelineState = { from: null, to: null };

// The calls of a thread, each with its row: below the call that contains it.
function lanes(thread) {
  const until = [];
  return thread.start.map((start, place) => {
    const end = start + thread.total[place];
    while (until.length > 0 && (until[until.length - 1] <= start || until[until.length - 1] < end)) until.pop();
    until.push(end);
    return { place, start, end, row: Math.min(LANES, until.length) - 1 };
  });
}

const threadLanes = data.threads.map(lanes);

function callText(thread, place) {
  const exit = { throw: ", ended with an exception", unfinished: ", unfinished" }[thread.exit[place]] || "";
  return `${methodLabel(thread.method[place])}\n${duration(thread.total[place])}${exit}, ${duration(thread.own[place])} its own\n` +
    `from ${clock(thread.start[place] / 1e6, 23)} ${zone()}\nthread ${threadName(thread)}` +
    (thread.under[place] ? `\nunder ${thread.under[place]}` : "");
}

function timelineView() {
  if (data.threads.length === 0) return el("p", { class: "panel" }, "No recorded call is selected.");
  const first = Math.min(...threadLanes.map((calls) => calls[0].start));
  const last = Math.max(...threadLanes.map((calls) => Math.max(...calls.map((call) => call.end))));
  const all = { from: first, to: Math.max(last, first + 1000) };
  const view = el("div", {});
  const range = el("span", { class: "dim", id: "range" });
  const pictures = [];

  function look(from, to) {
    timelineState.from = from;
    timelineState.to = to;
    range.textContent = `${clock(from / 1e6, 23)} to ${clock(to / 1e6, 23)} ${zone()}, ${duration(to - from)}`;
    pictures.forEach((picture) => picture.redraw());
  }

  function scaled(by) {
    const middle = (timelineState.from + timelineState.to) / 2;
    const half = Math.max(5e3, ((timelineState.to - timelineState.from) / 2) * by);
    look(Math.max(all.from, middle - half), Math.min(all.to, middle + half));
  }

  function moved(by) {
    const length = timelineState.to - timelineState.from;
    const from = Math.min(Math.max(all.from, timelineState.from + by * length), Math.max(all.from, all.to - length));
    look(from, Math.min(all.to, from + length));
  }

  function lane(thread, calls) {
    const height = HEADING + CALL * (1 + Math.max(...calls.map((call) => call.row)));
    let drawn = [];
    let pressed = null;
    const picture = canvas(height, (context, width) => {
      const { from, to } = timelineState;
      drawn = [];
      context.strokeStyle = color("--line");
      context.strokeRect(0, 0.5, width, 0);
      context.fillStyle = color("--dim");
      context.fillText(threadName(thread), 2, HEADING / 2);
      for (const { place, start, end, row } of calls) {
        if (end < from || start > to) continue;
        const x = ((start - from) / (to - from)) * width;
        const wide = Math.max(2, ((end - start) / (to - from)) * width);
        const left = Math.max(0, x);
        const right = Math.min(width, x + wide);
        const y = HEADING + row * CALL;
        const isThrow = thread.exit[place] === "throw";
        context.fillStyle = isThrow ? color("--bad") : frameColor(thread.method[place]);
        context.fillRect(left, y, Math.max(2, right - left - 0.5), CALL - 1);
        drawn.push({ left, right: Math.max(right, left + 2), y, place });
        if (right - left > 50) {
          context.fillStyle = isThrow ? color("--back") : color("--text");
          context.save();
          context.beginPath();
          context.rect(left, y, right - left - 3, CALL);
          context.clip();
          context.fillText(shortLabel(thread.method[place]), left + 3, y + CALL / 2);
          context.restore();
        }
      }
      if (pressed !== null && pressed.now !== pressed.at) {
        context.fillStyle = color("--accent");
        context.globalAlpha = 0.25;
        context.fillRect(Math.min(pressed.at, pressed.now), 0, Math.abs(pressed.now - pressed.at), height);
      }
    });
    const found = (x, y) => drawn.findLast((call) => x >= call.left - 1 && x <= call.right + 1 && y >= call.y && y < call.y + CALL);
    picture.addEventListener("mousedown", (event) => { pressed = { at: event.offsetX, now: event.offsetX }; });
    picture.addEventListener("mousemove", (event) => {
      if (pressed !== null) { pressed.now = event.offsetX; picture.redraw(); }
      const call = found(event.offsetX, event.offsetY);
      picture.style.cursor = call ? "pointer" : "crosshair";
      if (call) showTip(event, callText(thread, call.place));
      else hideTip();
    });
    picture.addEventListener("mouseleave", () => { hideTip(); pressed = null; picture.redraw(); });
    picture.addEventListener("mouseup", (event) => {
      if (pressed === null) return;
      const { at } = pressed;
      pressed = null;
      const call = found(event.offsetX, event.offsetY);
      if (Math.abs(event.offsetX - at) > 4) {
        const ns = (x) => timelineState.from + (x / picture.clientWidth) * (timelineState.to - timelineState.from);
        const [from, to] = [at, event.offsetX].map(ns).sort((a, b) => a - b);
        look(from, Math.max(to, from + 1e4));
      } else if (call) location.hash = "#method=" + thread.method[call.place];
    });
    picture.addEventListener("dblclick", () => look(all.from, all.to));
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", "Slowest calls of " + thread.name);
    return picture;
  }

  data.threads.forEach((thread, place) => pictures.push(lane(thread, threadLanes[place])));
  const button = (text, title, click) => el("button", { type: "button", class: "plain", title, onclick: click }, text);
  view.append(
    el("div", { class: "tools" }, button("Whole", "The whole time", () => look(all.from, all.to)),
      button("+", "Closer", () => scaled(0.5)), button("−", "Further away", () => scaled(2)),
      button("‹", "Earlier", () => moved(-0.5)), button("›", "Later", () => moved(0.5)), range),
    el("p", { class: "dim" }, `The slowest recorded calls, at most ${separated(data.of_a_thread)} of a thread, of the threads that have the slowest ones: ${separated(data.threads.length)}. ` +
      "Calls that ended with an exception are red. Drag over a time to see it closer."),
    el("div", { id: "timeline" }, ...pictures));
  view.shown = () => look(timelineState.from ?? all.from, timelineState.to ?? all.to);
  return view;
}
