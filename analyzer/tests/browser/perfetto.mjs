// Opens a trace in Perfetto's user interface, and prints what its trace processor read: each slice with its thread,
// start, length and depth, and the number of import errors.
//
// Usage: node perfetto.mjs MODULES PERFETTO TRACE
import { serve, withPage } from "./page.mjs";

const [modules, perfetto, trace] = process.argv.slice(2);
const site = await serve(perfetto);
await withPage(modules, {}, async (page) => {
  await page.goto(site.url);
  await page.setInputFiles("input.trace_file", trace, { strict: true });
  await page.waitForFunction(() => window.app?.trace?.engine !== undefined);
  const query = (sql, columns) => page.evaluate(async ([sql, columns]) => {
    const result = await window.app.trace.engine.query(sql);
    const rows = [];
    const row = result.iter(Object.fromEntries(columns.map((column) => [column, null])));
    for (; row.valid(); row.next()) rows.push(columns.map((column) => String(row[column])));
    return rows;
  }, [sql, columns]);
  const slices = await query("select t.name as thread, s.name as name, s.category as category, s.ts as ts, s.dur as dur, s.depth as depth " +
    "from slice s join thread_track k on s.track_id = k.id join thread t using (utid) order by s.ts, s.depth",
  ["thread", "name", "category", "ts", "dur", "depth"]);
  for (const slice of slices) console.log(slice.join("\t"));
  const errors = await query("select ifnull(sum(value), 0) as n from stats where severity = 'error'", ["n"]);
  console.log(`errors\t${errors[0][0]}`);
});
site.close();
