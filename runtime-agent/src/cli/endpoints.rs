//! The mapping file: which methods are an endpoint.
//!
//! ```text
//! # name = method or pattern, ...
//! /api/users = com.shop.UserController.list
//! GET:/orders/{id} = com.shop.OrderController.get, com.shop.OrderController.find*
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use log_format::error::{BadValue, FileError};
use log_format::pattern::Pattern;

/// Largest mapping file.
const MAX_BYTES: u64 = 1 << 20;

/// Which methods are an endpoint, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoints {
    methods: BTreeMap<String, Vec<Pattern>>,
}

impl Endpoints {
    /// Reads a mapping file.
    ///
    /// # Errors
    /// The file cannot be read, or which line is wrong: `FILE:LINE: ...`.
    pub fn read(path: &Path) -> Result<Self, BadValue> {
        let of_file = |error: FileError| BadValue::because(error.to_string());
        let read = |path: &Path| -> std::io::Result<String> {
            if fs::metadata(path)?.len() > MAX_BYTES {
                return Err(std::io::Error::other("larger than 1 MB"));
            }
            fs::read_to_string(path)
        };
        let text = read(path).map_err(FileError::at(path)).map_err(of_file)?;
        Self::parse(&text).map_err(|(line, error)| error.of(format!("{}:{line}", path.display())))
    }

    /// Reads lines of a mapping file. An endpoint's name ends at the last `=`.
    ///
    /// # Errors
    /// The number of the first wrong line, and what is wrong.
    pub fn parse(text: &str) -> Result<Self, (usize, BadValue)> {
        let mut endpoints = Self::default();
        // Some editors begin a file with this mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') {
                endpoints.add(line).map_err(|error| (index + 1, error))?;
            }
        }
        Ok(endpoints)
    }

    fn add(&mut self, line: &str) -> Result<(), BadValue> {
        let (name, methods) = line
            .rsplit_once('=')
            .ok_or_else(|| BadValue::because("not NAME = METHOD[, METHOD ...]"))?;
        let name = name.trim();
        let methods = methods.split(',').map(|method| Pattern::parse(method.trim()));
        let methods = methods.collect::<Result<Vec<Pattern>, BadValue>>()?;
        if name.is_empty() {
            return Err(BadValue::because("no name before ="));
        }
        match self.methods.insert(name.to_owned(), methods) {
            None => Ok(()),
            Some(_) => Err(BadValue::because(format!("{name} is there twice"))),
        }
    }

    /// The methods of an endpoint, if it is in the file.
    #[must_use]
    pub fn methods(&self, endpoint: &str) -> Option<&[Pattern]> {
        self.methods.get(endpoint).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_methods() {
        let text = "\u{feff}# shop\n\n/api/users = com.shop.UserController.list\n\
                    GET:/a?x=1 = com.shop.A.a,com.shop.B.*\r\n";
        let endpoints = Endpoints::parse(text).unwrap();
        let of = |name| {
            let methods = endpoints.methods(name)?;
            Some(methods.iter().map(Pattern::as_str).collect::<Vec<_>>())
        };
        assert_eq!(of("/api/users"), Some(vec!["com.shop.UserController.list"]));
        assert_eq!(of("GET:/a?x=1"), Some(vec!["com.shop.A.a", "com.shop.B.*"]));
        assert_eq!(of("/api"), None);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (text, line, message) in [
            ("a = b.C.d\n/api\n", 2, "not NAME = METHOD[, METHOD ...]"),
            ("= b.C.d", 1, "no name before ="),
            ("a = b/C", 1, "'b/C' is not a pattern"),
            ("a = b.C.d\n\na = b.C.e", 3, "a is there twice"),
            ("a =", 1, ""),
        ] {
            let (at, error) = Endpoints::parse(text).unwrap_err();
            assert_eq!(at, line);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error = Endpoints::read(Path::new("/nonexistent/endpoints")).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/endpoints: "), "{error}");
    }
}
