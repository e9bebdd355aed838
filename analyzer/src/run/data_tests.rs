//! Whatever the number of threads and the size of blocks, reading a run gives the same result as reading it line by
//! line ([`crate::line_by_line`]). The logs are made from seeds and contain everything that a log should not.

#[path = "../../../rewriter/fuzz/seeds.rs"]
mod seeds;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use crate::input::parallel::Pace;
use crate::input::problems::Problems;
use crate::input::runs::discover;
use crate::line_by_line::{check, in_words, reference, selections};
use crate::options::{Layout, Options};
use crate::run::data::read_run_at;

const S: u64 = 1_000_000_000;
/// 2026-11-20T14:00:00Z.
const T14: u64 = 1_795_183_200 * S;

/// Pseudo-random numbers; the same ones for the same seed.
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
        "start_ns,thread,stack,method,total_ns,self_ns,exit,allocated_bytes",
        "start_ns,thread,stack,method,total_ns,self_ns,exit",
        "start_ns,thread,stack,method,total_ns,self_ns,exit,allocated_bytes,place,weather",
        "exit,start_ns,thread,weather,stack,method,total_ns,self_ns",
        "\"start_ns\",thread,stack,method,total_ns,self_ns,exit\r",
    ]);
    let mut text = format!("{header}\n");
    let mut unfinished: Vec<(u64, u64, u64)> = Vec::new();
    for row in 0..rows {
        let fresh =
            (start_ns + row * S + random.below(S), 1 + random.below(6), 1 + random.below(9));
        // Some rows are of calls that were unfinished, and some of those are unfinished again.
        let of_open = usize::try_from(random.below(8)).unwrap();
        let key = if of_open < 2 { unfinished.iter().rev().nth(of_open).copied() } else { None };
        let (start, thread, method) = key.unwrap_or(fresh);
        let exit = match random.below(if key.is_some() { 3 } else { 16 }) {
            0 => "unfinished",
            1 => "throw",
            _ => "return",
        };
        if exit == "unfinished" {
            unfinished.push((start, thread, method));
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
            "allocated_bytes" if own.is_multiple_of(2) => String::new(),
            "allocated_bytes" => own.to_string(),
            _ => "up".to_owned(),
        };
        let names = header.trim_end().split(',').map(|name| columns(name.trim_matches('"')));
        let line = names.collect::<Vec<_>>().join(",");
        text.push_str(&spoiled(random, line));
    }
    text
}

/// A line with its end, sometimes with something that should not be there.
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
        10 => line.replace("unfinished", "\"op\"en") + "\n",
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

#[test]
fn threads_and_blocks_make_no_difference() {
    let selections = selections();
    let (mut unfinished, mut bad) = (0, 0);
    for seed in 0..40 {
        let folder = tempfile::tempdir().unwrap();
        write_run(folder.path(), seed);
        let mut found = Problems::default();
        let runs = discover(&[folder.path().to_owned()], |_| false, &mut found);
        let [run] = runs.as_slice() else { panic!("one run: {:?}", found.messages()) };
        let selection = &selections[usize::try_from(seed).unwrap() % selections.len()];
        let (data, problems) = reference(run, selection);
        let expected = in_words(&data, &problems);
        unfinished += data.unfinished.len();
        bad += problems.bad_lines();
        for (workers, block_bytes) in
            [(1, 1), (3, 1), (2, 60), (5, 200), (4, 1_000), (2, 5_000), (3, 1 << 18), (1, 1 << 18)]
        {
            let mut problems = Problems::default();
            let pace = Pace { workers, block_bytes };
            let data = read_run_at(pace, run, 0, selection, &mut problems);
            let in_words = in_words(&data, &problems);
            assert!(
                in_words == expected,
                "seed {seed}, {pace:?}:\n{in_words}\ninstead of\n{expected}"
            );
        }
    }
    // There were enough unfinished calls and bad lines to test.
    assert!(unfinished > 200 && bad > 1_000, "{unfinished} unfinished calls, {bad} bad lines");
}

/// Changes bytes, cuts the file, repeats a part of it or inserts bytes that are not text.
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
                let rubbish =
                    [&b"\0\xff\""[..], b"\n\n\r,", b"18446744073709551615", b"unfinished"];
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
        let runs = discover(&[folder.path().to_owned()], |_| false, &mut Problems::default());
        let selection = &selections[usize::try_from(seed).unwrap() % selections.len()];
        let mut first_words = None;
        for (workers, block_bytes) in [(1, 1 << 18), (3, 50), (2, 2_000)] {
            let mut problems = Problems::default();
            let data =
                read_run_at(Pace { workers, block_bytes }, &runs[0], 0, selection, &mut problems);
            bad += problems.bad_lines();
            rows += data.counts.records;
            let in_words = in_words(&data, &problems);
            assert_eq!(
                *first_words.get_or_insert_with(|| in_words.clone()),
                in_words,
                "seed {seed}"
            );
        }
        let options = Options {
            paths: vec![folder.path().to_owned()],
            layout: Layout { slowest: (seed % 2 == 0).then_some(3), ..Layout::default() },
            ..Options::default()
        };
        // A report, or the reason why there is none.
        let _ = crate::analyze(&options, &Arc::default());
    }
    assert!(bad > 1_000 && rows > 10_000, "{bad} bad lines, {rows} rows");
}

