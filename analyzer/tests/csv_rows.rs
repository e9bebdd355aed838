//! Rows of CSV that are of no methods.

// A panic here is the test's failure.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use crate::common::{Logs, allocating_shop, locked_shop, sql_shop, throwing_shop, traced_shop};

/// The header and the first row, and how many rows there are.
fn rows(logs: &Logs, of: &str) -> (String, String, usize) {
    let text = logs.analyze(&["logs", "--format", "csv", "--rows", of]).stdout;
    let lines: Vec<&str> = text.lines().collect();
    (lines[0].to_owned(), lines[1].to_owned(), lines.len() - 1)
}

#[test]
fn each_kind_has_its_columns() {
    let pay = "com.shop.order.OrderService,pay,(ILjava/lang/String;)Z";
    let count = "com.shop.stock.Stock,count,(I)J";
    assert_eq!(
        rows(&locked_shop::shop(), "locks"),
        (
            "kind,lock,class,method,descriptor,waits,total_ns,p50_ns,p99_ns,max_ns,longest_holder,\
             owner_known_ns,held_in"
                .into(),
            format!(
                "monitor,com.shop.stock.Stock,{pay},1,30000000,30000000,30000000,30000000,exec-1,30000000,"
            ),
            5
        )
    );
    assert_eq!(
        rows(&allocating_shop::shop(), "allocations"),
        (
            "allocated,bytes,objects,samples,class,method,descriptor".into(),
            format!("byte[],6500000,3250,13,{pay}"),
            4
        )
    );
    assert_eq!(
        rows(&traced_shop::shop(), "traced"),
        (
            "class,method,descriptor,caller_class,caller_method,caller_descriptor,calls".into(),
            format!("{count},{pay},6000"),
            3
        )
    );
    assert_eq!(
        rows(&sql_shop::shop(), "sql"),
        (
            "statement,url,class,method,descriptor,executions,throws,total_ns,avg_ns,p50_ns,p99_ns,\
             max_ns,method_calls"
                .into(),
            format!(
                "{},{},{count},102,0,62400000,611764,229376,10485760,18000000,1",
                sql_shop::BY_ID,
                sql_shop::SHOP
            ),
            8
        )
    );
    assert_eq!(
        rows(&throwing_shop::shop(), "exceptions"),
        (
            "exception,class,method,descriptor,began,thrown,calls,was_throttled,was_muted".into(),
            format!("com.shop.stock.OutOfStock,{count},80,80,160,false,false"),
            3
        )
    );
}

/// The sum of a column.
fn sum(logs: &Logs, arguments: &[&str], column: &str) -> u64 {
    let csv = logs.analyze(&[&["logs", "--format", "csv", "--rows"], arguments].concat());
    csv.csv_column(column).iter().map(|cell| cell.parse::<u64>().unwrap()).sum()
}

/// Groups come first, and have all that there is without them.
#[test]
fn groups_of_each_kind_add_up() {
    for (logs, of, figures) in [
        (locked_shop::shop(), "locks", &["waits", "total_ns"][..]),
        (allocating_shop::shop(), "allocations", &["bytes", "objects", "samples"]),
        (traced_shop::shop(), "traced", &["calls"]),
        (throwing_shop::shop(), "exceptions", &["began"]),
        (sql_shop::shop(), "sql", &["executions", "total_ns"]),
    ] {
        for by in ["hour", "minute", "run", "host"] {
            let csv = logs.analyze(&["logs", "--format", "csv", "--rows", of, "--by", by]).csv();
            assert_eq!(csv[0][0], by, "{of}: {csv:?}");
            for figure in figures {
                let all = sum(&logs, &[of], figure);
                let groups = sum(&logs, &[of, "--by", by], figure);
                assert!(all > 0 && groups == all, "{of} by {by}: {groups} of {all} {figure}");
            }
        }
    }
    let logs = locked_shop::shop();
    let rows = ["logs", "--format", "csv", "--rows", "locks", "--by", "thread"];
    let threads = logs.analyze(&rows).csv();
    assert_eq!(threads[0][..4].join(" "), "thread kind lock class", "{threads:?}");
    assert!(threads.len() > 2, "{threads:?}");
}

#[test]
fn rows_are_for_csv_alone() {
    let logs = traced_shop::shop();
    for (arguments, why) in [
        (&["logs", "--rows", "locks"][..], "--rows has only --format csv"),
        (
            &["logs", "--format", "csv", "--rows", "locks", "--by", "package"],
            "--by class, package and state are for --rows methods",
        ),
    ] {
        let refused = logs.analyze(arguments);
        assert!(refused.status == 2 && refused.stderr.contains(why), "{refused:?}");
    }
    let methods = logs.analyze(&["logs", "--format", "csv"]).stdout;
    let same = logs.analyze(&["logs", "--format", "csv", "--rows", "methods"]).stdout;
    assert_eq!(methods, same);
    // Nothing was thrown: only a header.
    let none = logs.analyze(&["logs", "--format", "csv", "--rows", "exceptions"]).stdout;
    assert_eq!(none.lines().count(), 1, "{none}");
}
