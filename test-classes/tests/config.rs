//! Options from files and from the environment, and recording that switches on by itself.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use log_format::rows::Exit;
use test_classes::{Finished, Java, Jdk, Profile, classes, jdks, wait_until};

fn java(jdk: &Jdk, options: &str, folder: &Path) -> Java {
    Java::new(jdk).agent(options).main(classes(), "programs.Filtered").folder(folder)
}

fn run(jdk: &Jdk, options: &str, folder: &Path) -> Finished {
    // Shown if the test fails.
    println!("{jdk}: {options}");
    let finished = java(jdk, options, folder).run();
    assert_eq!(finished.status, Some(0), "{}", finished.stderr);
    finished
}

/// The options in effect, from run.json.
fn options(run: &Path) -> serde_json::Value {
    let text = fs::read_to_string(run.join("run.json")).expect("run.json");
    let run: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    run["options"].clone()
}

/// Methods that were called, without the package.
fn called(profile: &Profile) -> BTreeSet<&str> {
    let names = profile.counts.keys().filter_map(|name| name.rsplit_once(' '));
    names.filter_map(|(name, _)| name.strip_prefix("programs.")).collect()
}

#[test]
fn a_toml_file_has_every_option() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = "\
# A comment.
include = [\"programs.Filtered\", '@programs.Filtered$Timed']
exclude = 'programs.Filtered.main'
exclude_loader = ['**$Loader']
accessors = false
min_code = 5
threshold = ['0', 'programs.Filtered.plain:1h']
logs = 'from file'
port = 'off'
start = true
window = '00:00-24:00'
record = '1h'
pause = '1h'
debug = 'classes'
strict = false
";
        fs::write(folder.path().join("shop.toml"), text).expect("a file");
        run(jdk, "config=shop.toml", folder.path()).expect_quiet_success(jdk);
        let profile = Profile::only_run(&folder.path().join("from file"));
        let expected = ["Filtered <init>", "Filtered other", "Filtered plain", "Filtered timed"];
        let called = called(&profile);
        assert!(expected.iter().all(|name| called.contains(name)), "{jdk}: {called:?}");
        for name in ["Filtered main", "Filtered getNumber", "Filtered$Loaded run"] {
            assert!(!called.contains(name), "{jdk}: {name}");
        }
        let recorded = |name: &str| profile.records.iter().any(|r| r.method.contains(name));
        assert!(recorded(" timed ") && !recorded(" plain "), "{jdk}");
        assert!(profile.folder.join("classes.log").exists());
        let options = options(&profile.folder);
        for (key, value) in [
            ("config", "shop.toml"),
            ("include", "programs.Filtered,@programs.Filtered$Timed"),
            ("exclude_loader", "**$Loader"),
            ("accessors", "off"),
            ("min_code", "5"),
            ("window", "00:00:00-00:00:00"),
        ] {
            assert_eq!(options[key], value, "{jdk}: {key}");
        }
    }
}

#[test]
fn a_stronger_source_wins_key_by_key() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text =
            "include = ['java.util.List', 'programs']\nlogs = 'file'\nport = 'off'\nmin_code = 7\n";
        fs::write(folder.path().join("shop.toml"), text).expect("a file");
        let environment =
            "config=shop.toml,include=programs.Filtered.main,logs=environment,min_code=3";
        let finished =
            java(jdk, "logs=string", folder.path()).variable("TPROFILER_OPTS", environment).run();
        finished.expect_quiet_success(jdk);
        let profile = Profile::only_run(&folder.path().join("string"));
        assert_eq!(called(&profile), BTreeSet::from(["Filtered main"]), "{jdk}");
        let options = options(&profile.folder);
        for (key, value) in [("port", "off"), ("min_code", "3"), ("logs", "string")] {
            assert_eq!(options[key], value, "{jdk}: {key}");
        }
        assert!(
            !folder.path().join("file").exists() && !folder.path().join("environment").exists()
        );
    }
}

#[test]
fn a_wrong_file_leaves_the_service_alone() {
    for jdk in jdks() {
        for (name, text, message) in [
            (
                "shop.toml",
                Some("port = 0\n"),
                "shop.toml:1: port: '0' is not a port from 1 to 65535, like 50000, or off",
            ),
            ("shop.toml", Some("\nlogs = \n"), "shop.toml:2: "),
            ("shop.toml", Some("a = 1\nb = 2\n"), "shop.toml:1: unknown option 'a'; options are "),
            ("shop.toml", None, "config: shop.toml: No such file or directory (os error 2)"),
            ("p.properties", Some("\nport=http\n"), "p.properties:2: port: 'http' is not a port"),
            (
                "p.properties",
                Some("eachProfUseTime=0\n"),
                "p.properties:1: record: '0s' is not longer than 0",
            ),
            ("p.properties", None, "config: p.properties: No such file"),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            if let Some(text) = text {
                fs::write(folder.path().join(name), text).expect("a file");
            }
            let finished = run(jdk, &format!("config={name}"), folder.path());
            assert_eq!(finished.stdout.lines().count(), 4, "{jdk}: {name}");
            let start = format!("tprofiler: {message}");
            assert!(finished.stderr.starts_with(&start), "{jdk}: {}", finished.stderr);
            assert!(finished.stderr.ends_with("; profiling is off\n"), "{}", finished.stderr);
            assert_eq!(finished.stderr.lines().count(), 1, "{jdk}: {}", finished.stderr);
            assert!(!folder.path().join("logs").exists());
            let strict = java(jdk, &format!("strict,config={name}"), folder.path()).run();
            assert_eq!(strict.status, Some(1), "{jdk}: {name}");
        }
    }
}

