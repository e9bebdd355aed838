//! What the agent does if another user has put something in the place of a folder or file.

use std::fmt;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

use rustix::fs::{XattrFlags, fsetxattr, mkfifoat};
use rustix::process::getegid;

use super::*;

const NOBODY: u32 = 65_534;

/// The attribute in which a folder keeps the default access rights of new files and folders in it.
const DEFAULT_ACL: &str = "system.posix_acl_default";

fn open(path: &Path) -> LogFolder {
    LogFolder::open(path, None).unwrap()
}

fn run(logs: &LogFolder) -> RunFolder {
    logs.make_run(|attempt| format!("run-{attempt}")).unwrap()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Why something is not used.
fn refusal<T: fmt::Debug>(result: io::Result<T>) -> Refusal {
    let error = result.unwrap_err();
    *error.get_ref().and_then(|e| e.downcast_ref()).unwrap_or_else(|| panic!("{error}"))
}

fn open_in(folder: &Path, name: &str, contents: Contents) -> io::Result<OwnedFd> {
    let parent = openat(CWD, folder, FOUND, Mode::empty()).unwrap();
    open_made(&parent, OsStr::new(name), Access::default(), contents)
}

/// A group that this process may give files to.
fn group() -> u32 {
    if geteuid().is_root() { 4_711 } else { getegid().as_raw() }
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o777);
    let logs = open(&folder.path().join("a/b/../logs"));
    let run = run(&logs);
    run.create("run.json").unwrap().write_all(b"{}").unwrap();
    run.append("t.csv").unwrap();
    assert_eq!(mode(folder.path()), 0o777);
    for (path, expected) in [
        ("a", 0o700),
        ("a/b", 0o700),
        ("a/logs", 0o700),
        ("a/logs/run-1", 0o700),
        ("a/logs/run-1/run.json", 0o600),
        ("a/logs/run-1/t.csv", 0o600),
    ] {
        assert_eq!(mode(folder.path().join(path)), expected, "{path}");
    }
}

#[test]
fn a_group_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let group = group();
    // Give NOBODY and all groups rights to whatever is created below.
    let entry = |tag: u16, rights: u16, id: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let acl = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 7, u32::MAX),
        entry(0x02, 7, NOBODY),
        entry(0x04, 7, u32::MAX),
        entry(0x10, 7, u32::MAX),
        entry(0x20, 7, u32::MAX),
    ];
    let parent = File::open(folder.path()).unwrap();
    let has_acls = fsetxattr(&parent, DEFAULT_ACL, &acl.concat(), XattrFlags::empty()).is_ok();
    let path = folder.path().join("logs");
    let logs = LogFolder::open(&path, Some(&group.to_string())).unwrap();
    logs.check().unwrap();
    let run = run(&logs);
    run.create("run.json").unwrap();
    run.append("t.csv").unwrap();
    // A file that somebody has put back.
    set_mode(&path.join("run-1/t.csv"), 0o666);
    run.append("t.csv").unwrap();
    let files = [("", 0o750), ("run-1", 0o750), ("run-1/run.json", 0o640), ("run-1/t.csv", 0o640)];
    for (name, expected) in files {
        let path = path.join(name);
        assert_eq!((mode(&path), fs::metadata(&path).unwrap().gid()), (expected, group), "{name}");
        let mut names = [0_u8; 256];
        let length = rustix::fs::listxattr(&path, &mut names[..]).unwrap_or(0);
        let names = String::from_utf8_lossy(&names[..length]).into_owned();
        assert!(!names.contains("posix_acl"), "{name}: {names}, {has_acls}");
    }
}

#[test]
fn the_given_path_may_have_symlinks_and_what_is_there_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    set_mode(&elsewhere, 0o1777);
    symlink("elsewhere", folder.path().join("logs")).unwrap();
    run(&open(&folder.path().join("logs")));
    assert_eq!((mode(&elsewhere), mode(elsewhere.join("run-1"))), (0o1777, 0o700));
    fs::write(folder.path().join("file"), "mine").unwrap();
    symlink("nowhere", folder.path().join("dangling")).unwrap();
    for (name, message) in [
        ("file", "Not a directory (os error 20)"),
        ("file/below", "Not a directory (os error 20)"),
        ("dangling", "No such file or directory (os error 2)"),
    ] {
        let path = folder.path().join(name);
        let expected = format!("logs: {}: {message}", path.display());
        assert_eq!(LogFolder::open(&path, None).unwrap_err().to_string(), expected);
    }
    let error = LogFolder::open(&elsewhere, Some("no-such-group")).unwrap_err().to_string();
    assert_eq!(error, "log_group: no group 'no-such-group' in /etc/group; give its number");
}

