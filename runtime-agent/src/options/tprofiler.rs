//! TProfiler's `profile.properties`: translates its keys to options. `docs/from-tprofiler.md` has the table.

use std::path::Path;
use std::time::Duration;

use log_format::error::BadValue;
use log_format::units::{as_ns, duration_text};
use log_format::writer::one_line;

use super::option_table::WALL_INTERVALS;
use super::properties::{self, Entry};
use super::setting::Setting;
use crate::schedule::time_of_day;

/// Keys that name one of TProfiler's log files; their folder becomes `logs`.
const LOG_FILES: [&str; 3] = ["logFilePath", "methodFilePath", "samplerFilePath"];

/// TProfiler's defaults if only one of the two keys is there.
const DEFAULT_USE_S: u32 = 5;
const DEFAULT_INTERVAL_S: u32 = 50;

/// Reads the settings of a file called `name`; adds anything worth mentioning to `warnings`.
///
/// # Errors
/// What is wrong, with the file's name and the line's number.
pub(super) fn read(
    name: &str,
    bytes: &[u8],
    environment: &dyn Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Setting>, BadValue> {
    let mut reader = Reader { name, settings: Vec::new(), warnings };
    let entries = reader.expand(properties::read(bytes), environment);
    let find = |key: &str| entries.iter().find(|entry| entry.key == key);
    reader.window(find("startProfTime"), find("endProfTime"))?;
    reader.periods(find("eachProfUseTime"), find("eachProfIntervalTime"))?;
    reader.sampler(find("samplerIntervalTime"))?;
    reader.logs(&LOG_FILES.map(find));
    for entry in &entries {
        reader.entry(entry);
    }
    Ok(reader.settings)
}

struct Reader<'r> {
    name: &'r str,
    settings: Vec<Setting>,
    warnings: &'r mut Vec<String>,
}

