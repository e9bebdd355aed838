//! However many threads read a run, in blocks of whatever size: the result is that of reading it line
//! by line, as it is written down here once more in the simplest way. The logs are made from seeds and
//! have everything in them that a log should not have.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use log_format::names::Table;
use log_format::pattern::Pattern;
use log_format::rows::{CallRow, CounterRow, Exit, StatsRow};

use crate::aggregate::{Figures, Group, Totals};
use crate::call_tree::PathSums;
use crate::input::{RunInput, discover};
use crate::minutes::Minutes;
use crate::names::{Callers, Names, PathKind};
use crate::options::{By, CallFilter, Format, Options};
use crate::parallel::Pace;
use crate::problems::Problems;
use crate::recorded_time::RecordedTime;
use crate::run_data::{Counts, OpenCall, RunData, Selection, read_run_at, recorded_call};
use crate::slow_calls::{RecordedCall, SlowestByThread};
use crate::table::read_rows;
use crate::time_range::TimeRange;

const S: u64 = 1_000_000_000;
/// 2026-11-20T14:00:00Z.
const T14: u64 = 1_795_183_200 * S;

/// Numbers that look random; the same ones for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_of<'a>(&mut self, texts: &[&'a str]) -> &'a str {
        texts[usize::try_from(self.below(texts.len() as u64)).unwrap()]
    }
}

fn calls(random: &mut Random, start_ns: u64, rows: u64) -> String {
    let header = random.one_of(&[
        "start_ns,thread,stack,method,total_ns,self_ns,exit",
        "start_ns,thread,stack,method,total_ns,self_ns,exit",
        "start_ns,thread,stack,method,total_ns,self_ns,exit,place,weather",
        "exit,start_ns,thread,weather,stack,method,total_ns,self_ns",
        "\"start_ns\",thread,stack,method,total_ns,self_ns,exit\r",
    ]);
    let mut text = format!("{header}\n");
    let mut open: Vec<(u64, u64, u64)> = Vec::new();
    for row in 0..rows {
        let fresh =
            (start_ns + row * S + random.below(S), 1 + random.below(6), 1 + random.below(9));
        // Some rows are of calls that were open, and some of those are open again.
        let of_open = usize::try_from(random.below(8)).unwrap();
        let key = if of_open < 2 { open.iter().rev().nth(of_open).copied() } else { None };
        let (start, thread, method) = key.unwrap_or(fresh);
        let exit = match random.below(if key.is_some() { 3 } else { 16 }) {
            0 => "open",
            1 => "throw",
            _ => "return",
        };
        if exit == "open" {
            open.push((start, thread, method));
        }
        let bits = 1 + random.below(40);
        let total = random.below(1 << bits);
        let own = random.below(total + 1);
        let stack = random.below(12);
        let columns = |name: &str| match name {
            "start_ns" => start.to_string(),
            "thread" => thread.to_string(),
            "stack" => stack.to_string(),
            "method" => method.to_string(),
            "total_ns" => total.to_string(),
            "self_ns" => own.to_string(),
            "exit" => exit.to_owned(),
            _ => "up".to_owned(),
        };
        let names = header.trim_end().split(',').map(|name| columns(name.trim_matches('"')));
        let line = names.collect::<Vec<_>>().join(",");
        text.push_str(&spoiled(random, line));
    }
    text
}

/// A line with its end, and now and then something that should not be there.
fn spoiled(random: &mut Random, line: String) -> String {
    match random.below(40) {
        0 => format!("{line}\r\n"),
        1 => format!("\"{}\n", line.replacen(',', "\",", 1)),
        2 => format!("{line},7\n"),
        3 => line.replacen(',', ",-", 1) + "\n",
        4 => line.replacen(',', ",+", 1) + "\n",
        5 => line.replacen(',', ",99999999999999999999", 1) + "\n",
        6 => format!("{}\n", &line[..line.len() / 2]),
        7 => format!("{line}{line}\n"),
        8 => format!("\n{line}\n"),
        9 => format!("\"opened and not closed\n{line}\n"),
        10 => line.replace("open", "\"op\"en") + "\n",
        11 => line.replace("return", "up") + "\n",
        12 => format!("p p p\n{line}\n"),
        _ => line + "\n",
    }
}

fn stats(random: &mut Random, start_ns: u64, rows: u64) -> String {
    let mut text = String::from("start_ns,method,calls,throws,total_ns,self_ns,max_ns,hist\n");
    for row in 0..rows {
        let (at, method) = (start_ns + row / 9 * 60 * S, 1 + random.below(9));
        let bits = 1 + random.below(40);
        let n = random.below(1 << bits);
        let hist =
            random.one_of(&["", "0:1", "3:4;27:99999;30:1", "30:1;3:4", "3:", "117:1", "3:1;"]);
        text.push_str(&spoiled(random, format!("{at},{method},{n},0,{n},{n},{n},{hist}")));
    }
    text
}

