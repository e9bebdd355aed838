//! Real programs behave the same when all of their classes are instrumented and verified.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use log_format::rows::counter;
use test_classes::{Finished, Java, Jdk, Profile, compile, compiler, jdks, library, project};

/// Runs a program without and with the agent, and asserts that its output is the same; `calls` is the least number of
/// calls that must have been counted.
fn same(jdk: &Jdk, calls: u64, what: &str, program: impl Fn(Java) -> Java) -> Finished {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let options = format!("logs={},port=off,threshold=10ms", logs.path().display());
    let plain = program(Java::new(jdk)).run();
    let profiled = program(Java::new(jdk).agent(&options)).run();
    let what = format!("{jdk}: {what}");
    assert_eq!(plain.status, Some(0), "{what}: {}", plain.stderr);
    assert_eq!(plain.stdout, profiled.stdout, "{what}");
    assert_eq!(plain.stderr, profiled.stderr, "{what}");
    assert_eq!(plain.status, profiled.status, "{what}");
    let profile = Profile::only_run(logs.path());
    let seen: u64 = profile.counts.values().map(|c| c.calls).sum();
    println!("{what}: {seen} calls of {} methods", profile.counts.len());
    assert!(seen > calls, "{what}: only {seen} calls were seen");
    for lost in
        [counter::UNSEEN_ENDS, counter::LOST_CALLS, counter::NOT_INSTRUMENTED, counter::UNREADABLE]
    {
        assert_eq!(profile.counter(lost), 0, "{what}: {lost}");
    }
    plain
}

fn class_path(jars: &[PathBuf]) -> String {
    let jars: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    jars.join(":")
}

/// Runtimes from 17 up to a version.
fn up_to(major: u32) -> Vec<&'static Jdk> {
    let mut able: Vec<&Jdk> =
        jdks().iter().filter(|jdk| (17..=major).contains(&jdk.major)).collect();
    // One for each version.
    able.dedup_by_key(|jdk| jdk.major);
    if able.is_empty() { vec![compiler()] } else { able }
}

/// Some hundred statements of many kinds, whose results are printed.
fn sql() -> String {
    let mut sql = String::from(
        "CREATE TABLE customer(id INT PRIMARY KEY, name VARCHAR(40), city VARCHAR(20), balance DECIMAL(12,2));
         CREATE TABLE purchase(id INT PRIMARY KEY, customer INT REFERENCES customer(id), bought DATE, amount DECIMAL(10,2), note CLOB);
         CREATE INDEX by_city ON customer(city);
         CREATE SEQUENCE number;
         CREATE VIEW spent AS SELECT customer, SUM(amount) AS total, COUNT(*) AS times FROM purchase GROUP BY customer;\n",
    );
    for i in 0..120 {
        let _ = writeln!(
            sql,
            "INSERT INTO customer VALUES({i}, 'customer {i}', '{}', {}.{:02});",
            ["Bern", "Graz", "Gent", "Oslo"][i % 4],
            i * 37 % 1000,
            i % 100
        );
    }
    for i in 0..300 {
        let _ = writeln!(
            sql,
            "INSERT INTO purchase VALUES(NEXT VALUE FOR number, {}, DATE '2026-{:02}-{:02}', {}.5, REPEAT('x', {}));",
            i * 7 % 120,
            i % 12 + 1,
            i % 28 + 1,
            i * 13 % 500,
            i % 50
        );
    }
    sql.push_str(
        "SELECT city, COUNT(*), AVG(balance), MAX(name) FROM customer GROUP BY city ORDER BY city;
         SELECT c.name, s.total, RANK() OVER (ORDER BY s.total DESC) FROM customer c JOIN spent s ON s.customer = c.id ORDER BY 3, 1 LIMIT 10;
         UPDATE customer SET balance = balance - 10 WHERE id IN (SELECT customer FROM purchase WHERE amount > 400);
         SELECT COUNT(*), SUM(balance) FROM customer;
         WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 50) SELECT SUM(n) FROM t;
         SELECT REGEXP_REPLACE(name, '[0-9]+', '#'), LENGTH(name) FROM customer WHERE id < 5 ORDER BY id;
         MERGE INTO customer KEY(id) VALUES(3, 'merged', 'Oslo', 1), (999, 'new', 'Bern', 2);
         DELETE FROM purchase WHERE MONTH(bought) = 2;
         SELECT MONTH(bought), COUNT(*), SUM(LENGTH(note)) FROM purchase GROUP BY MONTH(bought) ORDER BY 1;
         ALTER TABLE customer ADD COLUMN active BOOLEAN DEFAULT TRUE;
         SELECT active, COUNT(*) FROM customer GROUP BY active;
         EXPLAIN SELECT * FROM customer WHERE city = 'Bern';
         SELECT XMLNODE('a', XMLATTR('href', 'x')), JSON_OBJECT('id': 14);\n",
    );
    sql
}

