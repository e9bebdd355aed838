// The flame graph of the recorded calls, callers on top. A frame is as wide as its time. Its callees are below it;
// beside them, a frame of its own shows the time of callees that were not recorded.
const FRAME = 19;
const FRAMES_DEEP = 200;

// The paths below each path, those with most time first.
const below = (() => {
  const below = paths.frame.map(() => []);
  for (let path = 1; path < paths.frame.length; path++) below[paths.parent[path]].push(path);
  for (const list of below) list.sort((a, b) => paths.total[b] - paths.total[a] || a - b);
  return below;
})();

// Paths with recorded calls; the other rows are callers, and time of calls that were not recorded.
const recordedPaths = paths.calls.filter((calls) => calls > 0).length;

const flameState = { root: 0, search: "" };

function frameColor(frame) {
  if (typeof frame !== "number") return document.documentElement.classList.contains("dark") ? "#4a4f59" : "#cfd3da";
  const name = data.classes[methods.class[frame]];
  const pack = name.slice(0, Math.max(0, name.lastIndexOf(".")));
  let hash = 7;
  for (const c of pack) hash = (hash * 31 + c.codePointAt(0)) % 3600;
  const shade = (methods.name[frame].length * 7) % 12;
  const isDark = document.documentElement.classList.contains("dark");
  return `hsl(${hash / 10} ${isDark ? 38 : 62}% ${isDark ? 32 + shade / 2 : 72 + shade / 2}%)`;
}

function flameView() {
  if (paths.frame.length < 2) {
    return el("p", { class: "panel" }, "No recorded call is selected, so there are no call paths to draw.");
  }
  let rows = [];
  const about = el("span", { class: "dim", id: "flame-about" });
  const search = el("input", {
    type: "search", placeholder: "Mark: words of a class or method", value: flameState.search,
    "aria-label": "Mark methods", oninput: () => { flameState.search = search.value; picture.redraw(); },
  });
  const back = el("button", { type: "button", class: "plain", onclick: () => zoom(0) }, "Whole");
  const open = el("a", { id: "flame-method" });

  // The frames to draw, by depth, with their left edge and width as shares of the whole.
  function layout() {
    rows = [];
    const root = flameState.root;
    const callers = [];
    for (let path = root; path !== 0; path = paths.parent[path]) callers.push(paths.parent[path]);
    for (const path of callers.reverse()) rows.push([{ path, left: 0, width: 1 }]);
    let level = [{ path: root, left: 0, width: 1 }];
    const whole = paths.total[root];
    let isCut = false;
    while (level.length > 0) {
      rows.push(level);
      isCut = rows.length >= callers.length + FRAMES_DEEP;
      if (isCut) break;
      const next = [];
      for (const { path, left } of level) {
        let at = left;
        for (const child of below[path]) {
          const width = whole > 0 ? paths.total[child] / whole : 0;
          if (width > 1e-5) next.push({ path: child, left: at, width });
          at += width;
        }
      }
      level = next;
    }
    return isCut;
  }

  function draw(context, width) {
    const words = flameState.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const isMarked = (path) => words.length > 0 &&
      words.every((word) => frameLabel(frameOf(path)).toLowerCase().includes(word));
    const text = color("--text");
    rows.forEach((frames, depth) => {
      for (const { path, left, width: share } of frames) {
        const x = left * width;
        const wide = share * width;
        if (wide < 0.4) continue;
        const frame = frameOf(path);
        context.fillStyle = isMarked(path) ? color("--mark") : frameColor(frame);
        context.fillRect(x, depth * FRAME, Math.max(0.4, wide - 0.6), FRAME - 1);
        if (wide > 34) {
          context.fillStyle = text;
          const label = path === 0 ? "all recorded calls" : typeof frame === "number" ? shortLabel(frame) : frame;
          context.save();
          context.beginPath();
          context.rect(x, depth * FRAME, wide - 4, FRAME);
          context.clip();
          context.fillText(label, x + 4, depth * FRAME + FRAME / 2);
          context.restore();
        }
      }
    });
    const marked = words.length > 0 ? markedTime(isMarked) : null;
    about.textContent = `${duration(paths.total[flameState.root])} in ${separated(recordedPaths)} call paths` +
      (marked === null ? "" : `; marked: ${duration(marked)}, ${percent(marked, paths.total[0])} of all`);
  }

  // The time of marked frames; those within others do not count again.
  function markedTime(isMarked) {
    const within = new Uint8Array(paths.frame.length);
    let ns = 0;
    for (let path = 1; path < paths.frame.length; path++) {
      const isInner = within[paths.parent[path]] === 1;
      if (isInner || isMarked(path)) within[path] = 1;
      if (!isInner && within[path] === 1) ns += paths.total[path];
    }
    return ns;
  }

  function at(event) {
    const box = picture.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const frames = rows[Math.floor((event.clientY - box.top) / FRAME)] || [];
    return frames.find(({ left, width }) => share >= left && share < left + width);
  }

  function zoom(path) {
    flameState.root = path;
    const isCut = layout();
    picture.style.height = rows.length * FRAME + "px";
    const frame = frameOf(path);
    open.textContent = path !== 0 && typeof frame === "number" ? methodLabel(frame) : "";
    if (typeof frame === "number") open.href = "#method=" + frame;
    deeper.hidden = !isCut;
    picture.redraw();
  }

  const deeper = el("p", { class: "dim", hidden: "" }, "Deeper calls are seen when one of the lower frames is clicked.");
  const picture = canvas(FRAME, draw);
  picture.id = "flame";
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", "Flame graph of the recorded calls");
  picture.addEventListener("mousemove", (event) => {
    const found = at(event);
    picture.style.cursor = found ? "pointer" : "default";
    if (!found) return hideTip();
    const { path } = found;
    const calls = paths.calls[path];
    showTip(event, `${path === 0 ? "all recorded calls" : frameLabel(frameOf(path))}\n` +
      `${duration(paths.total[path])}, ${percent(paths.total[path], paths.total[0])} of all` +
      (calls > 0 ? `\n${count(calls)} recorded ${calls === 1 ? "call" : "calls"}, ${duration(paths.own[path])} its own` : ""));
  });
  picture.addEventListener("mouseleave", hideTip);
  picture.addEventListener("click", (event) => {
    const found = at(event);
    if (found) { hideTip(); zoom(found.path); }
  });
  const view = el("div", {}, el("div", { class: "tools" }, search, back, about), el("p", {}, open),
    el("div", { class: "flame" }, picture), deeper,
    el("p", { class: "dim" }, "Recorded calls only, callers on top. Click a frame to see it as the whole." +
      (data.paths_cut ? " Only the call paths with most time are here; (smaller paths) is the time of the others." : "")));
  view.shown = () => zoom(flameState.root);
  return view;
}
