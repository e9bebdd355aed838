// Opens a report in headless Chromium and does what a user does: sorts, searches, switches views, zooms. Compares
// what is displayed with the data that the page embeds, which `html.rs` compares with the logs. Any error on the
// console and any request for another resource is a failure.
//
// Usage: node check.mjs MODULES PAGE PICTURES, with MODULES/playwright-core
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { withPage } from "./page.mjs";

const [modules, page, pictures] = process.argv.slice(2);
const wrong = [];
const url = pathToFileURL(page).href;
await withPage(modules, { colorScheme: "light", offline: true }, async (tab) => {
  tab.on("console", (message) => { if (message.type() !== "info" && message.type() !== "log") wrong.push(`console: ${message.text()}`); });
  tab.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  tab.on("request", (request) => { if (!/^(data:|file:)/.test(request.url()) || (request.url().startsWith("file:") && request.url() !== url)) wrong.push(`request: ${request.url()}`); });
  // What charts write beside their axes.
  await tab.addInitScript(() => {
    window.axisTexts = [];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
      if (this.textAlign === "right") window.axisTexts.push([this.canvas, text]);
      return write.call(this, text, ...place);
    };
  });
  await tab.goto(url);
  const packed = await tab.textContent("#data");
  const data = JSON.parse(gunzipSync(Buffer.from(packed, "base64")).toString());
  await tab.waitForSelector("#tab-summary");
  const { methods, paths } = data;
  const label = (method) => [data.classes[methods.class[method]], methods.name[method]].filter((part) => part !== "").join(".");
  const all = methods.calls.map((_, method) => method);
  const names = () => tab.$$eval("#methods tbody a", (links) => links.map((link) => link.textContent));
  const view = async (name) => {
    await tab.click(`#tab-${name}`);
    await tab.waitForFunction((id) => document.getElementById(id).getAttribute("aria-selected") === "true", `tab-${name}`);
    if (pictures) await tab.screenshot({ path: `${pictures}/${name}.png` });
  };
  // The colours in a canvas: a picture with one colour shows nothing.
  const colours = (selector) => tab.$eval(selector, async (canvas) => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 0) found.add(data[i] * 65536 + data[i + 1] * 256 + data[i + 2]);
    return found.size;
  });

  // Summary: what was read, and the hottest methods.
  assert.match(await tab.textContent("main"), /\d runs? of \d JVMs?/);
  if (all.length === 0) {
    assert.ok((await tab.textContent("main")).includes(data.empty));
    for (const name of ["methods", "flame", "time", "timeline", "unfinished"]) await view(name);
    assert.deepEqual(wrong, []);
    return;
  }
  const bySelf = [...all].sort((a, b) => methods.own[b] - methods.own[a]);
  const headed = async (start) => {
    const table = tab.locator(`h2:has-text("${start}") + div table`);
    return table.locator("tbody a").allTextContents();
  };
  assert.equal((await headed("Hottest methods"))[0], label(bySelf[0]));
  assert.deepEqual(await headed("Entry methods"), data.entries.map(label));
  if (data.cpu) {
    const most = [...all].sort((a, b) => methods.cpu_jdk[b] - methods.cpu_jdk[a] || a - b);
    assert.equal((await headed("CPU time"))[0], label(most[0]));
  }
  const summary = await tab.textContent("main");
  for (const { heading, rows } of data.tables) {
    for (const text of [heading, ...rows.flat()]) assert.ok(summary.includes(text), text);
  }
  if (pictures) await tab.screenshot({ path: `${pictures}/summary.png` });

  // Methods: sorted by each column, both ways.
  await view("methods");
  const columns = [["calls", methods.calls], ["throws", methods.throws], ["self", methods.own], ["total", methods.total], ["max", methods.max]];
  if (data.cpu) columns.push(["CPU self", methods.cpu_self], ["CPU total", methods.cpu_total], ["samples", methods.samples]);
  for (const [name, values] of columns) {
    for (const way of ["descending", "ascending"]) {
      const header = tab.locator("#methods th", { hasText: new RegExp(`^${name}$`) });
      await header.getByRole("button").click();
      // Figures are descending at first, and ascending after the next click.
      assert.equal(await header.getAttribute("aria-sort"), way, name);
      const sign = way === "descending" ? -1 : 1;
      const expected = [...all].sort((a, b) => sign * (values[a] - values[b]) || a - b).slice(0, 10).map(label);
      assert.deepEqual((await names()).slice(0, 10), expected, `${name} ${way}`);
    }
  }
  await tab.locator("#methods th", { hasText: /^method$/ }).getByRole("button").click();
  const lower = all.map((method) => label(method).toLowerCase()).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  assert.deepEqual((await names()).slice(0, 10).map((name) => name.toLowerCase()), lower.slice(0, 10));

  // A method that was only sampled has CPU time, with its interval, and no exact figures.
  if (data.cpu && data.measured < all.length) {
    const cells = await tab.$$eval("#methods tbody tr", (rows, name) => {
      const row = rows.find((row) => row.querySelector("a")?.textContent === name);
      return [...row.cells].map((cell) => cell.textContent);
    }, label(data.measured));
    assert.deepEqual(cells.slice(2, 11), Array(9).fill("-"));
    assert.match(cells[11], /^[0-9.]+ \S+ ± [0-9.]+ \S+$/);
    assert.equal(cells[13], methods.samples[data.measured].toLocaleString("en-US"));
  } else if (!data.cpu) assert.equal(await tab.locator("#methods th", { hasText: "CPU" }).count(), 0);

  // Only the visible rows are drawn, and all rows can be reached.
  const drawn = await names();
  assert.ok(drawn.length <= 100, `${drawn.length} rows`);
  await tab.$eval(".scroll", (element) => { element.scrollTop = element.scrollHeight; });
  await tab.waitForFunction((last) => [...document.querySelectorAll("#methods tbody a")].at(-1)?.textContent.toLowerCase() === last, lower.at(-1));

  // Search: each word is in the name.
  const word = methods.name[bySelf[0]].split("(")[0];
  await tab.fill("#search", word.toUpperCase());
  const named = all.filter((method) => label(method).toLowerCase().includes(word.toLowerCase()));
  assert.match(await tab.textContent("#found"), new RegExp(`^${named.length.toLocaleString("en-US")} of `));
  assert.ok((await names()).every((name) => name.toLowerCase().includes(word.toLowerCase())));
  await tab.fill("#search", "no method is called so");
  assert.deepEqual(await names(), []);
  await tab.fill("#search", "");

  // Flame graph: a click zooms to a frame, and there is a way back.
  if (paths.frame.length > 1) {
    await view("flame");
    assert.ok((await colours("#flame")) > 3);
    const height = await tab.$eval("#flame", (canvas) => canvas.clientHeight);
    const widest = paths.total.map((_, path) => path).filter((path) => path !== 0 && paths.parent[path] === 0)
      .sort((a, b) => paths.total[b] - paths.total[a] || a - b)[0];
    await tab.click("#flame", { position: { x: 5, y: 19 + 9 } });
    const frame = data.frames[paths.frame[widest]];
    assert.equal(await tab.textContent("#flame-method"), typeof frame === "number" ? label(frame) : "");
    await tab.getByRole("button", { name: "Whole" }).click();
    assert.equal(await tab.$eval("#flame", (canvas) => canvas.clientHeight), height);
    await tab.getByLabel("Mark methods").fill("(calls");
    await tab.waitForFunction(() => /marked: /.test(document.getElementById("flame-about").textContent));
    // Widths add up: the time of a path is its self time and that of its callees.
    const below = paths.own.slice();
    for (let path = paths.frame.length - 1; path > 0; path--) below[paths.parent[path]] += paths.total[path];
    paths.total.forEach((total, path) => assert.ok(Math.abs(total - below[path]) <= 1e-6 * total + 1, `path ${path}`));
  }

  // Over time, timeline and unfinished calls.
  await view("time");
  if (data.hours.at.length > 0) {
    const allocated = data.hours.allocated.some((bytes) => bytes > 0) ? ["Allocated bytes"] : [];
    for (const measure of [...allocated, "Exceptions", "Self time", "Recorded calls", "Longest call", "Calls"]) {
      await tab.getByRole("button", { name: measure, exact: true }).click();
      assert.equal(await tab.locator(".plain[aria-pressed=true]").textContent(), measure);
      // A click replaces the charts; the earlier ones may be drawn once more.
      const texts = await tab.waitForFunction(() => {
        const shown = window.axisTexts.filter(([canvas]) => canvas.isConnected && ["hours", "minutes"].includes(canvas.id));
        return shown.length > 0 && shown.map(([, text]) => text);
      });
      const isCount = !["Self time", "Longest call", "Allocated bytes"].includes(measure);
      // Large counts have three digits and a unit.
      const whole = /^([0-9,]+|[0-9.]+ [kMGTPE])$/;
      for (const text of await texts.jsonValue()) assert.ok(!isCount || whole.test(text), `${measure}: ${text}`);
    }
    assert.ok((await colours("#hours")) > 2);
    assert.equal(await tab.locator("main tbody tr").count(), data.hours.at.length);
  }
  await view("timeline");
  if (data.threads.length > 0) {
    assert.equal(await tab.locator("#timeline canvas").count(), data.threads.length);
    assert.ok((await colours("#timeline canvas")) > 2);
    const range = await tab.textContent("#range");
    await tab.getByRole("button", { name: "+" }).click();
    assert.notEqual(await tab.textContent("#range"), range);
    await tab.getByRole("button", { name: "Whole" }).click();
    assert.equal(await tab.textContent("#range"), range);
  }
  await view("unfinished");
  assert.equal(await tab.locator("main tbody tr").count(), data.unfinished.length);

  // A method: its figures, histogram, callers and callees; and back.
  await view("methods");
  const link = tab.locator("#methods tbody a").first();
  const name = await link.textContent();
  await link.click();
  assert.equal(await tab.textContent("h2.method"), name);
  assert.match(await tab.textContent("main"), /Callers.*Callees/s);
  const shown = all.find((method) => label(method) === name);
  const hist = methods.hist[shown];
  if (hist) assert.equal(await tab.locator("#histogram i").count(), hist.length / 2);
  if (pictures) await tab.screenshot({ path: `${pictures}/method.png` });
  await tab.goBack();
  assert.equal(await tab.getAttribute("#tab-methods", "aria-selected"), "true");
  await tab.goto(url + "#method=999999999");
  assert.match(await tab.textContent("main"), /no such method/);

  // Dark and light.
  const background = () => tab.$eval("body", (body) => getComputedStyle(body).backgroundColor);
  const light = await background();
  await tab.click("#theme");
  assert.notEqual(await background(), light);
  await view("flame");
  assert.deepEqual(wrong, []);
});
console.log("the page holds");