#[test]
fn a_run_takes_a_free_name_and_follows_no_symlink() {
    let folder = tempfile::tempdir().unwrap();
    let logs = open(folder.path());
    fs::create_dir(folder.path().join("run-1")).unwrap();
    fs::create_dir(folder.path().join("theirs")).unwrap();
    symlink("theirs", folder.path().join("run-2")).unwrap();
    symlink("nowhere", folder.path().join("run-3")).unwrap();
    fs::write(folder.path().join("run-4"), "").unwrap();
    assert_eq!(run(&logs).path(), folder.path().join("run-5"));
    assert_eq!(refusal(logs.make_run(|_| "run-1".to_owned())), Refusal::TooManyRuns);
}

#[test]
fn a_folder_that_is_not_the_new_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = |name: &str, contents| refusal(open_in(folder.path(), name, contents));
    fs::create_dir(path("open")).unwrap();
    set_mode(&path("open"), 0o755);
    assert_eq!(refused("open", Contents::None), Refusal::Mode(0o755));
    set_mode(&path("open"), 0o710);
    assert_eq!(refused("open", Contents::OfOtherRuns), Refusal::Mode(0o710));
    fs::create_dir(path("full")).unwrap();
    set_mode(&path("full"), 0o700);
    fs::write(path("full/t.csv"), "").unwrap();
    assert_eq!(refused("full", Contents::None), Refusal::NotEmpty);
    assert!(open_in(folder.path(), "full", Contents::OfOtherRuns).is_ok());
    // A folder of another user.
    let (parent, name, owner) = if geteuid().is_root() {
        fs::create_dir(path("theirs")).unwrap();
        set_mode(&path("theirs"), 0o700);
        chown(path("theirs"), Some(NOBODY), None).unwrap();
        (folder.path(), "theirs", NOBODY)
    } else {
        (Path::new("/"), "usr", 0)
    };
    assert_eq!(refusal(open_in(parent, name, Contents::None)), Refusal::Owner(owner));
    symlink("full", path("link")).unwrap();
    fs::write(path("file"), "").unwrap();
    for name in ["link", "file", "absent"] {
        assert!(open_in(folder.path(), name, Contents::OfOtherRuns).is_err(), "{name}");
    }
}

#[test]
fn only_an_own_file_with_one_name_is_appended_to() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&open(folder.path()));
    let path = |name: &str| run.path().join(name);
    let target = folder.path().join("target");
    fs::write(&target, "mine").unwrap();

    symlink(&target, path("link")).unwrap();
    symlink("nowhere", path("dangling")).unwrap();
    for name in ["link", "dangling"] {
        assert_eq!(refusal(run.append(name)), Refusal::NotAFile);
        assert_eq!(refusal(run.read(name)), Refusal::NotAFile);
    }
    fs::hard_link(&target, path("other name")).unwrap();
    assert_eq!(refusal(run.append("other name")), Refusal::Links(2));
    assert!(run.read("other name").is_ok());
    fs::create_dir(path("folder")).unwrap();
    assert!(run.append("folder").is_err());
    assert_eq!(refusal(run.read("folder")), Refusal::NotAFile);
    // Opening a pipe must not wait for its other end.
    mkfifoat(&run.folder, "pipe", OWN_FILE).unwrap();
    assert!(run.append("pipe").is_err());
    let reader = openat(&run.folder, "pipe", OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
    assert_eq!(refusal(run.append("pipe")), Refusal::NotAFile);
    drop(reader);
    assert_eq!(refusal(run.read("pipe")), Refusal::NotAFile);
    if geteuid().is_root() {
        fs::write(path("theirs"), "").unwrap();
        chown(path("theirs"), Some(NOBODY), None).unwrap();
        assert_eq!(refusal(run.append("theirs")), Refusal::Owner(NOBODY));
    }
    assert!(!folder.path().join("nowhere").exists() && !run.path().join("nowhere").exists());

    let (mut file, is_new) = run.append("t.csv").unwrap();
    assert!(is_new);
    file.write_all(b"one\n").unwrap();
    set_mode(&path("t.csv"), 0o666);
    let (mut file, is_new) = run.append("t.csv").unwrap();
    assert!(!is_new);
    file.write_all(b"two\n").unwrap();
    assert_eq!(fs::read_to_string(path("t.csv")).unwrap(), "one\ntwo\n");
    assert_eq!(mode(path("t.csv")), 0o600);
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
}