#[test]
fn h2_runs_a_script() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("script.sql");
    fs::write(&script, sql()).expect("a file");
    let h2 = library("h2-");
    for jdk in up_to(99) {
        let finished = same(jdk, 1_000_000, "H2", |java| {
            java.arg("-cp")
                .arg(&h2)
                .args([
                    "org.h2.tools.RunScript",
                    "-url",
                    "jdbc:h2:mem:shop",
                    "-user",
                    "sa",
                    "-showResults",
                    "-script",
                ])
                .arg(&script)
        });
        assert!(
            finished.stdout.contains("Bern") && finished.stdout.lines().count() > 450,
            "{}",
            finished.stdout
        );
    }
}

#[test]
fn groovy_runs_a_script() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = folder.path().join("orders.groovy");
    fs::write(
        &script,
        r#"
        class Order { String name; List<Integer> prices; int total() { prices.sum() ?: 0 } }
        def orders = (1..50).collect { n -> new Order(name: "order $n", prices: (0..<n).collect { it * n % 17 }) }
        println orders.groupBy { it.total() % 5 }.collectEntries { k, v -> [k, v*.name.max()] }.sort()
        println orders.findAll { it.total() > 300 }.sort { -it.total() }.take(3)*.name
        try { orders[0].nothing() } catch (MissingMethodException e) { println "no ${e.method}" }
        def fib; fib = { n -> n < 2 ? n : fib(n - 1) + fib(n - 2) }.memoize()
        println fib(40)
        println([1, [2, [3, 4]]].flatten().inject(0) { a, b -> a + b })
        "#,
    )
    .expect("a file");
    // Groovy 4.0.26 supports Java 24.
    for jdk in up_to(21) {
        let finished = same(jdk, 300_000, "Groovy", |java| {
            java.arg("-cp").arg(library("groovy-")).arg("groovy.ui.GroovyMain").arg(&script)
        });
        assert!(finished.stdout.contains("102334155"), "{}", finished.stdout);
    }
}

/// All files in a folder, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).expect("a folder");
    let files = entries.map(|e| e.expect("an entry").path()).filter(|path| path.is_file());
    let named = files.map(|path| {
        (
            path.file_name().expect("a name").to_string_lossy().into_owned(),
            fs::read(&path).expect("a file"),
        )
    });
    named.collect()
}

const KOTLIN: &str = r#"
        sealed interface Item { val price: Int }
        data class Book(override val price: Int, val title: String) : Item
        object Nothing : Item { override val price get() = 0 }
        inline fun <reified T : Item> List<Item>.only() = filterIsInstance<T>()
        fun Item.describe() = when (this) { is Book -> "book $title"; Nothing -> "nothing" }
        suspend fun later(n: Int): Int = if (n == 0) 0 else later(n - 1) + n
        fun total(items: List<Item>): Int {
            var sum = 0
            outer@ for (item in items) {
                sum += item.price.takeIf { it > 0 } ?: continue@outer
                if (sum > 100) return sum
            }
            return try { sum / items.size } catch (e: ArithmeticException) { -1 } finally { println("done") }
        }
        fun main() = println(total(listOf(Book(3, "a"), Nothing)) + listOf<Item>().only<Book>().size)
        "#;

#[test]
#[ignore = "full lane: javac and Eclipse's compiler are in the fast one (`unchanged`)"]
fn kotlins_compiler_writes_the_same_classes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("shop.kt");
    fs::write(&source, KOTLIN).expect("a file");
    let jars = [
        "kotlin-compiler",
        "kotlin-stdlib",
        "kotlin-script",
        "kotlin-reflect",
        "kotlin-daemon",
        "trove4j",
        "annotations-13",
        "kotlinx-coroutines",
    ]
    .map(library);
    // Kotlin 2.1 cannot parse the version of Java 25.
    for jdk in up_to(21) {
        let output = folder.path().join(format!("output-{}", jdk.major));
        let kotlinc = |java: Java| {
            java.arg("-cp")
                .arg(class_path(&jars))
                .args([
                    "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler",
                    "-nowarn",
                    "-no-reflect",
                    "-no-stdlib",
                    "-cp",
                ])
                .arg(&jars[1])
                .arg("-d")
                .arg(&output)
                .arg(&source)
        };
        let written = RefCell::new(Vec::new());
        same(jdk, 5_000_000, "kotlinc", |java| {
            // Called twice, first without the agent.
            if output.exists() {
                written.borrow_mut().push(files(&output));
            }
            let _ = fs::remove_dir_all(&output);
            kotlinc(java.arg("-Xmx1g"))
        });
        let mut written = written.into_inner();
        written.push(files(&output));
        assert!(written[0].len() >= 5, "{jdk}: {:?}", written[0].keys());
        assert!(written[0] == written[1], "{jdk}: the classes differ");
    }
}

#[test]
fn lucene_finds_the_same() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let jars = ["lucene-core", "lucene-analysis-common"].map(library);
    let source = project().join("test-classes/java/libraries/Search.java");
    let path = class_path(&jars);
    compile(compiler(), &["--release", "11", "-cp", &path], &[source], folder.path());
    let path = format!("{path}:{}", folder.path().display());
    for jdk in jdks() {
        let finished = same(jdk, 5_000_000, "Lucene", |java| {
            // Without the time of day.
            java.arg("-Djava.util.logging.SimpleFormatter.format=%5$s%n").args([
                "-cp",
                &path,
                "libraries.Search",
            ])
        });
        assert!(finished.stdout.contains("text:refund: "), "{}", finished.stdout);
    }
}
