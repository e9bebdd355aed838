//! The loops of `programs.Loops`, and their speed compared with the same loops without the agent.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::classes::classes;
use crate::run::{Dialogue, Java, wait_until};

/// Least share of the rounds per CPU second that the same loop makes without the agent.
pub const SHARE: f64 = 0.9;
/// How long a loop may take to get there: compiled code may be discarded once.
pub const RECOVERY: Duration = Duration::from_secs(10);
const LONG_REST_MS: u64 = 300;
/// How long a measurement takes.
const MEASURED: Duration = Duration::from_millis(700);
/// Number of measurements; the median of each loop counts. If two are fast enough, no third one can change that.
const MEASUREMENTS: usize = 3;

/// How long to hold a phase before the loops are measured again.
fn hold() -> Option<Duration> {
    let seconds = std::env::var("LOOP_SECONDS").ok().and_then(|text| text.parse().ok());
    seconds.map(Duration::from_secs)
}

/// Rounds and CPU time, in nanoseconds, by loop.
type Readings = BTreeMap<String, (u64, u64)>;

/// Rounds per CPU second, by loop.
type Rates = BTreeMap<String, f64>;

/// Loops in one JVM.
#[derive(Debug)]
pub struct Loops {
    /// The program, which takes commands on its stdin.
    pub program: Dialogue,
    /// Its process.
    pub pid: u32,
}

/// The same loops without the agent. They run only while they are measured, together with the others: other work on
/// the machine then slows both.
#[derive(Debug)]
pub struct Plain(Loops);

impl Loops {
    /// Starts the program, and waits until all loops are running.
    pub fn start(java: Java) -> Self {
        let program = java.main(classes(), "programs.Loops").talk();
        let pid = program.program.pid();
        let mut loops = Self { program, pid };
        wait_until("all loops run", || loops.program.ask("rounds").split(' ').all(|w| w != "null"));
        thread::sleep(Duration::from_secs(1));
        loops
    }

    /// The same for tests that do not measure how fast the loops are: they rest nearly all the time.
    pub fn start_resting(java: Java) -> Self {
        let mut loops = Self::start(java);
        assert_eq!(loops.program.ask(&format!("rest {LONG_REST_MS}")), "rests");
        loops
    }

    /// Rounds and CPU time of each loop, in nanoseconds.
    fn read(&mut self) -> Readings {
        let line = self.program.ask("rounds");
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse().expect("a number");
        let of = |words: &[&str]| (words[0].to_owned(), (number(words[2]), number(words[1])));
        words.chunks(3).map(of).collect()
    }
}

impl Plain {
    /// Starts the program. It is stopped until loops are compared.
    pub fn start(java: Java) -> Self {
        let plain = Self(Loops::start(java));
        plain.0.program.program.signal("STOP");
        plain
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// The speed of the loops, as a share of plain.
    fn shares(&mut self, loops: &mut Loops, time: Duration) -> Rates {
        self.0.program.program.signal("CONT");
        let before = [self.0.read(), loops.read()];
        thread::sleep(time);
        let after = [self.0.read(), loops.read()];
        self.0.program.program.signal("STOP");
        let [plain, loops] = [0, 1].map(|of| rates(&before[of], &after[of]));
        loops.into_iter().map(|(name, rate)| (name.clone(), rate / plain[&name])).collect()
    }

    /// The slowest loop and its speed as a share of plain: as soon as all are fast enough, or after [`RECOVERY`].
    pub fn recovered(&mut self, loops: &mut Loops) -> (f64, String) {
        self.recovered_but(&[], loops)
    }

    /// The same of all loops but some.
    pub fn recovered_but(&mut self, without: &[&str], loops: &mut Loops) -> (f64, String) {
        let begun = Instant::now();
        loop {
            let slowest = self.median(without, loops);
            if slowest.0 >= SHARE || begun.elapsed() >= RECOVERY {
                return slowest;
            }
        }
    }

    /// Asserts that all loops become as fast as without the agent, within seconds, and stay so.
    ///
    /// # Panics
    /// If one is not.
    pub fn expect_as_fast(&mut self, loops: &mut Loops, what: &str) {
        let begun = Instant::now();
        let (mut share, mut name) = self.recovered(loops);
        let recovered = begun.elapsed().as_secs_f64();
        if let Some(hold) = hold() {
            thread::sleep(hold);
            (share, name) = self.median(&[], loops);
        }
        println!("{what}: {share:.2} of plain ({name}), after {recovered:.1} s");
        assert!(share >= SHARE, "{what}: {name} is at {share:.2} of plain");
    }

    /// The slowest loop by its median.
    fn median(&mut self, without: &[&str], loops: &mut Loops) -> (f64, String) {
        let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for number in 1..=MEASUREMENTS {
            let measured = self.shares(loops, MEASURED).into_iter();
            for (name, share) in measured.filter(|(name, _)| !without.contains(&&**name)) {
                shares.entry(name).or_default().push(share);
            }
            let are_fast = shares.values().flatten().all(|share| *share >= SHARE);
            if number > MEASUREMENTS / 2 && are_fast {
                break;
            }
        }
        slowest(shares.into_iter().map(|(name, mut of)| {
            of.sort_by(f64::total_cmp);
            // The lower one of two.
            let middle = (of.len() - 1) / 2;
            (name, of[middle])
        }))
    }
}

fn slowest(shares: impl Iterator<Item = (String, f64)>) -> (f64, String) {
    shares.map(|(name, share)| (share, name)).min_by(|a, b| a.0.total_cmp(&b.0)).expect("loops")
}

/// Rounds per CPU second between two readings.
fn rates(before: &Readings, after: &Readings) -> Rates {
    let rate = |(name, (rounds, cpu_ns)): (&String, &(u64, u64))| {
        let (rounds, cpu_ns) = (rounds - before[name].0, cpu_ns - before[name].1);
        (name.clone(), rounds as f64 * 1e9 / cpu_ns.max(1) as f64)
    };
    after.iter().map(rate).collect()
}