fn write_run(folder: &Path, seed: u64) {
    let mut random = Random(seed);
    let file = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    file("run.json", r#"{"format_version": 1, "host": "web"}"#);
    let mut methods = String::from("id,loader,class,method,descriptor,source,line\n");
    for id in 1..=7 {
        let _ = writeln!(methods, "{id},app,com.shop.C{},m{id},()V,,0", id % 3);
    }
    file("20261120T14Z.methods.csv", &methods);
    file("20261120T14Z.threads.csv", "id,java_id,os_id,name,kind\n1,1,1,main,platform\n");
    let mut stacks = String::from("id,parent,method\n");
    for id in 1..=9 {
        let _ = writeln!(stacks, "{id},{},{}", random.below(id), 1 + id % 4);
    }
    file("20261120T14Z.stacks.csv", &stacks);
    for (hour, at) in [("20261120T14Z", T14), ("20261120T15Z", T14 + 3_600 * S)] {
        let rows = 1 + random.below(400);
        let mut text = calls(&mut random, at, rows);
        if random.below(2) == 0 {
            text.truncate(text.trim_end().len());
        }
        if hour.ends_with("14Z") && random.below(3) == 0 {
            let to = fs::File::create(folder.join(format!("{hour}.calls.csv.gz"))).unwrap();
            let mut gz = flate2::write::GzEncoder::new(to, flate2::Compression::fast());
            gz.write_all(text.as_bytes()).unwrap();
            gz.finish().unwrap();
        } else {
            file(&format!("{hour}.calls.csv"), &text);
        }
        file(&format!("{hour}.stats.csv"), &stats(&mut random, at, rows / 2));
        let counters = format!("start_ns,name,value\n{at},threshold_ns,1000000\n{at},records,7\n");
        file(&format!("{hour}.counters.csv"), &counters);
    }
}

/// Everything that can be told of a run's data, in an order of its own.
fn told(data: &RunData, problems: &Problems) -> String {
    let mut totals: Vec<String> = Vec::new();
    for (group, methods) in data.totals.clone().into_groups() {
        let of_group = methods.into_iter().map(|(method, f)| format!("{group:?} {method:?} {f:?}"));
        totals.extend(of_group);
    }
    totals.sort();
    let mut open: Vec<String> = data.open.iter().map(|call| format!("{call:?}")).collect();
    open.sort();
    let threads: BTreeMap<_, _> = data.thread_names.iter().collect();
    let recursion: BTreeMap<_, _> = data.recursion.iter().collect();
    format!(
        "{totals:#?}\n{open:#?}\n{threads:?}\n{:?}\n{recursion:?}\n{:?}\n{:#?}\n{}\n{:#?}",
        data.tree.nodes(),
        data.minutes.clone().finish(),
        data.slow,
        told_counts(&data.counts, data.recorded.ns(&log_format::run::Run::default())),
        (problems.messages(), problems.torn_lines(), problems.bad_lines(), problems.all_unread()),
    )
}

fn told_counts(counts: &Counts, recorded_ns: u64) -> String {
    format!("{counts:?} {recorded_ns}")
}

/// The same by reading line by line.
fn reference(run: &RunInput, selection: &Selection) -> (RunData, Problems) {
    let mut problems = Problems::default();
    let names = Names::read(run, &mut problems);
    let selected = selection.method.as_ref().map(|pattern| names.ids_named_by(pattern));
    let (mut totals, mut paths) = (Totals::<u32>::default(), PathSums::default());
    let mut counts = Counts::default();
    let mut recorded = RecordedTime::default();
    let mut unknown = HashSet::new();
    let (mut minutes, mut slowest) = (Minutes::default(), SlowestByThread::default());
    let mut open: HashMap<(u32, u64, u32), CallRow> = HashMap::new();
    let takes_method = |id| selected.as_ref().is_none_or(|ids| ids.contains(&id));
    let group = |at_ns: u64, thread| match selection.by {
        By::Hour => Group::Hour(log_format::names::Hour::of_unix_ns(at_ns)),
        By::Minute => Group::Minute(at_ns / (60 * S)),
        By::Thread => Group::Thread(0, thread),
        _ => Group::All,
    };
    for file in &run.files {
        counts.hours.insert(file.part.hour);
        match file.table {
            Table::Calls => read_rows(&file.path, file.len, &mut problems, |row: CallRow| {
                counts.records += 1;
                let end_ns = row.start_ns.saturating_add(row.total_ns);
                let key = (row.thread, row.start_ns, row.method);
                if !selection.range.contains(end_ns) {
                } else if row.exit == Exit::Open {
                    let known = open.entry(key).or_insert_with(|| row.clone());
                    if known.total_ns < row.total_ns {
                        *known = row;
                    }
                } else {
                    open.remove(&key);
                    let is_counted = selection.counts_records();
                    if is_counted || selection.overview || selection.sketches {
                        counts.rows_in_range += u64::from(is_counted);
                        if !selection.calls.takes(&row) {
                            return Ok(());
                        }
                        if selection.stacks || selection.overview {
                            paths.add(&row);
                        }
                        if names.method(row.method).is_none() {
                            unknown.insert(row.method);
                        }
                        if takes_method(row.method) && selection.overview {
                            minutes.add_record(&row, is_counted);
                            slowest.add(&row);
                        }
                        if takes_method(row.method) && is_counted {
                            let path = names.path_kind(row.stack, row.method);
                            counts.records_without_path += u64::from(path == PathKind::Unknown);
                            let figures: &mut Figures =
                                totals.of(group(end_ns, row.thread), &row.method);
                            figures.add_record(&row, path);
                        }
                        if takes_method(row.method) && selection.sketches {
                            let figures: &mut Figures =
                                totals.of(group(end_ns, row.thread), &row.method);
                            figures.add_duration(row.total_ns);
                        }
                    }
                }
                Ok(())
            }),
            Table::Stats => read_rows(&file.path, file.len, &mut problems, |row: StatsRow| {
                recorded.add_stats(row.start_ns);
                counts.stats_rows += 1;
                if !selection.counts_records() && selection.range.contains(row.start_ns) {
                    counts.rows_in_range += 1;
                    if names.method(row.method).is_none() {
                        unknown.insert(row.method);
                    }
                    if takes_method(row.method) {
                        totals.of(group(row.start_ns, 0), &row.method).add_stats(&row);
                        if selection.overview {
                            minutes.add_stats(&row);
                        }
                    }
                }
                Ok(())
            }),
            Table::Counters => read_rows(&file.path, file.len, &mut problems, |row: CounterRow| {
                recorded.add_counter(&row);
                Ok(())
            }),
            _ => {}
        }
    }
    let label: Arc<str> = Arc::from(run.label.as_str());
    let named = |id| names.method_or_unknown(id, &label);
    let mut data = RunData { recorded, ..RunData::default() };
    for row in open.into_values().filter(|row| selection.calls.takes(row)) {
        if selection.open {
            paths.add(&row);
        }
        if names.method(row.method).is_none() {
            unknown.insert(row.method);
        }
        if !takes_method(row.method) {
            continue;
        }
        let mut path = names.path(row.stack);
        let is_kept = path.next() == Some(row.method);
        let callers: Vec<u32> = path.filter(|_| is_kept).collect();
        data.open.push(OpenCall {
            run: 0,
            thread: names.thread(row.thread),
            method: named(row.method),
            start_ns: row.start_ns,
            running_ns: row.total_ns,
            self_ns: row.self_ns,
            callers: Callers {
                has_more: !is_kept || callers.last() == Some(&0) || callers.len() > 8,
                methods: callers.into_iter().take(8).filter(|id| *id != 0).map(named).collect(),
            },
        });
    }
    counts.unknown_methods = unknown.len() as u64;
    data.thread_names = totals
        .groups()
        .filter_map(|group| match group {
            Group::Thread(_, id) => Some((id, names.thread(id))),
            _ => None,
        })
        .collect();
    if selection.overview {
        let recursion = paths.recursion(|stack| names.path(stack)).into_iter();
        let recursion = recursion.filter(|(id, _)| takes_method(*id));
        data.recursion = recursion.map(|(id, found)| (named(id), found)).collect();
    }
    if selection.stacks {
        data.tree = paths.into_tree(|stack| names.path(stack), named);
    }
    data.minutes = minutes;
    let calls = |calls: Vec<(CallRow, bool)>| -> Vec<RecordedCall> {
        let call = |call: &(CallRow, bool)| recorded_call(call, 0, &names, &label);
        calls.iter().map(call).collect()
    };
    data.slow = slowest.finish().into_iter().map(calls).collect();
    if selection.sketches {
        totals.drop_uncalled();
    }
    data.totals = totals.named(|id| named(*id));
    data.counts = counts;
    (data, problems)
}

fn selections() -> Vec<Selection> {
    let of = |options: Options, range| Selection::new(&options, range);
    let all = TimeRange::default();
    let part = TimeRange { from_ns: Some(T14 + 60 * S), to_ns: Some(T14 + 3_700 * S) };
    let above = |ns| CallFilter { above_ns: Some(ns), ..CallFilter::default() };
    let method = Some(Pattern::parse("com.shop.C1").unwrap());
    let csv = Options { format: Format::Csv, ..Options::default() };
    let mut of_paths = of(Options { open: true, ..Options::default() }, all);
    (of_paths.stacks, of_paths.figures_of_stacks) = (true, true);
    vec![
        of(Options::default(), all),
        of(Options { by: By::Hour, ..Options::default() }, part),
        of(Options { by: By::Thread, ..Options::default() }, all),
        of(Options { by: By::Minute, calls: above(0), ..Options::default() }, part),
        of(Options { calls: above(1_000), method, ..Options::default() }, all),
        of_paths,
        of(csv, all),
    ]
}

#[test]
fn threads_and_blocks_make_no_difference() {
    let selections = selections();
    let (mut open, mut bad) = (0, 0);
    for seed in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        write_run(folder.path(), seed);
        let mut found = Problems::default();
        let runs = discover(&[folder.path().to_owned()], &mut found);
        let [run] = runs.as_slice() else { panic!("one run: {:?}", found.messages()) };
        let selection = &selections[usize::try_from(seed).unwrap() % selections.len()];
        let (data, problems) = reference(run, selection);
        let expected = told(&data, &problems);
        open += data.open.len();
        bad += problems.bad_lines();
        for (workers, block_bytes) in
            [(1, 1), (3, 1), (2, 60), (5, 200), (4, 1_000), (2, 5_000), (3, 1 << 18), (1, 1 << 18)]
        {
            let mut problems = Problems::default();
            let pace = Pace { workers, block_bytes };
            let data = read_run_at(pace, run, 0, selection, &mut problems);
            let told = told(&data, &problems);
            assert!(told == expected, "seed {seed}, {pace:?}:\n{told}\ninstead of\n{expected}");
        }
    }
    // There was something to be wrong about.
    assert!(open > 200 && bad > 1_000, "{open} open calls, {bad} bad lines");
}

