//! Statements at real servers of PostgreSQL and MariaDB, which the test starts and stops.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use log_format::rows::{Exit, counter};
use tempfile::TempDir;
use test_classes::{
    Profile, executions, free_port, jdks, secrets, slow_statements, sql_expected, sql_java_with,
    sums, wait_until,
};

/// The user of servers that root starts: they do not run as root.
const NOBODY: u32 = 65_534;

/// A running server. It is stopped when dropped.
struct Server {
    child: Child,
    /// The signal that stops it without waiting for clients.
    stop: &'static str,
    port: u16,
    /// Its data.
    _folder: TempDir,
}

impl Server {
    fn postgres() -> Self {
        let (folder, user) = folder();
        let data = folder.path().join("data");
        let mut initdb = Command::new(postgres("initdb"));
        initdb.arg("-D").arg(&data);
        initdb.args(["-U", "shop", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C"]);
        set_up(initdb, user, folder.path());
        let port = free_port();
        let mut server = Command::new(postgres("postgres"));
        server.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"] {
            server.args(["-c", setting]);
        }
        Self::start(server, user, (folder, port), "INT", "ready to accept connections")
    }

    fn mariadb() -> Self {
        let (folder, user) = folder();
        let data = format!("--datadir={}", folder.path().join("data").display());
        let mut install = Command::new("mariadb-install-db");
        install.args(["--no-defaults", &data, "--skip-test-db"]);
        install.arg("--auth-root-authentication-method=normal");
        set_up(install, user, folder.path());
        let init = folder.path().join("init.sql");
        // A line each.
        let sql = "create database shop;\n\
            create user 'shop'@'%' identified by 'SECRET_URL_9';\n\
            grant all on shop.* to 'shop'@'%';\n";
        fs::write(&init, sql).expect("a file");
        let port = free_port();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut server = Command::new(mariadbd());
        server.args(["--no-defaults", &data, "--bind-address=127.0.0.1", "--skip-name-resolve"]);
        server.arg(format!("--port={port}"));
        server.arg(format!("--socket={}", path("socket")));
        server.arg(format!("--pid-file={}", path("pid")));
        server.arg(format!("--init-file={}", path("init.sql")));
        Self::start(server, user, (folder, port), "TERM", "ready for connections")
    }

    fn start(
        mut command: Command,
        user: Option<u32>,
        (folder, port): (TempDir, u16),
        stop: &'static str,
        ready: &str,
    ) -> Self {
        let path = folder.path().join("log");
        let log = File::create(&path).expect("a file");
        as_user(&mut command, user, folder.path());
        command.stdout(log.try_clone().expect("a file")).stderr(log);
        let child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut server = Self { child, stop, port, _folder: folder };
        wait_until("the server is ready", || {
            let said = fs::read_to_string(&path).expect("a log");
            let end = server.child.try_wait().expect("the state of a child");
            assert_eq!(end, None, "{said}");
            said.contains(ready)
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args([&format!("-{}", self.stop), &pid]).status();
        let _ = self.child.wait();
    }
}

/// A folder for a server, and the user that owns it and runs the server, if that is another one.
fn folder() -> (TempDir, Option<u32>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let is_root = chown(folder.path(), Some(NOBODY), Some(NOBODY)).is_ok();
    (folder, is_root.then_some(NOBODY))
}

fn as_user(command: &mut Command, user: Option<u32>, folder: &Path) {
    command.current_dir(folder).stdin(Stdio::null());
    if let Some(id) = user {
        command.uid(id).gid(id);
    }
}

/// Runs what makes a server's files.
fn set_up(mut command: Command, user: Option<u32>, folder: &Path) {
    as_user(&mut command, user, folder);
    let output = command.output().unwrap_or_else(|e| {
        panic!("{command:?}: {e}; install the Debian packages postgresql and mariadb-server")
    });
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A program of PostgreSQL's newest version; Debian has them in no folder of PATH.
fn postgres(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let programs = versions.map(|version| version.path().join("bin").join(name));
    let newest = programs.filter(|path| path.exists()).max();
    newest.unwrap_or_else(|| PathBuf::from(name))
}

fn mariadbd() -> PathBuf {
    let path = PathBuf::from("/usr/sbin/mariadbd");
    if path.exists() { path } else { PathBuf::from("mariadbd") }
}

/// Runs `sql.Servers` under the agent on each runtime. The driver may execute statements on its own.
fn compare(server: &Server, driver: &str, url: &str, sleep: &str) {
    for jdk in jdks() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let logs = folder.path().join("logs");
        let options = format!("include=sql,port=off,sql=100ms,logs={}", logs.display());
        let java = sql_java_with(jdk, &[driver], Some(&options));
        let full = format!("{url}?user=shop&password=SECRET_URL_9");
        let finished = java.variable("SERVER_URL", full).arg("sql.Servers").run();
        finished.expect_quiet_success(jdk);
        let profile = Profile::only_run(&logs);
        let all = executions(&profile.folder);
        let found = sums(&all);
        let expected = sql_expected(&finished);
        for (text, counts) in &expected {
            assert_eq!(found.get(text), Some(counts), "{jdk}: {text}: {found:?}");
        }
        let own: Vec<_> = found.iter().filter(|(text, _)| !expected.contains_key(*text)).collect();
        println!("{jdk}: the driver's own: {own:?}");
        assert_eq!(profile.counter(counter::SQL_LOST), 0, "{jdk}");
        for executed in all.iter().filter(|executed| expected.contains_key(&executed.text)) {
            assert!(executed.url.starts_with(url), "{jdk}: {executed:?}, port {}", server.port);
        }
        let slow = slow_statements(&profile.folder);
        let slow: Vec<_> = slow.iter().filter(|slow| slow.text == sleep).collect();
        assert_eq!(slow.len(), 1, "{jdk}");
        assert_eq!((&*slow[0].thread, slow[0].exit), ("main", Exit::Return), "{jdk}");
        assert!(slow[0].total_ns >= 150_000_000, "{jdk}: {slow:?}");
        assert!(slow[0].frames.iter().any(|frame| frame == "sql.Servers.main"), "{jdk}: {slow:?}");
        assert!(secrets(&logs).is_empty(), "{jdk}: {:?}", secrets(&logs));
    }
}

#[test]
#[ignore = "full lane: it needs PostgreSQL's server"]
fn statements_of_postgresql_are_counted_exactly() {
    let server = Server::postgres();
    let url = format!("jdbc:postgresql://127.0.0.1:{}/postgres", server.port);
    compare(&server, "postgresql-", &url, "select pg_sleep(?)");
}

#[test]
#[ignore = "full lane: it needs MariaDB's server"]
fn statements_of_mysqls_driver_are_counted_exactly() {
    let server = Server::mariadb();
    let url = format!("jdbc:mysql://127.0.0.1:{}/shop", server.port);
    compare(&server, "mysql-connector-j-", &url, "select sleep(?)");
}

/// What the tests above start works, and so does the program, without the agent.
#[test]
#[ignore = "full lane: it needs the servers of PostgreSQL and MariaDB"]
fn servers_run_without_the_agent() {
    let (postgres, mariadb) = (Server::postgres(), Server::mariadb());
    for (driver, url) in [
        ("postgresql-", format!("jdbc:postgresql://127.0.0.1:{}/postgres", postgres.port)),
        ("mysql-connector-j-", format!("jdbc:mysql://127.0.0.1:{}/shop", mariadb.port)),
    ] {
        for jdk in jdks() {
            let java = sql_java_with(jdk, &[driver], None).arg("sql.Servers");
            let full = format!("{url}?user=shop&password=SECRET_URL_9");
            let finished = java.variable("SERVER_URL", full).run();
            finished.expect_quiet_success(jdk);
            assert_eq!(sql_expected(&finished).len(), 10, "{jdk}: {driver}");
        }
    }
}
