// Opens a profile in speedscope's page, and prints its table: for each function the total and the self time that
// speedscope computed.
//
// Usage: node speedscope.mjs MODULES PROFILE
import { serve, withPage } from "./page.mjs";

const [modules, profile] = process.argv.slice(2);
const site = await serve(modules + "/speedscope/dist/release");
await withPage(modules, {}, async (page) => {
  page.on("pageerror", (error) => { throw error; });
  await page.goto(site.url);
  await page.setInputFiles("input[type=file]", profile);
  await page.getByText("Sandwich").click();
  await page.waitForSelector("table tr");
  const rows = await page.$$eval("table tr", (rows) => rows.map((row) => [...row.children].map((cell) => cell.innerText.trim())));
  for (const row of rows) console.log(row.join("\t"));
});
site.close();
