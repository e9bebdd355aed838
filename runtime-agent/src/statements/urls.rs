//! URLs of databases by number, without secrets.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::writer::one_line;

use super::literals::Dialect;
use crate::jvm::java_strings;

/// More are not told apart.
pub(super) const MOST: usize = 4_000;
/// The longest, in characters.
const LONGEST: usize = 200;
/// Databases in which `"..."` is a name in any mode. Elsewhere it may be a literal.
const WITH_QUOTED_NAMES: [&str; 6] = ["postgresql", "oracle", "h2", "db2", "derby", "hsqldb"];

/// The number of a URL, from 1; 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UrlId(u16);

impl UrlId {
    pub(super) const fn new(number: u16) -> Self {
        Self(number)
    }

    pub(super) const fn get(self) -> u16 {
        self.0
    }

    /// Whether it is not known.
    pub(super) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// By number, from 1.
static URLS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn urls() -> MutexGuard<'static, Vec<String>> {
    URLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of a URL.
///
/// # Safety
/// `url` is a live reference of this thread to a string, or null.
pub(super) unsafe fn number(jni: &JniEnv, url: jni::jstring) -> UrlId {
    // SAFETY: the caller guarantees it.
    let Some(units) = (unsafe { java_strings::units(jni, url) }) else { return UrlId::default() };
    number_of(&without_secrets(&String::from_utf16_lossy(&units)))
}

fn number_of(url: &str) -> UrlId {
    let mut urls = urls();
    let known = urls.iter().position(|known| known == url);
    let index = known.unwrap_or(urls.len());
    if known.is_none() && index < MOST {
        urls.push(url.to_owned());
    }
    let number = u16::try_from(index + 1).ok().filter(|_| index < MOST);
    number.map_or_else(UrlId::default, UrlId)
}

/// The URL with a number; empty if it is not known.
pub(super) fn name(id: UrlId) -> String {
    let index = usize::from(id.get()).checked_sub(1);
    index.and_then(|index| urls().get(index).cloned()).unwrap_or_default()
}

/// How the database at a URL reads texts.
pub(super) fn dialect(id: UrlId) -> Dialect {
    let url = name(id);
    let database = url.strip_prefix("jdbc:").and_then(|url| url.split(':').next());
    let has_names = database.is_some_and(|database| WITH_QUOTED_NAMES.contains(&database));
    Dialect { is_mysql: !has_names, is_sqlite: database == Some("sqlite") }
}

/// A URL without user, password and parameters, in one line.
fn without_secrets(url: &str) -> String {
    const ENDS: [char; 9] = ['?', ';', '#', '(', '=', '&', ',', '|', ' '];
    let scheme = scheme(url);
    let rest = url.get(scheme.len()..).unwrap_or_default();
    let (kept, cut) = rest.split_at(rest.find(ENDS).unwrap_or(rest.len()));
    // A password may have any of these characters. Oracle's may be there without an @.
    let is_oracle = scheme.starts_with("jdbc:oracle:");
    if cut.contains('@') || is_oracle && !kept.contains('@') {
        return format!("{scheme}...");
    }
    let kept = match kept.rfind('@') {
        Some(at) => {
            // `thin:scott/tiger@host`
            let kind = ["thin:", "oci:", "oci8:"].into_iter().find(|kind| kept.starts_with(kind));
            let start = if kept.starts_with("//") { "//" } else { kind.unwrap_or_default() };
            format!("{start}{}", kept.get(at + 1..).unwrap_or_default())
        }
        None => kept.to_owned(),
    };
    // Parameters may follow behind a colon, as DB2 has them: behind that of a port.
    let path = kept.strip_prefix("//").and_then(|rest| rest.find('/')).map(|at| at + 2);
    let end = path.and_then(|path| Some(path + kept.get(path..)?.find(':')?));
    // Else the last name before a value is one of a parameter.
    let end = end.or_else(|| cut.starts_with('=').then(|| kept.rfind([':', '/']).unwrap_or(0)));
    let kept = kept.get(..end.unwrap_or(kept.len())).unwrap_or_default();
    one_line(&format!("{scheme}{kept}")).chars().take(LONGEST).collect()
}

/// `jdbc:mysql:`
fn scheme(url: &str) -> &str {
    let mut end = 0;
    for part in url.split_inclusive(':').take(2) {
        let Some(word) = part.strip_suffix(':') else { break };
        if word.is_empty() || !word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'+') {
            break;
        }
        end += part.len();
    }
    url.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_no_secrets() {
        for (url, expected) in [
            ("jdbc:h2:mem:shop;USER=sa;PASSWORD=x", "jdbc:h2:mem:shop"),
            ("jdbc:h2:mem:", "jdbc:h2:mem:"),
            ("jdbc:sqlite:/data/shop.db", "jdbc:sqlite:/data/shop.db"),
            (
                "jdbc:postgresql://db.example:5432/shop?user=u&password=x",
                "jdbc:postgresql://db.example:5432/shop",
            ),
            ("jdbc:mysql://u:x@db:3306/shop?ssl=true", "jdbc:mysql://db:3306/shop"),
            ("jdbc:mysql://u:x?y@db/shop", "jdbc:mysql:..."),
            ("jdbc:mysql://u:x@y@db/shop", "jdbc:mysql://db/shop"),
            ("jdbc:mysql://u:x/y@db/shop", "jdbc:mysql://db/shop"),
            ("jdbc:mysql://address=(host=db)(password=x)/shop", "jdbc:mysql:/"),
            ("jdbc:mysql://(host=db,password=x)/shop", "jdbc:mysql://"),
            ("jdbc:oracle:thin:scott/tiger@//db:1521/shop", "jdbc:oracle:thin://db:1521/shop"),
            ("jdbc:oracle:thin:scott/ti:ger@db:1521:shop", "jdbc:oracle:thin:db:1521:shop"),
            ("jdbc:db2://db:50000/shop:user=u;password=x;", "jdbc:db2://db:50000/shop"),
            ("jdbc:sqlserver://db:1433;databaseName=shop;password=x", "jdbc:sqlserver://db:1433"),
            ("jdbc:own://u\n:x@db", "jdbc:own://db"),
            ("jdbc:oracle:oci:scott/tiger", "jdbc:oracle:..."),
            ("jdbc:firebirdsql:u:x@db:shop", "jdbc:firebirdsql:db:shop"),
            ("jdbc:foo://h/d:user:x", "jdbc:foo://h/d"),
            ("jdbc:foo://h:1/d|user:u|password:x", "jdbc:foo://h:1/d"),
            ("jdbc:h2:file:C:/data/shop", "jdbc:h2:file:C:/data/shop"),
            ("x", "x"),
            ("", ""),
        ] {
            assert_eq!(without_secrets(url), expected, "{url}");
        }
        assert_eq!(without_secrets(&format!("jdbc:h2:{}", "x".repeat(1_000))).len(), LONGEST);
    }

    #[test]
    fn urls_have_numbers() {
        let number = number_of("jdbc:h2:mem:a");
        assert_eq!(
            (number, name(number)),
            (number_of("jdbc:h2:mem:a"), "jdbc:h2:mem:a".to_owned())
        );
        assert_eq!(dialect(number), Dialect::default());
        assert_eq!(dialect(UrlId::default()), Dialect { is_mysql: true, is_sqlite: false });
        assert_eq!(
            dialect(number_of("jdbc:mariadb://db")),
            Dialect { is_mysql: true, is_sqlite: false }
        );
        for other in 0..MOST + 9 {
            number_of(&format!("jdbc:h2:mem:{other}"));
        }
        assert!(number_of("jdbc:h2:mem:none").is_none());
        assert_eq!(name(UrlId::default()), "");
    }
}