#[test]
fn a_profile_properties_of_tprofilers_is_taken_as_it_is() {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = "\
#log file name
logFileName = tprofiler.log
base = ${user.home}/tprofiler
startProfTime = 0:00:00
endProfTime = 23:59:59
eachProfUseTime = 5
eachProfIntervalTime = 50
samplerIntervalTime = 20
port = 50007
debugMode = false
needNanoTime = true
ignoreGetSetMethod = true
logFilePath = ${base}/${logFileName}
methodFilePath = ${base}/tmethod.log
samplerFilePath = ${base}/tsampler.log
excludeClassLoader = programs.Filtered$Loader;org.x.Loader
includePackageStartsWith = COM.taobao;Programs.fil
excludePackageStartsWith = com.taobao.sketch;programs.filtered$WH
";
        fs::write(folder.path().join("profile.properties"), text).expect("a file");
        let finished = java(jdk, "config=profile.properties,port=off", folder.path())
            .variable("HOME", folder.path())
            .run();
        assert_eq!(finished.stderr, "", "{jdk}");
        let profile = Profile::only_run(&folder.path().join("tprofiler"));
        let called = called(&profile);
        assert!(called.contains("Filtered timed"), "{jdk}: {called:?}");
        for name in ["Filtered getNumber", "Filtered$Loaded run", "Filtered$Whole first"] {
            assert!(!called.contains(name), "{jdk}: {name}");
        }
        let options = options(&profile.folder);
        for (key, value) in [
            ("include", "~COM.taobao,~Programs.fil"),
            ("exclude", "~com.taobao.sketch,~programs.filtered$WH"),
            ("threshold", "500us"),
            ("window", "00:00:00-23:59:59"),
            ("record", "5s"),
            ("pause", "50s"),
            ("wall", "20s"),
        ] {
            assert_eq!(options[key], value, "{jdk}: {key}");
        }
    }
}

#[test]
fn recording_goes_on_and_off_by_turns() {
    let jdk = jdks().last().expect("a JDK");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (logs, stop) = (folder.path().join("logs"), folder.path().join("stop"));
    let options = format!(
        "include=programs.Waits.eight,threshold=0,record=400ms,pause=600ms,logs={},port=off",
        logs.display()
    );
    let program =
        Java::new(jdk).agent(&options).main(classes(), "programs.Waits").arg(&stop).start();
    wait_until("a run", || fs::read_dir(&logs).is_ok_and(|mut runs| runs.next().is_some()));
    let began = Instant::now();
    wait_until("five rounds", || began.elapsed() > Duration::from_secs(5));
    fs::write(&stop, "").expect("a file");
    program.wait().expect_quiet_success(jdk);
    // Gaps between calls of a method that is called all the time.
    let profile = Profile::only_run(&logs);
    let mut starts: Vec<u64> = profile.records.iter().map(|r| r.start_ns).collect();
    starts.sort_unstable();
    let gaps = starts.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0]));
    let pauses: Vec<Duration> = gaps.filter(|gap| *gap > Duration::from_millis(300)).collect();
    assert!(pauses.len() >= 3, "{pauses:?}");
    // Some of them may be longer if the machine is busy.
    let short = pauses.into_iter().min().expect("a pause");
    assert!((Duration::from_millis(400)..Duration::from_millis(900)).contains(&short), "{short:?}");
}

#[test]
fn outside_its_window_nothing_is_recorded() {
    let jdk = jdks().first().expect("a JDK");
    for (zone, is_in) in [("UTC0", true), ("XYZ-12", false)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        // Six hours around now in UTC; the other zone is twelve hours ahead.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let hour = now.expect("a time").as_secs() / 3600 % 24;
        let window = format!("{}:00-{}:00", (hour + 21) % 24, (hour + 3) % 24);
        let finished =
            java(jdk, &format!("include=programs,window={window},port=off"), folder.path())
                .variable("TZ", zone)
                .run();
        finished.expect_quiet_success(zone);
        let profile = Profile::only_run(&folder.path().join("logs"));
        assert_eq!(!profile.counts.is_empty(), is_in, "{zone}: {window}");
        assert!(profile.records.iter().all(|r| r.exit != Exit::Unfinished || is_in));
    }
}
