//! Valid and invalid options from all their sources.

use std::fs;
use std::time::Duration;

use log_format::compression::Compression;
use log_format::pattern::Pattern;

use super::*;
use crate::sys::clock::ClockChoice;

/// Parses without environment variables.
fn parse(text: &str) -> Result<Options, BadOptions> {
    Options::read_with(text, &|_| None)
}

/// Parses with `TPROFILER_OPTS`.
fn parse_with(text: &str, environment: &str) -> Result<Options, BadOptions> {
    Options::read_with(text, &|name| (name == ENVIRONMENT).then(|| environment.to_owned()))
}

fn patterns(list: &[Pattern]) -> Vec<&str> {
    list.iter().map(Pattern::as_str).collect()
}

#[test]
fn options_with_repeated_keys_and_defaults() {
    assert_eq!(parse("").unwrap(), Options::default());
    let options = parse(
        "include=com.shop,include=org.x.*Dao,exclude=com.shop.util,threshold=500us,\
         logs=/var/log/shop,port=50010,port=50020,start=off,strict",
    )
    .unwrap();
    assert_eq!(options.filters.include.len(), 2);
    assert_eq!(options.filters.exclude.len(), 1);
    assert_eq!(options.recording.threshold, Duration::from_micros(500));
    assert_eq!(options.log.folder, PathBuf::from("/var/log/shop"));
    assert_eq!((options.log.group.as_deref(), &*options.to_map()["log_group"]), (None, ""));
    let options_of_group = parse("log_group=shop").unwrap();
    assert_eq!(options_of_group.log.group.as_deref(), Some("shop"));
    assert_eq!(options_of_group.to_map()["log_group"], "shop");
    assert_eq!(options.control.port, Some(50_020));
    assert!(!options.recording.start && options.strict);
    assert_eq!(parse("port=off").unwrap().control.port, None);
    for (text, clock) in [("", ClockChoice::Auto), ("clock=monotonic", ClockChoice::Monotonic)] {
        let options = parse(text).unwrap();
        assert_eq!((options.probes.clock, &*options.to_map()["clock"]), (clock, clock.text()));
    }
    assert_eq!(parse("clock=monotonic,clock=auto").unwrap().probes.clock, ClockChoice::Auto);
    let bad = parse("clock=tsc").unwrap_err();
    assert_eq!(bad.to_string(), "clock: 'tsc' is neither auto nor monotonic");
}

#[test]
fn the_form_of_probes_and_what_tests_pretend() {
    assert_eq!(parse("").unwrap().probes.form, ProbeChoice::Auto);
    assert_eq!(parse("").unwrap().to_map()["probe"], "auto");
    for (text, choice) in
        [("auto", ProbeChoice::Auto), ("fast", ProbeChoice::Fast), ("plain", ProbeChoice::Plain)]
    {
        let options = parse(&format!("probe={text}")).unwrap();
        assert_eq!((options.probes.form, &*options.to_map()["probe"]), (choice, text));
    }
    let wrong = parse("probe=slow").unwrap_err().to_string();
    assert_eq!(wrong, "probe: 'slow' is not auto, fast or plain");
    let options = parse(
        "debug=classes,debug=newest-tested:17,debug=fails:call-site,debug=fails:mount-events",
    );
    let options = options.unwrap();
    assert!(options.log.debug_classes);
    assert_eq!(options.tests.pretend.newest_tested, Some(17));
    let fails = |trick| options.tests.pretend.fails(trick);
    assert!(fails(Trick::CallSite) && fails(Trick::MountEvents) && !fails(Trick::ThreadWord));
    for wrong in ["fails:luck", "newest-tested:", "newest-tested:x", "fails"] {
        let message = parse(&format!("debug={wrong}")).unwrap_err().to_string();
        assert_eq!(message, format!("debug: '{wrong}' is not classes"));
    }
}

