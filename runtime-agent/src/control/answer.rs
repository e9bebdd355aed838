//! An answer in both of its forms.

use std::fmt::Display;

use log_format::file_names::utc_text;
use log_format::writer::one_line;
use serde_json::{Map, Value};

/// An answer in both forms.
#[derive(Debug, Default)]
pub(super) struct Answer {
    text: String,
    json: Map<String, Value>,
}

impl Answer {
    /// Lines that end with `ok`.
    pub(super) fn text(self) -> String {
        self.text + "ok\n"
    }

    /// A line of JSON, and the line `ok`.
    pub(super) fn json(self) -> String {
        format!("{}\nok\n", Value::Object(self.json))
    }

    /// Adds a line of text. Names of the service may have any characters.
    pub(super) fn line(&mut self, key: &str, text: impl Display) {
        self.text += &one_line(&format!("{key}: {text}"));
        self.text.push('\n');
    }

    pub(super) fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_owned(), value.into());
    }

    /// Adds a value that is the same in both forms. In JSON, the key has no spaces.
    pub(super) fn add(&mut self, key: &str, value: impl Display + Into<Value>) {
        self.line(key, &value);
        self.value(&key.replace(' ', "_"), value);
    }

    /// Adds a moment: in JSON, in whole nanoseconds.
    pub(super) fn add_moment(&mut self, key: &str, unix_ns: u64) {
        self.line(key, utc_text(unix_ns));
        self.value(&format!("{key}_ns"), unix_ns);
    }
}

/// Methods and threads shown in text; JSON shows all.
pub(super) const SHOWN: usize = 50;