/// Changes bytes, cuts the file, repeats a part of it or puts in what is no text.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    let place = |random: &mut Random, bytes: &[u8]| {
        usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap()
    };
    for _ in 0..1 + random.below(6) {
        let at = place(random, bytes);
        let other = place(random, bytes);
        let (from, to) = (at.min(other), at.max(other));
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_within(from..to),
            2 => drop(bytes.drain(from..to.min(from + 40))),
            3 => {
                let end = to.min(from + 9);
                bytes[from..end].fill_with(|| u8::try_from(random.below(256)).unwrap());
            }
            _ => {
                let rubbish = [&b"\0\xff\""[..], b"\n\n\r,", b"18446744073709551615", b"open"];
                let rubbish = rubbish[usize::try_from(random.below(4)).unwrap()];
                bytes.splice(at..at, rubbish.iter().copied());
            }
        }
    }
}

#[test]
fn damaged_files_are_read_alike_and_harm_nothing() {
    let selections = selections();
    let (mut bad, mut rows) = (0, 0);
    for seed in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        write_run(folder.path(), seed);
        let mut random = Random(seed);
        for entry in fs::read_dir(folder.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end != "json") && random.below(3) > 0 {
                let mut bytes = fs::read(&path).unwrap();
                damage(&mut random, &mut bytes);
                fs::write(&path, bytes).unwrap();
            }
        }
        let runs = discover(&[folder.path().to_owned()], &mut Problems::default());
        let selection = &selections[usize::try_from(seed).unwrap() % selections.len()];
        let mut told_first = None;
        for (workers, block_bytes) in [(1, 1 << 18), (3, 50), (2, 2_000)] {
            let mut problems = Problems::default();
            let data =
                read_run_at(Pace { workers, block_bytes }, &runs[0], 0, selection, &mut problems);
            bad += problems.bad_lines();
            rows += data.counts.records;
            let told = told(&data, &problems);
            assert_eq!(*told_first.get_or_insert_with(|| told.clone()), told, "seed {seed}");
        }
        let options = Options {
            paths: vec![folder.path().to_owned()],
            slowest: (seed % 2 == 0).then_some(3),
            ..Options::default()
        };
        // A report, or a reason why there is none.
        let _ = crate::analyze(&options);
    }
    assert!(bad > 1_000 && rows > 10_000, "{bad} bad lines, {rows} rows");
}