#[test]
fn filters_thresholds_and_times() {
    let options = parse(
        "include=com.shop,include=@com.shop.Timed,exclude=@com.shop.Quiet,exclude=**.toString,\
         exclude_loader=com.shop.*Loader,accessors=off,leaves=keep,min_code=20,threshold=2ms,\
         threshold=com.shop.dao.*:20ms,threshold=com.shop:5ms,threshold=com.shop.dao.*:30ms,\
         window=9:00-11:00,record=5s,pause=50s,debug=classes",
    )
    .unwrap();
    assert_eq!(patterns(&options.filters.include), ["com.shop"]);
    assert_eq!(options.filters.include_annotations.len(), 1);
    assert_eq!(options.filters.exclude_annotations.len(), 1);
    assert_eq!(patterns(&options.filters.exclude_loaders), ["com.shop.*Loader"]);
    assert!(!options.filters.accessors && options.filters.leaves && options.log.debug_classes);
    assert_eq!(options.filters.min_code, 20);
    let map = options.to_map();
    assert_eq!(map["include"], "com.shop,@com.shop.Timed");
    assert_eq!(map["threshold"], "2ms,com.shop:5ms,com.shop.dao.*:30ms");
    assert_eq!(map["window"], "09:00:00-11:00:00");
    assert_eq!((&*map["record"], &*map["pause"]), ("5s", "50s"));
}

#[test]
fn what_needs_cpu_samples_is_reported() {
    let warnings = |text: &str| parse(text).unwrap().warnings;
    assert!(warnings("trace=a.B,alloc=512k,sql=1ms,sql_literals=on").is_empty());
    assert_eq!(warnings("sql_literals=on"), ["sql_literals needs sql, which is off"]);
    assert_eq!(warnings("cpu=off,sql=1ms"), ["sql needs cpu, which is off"]);
    let said = warnings("cpu=off,trace=a.B,alloc=512k");
    assert_eq!(said, ["alloc needs cpu, which is off", "trace needs cpu, which is off"]);
}

#[test]
fn traced_methods() {
    let text = |options: &str| parse(options).unwrap().to_map()["trace"].clone();
    assert_eq!(
        text("trace=com.shop.Order.pay:100,trace=com.shop"),
        "com.shop.Order.pay:100,com.shop:1"
    );
    assert_eq!(text("trace=a.B:5,trace=a.C,trace=a.B:6"), "a.C:1,a.B:6");
    assert_eq!(text("trace=a.B:5,trace=off"), "off");
}

#[test]
fn the_ceiling_of_memory() {
    let options = parse("max_memory=64m").unwrap();
    assert_eq!(options.limits.memory, Some(64 << 20));
    assert_eq!(options.to_map()["max_memory"], "64m");
    assert_eq!(parse("max_memory=1500000").unwrap().to_map()["max_memory"], "1500000");
    let default = parse("").unwrap();
    assert_eq!((default.limits.memory, &*default.to_map()["max_memory"]), (None, ""));
}

#[test]
fn limits_of_the_log() {
    let options = parse("max_mb_per_hour=0.5,max_mb=10,keep=2h,compress=zstd").unwrap();
    assert_eq!(options.log.hour_bytes, Some(500_000));
    assert_eq!(options.log.run_bytes, Some(10_000_000));
    assert_eq!(options.log.keep, Some(Duration::from_hours(2)));
    assert_eq!(options.log.compress, Compression::Zstd);
    let map = options.to_map();
    for (key, value) in [("max_mb_per_hour", "0.5"), ("max_mb", "10"), ("compress", "zstd")] {
        assert_eq!(map[key], value);
    }
    let off = parse("max_mb_per_hour=off,max_mb=off,keep=off,compress=off").unwrap();
    assert_eq!((off.log.hour_bytes, off.log.run_bytes, off.log.keep), (None, None, None));
    assert_eq!(parse("max_mb=1").unwrap().to_map()["compress"], "gzip");
    // What `to_map` writes can be read again.
    for options in [options, off] {
        let text: Vec<String> = options
            .to_map()
            .iter()
            .filter(|(key, value)| !value.is_empty() || *key == "strict")
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        assert_eq!(parse(&text.join(",")).unwrap(), options);
    }
}

