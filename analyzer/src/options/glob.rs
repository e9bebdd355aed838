//! Patterns for names without structure: of threads, hosts and runs. `*` matches anything, every other character
//! itself.

use std::fmt;

use log_format::error::BadValue;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// `text` is empty: it would match nothing.
    pub fn parse(text: &str) -> Result<Self, BadValue> {
        if text.is_empty() {
            return Err(BadValue::new(text, "is not a pattern like exec-1 or exec-*"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Whether it may be meant for what reports print of a thread, `exec-1 #12`, and not for its name alone.
    #[must_use]
    pub fn has_number(&self) -> bool {
        self.0.contains('#')
    }

    /// Whether the pattern matches all of `name`.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == name };
        let Some(mut name) = name.strip_prefix(first) else { return false };
        let mut parts: Vec<&str> = rest.split('*').collect();
        let last = parts.pop().unwrap_or_default();
        for part in parts {
            // The first place is as good as any: the next star matches the rest.
            let Some((_, after)) = name.split_once(part) else { return false };
            name = after;
        }
        name.ends_with(last)
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, matches) in [
            ("exec-1", "exec-1", true),
            ("exec-1", "exec-12", false),
            ("exec-*", "exec-12", true),
            ("exec-*", "an exec-12", false),
            ("*", "", true),
            ("*-exec-*", "http-8080-exec-1", true),
            ("*-exec-*", "http-8080-exe-1", false),
            ("a*a", "a", false),
            ("a**b*c", "a b b c", true),
            ("*é", "caf\u{e9}", true),
        ] {
            assert_eq!(Glob::parse(pattern).unwrap().matches(name), matches, "{pattern} {name}");
        }
        assert!(Glob::parse("").is_err());
    }
}
