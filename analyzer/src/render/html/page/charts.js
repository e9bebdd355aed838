// Charts over time: by hour, and by minute of the displayed time.
const MEASURES = [
  { name: "Calls", of: "calls", text: count },
  { name: "Exceptions", of: "throws", text: count },
  { name: "Self time", of: "own", text: duration },
  { name: "Recorded calls", of: "recorded", text: count },
  { name: "Longest call", of: "max", text: duration },
  { name: "Allocated bytes", of: "allocated", text: byteText },
].filter(({ of }) => of !== "allocated" || data.hours.allocated.some((bytes) => bytes > 0));
const HOUR = 3600e3;
const MINUTE = 60e3;
const CHART = 190;

const chartState = { measure: 0, hour: null };

// Bars for `values` at the moments `at`, each `step` milliseconds wide, from `from` to `to`.
function bars({ id, at, values, step, from, to, text, label, click }) {
  const highest = values.reduce((most, value) => Math.max(most, value), 1);
  // For counts, half of the axis must be a whole number too.
  const isCount = text === count;
  const most = isCount && highest > 1 ? 2 * Math.ceil(highest / 2) : highest;
  const left = 66;
  const bottom = 22;
  const x = (ms, width) => left + ((ms - from) / (to - from)) * (width - left - 6);
  const picture = canvas(CHART, (context, width) => {
    const base = CHART - bottom;
    context.fillStyle = color("--dim");
    context.strokeStyle = color("--line");
    context.textAlign = "right";
    for (const share of isCount && most === 1 ? [0, 1] : [0, 0.5, 1]) {
      const y = base - share * (base - 12);
      context.fillText(text(most * share), left - 6, y);
      context.beginPath();
      context.moveTo(left, y + 0.5);
      context.lineTo(width - 6, y + 0.5);
      context.stroke();
    }
    context.textAlign = "center";
    const ticks = Math.max(1, Math.min(8, Math.round((to - from) / step), Math.floor(width / 120)));
    const every = Math.max(step, Math.ceil((to - from) / ticks / step) * step);
    for (let ms = from; ms < to; ms += every) {
      const place = Math.min(width - 40, Math.max(left + 36, x(ms, width)));
      context.fillText(clock(ms, 16).slice(to - from > 24 * HOUR ? 5 : 11), place, CHART - bottom / 2);
    }
    context.fillStyle = color("--bar");
    at.forEach((ms, place) => {
      const height = (values[place] / most) * (base - 12);
      const wide = Math.max(1, x(ms + step, width) - x(ms, width) - 1);
      if (height > 0) context.fillRect(x(ms, width), base - Math.max(1, height), wide, Math.max(1, height));
    });
  });
  picture.id = id;
  picture.setAttribute("role", "img");
  picture.setAttribute("aria-label", label);
  const found = (event) => {
    const box = picture.getBoundingClientRect();
    const ms = from + ((event.clientX - box.left - left) / (box.width - left - 6)) * (to - from);
    return at.findIndex((start) => ms >= start && ms < start + step);
  };
  picture.addEventListener("mousemove", (event) => {
    const place = found(event);
    picture.style.cursor = click && place >= 0 ? "pointer" : "default";
    if (place < 0) hideTip();
    else showTip(event, `${clock(at[place], 16)} ${zone()}\n${text(values[place])}`);
  });
  picture.addEventListener("mouseleave", hideTip);
  if (click) picture.addEventListener("click", (event) => { const place = found(event); if (place >= 0) click(at[place]); });
  return picture;
}

// Bars of a table of hours or minutes; those from `from` to `to` where these are given.
function chart(id, times, step, measure, options) {
  const chosen = times.at.map((_, place) => place)
    .filter((place) => options.from === undefined || (times.at[place] >= options.from && times.at[place] < options.to));
  const at = chosen.map((place) => times.at[place]);
  return bars({
    id, at, step, values: chosen.map((place) => times[measure.of][place]), text: measure.text,
    // A few bars are not stretched to fill the width.
    from: options.from ?? at[0], to: options.to ?? Math.max(at[at.length - 1] + step, at[0] + 6 * step),
    label: options.label, click: options.click,
  });
}

function timesView() {
  if (data.hours.at.length === 0) return el("p", { class: "panel" }, "These logs do not tell what happened when, or of too many hours.");
  const view = el("div", {});
  const busiest = data.hours.at[data.hours.own.indexOf(data.hours.own.reduce((most, own) => Math.max(most, own), 0))];
  chartState.hour ??= busiest;

  function fill() {
    const measure = MEASURES[chartState.measure];
    const choice = MEASURES.map((other, place) => el("button", {
      type: "button", class: "plain", "aria-pressed": String(place === chartState.measure),
      onclick: () => { chartState.measure = place; fill(); },
    }, other.name));
    const isShort = data.hours.at[data.hours.at.length - 1] - data.hours.at[0] < 3 * HOUR;
    const parts = [el("div", { class: "tools" }, ...choice)];
    parts.push(el("h2", {}, `${measure.name} by hour`), chart("hours", data.hours, HOUR, measure, {
      label: `${measure.name} by hour`,
      click: data.minutes.at.length > 0 && !isShort ? (hour) => { chartState.hour = hour; fill(); } : null,
    }));
    if (data.minutes.at.length > 0) {
      const range = isShort ? {} : { from: chartState.hour, to: chartState.hour + HOUR };
      const of = isShort ? "" : ` of the hour from ${clock(chartState.hour, 16)}`;
      const label = `${measure.name} by minute${of}`;
      parts.push(el("h2", {}, label), chart("minutes", data.minutes, MINUTE, measure, { ...range, label }));
      if (!isShort) parts.push(el("p", { class: "dim" }, "Click an hour to see its minutes."));
    } else parts.push(el("p", { class: "dim" }, "There are too many minutes for this page; --from and --to select some."));
    parts.push(el("h2", {}, "Hours compared"), hoursTable());
    if (data.partial_methods > 0) {
      parts.push(el("p", { class: "dim" }, "Without methods that were throttled or muted for part of the time, " +
        `which would look like a change: ${data.partial_methods}`));
    }
    parts.push(el("p", { class: "dim" }, `Times are ${zone()}. Calls, exceptions and self time are of intervals of a minute ` +
      "(longer ones where the log says so), recorded calls of the minute in which they ended."));
    view.replaceChildren(...parts);
  }

  view.shown = fill;
  return view;
}

function hoursTable() {
  const { at, calls, throws, own, recorded, max } = data.hours;
  const heads = ["hour", "calls", "throws", "self", "self / call", "recorded", "longest"];
  const rows = at.map((ms, hour) => [clock(ms, 16), count(calls[hour]), count(throws[hour]), duration(own[hour]),
    calls[hour] > 0 ? duration(Math.floor(own[hour] / calls[hour])) : "-", count(recorded[hour]), duration(max[hour])]);
  return shortTable(heads, rows);
}