#[test]
fn what_is_wrong_is_named_in_one_line() {
    for (text, message) in [
        ("colour=red", "unknown option 'colour'"),
        ("treshold=1ms", "unknown option 'treshold'; did you mean threshold?"),
        ("include=com.shop logs=x", "'com.shop logs=x': a comma belongs before logs="),
        ("exclude=com.shop:port=x", "'com.shop:port=x': a comma belongs before port="),
        ("include", "'' is not a pattern"),
        ("include=com..shop", "'com..shop' is not a pattern"),
        ("include=@", "'@' is not an annotation"),
        ("exclude_loader=a..b", "exclude_loader: 'a..b' is not a pattern"),
        ("accessors=no", "accessors: 'no' is neither on nor off"),
        ("leaves=off", "leaves: 'off' is neither keep nor skip"),
        ("min_code=-1", "min_code: '-1' is not a number of bytes"),
        ("threshold=fast", "threshold: 'fast' is not a duration"),
        ("threshold=1", "threshold: '1' is not a duration"),
        ("threshold=com..x:1ms", "threshold: 'com..x' is not a pattern"),
        ("threshold=com.x:", "threshold: '' is not a duration"),
        ("trace=com..x:9", "trace: 'com..x:9' is neither off nor methods and a number of calls"),
        ("trace=com.x=9", "trace: 'com.x=9' is neither off nor methods and a number of calls"),
        ("trace=on", "trace: 'on' is neither off nor methods and a number of calls"),
        ("trace=com.x:0", "trace: '0' is not a number of calls from 1 to 1000000000, like 100"),
        ("port=0", "port: '0' is not a port"),
        ("bind=web07", "bind: 'web07' is not an address like 127.0.0.1 or ::1"),
        ("bind=", "bind: '' is not an address like 127.0.0.1 or ::1"),
        ("log_group=", "log_group: a group is needed"),
        ("token_file=", "token_file: a file is needed"),
        ("port_access=all", "port_access: 'all' is neither token nor open"),
        ("port=99999", "port: '99999' is not a port"),
        ("start=yes", "start: 'yes' is neither on nor off"),
        ("window=9", "window: '9' is not a time of the day to another"),
        ("record=0s,pause=1s", "record: '0s' is not longer than 0; use a duration like 5s"),
        ("record=5s", "record and pause belong together"),
        ("max_memory=64x", "max_memory: '64x' is not a size like 64m, from 1m up"),
        ("max_memory=100k", "max_memory: '100k' is not"),
        ("max_mb_per_hour=0.4", "max_mb_per_hour: '0.4' is not a number of megabytes from 0.5"),
        ("max_mb=-1", "max_mb: '-1' is not a number of megabytes"),
        ("max_mb=inf", "max_mb: 'inf' is not a number of megabytes"),
        ("keep=3", "keep: '3' is neither a duration like 72h nor off"),
        ("compress=lzma", "compress: 'lzma' is not gzip, zstd or off"),
        ("debug=all", "debug: 'all' is not classes"),
        ("logs=", "logs: a folder is needed"),
        ("config=", "config: a file is needed"),
        ("config=/nowhere/t.toml", "config: /nowhere/t.toml: No such file or directory"),
        ("config=/nowhere/t.properties", "config: /nowhere/t.properties: No such file"),
    ] {
        let bad = parse(text).unwrap_err();
        assert!(bad.to_string().starts_with(message), "{bad}");
        assert!(!bad.to_string().contains('\n'));
        assert!(!bad.strict);
    }
    let bad = parse_with("", "port=0").unwrap_err();
    assert!(bad.to_string().starts_with("TPROFILER_OPTS: port: '0' is not"), "{bad}");
}

