//! URLs of databases by number, without secrets.
#![allow(unsafe_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use jvmti_bindings::env::JniEnv;
use jvmti_bindings::prelude::jni;
use log_format::writer::one_line;

use super::literals::Dialect;
use crate::jvm::java_strings;

/// More are not told apart.
const MOST: usize = 255;
/// The longest, in characters.
const LONGEST: usize = 200;
/// Databases in which `"..."` is a name in any mode. Elsewhere it may be a literal.
const WITH_QUOTED_NAMES: [&str; 6] = ["postgresql", "oracle", "h2", "db2", "derby", "hsqldb"];

/// The number of a URL, from 1; 0 if it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct UrlId(u8);

impl UrlId {
    pub(super) const fn new(number: u8) -> Self {
        Self(number)
    }

    pub(super) const fn get(self) -> u8 {
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
    u8::try_from(index + 1).map_or_else(|_| UrlId::default(), UrlId)
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
    Dialect { is_mysql: !has_names }
}

/// A URL without user, password and parameters, in one line.
fn without_secrets(url: &str) -> String {
    let scheme = scheme(url);
    let rest = url.get(scheme.len()..).unwrap_or_default();
    let end = rest.find(['?', ';', '#', '(', '=', '&', ',']).unwrap_or(rest.len());
    let (kept, cut) = rest.split_at(end);
    // A parameter behind a colon, as DB2 has them: only its name is left of it.
    let kept = if cut.starts_with('=') {
        kept.rfind([':', '/']).and_then(|at| kept.get(..at)).unwrap_or_default()
    } else {
        kept
    };
    // A password may have any of these characters.
    if cut.contains('@') {
        return format!("{scheme}...");
    }
    let kept = match kept.rfind('@') {
        Some(at) => {
            let slashes = if kept.starts_with("//") { "//" } else { "" };
            format!("{slashes}{}", kept.get(at + 1..).unwrap_or_default())
        }
        None => kept.to_owned(),
    };
    one_line(&format!("{scheme}{kept}")).chars().take(LONGEST).collect()
}

/// `jdbc:mysql:`, `jdbc:oracle:thin:`.
fn scheme(url: &str) -> &str {
    let mut end = 0;
    for part in url.split_inclusive(':').take(3) {
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
        assert_eq!(dialect(number), Dialect { is_mysql: false });
        assert_eq!(dialect(UrlId::default()), Dialect { is_mysql: true });
        assert_eq!(dialect(number_of("jdbc:mariadb://db")), Dialect { is_mysql: true });
        for other in 0..300 {
            number_of(&format!("jdbc:h2:mem:{other}"));
        }
        assert!(number_of("jdbc:h2:mem:none").is_none());
        assert_eq!(name(UrlId::default()), "");
    }
}
