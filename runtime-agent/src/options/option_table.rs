//! The table of all options. It parses them, shows them in `run.json`, and has the defaults that `--help` and
//! docs/options.md show. A test checks that these agree.

use std::ops::RangeInclusive;
use std::time::Duration;

use log_format::error::BadValue;
use log_format::pattern::Pattern;
use log_format::units::{self, parse_duration};

use super::alloc::{alloc_text, parse_alloc};
use super::cpu_share::{parse_overhead, parse_share, share_text};
use super::engine::Engine;
use super::fault::Fault;
use super::log_limits::{compression, compression_text, megabytes, megabytes_text};
use super::retransform::Retransform;
use super::self_tests::ProbeChoice;
use super::value_texts::{
    duration, interval_text, needed, off_or_within, on_off, path, patterns, switch, wrong,
};
use super::values::{
    Given, Options, PortAccess, parse_threshold, parse_trace, thresholds_text, traces_text,
};
use crate::options::filters::Annotation;
use crate::schedule::{Window, parse_record};
use crate::sys::clock::ClockChoice;
use crate::sys::memory::limit;

/// Intervals of CPU time between samples.
const CPU_INTERVALS: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_secs(1);

/// Intervals between looks at a thread. The agent thread has a round each 50 to 70 ms.
pub(super) const WALL_INTERVALS: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(60);

/// Thresholds of waits for monitors.
const LOCK_THRESHOLDS: RangeInclusive<Duration> =
    Duration::from_micros(10)..=Duration::from_secs(60);

/// Thresholds of SQL statements.
const SQL_THRESHOLDS: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(3_600);

/// An option of the agent.
pub struct OptionDef {
    /// Its key.
    pub key: &'static str,
    /// Its default value, as written in options; `None` if its absence has a meaning of its own.
    pub default: Option<&'static str>,
    /// What it does, in one line.
    pub help: &'static str,
    /// Sets it to the written value.
    pub(super) set: fn(&mut Options, &str, &mut Given) -> Result<(), BadValue>,
    /// Shows the value in force.
    pub(super) show: fn(&Options) -> String,
}

/// The option with a key.
pub(super) fn find(key: &str) -> Option<&'static OptionDef> {
    OPTIONS.iter().find(|def| def.key == key)
}

/// All options, for `--help`.
#[must_use]
pub fn help() -> String {
    let line = |def: &OptionDef| {
        let example = match def.default {
            Some(default) => format!("{}={default}", def.key),
            None => def.key.to_owned(),
        };
        format!("  {example:<22} {}\n", def.help)
    };
    let lines: String = OPTIONS.iter().map(line).collect();
    format!("Options of the agent, with their defaults (docs/options.md):\n{lines}")
}