/// The error of a wrong value names the default, or else another value that the option takes.
#[test]
fn errors_name_a_value_that_fits() {
    // Any text can be one of these.
    let names = ["logs", "log_group", "token_file", "config"];
    for def in OPTIONS.iter().filter(|def| !names.contains(&def.key)) {
        let takes = |value: &str| {
            let set = (def.set)(&mut Options::default(), value, &mut Given::default());
            set.map_err(|error| error.to_string())
        };
        let message = takes("a/b").unwrap_err();
        let words = || message.split([' ', ',', ';']).filter(|word| !word.is_empty());
        let fits = match def.default {
            Some(default) => words().any(|word| word == default),
            None => words().any(|word| takes(word).is_ok()),
        };
        assert!(fits, "{}: {message}", def.key);
    }
}

#[test]
fn strict_counts_wherever_it_stands() {
    assert!(parse("colour=red,strict").unwrap_err().strict);
    assert!(parse("strict=on,colour=red").unwrap_err().strict);
    assert!(!parse("strict,colour=red,strict=off").unwrap_err().strict);
    assert!(parse_with("colour=red", "strict").unwrap_err().strict);
    assert!(parse("config=/nowhere/t.toml,strict").unwrap_err().strict);
}

#[test]
fn the_option_string_wins_over_the_environment_and_that_over_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.toml");
    let text = "include = ['a.File', 'b.File']\nexclude = 'c.File'\nthreshold = ['3ms', 'x.Y:1ms']\n\
                port = 1111\nlogs = 'file'\n";
    fs::write(&path, text).unwrap();
    let config = format!("config={}", path.display());
    let options =
        parse_with(&format!("{config},logs=string,threshold=z:9ms"), "port=2222,logs=environment")
            .unwrap();
    assert_eq!(patterns(&options.filters.include), ["a.File", "b.File"]);
    assert_eq!((options.control.port, &*options.log.folder), (Some(2222), Path::new("string")));
    assert_eq!(options.recording.threshold, Duration::from_millis(3));
    assert_eq!(options.recording.thresholds.len(), 2);
    assert_eq!(options.config.as_deref(), Some(&*path));

    // Lists of a stronger source replace those of weaker ones; either source may name the file.
    let options = parse_with("include=d.String", &format!("{config},exclude=e.Env")).unwrap();
    assert_eq!(patterns(&options.filters.include), ["d.String"]);
    assert_eq!(patterns(&options.filters.exclude), ["e.Env"]);

    for (text, message) in [
        ("port = 0", ":1: port: '0' is not a port"),
        ("\ncolour = 'red'\nport=0", ":2: unknown option 'colour'"),
        ("config = 'other'", ":1: config: a file cannot name another"),
        ("include = ['com..x']", ":1: 'com..x' is not a pattern"),
    ] {
        fs::write(&path, text).unwrap();
        let bad = parse(&config).unwrap_err();
        let expected = format!("{}{message}", path.display());
        assert!(bad.to_string().starts_with(&expected), "{bad}");
    }
}

#[test]
fn a_file_of_tprofilers_is_known_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.properties");
    fs::write(&path, "needNanoTime=true\ncolour=red\nport=http\n").unwrap();
    let bad = parse(&format!("config={}", path.display())).unwrap_err();
    let expected = format!("{}:3: port: 'http' is not a port", path.display());
    assert!(bad.to_string().starts_with(&expected), "{bad}");
    let options = parse(&format!("config={},threshold=7ms", path.display()));
    assert!(options.is_err());
    fs::write(&path, "needNanoTime=true\ncolour=red\n").unwrap();
    let options = parse(&format!("config={}", path.display())).unwrap();
    assert_eq!(options.recording.threshold, Duration::from_micros(500));
    assert_eq!(options.warnings.len(), 2);
    assert_eq!(options.sampling, SamplingOptions::default());
}

#[test]
fn the_sampler_s_interval_of_tprofilers_file_says_how_often_threads_are_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.properties");
    let wall = |seconds: &str, behind: &str| {
        fs::write(&path, format!("samplerIntervalTime={seconds}\nneedNanoTime=true\n")).unwrap();
        let options = parse(&format!("config={}{behind}", path.display())).unwrap();
        (options.to_map()["wall"].clone(), options.warnings)
    };
    let open = wall("20", "").1;
    assert_eq!(wall("20", ""), ("20s".to_owned(), open.clone()));
    assert_eq!(wall("20", ",wall=off").0, "off");
    let (taken, warnings) = wall("3600", "");
    assert_eq!((taken.as_str(), warnings.len()), ("1m", open.len() + 1));
}