/// A run with a profile task, as the fuzzer has it; the first byte chooses the format.
const TASKS: &str = "\
0@20261120T14Z.methods.csv
id,loader,class,method,descriptor,source,line
1,app,com.shop.Order,pay,()V,Order.java,41
2,app,com.shop.Db,query,()V,,0
@20261120T14Z.stacks.csv
id,parent,method
1,0,1
2,1,2
3,0,0
@20261120T14Z.tasks.csv
at_ns,task,state,endpoint,methods,start_ns,duration_ns,min_duration_ns,dump_period_ns,max_samples,requests,reason
1795183200000000000,1,notified,/pay,com.shop.Order.pay,1795183200000000000,60000000000,0,10000000,5,0,
1795183200000000000,1,running,/pay,com.shop.Order.pay,1795183200000000000,60000000000,0,10000000,5,0,
1795183260000000000,1,finished,/pay,com.shop.Order.pay,1795183200000000000,60000000000,0,10000000,5,2,time
1795183261000000000,2,rejected,/pay,com.shop.Order.pay,1795183200000000000,60000000000,0,1000000,5,0,too often
@20261120T14Z.task_requests.csv
start_ns,task,request,thread,stack,total_ns,exit,calls,calls_dropped
1795183201000000000,1,1,1,1,200000000,return,2,0
1795183202000000000,1,2,1,1,300000000,unfinished,3,9
@20261120T14Z.task_calls.csv
start_ns,task,request,stack,method,total_ns,self_ns,exit
1795183201050000000,1,1,2,2,100000000,100000000,return
1795183201000000000,1,1,1,1,200000000,100000000,return
1795183202050000000,1,2,3,2,10000000,10000000,throw
1795183202100000000,1,2,3,2,100000000,100000000,throw
1795183202000000000,1,2,1,1,300000000,190000000,unfinished
@20261120T14Z.events.csv
at_ns,event,class,method,pattern,calls_per_s,mean_ns,threshold_ns,reason
1795183230000000000,throttled,,com.shop.Util.hash(I)I,,1000000,50,,
";

#[test]
fn damaged_tasks_harm_nothing() {
    let mut random = Random(7);
    let mut found = 0;
    for _ in 0..400 {
        let mut packed = TASKS.as_bytes().to_vec();
        damage(&mut random, &mut packed);
        found += check(&packed);
    }
    assert_eq!(check(TASKS.as_bytes()), 2);
    assert!(found > 200, "{found} tasks");
}

/// Runs the fuzzer's corpus with the project's own toolchain. `UPDATE_SEEDS=1` writes logs of this file to
/// `fuzz/corpus/logs`; `scripts/fuzz.sh --pack` makes seeds of them.
#[test]
fn the_fuzzer_s_corpus_is_as_it_should_be() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    if std::env::var_os("UPDATE_SEEDS").is_some_and(|value| value == "1") {
        let corpus = fuzz.join("corpus/logs");
        fs::create_dir_all(&corpus).unwrap();
        for seed in 0..40u8 {
            let folder = tempfile::tempdir().unwrap();
            write_run(folder.path(), seed.into());
            let mut packed = vec![seed * 5];
            for entry in fs::read_dir(folder.path()).unwrap() {
                let (path, name) = (entry.as_ref().unwrap().path(), entry.unwrap().file_name());
                let content = fs::read(path).unwrap();
                if !name.to_str().unwrap().ends_with("csv") {
                    continue;
                }
                packed.extend(format!("@{}\n", name.to_str().unwrap()).bytes());
                packed.extend(&content[..content.len().min(1_500)]);
                packed.push(b'\n');
            }
            fs::write(corpus.join(format!("run-{seed}")), packed).unwrap();
        }
        fs::write(corpus.join("tasks"), TASKS).unwrap();
    }
    let (mut seen, mut rows) = (0, 0);
    for seed in seeds::seeds(&fuzz.join("seeds.tar")) {
        seen += 1;
        rows += check(&seed);
    }
    println!("{seen} seeds, {rows} rows");
    assert!(seen >= 40 && rows > 1_000, "{seen} seeds, {rows} rows");
}