/// All options, in the order of docs/options.md.
pub const OPTIONS: &[OptionDef] = &[
    OptionDef {
        key: "include",
        default: None,
        help: "Instrument what this pattern or @annotation names; default: all classes outside the JDK",
        set: |options, value, given| {
            let filters = &mut options.filters;
            if !std::mem::replace(&mut given.include, true) {
                filters.include.clear();
                filters.include_annotations.clear();
            }
            match Annotation::parse(value)? {
                Some(annotation) => filters.include_annotations.push(annotation),
                None => filters.include.push(Pattern::parse(value)?),
            }
            Ok(())
        },
        show: |options| patterns(&options.filters.include, &options.filters.include_annotations),
    },
    OptionDef {
        key: "exclude",
        default: None,
        help: "Exclude what this pattern or @annotation names",
        set: |options, value, given| {
            let filters = &mut options.filters;
            if !std::mem::replace(&mut given.exclude, true) {
                filters.exclude.clear();
                filters.exclude_annotations.clear();
            }
            match Annotation::parse(value)? {
                Some(annotation) => filters.exclude_annotations.push(annotation),
                None => filters.exclude.push(Pattern::parse(value)?),
            }
            Ok(())
        },
        show: |options| patterns(&options.filters.exclude, &options.filters.exclude_annotations),
    },
    OptionDef {
        key: "exclude_loader",
        default: None,
        help: "Exclude the classes of this class loader",
        set: |options, value, given| {
            let loaders = &mut options.filters.exclude_loaders;
            if !std::mem::replace(&mut given.exclude_loader, true) {
                loaders.clear();
            }
            loaders.push(Pattern::parse(value).map_err(|e| e.of("exclude_loader"))?);
            Ok(())
        },
        show: |options| patterns(&options.filters.exclude_loaders, &[]),
    },
    OptionDef {
        key: "leaves",
        default: Some("skip"),
        help: "keep: instrument trivial leaves too",
        set: |options, value, _| {
            options.filters.leaves = match value {
                "keep" => true,
                "skip" => false,
                _ => return wrong("leaves", value, "is neither keep nor skip"),
            };
            Ok(())
        },
        show: |options| if options.filters.leaves { "keep" } else { "skip" }.to_owned(),
    },
    OptionDef {
        key: "accessors",
        default: Some("on"),
        help: "off: exclude methods that only read or write a field",
        set: |options, value, _| {
            options.filters.accessors = switch("accessors", value)?;
            Ok(())
        },
        show: |options| on_off(options.filters.accessors),
    },
    OptionDef {
        key: "min_code",
        default: Some("0"),
        help: "Exclude methods with fewer bytes of bytecode",
        set: |options, value, _| {
            let Ok(bytes) = value.parse() else {
                return wrong("min_code", value, "is not a number of bytes, like 0 or 16");
            };
            options.filters.min_code = bytes;
            Ok(())
        },
        show: |options| options.filters.min_code.to_string(),
    },
    OptionDef {
        key: "threshold",
        default: Some("1ms"),
        help: "Record each call that takes at least this long; PATTERN:20ms for some methods",
        set: |options, value, _| {
            match parse_threshold(value)? {
                (None, threshold) => options.recording.threshold = threshold,
                (Some(pattern), threshold) => {
                    options.recording.thresholds.retain(|(known, _)| *known != pattern);
                    options.recording.thresholds.push((pattern, threshold));
                }
            }
            Ok(())
        },
        show: |options| {
            let own =
                options.recording.thresholds.iter().map(|(pattern, d)| (pattern, units::as_ns(*d)));
            thresholds_text(units::as_ns(options.recording.threshold), own)
        },
    },
    OptionDef {
        key: "overhead",
        default: Some("2%"),
        help: "Overhead budget: the agent's share of the process's CPU time, or off",
        set: |options, value, _| {
            options.limits.overhead = parse_overhead(value)?;
            Ok(())
        },
        show: |options| share_text(options.limits.overhead),
    },
    OptionDef {
        key: "cpu",
        default: Some("10ms"),
        help: "Sample threads each time they have used this much CPU time, from 100us to 1s",
        set: |options, value, _| {
            let why = "is neither off nor from 100us to 1s, like 10ms";
            options.sampling.cpu = off_or_within("cpu", value, &CPU_INTERVALS, why)?;
            Ok(())
        },
        show: |options| interval_text(options.sampling.cpu),
    },
    OptionDef {
        key: "wall",
        default: Some("100ms"),
        help: "With cpu: sample waiting threads this often, from 50ms to 1m",
        set: |options, value, _| {
            let why = "is neither off nor from 50ms to 1m, like 100ms";
            options.sampling.wall = off_or_within("wall", value, &WALL_INTERVALS, why)?;
            Ok(())
        },
        show: |options| interval_text(options.sampling.wall),
    },
    OptionDef {
        key: "lock",
        default: Some("1ms"),
        help: "With cpu: record waits for locks that take at least this long, from 10us to 1m",
        set: |options, value, _| {
            let why = "is neither off nor from 10us to 1m, like 1ms";
            options.sampling.lock = off_or_within("lock", value, &LOCK_THRESHOLDS, why)?;
            Ok(())
        },
        show: |options| interval_text(options.sampling.lock),
    },
    OptionDef {
        key: "parks",
        default: Some("on"),
        help: "With lock: count waits for java.util.concurrent too",
        set: |options, value, _| {
            options.sampling.parks = switch("parks", value)?;
            Ok(())
        },
        show: |options| on_off(options.sampling.parks),
    },
    OptionDef {
        key: "sql",
        default: Some("off"),
        help: "With cpu: count SQL statements, and record those that take at least this long, like 100ms",
        set: |options, value, _| {
            let why = "is neither off nor from 0 to 1h, like 100ms";
            options.sampling.sql = off_or_within("sql", value, &SQL_THRESHOLDS, why)?;
            Ok(())
        },
        show: |options| interval_text(options.sampling.sql),
    },
    OptionDef {
        key: "sql_literals",
        default: Some("off"),
        help: "on: recorded SQL statements keep their literals, which may be secrets",
        set: |options, value, _| {
            options.sampling.sql_literals = switch("sql_literals", value)?;
            Ok(())
        },
        show: |options| on_off(options.sampling.sql_literals),
    },
    OptionDef {
        key: "alloc",
        default: Some("off"),
        help: "With cpu: sample one allocated object per this many bytes, from 1k to 1g, like 512k",
        set: |options, value, _| {
            options.sampling.alloc = parse_alloc(value)?;
            Ok(())
        },
        show: |options| alloc_text(options.sampling.alloc),
    },
    OptionDef {
        key: "trace",
        default: Some("off"),
        help: "With cpu: take the stack of one in N calls, as in com.shop.Order.pay:100",
        set: |options, value, _| {
            if value == "off" {
                options.recording.traces.clear();
                return Ok(());
            }
            let (pattern, every) = parse_trace(value)?;
            options.recording.traces.retain(|(known, _)| *known != pattern);
            options.recording.traces.push((pattern, every));
            Ok(())
        },
        show: |options| traces_text(&options.recording.traces),
    },
    OptionDef {
        key: "exceptions",
        default: Some("on"),
        help: "Count exceptions that leave methods by class; with cpu: keep an example of each",
        set: |options, value, _| {
            options.exceptions.count = switch("exceptions", value)?;
            Ok(())
        },
        show: |options| on_off(options.exceptions.count),
    },
    OptionDef {
        key: "exception_messages",
        default: Some("off"),
        help: "on: examples of exceptions have their messages, which may hold secrets",
        set: |options, value, _| {
            options.exceptions.messages = switch("exception_messages", value)?;
            Ok(())
        },
        show: |options| on_off(options.exceptions.messages),
    },
    OptionDef {
        key: "sampler_cap",
        default: Some("1%"),
        help: "The most of the process's CPU time that samples may take, or off",
        set: |options, value, _| {
            options.sampling.cap = parse_share("sampler_cap", "1%", value)?;
            Ok(())
        },
        show: |options| share_text(options.sampling.cap),
    },
    OptionDef {
        key: "engine",
        default: Some("auto"),
        help: "With cpu: what interrupts threads: perf, ctimer, itimer or auto",
        set: |options, value, _| {
            options.sampling.engine = match (value, Engine::of(value)) {
                ("auto", _) => None,
                (_, Some(engine)) => Some(engine),
                _ => return wrong("engine", value, "is none of auto, perf, ctimer and itimer"),
            };
            Ok(())
        },
        show: |options| options.sampling.engine.map_or("auto", Engine::name).to_owned(),
    },
    OptionDef {
        key: "start",
        default: Some("on"),
        help: "off: do not record before `tprofiler start`",
        set: |options, value, _| {
            options.recording.start = switch("start", value)?;
            Ok(())
        },
        show: |options| on_off(options.recording.start),
    },
    OptionDef {
        key: "window",
        default: None,
        help: "Record only at this time of day: 09:00-11:30",
        set: |options, value, _| {
            let window = Window::parse(value).map_err(|e| e.of("window"))?;
            options.recording.plan.window = Some(window);
            Ok(())
        },
        show: |options| {
            options.recording.plan.window.map(|window| window.to_string()).unwrap_or_default()
        },
    },
    OptionDef {
        key: "record",
        default: None,
        help: "Record this long, then pause, and repeat; needs pause",
        set: |options, value, _| {
            let record = parse_record(value).map_err(|e| e.of("record"))?;
            options.recording.plan.record = Some(record);
            Ok(())
        },
        show: |options| options.recording.plan.record.map(duration).unwrap_or_default(),
    },
    OptionDef {
        key: "pause",
        default: None,
        help: "Length of each pause; needs record",
        set: |options, value, _| {
            let pause = parse_duration(value).map_err(|e| e.of("pause"))?;
            options.recording.plan.pause = Some(pause);
            Ok(())
        },
        show: |options| options.recording.plan.pause.map(duration).unwrap_or_default(),
    },
    OptionDef {
        key: "logs",
        default: Some("logs"),
        help: "Folder in which the run's folder is created",
        set: |options, value, _| {
            options.log.folder = needed("logs", value, "a folder")?.into();
            Ok(())
        },
        show: |options| options.log.folder.display().to_string(),
    },
    OptionDef {
        key: "log_group",
        default: None,
        help: "Group that may read the log",
        set: |options, value, _| {
            options.log.group = Some(needed("log_group", value, "a group")?);
            Ok(())
        },
        show: |options| options.log.group.clone().unwrap_or_default(),
    },
    OptionDef {
        key: "max_mb_per_hour",
        default: Some("100"),
        help: "Megabytes that the log of an hour may take, or off",
        set: |options, value, _| {
            options.log.hour_bytes = megabytes("max_mb_per_hour", "100", value)?;
            Ok(())
        },
        show: |options| megabytes_text(options.log.hour_bytes),
    },
    OptionDef {
        key: "max_mb",
        default: Some("2048"),
        help: "Megabytes that the log of the run may take, or off",
        set: |options, value, _| {
            options.log.run_bytes = megabytes("max_mb", "2048", value)?;
            Ok(())
        },
        show: |options| megabytes_text(options.log.run_bytes),
    },
    OptionDef {
        key: "keep",
        default: Some("72h"),
        help: "How long an hour's files are kept after they were closed, or off",
        set: |options, value, _| {
            options.log.keep = match value {
                "off" => None,
                _ => match parse_duration(value) {
                    Ok(keep) => Some(keep),
                    Err(_) => {
                        return wrong("keep", value, "is neither a duration like 72h nor off");
                    }
                },
            };
            Ok(())
        },
        show: |options| options.log.keep.map_or_else(|| "off".to_owned(), duration),
    },
    OptionDef {
        key: "compress",
        default: Some("gzip"),
        help: "How closed hours are compressed: gzip, zstd or off",
        set: |options, value, _| {
            options.log.compress = compression(value)?;
            Ok(())
        },
        show: |options| compression_text(options.log.compress),
    },
    OptionDef {
        key: "debug",
        default: None,
        help: "classes: write the decision on each class to classes.log",
        set: |options, value, _| {
            if value == "classes" {
                options.log.debug_classes = true;
            } else if options.tests.pretend.set(value).is_none() {
                let Some(fault) = value.strip_prefix("fault:").and_then(Fault::parse) else {
                    return wrong("debug", value, "is not classes");
                };
                options.tests.fault = fault;
            }
            Ok(())
        },
        show: |options| if options.log.debug_classes { "classes" } else { "" }.to_owned(),
    },
    OptionDef {
        key: "port",
        default: Some("50000"),
        help: "Control port, or the next free of 16, or off",
        set: |options, value, _| {
            options.control.port = match (value, value.parse()) {
                ("off", _) => None,
                (_, Ok(port)) if port > 0 => Some(port),
                _ => {
                    return wrong(
                        "port",
                        value,
                        "is not a port from 1 to 65535, like 50000, or off",
                    );
                }
            };
            Ok(())
        },
        show: |options| {
            options.control.port.map_or_else(|| "off".to_owned(), |port| port.to_string())
        },
    },
    OptionDef {
        key: "port_access",
        default: Some("token"),
        help: "open: local clients start, stop and flush without the token",
        set: |options, value, _| {
            options.control.access = match value {
                "token" => PortAccess::Token,
                "open" => PortAccess::Open,
                _ => return wrong("port_access", value, "is neither token nor open"),
            };
            Ok(())
        },
        show: |options| match options.control.access {
            PortAccess::Token => "token".to_owned(),
            PortAccess::Open => "open".to_owned(),
        },
    },
    OptionDef {
        key: "bind",
        default: Some("127.0.0.1"),
        help: "Address to listen on; other than loopback needs a token_file",
        set: |options, value, _| {
            let Ok(address) = value.parse() else {
                return wrong("bind", value, "is not an address like 127.0.0.1 or ::1");
            };
            options.control.bind = address;
            Ok(())
        },
        show: |options| options.control.bind.to_string(),
    },
    OptionDef {
        key: "token_file",
        default: None,
        help: "File whose first line is the token; default: a random token in the run's folder",
        set: |options, value, _| {
            options.control.token_file = Some(needed("token_file", value, "a file")?.into());
            Ok(())
        },
        show: |options| path(options.control.token_file.as_ref()),
    },
    OptionDef {
        key: "max_memory",
        default: None,
        help: "Ceiling for memory that grows with threads and calls; default: 1/16 of the memory",
        set: |options, value, _| {
            let Some(bytes) = limit::parse(value) else {
                return wrong("max_memory", value, "is not a size like 64m, from 1m up");
            };
            options.limits.memory = Some(bytes);
            Ok(())
        },
        show: |options| options.limits.memory.map(limit::text).unwrap_or_default(),
    },
    OptionDef {
        key: "clock",
        default: Some("auto"),
        help: "monotonic: read CLOCK_MONOTONIC, not the processor's counter",
        set: |options, value, _| {
            let Some(clock) = ClockChoice::parse(value) else {
                return wrong("clock", value, "is neither auto nor monotonic");
            };
            options.probes.clock = clock;
            Ok(())
        },
        show: |options| options.probes.clock.text().to_owned(),
    },
    OptionDef {
        key: "retransform",
        default: Some("on"),
        help: "Change loaded classes: on, off, or even-running",
        set: |options, value, _| {
            options.probes.retransform = match value {
                "on" => Retransform::On,
                "off" => Retransform::Off,
                "even-running" => Retransform::EvenRunning,
                _ => return wrong("retransform", value, "is not on, off or even-running"),
            };
            Ok(())
        },
        show: |options| match options.probes.retransform {
            Retransform::On => "on".to_owned(),
            Retransform::Off => "off".to_owned(),
            Retransform::EvenRunning => "even-running".to_owned(),
        },
    },
    OptionDef {
        key: "probe",
        default: Some("auto"),
        help: "Form of the probes: auto, fast or plain",
        set: |options, value, _| {
            let Some(probe) = ProbeChoice::parse(value) else {
                return wrong("probe", value, "is not auto, fast or plain");
            };
            options.probes.form = probe;
            Ok(())
        },
        show: |options| options.probes.form.text().to_owned(),
    },
    OptionDef {
        key: "strict",
        default: Some("off"),
        help: "on: a wrong option stops the JVM instead of the agent",
        set: |options, value, _| {
            options.strict = value.is_empty() || switch("strict", value)?;
            Ok(())
        },
        show: |options| on_off(options.strict),
    },
    OptionDef {
        key: "config",
        default: None,
        help: "File with more options",
        // The file has been read already.
        set: |_, _, _| Ok(()),
        show: |options| path(options.config.as_ref()),
    },
];