impl Reader<'_> {
    fn place(&self, entry: &Entry) -> String {
        format!("{}:{}", self.name, entry.line)
    }

    fn warn(&mut self, entry: &Entry, what: &str) {
        let warning = format!("{}: {}: {what}", self.place(entry), one_line(&entry.key));
        self.warnings.push(warning);
    }

    fn add(&mut self, entry: &Entry, key: &str, value: impl Into<String>) {
        let place = Some(self.place(entry));
        self.settings.push(Setting { key: key.to_owned(), value: value.into(), place });
    }

    fn wrong(&self, entry: &Entry, reason: &'static str) -> BadValue {
        BadValue::new(one_line(&entry.value), reason).of(&entry.key).of(self.place(entry))
    }

    /// Expands variables: other keys of the file, then the environment. Omits keys that serve only as variables.
    fn expand(
        &mut self,
        entries: Vec<Entry>,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<Entry> {
        let lookup = |name: &str| {
            let of_file = entries.iter().find(|entry| entry.key == name);
            of_file.map(|entry| entry.value.clone()).or_else(|| environment(name))
        };
        let is_variable =
            |key: &str| entries.iter().any(|e| e.value.contains(&format!("${{{key}}}")));
        let mut expanded = Vec::new();
        let mut unknown = Vec::new();
        for entry in &entries {
            let before = unknown.len();
            let value = properties::expand(&entry.value, &lookup, &mut unknown);
            for name in unknown.split_off(before) {
                self.warn(
                    entry,
                    &format!("unknown variable ${{{}}}; not replaced", one_line(&name)),
                );
                unknown.push(name);
            }
            if is_known(&entry.key) || !is_variable(&entry.key) {
                expanded.push(Entry { value: value.trim().to_owned(), ..entry.clone() });
            }
        }
        expanded
    }

    /// Without an end, the window lasts until the end of the day; without a start, it begins with the day.
    fn window(&mut self, start: Option<&Entry>, end: Option<&Entry>) -> Result<(), BadValue> {
        let time = |entry: Option<&Entry>, default: &str| {
            let Some(entry) = entry else { return Ok(default.to_owned()) };
            if time_of_day(&entry.value).is_some() {
                return Ok(entry.value.clone());
            }
            Err(self.wrong(entry, "is not a time like 9:00:00"))
        };
        let window = format!("{}-{}", time(start, "0:00")?, time(end, "24:00")?);
        if let Some(entry) = start.or(end) {
            self.add(entry, "window", window);
        }
        Ok(())
    }

    fn seconds(&self, entry: &Entry) -> Result<u32, BadValue> {
        entry.value.parse().map_err(|_| self.wrong(entry, "is not a number of seconds"))
    }

    fn periods(&mut self, used: Option<&Entry>, interval: Option<&Entry>) -> Result<(), BadValue> {
        let seconds =
            |entry: Option<&Entry>, default| entry.map_or(Ok(default), |entry| self.seconds(entry));
        let (record, pause) =
            (seconds(used, DEFAULT_USE_S)?, seconds(interval, DEFAULT_INTERVAL_S)?);
        if let Some(entry) = used.or(interval) {
            self.add(entry, "record", format!("{record}s"));
            self.add(entry, "pause", format!("{pause}s"));
        }
        Ok(())
    }

    /// TProfiler's sampler dumps all threads; `wall` looks at each thread as often.
    fn sampler(&mut self, entry: Option<&Entry>) -> Result<(), BadValue> {
        let Some(entry) = entry else { return Ok(()) };
        let asked = Duration::from_secs(self.seconds(entry)?.into());
        // Who writes that wants no samples.
        if asked.is_zero() {
            self.add(entry, "wall", "off");
            return Ok(());
        }
        let interval = asked.clamp(*WALL_INTERVALS.start(), *WALL_INTERVALS.end());
        let value = duration_text(as_ns(interval));
        if interval != asked {
            let what = format!("{} is more than `wall` can be; wall={value} is taken", entry.value);
            self.warn(entry, &what);
        }
        self.add(entry, "wall", value);
        Ok(())
    }

    /// The log folder is that of the first log file.
    fn logs(&mut self, files: &[Option<&Entry>]) {
        let folder = |entry: &Entry| {
            let folder = Path::new(&entry.value).parent().filter(|f| !f.as_os_str().is_empty());
            folder.map_or_else(|| ".".to_owned(), |folder| folder.display().to_string())
        };
        let mut files = files.iter().flatten().filter(|entry| !entry.value.is_empty());
        let Some(first) = files.next() else { return };
        let logs = folder(first);
        self.add(first, "logs", logs.clone());
        for other in files.filter(|other| folder(other) != logs) {
            let what = format!("all logs go to {}, as {} says", one_line(&logs), first.key);
            self.warn(other, &what);
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let value = &*entry.value;
        let list = || value.split(';').map(str::trim).filter(|item| !item.is_empty());
        match &*entry.key {
            "port" => self.add(entry, "port", value),
            "debugMode" if self.is_true(entry) => self.add(entry, "debug", "classes"),
            "needNanoTime" => {
                let threshold = if self.is_true(entry) { "500us" } else { "1ms" };
                self.add(entry, "threshold", threshold);
            }
            "ignoreGetSetMethod" => {
                let accessors = if self.is_true(entry) { "off" } else { "on" };
                self.add(entry, "accessors", accessors);
            }
            "excludeClassLoader" => {
                for loader in list() {
                    // Its name from Java 9 on.
                    let loader = match loader {
                        "sun.misc.Launcher$AppClassLoader" => "app",
                        "sun.misc.Launcher$ExtClassLoader" => "platform",
                        other => other,
                    };
                    self.add(entry, "exclude_loader", loader);
                }
            }
            "includePackageStartsWith" => {
                for prefix in list() {
                    self.add(entry, "include", format!("~{prefix}"));
                }
            }
            "excludePackageStartsWith" => {
                for prefix in list() {
                    self.add(entry, "exclude", format!("~{prefix}"));
                }
            }
            key if is_known(key) => {}
            _ => self.warn(entry, "is no key of TProfiler's; it has no meaning here"),
        }
    }

    /// Whether the value is `true`; anything else means false, as in TProfiler.
    fn is_true(&mut self, entry: &Entry) -> bool {
        let is = |word: &str| entry.value.eq_ignore_ascii_case(word);
        if !is("true") && !is("false") {
            let what =
                format!("'{}' is neither true nor false; false is taken", one_line(&entry.value));
            self.warn(entry, &what);
        }
        is("true")
    }
}

/// Whether TProfiler has this key.
fn is_known(key: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "startProfTime",
        "endProfTime",
        "eachProfUseTime",
        "eachProfIntervalTime",
        "samplerIntervalTime",
        "port",
        "debugMode",
        "needNanoTime",
        "ignoreGetSetMethod",
        "excludeClassLoader",
        "includePackageStartsWith",
        "excludePackageStartsWith",
    ];
    LOG_FILES.contains(&key) || OTHERS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = (Vec<(String, String)>, Vec<String>);

    fn read_text(text: &str) -> Result<Read, BadValue> {
        let environment = |name: &str| (name == "user.home").then(|| "/home/shop".to_owned());
        let mut warnings = Vec::new();
        let settings = read("p.properties", text.as_bytes(), &environment, &mut warnings)?;
        Ok((settings.into_iter().map(|s| (s.key, s.value)).collect(), warnings))
    }

    fn settings(text: &str) -> Vec<String> {
        let (settings, warnings) = read_text(text).unwrap();
        assert_eq!(warnings, Vec::<String>::new(), "{text}");
        settings.into_iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    #[test]
    fn a_whole_file_means_what_it_meant() {
        let text = "\
# shop
startProfTime = 9:00:00
endProfTime = 11:00:00
eachProfUseTime = 10
eachProfIntervalTime = 20
samplerIntervalTime = 20
port = 50100
debugMode = true
needNanoTime = true
ignoreGetSetMethod = true
base = ${user.home}/logs
logFilePath = ${base}/tprofiler.log
methodFilePath = ${base}/tmethod.log
samplerFilePath = ${base}/tsampler.log
excludeClassLoader = org.x.Loader;sun.misc.Launcher$AppClassLoader
includePackageStartsWith = com.shop;Com.Pay.
excludePackageStartsWith = com.shop.util;
";
        let expected = [
            "window=9:00:00-11:00:00",
            "record=10s",
            "pause=20s",
            "wall=20s",
            "logs=/home/shop/logs",
            "port=50100",
            "debug=classes",
            "threshold=500us",
            "accessors=off",
            "exclude_loader=org.x.Loader",
            "exclude_loader=app",
            "include=~com.shop",
            "include=~Com.Pay.",
            "exclude=~com.shop.util",
        ];
        assert_eq!(settings(text), expected);
    }

    #[test]
    fn what_is_missing_takes_a_default() {
        assert_eq!(settings(""), Vec::<String>::new());
        assert_eq!(settings("startProfTime=22:00:00"), ["window=22:00:00-24:00"]);
        assert_eq!(settings("endProfTime=6:00:00"), ["window=0:00-6:00:00"]);
        assert_eq!(settings("eachProfUseTime=7"), ["record=7s", "pause=50s"]);
        assert_eq!(settings("eachProfIntervalTime=7"), ["record=5s", "pause=7s"]);
        assert_eq!(settings("needNanoTime=false\ndebugMode=false"), ["threshold=1ms"]);
        assert_eq!(settings("methodFilePath=t.log"), ["logs=."]);
        assert_eq!(settings("logFilePath=\nincludePackageStartsWith="), Vec::<String>::new());
    }

    #[test]
    fn the_sampler_s_interval_is_that_of_wall_within_its_range() {
        assert_eq!(settings("samplerIntervalTime=1"), ["wall=1s"]);
        assert_eq!(settings("samplerIntervalTime=60"), ["wall=1m"]);
        assert_eq!(settings("samplerIntervalTime=0"), ["wall=off"]);
        for seconds in ["61", "4294967295"] {
            let (settings, warnings) =
                read_text(&format!("\nsamplerIntervalTime={seconds}")).unwrap();
            assert_eq!(settings, [("wall".to_owned(), "1m".to_owned())]);
            let warning = format!(
                "p.properties:2: samplerIntervalTime: {seconds} is more than `wall` can be; \
                 wall=1m is taken"
            );
            assert_eq!(warnings, [warning]);
        }
    }

    #[test]
    fn what_has_no_meaning_is_named_once() {
        let text = "colour=${none} ${none}\ndebugMode=yes\n\
                    logFilePath=/a/x\nmethodFilePath=/b/y";
        let (settings, warnings) = read_text(text).unwrap();
        assert_eq!(settings, [("logs".to_owned(), "/a".to_owned())]);
        assert_eq!(
            warnings,
            [
                "p.properties:1: colour: unknown variable ${none}; not replaced",
                "p.properties:4: methodFilePath: all logs go to /a, as logFilePath says",
                "p.properties:1: colour: is no key of TProfiler's; it has no meaning here",
                "p.properties:2: debugMode: 'yes' is neither true nor false; false is taken",
            ]
        );
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        for (text, message) in [
            (
                "\nstartProfTime=nine",
                "p.properties:2: startProfTime: 'nine' is not a time like 9:00:00",
            ),
            ("endProfTime=25:00:00", "p.properties:1: endProfTime: '25:00:00' is not a time"),
            (
                "eachProfUseTime=-1",
                "p.properties:1: eachProfUseTime: '-1' is not a number of seconds",
            ),
            (
                "samplerIntervalTime=often",
                "p.properties:1: samplerIntervalTime: 'often' is not a number of seconds",
            ),
        ] {
            let error = read_text(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