#[test]
fn a_file_of_tprofilers_opens_the_port_and_warns_unless_a_stronger_source_decides() {
    let folder = tempfile::tempdir().unwrap();
    let (properties, toml) =
        (folder.path().join("profile.properties"), folder.path().join("t.toml"));
    fs::write(&properties, "needNanoTime=true\n").unwrap();
    fs::write(&toml, "port_access = 'open'\n").unwrap();
    let config = format!("config={}", properties.display());
    let access = |text: &str, environment: &str| {
        let options = parse_with(text, environment).unwrap();
        (options.control.access, options.warnings)
    };
    let (open, warnings) = access(&config, "");
    assert_eq!((open, warnings.len()), (PortAccess::Open, 1));
    let begins = format!("{}: TProfiler's client knows no token", properties.display());
    assert!(warnings[0].starts_with(&begins) && !warnings[0].contains('\n'), "{warnings:?}");
    for (text, environment, expected) in [
        (format!("{config},port_access=open"), "", PortAccess::Open),
        (format!("port_access=token,{config}"), "", PortAccess::Token),
        (config.clone(), "port_access=token", PortAccess::Token),
        (format!("{config},port=off"), "", PortAccess::Open),
        (format!("config={}", toml.display()), "", PortAccess::Open),
        (String::new(), "", PortAccess::Token),
    ] {
        assert_eq!(access(&text, environment), (expected, vec![]), "{text}");
    }
    assert_eq!(parse("port_access=open").unwrap().to_map()["port_access"], "open");
    assert_eq!(parse("").unwrap().to_map()["port_access"], "token");
}

/// The table's defaults equal `Options::default()`, and docs/options.md has exactly these options and defaults, in this
/// order.
#[test]
fn the_table_the_defaults_and_the_docs_agree() {
    let defaults = Options::default();
    for def in OPTIONS {
        let Some(default) = def.default else { continue };
        let options = parse(&format!("{}={default}", def.key)).unwrap();
        assert_eq!(options, defaults, "{}={default}", def.key);
        assert_eq!((def.show)(&defaults), default, "{}", def.key);
    }
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/options.md");
    let docs = fs::read_to_string(docs).unwrap();
    let lists = docs.split("## Patterns").next().unwrap().lines();
    let names = lists.filter_map(|line| line.strip_prefix("- `")?.split(": ").next());
    // An item may name two options: `record`, `pause`.
    let documented: Vec<&str> =
        names.flat_map(|name| name.split(", ").map(|one| one.trim_matches('`'))).collect();
    let written = |def: &option_table::OptionDef| match def.default {
        Some(default) => format!("{}={default}", def.key),
        None => def.key.to_owned(),
    };
    let options: Vec<String> = OPTIONS.iter().map(written).collect();
    assert_eq!(options, documented);
    for def in OPTIONS {
        assert!(option_table::help().contains(def.help) && def.help.len() <= 90, "{}", def.key);
    }
}

/// README's table has some of the options, with their defaults where these are values.
#[test]
fn the_readme_has_the_defaults_of_the_table() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let table = readme.split("| option | default |").nth(1).unwrap().split("\n\n").next().unwrap();
    let mut compared = 0;
    for line in table.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let (keys, defaults) = (cells.next().unwrap(), cells.next().unwrap());
        let keys = keys.split(", ").map(|key| key.trim_matches('`'));
        for (at, key) in keys.enumerate() {
            let def = OPTIONS.iter().find(|def| def.key == key);
            let default = def.unwrap_or_else(|| panic!("{line}")).default;
            let value = defaults.split(", ").nth(at);
            if let Some(written) = value.and_then(|value| value.strip_prefix('`')) {
                assert_eq!(Some(written.trim_end_matches('`')), default, "{line}");
                compared += 1;
            }
        }
    }
    assert!(compared > 12, "{compared}");
}
