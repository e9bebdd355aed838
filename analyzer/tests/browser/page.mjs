// A page in headless Chromium, for the checks in this folder.
import { createRequire } from "node:module";
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

// Runs `check` on a page of a browser that playwright-core drives, and closes the browser.
export async function withPage(modules, options, check) {
  const { chromium } = createRequire(modules + "/")("playwright-core");
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync"],
  });
  try {
    const page = await (await browser.newContext({ viewport: { width: 1360, height: 900 }, ...options })).newPage();
    page.setDefaultTimeout(60_000);
    await check(page);
  } finally {
    await browser.close();
  }
}

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };

// Serves a folder on a free local port; the result closes it.
export async function serve(folder) {
  const server = createServer((request, answer) => {
    let file = join(folder, normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname)));
    const found = statSync(file, { throwIfNoEntry: false });
    if (found?.isDirectory()) file = join(file, "index.html");
    if (found === undefined) { answer.writeHead(404); answer.end(); return; }
    answer.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
    createReadStream(file).pipe(answer);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