#[test]
fn a_new_file_takes_the_place_of_a_symlink() {
    let folder = tempfile::tempdir().unwrap();
    let run = run(&open(folder.path()));
    let target = folder.path().join("target");
    fs::write(&target, "mine").unwrap();
    for name in ["run.json", "run.json.new"] {
        symlink(&target, run.path().join(name)).unwrap();
    }
    run.create("run.json.new").unwrap().write_all(b"{}").unwrap();
    run.rename("run.json.new", "run.json").unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), "mine");
    assert_eq!(fs::read_to_string(run.path().join("run.json")).unwrap(), "{}");
    assert!(run.has("run.json") && !run.has("run.json.new"));
    symlink("nowhere", run.path().join("link")).unwrap();
    assert!(run.has("link"));
    run.remove("link").unwrap();
    assert!(!run.has("link"));
    // Something that is no file is not replaced.
    fs::create_dir(run.path().join("folder")).unwrap();
    assert!(run.create("folder").is_err());
}

#[test]
fn a_renamed_folder_is_used_on_even_if_another_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut logs = open(&path("logs"));
    let run = run(&logs);
    fs::rename(path("logs/run-1"), path("logs/mine")).unwrap();
    fs::rename(path("logs"), path("away")).unwrap();
    fs::create_dir_all(path("theirs/run-1")).unwrap();
    symlink("theirs", path("logs")).unwrap();
    assert!(!run.is_deleted());
    logs.make_again().unwrap();
    run.append("t.csv").unwrap().0.write_all(b"row\n").unwrap();
    run.create("run.json.new").unwrap();
    run.rename("run.json.new", "run.json").unwrap();
    logs.make_run(|_| "run-2".to_owned()).unwrap();
    assert_eq!(fs::read_to_string(path("away/mine/t.csv")).unwrap(), "row\n");
    assert!(path("away/mine/run.json").exists() && path("away/run-2").exists());
    assert_eq!(fs::read_dir(path("theirs/run-1")).unwrap().count(), 0);
}

#[test]
fn a_deleted_folder_is_made_again_by_its_own_name_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut logs = open(&path("a/logs"));
    let old = run(&logs);
    fs::remove_dir_all(path("a/logs")).unwrap();
    assert!(old.is_deleted());
    assert_eq!(old.append("t.csv").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(logs.make_run(|_| "run-1".to_owned()).unwrap_err().kind(), ErrorKind::NotFound);
    logs.make_again().unwrap();
    assert!(!run(&logs).is_deleted());
    assert_eq!((mode(path("a/logs")), mode(path("a/logs/run-1"))), (0o700, 0o700));

    // Something else has the name.
    fs::remove_dir_all(path("a/logs")).unwrap();
    fs::create_dir(path("theirs")).unwrap();
    symlink("../theirs", path("a/logs")).unwrap();
    assert_eq!(refusal(logs.make_again()), Refusal::Taken);
    fs::remove_file(path("a/logs")).unwrap();
    fs::create_dir(path("a/logs")).unwrap();
    assert_eq!(refusal(logs.make_again()), Refusal::Taken);
    assert_eq!(fs::read_dir(path("theirs")).unwrap().count(), 0);
    fs::remove_dir(path("a/logs")).unwrap();
    logs.make_again().unwrap();

    // Another JVM of this user was faster.
    fs::remove_dir_all(path("a/logs")).unwrap();
    let mut other = LogFolder::open(&path("a/logs"), None).unwrap();
    logs.make_again().unwrap();
    other.make_again().unwrap();
    logs.make_run(|_| "run".to_owned()).unwrap();
    assert!(path("a/logs/run").is_dir());

    // The containing folder is not created again, nor is another folder of its name used.
    fs::remove_dir_all(path("a")).unwrap();
    fs::create_dir(path("a")).unwrap();
    assert_eq!(refusal(logs.make_again()), Refusal::NoPlace);
    assert_eq!(fs::read_dir(path("a")).unwrap().count(), 0);
}
