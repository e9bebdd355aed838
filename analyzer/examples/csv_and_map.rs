//! Sums up calls.csv in the straightforward way: the csv crate, a map, one thread. `scripts/bench-analyzer.sh`
//! compares the analyzer with it; the columns are those of `analyze --format csv`.
//!
//! ```text
//! csv_and_map RUN
//! ```

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::{fs, io};

use log_format::histogram::{Histogram, bucket_of};
use log_format::ids::MethodId;
use log_format::rows::{CallRow, Exit, MethodRow};

#[derive(Default)]
struct Sums {
    calls: u64,
    throws: u64,
    total_ns: u64,
    self_ns: u64,
    max_ns: u64,
    hist: Histogram,
}

fn main() -> Result<(), Box<dyn Error>> {
    let run = PathBuf::from(std::env::args().nth(1).ok_or("which run?")?);
    let files =
        fs::read_dir(run)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let of_table = |table: &str| {
        let end = format!(".{table}.csv");
        files.iter().filter(move |path| path.to_string_lossy().ends_with(&end))
    };
    let mut names: HashMap<MethodId, MethodRow> = HashMap::new();
    for path in of_table("methods") {
        for row in csv::Reader::from_path(path)?.deserialize() {
            let row: MethodRow = row?;
            names.insert(row.id, row);
        }
    }
    let mut sums: HashMap<MethodId, Sums> = HashMap::new();
    for path in of_table("calls") {
        for row in csv::Reader::from_path(path)?.deserialize() {
            let row: CallRow = row?;
            if row.exit == Exit::Unfinished {
                continue;
            }
            let sums = sums.entry(row.method).or_default();
            sums.calls += 1;
            sums.throws += u64::from(row.exit == Exit::Throw);
            sums.total_ns += row.total_ns;
            sums.self_ns += row.self_ns;
            sums.max_ns = sums.max_ns.max(row.total_ns);
            sums.hist.add(bucket_of(row.total_ns), 1);
        }
    }
    let mut out = BufWriter::new(io::stdout().lock());
    writeln!(
        out,
        "class,method,descriptor,calls,throws,total_ns,self_ns,avg_ns,max_ns,p50_ns,p95_ns,p99_ns"
    )?;
    for (id, sums) in sums {
        let Some(name) = names.get(&id) else { continue };
        let percentile = |percent| sums.hist.percentile_ns(percent, sums.max_ns).unwrap_or(0);
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            name.class,
            name.method,
            name.descriptor,
            sums.calls,
            sums.throws,
            sums.total_ns,
            sums.self_ns,
            sums.total_ns / sums.calls,
            sums.max_ns,
            percentile(50.0),
            percentile(95.0),
            percentile(99.0),
        )?;
    }
    Ok(out.flush()?)
}
